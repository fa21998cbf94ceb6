#include "aggregator/server/model_shelf.h"

#include <algorithm>
#include <utility>

#include "shared/base/try.h"
#include "shared/model/parts.h"

namespace skep::aggregator {
namespace {

constexpr int kModelMissing = 4008;

Result<model::ParamsPtr> ParamsFrom(const model::LayoutPtr& layout, BytesView bytes) {
  if (bytes.size() != layout->model_values() * sizeof(float)) {
    return Error{kModelMissing, "a stored model has another size than its layout", ""};
  }
  auto params = std::make_shared<model::Params>(layout);
  model::PutPart(*layout, model::Part::kModel, bytes, params->values());
  return model::ParamsPtr(std::move(params));
}

}  // namespace

ModelBytes BytesOf(const model::ParamsPtr& params) {
  const model::Layout& layout = *params->layout();
  if (layout.model_values() == layout.values()) return {AsBytes(params->values()), params};
  const auto copy =
      std::make_shared<const Bytes>(model::TakePart(layout, model::Part::kModel, params->values()));
  return {*copy, copy};
}

void ModelShelf::Know(const Hash32& hash, const model::LayoutPtr& layout) {
  const std::scoped_lock lock(mutex_);
  layouts_[hash] = layout;
}

model::ParamsPtr ModelShelf::Cached(const Hash32& hash) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.hash == hash; });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return entries_.front().params;
}

void ModelShelf::Remember(const Hash32& hash, model::ParamsPtr params) {
  const std::scoped_lock lock(mutex_);
  layouts_[hash] = params->layout();
  std::erase_if(entries_, [&](const Entry& entry) { return entry.hash == hash; });
  entries_.push_front({hash, std::move(params)});
  if (entries_.size() > capacity_) entries_.pop_back();
}

Result<model::ParamsPtr> ModelShelf::Model(const Hash32& hash) {
  if (auto params = Cached(hash)) return params;
  model::LayoutPtr layout;
  {
    const std::scoped_lock lock(mutex_);
    const auto known = layouts_.find(hash);
    if (known != layouts_.end()) layout = known->second;
  }
  if (!layout) return Error{kModelMissing, "model " + hash.Hex() + " is not known", ""};
  SKEP_ASSIGN(const Bytes bytes, store_.GetModel(hash));
  SKEP_ASSIGN(model::ParamsPtr params, ParamsFrom(layout, bytes));
  Remember(hash, params);
  return params;
}

Status ModelShelf::Keep(model::ParamsPtr params, const Hash32& hash) {
  SKEP_TRY(store_.PutModel(hash, BytesOf(params).bytes));
  Remember(hash, std::move(params));
  return Ok();
}

}  // namespace skep::aggregator
