// MemoryStore: the Store without a disk, for tests and for runs that nobody resumes.
//
// Keeps the contract of store.h but durability; one thread at a time.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "aggregator/store/store.h"

namespace skep::aggregator {

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(const FederationId& federation, std::uint32_t epoch = 1)
      : federation_(federation), epoch_(epoch) {}

  [[nodiscard]] Result<std::uint64_t> Apply(const Transaction& transaction, WallMs now,
                                            BodySource& bodies) override;
  [[nodiscard]] Result<StoreSnapshot> Load() override;
  [[nodiscard]] Result<std::optional<StoredVerdict>> Verdict(const AttemptKey& task,
                                                             const DeviceId& device) override;
  [[nodiscard]] Result<Bytes> UpdateBody(UploadNumber upload) override;
  [[nodiscard]] Status PutModel(const Hash32& hash, BytesView bytes) override;
  [[nodiscard]] Result<Bytes> GetModel(const Hash32& hash) override;
  [[nodiscard]] Result<Bytes> GetPlan(const Hash32& hash) override;

 private:
  struct Run {
    RunRow row;
    std::vector<AttemptKey> order;  // of opening
    std::uint32_t evaluated_round = 0;
  };
  struct Attempt {
    OpenRound rows;
    std::unordered_map<DeviceId, std::size_t> in_cohort;  // index of a device's assignment
    std::unordered_map<DeviceId, std::size_t> updated;    // index of its update, if acknowledged

    [[nodiscard]] AssignmentRow* Assignment(const DeviceId& device);
  };

  [[nodiscard]] Result<std::uint64_t> On(const StartRunTx& tx);
  [[nodiscard]] Result<std::uint64_t> On(const ChangeRunTx& tx);
  [[nodiscard]] Result<std::uint64_t> On(const OpenRoundTx& tx);
  [[nodiscard]] Result<std::uint64_t> On(const AssignTx& tx);
  [[nodiscard]] Result<std::uint64_t> On(const EndAssignmentTx& tx);
  [[nodiscard]] Result<std::uint64_t> On(const UpdateTx& tx, BodySource& bodies);
  [[nodiscard]] Result<std::uint64_t> On(const CloseRoundTx& tx);
  [[nodiscard]] Result<std::uint64_t> On(const PublishTx& tx);
  [[nodiscard]] Result<std::uint64_t> On(const AbandonTx& tx);
  [[nodiscard]] Result<std::uint64_t> On(const EvaluatedTx& tx);

  [[nodiscard]] Result<Run*> FindRun(const RunId& id);
  [[nodiscard]] Result<Attempt*> FindAttempt(const AttemptKey& key);
  void ForgetBodies(const Attempt& attempt);

  FederationId federation_;
  std::uint32_t epoch_;
  std::uint64_t next_seq_ = 1;
  UploadNumber next_upload_ = 1;
  std::vector<std::unique_ptr<Run>> runs_;  // oldest first
  std::map<AttemptKey, Attempt> attempts_;
  std::set<UpdateId> update_ids_;
  std::set<UploadNumber> uploads_;
  std::map<UploadNumber, std::shared_ptr<const Bytes>> bodies_;
  std::map<Hash32, Bytes> models_;
  std::map<Hash32, Bytes> plans_;
};

}  // namespace skep::aggregator
