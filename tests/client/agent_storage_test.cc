// The storage folder: who may use it, and what survives an interruption at any step.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "client/agent/history.h"
#include "client/agent/identity.h"
#include "client/agent/state.h"
#include "client/agent/storage.h"
#include "client/agent/work.h"
#include "shared/base/file.h"
#include "shared/base/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace skep::agent {
namespace {

namespace fs = std::filesystem;

using test::TemporaryFolder;

std::string FolderIn(const TemporaryFolder& place) {
  return (place.path() / "device").string();
}

unsigned ModeOf(const std::string& path) {
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  return static_cast<unsigned>(facts.st_mode) & 07777U;
}

client::PendingUpdate MakeUpdate(std::uint32_t round = 3) {
  client::PendingUpdate update;
  update.task.run_id.bytes.fill(0xA1);
  update.task.round = round;
  update.task.attempt = 2;
  update.id.bytes.fill(0x22);
  const Bytes body{1, 2, 3, 4, 5, 6, 7, 8};
  update.body = {std::make_shared<const Bytes>(body), Sha256::Of(body)};
  update.encoding = wire::Encoding::kF32;
  update.layout.bytes.fill(0x33);
  update.model.bytes.fill(0x44);
  update.weight = 412;
  update.metrics = {{1, 0.1 + 0.2}, {2, 1e-300}};
  update.train_ms = 310;
  return update;
}

State MakeState() {
  State state;
  state.population = "pump";
  client::SeenTask seen;
  seen.run.bytes.fill(0xA1);
  seen.epoch = 2;
  seen.round = 9;
  seen.kind = wire::TaskKind::kEvaluate;
  seen.attempt = 4;
  seen.manifest.payload = {9, 8, 7};
  seen.manifest.key_id.bytes.fill(5);
  seen.manifest.signature.bytes.fill(6);
  state.memory.seen = {seen};
  state.memory.evidence = seen.manifest;
  state.memory.client = 17;
  state.memory.failures = 3;
  state.memory.next_check_in = 1'800'000'000'123;
  state.today = {.day = 20'000, .up = 5, .down = 7};
  return state;
}

TEST_CASE("a new folder is for its owner alone, and so are its files", "[unit]") {
  const TemporaryFolder place;
  const std::string folder = FolderIn(place);
  {
    const Storage storage = Storage::Create(folder).value();
    CHECK(storage.is_locked());
    REQUIRE(KeepKey(storage).has_value());
    REQUIRE(SaveState(storage, MakeState()).has_value());
    REQUIRE(StoreUpdate(storage, MakeUpdate()).has_value());
    REQUIRE(AppendHistory(storage, HistoryEntry{}).has_value());
  }
  CHECK(ModeOf(folder) == 0700);
  int files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    INFO(entry.path());
    CHECK(ModeOf(entry.path().string()) == (entry.is_directory() ? 0700U : 0600U));
    files += entry.is_regular_file() ? 1 : 0;
  }
  CHECK(files == 7);  // FORMAT, lock, key.pem, state.json, history.jsonl, update.bin, update.json
}

TEST_CASE("one process works in a folder, others may look", "[unit]") {
  const TemporaryFolder place;
  const std::string folder = FolderIn(place);
  std::optional<Storage> first(Storage::Create(folder).value());
  const Result<Storage> second = Storage::Open(folder);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == 4002);
  CHECK(second.error().message == folder + " is in use by process " + std::to_string(::getpid()));
  const Result<Storage> third = Storage::Create(folder);
  REQUIRE_FALSE(third.has_value());
  CHECK(third.error().code == 4002);
  const Storage looking = Storage::Look(folder).value();
  CHECK(looking.LockedBy() == ::getpid());
  first.reset();
  CHECK_FALSE(looking.LockedBy());
  CHECK(Storage::Open(folder).has_value());
}

