// Templates of sequences: text, and windows of a sensor.
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

#include <fmt/format.h>

#include "shared/base/rng.h"
#include "simulator/commands/templates.h"

namespace skep::simulator {
namespace {

constexpr const char* kPlays =
    R"toml(# skep-simulator run experiment.toml        every key: skep-simulator explain KEY
schema = 1
name   = "{name}"
seed   = 42                      # same seed, same bytes, whatever --jobs is

[data]
path   = {path}
format = "plays"                 # text or gzip; a role is a line that ends with ":" after an empty
                                 # line; each role of two lines or more is a client, and the last
                                 # fifth of its lines is test

[model]
architecture = "char-lstm"       # or tiny-transformer
input        = [80]              # characters of an example; longer lines go on in the next one

[training]
algorithm  = "fedavg"
rounds     = {rounds}
eval_every = 10
metrics    = ["accuracy", "loss"]   # of the next character

[client]
local_epochs  = 1                # or local_steps; never both
batch_size    = 10
learning_rate = 1.0
gradient_clip = 5.0

[server_optimizer]
name          = "sgd"
learning_rate = 1.0
)toml";

constexpr const char* kSensors =
    R"toml(# skep-simulator run experiment.toml        every key: skep-simulator explain KEY
schema = 1
name   = "{name}"
seed   = 42                      # same seed, same bytes, whatever --jobs is

[data]
path          = "windows.csv"    # a row is a window: 128 times one after another, six channels each
label         = "activity"
client_column = "person"
client_test_fraction = 0.1       # held out on each client

[model]
architecture = "har-cnn"
input        = [128, 6]          # times, channels: together the 768 columns of numbers

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

// Which example: the client word of its draws.
constexpr std::uint64_t kExampleSeed = 42;
constexpr std::uint32_t kPlayStream = 100;
constexpr std::uint32_t kWindowStream = 200;

constexpr std::size_t kSpeeches = 48;
constexpr std::size_t kWords = 6;
struct Role {
  const char* name;
  std::array<const char*, kWords> who;
  std::array<const char*, kWords> does;
  std::array<const char*, kWords> where;
  const char* end;
};
constexpr std::array<Role, 3> kRoles{{
    {"FORAGER",
     {"I", "We", "The young ones", "My sisters", "They", "Two of us"},
     {"found clover", "carried nectar", "flew far", "met the wind", "lost the way", "saw rain"},
     {"by the brook", "past the mill", "at noon", "on the hill", "near the lime", "before dusk"},
     "."},
    {"GUARD",
     {"Who", "What stranger", "Which of you", "What wasp", "Whose sister", "What shadow"},
     {"comes here", "smells of smoke", "waits outside", "asks for honey", "knocks", "hums"},
     {"at the gate", "so late", "without leave", "in the dark", "at my post", "this evening"},
     "?"},
    {"Old Queen",
     {"Children", "Daughters", "My hive", "Summer", "The comb", "Winter"},
     {"must be filled", "will not wait", "is long", "grows heavy", "shall sing", "has its hour"},
     {"until the frost", "for all of us", "I say", "as ever", "once more", "in the end"},
     "!"},
}};

constexpr std::size_t kTimes = 128;
constexpr std::size_t kChannels = 6;
constexpr std::array<const char*, kChannels> kChannelNames{"ax", "ay", "az", "gx", "gy", "gz"};
constexpr std::size_t kPeople = 4;
constexpr std::size_t kWindows = 6;  // of a person and activity
struct Activity {
  const char* name;
  double cycles;  // in a window
  double strength;
  double tilt;  // share of the strength that each further channel has less
};
constexpr std::array<Activity, 5> kActivities{{{"rest", 0.5, 0.1, 0.1},
                                               {"walk", 4, 1, 0.1},
                                               {"run", 7, 2, 0.05},
                                               {"stairs", 3, 1.2, 0.2},
                                               {"cycle", 5, 0.7, 0.15}}};

}  // namespace

std::string PlaysTemplate(const std::string& name, const std::string& path, std::uint32_t rounds) {
  return fmt::format(kPlays, fmt::arg("name", name), fmt::arg("path", path),
                     fmt::arg("rounds", rounds));
}

std::string ExamplePlay() {
  RandomStream stream(kExampleSeed, {.purpose = Purpose::kSyntheticData, .client = kPlayStream});
  const auto word = [&](const std::array<const char*, kWords>& words) {
    return words[stream.Below(kWords)];
  };
  std::string text;
  for (std::size_t i = 0; i < kSpeeches; ++i) {
    const Role& role = kRoles[i % kRoles.size()];
    text += fmt::format("{}{}:\n", i == 0 ? "" : "\n", role.name);
    for (std::uint64_t lines = 1 + stream.Below(3); lines > 0; --lines) {
      const char* const who = word(role.who);
      const char* const does = word(role.does);
      text += fmt::format("{} {} {}{}\n", who, does, word(role.where), role.end);
    }
  }
  return text;
}

std::string SensorsTemplate(const std::string& name) {
  return fmt::format(kSensors, fmt::arg("name", name));
}

std::string ExampleWindows() {
  std::string csv;
  for (std::size_t t = 0; t < kTimes; ++t) {
    for (const char* const channel : kChannelNames) csv += fmt::format("t{:03}_{},", t, channel);
  }
  csv += "activity,person\n";
  for (std::uint32_t person = 0; person < kPeople; ++person) {
    RandomStream stream(kExampleSeed,
                        {.purpose = Purpose::kSyntheticData, .client = kWindowStream + person});
    const double pace = 0.85 + 0.1 * person;
    for (std::size_t i = 0; i < kWindows * kActivities.size(); ++i) {
      const Activity& activity = kActivities[i % kActivities.size()];
      const double start = stream.Uniform();
      for (std::size_t t = 0; t < kTimes; ++t) {
        const double turn = activity.cycles * pace * static_cast<double>(t) / kTimes + start;
        for (std::size_t c = 0; c < kChannels; ++c) {
          const auto channel = static_cast<double>(c);
          const double wave = std::sin(2 * std::numbers::pi * (turn + channel / kChannels));
          const double strength = activity.strength * (1 - activity.tilt * channel);
          csv += fmt::format("{:.2f},", strength * wave + 0.1 * stream.Normal());
        }
      }
      csv += fmt::format("{},p{}\n", activity.name, person + 1);
    }
  }
  return csv;
}

}  // namespace skep::simulator
