// Runs begin, rest and end: start, pause, resume, stop.
#include <algorithm>
#include <utility>

#include "aggregator/engine/machine.h"

namespace skep::aggregator {

Run::Run(std::shared_ptr<const RunSpec> the_spec)
    : spec(std::move(the_spec)),
      model(spec->initial_model),
      tracker(spec->stop),
      periods(spec->training.selection_window + spec->training.report_deadline) {
  const auto& tensors = spec->model.layout()->tensors();
  keeps_contributions = spec->training.min_separation.count() > 0 ||
                        std::any_of(tensors.begin(), tensors.end(), [](const auto& tensor) {
                          return tensor.role == model::Role::kPrivate;
                        });
}

Run& Machine::Adopt(std::shared_ptr<const RunSpec> spec) {
  const RunId id = spec->id;
  auto& slot = runs_[id];
  slot = std::make_unique<Run>(std::move(spec));
  by_population_[slot->population()].push_back(slot.get());
  return *slot;
}

void Machine::On(StartRun& start) {
  if (runs_.count(start.spec->id) != 0) return;
  // Asked for twice with one request key: the run that exists is the answer.
  const bool is_known = std::any_of(runs_.begin(), runs_.end(), [&](const auto& entry) {
    return !start.request_key.empty() && entry.second->request_key == start.request_key;
  });
  if (is_known) return;
  Run& run = Adopt(std::move(start.spec));
  run.request_key = start.request_key;
  Enter(run, Stopped{});
  if (!RefreshPlan(run, 1)) return;
  RunRow row;
  row.id = run.spec->id;
  row.name = run.spec->name;
  row.population = run.population();
  row.experiment_toml = std::move(start.experiment_toml);
  row.seed = run.spec->seed;
  row.plan = run.plan;
  row.model = run.model;
  row.scale = run.spec->scale;
  row.request_key = run.request_key;
  Commit(JobKind::kStart, {.run = run.spec->id}, StartRunTx{std::move(row)});
}

// A run whose first row was refused never was.
void Machine::Forget(Run& run) {
  auto& runs = by_population_[run.population()];
  runs.erase(std::remove(runs.begin(), runs.end(), &run), runs.end());
  runs_.erase(RunId(run.spec->id));
}

void Machine::OnStarted(Run& run) {
  if (run.state != RunState::kRunning || !std::holds_alternative<Stopped>(run.phase)) return;
  GoOn(run);
}

void Machine::On(ControlRun& control) {
  Run* run = FindRun(control.run);
  if (run == nullptr || run->IsOver()) return;
  using Action = ControlRun::Action;
  if (control.action == Action::kResume) {
    run->wish = Wish::kNone;
    if (run->state == RunState::kPaused && std::holds_alternative<Stopped>(run->phase)) {
      run->abandoned_in_a_row = 0;
      ChangeState(*run, RunState::kRunning, 0, "");
    }
    return;
  }
  const Wish wish = control.action == Action::kPause  ? Wish::kPause
                    : control.action == Action::kStop ? Wish::kStop
                                                      : Wish::kStopNow;
  run->wish = std::max(run->wish, wish);  // a stop is not undone by a later pause
  StopOpenAttempt(*run);
}

// Does what was asked for if nothing is open, or if it must not wait.
void Machine::StopOpenAttempt(Run& run) {
  if (run.state == RunState::kPaused) {
    if (run.wish != Wish::kPause) {
      ChangeState(run, RunState::kStopped, 0, "stopped by the operator");
    }
    return;
  }
  if (std::holds_alternative<Selecting>(run.phase)) {
    alarms_.Clear({AlarmKind::kWindow, run.spec->id});
    return ChangeState(
        run, run.wish == Wish::kPause ? RunState::kPaused : RunState::kStopped, 0,
        run.wish == Wish::kPause ? "paused by the operator" : "stopped by the operator");
  }
  auto* collecting = std::get_if<Collecting>(&run.phase);
  if (run.wish != Wish::kStopNow || collecting == nullptr) return;
  Abandon(run, std::move(collecting->attempt), 0, "stopped by the operator");
}

void Machine::ChangeState(Run& run, RunState state, int code, std::string reason) {
  alarms_.Clear({AlarmKind::kWindow, run.spec->id});
  for (const AlarmKind kind : {AlarmKind::kDeadline, AlarmKind::kOffers, AlarmKind::kLeases}) {
    alarms_.Clear({kind, run.spec->id});
  }
  run.state = state;
  run.code = code;
  run.reason = reason;
  Enter(run, Stopped{});
  Commit(JobKind::kChange, {.run = run.spec->id},
         ChangeRunTx{run.spec->id, state, code, std::move(reason)});
}

void Machine::OnChanged(Run& run) {
  if (!std::holds_alternative<Stopped>(run.phase)) return;
  if (run.state != RunState::kRunning) return EnterStopped(run);
  // Resumed. A pause may have come between the last round and its client evaluation.
  const std::uint32_t before = run.next_round - 1;
  if (before == 0 || !Ends(run, before)) return GoOn(run);
  if (!IsClientDue(run, before)) return RoundDone(run, before);
  EnterSelecting(run, {run.spec->id, before, TaskKind::kEvaluate, 1});
}

// The state is durable: says so, and lets go of the population where the run is over.
void Machine::EnterStopped(Run& run) {
  Enter(run, Stopped{});
  run.wish = Wish::kNone;
  if (run.IsOver()) {
    auto& runs = by_population_[run.population()];
    runs.erase(std::remove(runs.begin(), runs.end(), &run), runs.end());
    run.plan.clear();
  }
  out_.push_back(Emit{RunEnded{run.spec->id, run.state, run.code, run.reason}});
}

}  // namespace skep::aggregator
