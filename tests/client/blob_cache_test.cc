// What is kept of downloads: parts, wholes, how much of them, and what is damaged.
#include "client/agent/blob_cache.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "shared/base/file.h"
#include "shared/base/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace skep::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPlenty = 1U << 20U;

// `size` bytes that no other `number` gives.
Bytes BlobOf(std::uint8_t number, std::size_t size = 100) {
  Bytes bytes(size, number);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::uint8_t>(std::size_t{number} * 31 + i);
  return bytes;
}

struct World {
  test::TemporaryFolder place;
  Storage storage = Storage::Create((place.path() / "device").string()).value();

  [[nodiscard]] std::string PathOf(const std::string& name = "") const {
    return storage.Path(name.empty() ? "cache" : "cache/" + name);
  }
  [[nodiscard]] std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(PathOf())) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
  [[nodiscard]] std::uint64_t Sum() const {
    std::uint64_t sum = 0;
    for (const std::string& name : Names()) sum += fs::file_size(PathOf(name));
    return sum;
  }
  void Put(const std::string& name, BytesView content) const {
    (void)place.Write("device/cache/" + name, AsText(content));
  }
};

Hash32 Keep(BlobCache& cache, const Bytes& bytes) {
  const Hash32 blob = Sha256::Of(bytes);
  cache.Complete(blob, bytes);
  return blob;
}

bool Has(BlobCache& cache, const Hash32& blob) {
  const auto found = cache.Find(blob);
  return found.has_value() && found->has_value();
}

// Whether the file is there, without using it.
bool IsKept(const World& world, const Hash32& blob) {
  return Exists(world.PathOf(blob.Hex()));
}

unsigned ModeOf(const std::string& path) {
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  return static_cast<unsigned>(facts.st_mode) & 07777U;
}

TEST_CASE("what was kept whole is found, by the next process too", "[unit]") {
  World world;
  BlobCache cache(world.storage, kPlenty);
  const Bytes bytes = BlobOf(1);
  CHECK_FALSE(Has(cache, Sha256::Of(bytes)));
  const Hash32 blob = Keep(cache, bytes);
  CHECK(cache.Find(blob).value() == bytes);
  BlobCache next(world.storage, kPlenty);
  CHECK(next.Find(blob).value() == bytes);
  CHECK(world.Names() == std::set<std::string>{blob.Hex()});
  CHECK(Has(cache, Keep(cache, {})));
}

TEST_CASE("a part grows by its offsets and becomes the whole", "[unit]") {
  World world;
  BlobCache cache(world.storage, kPlenty);
  const Bytes bytes = BlobOf(1);
  const Hash32 blob = Sha256::Of(bytes);
  CHECK(cache.Held(blob) == 0);
  CHECK(cache.Load(blob).empty());
  cache.Append(blob, 0, BytesView(bytes).first(40));
  cache.Append(blob, 40, BytesView(bytes).subspan(40, 20));
  BlobCache next(world.storage, kPlenty);
  CHECK(next.Held(blob) == 60);
  CHECK(next.Load(blob) == Bytes(bytes.begin(), bytes.begin() + 60));
  CHECK_FALSE(Has(next, blob));
  struct stat part {};
  REQUIRE(::stat(world.PathOf(blob.Hex() + ".part").c_str(), &part) == 0);
  next.Complete(blob, bytes);
  CHECK(next.Held(blob) == 0);
  CHECK(next.Find(blob).value() == bytes);
  CHECK(world.Names() == std::set<std::string>{blob.Hex()});
  struct stat whole {};
  REQUIRE(::stat(world.PathOf(blob.Hex()).c_str(), &whole) == 0);
  CHECK(whole.st_ino == part.st_ino);  // the same file: its bytes were not written again
}

TEST_CASE("a part begins anew at offset 0, and is dropped where it does not continue", "[unit]") {
  World world;
  BlobCache cache(world.storage, kPlenty);
  const Bytes bytes = BlobOf(1);
  const Hash32 blob = Sha256::Of(bytes);
  cache.Append(blob, 0, BytesView(bytes).first(40));
  cache.Append(blob, 0, BytesView(bytes).first(10));
  CHECK(cache.Held(blob) == 10);
  cache.Append(blob, 20, BytesView(bytes).subspan(20));
  CHECK(cache.Held(blob) == 0);
  cache.Append(blob, 20, BytesView(bytes).subspan(20));
  CHECK(cache.Held(blob) == 0);
  CHECK(world.Names().empty());
}

