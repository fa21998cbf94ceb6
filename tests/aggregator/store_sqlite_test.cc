// What only a store on disk can get wrong: crashes, foreign files, damage, full disks.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "aggregator/store/sqlite.h"
#include "shared/base/file.h"
#include "tests/aggregator/store_fixture.h"

namespace skep::aggregator::test {
namespace {

namespace fs = std::filesystem;

// A store's folder in a fresh place, and what a crash of its process leaves.
class Place {
 public:
  [[nodiscard]] std::string folder() const { return (root_.path() / "store").string(); }
  [[nodiscard]] std::string File(const std::string& name) const { return folder() + "/" + name; }

  std::unique_ptr<SqliteStore> Create() {
    std::unique_ptr<SqliteStore> store = SqliteStore::Create(folder(), kFederation, 100).value();
    for (std::uint8_t number = 1; number <= 4; ++number) {
      REQUIRE(store->PutModel(ModelHash(number), ModelBytes(number)).has_value());
      bodies.Put(number, BodyBytes(number));
    }
    return store;
  }

  // Copies the files as they are now, while the store is open: what kill -9 leaves behind.
  [[nodiscard]] std::string CopyAfterCrash() {
    const fs::path copy = root_.path() / ("copy" + std::to_string(++copies_));
    fs::copy(folder(), copy, fs::copy_options::recursive);
    fs::remove(copy / "skep.db-shm");
    fs::permissions(copy, fs::perms::owner_all);
    return copy.string();
  }

  void Must(SqliteStore& store, const std::vector<Transaction>& transactions) {
    for (const Transaction& transaction : transactions) {
      REQUIRE(store.Apply(transaction, 5000, bodies).has_value());
    }
  }

  Bodies bodies;

 private:
  skep::test::TemporaryFolder root_;
  int copies_ = 0;
};

std::vector<Transaction> OneRound() {
  return {StartRunTx{MakeRun()},
          OpenRoundTx{MakeOpen(TrainKey())},
          UpdateTx{MakeUpdate(TrainKey(), 1)},
          EndAssignmentTx{TrainKey(), Device(20), AssignmentState::kDeclined, 7404},
          UpdateTx{MakeUpdate(TrainKey(), 3)},
          CloseRoundTx{TrainKey()},
          PublishTx{MakePublish(TrainKey(), 2)},
          EvaluatedTx{.key = TrainKey(), .metrics = {{"accuracy", 0.5, 0}}, .reason = ""}};
}

int OpenCode(const std::string& folder) {
  const auto opened = SqliteStore::Open(folder, kFederation);
  return opened ? 0 : opened.error().code;
}

Bytes Content(const std::string& path) {
  return ReadFile(path, 1U << 30U, 4008).value();
}

TEST_CASE("a crash after any transaction loses none of those before", "[fault]") {
  Place place;
  const auto store = place.Create();
  for (const Transaction& transaction : OneRound()) {
    place.Must(*store, {transaction});
    const std::string expected = Describe(store->Load().value());
    const std::string copy = place.CopyAfterCrash();
    const auto recovered = SqliteStore::Open(copy, kFederation);
    INFO("transaction " << transaction.index());
    REQUIRE(recovered.has_value());
    CHECK(Describe(recovered.value()->Load().value()) == expected);
  }
}

TEST_CASE("an acknowledged body survives a crash", "[fault]") {
  Place place;
  const auto store = place.Create();
  place.Must(*store, {StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())},
                      UpdateTx{MakeUpdate(TrainKey(), 1)}});
  const auto recovered = SqliteStore::Open(place.CopyAfterCrash(), kFederation).value();
  CHECK(recovered->UpdateBody(1).value() == BodyBytes(1));
}

TEST_CASE("a clean end leaves an empty log", "[unit]") {
  Place place;
  auto store = place.Create();
  place.Must(*store, OneRound());
  const std::string expected = Describe(store->Load().value());
  store.reset();
  const bool has_log = fs::exists(place.File("skep.db-wal"));
  CHECK((!has_log || fs::file_size(place.File("skep.db-wal")) == 0));
  store = SqliteStore::Open(place.folder(), kFederation).value();
  CHECK(Describe(store->Load().value()) == expected);
}

TEST_CASE("a store is made once and never over another", "[unit]") {
  Place place;
  place.Create().reset();
  const Bytes before = Content(place.File("skep.db"));
  const auto again = SqliteStore::Create(place.folder(), MakeId<FederationId>(1), 200);
  REQUIRE_FALSE(again.has_value());
  CHECK(again.error().code == 4004);
  CHECK(Content(place.File("skep.db")) == before);
}

TEST_CASE("a store that is open is not opened again", "[unit]") {
  Place place;
  const auto store = place.Create();
  const auto second = SqliteStore::Open(place.folder(), kFederation);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == 4002);
  CHECK(second.error().message.find("pid " + std::to_string(::getpid())) != std::string::npos);
}

