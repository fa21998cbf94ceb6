#include "aggregator/store/sqlite_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "aggregator/store/row_text.h"
#include "aggregator/store/schema.h"
#include "aggregator/store/sqlite_rounds.h"
#include "aggregator/store/transitions.h"
#include "shared/base/file.h"
#include "shared/base/try.h"

namespace skep::aggregator {
namespace {

constexpr int kLargestLogPages = 16 * 1024 * 1024 / 4096;  // then a checkpoint

std::string DatabasePath(const std::string& folder) {
  return folder + "/skep.db";
}

bool Exists(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0;
}

// Files whose writes are not under this kernel's control cannot keep our promises.
Status CheckFileSystem(const std::string& folder) {
  struct statfs facts {};
  if (::statfs(folder.c_str(), &facts) != 0) {
    return Error{4004, "cannot look at " + folder + ": " + SystemReason(errno), ""};
  }
  constexpr std::array<std::uint32_t, 5> kRefused{0x6969,        // NFS
                                                  0x517B,        // SMB
                                                  0xFF534D42U,   // CIFS
                                                  0xFE534D42U,   // SMB2
                                                  0x65735546U};  // FUSE
  for (const std::uint32_t type : kRefused) {
    if (static_cast<std::uint32_t>(facts.f_type) != type) continue;
    return Error{4003, folder + " is on a network or FUSE file system",
                 "move the directory to a local one"};
  }
  return Ok();
}

// SQLite opens nothing by way of a link, so that nobody can put one in place of a folder.
Status CheckLinks(const std::string& folder) {
  std::filesystem::path there;
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(folder, error);
  for (const std::filesystem::path& part : path) {
    there /= part;
    if (!std::filesystem::is_symlink(there, error)) continue;
    const std::string target = std::filesystem::weakly_canonical(path, error).string();
    return Error{4004, folder + " leads through the symbolic link " + there.string(),
                 error ? "name the folder itself" : "name the folder itself: " + target};
  }
  return Ok();
}

Status CheckFolder(const std::string& folder) {
  SKEP_TRY(CheckLinks(folder));
  struct stat facts {};
  if (::stat(folder.c_str(), &facts) != 0) {
    return Error{4004, folder + ": " + SystemReason(errno), "skep-aggregator init makes it"};
  }
  if (!S_ISDIR(facts.st_mode)) return Error{4004, folder + " is no directory", ""};
  if (facts.st_uid != ::geteuid()) {
    return Error{4004, folder + " belongs to another user", "run as its owner"};
  }
  if ((facts.st_mode & 077U) != 0) {
    return Error{4004, folder + " is open to other users", "chmod 0700 " + folder};
  }
  return CheckFileSystem(folder);
}

// SQLite gives its log and shared memory the mode of this file.
Status MakeDatabaseFile(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return Error{4004, "cannot make " + path + ": " + SystemReason(errno), ""};
  const bool is_closed = ::close(file) == 0;
  if (!is_closed) return Error{4005, "cannot close " + path + ": " + SystemReason(errno), ""};
  return Ok();
}

Status SyncFolder(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool is_synced = file >= 0 && ::fsync(file) == 0;
  const int error = errno;
  if (file >= 0) ::close(file);
  if (is_synced) return Ok();
  return Error{4005, "cannot sync " + path + ": " + SystemReason(error), "check the disk"};
}

Status MakeFolder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) {
    return SyncFolder(std::filesystem::absolute(folder).parent_path().string());
  }
  if (errno == EEXIST) return Ok();
  return Error{4004, "cannot make " + folder + ": " + SystemReason(errno), ""};
}

// Whether a database has a log that was not emptied at its last end.
bool HasLog(const std::string& path) {
  struct stat log {};
  return ::stat((path + "-wal").c_str(), &log) == 0 && log.st_size > 0;
}

// Whether a process holds the folder; SKEP-4004 if nobody could.
Result<bool> IsLocked(const std::string& folder) {
  const std::string name = folder + "/LOCK";
  const int file = ::open(name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) return false;
  if (file < 0) return Error{4004, "cannot open " + name + ": " + SystemReason(errno), ""};
  const bool is_locked = ::flock(file, LOCK_SH | LOCK_NB) != 0;
  ::close(file);
  return is_locked;
}

Status SetClean(Database& database, bool is_clean) {
  return database.Run("UPDATE meta SET value = ? WHERE name = 'is_clean'", is_clean);
}

}  // namespace