TEST_CASE("there is one part at a time, and a plan that is kept does not end it", "[unit]") {
  World world;
  BlobCache cache(world.storage, kPlenty);
  const Bytes first = BlobOf(1);
  const Bytes second = BlobOf(2);
  cache.Append(Sha256::Of(first), 0, BytesView(first).first(40));
  cache.Append(Sha256::Of(second), 0, BytesView(second).first(30));
  CHECK(cache.Held(Sha256::Of(first)) == 0);
  CHECK(cache.Held(Sha256::Of(second)) == 30);
  const Hash32 plan = Keep(cache, BlobOf(3));
  CHECK(cache.Held(Sha256::Of(second)) == 30);
  cache.DropParts();
  CHECK(cache.Held(Sha256::Of(second)) == 0);
  CHECK(Has(cache, plan));
}

TEST_CASE("a damaged whole is removed and reported, once", "[unit]") {
  World world;
  BlobCache cache(world.storage, kPlenty);
  const Bytes bytes = BlobOf(1);
  const Hash32 blob = Sha256::Of(bytes);
  Bytes flipped = bytes;
  flipped[50] ^= 1U;
  Bytes longer = bytes;
  longer.push_back(0);
  const Bytes damages[] = {flipped, Bytes(bytes.begin(), bytes.end() - 1), longer, Bytes()};
  for (const Bytes& damage : damages) {
    cache.Complete(blob, bytes);
    world.Put(blob.Hex(), damage);
    const auto found = cache.Find(blob);
    REQUIRE_FALSE(found.has_value());
    CHECK(found.error().code == 4010);
    CHECK(found.error().message == world.PathOf(blob.Hex()) + " was damaged and is removed");
    CHECK(cache.Find(blob).value() == std::nullopt);
  }
}

TEST_CASE("a damaged part is found out as the whole that it became", "[unit]") {
  World world;
  BlobCache cache(world.storage, kPlenty);
  const Bytes bytes = BlobOf(1);
  const Hash32 blob = Sha256::Of(bytes);
  cache.Append(blob, 0, BytesView(bytes).first(40));
  world.Put(blob.Hex() + ".part", Bytes(40, 0));
  cache.Complete(blob, bytes);
  CHECK(cache.Find(blob).error().code == 4010);
  CHECK(world.Names().empty());
}

TEST_CASE("what is kept anew replaces what was damaged", "[unit]") {
  World world;
  BlobCache cache(world.storage, kPlenty);
  const Bytes bytes = BlobOf(1);
  const Hash32 blob = Keep(cache, bytes);
  world.Put(blob.Hex(), Bytes(bytes.size(), 0));
  cache.Complete(blob, bytes);
  CHECK(Has(cache, blob));
  world.Put(blob.Hex() + ".part", Bytes(bytes.size() + 1, 0));  // longer than it can be
  cache.Complete(blob, bytes);
  CHECK(Has(cache, blob));
}

TEST_CASE("what was not used for longest goes first", "[unit]") {
  World world;
  BlobCache cache(world.storage, 350);
  const Hash32 a = Keep(cache, BlobOf(1));
  const Hash32 b = Keep(cache, BlobOf(2));
  const Hash32 c = Keep(cache, BlobOf(3));
  CHECK(Has(cache, a));  // a use
  const Hash32 d = Keep(cache, BlobOf(4));
  CHECK_FALSE(IsKept(world, b));
  CHECK(IsKept(world, a));
  CHECK(IsKept(world, c));
  const Bytes e = BlobOf(5, 240);
  cache.Append(Sha256::Of(e), 0, BytesView(e).first(200));  // a part counts, too
  CHECK_FALSE(IsKept(world, c));
  CHECK_FALSE(IsKept(world, a));
  CHECK(IsKept(world, d));
  CHECK(world.Sum() == 300);
  cache.Complete(Sha256::Of(e), e);
  CHECK(IsKept(world, d));
  CHECK(world.Sum() == 340);
  // The part of a download goes as well where it is the oldest.
  cache.Append(Sha256::Of(BlobOf(6)), 0, BytesView(BlobOf(6)).first(5));
  CHECK(Has(cache, d));
  CHECK(Has(cache, Sha256::Of(e)));
  const Hash32 f = Keep(cache, BlobOf(7, 10));
  CHECK(cache.Held(Sha256::Of(BlobOf(6))) == 0);
  CHECK(world.Names() == std::set<std::string>{d.Hex(), Sha256::Of(e).Hex(), f.Hex()});
}

