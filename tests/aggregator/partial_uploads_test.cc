// What is kept of uploads that were cut off: the files by themselves.
#include "aggregator/store/partial_uploads.h"

#include <filesystem>

#include "shared/base/file.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace skep::aggregator {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLimit = 1 << 20;

DeviceId DeviceOf(std::uint8_t number) {
  DeviceId device;
  device.bytes.fill(number);
  return device;
}

wire::UploadBegin BeginOf(std::uint8_t number, std::uint64_t size = 1000) {
  wire::UploadBegin begin;
  begin.task.run_id.bytes.fill(0xA0);
  begin.task.round = 3;
  begin.task.attempt = 2;
  begin.task.kind = wire::TaskKind::kTrain;
  begin.update_id.bytes.fill(number);
  begin.sha256.bytes.fill(number);
  begin.size = size;
  begin.encoding = wire::Encoding::kF32;
  return begin;
}

Bytes BodyOf(std::size_t size) {
  Bytes body(size);
  for (std::size_t i = 0; i < size; ++i) body[i] = static_cast<std::uint8_t>(i * 7);
  return body;
}

struct World {
  World() { REQUIRE(files.Open(ReadClock().wall).has_value()); }
  [[nodiscard]] std::string Folder() const { return (folder.path() / "partial").string(); }
  [[nodiscard]] std::string FileOf(const DeviceId& device) const {
    return Folder() + "/" + device.Hex() + ".part";
  }
  [[nodiscard]] PartialUploads Restarted() const { return {Folder(), kLimit}; }

  test::TemporaryFolder folder;
  PartialUploads files{Folder(), kLimit};
};

TEST_CASE("what was added in pieces comes back as one beginning, also after a restart", "[unit]") {
  World world;
  const Bytes body = BodyOf(1000);
  const BytesView bytes(body);
  REQUIRE(world.files.Append(DeviceOf(1), BeginOf(1), 0, bytes.first(300)));
  REQUIRE(world.files.Append(DeviceOf(1), BeginOf(1), 300, bytes.subspan(300, 200)));
  const Bytes held = world.files.Load(DeviceOf(1), BeginOf(1));
  CHECK(held == Bytes(body.begin(), body.begin() + 500));
  PartialUploads again = world.Restarted();
  const auto kept = again.Open(ReadClock().wall).value();
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].device == DeviceOf(1));
  CHECK(kept[0].attempt == AttemptKey{BeginOf(1).task.run_id, 3, TaskKind::kTrain, 2});
  CHECK(kept[0].bytes == 500);
  CHECK(again.Load(DeviceOf(1), BeginOf(1)) == held);
  REQUIRE(again.Append(DeviceOf(1), BeginOf(1), 500, bytes.subspan(500)));
  CHECK(again.Load(DeviceOf(1), BeginOf(1)) == body);
}

TEST_CASE("only the very same body is given back", "[unit]") {
  World world;
  const Bytes body = BodyOf(100);
  REQUIRE(world.files.Append(DeviceOf(1), BeginOf(1), 0, body));
  CHECK(world.files.Load(DeviceOf(2), BeginOf(1)).empty());
  const std::vector<std::function<void(wire::UploadBegin&)>> changes = {
      [](auto& begin) { begin.update_id.bytes[3] ^= 1; },
      [](auto& begin) { begin.sha256.bytes[31] ^= 1; },
      [](auto& begin) { ++begin.size; },
      [](auto& begin) { begin.encoding = wire::Encoding::kNone; },
      [](auto& begin) { ++begin.task.round; },
      [](auto& begin) { ++begin.task.attempt; },
      [](auto& begin) { begin.task.run_id.bytes[0] ^= 1; },
      [](auto& begin) { begin.task.kind = wire::TaskKind::kEvaluate; }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    INFO("change " << i);
    wire::UploadBegin other = BeginOf(1);
    changes[i](other);
    CHECK(world.files.Load(DeviceOf(1), other).empty());
  }
  CHECK(world.files.Load(DeviceOf(1), BeginOf(1)) == body);
}

