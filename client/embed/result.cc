#include "client/embed/result.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>

namespace skep::embed {
namespace {

constexpr std::uint32_t kErrorPause = 60;  // s; faults of the device or of its application

// Codes from `first` to `last`; the first row that fits decides.
struct Row {
  int first;
  int last;
  skep_status status;
};
constexpr std::array kRows{
    Row{2219, 2219, SKEP_NO_WORK},      Row{6203, 6203, SKEP_NO_WORK},
    Row{7401, 7401, SKEP_NOT_ELIGIBLE}, Row{7402, 7404, SKEP_NO_WORK},
    Row{7405, 7405, SKEP_E_STORAGE},    Row{7406, 7406, SKEP_E_TRAINER},
    Row{7407, 7407, SKEP_CANCELLED},    Row{7408, 7411, SKEP_LIMIT},
    Row{7413, 7413, SKEP_NO_WORK},      Row{7414, 7414, SKEP_E_DATA},
    Row{7001, 7099, SKEP_E_ARGUMENT},   Row{7101, 7149, SKEP_E_DATA},
    Row{7150, 7199, SKEP_E_TRAINER},    Row{7200, 7299, SKEP_E_TRAINER},
    Row{2100, 2299, SKEP_REJECTED},     Row{3404, 3405, SKEP_E_NETWORK},
    Row{3001, 3099, SKEP_E_NETWORK},    Row{3101, 3199, SKEP_E_AUTH},
    Row{3200, 3499, SKEP_E_PROTOCOL},   Row{4002, 4002, SKEP_E_BUSY},
    Row{4001, 4099, SKEP_E_STORAGE},    Row{5000, 5199, SKEP_E_STORAGE},
    Row{1010, 1010, SKEP_E_STORAGE},    Row{9002, 9002, SKEP_E_MEMORY},
};

// The peer's pause is in `retry_after`; faults on this side make their own.
bool NeedsPause(skep_status status) {
  return status == SKEP_E_DATA || status == SKEP_E_TRAINER || status == SKEP_E_STORAGE ||
         status == SKEP_E_MEMORY || status == SKEP_E_INTERNAL;
}

}  // namespace

skep_status StatusOfCode(int code) {
  if (code == 0) return SKEP_NO_WORK;
  for (const Row& row : kRows) {
    if (code >= row.first && code <= row.last) return row.status;
  }
  return SKEP_E_INTERNAL;
}

void SetMessage(skep_outcome& outcome, std::string_view message) {
  std::size_t length = std::min(message.size(), sizeof outcome.message - 1);
  constexpr unsigned kContinues = 0x80;  // of UTF-8: the first two bits are 10
  while (length > 0 && length < message.size() &&
         (static_cast<unsigned char>(message[length]) & 0xC0U) == kContinues) {
    --length;
  }
  std::memset(outcome.message, 0, sizeof outcome.message);
  std::memcpy(outcome.message, message.data(), length);
}

skep_outcome OutcomeOf(const agent::Outcome& from) {
  skep_outcome outcome{};
  outcome.struct_size = sizeof outcome;
  outcome.code = from.code;
  outcome.status = StatusOfCode(from.code);
  if (from.has_contributed) {
    outcome.status = SKEP_OK;
    outcome.code = 0;
  } else if (from.was_cancelled) {
    outcome.status = SKEP_CANCELLED;
    outcome.code = 7407;
  } else if (from.is_late && from.code == 0) {
    outcome.status = SKEP_LIMIT;
    outcome.code = 7410;
  } else if (from.was_refused) {
    outcome.status = SKEP_REJECTED;
  }
  // Rounded up: not sooner.
  const auto seconds =
      std::chrono::ceil<std::chrono::seconds>(std::max(from.retry_after, Nanoseconds{})).count();
  outcome.retry_after_s = static_cast<std::uint32_t>(
      std::min<std::int64_t>(seconds, std::numeric_limits<std::uint32_t>::max()));
  if (outcome.status == SKEP_CANCELLED) outcome.retry_after_s = 0;
  if (NeedsPause(outcome.status)) {
    outcome.retry_after_s = std::max(outcome.retry_after_s, kErrorPause);
  }
  outcome.round = from.round;
  outcome.num_examples = from.examples;
  outcome.bytes_down = from.bytes_down;
  outcome.bytes_up = from.bytes_up;
  SetMessage(outcome, from.why);
  return outcome;
}

skep_outcome OutcomeOf(const Error& why) {
  skep_outcome outcome = OutcomeOf(agent::Outcome{.code = why.code, .why = why.message});
  const bool is_misuse = outcome.status == SKEP_E_ARGUMENT || outcome.status == SKEP_E_BUSY;
  if (!why.hint.empty()) SetMessage(outcome, why.message + "; " + why.hint);
  if (is_misuse) outcome.retry_after_s = 0;
  return outcome;
}

}  // namespace skep::embed
