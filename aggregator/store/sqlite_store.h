// SqliteStore: the Store and the Registry of a server, in one SQLite database and a folder of
// models.
//
// One process at a time holds the folder (flock). Members may be called from any thread; a lock
// makes them take turns, and a change is on disk when its call returns. After SKEP-4005 every later
// change is refused with it: the caller must stop, recovery decides from the disk. A full disk
// (SKEP-4001) changes nothing and may be tried again. Source: docs/durability.md.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "aggregator/store/model_files.h"
#include "aggregator/store/registry.h"
#include "aggregator/store/sqlite.h"
#include "aggregator/store/store.h"

namespace skep::aggregator {

// Ports that were bound where the configuration says 0; 0 = none yet.
struct BoundPorts {
  std::uint16_t devices = 0;
  std::uint16_t enrol = 0;

  friend bool operator==(const BoundPorts&, const BoundPorts&) = default;
};

// How many devices of an attempt ended in one way, by SKEP number.
struct EndCount {
  AttemptKey key;
  AssignmentState state = AssignmentState::kDeclined;
  int code = 0;
  std::uint32_t count = 0;
};

// How often a device contributed to a run, and when last.
struct Participation {
  DeviceId device;
  std::uint32_t contributions = 0;
  std::uint32_t last_round = 0;
  WallMs last_time = 0;
};

class SqliteStore final : public Store, public Registry {
 public:
  // Makes the folder, if it is missing, and an empty store in it. SKEP-4004: a store is there, or
  // the folder cannot be made; SKEP-4003: a network or FUSE file system.
  [[nodiscard]] static Result<std::unique_ptr<SqliteStore>> Create(const std::string& folder,
                                                                   const FederationId& federation,
                                                                   WallMs now);
  // SKEP-4002 in use, 4003 file system, 4004 folder missing, foreign or open to others, 4006
  // damaged, 4012 and 4013 schema, 4018 of another federation than `expected`.
  [[nodiscard]] static Result<std::unique_ptr<SqliteStore>> Open(
      const std::string& folder, const std::optional<FederationId>& expected);
  // The same checks for who only looks, also while another process holds the folder: every read
  // works, every change is refused (SKEP-4004), and nothing stored changes.
  [[nodiscard]] static Result<std::unique_ptr<SqliteStore>> OpenForReading(
      const std::string& folder, const std::optional<FederationId>& expected);
  // SKEP-4006 after an end that was not clean; recovery asks, who only looks has to.
  [[nodiscard]] Status CheckPages();
  // Marks the end as clean and empties the log, unless a sync failed before.
  ~SqliteStore() override;

  [[nodiscard]] const FederationId& federation() const { return federation_; }
  // Of one that was opened for reading: whether another process held the folder then.
  [[nodiscard]] bool is_in_use() const { return is_in_use_; }
  [[nodiscard]] Result<BoundPorts> Ports();
  [[nodiscard]] Status SetPorts(const BoundPorts& ports);
  // The public half of the key that signs tasks, as devices know it; nothing before `init`.
  [[nodiscard]] Result<std::optional<wire::PublicKey>> SigningKey();
  [[nodiscard]] Status SetSigningKey(const wire::PublicKey& key);

  // For people and audits: every attempt of a run, in the order of opening, and one in full.
  [[nodiscard]] Result<std::vector<RoundRow>> Attempts(const RunId& run);
  [[nodiscard]] Result<std::optional<OpenRound>> Attempt(const AttemptKey& key);
  // Of every attempt of a run, in the order of opening: declined, refused and failed.
  [[nodiscard]] Result<std::vector<EndCount>> EndCounts(const RunId& run);
  [[nodiscard]] Result<std::vector<Participation>> Participations(const RunId& run);

