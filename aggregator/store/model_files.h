// Model files: raw tensor bytes under their own hash, complete or absent.
//
// models/<2 hex>/<64 hex>.bin below the store's folder. Not a cache: what a row names must be here.
// One thread at a time. Source: docs/durability.md (sync rules).
#pragma once

#include <functional>
#include <string>

#include "shared/base/bytes.h"
#include "shared/base/ids.h"
#include "shared/base/result.h"

namespace skep::aggregator {

class ModelFiles {
 public:
  explicit ModelFiles(std::string store_folder) : folder_(std::move(store_folder) + "/models") {}

  // Durable on return. Idempotent. SKEP-4008: the bytes have another hash.
  [[nodiscard]] Status Put(const Hash32& hash, BytesView bytes) const;
  // SKEP-4008: missing or altered.
  [[nodiscard]] Result<Bytes> Get(const Hash32& hash) const;
  // Bytes of the file, without reading it. SKEP-4008: missing.
  [[nodiscard]] Result<std::uint64_t> Size(const Hash32& hash) const;
  // Removes models that `is_kept` does not name, and what an interrupted Put left.
  [[nodiscard]] Status RemoveOthers(const std::function<bool(const Hash32&)>& is_kept) const;

 private:
  [[nodiscard]] std::string FolderOf(const Hash32& hash) const;
  [[nodiscard]] std::string PathOf(const Hash32& hash) const;

  std::string folder_;
};

}  // namespace skep::aggregator
