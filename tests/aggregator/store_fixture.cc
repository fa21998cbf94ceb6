#include "tests/aggregator/store_fixture.h"

#include <sstream>

namespace skep::aggregator::test {
namespace {

void Describe(const std::vector<Metric>& metrics, std::ostream& out) {
  for (const Metric& metric : metrics) {
    out << " " << metric.name << "=" << metric.value << "/" << metric.clients;
  }
}

void Describe(const RoundRow& round, std::ostream& out) {
  out << "  round " << round.key.round << " kind " << static_cast<int>(round.key.kind)
      << " attempt " << round.key.attempt << " epoch " << round.epoch << " state "
      << static_cast<int>(round.state) << " manifest " << ToHex(round.manifest.payload) << " "
      << round.manifest.key_id.Hex() << " " << round.manifest.signature.Hex() << " opened "
      << round.opened << " deadline " << round.deadline << " in " << round.model_in.Hex() << " out "
      << round.model_out.Hex() << " weight " << round.total_weight << " reason " << round.reason;
  Describe(round.metrics, out);
  out << "\n";
}

void Describe(const OpenRound& open, std::ostream& out) {
  Describe(open.round, out);
  for (const AssignmentRow& row : open.cohort) {
    out << "    " << row.device.Hex() << " client " << row.client << " state "
        << static_cast<int>(row.state) << " code " << row.code << "\n";
  }
  for (const UpdateRow& row : open.updates) {
    out << "    update " << row.update.Hex() << " of " << row.device.Hex() << " client "
        << row.client << " sha " << row.sha256.Hex() << " size " << row.size << " encoding "
        << static_cast<int>(row.encoding) << " weight " << row.weight << " norms " << row.norm
        << " " << row.aux_norm << " ms " << row.train_ms << " seq " << row.seq << " upload "
        << row.upload;
    Describe(row.metrics, out);
    out << "\n";
  }
}

class MemoryUnderTest final : public StoreUnderTest {
 public:
  MemoryUnderTest() : store_(kFederation) { Prepare(); }
  Store& store() override { return store_; }
  void Reopen() override {}

 private:
  MemoryStore store_;
};

class SqliteUnderTest final : public StoreUnderTest {
 public:
  SqliteUnderTest()
      : store_(SqliteStore::Create((folder_.path() / "store").string(), kFederation, 100).value()) {
    Prepare();
  }
  Store& store() override { return *store_; }
  void Reopen() override {
    store_.reset();
    store_ = SqliteStore::Open((folder_.path() / "store").string(), kFederation).value();
  }

 private:
  skep::test::TemporaryFolder folder_;
  std::unique_ptr<SqliteStore> store_;
};

}  // namespace

std::string Describe(const StoreSnapshot& snapshot) {
  std::ostringstream out;
  out << snapshot.federation.Hex() << " epoch " << snapshot.epoch << " seq " << snapshot.next_seq
      << " upload " << snapshot.next_upload << "\n";
  for (const RunSnapshot& run : snapshot.runs) {
    const RunRow& row = run.run;
    out << "run " << row.id.Hex() << " " << row.name << " " << row.population << " state "
        << static_cast<int>(row.state) << " code " << row.code << " reason " << row.reason << " "
        << row.experiment_toml << " seed " << row.seed << " plan " << ToHex(row.plan) << " model "
        << row.model.Hex() << " next " << row.next_round << "." << row.next_attempt << " abandoned "
        << row.abandoned_in_a_row << " scale " << row.scale << " key " << row.request_key
        << " evaluated " << run.evaluated_round << "\n";
    out << " open\n";
    for (const OpenRound& open : run.open_rounds) Describe(open, out);
    out << " ended\n";
    for (const RoundRow& round : run.rounds) Describe(round, out);
  }
  return out.str();
}

std::unique_ptr<StoreUnderTest> MakeMemory() {
  return std::make_unique<MemoryUnderTest>();
}
std::unique_ptr<StoreUnderTest> MakeSqlite() {
  return std::make_unique<SqliteUnderTest>();
}

}  // namespace skep::aggregator::test