TEST_CASE("a folder that is missing, empty or open to others is refused", "[unit]") {
  Place place;
  CHECK(OpenCode(place.folder()) == 4004);
  REQUIRE(::mkdir(place.folder().c_str(), 0700) == 0);
  CHECK(OpenCode(place.folder()) == 4004);
  place.Create().reset();
  REQUIRE(::chmod(place.folder().c_str(), 0750) == 0);
  CHECK(OpenCode(place.folder()) == 4004);
  REQUIRE(::chmod(place.folder().c_str(), 0700) == 0);
  CHECK(OpenCode(place.folder()) == 0);
}

TEST_CASE("keys of another federation do not open the store", "[unit]") {
  Place place;
  place.Create().reset();
  const auto opened = SqliteStore::Open(place.folder(), MakeId<FederationId>(7));
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().code == 4018);
  CHECK(SqliteStore::Open(place.folder(), std::nullopt).value()->federation() == kFederation);
}

TEST_CASE("a file that is no database of ours is damage", "[unit]") {
  Place place;
  REQUIRE(::mkdir(place.folder().c_str(), 0700) == 0);
  std::ofstream(place.File("skep.db")) << std::string(8192, 'x');
  CHECK(OpenCode(place.folder()) == 4006);
  CHECK(Content(place.File("skep.db")) == Bytes(8192, 'x'));

  fs::remove(place.File("skep.db"));
  std::ofstream(place.File("skep.db")).flush();
  Database other = Database::Open(place.File("skep.db")).value();
  REQUIRE(other.Execute("CREATE TABLE runs (name TEXT)").has_value());
  CHECK(OpenCode(place.folder()) == 4006);
}

TEST_CASE("a newer or older schema is named", "[unit]") {
  Place place;
  place.Create().reset();
  const auto set_version = [&](const char* sql) {
    Database database = Database::Open(place.File("skep.db")).value();
    REQUIRE(database.Execute(sql).has_value());
    REQUIRE(database.Checkpoint(true).has_value());
  };
  set_version("PRAGMA user_version=2");
  CHECK(OpenCode(place.folder()) == 4012);
  set_version("PRAGMA user_version=0");
  CHECK(OpenCode(place.folder()) == 4013);
  set_version("PRAGMA user_version=1");
  CHECK(OpenCode(place.folder()) == 0);
}

TEST_CASE("damage is found after an unclean end", "[fault]") {
  Place place;
  auto store = place.Create();
  place.Must(*store, OneRound());
  store.reset();
  store = SqliteStore::Open(place.folder(), kFederation).value();
  const std::string copy = place.CopyAfterCrash();
  // Zeros over the middle of the file hit pages of tables or indexes.
  std::fstream file(copy + "/skep.db", std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(4096 * 3);
  file << std::string(4096 * 20, '\0');
  file.close();
  CHECK(OpenCode(copy) == 4006);
}

TEST_CASE("a run whose model is missing or altered is halted", "[fault]") {
  Place place;
  auto store = place.Create();
  place.Must(*store, {StartRunTx{MakeRun()}, StartRunTx{MakeRun(2)}});
  store.reset();
  const std::string hex = ModelHash(1).Hex();
  const std::string model = place.File("models/" + hex.substr(0, 2) + "/" + hex + ".bin");
  std::ofstream(model) << "other bytes";
  store = SqliteStore::Open(place.folder(), kFederation).value();
  CHECK(store->GetModel(ModelHash(1)).error().code == 4008);
  const RunRow run = store->Load().value().runs.at(0).run;
  CHECK(run.state == RunState::kHalted);
  CHECK(run.code == 4008);
  // It stays so: a later start does not forget it.
  store.reset();
  store = SqliteStore::Open(place.folder(), kFederation).value();
  CHECK(store->Load().value().runs.at(1).run.state == RunState::kHalted);
}

TEST_CASE("an altered body of an open round halts its run", "[fault]") {
  Place place;
  auto store = place.Create();
  place.Must(*store, {StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())},
                      UpdateTx{MakeUpdate(TrainKey(), 1)}});
  store.reset();
  {
    Database database = Database::Open(place.File("skep.db")).value();
    REQUIRE(database.Run("UPDATE updates SET body = x'00' WHERE upload = 1").has_value());
  }
  store = SqliteStore::Open(place.folder(), kFederation).value();
  const RunSnapshot run = store->Load().value().runs.at(0);
  CHECK(run.run.state == RunState::kHalted);
  CHECK(run.run.code == 4007);
  CHECK(run.open_rounds.size() == 1);
}

