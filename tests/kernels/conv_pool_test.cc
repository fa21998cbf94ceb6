#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/conv_reference.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Case {
  std::vector<std::uint32_t> input;
  std::string line;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const std::size_t odd : test::Sizes{1, 2, 7, 15, 16, 17, 33}) {
    const auto channels = static_cast<std::uint32_t>(odd);
    for (const char* line : {"maxpool 2", "avgpool 2", "maxpool 3", "avgpool 3", "globalpool"}) {
      cases.push_back({{channels, 5, 7}, line});
    }
    cases.push_back({{11, channels}, "maxpool1d 3"});
    cases.push_back({{11, channels}, "avgpool 4"});
    cases.push_back({{11, channels}, "globalpool"});
  }
  return cases;
}

template <class Check>
void ForEveryCase(const Check& check) {
  for (const Isa isa : AvailableIsas()) {
    for (const Case& c : Cases()) {
      INFO(IsaName(isa) << ": " << c.line << " on " << c.input[0] << " x " << c.input[1]);
      check(isa, c);
    }
  }
}

// The places of the window of output `i`, by rows.
std::vector<std::size_t> WindowOf(const model::PoolLayer& pool, std::size_t i) {
  const std::size_t channel = i % pool.in.channels;
  const std::size_t column = i / pool.in.channels % pool.out.width * pool.window_width;
  const std::size_t row = i / pool.in.channels / pool.out.width * pool.window_height;
  std::vector<std::size_t> places;
  for (std::size_t y = row; y < row + pool.window_height; ++y) {
    for (std::size_t x = column; x < column + pool.window_width; ++x) {
      places.push_back((y * pool.in.width + x) * pool.in.channels + channel);
    }
  }
  return places;
}

struct Expected {
  std::vector<float> y;
  std::vector<float> dx;
};

// Averages in double; the largest exactly.
Expected Pooled(const model::PoolLayer& pool, const std::vector<float>& x,
                const std::vector<float>& dy) {
  Expected expected{{}, std::vector<float>(x.size())};
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const std::vector<std::size_t> window = WindowOf(pool, i);
    if (pool.is_maximum) {
      const std::size_t at = *std::max_element(window.begin(), window.end(),
                                               [&](auto a, auto b) { return x[a] < x[b]; });
      expected.y.push_back(x[at]);
      expected.dx[at] = dy[i];
      continue;
    }
    double sum = 0;
    const auto count = static_cast<double>(window.size());
    for (const std::size_t place : window) {
      sum += static_cast<double>(x[place]);
      expected.dx[place] = static_cast<float>(static_cast<double>(dy[i]) / count);
    }
    expected.y.push_back(static_cast<float>(sum / count));
  }
  return expected;
}

bool AreClose(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float one, float other) {
    return std::abs(one - other) <= 1e-6F;  // of values of size 1
  });
}

TEST_CASE("pooling and its gradient are those of the reference, with equals and without",
          "[unit]") {
  ForEveryCase([](Isa isa, const Case& c) {
    test::LayerUnderTest under(c.input, c.line, isa, 1);
    const auto& pool = std::get<model::PoolLayer>(under.layer());
    for (const bool has_equals : {false, true}) {
      std::vector<float> x = test::RandomFloats(under.in_values(), 1);
      if (has_equals) {
        for (float& value : x) value = std::round(2 * value);
      }
      const std::vector<float> dy = test::RandomFloats(under.out_values(), 2);
      const Expected expected = Pooled(pool, x, dy);
      const std::vector<float> params(under.params());
      const std::vector<float> y = under.Forward(params, x);
      const std::vector<float> dx = under.Backward(params, x, y, dy, params).dx;
      if (pool.is_maximum) {
        REQUIRE(y == expected.y);
        REQUIRE(dx == expected.dx);
      } else {
        REQUIRE(AreClose(y, expected.y));
        REQUIRE(AreClose(dx, expected.dx));
      }
      std::vector<float> gated = dx;
      for (std::size_t i = 0; i < x.size(); ++i) gated[i] = x[i] > 0 ? gated[i] : 0;
      REQUIRE(under.Backward(params, x, y, dy, params, true).dx == gated);
    }
  });
}

TEST_CASE("pooling changes no parameter", "[unit]") {
  ForEveryCase([](Isa isa, const Case& c) {
    test::LayerUnderTest under(c.input, c.line, isa, 1);
    const std::vector<float> params = test::RandomFloats(under.params(), 3);
    const std::vector<float> x = test::RandomFloats(under.in_values(), 4);
    const std::vector<float> y = under.Forward(params, x);
    REQUIRE(under.Backward(params, x, y, y, params, false, true, 5).params == params);
  });
}

TEST_CASE("the largest of a window that holds NaN is NaN", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    for (const std::uint32_t channels : {1U, 17U}) {
      for (std::size_t at = 0; at < 4; ++at) {
        test::LayerUnderTest under({channels, 2, 2}, "maxpool 2", isa, 1);
        std::vector<float> x = test::RandomFloats(under.in_values(), 5);
        x[at * channels] = kNan;
        const std::vector<float> params(under.params());
        const std::vector<float> y = under.Forward(params, x);
        INFO(IsaName(isa) << ", place " << at);
        REQUIRE(std::isnan(y[0]));
        REQUIRE(std::count_if(y.begin(), y.end(), [](float v) { return std::isnan(v); }) == 1);
        const std::vector<float> dx =
            under.Backward(params, x, y, std::vector<float>(channels, 1), params).dx;
        for (std::size_t place = 0; place < 4; ++place) {
          REQUIRE(dx[place * channels] == (place == at ? 1.0F : 0.0F));
        }
      }
    }
  }
}

TEST_CASE("an average of infinity and NaN is one", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    test::LayerUnderTest under({1, 2, 2}, "avgpool 2", isa, 1);
    const std::vector<float> params(under.params());
    INFO(IsaName(isa));
    CHECK(std::isinf(under.Forward(params, {1, INFINITY, 1, 1})[0]));
    CHECK(std::isnan(under.Forward(params, {1, 1, kNan, 1})[0]));
  }
}

}  // namespace
}  // namespace skep::kernels
