#include "client/embed/app_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "client/embed/structures.h"
#include "kernels/nn/loss.h"
#include "shared/base/try.h"

namespace skep::embed {
namespace {

// IEEE 754 half precision: 1 sign, 5 exponent and 10 fraction bits.
float FromHalf(std::uint16_t half) {
  constexpr std::uint32_t kExponent = 0x1F;
  const std::uint32_t sign = std::uint32_t{half} >> 15U << 31U;
  const std::uint32_t exponent = (std::uint32_t{half} >> 10U) & kExponent;
  const std::uint32_t fraction = half & 0x3FFU;
  if (exponent == 0) {
    const float small = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -small : small;
  }
  const std::uint32_t wide = exponent == kExponent ? 0xFFU : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23U | fraction << 13U);
}

float ValueOf(const skep_batch& batch, std::size_t at) {
  const auto* bytes = static_cast<const std::uint8_t*>(batch.x);
  switch (batch.x_dtype) {
    case SKEP_F32: {
      float value = 0;
      std::memcpy(&value, bytes + at * sizeof value, sizeof value);
      return value;
    }
    case SKEP_F16: {
      std::uint16_t half = 0;
      std::memcpy(&half, bytes + at * sizeof half, sizeof half);
      return FromHalf(half);
    }
    case SKEP_I32: {
      std::int32_t token = 0;
      std::memcpy(&token, bytes + at * sizeof token, sizeof token);
      return static_cast<float>(token);
    }
    default:
      return static_cast<float>(bytes[at]) / 255.0F;
  }
}

std::int64_t ClassOf(const skep_batch& batch, std::size_t at) {
  std::int64_t label = 0;
  std::memcpy(&label, static_cast<const std::uint8_t*>(batch.y) + at * sizeof label, sizeof label);
  return label;
}

double Share(std::size_t part, std::size_t whole) {
  return std::min(1.0, static_cast<double>(part) / static_cast<double>(whole));
}

bool IsValueType(skep_dtype dtype) {
  return dtype == SKEP_F32 || dtype == SKEP_F16 || dtype == SKEP_U8 || dtype == SKEP_I32;
}

bool IsLabelType(skep_dtype dtype) {
  return dtype == SKEP_I64 || dtype == SKEP_F32;
}

}  // namespace

AppSource::AppSource(const skep_data_source& functions, const skep_task& task,
                     const client::TrainingPlan& plan, std::size_t counted)
    : functions_(functions), task_(task), plan_(plan), most_rows_(counted + counted / 10 + 1) {}

Status AppSource::Failed(skep_status status) const {
  if (status > 0) return Error{7407, "the data source stopped the task", ""};
  return Error{7105, fmt::format("the data source ended with {}", skep_status_name(status)),
               "skep_task_fail says why, at log level debug"};
}

Status AppSource::Rewind(std::uint64_t seed) {
  SKEP_TRY(task_.Check());
  row_ = 0;
  const skep_status status =
      CallApp(SKEP_E_DATA, [&] { return functions_.rewind(functions_.user, &task_, seed); });
  return status == SKEP_OK ? Ok() : Failed(status);
}

Status AppSource::CheckShape(const skep_batch& batch, std::size_t most) {
  if (batch.rows > most) {
    return Error{7104, fmt::format("{} rows, at most {} were asked for", batch.rows, most), ""};
  }
  if (row_ + batch.rows > most_rows_) {
    return Error{
        7106,
        fmt::format("an epoch has more than {} rows, a tenth more than count said", most_rows_),
        "count must not be off by more than a tenth"};
  }
  if (batch.x == nullptr || batch.y == nullptr) {
    return Error{7107, "a batch without its values or labels", ""};
  }
  if (!IsValueType(batch.x_dtype) || !IsLabelType(batch.y_dtype)) {
    return Error{7107,
                 fmt::format("types {} and {}: x takes F32, F16, U8 or I32, y I64 or F32",
                             batch.x_dtype, batch.y_dtype),
                 ""};
  }
  const std::size_t values = plan_.model.input_values();
  const std::size_t labels = plan_.model.positions();
  const bool fits = batch.x_cols == values && batch.y_cols == labels;
  if (!has_begun_ && !fits) {
    return Error{7414,
                 fmt::format("rows of {} values and {} labels, the model takes {} and {}",
                             batch.x_cols, batch.y_cols, values, labels),
                 ""};
  }
  if (!fits || (has_begun_ && (batch.x_dtype != x_dtype_ || batch.y_dtype != y_dtype_))) {
    return Error{7101, fmt::format("row {}: width or type changed within the task", row_), ""};
  }
  x_dtype_ = batch.x_dtype;
  y_dtype_ = batch.y_dtype;
  has_begun_ = true;
  return Ok();
}