TEST_CASE("models that nothing names are removed at the next start", "[unit]") {
  Place place;
  auto store = place.Create();
  place.Must(*store, {StartRunTx{MakeRun()}});
  store.reset();
  store = SqliteStore::Open(place.folder(), kFederation).value();
  CHECK(store->GetModel(ModelHash(1)).has_value());
  CHECK(store->GetModel(ModelHash(2)).error().code == 4008);
}

TEST_CASE("files are for the owner alone", "[unit]") {
  Place place;
  const auto store = place.Create();
  for (const char* name : {"skep.db", "skep.db-wal", "skep.db-shm", "LOCK"}) {
    struct stat facts {};
    INFO(name);
    REQUIRE(::stat(place.File(name).c_str(), &facts) == 0);
    CHECK((facts.st_mode & 077U) == 0);
  }
}

TEST_CASE("a store below a symbolic link is refused, and the link is named", "[unit]") {
  const skep::test::TemporaryFolder root;
  const std::string real = (root.path() / "real").string();
  const std::string link = (root.path() / "link").string();
  fs::create_directory(real);
  fs::create_directory_symlink(real, link);
  const auto check = [&](const Status& status) {
    REQUIRE_FALSE(status.has_value());
    CHECK(status.error().code == 4004);
    CHECK(status.error().message == link + "/store leads through the symbolic link " + link);
    CHECK(status.error().hint ==
          "name the folder itself: " + fs::canonical(real).string() + "/store");
  };
  const auto made = SqliteStore::Create(link + "/store", kFederation, 100);
  check(made.has_value() ? Ok() : Status(made.error()));
  CHECK_FALSE(fs::exists(real + "/store"));
  REQUIRE(SqliteStore::Create(real + "/store", kFederation, 100).has_value());
  const auto opened = SqliteStore::Open(link + "/store", kFederation);
  check(opened.has_value() ? Ok() : Status(opened.error()));
}

// A small file system in place of a folder, where the test may mount one.
class SmallDisk {
 public:
  explicit SmallDisk(std::string folder) : folder_(std::move(folder)) {
    REQUIRE(::mkdir(folder_.c_str(), 0700) == 0);
    is_mounted_ = ::mount("skep-test", folder_.c_str(), "tmpfs", 0, "size=700k,mode=0700") == 0;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (is_mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool is_mounted() const { return is_mounted_; }
  [[nodiscard]] bool ForbidWriting() const {
    return ::mount("skep-test", folder_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=700k") == 0;
  }

 private:
  std::string folder_;
  bool is_mounted_ = false;
};

TEST_CASE("a disk that cannot be written is an error and stays as it was", "[fault]") {
  Place place;
  const SmallDisk disk(place.folder());
  if (!disk.is_mounted()) SKEP_SKIP("no permission to mount a small file system");
  place.Create().reset();
  const Bytes before = Content(place.File("skep.db"));
  REQUIRE(disk.ForbidWriting());
  CHECK(OpenCode(place.folder()) == 4004);
  CHECK(Content(place.File("skep.db")) == before);
}

TEST_CASE("a full disk refuses work and damages nothing", "[fault]") {
  Place place;
  const SmallDisk disk(place.folder());
  if (!disk.is_mounted()) SKEP_SKIP("no permission to mount a small file system");
  auto store = place.Create();
  place.Must(*store, {StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())}});
  UpdateTx large = MakeUpdate(TrainKey(), 1);
  large.update.size = 2U << 20U;
  place.bodies.Put(1, Bytes(large.update.size, 1));
  const std::string before = Describe(store->Load().value());
  const auto applied = store->Apply(large, 5000, place.bodies);
  REQUIRE_FALSE(applied.has_value());
  CHECK(applied.error().code == 4001);
  CHECK(Describe(store->Load().value()) == before);
  // Room for a small one is still there, and the store is whole.
  place.bodies.Put(1, BodyBytes(1));
  CHECK(store->Apply(MakeUpdate(TrainKey(), 1), 5000, place.bodies).has_value());
  store.reset();
  CHECK(OpenCode(place.folder()) == 0);
}

// Files may not grow beyond `bytes` while this lives: a write that would fails.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit limit{bytes, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;
  ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_CASE("after a failed write nothing is accepted until the store is opened again", "[fault]") {
  Place place;
  auto store = place.Create();
  place.Must(*store, {StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())}});
  const std::string before = Describe(store->Load().value());
  UpdateTx large = MakeUpdate(TrainKey(), 1);
  large.update.size = 1U << 20U;
  place.bodies.Put(1, Bytes(large.update.size, 1));
  large.update.sha256 = Sha256::Of(Bytes(large.update.size, 1));
  {
    const FileLimit limit(fs::file_size(place.File("skep.db-wal")) + 100'000);
    const auto failed = store->Apply(large, 5000, place.bodies);
    REQUIRE_FALSE(failed.has_value());
    CHECK(failed.error().code == 4005);
  }
  CHECK(store->Apply(large, 5000, place.bodies).error().code == 4005);
  CHECK(store->CreatePopulation("pump", "operator", 1).error().code == 4005);
  store.reset();
  store = SqliteStore::Open(place.folder(), kFederation).value();
  CHECK(Describe(store->Load().value()) == before);
  CHECK(store->Apply(large, 5000, place.bodies).value() == 1);
}

