// The words of the field that `explain` knows: one thing has one name.
#include <array>

#include <fmt/format.h>

#include "shared/config/schema.h"

namespace skep::config {
namespace {

struct Word {
  std::string_view name;
  std::string_view meaning;
};

constexpr std::array kWords = std::to_array<Word>({
    {"client", "A participant; in simulation one part of the data and its turns."},
    {"device", "Enrolled hardware that runs a client; a word of deployment only."},
    {"client number",
     "From 0, per population; from the partition, in deployment from the join token. Orders "
     "cohorts and sums."},
    {"aggregator", "The program that selects clients and combines their updates."},
    {"population", "A named group of devices that train one thing."},
    {"round",
     "Selection, local training, aggregation, new model. A round that is opened again keeps its "
     "number."},
    {"attempt", "One opening of a round; updates of different attempts never mix."},
    {"run", "One execution of a configuration; it owns one run directory."},
    {"sweep", "Several runs that differ in named keys."},
    {"update", "What a client sends back: the difference to the model that it got."},
    {"cohort", "The clients that a round invites."},
    {"partition", "The rule that says which example belongs to which client."},
});

}  // namespace

std::string ExplainWord(std::string_view word) {
  for (const Word& entry : kWords) {
    if (entry.name == word) return fmt::format("{}\n  {}\n", entry.name, entry.meaning);
  }
  return {};
}

}  // namespace skep::config