TEST_CASE("the order of use survives a clock that goes back", "[unit]") {
  World world;
  BlobCache cache(world.storage, 350);
  const Hash32 a = Keep(cache, BlobOf(1));
  const struct timespec ahead[] = {{2'000'000'000, 0}, {2'000'000'000, 0}};
  REQUIRE(::utimensat(AT_FDCWD, world.PathOf(a.Hex()).c_str(), ahead, 0) == 0);
  const Hash32 b = Keep(cache, BlobOf(2));
  const Hash32 c = Keep(cache, BlobOf(3));
  (void)Keep(cache, BlobOf(4));
  CHECK_FALSE(IsKept(world, a));
  CHECK(IsKept(world, b));
  CHECK(IsKept(world, c));
}

TEST_CASE("the limit holds at every write, to the byte, and is asked anew each time", "[unit]") {
  World world;
  std::uint64_t limit = 200;
  BlobCache cache(world.storage, [&limit] { return limit; });
  const Hash32 a = Keep(cache, BlobOf(1));
  const Hash32 b = Keep(cache, BlobOf(2));
  CHECK(world.Sum() == 200);
  CHECK(IsKept(world, a));
  const Hash32 c = Keep(cache, BlobOf(3, 1));
  CHECK(world.Sum() == 101);
  CHECK_FALSE(IsKept(world, a));
  (void)Keep(cache, BlobOf(4, 201));  // more than there may be: nothing goes for it
  CHECK(world.Names() == std::set<std::string>{b.Hex(), c.Hex()});
  limit = 50;
  CHECK_FALSE(Has(cache, b));  // larger than what may be held
  (void)Keep(cache, BlobOf(5, 49));
  CHECK(world.Sum() == 50);
  limit = 0;
  (void)Keep(cache, BlobOf(6, 1));
  CHECK(world.Sum() == 50);
  cache.ShrinkTo(49);
  CHECK(world.Sum() == 49);
  cache.ShrinkTo(0);
  CHECK(world.Names().empty());
}

TEST_CASE("a part that grows out of its room is dropped, and the rest of it not kept", "[unit]") {
  World world;
  std::uint64_t limit = 100;
  BlobCache cache(world.storage, [&limit] { return limit; });
  const Bytes bytes = BlobOf(1, 101);
  const Hash32 blob = Sha256::Of(bytes);
  cache.Append(blob, 0, BytesView(bytes).first(60));
  CHECK(cache.Held(blob) == 60);
  cache.Append(blob, 60, BytesView(bytes).subspan(60));
  CHECK(world.Names().empty());
  cache.Append(blob, 0, BytesView(bytes).first(60));
  cache.Complete(blob, bytes);
  CHECK(world.Names().empty());
  cache.Append(blob, 0, BytesView(bytes).first(60));
  limit = 59;
  CHECK(cache.Held(blob) == 0);
  CHECK(cache.Load(blob).empty());
}

