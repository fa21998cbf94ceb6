// ModelShelf: models by hash, loaded once and shared read-only by downloads, sums and evaluation.
//
// The store has every model; the shelf keeps the latest few in memory. Thread-safe. Source: Skep
// protocol 1.0, section 15, rule 4.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "aggregator/engine/job_runner.h"
#include "aggregator/store/store.h"

namespace skep::aggregator {

// The bytes of a model as they travel; `owner` keeps them in place.
struct ModelBytes {
  BytesView bytes;
  std::shared_ptr<const void> owner;
};
[[nodiscard]] ModelBytes BytesOf(const model::ParamsPtr& params);

class ModelShelf final : public ModelSource {
 public:
  // Keeps `capacity` models in memory. The store must outlive it.
  ModelShelf(Store& store, std::size_t capacity) : store_(store), capacity_(capacity) {}

  // A model of the store can be read once its layout is known.
  void Know(const Hash32& hash, const model::LayoutPtr& layout);
  // From memory, else from the store: waits for the disk. SKEP-4008.
  [[nodiscard]] Result<model::ParamsPtr> Model(const Hash32& hash) override;
  // On disk on return.
  [[nodiscard]] Status Keep(model::ParamsPtr params, const Hash32& hash) override;
  // From memory, or null.
  [[nodiscard]] model::ParamsPtr Cached(const Hash32& hash);

 private:
  struct Entry {
    Hash32 hash;
    model::ParamsPtr params;
  };
  void Remember(const Hash32& hash, model::ParamsPtr params);

  Store& store_;
  std::size_t capacity_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // used last comes first
  std::map<Hash32, model::LayoutPtr> layouts_;
};

}  // namespace skep::aggregator
