#include "client/embed/task.h"

#include <fmt/format.h>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <utility>

#include "shared/base/rng.h"

namespace skep::embed {
namespace {

namespace json = boost::json;

json::array Texts(const std::vector<std::string>& texts) {
  json::array array;
  for (const std::string& text : texts) array.emplace_back(text);
  return array;
}

}  // namespace

std::string DataSpecJson(const std::optional<wire::DataSpec>& spec) {
  if (!spec) return {};
  json::array features;
  for (const wire::Feature& feature : spec->features) {
    features.push_back(json::object{{"name", feature.name},
                                    {"kind", static_cast<std::uint32_t>(feature.kind)},
                                    {"offset", feature.offset},
                                    {"scale", feature.scale},
                                    {"categories", Texts(feature.categories)}});
  }
  return json::serialize(json::object{{"task", static_cast<std::uint32_t>(spec->task)},
                                      {"features", std::move(features)},
                                      {"classes", Texts(spec->classes)},
                                      {"label", spec->label}});
}

skep_status StatusOf(const Error& why) {
  if (why.code == 7401) return SKEP_NOT_ELIGIBLE;
  if (why.code == 7407) return SKEP_CANCELLED;
  if (why.code >= 7408 && why.code <= 7411) return SKEP_LIMIT;
  if (why.code >= 7101 && why.code <= 7149) return SKEP_E_DATA;
  return SKEP_E_INTERNAL;
}

}  // namespace skep::embed

skep_task::skep_task(skep::agent::OfferedTask from) : offered(std::move(from)) {
  const skep::wire::Manifest& manifest = offered.manifest;
  id = fmt::format("{}-{}-{}-{}", manifest.run_id.Hex(), manifest.round,
                   static_cast<std::uint32_t>(manifest.kind), manifest.attempt);
  for (const skep::wire::Param& param : offered.plan->params) {
    if (!param.text.empty()) texts[param.key] = param.text;
  }
  texts["data.spec"] = skep::embed::DataSpecJson(offered.plan->data);
}

skep::Status skep_task::Check() const {
  if (!stopped && gate != nullptr) {
    skep::Status passed = gate->Pass();
    if (!passed.has_value()) stopped = std::move(passed).error();
  }
  return stopped ? skep::Status(*stopped) : skep::Ok();
}

std::uint64_t skep_task::Seed(std::uint32_t epoch) const {
  const skep::wire::Manifest& manifest = offered.manifest;
  return skep::EpochSeed(manifest.round_seed, offered.client, manifest.round, epoch);
}
