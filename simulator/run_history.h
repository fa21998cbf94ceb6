// RunHistory: all that run.db tells about one run, in the shape that reports need.
//
// Plain values; any thread. Source: docs/formats.md (run.db).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "simulator/records.h"

namespace skep::simulator {

struct HistorySetting {
  std::string key;
  std::string value;
  std::string source;  // "default", "experiment.toml:18", "--set", "derived"
};

struct MetricPoint {
  std::uint32_t round = 0;
  std::optional<double> value;
  std::optional<std::uint32_t> clients;
};

struct ClientHistory {
  ClientNumber number = 0;
  std::string name;
  std::uint64_t examples = 0;
  std::uint64_t test_examples = 0;
  std::map<std::string, std::uint64_t> labels;  // training examples per class
  std::uint64_t started = 0;
  std::uint64_t ok = 0;
};

// How often a SKEP number ended a client's turn, with the first such message.
struct CodeCount {
  int code = 0;
  std::string outcome;
  std::uint64_t count = 0;
  std::uint32_t first_round = 0;
  std::string first_client;
  std::string message;
};

struct RunHistory {
  std::string run_id;
  std::string name;
  std::string state;
  std::uint64_t seed = 0;
  std::string config_sha256;
  std::string data_sha256;
  std::string config_toml;
  std::string result_sha256;  // empty while running
  std::string version;
  std::string command;
  std::string device;
  std::string isa;
  std::uint64_t jobs = 0;
  std::uint32_t rounds_planned = 0;
  std::uint64_t model_parameters = 0;
  std::string started_at;  // UTC
  std::optional<double> wall_s;
  std::optional<int> code;
  std::string message;

  std::vector<HistorySetting> settings;                     // by key
  std::vector<RoundRecord> rounds;                          // every attempt, without metrics
  std::map<std::string, std::vector<MetricPoint>> metrics;  // published rounds, in order
  std::vector<ClientHistory> clients;                       // by number
  std::map<std::string, std::map<ClientNumber, double>> client_metrics;  // of the last evaluation
  std::uint32_t client_metrics_round = 0;
  std::vector<CodeCount> codes;  // commonest first
  std::vector<NoteRecord> notes;

  // The value of an effective key as TOML, or empty.
  [[nodiscard]] std::string Setting(const std::string& key) const;
};

}  // namespace skep::simulator
