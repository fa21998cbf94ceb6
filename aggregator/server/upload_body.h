// Bodies of updates in memory: charged before they come, hashed while they come, kept until they
// are written and added up.
//
// UploadBody belongs to the network thread until its last byte, then to whoever checks it.
// BodyShelf is thread-safe: network, committer and compute threads share it. Source: Skep
// protocol 1.0, sections 9.2 (B1) and 15.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "aggregator/store/store.h"
#include "shared/base/sha256.h"
#include "shared/wire/budget.h"

namespace skep::aggregator {

class UploadBody {
 public:
  // Null if `budget` has no room for the whole body now. It outlives the body.
  [[nodiscard]] static std::unique_ptr<UploadBody> Open(wire::Budget& budget, std::uint64_t size,
                                                        const Hash32& sha256);

  // Precondition: no more than the size in all.
  void Append(BytesView bytes);
  [[nodiscard]] bool is_whole() const { return bytes_.size() == size_; }
  [[nodiscard]] const Bytes& bytes() const { return bytes_; }
  // Of the whole body; call once.
  [[nodiscard]] bool HasExpectedHash() { return hash_.Finish() == sha256_; }

 private:
  UploadBody(wire::ChargedBytes charged, std::uint64_t size, const Hash32& sha256)
      : charged_(std::move(charged)), size_(size), sha256_(sha256) {}

  wire::ChargedBytes charged_;
  std::uint64_t size_;
  Hash32 sha256_;
  Bytes bytes_;
  Sha256 hash_;
};

class BodyShelf final : public BodySource {
 public:
  [[nodiscard]] std::shared_ptr<const Bytes> Body(UploadNumber upload) override;
  void Put(UploadNumber upload, const AttemptKey& attempt, std::shared_ptr<UploadBody> body);
  void Forget(UploadNumber upload);
  void ForgetAllOf(const AttemptKey& attempt);

 private:
  struct Entry {
    AttemptKey attempt;
    std::shared_ptr<UploadBody> body;
  };
  std::mutex mutex_;
  std::unordered_map<UploadNumber, Entry> bodies_;
};

// Bodies to add up: from memory, else from the store (after a restart).
class FoldBodies final : public BodySource {
 public:
  FoldBodies(BodyShelf& shelf, Store& store) : shelf_(shelf), store_(store) {}
  [[nodiscard]] std::shared_ptr<const Bytes> Body(UploadNumber upload) override;

 private:
  BodyShelf& shelf_;
  Store& store_;
};

}  // namespace skep::aggregator
