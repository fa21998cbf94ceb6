// Phases of a run as values: what it is doing and what that needs.
//
// Selecting -> Opening -> Collecting -> Publishing -> Evaluating -> Selecting of the next round;
// Collecting or Publishing -> Failed (attempt abandoned) -> Selecting with attempt + 1; any ->
// Stopped. A client evaluation takes the same way with its own kind and ends after Collecting. One
// .cc file a phase.
// Source: Skep protocol 1.0, sections 7 and 18.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "aggregator/engine/attempt.h"

namespace skep::aggregator {

// Holds Polls until a cohort can be drawn.
struct Selecting {
  AttemptKey key;
  std::uint32_t invited = 0;  // N
  std::uint32_t min_reports = 0;
  SteadyTime window_ends{};
  std::uint32_t candidates = 0;  // present devices that are not excluded
  std::uint32_t held = 0;        // of these, held
};

// The cohort is drawn; its manifest is being signed, then its row (T1) written. No offer yet.
struct Opening {
  std::unique_ptr<Attempt> attempt;
  bool is_signed = false;
};

// Tasks are out, updates come in.
struct Collecting {
  std::unique_ptr<Attempt> attempt;
  std::optional<CloseReason> closing;  // no new uploads; those that have arrived finish
};

// The set of updates is fixed: they are added up, the next model is made and written.
struct Publishing {
  std::unique_ptr<Attempt> attempt;
  enum class Step { kClosing, kFolding, kFinishing, kCommitting } step = Step::kClosing;
  Hash32 model_out;
  std::uint64_t total_weight = 0;
  std::vector<Metric> metrics;
};

// The attempt is being abandoned (T6).
struct Failed {
  std::unique_ptr<Attempt> attempt;
  int code = 0;
  std::string reason;
  RunState next_state = RunState::kRunning;  // as the transaction says
};

// A published round's model is being evaluated, or that evaluation is being written (T7).
struct Evaluating {
  AttemptKey key;
  std::unique_ptr<Attempt> attempt;  // of a client evaluation
  std::vector<Metric> metrics;
  bool is_committing = false;
};

// Paused, stopped, finished or halted: see the run's state.
struct Stopped {};

using Phase = std::variant<Selecting, Opening, Collecting, Publishing, Failed, Evaluating, Stopped>;

}  // namespace skep::aggregator
