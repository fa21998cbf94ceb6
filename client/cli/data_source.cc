#include "client/cli/data_source.h"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <charconv>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "shared/base/rng.h"
#include "shared/base/try.h"

namespace skep::cli {
namespace {

namespace json = boost::json;

std::vector<std::string> Texts(const json::value& from) {
  std::vector<std::string> texts;
  for (const json::value& text : from.as_array()) texts.emplace_back(text.as_string());
  return texts;
}

data::DataSpec SpecOf(const json::object& from) {
  data::DataSpec spec;
  spec.task = static_cast<data::Task>(from.at("task").to_number<std::uint32_t>());
  spec.label = std::string(from.at("label").as_string());
  spec.classes = Texts(from.at("classes"));
  for (const json::value& one : from.at("features").as_array()) {
    const json::object& feature = one.as_object();
    constexpr std::uint32_t kCategorical = 2;
    spec.features.push_back(
        {.name = std::string(feature.at("name").as_string()),
         .is_categorical = feature.at("kind").to_number<std::uint32_t>() == kCategorical,
         .offset = feature.at("offset").to_number<double>(),
         .scale = feature.at("scale").to_number<double>(),
         .categories = Texts(feature.at("categories"))});
  }
  return spec;
}

// Characters of an example of text; 0 in any other task.
std::uint32_t TextLengthOf(const skep_task* task, const std::optional<data::DataSpec>& spec) {
  if (!spec || spec->task != data::Task::kNextToken) return 0;
  const std::string_view input = skep_task_text(task, "model.input", "");
  std::uint32_t length = 0;
  const char* const end = input.data() + input.size();
  const auto [rest, failure] = std::from_chars(input.data(), end, length);
  return failure == std::errc() && rest == end ? length : 0;
}

bool IsEvaluation(const skep_task* task) {
  return skep_task_kind(task) == SKEP_TASK_EVALUATE;
}

FileSource& Of(void* user) {
  return *static_cast<FileSource*>(user);
}

bool IsMissing(int code) {
  return code == 1201 || code == 1203 || code == 1102 || code == 7402;
}

}  // namespace

Result<std::optional<data::DataSpec>> ReadDataSpec(std::string_view text) {
  if (text.empty()) return std::optional<data::DataSpec>();
  try {
    return std::optional<data::DataSpec>(SpecOf(json::parse(text).as_object()));
  } catch (const std::exception&) {  // Boost.JSON's own, for whatever does not fit
    return Error{7414, "the plan's description of the data cannot be read", ""};
  }
}

Result<LocalData> FileSource::Read(std::string_view spec, ClientNumber client,
                                   std::uint32_t text_length) const {
  SKEP_ASSIGN(const std::optional<data::DataSpec> wanted, ReadDataSpec(spec));
  return LoadLocalData(config_, client, wanted, text_length);
}

const Result<LocalData>& FileSource::Load(const skep_task* task) {
  const std::string_view spec = skep_task_text(task, "data.spec", "");
  const auto client = static_cast<ClientNumber>(skep_task_number(task, "client.number", 0));
  const auto wanted = ReadDataSpec(spec);
  const std::uint32_t length = wanted.has_value() ? TextLengthOf(task, *wanted) : 0;
  const bool is_same = loaded_ && loaded_->spec == spec && loaded_->client == client &&
                       loaded_->text_length == length;
  if (is_same && loaded_->data.has_value()) return loaded_->data;
  loaded_.emplace(Loaded{std::string(spec), client, length, Read(spec, client, length)});
  if (!loaded_->data.has_value()) {
    const Error& why = loaded_->data.error();
    tell_(why.code, why.hint.empty() ? why.message : why.message + "; " + why.hint);
    return loaded_->data;
  }
  for (const std::string& note : loaded_->data->notes) tell_(0, note);
  return loaded_->data;
}

skep_data_source FileSource::functions() {
  return {.struct_size = sizeof(skep_data_source),
          .reserved = 0,
          .user = this,
          .count = [](void* user, const skep_task* task) { return Of(user).Count(task); },
          .rewind = [](void* user, const skep_task* task,
                       std::uint64_t seed) { return Of(user).Rewind(task, seed); },
          .next = [](void* user, const skep_task*, std::size_t max_rows,
                     skep_batch* out) -> skep_status {
            Of(user).Next(max_rows, *out);
            return SKEP_OK;
          }};
}

std::int64_t FileSource::Count(const skep_task* task) {
  const Result<LocalData>& data = Load(task);
  if (!data.has_value()) return IsMissing(data.error().code) ? 0 : std::int64_t{SKEP_E_DATA};
  const LocalRows& rows = data->rows;
  return static_cast<std::int64_t>(IsEvaluation(task) ? rows.test.size() : rows.train.size());
}

skep_status FileSource::Rewind(const skep_task* task, std::uint64_t seed) {
  const Result<LocalData>& data = Load(task);
  if (!data.has_value()) return SKEP_E_DATA;
  order_ = IsEvaluation(task) ? data->rows.test : data->rows.train;
  // Every epoch shuffles the list in its own order; what is evaluated stays as it is listed.
  if (!IsEvaluation(task)) ShuffleEpoch(seed, order_);
  position_ = 0;
  return SKEP_OK;
}

void FileSource::Next(std::size_t max_rows, skep_batch& out) {
  const data::Dataset& dataset = *loaded_->data->rows.dataset;
  const std::size_t count = std::min(max_rows, order_.size() - position_);
  const auto chosen = std::span<const std::uint32_t>(order_).subspan(position_, count);
  position_ += count;
  x_.resize(count * dataset.values);
  labels_.resize(count * dataset.labels_per_row);
  dataset.Gather(chosen, x_.data(), labels_.data());
  y_.assign(labels_.begin(), labels_.end());
  out.x_dtype = SKEP_F32;
  out.y_dtype = SKEP_I64;
  out.x = x_.data();
  out.y = y_.data();
  out.rows = count;
  out.x_cols = dataset.values;
  out.y_cols = dataset.labels_per_row;
}

}  // namespace skep::cli
