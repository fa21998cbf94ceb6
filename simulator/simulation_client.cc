// What the simulation does for the virtual clients.
#include "shared/base/check.h"
#include "shared/model/parts.h"
#include "shared/wire/codec.h"
#include "simulator/simulation_impl.h"

namespace skep::simulator {

using aggregator::RoundEngine;

// A turn begins where a real client's held Poll is answered: connected and polling.
Simulation::Impl::Turn& Simulation::Impl::StartTurn(ClientNumber client,
                                                    const wire::TaskOffer& offer) {
  EndTurn(client);
  const SharedRound& shared = Shared(offer);
  const wire::Manifest manifest = wire::DecodeManifest(offer.manifest.payload).value();
  Turn& turn = turns_[client];
  turn.key = {.run = manifest.run_id,
              .round = manifest.round,
              .kind = manifest.kind,
              .attempt = manifest.attempt};
  turn.started = now_.steady;
  const VirtualClient::Identity identity{.number = client,
                                         .run_seed = setup_.spec->seed,
                                         .round = manifest.round,
                                         .attempt = manifest.attempt};
  turn.client =
      std::make_unique<VirtualClient>(identity, setup_.spec->population, local_[client], shared);
  if (manifest.kind == wire::TaskKind::kTrain) {
    turn.drop_out = devices_.DrawDropOut(client, manifest.round, manifest.attempt);
  }
  wire::HelloAck ack;
  ack.epoch = manifest.epoch;
  ack.clock_ms = now_.wall;
  ack.federation_id = manifest.federation_id;
  ack.chunk_bytes = 262'144;
  // Its Poll is what Eligible stood for.
  (void)turn.client->session().Step(now_, client::Connected{.ack = std::move(ack)});
  return turn;
}

// The plan and the model of the offer, decoded once for all clients that get the same.
SharedRound& Simulation::Impl::Shared(const wire::TaskOffer& offer) {
  const wire::Manifest manifest = wire::DecodeManifest(offer.manifest.payload).value();
  if (shared_.plan_hash != manifest.plan_sha256) {
    const wire::Plan plan = aggregator::PlanForRound(*setup_.spec, manifest.round);
    shared_.plan = std::make_shared<const wire::Plan>(plan);
    shared_.plan_hash = manifest.plan_sha256;
  }
  if (shared_.model.sha256 != manifest.model_sha256) {
    const model::ParamsPtr params = models_.Model(manifest.model_sha256).value();
    shared_.model = {.bytes = std::make_shared<const Bytes>(
                         model::TakePart(*params->layout(), model::Part::kModel, params->values())),
                     .sha256 = manifest.model_sha256};
  }
  return shared_;
}

void Simulation::Impl::StepClient(Turn& turn, client::Input input) {
  const ClientNumber number = turn.client->number();
  const VirtualClient* const same = turn.client.get();
  client::Outputs outputs = turn.client->session().Step(now_, std::move(input));
  for (client::Output& output : outputs) {
    // An earlier output may have ended the turn.
    const auto found = turns_.find(number);
    if (found == turns_.end() || found->second.client.get() != same) return;
    Turn& current = found->second;
    if (auto* send = std::get_if<client::Send>(&output)) {
      Do(current, *send);
    } else if (auto* start = std::get_if<client::StartTraining>(&output)) {
      Do(current, *start);
    } else if (auto* body = std::get_if<client::SendBody>(&output)) {
      Do(current, *body);
    } else if (auto* arm = std::get_if<client::ArmTimer>(&output)) {
      Do(current, *arm);
    } else if (auto* stop = std::get_if<client::StopTraining>(&output)) {
      Do(current, *stop);
    } else if (auto* note = std::get_if<client::Note>(&output)) {
      if (note->kind == client::Note::Kind::kProblem) current.problem = std::move(note->text);
    }
    // Persist, Reconnect and Finished: a virtual client keeps nothing between turns but tensors of
    // its own (OnTrainingDue).
  }
}

void Simulation::Impl::Do(Turn& turn, client::Send& send) {
  const aggregator::SessionNumber session = RoundEngine::SimulatedSession(turn.client->number());
  if (auto* begin = std::get_if<wire::UploadBegin>(&send.message)) {
    if (turn.drop_out && turn.drop_out->phase == DropOutPhase::kUpload) {
      const Nanoseconds whole = devices_.UploadTime(turn.client->number(), begin->size);
      const auto share = Nanoseconds(
          static_cast<Nanoseconds::rep>(static_cast<double>(whole.count()) * turn.drop_out->share));
      events_.Push(now_.steady + share, EventKind::kVanished, turn.client->number(),
                   VanishDue{.client = turn.client->number()});
      return;
    }
    StepEngine(
        aggregator::UploadOffered{.session = session, .begin = std::move(*begin), .prior = {}});
    return;
  }
  const bool is_for_engine = std::holds_alternative<wire::TaskAccept>(send.message) ||
                             std::holds_alternative<wire::TaskDecline>(send.message) ||
                             std::holds_alternative<wire::TaskFailed>(send.message) ||
                             std::holds_alternative<wire::Progress>(send.message);
  if (is_for_engine) {
    StepEngine(aggregator::ClientMessage{.session = session, .body = std::move(send.message)});
  }
}

void Simulation::Impl::Do(Turn& turn, client::StartTraining& start) {
  const ClientNumber number = turn.client->number();
  const client::LocalData& data = turn.client->data();
  const bool trains = start.manifest.kind == wire::TaskKind::kTrain;
  const Nanoseconds download = devices_.DownloadTime(number, start.model.bytes->size());
  turn.bytes_down = start.model.bytes->size();
  log_.AddTraffic(0, turn.bytes_down);
  Nanoseconds training{};
  if (trains) {
    const std::uint64_t passes =
        start.plan->local_epochs > 0
            ? std::uint64_t{start.plan->local_epochs} * data.train.size()
            : std::uint64_t{start.plan->local_steps} * start.plan->batch_size;
    training = devices_.TrainTime(number, start.manifest.round, passes);
  }
  if (turn.drop_out && turn.drop_out->phase != DropOutPhase::kUpload) {
    const auto share = Nanoseconds(static_cast<Nanoseconds::rep>(
        static_cast<double>(training.count()) * turn.drop_out->share));
    events_.Push(now_.steady + download + share, EventKind::kVanished, number,
                 VanishDue{.client = number});
    return;
  }
  const EventKey key = events_.Push(now_.steady + download + training, EventKind::kTrainingDone,
                                    number, TrainingDue{.client = number});
  turn.training = key;
  const auto own = own_.find(number);
  if (own != own_.end()) start.own = own->second.states.GoOnFrom(start.last_included);
  tasks_.Add(key, std::move(start), data);
}

void Simulation::Impl::Do(Turn& turn, client::SendBody& send) {
  const auto found = turn.upload ? uploads_.find(*turn.upload) : uploads_.end();
  if (found == uploads_.end()) return;
  const ClientNumber number = turn.client->number();
  bodies_.Put(found->first, send.body.bytes);
  turn.bytes_up = send.body.bytes->size();
  log_.AddTraffic(turn.bytes_up, 0);
  found->second.arrival =
      events_.Push(now_.steady + devices_.UploadTime(number, turn.bytes_up),
                   EventKind::kUploadArrived, number, UploadDue{.upload = found->first});
}

void Simulation::Impl::Do(Turn& turn, client::ArmTimer& arm) {
  const ClientNumber number = turn.client->number();
  turn.timers[arm.timer] = events_.Push(now_.steady + arm.after, EventKind::kClientTimer, number,
                                        ClientTimer{.client = number, .timer = arm.timer});
}

void Simulation::Impl::Do(Turn& turn, client::StopTraining&) {
  if (!turn.training) return;
  tasks_.Drop(*turn.training);
  events_.Remove(*turn.training);
  turn.training.reset();
}

void Simulation::Impl::EndTurn(ClientNumber client) {
  const auto found = turns_.find(client);
  if (found == turns_.end()) return;
  Turn& turn = found->second;
  if (turn.training) {
    tasks_.Drop(*turn.training);
    events_.Remove(*turn.training);
  }
  for (const auto& [id, key] : turn.timers) events_.Remove(key);
  turns_.erase(found);
}

void Simulation::Impl::OnTrainingDue(ClientNumber client) {
  const auto found = turns_.find(client);
  if (found == turns_.end()) return;
  Turn& turn = found->second;
  const SteadyTime before = ReadClock().steady;
  std::optional<TaskResult> result = tasks_.Take(*turn.training, [&] { return Tick(client); });
  log_.phases().train += Seconds(ReadClock().steady - before);
  turn.training.reset();
  if (!result) return;  // a stop was asked for; the loop sees it
  // The CPU would go on with other last bits: a run is of one device, and goes on from its
  // checkpoint.
  if (result->device_failure) {
    Fail(result->device_failure->code, result->device_failure->message);
    return;
  }
  turn.result = std::move(*result);
  client::TrainingDone done{.update = std::move(turn.result.update)};
  if (done.update.has_value()) {
    done.update->id = turn.client->NewUpdateId();
    if (done.update->own != nullptr) own_[client].states.Keep(done.update->id, done.update->own);
  }
  StepClient(turn, std::move(done));
}

void Simulation::Impl::OnUploadDue(aggregator::UploadNumber upload) {
  const auto found = uploads_.find(upload);
  if (found == uploads_.end()) return;
  const UploadInFlight in_flight = found->second;
  uploads_.erase(found);
  aggregator::UploadFinished finished;
  finished.upload = upload;
  const auto turn = turns_.find(in_flight.client);
  if (turn != turns_.end()) {
    const aggregator::Inspection& inspection = turn->second.result.inspection;
    finished.code = inspection.code;
    finished.norm = inspection.norm;
    finished.detail = inspection.detail;
    StepClient(turn->second, client::BodySent{.transfer_id = in_flight.transfer_id});
  }
  if (finished.code != 0) bodies_.Forget(upload);
  StepEngine(std::move(finished));
}

}  // namespace skep::simulator
