// Blob cache: models and plans that were downloaded, by their SHA-256, and the beginning of one
// whose download was cut off, so that only what is missing comes again.
//
// cache/<sha256> and cache/<sha256>.part of the storage folder; used last is kept longest. Advice:
// nothing is synced, what is damaged is found by its hash and removed, and what cannot be written
// is not kept, which is never an error. One thread at a time. Source: Skep client library, section
// 8; Skep protocol 1.0, section 8.1.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/agent/storage.h"
#include "shared/base/bytes.h"
#include "shared/base/ids.h"

namespace skep::agent {

class BlobCache {
 public:
  // How many bytes the files of the cache may have together; asked before each write and each read.
  using Limit = std::function<std::uint64_t()>;

  // `storage` outlives it.
  BlobCache(const Storage& storage, Limit limit) : storage_(storage), limit_(std::move(limit)) {}
  BlobCache(const Storage& storage, std::uint64_t limit)
      : BlobCache(storage, [limit] { return limit; }) {}

  // Bytes of the part of this blob that are there; 0 if there are none.
  [[nodiscard]] std::uint64_t Held(const Hash32& blob) const;
  // They themselves; none if they cannot be read.
  [[nodiscard]] Bytes Load(const Hash32& blob) const;
  // Adds bytes behind the first `offset`; at offset 0 the part begins anew. Parts of other blobs
  // are dropped: there is one at a time. A part that does not have `offset` bytes, or for which
  // there is no room, is dropped, too.
  void Append(const Hash32& blob, std::uint64_t offset, BytesView bytes);
  // Keeps the whole. Precondition: `bytes` have that hash, and begin with the part. Of a part only
  // what is missing is written.
  void Complete(const Hash32& blob, BytesView bytes);

  // The whole, checked by its hash; nothing if it is not there. SKEP-4010 for one that was damaged
  // and is removed.
  [[nodiscard]] Result<std::optional<Bytes>> Find(const Hash32& blob);

  // Removes what was not used for longest until at most `most` bytes are left: what weighs more
  // needs the room.
  void ShrinkTo(std::uint64_t most);
  // Of whatever blob.
  void DropParts();

 private:
  struct File {
    std::string name;
    std::uint64_t size;
    std::int64_t used;  // nanoseconds since 1970, if clocks are right; orders files in any case
  };

  [[nodiscard]] std::string PathOf(const std::string& name) const;
  [[nodiscard]] bool HasFolder() const;
  [[nodiscard]] std::vector<File> Files() const;
  void RemoveStrangers() const;
  void DropPartsBut(const std::string& kept) const;
  [[nodiscard]] bool MakeRoom(const std::string& kept, std::uint64_t more) const;
  void Touch(const std::string& name) const;

  const Storage& storage_;
  Limit limit_;
};

}  // namespace skep::agent
