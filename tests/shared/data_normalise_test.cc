#include <cmath>

#include "tests/shared/data_fixture.h"

namespace skep::data {
namespace {

DataOptions Normalised(const std::string& how) {
  DataOptions options;
  options.normalize = how;
  return options;
}

constexpr const char* kTable = "a,b,k,y\n1,10,u,0\n2,10,v,1\n3,10,u,0\n6,10,v,1\n";

TEST_CASE("standard uses mean and deviation of the training part, one-hot columns stay", "[unit]") {
  const LoadedData loaded = LoadCsv(kTable, Normalised("standard")).value();
  const double deviation = std::sqrt(14.0 / 4);
  CHECK(loaded.spec.features[0].offset == 3);
  CHECK(loaded.spec.features[0].scale == deviation);
  CHECK(loaded.train->floats[0] == static_cast<float>(-2 / deviation));
  CHECK(loaded.train->floats[2] == 1);
  CHECK(loaded.train->floats[3] == 0);
}

TEST_CASE("a constant column becomes 0 and is named in a note", "[unit]") {
  const LoadedData loaded = LoadCsv(kTable, Normalised("standard")).value();
  CHECK(loaded.train->floats[1] == 0);
  CHECK(loaded.spec.features[1].scale == 1);
  CHECK(loaded.notes ==
        std::vector<std::string>{
            "column \"b\" is constant in the training part: it becomes 0 everywhere"});
}

TEST_CASE("none, unit and symmetric scale as they say", "[unit]") {
  CHECK(LoadCsv(kTable, Normalised("none")).value().train->floats[0] == 1);
  CHECK(LoadCsv(kTable, Normalised("auto")).value().train->floats[0] == 1);
  CHECK(LoadCsv(kTable, Normalised("unit")).value().train->floats[0] ==
        static_cast<float>(1.0 / 255));
  const LoadedData symmetric = LoadCsv(kTable, Normalised("symmetric")).value();
  CHECK(symmetric.train->floats[0] == -1);
  CHECK(symmetric.train->floats[12] == 1);
}

TEST_CASE("the test part is scaled by the training part's numbers", "[unit]") {
  const test::TemporaryFolder folder;
  DataOptions options = Normalised("standard");
  options.path = folder.Write("train.csv", "a,y\n0,0\n4,1\n").string();
  options.test_path = folder.Write("test.csv", "a,y\n10,1\n").string();
  CHECK(Load(options).value().test->floats == std::vector<float>{4});
}

TEST_CASE("sums are added client by client, over the rows that clients train on", "[unit]") {
  // 1e16 + 1 is 1e16 in double: the order of additions shows in the result.
  const std::string text = "a,site,y\n1,n,0\n1e16,s,1\n1,n,0\n-1e16,s,1\n";
  DataOptions options = Normalised("standard");
  options.label = "y";
  options.client_column = "site";
  CHECK(LoadCsv(text, options).value().spec.features[0].offset == 0);
  options.clients = PartitionOptions{};
  options.clients->rule = "natural";
  options.clients->num_clients = 0;
  CHECK(LoadCsv(text, options).value().spec.features[0].offset == 0.5);
  options.clients->num_clients = 3;
  CHECK(MessageOf(LoadCsv(text, options), 1102).find("data.num_clients = 3") == 0);
}

TEST_CASE("images are standardised by exact counts", "[unit]") {
  const test::TemporaryFolder folder;
  (void)folder.Write("train-images-idx3-ubyte",
                     Idx(8, {2, 1, 2}, std::string_view("\0\4\4\x08", 4)));
  (void)folder.Write("train-labels-idx1-ubyte", Idx(8, {2}, std::string_view("\0\1", 2)));
  DataOptions options = Normalised("standard");
  options.path = folder.path().string();
  options.test_fraction = 0;
  const LoadedData loaded = Load(options).value();
  CHECK(loaded.train->byte_offset == 4);
  CHECK(loaded.train->byte_scale == std::sqrt(8.0));
  options.normalize = "symmetric";
  CHECK(Load(options).value().train->byte_offset == 127.5);
  options.normalize = "none";
  CHECK(Load(options).value().train->byte_scale == 1);
  options.scaling = {{"x", {1, 2}}};
  CHECK(Load(options).value().train->byte_scale == 2);
}

}  // namespace
}  // namespace skep::data
