// Attempt: one opened round (or client evaluation), its cohort and what has come back.
//
// Shared by the phases from the draw to the end of the attempt; passes from one to the next. Part
// of the engine; one thread. Source: Skep protocol 1.0, sections 7.1 and 7.2.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "aggregator/engine/admission.h"
#include "aggregator/engine/cohort.h"
#include "aggregator/engine/events.h"

namespace skep::aggregator {

struct Assignment {
  DeviceId device;
  ClientNumber client = 0;
  AssignmentState state = AssignmentState::kOffered;
  int code = 0;
  SessionNumber session = 0;      // where to answer; 0 before the first
  std::uint32_t transfer_id = 0;  // of the upload that is being answered
  bool is_committed = false;      // its row is durable: an offer may go out
  bool is_started = false;
  bool is_inspecting = false;  // the whole body is here and being inspected
  bool is_settling = false;    // it was admitted and its row is being committed
  bool is_replaced = false;    // its place went to another client
  SteadyTime offered_until{};
  SteadyTime last_contact{};
  UploadNumber upload = 0;  // in progress; 0 = none
  UpdateRow update;         // once settling

  [[nodiscard]] bool IsLive() const {
    return state == AssignmentState::kOffered || state == AssignmentState::kAccepted;
  }
  // The whole report is here: a close waits for what becomes of it.
  [[nodiscard]] bool HasArrived() const { return is_inspecting || is_settling; }
};

using Place = std::uint32_t;  // index of an assignment in its attempt

// Why an attempt stopped taking reports.
enum class CloseReason { kComplete, kNobodyLeft, kDeadline };

struct Attempt {
  AttemptKey key;
  std::string population;
  RoundRow row;
  Bytes plan;  // until the row is committed
  Hash32 plan_hash;
  UploadTerms terms;
  std::vector<std::string> metric_names;
  std::uint32_t invited = 0;  // N: reports that fit in the sum
  std::uint32_t wanted = 0;   // m: closes at so many
  std::uint32_t min_reports = 0;

  std::vector<Assignment> assignments;  // cohort in the order of the draw, then replacements
  std::unordered_map<ClientNumber, Place> by_client;
  std::optional<CohortDraw> draw;  // order of the replacements; none after a restart
  bool is_simulated = false;       // drawn from Eligible

  SteadyTime opened{};
  SteadyTime deadline{};
  std::uint32_t live = 0;
  std::uint32_t inspecting = 0;
  std::uint32_t settling = 0;
  std::uint32_t acknowledged = 0;
  std::uint32_t open_places = 0;
  AttemptCounts counts;
  std::map<int, std::pair<std::uint32_t, ClientNumber>> failures;  // number: how often, an example
  std::deque<std::pair<SteadyTime, Place>> offers;                 // by expiry
  // Started devices by the time at which their silence is too long.
  using Lease = std::pair<SteadyTime, Place>;
  std::priority_queue<Lease, std::vector<Lease>, std::greater<>> leases;

  std::vector<UpdateRow> to_fold;
  bool is_folding = false;

  [[nodiscard]] bool IsEvaluation() const { return key.kind == TaskKind::kEvaluate; }
  [[nodiscard]] Assignment* Find(ClientNumber client) {
    const auto place = by_client.find(client);
    return place == by_client.end() ? nullptr : &assignments[place->second];
  }
  // Adds a live assignment; precondition: the client has none in this attempt.
  Place Add(const DeviceId& device, ClientNumber client) {
    const auto place = static_cast<Place>(assignments.size());
    assignments.push_back({});
    assignments.back().device = device;
    assignments.back().client = client;
    by_client[client] = place;
    ++live;
    ++counts.invited;
    return place;
  }
};

[[nodiscard]] inline wire::TaskRef RefOf(const AttemptKey& key) {
  return {.run_id = key.run,
          .round = key.round,
          .attempt = key.attempt,
          .kind = static_cast<wire::TaskKind>(key.kind)};
}
[[nodiscard]] inline AttemptKey KeyOf(const wire::TaskRef& task) {
  return {.run = task.run_id,
          .round = task.round,
          .kind = static_cast<TaskKind>(task.kind),
          .attempt = task.attempt};
}

}  // namespace skep::aggregator