SqliteStore::SqliteStore(const Folder& folder, Database database)
    : folder_(folder), database_(std::move(database)), models_(folder.path) {}

SqliteStore::~SqliteStore() {
  if (!broken_ && !is_reader_) {
    const Status marked = SetClean(database_, true);
    if (marked) (void)database_.Checkpoint(true);
  }
  { const Database closes_before_the_lock = std::move(database_); }
  if (folder_.lock >= 0) ::close(folder_.lock);
}

Result<SqliteStore::Folder> SqliteStore::LockFolder(const std::string& path) {
  const std::string name = path + "/LOCK";
  const int file = ::open(name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return Error{4004, "cannot open " + name + ": " + SystemReason(errno), ""};
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    std::array<char, 32> holder{};
    const ssize_t length = ::read(file, holder.data(), holder.size() - 1);
    ::close(file);
    const std::string pid(holder.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
    return Error{4002, path + " is in use by another process (pid " + pid + ")", "stop it"};
  }
  const std::string pid = std::to_string(::getpid());
  const bool is_written = ::ftruncate(file, 0) == 0 &&
                          ::write(file, pid.data(), pid.size()) == static_cast<ssize_t>(pid.size());
  if (!is_written) {
    const int error = errno;
    ::close(file);
    return Error{4001, "cannot write " + name + ": " + SystemReason(error), ""};
  }
  return Folder{path, file};
}

Result<std::unique_ptr<SqliteStore>> SqliteStore::Create(const std::string& folder,
                                                         const FederationId& federation,
                                                         WallMs now) {
  SKEP_TRY(CheckLinks(folder));
  SKEP_TRY(MakeFolder(folder));
  SKEP_TRY(CheckFolder(folder));
  const std::string path = DatabasePath(folder);
  if (Exists(path)) return Error{4004, "there is a store in " + folder + " already", ""};
  SKEP_ASSIGN(const Folder locked, LockFolder(folder));
  const auto made = [&]() -> Result<Database> {
    SKEP_TRY(MakeDatabaseFile(path));
    SKEP_ASSIGN(Database database, Database::Open(path));
    SKEP_TRY(Configure(database));
    SKEP_TRY(CreateSchema(database, federation, now));
    SKEP_TRY(SyncFolder(folder));
    return database;
  };
  Result<Database> database = made();
  if (!database) {
    (void)::unlink(path.c_str());
    ::close(locked.lock);
    return std::move(database).error();
  }
  std::unique_ptr<SqliteStore> store(new SqliteStore(locked, std::move(database).value()));
  SKEP_TRY(store->Recover(federation, false));
  return store;
}

Result<std::unique_ptr<SqliteStore>> SqliteStore::Open(
    const std::string& folder, const std::optional<FederationId>& expected) {
  SKEP_TRY(CheckFolder(folder));
  const std::string path = DatabasePath(folder);
  if (!Exists(path)) {
    return Error{4004, "there is no store in " + folder, "skep-aggregator init makes one"};
  }
  SKEP_ASSIGN(const Folder locked, LockFolder(folder));
  const bool had_log = HasLog(path);
  Result<Database> database = Database::Open(path);
  if (!database) {
    ::close(locked.lock);
    return std::move(database).error();
  }
  std::unique_ptr<SqliteStore> store(new SqliteStore(locked, std::move(database).value()));
  if (Status recovered = store->Recover(expected, had_log); !recovered) {
    store->broken_ = recovered.error();  // whatever it is, it is left as it was found
    return std::move(recovered).error();
  }
  return store;
}

Result<std::unique_ptr<SqliteStore>> SqliteStore::OpenForReading(
    const std::string& folder, const std::optional<FederationId>& expected) {
  SKEP_TRY(CheckFolder(folder));
  const std::string path = DatabasePath(folder);
  if (!Exists(path)) {
    return Error{4004, "there is no store in " + folder, "skep-aggregator init makes one"};
  }
  SKEP_ASSIGN(const bool is_in_use, IsLocked(folder));
  const bool had_log = HasLog(path);
  SKEP_ASSIGN(Database database, Database::Open(path, Database::Use::kRead));
  std::unique_ptr<SqliteStore> store(new SqliteStore({folder, -1}, std::move(database)));
  store->is_reader_ = true;
  store->is_in_use_ = is_in_use;
  store->is_doubtful_ = had_log;
  SKEP_TRY(store->Inspect(expected));
  return store;
}

Status SqliteStore::Recover(const std::optional<FederationId>& expected, bool had_log) {
  // What a failed sync left only in memory is written again before anything is read.
  if (had_log) SKEP_TRY(database_.Checkpoint(true));
  is_doubtful_ = had_log;
  SKEP_TRY(Inspect(expected));
  SKEP_TRY(Configure(database_));
  SKEP_TRY(CheckPages());
  SKEP_TRY(SetClean(database_, false));
  SKEP_TRY(models_.RemoveOthers([&](const Hash32& hash) {
    const auto named = database_.Number("SELECT 1 FROM blobs WHERE sha256 = ?", hash);
    return !named || named->has_value();  // in doubt it stays
  }));
  return database_.Checkpoint(false);
}

Status SqliteStore::CheckPages() {
  // A database that is being used is never marked clean.
  return is_doubtful_ && !is_in_use_ ? QuickCheck(database_) : Ok();
}

Status SqliteStore::Inspect(const std::optional<FederationId>& expected) {
  SKEP_TRY(CheckSchema(database_));
  SKEP_TRY(database_.ForEach("SELECT value FROM meta WHERE name = 'federation'",
                             [&](const Statement& row) {
                               federation_ = row.Id<FederationId>(0);
                               return Ok();
                             }));
  if (expected && federation_ != *expected) {
    return Error{
        4018,
        "the store is of federation " + federation_.Hex() + ", the keys are of " + expected->Hex(),
        "fix the configuration"};
  }
  SKEP_ASSIGN(const std::optional<std::int64_t> is_clean,
              database_.Number("SELECT value FROM meta WHERE name = 'is_clean'"));
  is_doubtful_ = is_doubtful_ || is_clean.value_or(0) == 0;
  return Ok();
}

Status SqliteStore::Commit() {
  if (Status committed = database_.Execute("COMMIT"); !committed) return committed;
  if (database_.wal_pages() <= kLargestLogPages) return Ok();
  // The transaction is durable in the log. A checkpoint without room comes with a later one; one
  // whose sync failed breaks the store.
  Status moved = database_.Checkpoint(false);
  if (!moved && (moved.error().code == 4005 || moved.error().code == 4006)) return moved;
  return Ok();
}

Error SqliteStore::RollBack(Error why) {
  // SQLite has rolled back by itself after some errors: then there is nothing to do.
  (void)database_.Execute("ROLLBACK");
  if (why.code == 4005 || why.code == 4006) broken_ = why;
  return why;
}

Result<BoundPorts> SqliteStore::Ports() {
  const std::scoped_lock lock(mutex_);
  BoundPorts ports;
  constexpr const char* kSelect = "SELECT value FROM meta WHERE name = ?";
  SKEP_ASSIGN(const auto devices, database_.Number(kSelect, "port_devices"));
  SKEP_ASSIGN(const auto enrol, database_.Number(kSelect, "port_enrol"));
  ports.devices = static_cast<std::uint16_t>(devices.value_or(0));
  ports.enrol = static_cast<std::uint16_t>(enrol.value_or(0));
  return ports;
}

Status SqliteStore::SetPorts(const BoundPorts& ports) {
  return InTransaction([&]() -> Status {
    constexpr const char* kReplace = "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)";
    SKEP_TRY(database_.Run(kReplace, "port_devices", ports.devices));
    return database_.Run(kReplace, "port_enrol", ports.enrol);
  });
}

Result<std::optional<wire::PublicKey>> SqliteStore::SigningKey() {
  const std::scoped_lock lock(mutex_);
  std::optional<wire::PublicKey> key;
  SKEP_TRY(database_.ForEach("SELECT value FROM meta WHERE name = 'signing_key'",
                             [&](const Statement& row) {
                               key = row.Id<wire::PublicKey>(0);
                               return Ok();
                             }));
  return key;
}

Status SqliteStore::SetSigningKey(const wire::PublicKey& key) {
  return InTransaction([&] {
    return database_.Run("INSERT OR REPLACE INTO meta (name, value) VALUES ('signing_key', ?)",
                         key);
  });
}

Result<std::uint64_t> SqliteStore::Apply(const Transaction& transaction, WallMs now,
                                         BodySource& bodies) {
  return InTransaction([&] {
    return ApplyTransaction({database_, models_, now, bodies}, transaction);
  });
}

Result<StoreSnapshot> SqliteStore::Load() {
  return InTransaction([&] { return LoadSnapshot(database_, models_); });
}

Result<std::optional<StoredVerdict>> SqliteStore::Verdict(const AttemptKey& task,
                                                          const DeviceId& device) {
  const std::scoped_lock lock(mutex_);
  return LoadVerdict(database_, task, device);
}

Result<Bytes> SqliteStore::UpdateBody(UploadNumber upload) {
  const std::scoped_lock lock(mutex_);
  std::optional<Bytes> body;
  SKEP_TRY(database_.ForEach(
      "SELECT body FROM updates WHERE upload = ? AND body IS NOT NULL",
      [&](const Statement& row) {
        const BytesView bytes = row.Blob(0);
        body.emplace(bytes.begin(), bytes.end());
        return Ok();
      },
      upload));
  if (!body) return Contradiction("no such update body");
  return std::move(*body);
}

Status SqliteStore::PutModel(const Hash32& hash, BytesView bytes) {
  const std::scoped_lock lock(models_mutex_);  // its own: sessions need not wait for a large file
  return models_.Put(hash, bytes);
}

Result<Bytes> SqliteStore::GetModel(const Hash32& hash) {
  return models_.Get(hash);
}

Result<Bytes> SqliteStore::GetPlan(const Hash32& hash) {
  const std::scoped_lock lock(mutex_);
  std::optional<Bytes> plan;
  SKEP_TRY(database_.ForEach(
      "SELECT bytes FROM plans WHERE sha256 = ?",
      [&](const Statement& row) {
        const BytesView bytes = row.Blob(0);
        plan.emplace(bytes.begin(), bytes.end());
        return Ok();
      },
      hash));
  if (!plan) return Error{2214, "plan " + hash.Hex() + " is unknown", ""};
  return std::move(*plan);
}

Result<std::vector<RoundRow>> SqliteStore::Attempts(const RunId& run) {
  const std::scoped_lock lock(mutex_);
  return LoadAttempts(database_, run);
}

Result<std::optional<OpenRound>> SqliteStore::Attempt(const AttemptKey& key) {
  const std::scoped_lock lock(mutex_);
  SKEP_ASSIGN(const std::optional<RoundPlace> place, FindRound(database_, key));
  if (!place) return std::optional<OpenRound>();
  SKEP_ASSIGN(OpenRound round, LoadRound(database_, key, *place));
  return std::optional(std::move(round));
}

Result<std::vector<EndCount>> SqliteStore::EndCounts(const RunId& run) {
  const std::scoped_lock lock(mutex_);
  std::vector<EndCount> found;
  SKEP_TRY(database_.ForEach(
      "SELECT rounds.round, kind, attempt, assignments.state, assignments.code, count(*)"
      " FROM rounds JOIN assignments ON assignments.round = rounds.position WHERE run = ?"
      " AND assignments.state IN ('declined', 'refused', 'failed')"
      " GROUP BY rounds.position, assignments.state, assignments.code"
      " ORDER BY rounds.position, assignments.state, count(*) DESC, assignments.code",
      [&](const Statement& row) -> Status {
        EndCount count;
        count.key = {.run = run,
                     .round = row.Int<std::uint32_t>(0),
                     .kind = static_cast<TaskKind>(row.Int<std::uint32_t>(1)),
                     .attempt = row.Int<std::uint32_t>(2)};
        SKEP_ASSIGN(count.state, FromWord<AssignmentState>(kAssignmentStates, row.Text(3)));
        count.code = row.Int<int>(4);
        count.count = row.Int<std::uint32_t>(5);
        found.push_back(count);
        return Ok();
      },
      run));
  return found;
}

Result<std::vector<Participation>> SqliteStore::Participations(const RunId& run) {
  const std::scoped_lock lock(mutex_);
  std::vector<Participation> found;
  SKEP_TRY(database_.ForEach(
      "SELECT device, contributions, last_round, last_time FROM participation WHERE run = ?"
      " ORDER BY device",
      [&](const Statement& row) {
        found.push_back({row.Id<DeviceId>(0), row.Int<std::uint32_t>(1), row.Int<std::uint32_t>(2),
                         row.Int<WallMs>(3)});
        return Ok();
      },
      run));
  return found;
}

}  // namespace skep::aggregator
