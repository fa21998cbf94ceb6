// Rows, bodies and stores for the tests of the store: small, and different in every field.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "aggregator/store/memory_store.h"
#include "aggregator/store/sqlite_store.h"
#include "shared/base/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace skep::aggregator::test {

template <class Id>
Id MakeId(std::uint8_t number) {
  Id id;
  id.bytes.fill(number);
  return id;
}

inline const FederationId kFederation = MakeId<FederationId>(0xFE);

class Bodies final : public BodySource {
 public:
  std::shared_ptr<const Bytes> Body(UploadNumber upload) override {
    const auto found = bodies_.find(upload);
    return found == bodies_.end() ? nullptr : found->second;
  }
  void Put(UploadNumber upload, Bytes bytes) {
    bodies_[upload] = std::make_shared<const Bytes>(std::move(bytes));
  }

 private:
  std::map<UploadNumber, std::shared_ptr<const Bytes>> bodies_;
};

inline Bytes ModelBytes(std::uint8_t number) {
  return Bytes(64, number);
}
inline Hash32 ModelHash(std::uint8_t number) {
  return Sha256::Of(ModelBytes(number));
}
inline Bytes PlanBytes() {
  return {1, 2, 3};
}

inline RunRow MakeRun(std::uint8_t number = 1) {
  RunRow run;
  run.id = MakeId<RunId>(number);
  run.name = "run-" + std::to_string(number);
  run.population = "pump";
  run.experiment_toml = "schema = 1\n";
  run.seed = 0xFEDCBA9876543210U;
  run.plan = PlanBytes();
  run.model = ModelHash(1);
  run.scale = 33;
  run.request_key = "key-" + std::to_string(number);
  return run;
}

inline AttemptKey TrainKey(std::uint32_t round = 1, std::uint32_t attempt = 1,
                           std::uint8_t run = 1) {
  return {MakeId<RunId>(run), round, TaskKind::kTrain, attempt};
}
inline AttemptKey EvaluateKey(std::uint32_t round = 1, std::uint32_t attempt = 1) {
  return {MakeId<RunId>(1), round, TaskKind::kEvaluate, attempt};
}
inline DeviceId Device(std::uint8_t number) {
  return MakeId<DeviceId>(number);
}

// Devices 30, 20, 10 as clients 3, 2, 1: neither order is the other's.
inline OpenRoundTx MakeOpen(const AttemptKey& key, const Hash32& model = ModelHash(1)) {
  OpenRoundTx open;
  open.round.key = key;
  open.round.epoch = 1;
  open.round.manifest = {
      .payload = {9, 8, 7}, .key_id = MakeId<KeyId>(4), .signature = MakeId<wire::Signature>(5)};
  open.round.opened = 1000;
  open.round.deadline = 601'000;
  open.round.model_in = model;
  open.plan = PlanBytes();
  open.plan_sha256 = Sha256::Of(open.plan);
  for (const unsigned number : {3U, 2U, 1U}) {
    open.cohort.push_back({.device = Device(static_cast<std::uint8_t>(10 * number)),
                           .client = number,
                           .state = AssignmentState::kOffered,
                           .code = 0});
  }
  return open;
}

inline Bytes BodyBytes(std::uint8_t number) {
  return Bytes(100 + number, number);
}

// The update of client `number` as upload `number`.
inline UpdateTx MakeUpdate(const AttemptKey& key, std::uint8_t number) {
  UpdateTx tx{.key = key, .update = {}};
  UpdateRow& update = tx.update;
  update.device = Device(static_cast<std::uint8_t>(10 * number));
  update.client = number;
  update.update = MakeId<UpdateId>(static_cast<std::uint8_t>(0x40 + number));
  update.sha256 = Sha256::Of(BodyBytes(number));
  update.size = BodyBytes(number).size();
  update.encoding = wire::Encoding::kF32;
  update.weight = 600U + number;
  update.norm = 0.1 * number;
  update.aux_norm = 0.01;
  update.metrics = {{"train_loss", 2.25 / number, 0}};
  update.train_ms = 15;
  update.upload = number;
  return tx;
}

inline PublishTx MakePublish(const AttemptKey& key, std::uint8_t model) {
  return {.key = key,
          .model_out = ModelHash(model),
          .total_weight = 1801,
          .metrics = {{"train_loss", 1.5, 3}},
          .run_state = RunState::kRunning,
          .next_round = key.round + 1,
          .reason = ""};
}

// Everything of a snapshot as text, so that two can be compared and a difference be read.
std::string Describe(const StoreSnapshot& snapshot);

// One implementation, empty, with models 1 to 4 stored.
class StoreUnderTest {
 public:
  virtual ~StoreUnderTest() = default;
  virtual Store& store() = 0;
  // What a restart of the process would find.
  virtual void Reopen() = 0;

  [[nodiscard]] Result<std::uint64_t> Apply(const Transaction& transaction, WallMs now = 5000) {
    return store().Apply(transaction, now, bodies_);
  }
  // Applies all; each must succeed.
  void Must(const std::vector<Transaction>& transactions) {
    for (const Transaction& transaction : transactions) {
      const auto applied = Apply(transaction);
      INFO("transaction " << transaction.index() << ": "
                          << (applied ? "" : applied.error().message));
      REQUIRE(applied.has_value());
    }
  }
  [[nodiscard]] std::string State() { return Describe(store().Load().value()); }
  Bodies& bodies() { return bodies_; }

 protected:
  void Prepare() {
    for (std::uint8_t number = 1; number <= 4; ++number) {
      REQUIRE(store().PutModel(ModelHash(number), ModelBytes(number)).has_value());
      bodies_.Put(number, BodyBytes(number));
    }
  }

 private:
  Bodies bodies_;
};

std::unique_ptr<StoreUnderTest> MakeMemory();
std::unique_ptr<StoreUnderTest> MakeSqlite();

inline const std::vector<std::unique_ptr<StoreUnderTest> (*)()> kAllStores{MakeMemory, MakeSqlite};

}  // namespace skep::aggregator::test
