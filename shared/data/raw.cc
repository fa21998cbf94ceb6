#include "shared/data/raw.h"

#include <algorithm>
#include <map>

#include "shared/base/sha256.h"

namespace skep::data {
namespace {

// Owner names to numbers in order of first appearance.
class OwnerNumbers {
 public:
  explicit OwnerNumbers(std::vector<std::string>& names) : names_(names) {}
  std::uint32_t Of(const std::string& name) {
    const auto [place, is_new] =
        numbers_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
    if (is_new) names_.push_back(name);
    return place->second;
  }

 private:
  std::vector<std::string>& names_;
  std::map<std::string, std::uint32_t> numbers_;
};

struct ArrayHead {
  std::string name;
  std::string type;
  std::vector<std::uint64_t> dimensions;
};

void HashHead(Sha256& hash, const ArrayHead& head) {
  Bytes bytes;
  Append(bytes, AsBytes(head.name));
  bytes.push_back(0);
  Append(bytes, AsBytes(head.type));
  bytes.push_back(0);
  AppendLittle(bytes, static_cast<std::uint32_t>(head.dimensions.size()));
  for (const std::uint64_t dimension : head.dimensions) AppendLittle(bytes, dimension);
  hash.Update(bytes);
}

template <class T>
void HashValues(Sha256& hash, const std::vector<T>& values) {
  hash.Update({reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(T)});
}

void HashPart(Sha256& hash, const RawPart& part, const std::string& suffix) {
  std::vector<std::uint64_t> dimensions{part.rows};
  dimensions.insert(dimensions.end(), part.input_shape.begin(), part.input_shape.end());
  HashHead(hash, {"x" + suffix, part.bytes.empty() ? "f8" : "u1", dimensions});
  HashValues(hash, part.bytes);
  HashValues(hash, part.numbers);
  std::vector<std::uint64_t> places{part.rows};
  if (part.labels_per_row != 1) places.push_back(part.labels_per_row);
  HashHead(hash, {"y" + suffix, "i4", places});
  HashValues(hash, part.labels);
  if (part.owner.empty()) return;
  HashHead(hash, {"client" + suffix, "str", {part.rows}});
  for (const std::uint32_t owner : part.owner) {
    const std::string& name = part.owner_names[owner];
    hash.Update({reinterpret_cast<const std::uint8_t*>(name.c_str()), name.size() + 1});
  }
}

template <class T>
void TakeInputs(const std::vector<T>& from, std::size_t values,
                const std::vector<std::uint32_t>& chosen, std::vector<T>& to) {
  if (from.empty()) return;
  to.resize(chosen.size() * values);
  T* at = to.data();
  for (const std::uint32_t row : chosen) at = std::copy_n(from.data() + row * values, values, at);
}

}  // namespace

RawPart TakeRows(const RawPart& part, const std::vector<std::uint32_t>& chosen) {
  RawPart taken;
  taken.input_shape = part.input_shape;
  taken.rows = chosen.size();
  taken.values = part.values;
  TakeInputs(part.bytes, part.values, chosen, taken.bytes);
  TakeInputs(part.numbers, part.values, chosen, taken.numbers);
  taken.labels_per_row = part.labels_per_row;
  TakeInputs(part.labels, part.labels_per_row, chosen, taken.labels);
  if (!part.owner.empty()) {
    OwnerNumbers numbers(taken.owner_names);
    for (const std::uint32_t row : chosen) {
      taken.owner.push_back(numbers.Of(part.owner_names[part.owner[row]]));
    }
    taken.owners_without_rows = part.owners_without_rows;
  }
  return taken;
}

void AssignOwners(RawPart& part, const std::vector<std::string>& owner_of_source_row) {
  part.owner_names.clear();
  part.owner.clear();
  OwnerNumbers numbers(part.owner_names);
  for (std::size_t row = 0; row < part.rows; ++row) {
    const std::size_t source = part.source_row.empty() ? row : part.source_row[row];
    part.owner.push_back(numbers.Of(owner_of_source_row[source]));
  }
  std::map<std::string, bool> has_rows;
  for (const std::string& name : part.owner_names) has_rows[name] = true;
  for (const std::string& name : owner_of_source_row) {
    if (has_rows.try_emplace(name, false).second) part.owners_without_rows.push_back(name);
  }
}

Hash32 HashOf(const RawData& data) {
  Sha256 hash;
  HashPart(hash, data.train, "");
  if (data.test) HashPart(hash, *data.test, "_test");
  return hash.Finish();
}

}  // namespace skep::data
