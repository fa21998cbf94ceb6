#include "simulator/names.h"

namespace skep::simulator {

std::string_view OutcomeName(aggregator::Outcome outcome) {
  switch (outcome) {
    case aggregator::Outcome::kOk:
      return "ok";
    case aggregator::Outcome::kRejected:
      return "rejected";
    case aggregator::Outcome::kFailed:
      return "failed";
    case aggregator::Outcome::kDropped:
      return "dropped";
    case aggregator::Outcome::kLate:
      return "late";
  }
  return "failed";
}

aggregator::Outcome OutcomeOf(std::string_view name) {
  using aggregator::Outcome;
  for (const Outcome outcome :
       {Outcome::kOk, Outcome::kRejected, Outcome::kDropped, Outcome::kLate}) {
    if (OutcomeName(outcome) == name) return outcome;
  }
  return Outcome::kFailed;
}

std::string_view NoteLevelName(NoteLevel level) {
  switch (level) {
    case NoteLevel::kInfo:
      return "info";
    case NoteLevel::kWarning:
      return "warning";
    case NoteLevel::kError:
      return "error";
  }
  return "error";
}

NoteLevel NoteLevelOf(std::string_view name) {
  if (name == "info") return NoteLevel::kInfo;
  return name == "warning" ? NoteLevel::kWarning : NoteLevel::kError;
}

std::string_view EndStateName(EndState state) {
  switch (state) {
    case EndState::kFinished:
      return "finished";
    case EndState::kStopped:
      return "stopped";
    case EndState::kInterrupted:
      return "interrupted";
    case EndState::kFailed:
      return "failed";
  }
  return "failed";
}

std::string ClientName(ClientNumber number, const std::string& owner) {
  return "client " + (owner.empty() ? std::to_string(number) : owner);
}

std::string_view ShortMetricName(std::string_view name) {
  const auto slash = name.find('/');
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}

}  // namespace skep::simulator
