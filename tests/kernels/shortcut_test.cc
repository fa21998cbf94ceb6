#include "kernels/nn/shortcut.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/point_reference.h"
#include "tests/kernels/reference.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

using model::Shape;

model::AddLayer ImageAdd(std::uint32_t height, std::uint32_t width, std::uint32_t stride,
                         std::uint32_t kept_channels, std::uint32_t channels) {
  model::AddLayer add;
  add.kept = {Shape::Kind::kImage, kept_channels, height, width};
  add.shape = {Shape::Kind::kImage, channels, (height + stride - 1) / stride,
               (width + stride - 1) / stride};
  add.stride = stride;
  return add;
}

TEST_CASE("a shortcut with stride takes every second row and column", "[unit]") {
  // 3 x 5 places of one channel, numbered from 0, beside two channels.
  const model::AddLayer add = ImageAdd(3, 5, 2, 1, 2);
  std::vector<float> kept(15);
  for (std::size_t i = 0; i < 15; ++i) kept[i] = static_cast<float>(i);
  const std::vector<float> x(12, 100);
  std::vector<float> y(12);
  AddShortcut(add, false, 1, {kept.data(), 15}, {x.data(), 12}, {y.data(), 12});
  CHECK(y == std::vector<float>{100, 100, 102, 100, 104, 100, 110, 100, 112, 100, 114, 100});
}

TEST_CASE("a shortcut does the ReLU behind it, and leaves NaN", "[unit]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::uint32_t kept_channels : {1U, 3U}) {
    const model::AddLayer add = ImageAdd(1, 2, 1, kept_channels, 3);
    const std::vector<float> kept(std::size_t{2} * kept_channels, -5);
    const std::vector<float> x{7, -7, nan, nan, 7, 4};
    std::vector<float> y(6);
    AddShortcut(add, true, 1, {kept.data(), kept.size()}, {x.data(), 6}, {y.data(), 6});
    const float added = kept_channels == 3 ? -5 : 0;
    CHECK(y[0] == 2);
    CHECK(y[1] == 0);
    CHECK(std::isnan(y[2]));
    CHECK(std::isnan(y[3]));
    CHECK(y[4] == 7 + added);
    CHECK(y[5] == std::max(0.0F, 4 + added));
  }
}

TEST_CASE("the gradient of a shortcut passes where the kept value is above 0", "[unit]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> slot{1, 2, 3, 4};
  const std::vector<float> gate{-1, 0, nan, 1e-30F};
  std::vector<float> dy{10, 10, 10, 10};
  AddShortcutGradient(2, 2, ConstRows{slot.data(), 2}, {gate.data(), 2}, {dy.data(), 2});
  CHECK(dy == std::vector<float>{0, 0, 0, 14});
}

TEST_CASE("the gradient of a shortcut goes back to where it came from", "[unit]") {
  // What the addition takes from a kept value k, against the gradient d of its result: the product
  // of both is the same, whatever k and d.
  for (const std::uint32_t stride : {1U, 2U, 3U}) {
    for (const std::uint32_t size : {1U, 4U, 5U, 7U}) {
      const model::AddLayer add = ImageAdd(size, size + 2, stride, 3, 5);
      constexpr std::size_t kRows = 2;
      const std::size_t kept_values = add.kept.Values();
      const std::size_t values = add.shape.Values();
      const auto kept = test::RandomFloats(kRows * kept_values, 1);
      auto d = test::RandomFloats(kRows * values, 2);
      const std::vector<float> zero(kRows * values);
      std::vector<float> y(kRows * values);
      AddShortcut(add, false, kRows, {kept.data(), kept_values}, {zero.data(), values},
                  {y.data(), values});
      // A slot may be wider than this shortcut.
      const std::size_t slot_stride = kept_values + 3;
      std::vector<float> slot(kRows * slot_stride, 77);
      KeepShortcutGradient(add, kRows, Rows{d.data(), values}, {slot.data(), slot_stride});
      double forward = 0;
      double backward = 0;
      for (std::size_t i = 0; i < y.size(); ++i) {
        forward += static_cast<double>(y[i]) * static_cast<double>(d[i]);
      }
      for (std::size_t i = 0; i < kept.size(); ++i) {
        const float g = slot[i / kept_values * slot_stride + i % kept_values];
        backward += static_cast<double>(kept[i]) * static_cast<double>(g);
      }
      INFO("stride " << stride << ", size " << size);
      CHECK(std::abs(forward - backward) < 1e-9);
      CHECK(slot[kept_values] == 77);
      AddShortcutGradient(kRows, kept_values, Rows{slot.data(), slot_stride}, {},
                          {slot.data(), slot_stride});
      CHECK(slot[0] == 2 * (stride > 0 ? d[0] : 0));
    }
  }
}

