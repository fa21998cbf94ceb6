#include "shared/data/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include "shared/base/file.h"
#include "shared/base/try.h"

namespace skep::data {
namespace {

constexpr std::size_t kInputBytes = std::size_t{1} << 16;
constexpr std::size_t kFirstRead = std::size_t{1} << 16;
constexpr int kGzipWindow = 15 + 16;            // largest window, gzip wrapper
constexpr std::uint64_t kDeflateFactor = 1032;  // deflate's largest expansion

}  // namespace

struct ByteSource::State {
  explicit State(std::string name) : path(std::move(name)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (is_gzip) (void)inflateEnd(&stream);
    if (file >= 0) (void)::close(file);
  }

  // Reads the next part of the file into `input`; its length is 0 at the end.
  Status Fill() {
    ssize_t count = 0;
    do {
      count = ::read(file, input.data(), input.size());
    } while (count < 0 && errno == EINTR);
    if (count < 0) return Error{1201, "cannot read " + path + ": " + SystemReason(errno), ""};
    rest = BytesView(input).first(static_cast<std::size_t>(count));
    return Ok();
  }
  [[nodiscard]] Error Damaged(const std::string& reason) const {
    return Error{1202, path + ": gzip data " + reason, ""};
  }

  Result<std::size_t> ReadPlain(std::span<std::uint8_t> to);
  Result<std::size_t> ReadGzip(std::span<std::uint8_t> to);
  Status Inflate();

  std::string path;
  int file = -1;
  std::uint64_t file_bytes = 0;
  bool is_gzip = false;
  bool in_member = true;  // a gzip file is one or more members one after another
  z_stream stream{};
  std::array<std::uint8_t, kInputBytes> input{};
  BytesView rest;
};

Result<std::size_t> ByteSource::State::ReadPlain(std::span<std::uint8_t> to) {
  std::size_t have = 0;
  while (have < to.size()) {
    if (rest.empty()) SKEP_TRY(Fill());
    if (rest.empty()) break;
    const std::size_t count = std::min(rest.size(), to.size() - have);
    std::copy_n(rest.begin(), count, to.begin() + static_cast<std::ptrdiff_t>(have));
    rest = rest.subspan(count);
    have += count;
  }
  return have;
}

Status ByteSource::State::Inflate() {
  stream.next_in = const_cast<Bytef*>(rest.data());  // zlib does not write to it
  stream.avail_in = static_cast<uInt>(rest.size());
  const int outcome = inflate(&stream, Z_NO_FLUSH);
  rest = rest.last(stream.avail_in);
  if (outcome == Z_STREAM_END) {
    in_member = false;
    return Ok();
  }
  if (outcome == Z_OK || outcome == Z_BUF_ERROR) return Ok();
  return Damaged("is damaged" + (stream.msg != nullptr ? ": " + std::string(stream.msg) : ""));
}

Result<std::size_t> ByteSource::State::ReadGzip(std::span<std::uint8_t> to) {
  constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
  std::size_t have = 0;
  while (have < to.size()) {
    if (rest.empty()) SKEP_TRY(Fill());
    if (rest.empty() && in_member) return Damaged("ends too early");
    if (rest.empty()) break;
    if (!in_member) {
      (void)inflateReset(&stream);
      in_member = true;
    }
    const std::size_t wanted = std::min(to.size() - have, kMost);
    stream.next_out = to.data() + have;
    stream.avail_out = static_cast<uInt>(wanted);
    SKEP_TRY(Inflate());
    have += wanted - stream.avail_out;
  }
  return have;
}

ByteSource::ByteSource(std::unique_ptr<State> state) : state_(std::move(state)) {}
ByteSource::~ByteSource() = default;
ByteSource::ByteSource(ByteSource&&) noexcept = default;
ByteSource& ByteSource::operator=(ByteSource&&) noexcept = default;

Result<ByteSource> ByteSource::Open(const std::string& path) {
  auto state = std::make_unique<State>(path);
  // Without O_NONBLOCK opening a pipe would wait for its writer.
  state->file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat facts {};
  if (state->file < 0 || ::fstat(state->file, &facts) != 0) {
    return Error{1201, "cannot read " + path + ": " + SystemReason(errno), ""};
  }
  if (!S_ISREG(facts.st_mode)) return Error{1201, path + " is no regular file", ""};
  state->file_bytes = static_cast<std::uint64_t>(facts.st_size);
  SKEP_TRY(state->Fill());
  if (state->rest.size() >= 2 && state->rest[0] == 0x1F && state->rest[1] == 0x8B) {
    if (inflateInit2(&state->stream, kGzipWindow) != Z_OK) {
      return Error{1401, "no memory to unpack " + path, ""};
    }
    state->is_gzip = true;
  }
  return ByteSource(std::move(state));
}

const std::string& ByteSource::path() const {
  return state_->path;
}

std::uint64_t ByteSource::most_bytes() const {
  return state_->is_gzip ? state_->file_bytes * kDeflateFactor : state_->file_bytes;
}

Result<std::size_t> ByteSource::Read(std::span<std::uint8_t> to) {
  return state_->is_gzip ? state_->ReadGzip(to) : state_->ReadPlain(to);
}

Result<std::string> ByteSource::ReadAll(std::uint64_t limit) {
  std::string text;
  std::size_t have = 0;
  for (;;) {
    text.resize(std::max(kFirstRead, have * 2));
    const std::span<std::uint8_t> to(reinterpret_cast<std::uint8_t*>(text.data()), text.size());
    SKEP_ASSIGN(const std::size_t count, Read(to.subspan(have)));
    have += count;
    if (have > limit) {
      return Error{1202, path() + ": more than " + std::to_string(limit) + " bytes of text", ""};
    }
    if (have < text.size()) break;
  }
  text.resize(have);
  return text;
}

}  // namespace skep::data
