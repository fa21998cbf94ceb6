#include "client/conform/marks.h"

#include <array>
#include <cstdio>
#include <cstring>

namespace skep::conform {
namespace {

constexpr int kRows = 600;
constexpr int kMarks = 8;

// Values that nothing else comes to by chance, within the range of their column.
double MarkOf(int number) {
  return 41.7319519371 + number * 1.0000013;
}

std::string Digits(double value) {
  std::array<char, 32> text{};
  const int size = std::snprintf(text.data(), text.size(), "%.10f", value);
  return {text.data(), static_cast<std::size_t>(size)};
}

template <class T>
bool HoldsBytes(std::string_view bytes, T value) {
  std::array<char, sizeof(T)> raw{};
  std::memcpy(raw.data(), &value, sizeof value);
  return bytes.find({raw.data(), raw.size()}) != std::string_view::npos;
}

}  // namespace

std::string MarkedTable() {
  constexpr std::array<const char*, 3> kStates{"calm", "worn", "broken"};
  std::string table = "vibration,temperature,current,state\n";
  for (int row = 0; row < kRows; ++row) {
    const int kind = row % 3;
    const int noise = row * 7919 % 97;
    std::array<char, 64> numbers{};
    (void)std::snprintf(numbers.data(), numbers.size(), "%.2f,", 1.0 + kind * 2.5 + noise * 0.01);
    table += numbers.data() + Digits(MarkOf(row % kMarks));
    (void)std::snprintf(numbers.data(), numbers.size(), ",%.2f,", 4.0 + kind + noise * 0.005);
    table += numbers.data() + std::string(kStates[static_cast<std::size_t>(kind)]) + "\n";
  }
  return table;
}

std::string ExperimentFor(const std::string& path) {
  return "schema = 1\nname = \"check\"\npopulation = \"check\"\nseed = 42\n\n"
         "[data]\npath = \"" +
         path +
         "\"\nlabel = \"state\"\nnormalize = \"standard\"\nnum_clients = 1\npartition = \"iid\"\n\n"
         "[model]\narchitecture = \"mlp\"\nhidden = [8192, 16]\n\n"
         "[training]\nreport_deadline = \"10m\"\n\n"
         "[client]\nlocal_epochs = 1\nbatch_size = 10\nlearning_rate = 0.01\n";
}

bool HoldsMark(std::string_view bytes) {
  int short_ones = 0;  // four bytes are found in a large file by chance, two such fours are not
  for (int number = 0; number < kMarks; ++number) {
    const double mark = MarkOf(number);
    // All but the last two digits: whoever prints a number may round it.
    const std::string text = Digits(mark);
    if (bytes.find(std::string_view(text).substr(0, text.size() - 2)) != std::string_view::npos)
      return true;
    if (HoldsBytes(bytes, mark)) return true;
    short_ones += HoldsBytes(bytes, static_cast<float>(mark)) ? 1 : 0;
  }
  return short_ones >= 2;
}

}  // namespace skep::conform