TEST_CASE("the gradient through shortcuts is the slope of the loss", "[unit]") {
  const std::vector<std::vector<std::string>> models{
      // At the very start, with channels that the kept value lacks.
      {"residual", "dense 6", "add", "dense 3"},
      {"residual", "dense 4", "relu", "add", "dense 3"},
      {"residual", "dense 4", "norm layer", "add", "relu", "dense 3"},
      {"residual", "add", "dense 3"},
      // Below everything that is trained.
      {"relu", "residual", "relu", "add", "dense 3"},
      {"residual", "tanh", "add", "residual", "dense 4", "relu", "add", "dense 3"},
      // Two at one place, and one around the other.
      {"dense 5", "residual", "residual", "dense 5", "add", "tanh", "add", "dense 3"},
      {"dense 5", "relu", "residual", "residual", "dense 5", "add", "relu", "dense 5", "add",
       "dense 3"},
      {"residual", "dense 5", "residual", "dense 7", "add", "residual", "dense 7", "relu", "add",
       "add", "dense 3"},
      // One after the other: the slot is used again.
      {"dense 5", "relu", "residual", "dense 5", "add", "relu", "residual", "dense 8", "relu",
       "dense 8", "add", "relu", "dense 3"},
      // Right behind a ReLU, in front of one, and around one that stands alone.
      {"dense 5", "relu", "residual", "dense 5", "add", "dense 3"},
      {"dense 5", "relu", "residual", "relu", "add", "dense 3"},
      {"dense 5", "residual", "relu", "add", "relu", "dense 3"},
      {"dense 5", "tanh", "residual", "relu", "dense 5", "relu", "add", "relu", "dense 3"},
      {"dense 5", "relu", "residual", "add", "dense 3"},
      {"dense 5", "relu", "residual", "dropout 0.3", "add", "dense 3"},
      // At the end of the model.
      {"dense 5", "residual", "dense 5", "add"},
      {"dense 5", "relu", "residual", "dense 5", "relu", "add"},
      {"dense 5", "relu", "residual", "dense 5", "relu", "add", "relu"}};
  for (const std::vector<std::uint32_t>& input :
       std::vector<std::vector<std::uint32_t>>{{4}, {3, 4}}) {
    for (const std::vector<std::string>& lines : models) {
      std::string text;
      for (const std::string& line : lines) text += line + "; ";
      INFO(text << input.size() << " dimensions");
      const auto spec = test::LayerSpec(input, lines);
      const auto params = test::RandomFloats(spec.layout()->values(), 11, 0.9F);
      test::CheckAgainstReference(spec, params, test::BatchFor(spec, 5, 12));
      test::CheckSinks(spec, params, test::BatchFor(spec, 5, 12));
    }
  }
}

TEST_CASE("the gradient through shortcuts with stride is the slope of the loss", "[unit]") {
  const std::vector<std::vector<std::string>> models{
      {"residual", "conv 5 3x3 same stride 2 nobias", "add", "dense 3"},
      {"conv 3 3x3 same", "relu", "residual", "conv 4 3x3 same stride 2 nobias", "norm group 2",
       "relu", "conv 4 3x3 same nobias", "norm group 2", "add", "relu", "residual",
       "conv 4 3x3 same nobias", "norm batch", "add", "relu", "dense 3"},
      {"residual", "conv 3 3x3 same stride 2", "relu", "residual", "conv 4 3x3 same stride 2",
       "relu", "add", "add", "dense 3"},
  };
  for (const std::vector<std::uint32_t>& input :
       std::vector<std::vector<std::uint32_t>>{{2, 5, 7}, {2, 4, 4}, {1, 5, 5}}) {
    for (std::size_t m = 0; m < models.size(); ++m) {
      INFO("model " << m << ", " << input[1] << " x " << input[2]);
      const auto spec = test::LayerSpec(input, models[m]);
      const auto params = test::RandomFloats(spec.layout()->values(), 11, 0.5F);
      test::CheckAgainstReference(spec, params, test::BatchFor(spec, 3, 12));
      test::CheckSinks(spec, params, test::BatchFor(spec, 3, 12));
    }
  }
}

}  // namespace
}  // namespace skep::kernels
