// FileSource: the data of client.toml as the library wants them: by task, in epochs and batches.
//
// Reads them when a task is offered, by the plan's specification, and keeps them for tasks with the
// same one. Called by the library, on the thread of the run; throws nothing. Source: Skep client
// library, section 6.
#pragma once

#include <skep/skep.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/local_data.h"
#include "shared/config/client_config.h"
#include "shared/data/data_spec.h"

namespace skep::cli {

// The plan's DataSpec from the task text `data.spec`; nothing for "". SKEP-7414 if it is no such
// object.
[[nodiscard]] Result<std::optional<data::DataSpec>> ReadDataSpec(std::string_view json);

class FileSource {
 public:
  // Told what people should know of the data: SKEP-nnnn or 0, and a sentence.
  using Teller = std::function<void(int code, const std::string& text)>;
  FileSource(config::ClientConfig config, Teller tell)
      : config_(std::move(config)), tell_(std::move(tell)) {}

  // For the library; points to this object.
  [[nodiscard]] skep_data_source functions();

 private:
  // What was read, and for which plans.
  struct Loaded {
    std::string spec;
    ClientNumber client = 0;
    std::uint32_t text_length = 0;
    Result<LocalData> data;
  };
  [[nodiscard]] std::int64_t Count(const skep_task* task);
  [[nodiscard]] skep_status Rewind(const skep_task* task, std::uint64_t seed);
  void Next(std::size_t max_rows, skep_batch& out);
  [[nodiscard]] const Result<LocalData>& Load(const skep_task* task);
  [[nodiscard]] Result<LocalData> Read(std::string_view spec, ClientNumber client,
                                       std::uint32_t text_length) const;

  config::ClientConfig config_;
  Teller tell_;
  std::optional<Loaded> loaded_;
  std::vector<std::uint32_t> order_;  // of the epoch
  std::size_t position_ = 0;
  std::vector<float> x_;
  std::vector<std::int32_t> labels_;
  std::vector<std::int64_t> y_;
};

}  // namespace skep::cli
