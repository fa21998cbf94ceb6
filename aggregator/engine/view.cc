// What `status` prints: every waiting run says what it waits for, and since when.
#include <fmt/format.h>

#include "aggregator/engine/machine.h"

namespace skep::aggregator {
namespace {

// Calls one of several functions by the type of what it is given.
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

const Attempt* AttemptOf(const Phase& phase) {
  return std::visit(
      [](const auto& value) -> const Attempt* {
        if constexpr (requires { value.attempt; }) {
          return value.attempt.get();
        } else {
          return nullptr;
        }
      },
      phase);
}

std::string NameOf(const Phase& phase) {
  return std::visit(Overloaded{
                        [](const Selecting&) { return "selecting"; },
                        [](const Opening&) { return "opening"; },
                        [](const Collecting&) { return "collecting"; },
                        [](const Publishing&) { return "publishing"; },
                        [](const Failed&) { return "failed"; },
                        [](const Evaluating&) { return "evaluating"; },
                        [](const Stopped&) { return "stopped"; },
                    },
                    phase);
}

std::string StepText(const Publishing& publishing) {
  switch (publishing.step) {
    case Publishing::Step::kClosing:
      return "writing that the round is closed";
    case Publishing::Step::kFolding:
      return "adding up the updates";
    case Publishing::Step::kFinishing:
      return "making the model";
    case Publishing::Step::kCommitting:
      return "writing the published round";
  }
  return {};
}

std::string CollectingText(const Collecting& collecting) {
  const Attempt& attempt = *collecting.attempt;
  if (collecting.closing && attempt.inspecting > 0) {
    return fmt::format("inspecting {} updates, writing {}", attempt.inspecting, attempt.settling);
  }
  if (collecting.closing) return fmt::format("writing {} updates", attempt.settling);
  return fmt::format("waiting for reports: {} of {} are in, {} clients at work",
                     attempt.acknowledged, attempt.wanted, attempt.live);
}

}  // namespace

std::string Machine::WaitingFor(const Run& run) const {
  return std::visit(
      Overloaded{
          [&](const Selecting& selecting) {
            if (is_draining_) return std::string("draining: no new rounds");
            return fmt::format("waiting for devices: {} of {} held, {} present", selecting.held,
                               selecting.invited, selecting.candidates);
          },
          [](const Opening& opening) {
            return std::string(opening.is_signed ? "writing the round's record"
                                                 : "signing the manifest");
          },
          [](const Collecting& collecting) { return CollectingText(collecting); },
          [](const Publishing& publishing) { return StepText(publishing); },
          [](const Failed&) { return std::string("writing that the attempt is abandoned"); },
          [](const Evaluating& evaluating) {
            return std::string(evaluating.is_committing ? "writing the evaluation"
                                                        : "evaluating on the test data");
          },
          [&](const Stopped&) { return run.reason; },
      },
      run.phase);
}

RunView Machine::View(const Run& run) const {
  RunView view;
  view.id = run.spec->id;
  view.name = run.spec->name;
  view.population = run.population();
  view.state = run.state;
  view.code = run.code;
  view.reason = run.reason;
  view.attempt = {run.spec->id, run.next_round, TaskKind::kTrain, run.next_attempt};
  view.phase = NameOf(run.phase);
  view.waiting_for = WaitingFor(run);
  view.waiting_since = run.since;
  if (HasUnwritten(run)) {
    view.waiting_for = fmt::format("waiting for the store: {} (SKEP-{})", outage_->error.message,
                                   outage_->error.code);
    view.waiting_since = outage_->since;
  }
  view.reports_wanted = run.spec->training.clients_per_round;
  view.min_reports = run.spec->training.min_reports;
  view.rounds = run.spec->training.rounds;
  view.model = run.model;
  view.last_metrics = run.last_metrics;
  if (const auto* selecting = std::get_if<Selecting>(&run.phase)) {
    view.attempt = selecting->key;
    view.closes_at = selecting->window_ends;
  }
  if (const Attempt* attempt = AttemptOf(run.phase)) {
    view.attempt = attempt->key;
    view.counts = attempt->counts;
    view.reports_wanted = attempt->wanted;
    view.min_reports = attempt->min_reports;
    view.closes_at = attempt->deadline;
  }
  return view;
}

std::vector<RunView> Machine::Runs() const {
  std::vector<RunView> views;
  views.reserve(runs_.size());
  for (const auto& [id, run] : runs_) views.push_back(View(*run));
  return views;
}

}  // namespace skep::aggregator
