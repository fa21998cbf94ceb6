// What of a model stays on a device: saved under its update, gone on from as the aggregator says.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "client/agent/private_state.h"
#include "shared/base/file.h"
#include "shared/model/model_spec.h"
#include "shared/model/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace skep::agent {
namespace {

namespace fs = std::filesystem;

template <class Id>
Id MakeId(std::uint8_t number) {
  Id id;
  id.bytes.fill(number);
  return id;
}

const RunId kRun = MakeId<RunId>(1);
const RunId kOther = MakeId<RunId>(2);
const std::vector<RunId> kKnown{kRun, kOther};

model::LayoutPtr Layout() {
  return model::ModelSpec::Parse({2}, {"dense 3", "norm batch", "dense 2"})
      .value()
      .WithPrivateNorms()
      .value()
      .layout();
}

client::PrivateTensors Tensors(std::uint8_t value) {
  return std::make_shared<const Bytes>(Layout()->private_values() * sizeof(float), value);
}

struct Device {
  test::TemporaryFolder place;
  Storage storage = Storage::Create((place.path() / "device").string()).value();

  void Store(std::uint8_t update, const RunId& run = kRun) const {
    REQUIRE(StorePrivate(storage, run, MakeId<UpdateId>(update), *Layout(), Tensors(update))
                .has_value());
  }
  [[nodiscard]] PrivateState GoOn(std::optional<std::uint8_t> update,
                                  const RunId& run = kRun) const {
    std::optional<UpdateId> id;
    if (update) id = MakeId<UpdateId>(*update);
    return GoOnFrom(storage, run, id, *Layout(), kKnown).value();
  }
  [[nodiscard]] std::string PathOf(std::uint8_t update) const {
    return storage.Path("private/" + MakeId<UpdateId>(update).Hex());
  }
  [[nodiscard]] std::size_t files() const {
    if (!Exists(storage.Path("private"))) return 0;
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(storage.Path("private")), fs::directory_iterator()));
  }
};

TEST_CASE("a device goes on from the state that the aggregator names, and drops the others",
          "[unit]") {
  const Device device;
  CHECK(device.GoOn(std::nullopt).tensors == nullptr);
  for (std::uint8_t update = 1; update <= 3; ++update) device.Store(update);
  CHECK(device.files() == 3);
  // The latest one was of an attempt that came to nothing.
  CHECK(*device.GoOn(2).tensors == *Tensors(2));
  CHECK(device.files() == 1);
  CHECK(*device.GoOn(2).tensors == *Tensors(2));
  device.Store(4);
  CHECK(*device.GoOn(4).tensors == *Tensors(4));
  // None of it is in a published model, or it is one that is not here: initial state.
  CHECK(device.GoOn(9).tensors == nullptr);
  CHECK(device.files() == 0);
  device.Store(5);
  CHECK(device.GoOn(std::nullopt).tensors == nullptr);
  CHECK(device.files() == 0);
}

TEST_CASE("the states of runs beside it stay, those of runs long past go", "[unit]") {
  const Device device;
  device.Store(1);
  device.Store(2, kOther);
  device.Store(3, MakeId<RunId>(7));
  CHECK(*device.GoOn(1).tensors == *Tensors(1));
  CHECK(Exists(device.PathOf(2)));
  CHECK_FALSE(Exists(device.PathOf(3)));
  // An id of another run is none of this one's.
  CHECK(device.GoOn(2).tensors == nullptr);
  CHECK(*device.GoOn(2, kOther).tensors == *Tensors(2));
}

TEST_CASE("a private state is a safetensors file for its owner alone", "[unit]") {
  const Device device;
  device.Store(1);
  struct stat facts {};
  REQUIRE(::stat(device.PathOf(1).c_str(), &facts) == 0);
  CHECK((static_cast<unsigned>(facts.st_mode) & 07777U) == 0600);
  REQUIRE(::stat(device.storage.Path("private").c_str(), &facts) == 0);
  CHECK((static_cast<unsigned>(facts.st_mode) & 07777U) == 0700);
  const model::TensorFile file = model::ReadTensorFile(device.PathOf(1), 100).value();
  CHECK(file.metadata.at("skep.run") == kRun.Hex());
  std::vector<std::string> names;
  for (const model::FileTensor& tensor : file.tensors) {
    names.push_back(tensor.name);
    CHECK(tensor.shape == std::vector<std::uint64_t>{3});
  }
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"norm1.bias", "norm1.running_mean", "norm1.running_var",
                                          "norm1.weight"});
}

TEST_CASE("a damaged private state is removed and named, one that was cut while written is not",
          "[unit]") {
  const Device device;
  device.Store(1);
  const auto size = fs::file_size(device.PathOf(1));
  for (const std::uintmax_t cut : {std::uintmax_t{0}, std::uintmax_t{7}, size / 2, size - 1}) {
    device.Store(1);
    fs::resize_file(device.PathOf(1), cut);
    const PrivateState state = device.GoOn(1);
    CHECK(state.tensors == nullptr);
    CHECK(state.damaged == std::vector<std::string>{device.PathOf(1)});
    CHECK(device.files() == 0);
  }
  // One value, which the format cannot tell.
  device.Store(1);
  std::fstream file(device.PathOf(1), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(size - 3));
  file.put('\x7E');
  file.close();
  CHECK(device.GoOn(1).damaged.size() == 1);
  (void)std::ofstream(device.PathOf(1) + ".partial");
  const PrivateState state = device.GoOn(1);
  CHECK(state.damaged.empty());
  CHECK(device.files() == 0);
}

}  // namespace
}  // namespace skep::agent
