// Selecting: Polls are held until a cohort can be drawn. Leaves for Opening by one of the three
// cases of section 7.1; a client evaluation that nobody waits for ends empty.
#include <algorithm>
#include <utility>

#include "aggregator/engine/machine.h"

namespace skep::aggregator {
namespace {

constexpr std::uint64_t kBytesPerValue = 4;

}  // namespace

void Machine::EnterSelecting(Run& run, const AttemptKey& key) {
  const RunSpec& spec = *run.spec;
  const bool is_evaluation = key.kind == TaskKind::kEvaluate;
  Selecting selecting{.key = key};
  selecting.invited = is_evaluation ? spec.evaluation.client_eval_clients : spec.training.invited;
  selecting.min_reports = is_evaluation ? 1 : spec.training.min_reports;
  selecting.window_ends = now_.steady + spec.training.selection_window;
  if (!is_evaluation && key.attempt == 1) run.round_began = now_.steady;
  Enter(run, selecting);
  Count(run, std::get<Selecting>(run.phase));
  dirty_.insert(run.population());
  if (is_draining_) return;
  alarms_.Set({AlarmKind::kWindow, spec.id}, selecting.window_ends);
  out_.push_back(Emit{SelectionOpened{key}});
}

// Afresh: also takes in those whose separation has passed since.
void Machine::Count(Run& run, Selecting& selecting) {
  selecting.candidates = 0;
  selecting.held = 0;
  run.counted_at = now_.wall;
  Population& population = roster_.InPopulation(run.population());
  for (const auto& [client, device] : population.members) {
    if (!IsCandidate(run, selecting.key, *device, client)) continue;
    ++selecting.candidates;
    if (population.held.count(client) != 0) ++selecting.held;
  }
}

bool Machine::IsSeparated(const Run& run, ClientNumber client, WallMs at) {
  if (run.spec->training.min_separation.count() == 0) return true;
  const auto last = run.contributions.find(client);
  if (last == run.contributions.end()) return true;
  const auto least = std::chrono::duration_cast<Milliseconds>(run.spec->training.min_separation);
  return last->second.at + static_cast<WallMs>(least.count()) <= at;
}

bool Machine::Fits(const RunSpec& spec, TaskKind kind, const wire::Poll& poll) {
  const auto has = [](const auto& list, auto value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  if (!has(poll.task_kinds, static_cast<wire::TaskKind>(kind))) return false;
  const model::Layout& layout = *spec.model.layout();
  if (poll.max_model_bytes < layout.model_values() * kBytesPerValue) return false;
  return kind == TaskKind::kEvaluate ||
         (has(poll.encodings, wire::Encoding::kF32) &&
          poll.max_update_bytes >= layout.update_values() * kBytesPerValue);
}

// Present and not excluded: waited for.
bool Machine::IsCandidate(const Run& run, const AttemptKey& key, const Device& device,
                          ClientNumber client) const {
  if (device.presence != Presence::kPresent || device.live > 0) return false;
  if (key.kind == TaskKind::kTrain && !IsSeparated(run, client, run.counted_at)) return false;
  const Session* session = roster_.SessionOf(device);
  const bool is_held_here =
      session != nullptr && session->is_held && session->poll.population == run.population();
  return !is_held_here || Fits(*run.spec, key.kind, session->poll);
}

void Machine::TrySelect(Run& run) {
  auto* selecting = std::get_if<Selecting>(&run.phase);
  if (selecting == nullptr || run.state != RunState::kRunning || is_draining_) return;
  if (selecting->held == 0) return;
  const std::uint32_t active = roster_.InPopulation(run.population()).active;
  const bool are_all_held = selecting->held == selecting->candidates;
  const bool are_enough =
      selecting->held >= selecting->invited ||
      (selecting->candidates == active && selecting->held >= selecting->min_reports);
  const bool is_large =
      !HoldsEverybody(config_, {.active = active, .invited = selecting->invited, .period = {}});
  if ((are_all_held && are_enough) ||
      (is_large && selecting->held >= HeldWithHeadroom(config_, selecting->invited))) {
    DrawHeld(run);
  }
}

void Machine::EndWindow(Run& run) {
  auto* selecting = std::get_if<Selecting>(&run.phase);
  if (selecting == nullptr || is_draining_) return;
  Count(run, *selecting);
  if (selecting->held >= selecting->min_reports) return DrawHeld(run);
  if (selecting->key.kind == TaskKind::kEvaluate) {
    return EndEmptyEvaluation(run, AttemptKey(selecting->key));
  }
  selecting->window_ends = now_.steady + run.spec->training.selection_window;
  alarms_.Set({AlarmKind::kWindow, run.spec->id}, selecting->window_ends);
  out_.push_back(Emit{SelectionOpened{selecting->key}});
}

void Machine::DrawHeld(Run& run) {
  const Selecting selecting = std::get<Selecting>(run.phase);
  Population& population = roster_.InPopulation(run.population());
  std::vector<ClientNumber> eligible;
  eligible.reserve(population.held.size());
  for (const auto& [client, session] : population.held) {
    if (IsCandidate(run, selecting.key, *session->device, client)) eligible.push_back(client);
  }
  std::unique_ptr<Attempt> attempt = MakeAttempt(run, selecting.key);
  attempt->draw.emplace(run.spec->seed, selecting.key, std::move(eligible));
  // No longer Selecting while the devices change, so that nothing is counted or drawn twice.
  Enter(run, Opening{});
  while (attempt->assignments.size() < selecting.invited) {
    const auto client = attempt->draw->Next();
    if (!client) break;
    Session& session = *population.held.at(*client);
    Device& device = *session.device;
    const Place place = attempt->Add(device.id, *client);
    attempt->assignments[place].session = session.number;
    Change(device, [&] {
      roster_.Release(session);
      ++device.live;
    });
  }
  // The others stay held where the population is small enough to hold them all.
  if (!HoldsEverybody(config_, DemandOf(population.name))) {
    for (const auto& [client, session] : std::map<ClientNumber, Session*>(population.held)) {
      Session& other = *session;
      Change(*other.device, [&] { roster_.Release(other); });
      AnswerNotNow(other, population.name, wire::ComeBackReason::kRoundFull);
    }
  }
  Open(run, std::move(attempt));
}

void Machine::On(Eligible& eligible) {
  const auto runs = by_population_.find(eligible.population);
  if (runs == by_population_.end() || is_draining_) return;
  for (Run* run : runs->second) {
    auto* selecting = std::get_if<Selecting>(&run->phase);
    if (selecting == nullptr || run->state != RunState::kRunning) continue;
    const Selecting chosen = *selecting;
    const auto there = static_cast<std::uint32_t>(eligible.clients.size());
    if (there < chosen.min_reports) {
      selecting->held = there;
      return;
    }
    std::unique_ptr<Attempt> attempt = MakeAttempt(*run, chosen.key);
    attempt->is_simulated = true;
    attempt->draw.emplace(run->spec->seed, chosen.key, std::move(eligible.clients));
    Enter(*run, Opening{});
    while (attempt->assignments.size() < chosen.invited) {
      const auto client = attempt->draw->Next();
      if (!client) break;
      const Device& device = roster_.Simulated(*client, eligible.population);
      const Place place = attempt->Add(device.id, *client);
      attempt->assignments[place].session = *device.session;
    }
    return Open(*run, std::move(attempt));
  }
}

}  // namespace skep::aggregator
