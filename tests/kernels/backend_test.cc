#include "kernels/backend.h"

#include <algorithm>

#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

TEST_CASE("the portable set is always there, and auto is the widest", "[unit]") {
  const std::vector<Isa> isas = AvailableIsas();
  CHECK(isas.front() == Isa::kPortable);
  CHECK(ParseIsa("auto").value() == isas.back());
  CHECK(DetectIsa() == isas.back());
}

TEST_CASE("names of instruction sets read back as they print", "[unit]") {
  for (const Isa isa : AvailableIsas()) CHECK(ParseIsa(IsaName(isa)).value() == isa);
}

TEST_CASE("other names of instruction sets are refused by number", "[unit]") {
  for (const char* name : {"", "AVX2", "sse2", "avx512 "}) {
    const auto isa = ParseIsa(name);
    REQUIRE_FALSE(isa.has_value());
    CHECK(isa.error().code == 1102);
  }
}

TEST_CASE("a set that this processor lacks is refused by number", "[unit]") {
  const std::vector<Isa> isas = AvailableIsas();
  bool is_any_missing = false;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (std::find(isas.begin(), isas.end(), isa) != isas.end()) continue;
    is_any_missing = true;
    CHECK(ParseIsa(IsaName(isa)).error().code == 1102);
  }
  if (!is_any_missing) SKEP_SKIP("this processor has every instruction set");
}

}  // namespace
}  // namespace skep::kernels