TEST_CASE("what other versions left is removed at the next write, and only there", "[unit]") {
  World world;
  BlobCache cache(world.storage, kPlenty);
  const Hash32 kept = Keep(cache, BlobOf(1));
  const Hash32 other = Sha256::Of(BlobOf(2));
  world.Put("index.json", BlobOf(3));
  world.Put(kept.Hex() + ".partial", BlobOf(3));
  world.Put("ABCDEF" + kept.Hex().substr(6), BlobOf(3));
  world.Put("folder/with/files", BlobOf(3));
  fs::create_directories(world.PathOf(other.Hex() + ".part"));
  const std::string outside = world.place.Write("outside", "precious").string();
  fs::create_symlink(outside, world.PathOf(other.Hex()));
  CHECK(cache.Find(other).value() == std::nullopt);  // a link is not followed
  CHECK(cache.Held(other) == 0);
  const Bytes bytes = BlobOf(4);
  cache.Append(Sha256::Of(bytes), 0, bytes);
  CHECK(world.Names() == std::set<std::string>{kept.Hex(), Sha256::Of(bytes).Hex() + ".part"});
  CHECK(Exists(outside));
  world.Put("index.json", BlobOf(3));
  cache.Complete(Sha256::Of(bytes), bytes);
  CHECK(world.Names() == std::set<std::string>{kept.Hex(), Sha256::Of(bytes).Hex()});
}

TEST_CASE("no link is followed, neither for the folder nor for a part", "[unit]") {
  World world;
  const fs::path outside = world.place.path() / "outside";
  fs::create_directories(outside);
  fs::create_directory_symlink(outside, world.PathOf());
  BlobCache cache(world.storage, kPlenty);
  const Bytes bytes = BlobOf(1);
  const Hash32 blob = Sha256::Of(bytes);
  cache.Append(blob, 0, bytes);
  cache.Complete(blob, bytes);
  CHECK(fs::is_empty(outside));
  fs::remove(world.PathOf());
  fs::create_directories(world.PathOf());
  const std::string target = world.place.Write("target", "").string();
  fs::create_symlink(target, world.PathOf(blob.Hex() + ".part"));
  cache.Complete(blob, bytes);
  CHECK(fs::file_size(target) == 0);
  CHECK(Has(cache, blob));
}

TEST_CASE("files and folder of the cache are their owner's alone", "[unit]") {
  World world;
  const mode_t before = ::umask(0);
  BlobCache cache(world.storage, kPlenty);
  const Hash32 whole = Keep(cache, BlobOf(1));
  const Bytes bytes = BlobOf(2);
  cache.Append(Sha256::Of(bytes), 0, bytes);
  ::umask(before);
  CHECK(ModeOf(world.PathOf()) == 0700);
  CHECK(ModeOf(world.PathOf(whole.Hex())) == 0600);
  CHECK(ModeOf(world.PathOf(Sha256::Of(bytes).Hex() + ".part")) == 0600);
}

TEST_CASE("where nothing can be written nothing is kept, and nothing fails", "[unit]") {
  World world;
  (void)world.place.Write("device/cache", "a file in its place");
  BlobCache cache(world.storage, kPlenty);
  const Bytes bytes = BlobOf(1);
  const Hash32 blob = Sha256::Of(bytes);
  cache.Append(blob, 0, bytes);
  cache.Complete(blob, bytes);
  cache.ShrinkTo(0);
  cache.DropParts();
  CHECK(cache.Held(blob) == 0);
  CHECK(cache.Load(blob).empty());
  CHECK(cache.Find(blob).value() == std::nullopt);
}

// Files of this process may have so many bytes for a while: a disk that is full in the middle.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit now{bytes, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &now) == 0);
  }
  ~FileSizeLimit() {
    (void)::setrlimit(RLIMIT_FSIZE, &before_);
    (void)std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST_CASE("a write that comes to nothing in its middle leaves no part", "[unit]") {
  World world;
  BlobCache cache(world.storage, kPlenty);
  const Bytes bytes = BlobOf(1);
  const Hash32 blob = Sha256::Of(bytes);
  const Hash32 old = Keep(cache, BlobOf(2, 10));
  cache.Append(blob, 0, BytesView(bytes).first(40));
  {
    const FileSizeLimit full(70);
    cache.Append(blob, 40, BytesView(bytes).subspan(40));
  }
  CHECK(world.Names() == std::set<std::string>{old.Hex()});
  {
    const FileSizeLimit full(70);
    cache.Complete(blob, bytes);
  }
  CHECK(world.Names() == std::set<std::string>{old.Hex()});
  cache.Complete(blob, bytes);
  CHECK(Has(cache, blob));
}

}  // namespace
}  // namespace skep::agent