Status AppSource::CheckValues(const skep_batch& batch) const {
  const auto symbols = static_cast<float>(plan_.model.input_symbols());
  for (std::size_t at = 0; at < batch.rows * batch.x_cols; ++at) {
    const float value = ValueOf(batch, at);
    const std::size_t row = row_ + at / batch.x_cols;
    if (!std::isfinite(value)) {
      return Error{7102, fmt::format("row {}: a value that is not finite", row), ""};
    }
    if (symbols == 0 || (value >= 0 && value < symbols && value == std::floor(value))) continue;
    return Error{
        7103, fmt::format("row {}: a token that is not below {}", row, plan_.model.input_symbols()),
        ""};
  }
  return Ok();
}

Status AppSource::CheckLabels(const skep_batch& batch) const {
  if (batch.y_dtype != SKEP_I64) return Ok();
  for (std::size_t at = 0; at < batch.rows * batch.y_cols; ++at) {
    const std::int64_t label = ClassOf(batch, at);
    if (label >= 0 && label < plan_.Classes()) continue;
    // A sequence may have places that do not count.
    if ((batch.y_cols > 1 || plan_.model.input_symbols() > 0) && label == kernels::kNoLabel)
      continue;
    return Error{7103,
                 fmt::format("row {}: a label that is none of the {} classes",
                             row_ + at / batch.y_cols, plan_.Classes()),
                 ""};
  }
  return Ok();
}

Result<skep_batch> AppSource::NextBatch(std::size_t most) {
  SKEP_TRY(task_.Check());
  skep_batch batch{};
  batch.struct_size = sizeof batch;
  const skep_status status =
      CallApp(SKEP_E_DATA, [&] { return functions_.next(functions_.user, &task_, most, &batch); });
  if (status != SKEP_OK) return Failed(status).error();
  if (batch.rows == 0) return batch;
  SKEP_TRY(CheckShape(batch, most));
  SKEP_TRY(CheckValues(batch));
  SKEP_TRY(CheckLabels(batch));
  row_ += batch.rows;
  rows_given_ += batch.rows;
  return batch;
}

Result<std::size_t> AppSource::Next(std::size_t most, float* x, std::int32_t* y) {
  SKEP_ASSIGN(const skep_batch batch, NextBatch(most));
  if (task_.on_progress) {
    const std::size_t epochs = std::max(plan_.local_epochs, 1U);
    task_.on_progress(Share(rows_given_, epochs * most_rows_), std::nan(""));
  }
  if (batch.rows == 0) return std::size_t{0};
  if (batch.y_dtype != SKEP_I64) {
    return Error{7107, "labels are numbers, the plan's model is a classifier", ""};
  }
  if (batch.example_weight != nullptr) {
    return Error{7107, "weights of examples need a trainer of the application's own", ""};
  }
  const std::size_t values = batch.rows * batch.x_cols;
  if (batch.x_dtype == SKEP_F32) {
    std::memcpy(x, batch.x, values * sizeof(float));
  } else {
    for (std::size_t at = 0; at < values; ++at) x[at] = ValueOf(batch, at);
  }
  for (std::size_t at = 0; at < batch.rows * batch.y_cols; ++at) {
    y[at] = static_cast<std::int32_t>(ClassOf(batch, at));
  }
  return batch.rows;
}

}  // namespace skep::embed
