// States as the words that stand in the database.
//
// Called by the SQLite store alone. Words are never renamed: outside readers see them.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "aggregator/store/registry.h"
#include "aggregator/store/store.h"

namespace skep::aggregator {

// In the order of the enumerators.
inline constexpr std::array<std::string_view, 4> kRoundStates{"open", "closing", "published",
                                                              "abandoned"};
inline constexpr std::array<std::string_view, 5> kRunStates{"running", "paused", "stopped",
                                                            "finished", "halted"};
inline constexpr std::array<std::string_view, 3> kDeviceStates{"active", "quarantined", "revoked"};
inline constexpr std::array<std::string_view, 7> kAssignmentStates{
    "offered", "accepted", "acknowledged", "refused", "declined", "failed", "expired"};
inline constexpr std::array<std::string_view, 3> kCertificateStates{"live", "superseded",
                                                                    "revoked"};

inline std::string_view Word(RoundState state) {
  return kRoundStates[static_cast<std::size_t>(state)];
}
inline std::string_view Word(RunState state) {
  return kRunStates[static_cast<std::size_t>(state)];
}
inline std::string_view Word(DeviceState state) {
  return kDeviceStates[static_cast<std::size_t>(state)];
}
inline std::string_view Word(AssignmentState state) {
  return kAssignmentStates[static_cast<std::size_t>(state)];
}
inline std::string_view Word(CertificateState state) {
  return kCertificateStates[static_cast<std::size_t>(state)];
}

// SKEP-4006: a word that no version of this program wrote.
template <class State, std::size_t kCount>
[[nodiscard]] Result<State> FromWord(const std::array<std::string_view, kCount>& words,
                                     const std::string& word) {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (words[i] == word) return static_cast<State>(i);
  }
  return Error{4006, "the database is damaged: unknown state \"" + word + "\"", "restore a backup"};
}

}  // namespace skep::aggregator
