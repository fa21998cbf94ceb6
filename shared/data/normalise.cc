#include "shared/data/normalise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "shared/base/try.h"

namespace skep::data {
namespace {

using RowLists = std::vector<std::vector<std::uint32_t>>;

constexpr double kLargestFloat = std::numeric_limits<float>::max();

struct Column {
  Feature* feature;
  std::size_t first;  // place in a row
  std::size_t count;  // 1, or all values of an array
};

// The number columns whose scaling nobody gave.
std::vector<Column> OpenColumns(RawData& raw, const DataOptions& options) {
  std::vector<Column> columns;
  if (options.plan) return columns;
  std::size_t place = 0;
  for (Feature& feature : raw.spec.features) {
    const std::size_t width = raw.is_array             ? raw.train.values
                              : feature.is_categorical ? feature.categories.size()
                                                       : 1;
    if (!feature.is_categorical && !options.scaling.contains(feature.name)) {
      columns.push_back({&feature, place, width});
    }
    place += width;
  }
  return columns;
}

// The rows that each client trains on, in ascending order; without clients one list of all rows.
Result<RowLists> TrainingRows(const Dataset& train, std::uint32_t classes,
                              const DataOptions& options) {
  RowLists lists;
  if (!options.clients) {
    lists.emplace_back(train.rows);
    std::iota(lists[0].begin(), lists[0].end(), 0U);
    return lists;
  }
  SKEP_ASSIGN(Partition partition, Split(train, classes, *options.clients));
  for (ClientPart& client : partition.clients) {
    std::sort(client.train.begin(), client.train.end());
    lists.push_back(std::move(client.train));
  }
  return lists;
}

// Sum of f(value) over one column: client by client, as sites that keep their rows would report it.
template <class F>
double SumOf(const RawPart& part, const Column& column, const RowLists& lists, const F& f) {
  double total = 0;
  for (const auto& rows : lists) {
    double sum = 0;
    for (const std::uint32_t row : rows) {
      const double* const at = part.numbers.data() + row * part.values + column.first;
      for (std::size_t i = 0; i < column.count; ++i) sum += f(at[i]);
    }
    total += sum;
  }
  return total;
}

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments MomentsOf(const RawPart& part, const Column& column, const RowLists& lists) {
  double count = 0;
  for (const auto& rows : lists) count += static_cast<double>(rows.size() * column.count);
  const double mean = SumOf(part, column, lists, [](double x) { return x; }) / count;
  const double squares =
      SumOf(part, column, lists, [mean](double x) { return (x - mean) * (x - mean); });
  return {mean, std::sqrt(squares / count)};
}

// Bytes are counted: integers need no order.
Moments MomentsOfBytes(const RawPart& part, const RowLists& lists) {
  std::array<std::uint64_t, 256> counts{};
  std::uint64_t count = 0;
  for (const auto& rows : lists) {
    for (const std::uint32_t row : rows) {
      for (std::size_t i = 0; i < part.values; ++i) ++counts[part.bytes[row * part.values + i]];
    }
    count += rows.size() * part.values;
  }
  double sum = 0;
  for (std::size_t b = 0; b < counts.size(); ++b) sum += static_cast<double>(b * counts[b]);
  const double mean = sum / static_cast<double>(count);
  double squares = 0;
  for (std::size_t b = 0; b < counts.size(); ++b) {
    const double off = static_cast<double>(b) - mean;
    squares += static_cast<double>(counts[b]) * off * off;
  }
  return {mean, std::sqrt(squares / static_cast<double>(count))};
}

Status Standardise(RawData& raw, const Column& column, const RowLists& lists) {
  const Moments moments = raw.train.bytes.empty() ? MomentsOf(raw.train, column, lists)
                                                  : MomentsOfBytes(raw.train, lists);
  if (!std::isfinite(moments.mean) || !std::isfinite(moments.deviation)) {
    return Error{1202,
                 "column \"" + column.feature->name +
                     "\": its values are too large for a mean and a deviation",
                 "leave the column out, or give data.scaling"};
  }
  column.feature->offset = moments.mean;
  column.feature->scale = moments.deviation;
  if (moments.deviation > 0) return Ok();
  column.feature->scale = 1;
  raw.notes.push_back("column \"" + column.feature->name +
                      "\" is constant in the training part: it becomes 0 everywhere");
  return Ok();
}

// To [-1, 1]: bytes by what a byte can be, other numbers by what the training part holds.
void MakeSymmetric(const RawPart& train, const Column& column) {
  double least = 0;
  double most = 255;
  if (train.bytes.empty()) {
    least = INFINITY;
    most = -INFINITY;
    for (std::size_t row = 0; row < train.rows; ++row) {
      const double* const at = train.numbers.data() + row * train.values + column.first;
      least = std::min(least, *std::min_element(at, at + column.count));
      most = std::max(most, *std::max_element(at, at + column.count));
    }
  }
  column.feature->offset = least / 2 + most / 2;
  column.feature->scale = most > least ? most / 2 - least / 2 : 1;
}

Status FindScaling(RawData& raw, const Dataset& train, const DataOptions& options) {
  if (raw.spec.task == Task::kNextToken) return Ok();  // symbols are numbers, not quantities
  std::string how = options.normalize;
  if (how == "auto") how = raw.train.bytes.empty() ? "none" : "unit";
  const std::vector<Column> columns = OpenColumns(raw, options);
  RowLists lists;
  if (how == "standard" && !columns.empty()) {
    SKEP_ASSIGN(lists,
                TrainingRows(train, static_cast<std::uint32_t>(raw.spec.classes.size()), options));
  }
  for (const Column& column : columns) {
    if (how == "unit") column.feature->scale = 255;
    if (how == "symmetric") MakeSymmetric(raw.train, column);
    if (how == "standard") SKEP_TRY(Standardise(raw, column, lists));
  }
  return Ok();
}

Status FillMissing(RawData& raw) {
  std::size_t place = 0;
  for (const Feature& feature : raw.spec.features) {
    const std::size_t width = feature.is_categorical ? feature.categories.size() : 1;
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t i = place; i < raw.train.numbers.size(); i += raw.train.values) {
      if (std::isnan(raw.train.numbers[i])) continue;
      sum += raw.train.numbers[i];
      ++count;
    }
    if (count == 0) {
      return Error{1202, "column \"" + feature.name + "\" holds no number in the training part",
                   ""};
    }
    const auto fill = [&](RawPart& part) {
      for (std::size_t i = place; i < part.numbers.size(); i += part.values) {
        if (std::isnan(part.numbers[i])) part.numbers[i] = sum / static_cast<double>(count);
      }
    };
    fill(raw.train);
    if (raw.test) fill(*raw.test);
    place += width;
  }
  return Ok();
}

Status ScaleInputs(RawPart& part, const DataSpec& spec, bool is_array, Dataset& to) {
  to.bytes = std::move(part.bytes);
  if (!to.bytes.empty()) {
    to.byte_offset = spec.features[0].offset;
    to.byte_scale = spec.features[0].scale;
    return Ok();
  }
  std::vector<const Feature*> owner(part.values, nullptr);
  std::vector<double> offset(part.values, 0);
  std::vector<double> scale(part.values, 1);
  std::size_t place = 0;
  for (const Feature& feature : spec.features) {
    std::size_t width = feature.is_categorical ? feature.categories.size() : 1;
    if (is_array) width = part.values;
    std::fill_n(owner.begin() + static_cast<std::ptrdiff_t>(place), width, &feature);
    for (std::size_t i = 0; i < width && !feature.is_categorical; ++i) {
      offset[place + i] = feature.offset;
      scale[place + i] = feature.scale;
    }
    place += width;
  }
  to.floats.resize(part.numbers.size());
  for (std::size_t row = 0; row < part.rows; ++row) {
    for (std::size_t i = 0; i < part.values; ++i) {
      const std::size_t at = row * part.values + i;
      const double scaled = (part.numbers[at] - offset[i]) / scale[i];
      if (!(std::abs(scaled) <= kLargestFloat)) {
        return Error{1202,
                     "column \"" + owner[i]->name +
                         "\": a value is beyond the numbers of 32 bits that training uses",
                     "leave the column out, or give data.scaling"};
      }
      to.floats[at] = static_cast<float>(scaled);
    }
  }
  part.numbers = {};
  return Ok();
}

std::shared_ptr<Dataset> WithoutInputs(RawPart& part) {
  auto dataset = std::make_shared<Dataset>();
  dataset->input_shape = part.input_shape;
  dataset->rows = part.rows;
  dataset->values = part.values;
  dataset->labels_per_row = part.labels_per_row;
  dataset->labels = std::move(part.labels);
  dataset->owner = std::move(part.owner);
  dataset->owner_names = std::move(part.owner_names);
  dataset->owners_without_rows = std::move(part.owners_without_rows);
  return dataset;
}

}  // namespace

Result<LoadedData> Normalise(RawData&& raw, const DataOptions& options) {
  const auto train = WithoutInputs(raw.train);
  if (options.missing == "mean" && !raw.is_array) SKEP_TRY(FillMissing(raw));
  SKEP_TRY(FindScaling(raw, *train, options));
  LoadedData loaded;
  SKEP_TRY(ScaleInputs(raw.train, raw.spec, raw.is_array, *train));
  loaded.train = train;
  if (raw.test) {
    const auto test = WithoutInputs(*raw.test);
    SKEP_TRY(ScaleInputs(*raw.test, raw.spec, raw.is_array, *test));
    loaded.test = test;
  }
  loaded.spec = std::move(raw.spec);
  loaded.notes = std::move(raw.notes);
  return loaded;
}

}  // namespace skep::data
