#include "aggregator/server/upload_body.h"

#include <algorithm>
#include <utility>

#include "shared/base/check.h"

namespace skep::aggregator {

std::unique_ptr<UploadBody> UploadBody::Open(wire::Budget& budget, std::uint64_t size,
                                             const Hash32& sha256) {
  // All of it at once: two half bodies must never wait for each other's memory.
  wire::ChargedBytes charged(budget);
  if (!charged.Grow(size)) return nullptr;
  return std::unique_ptr<UploadBody>(new UploadBody(std::move(charged), size, sha256));
}

void UploadBody::Append(BytesView bytes) {
  SKEP_CHECK(bytes.size() <= size_ - bytes_.size());
  if (bytes_.capacity() - bytes_.size() < bytes.size()) {
    // Memory follows what has come, not what was announced.
    const std::size_t wanted = std::max(2 * bytes_.size(), bytes_.size() + bytes.size());
    bytes_.reserve(std::min<std::size_t>(wanted, size_));
  }
  skep::Append(bytes_, bytes);
  hash_.Update(bytes);
}

std::shared_ptr<const Bytes> BodyShelf::Body(UploadNumber upload) {
  const std::scoped_lock lock(mutex_);
  const auto found = bodies_.find(upload);
  if (found == bodies_.end()) return nullptr;
  const std::shared_ptr<UploadBody>& body = found->second.body;
  return {body, &body->bytes()};
}

void BodyShelf::Put(UploadNumber upload, const AttemptKey& attempt,
                    std::shared_ptr<UploadBody> body) {
  const std::scoped_lock lock(mutex_);
  bodies_[upload] = {attempt, std::move(body)};
}

void BodyShelf::ForgetAllOf(const AttemptKey& attempt) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(bodies_, [&](const auto& entry) { return entry.second.attempt == attempt; });
}

void BodyShelf::Forget(UploadNumber upload) {
  const std::scoped_lock lock(mutex_);
  bodies_.erase(upload);
}

std::shared_ptr<const Bytes> FoldBodies::Body(UploadNumber upload) {
  if (auto body = shelf_.Body(upload)) return body;
  Result<Bytes> stored = store_.UpdateBody(upload);
  if (!stored) return nullptr;
  return std::make_shared<const Bytes>(std::move(stored).value());
}

}  // namespace skep::aggregator