  // Store.
  [[nodiscard]] Result<std::uint64_t> Apply(const Transaction& transaction, WallMs now,
                                            BodySource& bodies) override;
  [[nodiscard]] Result<StoreSnapshot> Load() override;
  [[nodiscard]] Result<std::optional<StoredVerdict>> Verdict(const AttemptKey& task,
                                                             const DeviceId& device) override;
  [[nodiscard]] Result<Bytes> UpdateBody(UploadNumber upload) override;
  [[nodiscard]] Status PutModel(const Hash32& hash, BytesView bytes) override;
  [[nodiscard]] Result<Bytes> GetModel(const Hash32& hash) override;
  [[nodiscard]] Result<Bytes> GetPlan(const Hash32& hash) override;

  // Registry.
  [[nodiscard]] Status CreatePopulation(const std::string& name, std::string_view actor,
                                        WallMs now) override;
  [[nodiscard]] Result<std::vector<PopulationRow>> Populations() override;
  [[nodiscard]] Result<ClientNumber> CreateTokens(const std::string& population,
                                                  const std::vector<NewToken>& tokens,
                                                  WallMs expires, std::string_view actor,
                                                  WallMs now) override;
  [[nodiscard]] Result<std::vector<TokenRow>> Tokens(const std::string& population) override;
  [[nodiscard]] Result<std::optional<Enrolled>> CheckToken(const Hash32& secret_sha256,
                                                           const Hash32& key_sha256,
                                                           WallMs now) override;
  [[nodiscard]] Result<Enrolled> UseToken(const Enrolment& enrolment, WallMs now) override;
  [[nodiscard]] Result<std::vector<DeviceRow>> Devices() override;
  [[nodiscard]] Result<std::optional<DeviceRow>> FindDevice(const DeviceId& device) override;
  [[nodiscard]] Status DeviceSeen(const DeviceId& device, WallMs now) override;
  [[nodiscard]] Status SetStrikes(const DeviceId& device, std::uint32_t strikes) override;
  [[nodiscard]] Status SetDeviceState(const DeviceId& device, DeviceState state,
                                      std::string_view actor, std::string_view why,
                                      WallMs now) override;
  [[nodiscard]] Result<std::optional<CertificateRow>> FindCertificate(
      const Serial& serial) override;
  [[nodiscard]] Result<CertificateRow> AddCertificate(const CertificateRow& certificate,
                                                      WallMs now) override;
  [[nodiscard]] Status CertificateUsed(const Serial& serial, WallMs now) override;
  [[nodiscard]] Result<std::vector<AuditRow>> Audit(std::size_t limit) override;

 private:
  // An open, locked folder.
  struct Folder {
    std::string path;
    int lock = -1;
  };
  SqliteStore(const Folder& folder, Database database);
  [[nodiscard]] static Result<Folder> LockFolder(const std::string& path);
  [[nodiscard]] Status Recover(const std::optional<FederationId>& expected, bool had_log);
  // What recovery reads and judges, without a change.
  [[nodiscard]] Status Inspect(const std::optional<FederationId>& expected);
  // Runs `change` as one transaction: all of it, durable, or nothing.
  template <class Change>
  auto InTransaction(Change change) -> decltype(change());
  [[nodiscard]] Status Commit();
  [[nodiscard]] Error RollBack(Error why);

  Folder folder_;
  std::mutex mutex_;
  std::mutex models_mutex_;
  Database database_;
  ModelFiles models_;
  FederationId federation_;
  bool is_reader_ = false;
  bool is_in_use_ = false;
  bool is_doubtful_ = false;     // its last end was not clean
  std::optional<Error> broken_;  // the first failed sync or commit
};

// Every failure inside rolls back; one of the disk breaks the store for good.
template <class Change>
auto SqliteStore::InTransaction(Change change) -> decltype(change()) {
  const std::scoped_lock lock(mutex_);
  if (broken_) return Error(*broken_);
  if (Status begun = database_.Execute("BEGIN IMMEDIATE"); !begun) {
    return RollBack(std::move(begun).error());
  }
  auto changed = change();
  if (!changed.has_value()) return RollBack(std::move(changed).error());
  if (Status committed = Commit(); !committed) return RollBack(std::move(committed).error());
  return changed;
}

}  // namespace skep::aggregator
