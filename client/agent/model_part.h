// Model part: the beginning of a model whose download was cut off, so that only the rest comes
// again.
//
// cache/<sha256>.part of the storage folder, named by the model's hash; one at a time. Advice: it
// is not synced, and who completes it checks the whole by its hash. The loop's thread. Source: Skep
// client library, section 8; Skep protocol 1.0, section 8.1.
#pragma once

#include <cstdint>

#include "client/agent/storage.h"
#include "shared/base/ids.h"

namespace skep::agent {

class ModelPart {
 public:
  // `storage` outlives it. At most `limit` bytes are kept.
  ModelPart(const Storage& storage, std::uint64_t limit) : storage_(storage), limit_(limit) {}

  // Bytes of this model that are there; 0 if there are none.
  [[nodiscard]] std::uint64_t Held(const Hash32& model) const;
  // They themselves; fewer, or none, if the file cannot be read.
  [[nodiscard]] Bytes Load(const Hash32& model) const;
  // Adds bytes behind the first `offset`. Drops what is there of other models. What cannot be
  // written is not kept.
  void Append(const Hash32& model, std::uint64_t offset, BytesView bytes);
  // Of any model.
  void Drop();

 private:
  [[nodiscard]] std::string PathOf(const Hash32& model) const;

  const Storage& storage_;
  std::uint64_t limit_;
};

}  // namespace skep::agent