TEST_CASE("a device has one body, and a gap keeps nothing", "[unit]") {
  World world;
  const Bytes body = BodyOf(100);
  REQUIRE(world.files.Append(DeviceOf(1), BeginOf(1), 0, body));
  REQUIRE(world.files.Append(DeviceOf(1), BeginOf(2), 0, body));
  CHECK(world.files.Load(DeviceOf(1), BeginOf(1)).empty());
  CHECK(world.files.Load(DeviceOf(1), BeginOf(2)) == body);
  CHECK_FALSE(world.files.Append(DeviceOf(1), BeginOf(2), 101, body));
  CHECK(world.files.Load(DeviceOf(1), BeginOf(2)).empty());
  CHECK_FALSE(Exists(world.FileOf(DeviceOf(1))));
}

TEST_CASE("a file is kept up to its first unsound record", "[unit]") {
  World world;
  const Bytes body = BodyOf(900);
  const BytesView bytes(body);
  for (std::uint64_t at = 0; at < 900; at += 300) {
    REQUIRE(world.files.Append(DeviceOf(1), BeginOf(1), at, bytes.subspan(at, 300)));
  }
  const std::string path = world.FileOf(DeviceOf(1));
  const Bytes whole = ReadFile(path, kLimit, 4001).value();
  // Cut at every byte, and one byte turned anywhere: never more than was written, never other data.
  for (std::size_t size = 0; size <= whole.size(); size += 7) {
    REQUIRE(WriteFileAtomically(path, BytesView(whole).first(size)).has_value());
    PartialUploads files = world.Restarted();
    const auto kept = files.Open(ReadClock().wall).value();
    const Bytes held = files.Load(DeviceOf(1), BeginOf(1));
    REQUIRE(held.size() % 300 == 0);
    REQUIRE(std::equal(held.begin(), held.end(), body.begin()));
    if (size < 100) REQUIRE(kept.empty());
  }
  for (std::size_t at = 0; at < whole.size(); at += 11) {
    Bytes damaged = whole;
    damaged[at] ^= 0x40;
    REQUIRE(WriteFileAtomically(path, damaged).has_value());
    PartialUploads files = world.Restarted();
    REQUIRE(files.Open(ReadClock().wall).has_value());
    const Bytes held = files.Load(DeviceOf(1), BeginOf(1));
    REQUIRE(held.size() < 900);
    REQUIRE(std::equal(held.begin(), held.end(), body.begin()));
  }
}

TEST_CASE("what is old or no partial upload is removed at the start", "[unit]") {
  World world;
  REQUIRE(world.files.Append(DeviceOf(1), BeginOf(1), 0, BodyOf(10)));
  (void)world.folder.Write("partial/notes.txt", "hello");
  (void)world.folder.Write("partial/" + DeviceOf(2).Hex() + ".part", "SKPU");
  PartialUploads tomorrow = world.Restarted();
  const WallMs now = ReadClock().wall;
  CHECK(tomorrow.Open(now).value().size() == 1);
  CHECK(std::distance(fs::directory_iterator(world.Folder()), fs::directory_iterator{}) == 1);
  PartialUploads later = world.Restarted();
  CHECK(later.Open(now + WallMs{25} * 3600 * 1000).value().empty());
  CHECK_FALSE(Exists(world.FileOf(DeviceOf(1))));
}

TEST_CASE("all files together stay below the limit", "[unit]") {
  World world;
  const Bytes half = BodyOf(kLimit / 2);
  REQUIRE(world.files.Append(DeviceOf(1), BeginOf(1, kLimit), 0, half));
  CHECK_FALSE(world.files.Append(DeviceOf(2), BeginOf(2, kLimit), 0, half));
  CHECK_FALSE(Exists(world.FileOf(DeviceOf(2))));
  world.files.Drop(DeviceOf(1));
  CHECK(world.files.Append(DeviceOf(2), BeginOf(2, kLimit), 0, half));
}

TEST_CASE("a folder that takes no files keeps nothing and breaks nothing", "[unit]") {
  World world;
  // A folder in the place of the file: also root cannot write it.
  REQUIRE(fs::create_directories(world.FileOf(DeviceOf(1))));
  CHECK_FALSE(world.files.Append(DeviceOf(1), BeginOf(1), 0, BodyOf(10)));
  CHECK(world.files.Load(DeviceOf(1), BeginOf(1)).empty());
}

}  // namespace
}  // namespace skep::aggregator
