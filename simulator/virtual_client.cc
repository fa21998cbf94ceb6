#include "simulator/virtual_client.h"

#include <limits>

#include "shared/base/rng.h"

namespace skep::simulator {
namespace {

constexpr int kAttemptShift = 24;  // as in the draw of a cohort

client::SessionConfig MakeConfig(const std::string& population) {
  client::SessionConfig config;
  config.population = population;
  config.max_model_bytes = std::numeric_limits<std::uint64_t>::max();
  config.max_update_bytes = std::numeric_limits<std::uint64_t>::max();
  config.once = true;
  return config;
}

}  // namespace

VirtualClient::VirtualClient(const Identity& identity, const std::string& population,
                             const client::LocalData& data, const SharedRound& shared)
    : identity_(identity), data_(data), shared_(shared), session_(MakeConfig(population), *this) {}

Status VirtualClient::Verify(const wire::SignedManifest&) {
  return Ok();
}

Result<std::uint32_t> VirtualClient::CountExamples(const wire::Plan&, wire::TaskKind kind) {
  const std::size_t rows =
      kind == wire::TaskKind::kEvaluate ? data_.test.size() : data_.train.size();
  if (rows == 0)
    return Error{7402, "client " + std::to_string(identity_.number) + " has no examples", ""};
  return static_cast<std::uint32_t>(rows);
}

UpdateId VirtualClient::NewUpdateId() {
  RandomStream stream(identity_.run_seed,
                      {.purpose = Purpose::kSimulatedEntropy,
                       .client = identity_.number,
                       .round = identity_.round,
                       .first_block = (identity_.attempt - 1) << kAttemptShift});
  UpdateId id;
  for (std::size_t word = 0; word < 4; ++word)
    StoreLittle(stream.Word(), id.bytes.data() + 4 * word);
  return id;
}

double VirtualClient::Uniform() {
  return RandomStream(identity_.run_seed, {.purpose = Purpose::kPacing,
                                           .client = identity_.number,
                                           .first_block = pacing_draws_++})
      .Uniform();
}

std::shared_ptr<const wire::Plan> VirtualClient::CachedPlan(const Hash32& sha256) {
  return sha256 == shared_.plan_hash ? shared_.plan : nullptr;
}

void VirtualClient::KeepPlan(const Hash32&, std::shared_ptr<const wire::Plan>) {}

std::optional<client::Body> VirtualClient::CachedModel(const Hash32& sha256) {
  if (sha256 != shared_.model.sha256) return std::nullopt;
  return shared_.model;
}

}  // namespace skep::simulator
