#include "client/agent/work.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <system_error>

#include <fmt/format.h>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "client/agent/json_object.h"
#include "shared/base/file.h"
#include "shared/base/sha256.h"
#include "shared/base/try.h"

namespace skep::agent {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::uint64_t kLargestJson = std::uint64_t{64} * 1024;
constexpr std::uint64_t kAny32 = std::numeric_limits<std::uint32_t>::max();

std::string NameOf(const wire::TaskRef& task) {
  return fmt::format("{}-{}-{}-{}", task.run_id.Hex(), task.round,
                     static_cast<std::uint32_t>(task.kind), task.attempt);
}

std::string FolderOf(const Storage& storage, const wire::TaskRef& task) {
  return storage.Path("work/" + NameOf(task));
}

// The value as text: the shortest that reads back to the same bits.
json::array MetricsJson(const std::vector<wire::MetricValue>& metrics) {
  json::array array;
  for (const wire::MetricValue& metric : metrics) {
    array.push_back({{"id", metric.id}, {"value", fmt::format("{}", metric.value)}});
  }
  return array;
}

Result<std::vector<wire::MetricValue>> ReadMetrics(const JsonObject& fields) {
  SKEP_ASSIGN(const std::vector<JsonObject> items, fields.Objects("metrics"));
  std::vector<wire::MetricValue> metrics;
  for (const JsonObject& item : items) {
    wire::MetricValue metric;
    SKEP_ASSIGN(const std::uint64_t id, item.Whole("id", kAny32));
    SKEP_ASSIGN(const std::string text, item.Text("value"));
    metric.id = static_cast<std::uint32_t>(id);
    const auto [end, failure] =
        std::from_chars(text.data(), text.data() + text.size(), metric.value);
    if (failure != std::errc() || end != text.data() + text.size()) return item.Damaged("value");
    metrics.push_back(metric);
  }
  return metrics;
}

json::object UpdateJson(const client::PendingUpdate& update) {
  return {{"schema", 1},
          {"run", update.task.run_id.Hex()},
          {"round", update.task.round},
          {"attempt", update.task.attempt},
          {"kind", static_cast<std::uint32_t>(update.task.kind)},
          {"id", update.id.Hex()},
          {"size", update.body.bytes->size()},
          {"sha256", update.body.sha256.Hex()},
          {"encoding", static_cast<std::uint32_t>(update.encoding)},
          {"layout", update.layout.Hex()},
          {"model", update.model.Hex()},
          {"weight", update.weight},
          {"train_ms", update.train_ms},
          {"metrics", MetricsJson(update.metrics)}};
}

Result<std::uint32_t> Number(const JsonObject& fields, std::string_view key) {
  SKEP_ASSIGN(const std::uint64_t number, fields.Whole(key, kAny32));
  return static_cast<std::uint32_t>(number);
}

Result<client::PendingUpdate> ReadUpdate(const std::string& folder) {
  SKEP_ASSIGN(const JsonObject fields, JsonObject::Read(folder + "/update.json", kLargestJson));
  client::PendingUpdate update;
  SKEP_ASSIGN(update.task.run_id, fields.IdOf<RunId>("run"));
  SKEP_ASSIGN(update.task.round, Number(fields, "round"));
  SKEP_ASSIGN(update.task.attempt, Number(fields, "attempt"));
  SKEP_ASSIGN(const std::uint32_t kind, Number(fields, "kind"));
  update.task.kind = static_cast<wire::TaskKind>(kind);
  SKEP_ASSIGN(update.id, fields.IdOf<UpdateId>("id"));
  SKEP_ASSIGN(const std::uint32_t size, Number(fields, "size"));
  SKEP_ASSIGN(update.body.sha256, fields.IdOf<Hash32>("sha256"));
  SKEP_ASSIGN(const std::uint32_t encoding, Number(fields, "encoding"));
  update.encoding = static_cast<wire::Encoding>(encoding);
  SKEP_ASSIGN(update.layout, fields.IdOf<Hash32>("layout"));
  SKEP_ASSIGN(update.model, fields.IdOf<Hash32>("model"));
  SKEP_ASSIGN(update.weight, Number(fields, "weight"));
  SKEP_ASSIGN(update.train_ms, Number(fields, "train_ms"));
  SKEP_ASSIGN(update.metrics, ReadMetrics(fields));
  SKEP_ASSIGN(Bytes body, ReadFile(folder + "/update.bin", size, 1010));
  if (body.size() != size || Sha256::Of(body) != update.body.sha256) {
    return fields.Damaged("sha256");
  }
  if (fs::path(folder).filename() != NameOf(update.task)) return fields.Damaged("run");
  update.body.bytes = std::make_shared<const Bytes>(std::move(body));
  return update;
}

}  // namespace

Status StoreUpdate(const Storage& storage, const client::PendingUpdate& update) {
  const std::string folder = FolderOf(storage, update.task);
  SKEP_TRY(MakePrivateFolder(folder));
  SKEP_TRY(WriteFileAtomically(folder + "/update.bin", *update.body.bytes, FileMode::kPrivate));
  return WriteFileAtomically(folder + "/update.json", AsBytes(JsonLine(UpdateJson(update))),
                             FileMode::kPrivate);
}

Status DropUpdate(const Storage& storage, const wire::TaskRef& task) {
  const std::string folder = FolderOf(storage, task);
  // What makes it whole goes first, so that an interrupted removal leaves nothing to send.
  SKEP_TRY(RemoveWithContent(folder + "/update.json"));
  return RemoveWithContent(folder);
}

Result<Recovered> RecoverUpdate(const Storage& storage) {
  SKEP_ASSIGN(const std::vector<std::string> names, ListFolder(storage.Path("work")));
  Recovered recovered;
  for (const std::string& name : names) {
    const std::string folder = storage.Path("work/" + name);
    Result<client::PendingUpdate> update = ReadUpdate(folder);
    if (update.has_value() && !recovered.pending) {
      recovered.pending = std::move(update).value();
      continue;
    }
    if (Exists(folder + "/update.json")) recovered.damaged.push_back(folder);
    SKEP_TRY(RemoveWithContent(folder));
  }
  return recovered;
}

}  // namespace skep::agent
