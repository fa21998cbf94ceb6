#include "simulator/commands/templates.h"

#include <array>
#include <cstddef>

#include <fmt/format.h>

#include "shared/base/rng.h"

namespace skep::simulator {
namespace {

constexpr const char* kFashion =
    R"toml(# skep-simulator run experiment.toml        every key: skep-simulator explain KEY
schema = 1
name   = "{}"
seed   = 42                      # same seed, same bytes, whatever --jobs is

[data]
dataset         = "fashion-mnist"   # from the Debian package dataset-fashion-mnist; or path = "train.csv"
num_clients     = 100
partition       = "dirichlet"       # iid, shards; natural with a client_column
dirichlet_alpha = 0.5               # label skew: small = skewed
client_test_fraction = 0.1          # held out on each client

[model]
architecture = "2nn"

[training]
algorithm         = "fedavg"        # skep-simulator list algorithms
rounds            = 50
clients_per_round = 10              # or client_fraction; never both
target            = 0.80
stop_at_target    = true            # false: run all rounds

[client]
local_epochs  = 1                   # or local_steps; never both
batch_size    = 10
learning_rate = 0.1

[server_optimizer]
name          = "sgd"               # 1.0 = plain averaging
learning_rate = 1.0
)toml";

constexpr const char* kTable =
    R"toml(# skep-simulator run experiment.toml        every key: skep-simulator explain KEY
schema = 1
name   = "{name}"
seed   = 42                      # same seed, same bytes, whatever --jobs is

[data]
path          = {path}
label         = {label}
{owners}{reading}normalize     = "standard"       # mean 0 and deviation 1 of the training part
client_test_fraction = 0.1       # held out on each client

[model]
architecture = "mlp"             # softmax, mlp, 2nn, layers
hidden       = [32]

[training]
algorithm = "fedavg"
rounds    = 30

[client]
local_epochs  = 1                # or local_steps; never both
batch_size    = 10
learning_rate = 0.05

[server_optimizer]
name          = "sgd"
learning_rate = 1.0
)toml";

constexpr const char* kNoOwners =
    R"toml(num_clients   = 10               # no column says who owns a row:
partition     = "iid"            # iid, shards, dirichlet; or natural with a client_column
)toml";

constexpr std::size_t kSites = 3;
constexpr std::array<const char*, kSites> kSiteNames{"north", "south", "west"};
constexpr std::array<std::size_t, kSites> kSiteRows{160, 90, 50};
constexpr std::uint64_t kTableSeed = 42;

}  // namespace

std::string FashionTemplate(const std::string& name) {
  return fmt::format(kFashion, name);
}

std::string TableTemplate(const TableTemplateValues& values) {
  const std::string owners =
      values.client.empty() ? kNoOwners : fmt::format("client_column = {}\n", values.client);
  std::string reading = values.has_header ? "header        = true\n" : "";
  if (!values.missing.empty()) reading += fmt::format("missing       = {}\n", values.missing);
  if (!values.decimal.empty()) reading += fmt::format("decimal       = {}\n", values.decimal);
  return fmt::format(kTable, fmt::arg("name", values.name), fmt::arg("path", values.path),
                     fmt::arg("label", values.label), fmt::arg("owners", owners),
                     fmt::arg("reading", reading));
}

std::string ExampleTable() {
  std::string csv = "temperature,pressure,humidity,outcome,site\n";
  for (std::uint32_t site = 0; site < kSites; ++site) {
    RandomStream stream(kTableSeed, {.purpose = Purpose::kSyntheticData, .client = site});
    for (std::size_t row = 0; row < kSiteRows[site]; ++row) {
      const double temperature = 20 + 2.0 * site + 4 * stream.Normal();
      const double pressure = 1010 + 8 * stream.Normal();
      const double humidity = 55 + 12 * stream.Normal();
      const double score = 0.3 * (temperature - 22) - 0.12 * (pressure - 1010) +
                           0.05 * (humidity - 55) + 0.5 * stream.Normal();
      csv += fmt::format("{:.1f},{:.1f},{:.1f},{},{}\n", temperature, pressure, humidity,
                         score > 0 ? "storm" : "calm", kSiteNames[site]);
    }
  }
  return csv;
}

}  // namespace skep::simulator
