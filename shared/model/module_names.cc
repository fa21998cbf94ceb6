#include "shared/model/module_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>

namespace skep::model {
namespace {

// "layer" and 12 of "layer12".
struct Part {
  std::string_view word;
  std::optional<std::uint64_t> number;
};

Part Split(std::string_view part) {
  std::size_t digits = part.size();
  while (digits > 0 && part[digits - 1] >= '0' && part[digits - 1] <= '9') --digits;
  Part split{.word = part.substr(0, digits), .number = {}};
  std::uint64_t number = 0;
  const auto [end, failure] =
      std::from_chars(part.data() + digits, part.data() + part.size(), number);
  if (failure == std::errc() && end == part.data() + part.size()) split.number = number;
  return split;
}

struct Usual {
  std::string_view word;
  int rank;
};
// From the input to the output.
constexpr auto kUsual = std::to_array<Usual>({{"embedding", 0},
                                              {"embeddings", 0},
                                              {"embed", 0},
                                              {"tok_emb", 0},
                                              {"wte", 0},
                                              {"positions", 1},
                                              {"position_embedding", 1},
                                              {"pos_embedding", 1},
                                              {"pos_emb", 1},
                                              {"wpe", 1},
                                              {"stem", 2},
                                              {"conv", 2},
                                              {"bn", 2},
                                              {"gn", 2},
                                              {"features", 2},
                                              {"encoder", 2},
                                              {"layer", 3},
                                              {"layers", 3},
                                              {"block", 3},
                                              {"blocks", 3},
                                              {"stage", 3},
                                              {"stages", 3},
                                              {"h", 3},
                                              {"norm", 4},
                                              {"ln", 4},
                                              {"ln_f", 4},
                                              {"fc", 5},
                                              {"head", 5},
                                              {"lm_head", 5},
                                              {"classifier", 5},
                                              {"decoder", 5},
                                              {"output", 5}});

std::optional<int> RankOf(const Part& part) {
  // "norm" ends a model, "norm1" may begin one.
  if ((part.word == "norm" || part.word == "ln") && part.number) return std::nullopt;
  const auto* found = std::find_if(kUsual.begin(), kUsual.end(),
                                   [&](const Usual& usual) { return usual.word == part.word; });
  if (found == kUsual.end()) return std::nullopt;
  return found->rank;
}

Order CompareParts(std::string_view a, std::string_view b) {
  const Part first = Split(a);
  const Part second = Split(b);
  if (first.word == second.word) {
    if (!first.number || !second.number || *first.number == *second.number) return Order::kOpen;
    return *first.number < *second.number ? Order::kBefore : Order::kAfter;
  }
  const std::optional<int> rank = RankOf(first);
  const std::optional<int> other = RankOf(second);
  if (!rank || !other || *rank == *other) return Order::kOpen;
  return *rank < *other ? Order::kBefore : Order::kAfter;
}

// Takes the first part off.
std::string_view TakePart(std::string_view& name) {
  const std::size_t dot = name.find('.');
  const std::string_view part = name.substr(0, dot);
  name.remove_prefix(dot == std::string_view::npos ? name.size() : dot + 1);
  return part;
}

}  // namespace

Order CompareModules(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const std::string_view first = TakePart(a);
    const std::string_view second = TakePart(b);
    if (first != second) return CompareParts(first, second);
  }
  return Order::kOpen;
}

}  // namespace skep::model
