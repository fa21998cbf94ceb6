#include "aggregator/server/server_session.h"

#include <utility>

namespace skep::aggregator {

ServerSession::ServerSession(SessionNumber number, SessionHost& host, Link& link, Visitor visitor,
                             const SessionRules& rules)
    : number_(number),
      host_(host),
      link_(link),
      visitor_(std::move(visitor)),
      machine_(number, rules, host.Time()) {}

void ServerSession::Do(SessionOutputs outputs) {
  for (SessionOutput& output : outputs) DoOne(output);
  if (!has_ended_) host_.Changed(*this);
}

void ServerSession::DoOne(SessionOutput& output) {
  if (auto* send = std::get_if<SendFrame>(&output)) {
    // A peer that does not read is cut off: nothing could be said to it either.
    Status queued = link_.Send(std::move(send->frame));
    if (!queued) {
      end_code_ = queued.error().code;
      link_.Abort(std::move(queued).error());
    }
  } else if (auto* tell = std::get_if<TellEngine>(&output)) {
    host_.Tell(std::move(tell->input));
  } else if (auto* greet = std::get_if<Greet>(&output)) {
    software_ = greet->software;
    host_.Join(*this, *greet);
  } else if (auto* plan = std::get_if<aggregator::FindPlan>(&output)) {
    host_.FindPlan(*this, plan->plan);
  } else if (auto* offer = std::get_if<OfferUpload>(&output)) {
    host_.Offer(*this, std::move(offer->begin));
  } else if (auto* body = std::get_if<TakeBody>(&output)) {
    host_.TakeBody(*this, std::move(*body));
  } else if (auto* drop = std::get_if<DropBody>(&output)) {
    host_.DropBody(drop->upload);
  } else if (auto* model = std::get_if<FindModel>(&output)) {
    host_.FindModel(*this, *model);
  } else if (auto* model_to_send = std::get_if<SendModel>(&output)) {
    const auto found = found_.find(model_to_send->transfer.id);
    link_.SendModel(model_to_send->transfer, std::move(found->second));
    found_.erase(found);
  } else if (auto* stop = std::get_if<StopModel>(&output)) {
    link_.StopModel(stop->transfer_id);
  } else if (auto* renew = std::get_if<RenewCertificate>(&output)) {
    host_.Renew(*this, std::move(renew->csr));
  } else if (auto* end = std::get_if<EndSession>(&output)) {
    end_code_ = end->code;
    link_.Close();
  }
}

void ServerSession::OnFrame(wire::Frame frame) {
  Do(machine_.OnFrame(host_.Time(), std::move(frame)));
}

void ServerSession::OnBytes(const FrameProgress& progress) {
  machine_.OnBytes(host_.Time(), progress);
  Do({});
}

void ServerSession::OnRefused(int code) {
  Do(machine_.OnRefused(host_.Time(), code));
}

void ServerSession::OnReading(bool is_reading) {
  machine_.SetReading(host_.Time(), is_reading);
  Do({});
}

void ServerSession::OnModelSent(std::uint32_t transfer_id) {
  machine_.DownloadSent(host_.Time(), transfer_id);
  Do({});
}

void ServerSession::OnModelStopped(std::uint32_t transfer_id) {
  Do(machine_.DownloadStopped(host_.Time(), transfer_id));
}

void ServerSession::OnEnded(const Error& why) {
  has_ended_ = true;
  if (end_code_ == 0 && machine_.state() != SessionMachine::State::kClosing) {
    end_code_ = why.code;
  }
  host_.Ended(*this, why);  // and this is no more
}

void ServerSession::FromEngine(Output output) {
  Do(machine_.OnEngine(host_.Time(), std::move(output)));
}

void ServerSession::Welcome(const SessionId& id, Nanoseconds reconnect_spread) {
  SessionOutputs outputs = machine_.Welcome(host_.Time(), id, reconnect_spread);
  is_joined_ = !outputs.empty();
  Do(std::move(outputs));
}

void ServerSession::Refuse(int code) {
  Do(machine_.Refuse(host_.Time(), code));
}

void ServerSession::PlanFound(const Hash32& plan, const std::optional<Bytes>& bytes) {
  Do(machine_.SendPlan(host_.Time(), plan, bytes));
}

void ServerSession::ModelFound(std::uint32_t transfer_id, const model::ParamsPtr& params,
                               int code) {
  if (!params) return Do(machine_.RefuseDownload(host_.Time(), transfer_id, code));
  ModelBytes bytes = BytesOf(params);
  const std::uint64_t size = bytes.bytes.size();
  found_[transfer_id] = std::move(bytes);
  Do(machine_.BeginDownload(host_.Time(), transfer_id, size));
  found_.erase(transfer_id);
}

void ServerSession::Renewed(const Result<wire::RenewResult>& result) {
  Do(machine_.Renewed(host_.Time(), result));
}

void ServerSession::Drain() {
  Do(machine_.Drain(host_.Time()));
}

void ServerSession::OnDeadline() {
  Do(machine_.OnDeadline(host_.Time()));
}

}  // namespace skep::aggregator