TEST_CASE("a folder that is open to others is refused and stays as it is", "[unit]") {
  const TemporaryFolder place;
  const std::string folder = FolderIn(place);
  CHECK(Storage::Create(folder).has_value());
  for (const unsigned mode : {0750U, 0705U, 0710U, 0777U}) {
    REQUIRE(::chmod(folder.c_str(), mode) == 0);
    const Result<Storage> opened = Storage::Open(folder);
    REQUIRE_FALSE(opened.has_value());
    CHECK(opened.error().code == 4004);
    CHECK(opened.error().hint == "chmod 0700 " + folder);
    CHECK(ModeOf(folder) == mode);
  }
}

TEST_CASE("a folder of another user is refused", "[unit]") {
  if (::geteuid() != 0) SKEP_SKIP("only root can give a folder away");
  const TemporaryFolder place;
  const std::string folder = FolderIn(place);
  CHECK(Storage::Create(folder).has_value());
  REQUIRE(::chown(folder.c_str(), 12'345, 12'345) == 0);
  const Result<Storage> opened = Storage::Open(folder);
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().code == 4004);
}

TEST_CASE("a folder that is not there is not made by looking", "[unit]") {
  const TemporaryFolder place;
  const std::string folder = FolderIn(place);
  const Result<Storage> opened = Storage::Open(folder);
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().code == 4004);
  CHECK_FALSE(Exists(folder));
}

TEST_CASE("a folder with somebody's files is not taken over", "[unit]") {
  const TemporaryFolder place;
  const fs::path file = place.Write("device/thesis.txt", "irreplaceable");
  REQUIRE(::chmod(FolderIn(place).c_str(), 0700) == 0);
  const Result<Storage> made = Storage::Create(FolderIn(place));
  REQUIRE_FALSE(made.has_value());
  CHECK(made.error().code == 4004);
  CHECK(std::distance(fs::directory_iterator(FolderIn(place)), fs::directory_iterator()) == 1);
}

TEST_CASE("a folder of a newer version is refused by number", "[unit]") {
  const TemporaryFolder place;
  const std::string folder = FolderIn(place);
  CHECK(Storage::Create(folder).has_value());
  (void)place.Write("device/FORMAT", "skep-client 2\n");
  const Result<Storage> opened = Storage::Open(folder);
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().code == 4012);
  for (const char* text : {"", "skep-client", "skep-client 1", "skep-client x\n", "skep-client 0\n",
                           "skep-aggregator 1\n", "skep-client 1\nmore\n"}) {
    INFO(text);
    (void)place.Write("device/FORMAT", text);
    const Result<Storage> damaged = Storage::Open(folder);
    REQUIRE_FALSE(damaged.has_value());
    CHECK(damaged.error().code == 4004);
  }
}

TEST_CASE("a creation that was interrupted anywhere is completed by the next", "[unit]") {
  const std::vector<std::vector<std::string>> steps{
      {},
      {"lock"},
      {"lock", "identity/"},
      {"lock", "identity/", "work/"},
      {"lock", "identity/", "work/", "FORMAT.partial"}};
  for (const auto& done : steps) {
    const TemporaryFolder place;
    const std::string folder = FolderIn(place);
    REQUIRE(MakePrivateFolder(folder).has_value());
    for (const std::string& name : done) {
      if (name.back() == '/') {
        REQUIRE(MakePrivateFolder(folder + "/" + name.substr(0, name.size() - 1)).has_value());
      } else {
        REQUIRE(
            WriteFileAtomically(folder + "/" + name, AsBytes("x"), FileMode::kPrivate).has_value());
      }
    }
    INFO(done.size());
    CHECK(Storage::Create(folder).has_value());
    CHECK(Storage::Open(folder).has_value());
  }
}