TEST_CASE("threads take turns", "[unit]") {
  Place place;
  const auto store = place.Create();
  place.Must(*store, {StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())}});
  std::vector<std::thread> threads;
  std::array<std::optional<Result<std::uint64_t>>, 3> applied;
  for (std::uint8_t number = 1; number <= 3; ++number) {
    threads.emplace_back([&, number] {
      applied[number - 1U] = store->Apply(MakeUpdate(TrainKey(), number), 5000, place.bodies);
      (void)store->Verdict(TrainKey(), Device(10));
      (void)store->PutModel(ModelHash(9), ModelBytes(9));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::uint64_t sum = 0;
  for (const auto& one : applied) sum += one->value_or(0U);
  CHECK(sum == 1 + 2 + 3);
  CHECK(store->GetModel(ModelHash(9)).value() == ModelBytes(9));
}

TEST_CASE("a long log is moved into the database", "[unit]") {
  Place place;
  const auto store = place.Create();
  place.Must(*store, {StartRunTx{MakeRun()}, OpenRoundTx{MakeOpen(TrainKey())}});
  for (std::uint8_t number = 1; number <= 3; ++number) {
    UpdateTx update = MakeUpdate(TrainKey(), number);
    update.update.size = 9U << 20U;
    place.bodies.Put(number, Bytes(update.update.size, number));
    place.Must(*store, {update});
  }
  CHECK(fs::file_size(place.File("skep.db")) > (18U << 20U));
}

TEST_CASE("bound ports are kept", "[unit]") {
  Place place;
  auto store = place.Create();
  CHECK(store->Ports().value() == BoundPorts{});
  REQUIRE(store->SetPorts({.devices = 40001, .enrol = 40002}).has_value());
  store.reset();
  store = SqliteStore::Open(place.folder(), kFederation).value();
  CHECK(store->Ports().value() == BoundPorts{.devices = 40001, .enrol = 40002});
}

TEST_CASE("outside readers see runs, rounds and devices", "[unit]") {
  Place place;
  auto store = place.Create();
  place.Must(*store, OneRound());
  store.reset();
  Database reader = Database::Open(place.File("skep.db")).value();
  std::string seen;
  REQUIRE(reader
              .ForEach("SELECT name, round, state, invited, acknowledged FROM v_rounds",
                       [&](const Statement& row) {
                         seen += row.Text(0) + " " + row.Text(1) + " " + row.Text(2) + " " +
                                 row.Text(3) + " " + row.Text(4);
                         return Ok();
                       })
              .has_value());
  CHECK(seen == "run-1 1 published 3 2");
  CHECK(reader.Number("SELECT next_round FROM v_runs").value() == 2);
  CHECK(reader.Number("SELECT count(*) FROM v_devices").value() == 0);
}

TEST_CASE("what became of a run can be read back", "[unit]") {
  Place place;
  const auto store = place.Create();
  place.Must(*store, OneRound());
  const auto attempts = store->Attempts(MakeId<RunId>(1)).value();
  REQUIRE(attempts.size() == 1);
  CHECK(attempts[0].state == RoundState::kPublished);
  const auto attempt = store->Attempt(TrainKey()).value();
  REQUIRE(attempt.has_value());
  CHECK(attempt->cohort.at(1).code == 7404);
  CHECK(attempt->updates.size() == 2);
  CHECK_FALSE(store->Attempt(TrainKey(2)).value().has_value());
  const auto participations = store->Participations(MakeId<RunId>(1)).value();
  REQUIRE(participations.size() == 2);
  CHECK(participations[0].device == Device(10));
  CHECK(participations[0].contributions == 1);
  CHECK(participations[0].last_round == 1);
}

TEST_CASE("every change of a run leaves an audit row of its own transaction", "[unit]") {
  Place place;
  const auto store = place.Create();
  place.Must(*store, {StartRunTx{MakeRun()}});
  REQUIRE_FALSE(store->Apply(StartRunTx{MakeRun()}, 5000, place.bodies).has_value());
  const auto audit = store->Audit(10).value();
  REQUIRE(audit.size() == 1);
  CHECK(audit[0].action == "run start");
  CHECK(audit[0].target == MakeId<RunId>(1).Hex());
  CHECK(audit[0].time == 5000);
}

}  // namespace
}  // namespace skep::aggregator::test
