#include "client/agent/history.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>

#include <boost/json/object.hpp>

#include "client/agent/json_object.h"
#include "shared/base/file.h"
#include "shared/base/try.h"

namespace skep::agent {
namespace {

constexpr std::uint64_t kLargestHistory = std::uint64_t{4} * 1024 * 1024;
constexpr WallMs kKeptMs = WallMs{400} * 24 * 3600 * 1000;
constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kAny32 = std::numeric_limits<std::uint32_t>::max();

std::string PathOf(const Storage& storage) {
  return storage.Path("history.jsonl");
}

std::string LineOf(const HistoryEntry& entry) {
  return JsonLine({{"time", entry.time},
                   {"run", entry.task.run_id.Hex()},
                   {"round", entry.task.round},
                   {"kind", static_cast<std::uint32_t>(entry.task.kind)},
                   {"attempt", entry.task.attempt},
                   {"outcome", entry.outcome},
                   {"code", entry.code},
                   {"examples", entry.examples},
                   {"up", entry.up},
                   {"down", entry.down}});
}

Result<HistoryEntry> ReadLine(std::string_view line) {
  SKEP_ASSIGN(const JsonObject fields, JsonObject::Parse(line, "history.jsonl"));
  HistoryEntry entry;
  SKEP_ASSIGN(entry.time, fields.Whole("time", kAny));
  SKEP_ASSIGN(entry.task.run_id, fields.IdOf<RunId>("run"));
  SKEP_ASSIGN(const std::uint64_t round, fields.Whole("round", kAny32));
  SKEP_ASSIGN(const std::uint64_t kind, fields.Whole("kind", 3));
  SKEP_ASSIGN(const std::uint64_t attempt, fields.Whole("attempt", kAny32));
  SKEP_ASSIGN(entry.outcome, fields.Text("outcome"));
  SKEP_ASSIGN(const std::uint64_t code, fields.Whole("code", 9999));
  SKEP_ASSIGN(const std::uint64_t examples, fields.Whole("examples", kAny32));
  SKEP_ASSIGN(entry.up, fields.Whole("up", kAny));
  SKEP_ASSIGN(entry.down, fields.Whole("down", kAny));
  entry.task.round = static_cast<std::uint32_t>(round);
  entry.task.kind = static_cast<wire::TaskKind>(kind);
  entry.task.attempt = static_cast<std::uint32_t>(attempt);
  entry.code = static_cast<int>(code);
  entry.examples = static_cast<std::uint32_t>(examples);
  return entry;
}

// The newer half of a file that has grown too long, without what is older than 400 days.
Status Thin(const Storage& storage, WallMs now) {
  std::vector<HistoryEntry> entries = ReadHistory(storage, std::numeric_limits<std::size_t>::max());
  const auto is_old = [&](const HistoryEntry& entry) { return entry.time + kKeptMs < now; };
  entries.erase(std::remove_if(entries.begin(), entries.end(), is_old), entries.end());
  entries.resize((entries.size() + 1) / 2);
  std::string text;
  for (auto at = entries.rbegin(); at != entries.rend(); ++at) text += LineOf(*at);
  return WriteFileAtomically(PathOf(storage), AsBytes(text), FileMode::kPrivate);
}

}  // namespace

Status AppendHistory(const Storage& storage, const HistoryEntry& entry) {
  std::error_code not_there;
  const std::uintmax_t size = std::filesystem::file_size(PathOf(storage), not_there);
  if (!not_there && size > kLargestHistory) SKEP_TRY(Thin(storage, entry.time));
  return AppendToFile(PathOf(storage), AsBytes(LineOf(entry)), FileMode::kPrivate);
}

std::vector<HistoryEntry> ReadHistory(const Storage& storage, std::size_t most) {
  std::vector<HistoryEntry> entries;
  // A little above the limit, which is looked at before a line is added.
  const Result<Bytes> content = ReadFile(PathOf(storage), kLargestHistory + 4096, 1010);
  if (!content.has_value()) return entries;
  std::string_view rest = AsText(*content);
  while (!rest.empty() && entries.size() < most) {
    if (rest.back() == '\n') rest.remove_suffix(1);
    const std::size_t feed = rest.rfind('\n');
    const std::size_t first = feed == std::string_view::npos ? 0 : feed + 1;
    Result<HistoryEntry> entry = ReadLine(rest.substr(first));
    if (entry.has_value()) entries.push_back(std::move(entry).value());
    rest = rest.substr(0, first);
  }
  return entries;
}

}  // namespace skep::agent