TEST_CASE("the state comes back as it was saved", "[unit]") {
  const TemporaryFolder place;
  const Storage storage = Storage::Create(FolderIn(place)).value();
  CHECK(LoadState(storage).value().memory.seen.empty());
  const State saved = MakeState();
  REQUIRE(SaveState(storage, saved).has_value());
  const State loaded = LoadState(storage).value();
  CHECK(loaded.population == "pump");
  REQUIRE(loaded.memory.seen.size() == 1);
  const client::SeenTask& seen = loaded.memory.seen.front();
  CHECK(seen.run == saved.memory.seen[0].run);
  CHECK(seen.epoch == 2);
  CHECK(seen.round == 9);
  CHECK(seen.kind == wire::TaskKind::kEvaluate);
  CHECK(seen.attempt == 4);
  CHECK(seen.manifest == saved.memory.seen[0].manifest);
  CHECK(loaded.memory.evidence == saved.memory.evidence);
  CHECK(loaded.memory.client == 17U);
  CHECK(loaded.memory.failures == 3);
  CHECK(loaded.memory.next_check_in == 1'800'000'000'123);
  CHECK(loaded.today.day == 20'000);
  CHECK(loaded.today.total() == 12);
}

TEST_CASE("a damaged state is an error, never a fresh start", "[unit]") {
  const TemporaryFolder place;
  const Storage storage = Storage::Create(FolderIn(place)).value();
  REQUIRE(SaveState(storage, MakeState()).has_value());
  const Bytes whole = ReadFile(storage.Path("state.json"), 1 << 20, 1010).value();
  std::vector<std::string> damaged{"", "[]", "{}", "null", "{\"schema\":2}"};
  for (std::size_t size = 0; size + 2 < whole.size(); size += 7) {
    damaged.emplace_back(AsText(BytesView(whole).first(size)));
  }
  for (const std::string& text : damaged) {
    (void)place.Write("device/state.json", text);
    const Result<State> loaded = LoadState(storage);
    INFO(text);
    REQUIRE_FALSE(loaded.has_value());
    CHECK(loaded.error().code == 1010);
  }
  // A leftover of a write that was interrupted is not the file.
  REQUIRE(SaveState(storage, MakeState()).has_value());
  (void)place.Write("device/state.json.partial", "{");
  CHECK(LoadState(storage).has_value());
  CHECK(SaveState(storage, MakeState()).has_value());
}

TEST_CASE("an update comes back bit for bit, and goes when it is dropped", "[unit]") {
  const TemporaryFolder place;
  const Storage storage = Storage::Create(FolderIn(place)).value();
  const client::PendingUpdate update = MakeUpdate();
  REQUIRE(StoreUpdate(storage, update).has_value());
  const client::PendingUpdate found = RecoverUpdate(storage).value().pending.value();
  CHECK(found.task == update.task);
  CHECK(found.id == update.id);
  CHECK(*found.body.bytes == *update.body.bytes);
  CHECK(found.body.sha256 == update.body.sha256);
  CHECK(found.encoding == update.encoding);
  CHECK(found.layout == update.layout);
  CHECK(found.model == update.model);
  CHECK(found.weight == update.weight);
  CHECK(found.metrics == update.metrics);
  CHECK(found.train_ms == update.train_ms);
  REQUIRE(DropUpdate(storage, update.task).has_value());
  CHECK(fs::is_empty(storage.Path("work")));
  CHECK(DropUpdate(storage, update.task).has_value());
}

TEST_CASE("an update whose writing was interrupted anywhere is not sent", "[unit]") {
  const std::string name = std::string(32, 'a') + "-3-1-2";
  const std::vector<std::vector<std::string>> steps{
      {}, {"update.bin.partial"}, {"update.bin"}, {"update.bin", "update.json.partial"}};
  for (const auto& done : steps) {
    const TemporaryFolder place;
    const Storage storage = Storage::Create(FolderIn(place)).value();
    REQUIRE(MakePrivateFolder(storage.Path("work/" + name)).has_value());
    for (const std::string& file : done) {
      (void)place.Write("device/work/" + name + "/" + file, "12345678");
    }
    const Recovered found = RecoverUpdate(storage).value();
    CHECK_FALSE(found.pending);
    CHECK(found.damaged.empty());  // nothing was promised yet
    CHECK(fs::is_empty(storage.Path("work")));
  }
}

TEST_CASE("an update that was damaged is removed and named", "[unit]") {
  const TemporaryFolder place;
  const Storage storage = Storage::Create(FolderIn(place)).value();
  const std::string name = "device/work/" + MakeUpdate().task.run_id.Hex() + "-3-1-2/";
  const std::vector<std::pair<std::string, std::string>> damages{
      {"update.bin", "\x01\x02\x03\x04\x05\x06\x07\x09"},  // a byte
      {"update.bin", "\x01\x02\x03"},                      // cut
      {"update.bin", "123456789"},                         // grown
      {"update.json", "{"},
      {"update.json", "{\"schema\":1}"}};
  for (const auto& [file, content] : damages) {
    REQUIRE(StoreUpdate(storage, MakeUpdate()).has_value());
    (void)place.Write(name + file, content);
    const Recovered found = RecoverUpdate(storage).value();
    INFO(file << ": " << content);
    CHECK_FALSE(found.pending);
    CHECK(found.damaged.size() == 1);
    CHECK(fs::is_empty(storage.Path("work")));
  }
}

TEST_CASE("the history is read newest first, without lines that are damaged", "[unit]") {
  const TemporaryFolder place;
  const Storage storage = Storage::Create(FolderIn(place)).value();
  CHECK(ReadHistory(storage, 10).empty());
  HistoryEntry entry;
  entry.examples = 412;
  for (std::uint32_t round = 1; round <= 3; ++round) {
    entry.task.round = round;
    REQUIRE(AppendHistory(storage, entry).has_value());
  }
  REQUIRE(AppendToFile(storage.Path("history.jsonl"), AsBytes("{\"cut"), FileMode::kPrivate)
              .has_value());
  const auto latest = ReadHistory(storage, 2);
  REQUIRE(latest.size() == 2);
  CHECK(latest[0].task.round == 3);
  CHECK(latest[1].task.round == 2);
  CHECK(latest[0].examples == 412);
}

TEST_CASE("a history that has grown too long keeps its newer half", "[unit]") {
  const TemporaryFolder place;
  const Storage storage = Storage::Create(FolderIn(place)).value();
  HistoryEntry entry;
  entry.time = 1000;
  entry.task.round = 1;
  REQUIRE(AppendHistory(storage, entry).has_value());
  const Bytes line = ReadFile(storage.Path("history.jsonl"), 4096, 1010).value();
  Bytes many;
  while (many.size() <= 4 * 1024 * 1024) Append(many, line);
  REQUIRE(WriteFileAtomically(storage.Path("history.jsonl"), many, FileMode::kPrivate).has_value());
  entry.task.round = 2;
  REQUIRE(AppendHistory(storage, entry).has_value());
  const std::uintmax_t size = fs::file_size(storage.Path("history.jsonl"));
  CHECK(size < 2'300'000);
  CHECK(size > 1'900'000);
  CHECK(ReadHistory(storage, 1).front().task.round == 2);
}

TEST_CASE("a write that fails leaves the file as it was", "[unit]") {
  const TemporaryFolder place;
  const Storage storage = Storage::Create(FolderIn(place)).value();
  REQUIRE(SaveState(storage, MakeState()).has_value());
  // A folder where the temporary file should be: even root cannot open it as a file.
  fs::create_directory(storage.Path("state.json.partial"));
  State other = MakeState();
  other.memory.failures = 99;
  const Status saved = SaveState(storage, other);
  REQUIRE_FALSE(saved.has_value());
  CHECK(saved.error().code == 4001);
  CHECK(LoadState(storage).value().memory.failures == 3);
}

}  // namespace
}  // namespace skep::agent
