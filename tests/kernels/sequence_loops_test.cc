#include "kernels/sequence_loops.h"

#include <algorithm>
#include <cmath>

#include "tests/kernels/reference.h"
#include "tests/support/catch.h"

namespace skep::kernels {
namespace {

constexpr std::size_t kSizes[]{1, 2, 7, 15, 16, 17, 33};

struct Shape {
  std::size_t rows;
  std::size_t depth;
  std::size_t columns;
};

template <class Check>
void ForAllShapes(const Check& check) {
  for (const Isa isa : AvailableIsas()) {
    for (const std::size_t rows : kSizes) {
      for (const std::size_t depth : kSizes) {
        for (const std::size_t columns : kSizes) {
          INFO(IsaName(isa) << ", " << rows << " x " << depth << " x " << columns);
          check(SequenceLoopsFor(isa), Shape{rows, depth, columns});
        }
      }
    }
  }
}

// Rows x depth, and depth x columns.
struct Operands {
  explicit Operands(const Shape& shape)
      : a(test::RandomFloats(shape.rows * shape.depth, shape.rows)),
        b(test::RandomFloats(shape.depth * shape.columns, shape.columns + 100)),
        panels(std::vector<float>(PanelFloats(shape.depth, shape.columns), 99)),
        result(test::RandomFloats(shape.rows * shape.columns, 5)) {}
  test::Unaligned a;
  test::Unaligned b;
  test::Unaligned panels;
  test::Unaligned result;
};

std::vector<float> Transposed(const float* matrix, std::size_t rows, std::size_t columns) {
  std::vector<float> result;
  for (std::size_t c = 0; c < columns; ++c) {
    for (std::size_t r = 0; r < rows; ++r) result.push_back(matrix[r * columns + c]);
  }
  return result;
}

void PackByRows(const SequenceLoops& loops, const Shape& shape, Operands& operands) {
  loops.pack_panels({.from = operands.b.data(),
                     .depth_step = shape.columns,
                     .column_step = 1,
                     .depth = shape.depth,
                     .columns = shape.columns,
                     .panels = operands.panels.data(),
                     .first = 0,
                     .panel_depth = shape.depth});
}

PanelProduct ProductOf(const Shape& shape, Operands& operands) {
  return {.a = operands.a.data(),
          .a_row = shape.depth,
          .rows = shape.rows,
          .panels = operands.panels.data(),
          .panel_depth = shape.depth,
          .panel_columns = shape.columns,
          .depth = shape.depth,
          .columns = shape.columns,
          .bias = nullptr,
          .result = operands.result.data(),
          .result_row = shape.columns,
          .adds = false};
}

// The sum of products and the bound of its error: (K + 8) 2^-24 times the sum of their sizes.
struct Expected {
  double value;
  double bound;
};
Expected DotOf(const Shape& shape, Operands& operands, std::size_t row, std::size_t column) {
  double sum = 0;
  double sizes = 1;
  for (std::size_t k = 0; k < shape.depth; ++k) {
    const double product = static_cast<double>(operands.a.data()[row * shape.depth + k]) *
                           static_cast<double>(operands.b.data()[k * shape.columns + column]);
    sum += product;
    sizes += std::abs(product);
  }
  return {sum, static_cast<double>(shape.depth + 8) * 0x1p-24 * sizes};
}

// How many values are not `offset` more than the product.
std::size_t WrongValues(const Shape& shape, Operands& operands, const std::vector<float>& offset,
                        double scale) {
  std::size_t wrong = 0;
  for (std::size_t r = 0; r < shape.rows; ++r) {
    for (std::size_t n = 0; n < shape.columns; ++n) {
      const Expected expected = DotOf(shape, operands, r, n);
      const std::size_t at = r * shape.columns + n;
      const double more = offset.empty() ? 0 : static_cast<double>(offset[at % offset.size()]);
      const double value = static_cast<double>(operands.result.data()[at]);
      if (!(std::abs(value - more - scale * expected.value) <= expected.bound)) ++wrong;
    }
  }
  return wrong;
}

TEST_CASE("a product with panels is the product, in whichever order they were packed", "[unit]") {
  ForAllShapes([](const SequenceLoops& loops, const Shape& shape) {
    Operands operands(shape);
    PackByRows(loops, shape, operands);
    const std::vector<float> panels(operands.panels.values().begin(),
                                    operands.panels.values().end());
    const std::vector<float> across = Transposed(operands.b.data(), shape.depth, shape.columns);
    loops.pack_panels({.from = across.data(),
                       .depth_step = 1,
                       .column_step = shape.depth,
                       .depth = shape.depth,
                       .columns = shape.columns,
                       .panels = operands.panels.data(),
                       .first = 0,
                       .panel_depth = shape.depth});
    CHECK(std::equal(panels.begin(), panels.end(), operands.panels.data()));
    loops.panel_product(ProductOf(shape, operands));
    CHECK(WrongValues(shape, operands, {}, 1) == 0);
  });
}

TEST_CASE("panels packed piece by piece are those packed at once", "[unit]") {
  ForAllShapes([](const SequenceLoops& loops, const Shape& shape) {
    if (shape.rows > 1) return;
    Operands operands(shape);
    PackByRows(loops, shape, operands);
    const std::vector<float> panels(operands.panels.values().begin(),
                                    operands.panels.values().end());
    std::fill(operands.panels.values().begin(), operands.panels.values().end(), 99.0F);
    for (std::size_t first = 0; first < shape.depth; first += 3) {
      loops.pack_panels({.from = operands.b.data() + first * shape.columns,
                         .depth_step = shape.columns,
                         .column_step = 1,
                         .depth = std::min<std::size_t>(3, shape.depth - first),
                         .columns = shape.columns,
                         .panels = operands.panels.data(),
                         .first = first,
                         .panel_depth = shape.depth});
    }
    CHECK(std::equal(panels.begin(), panels.end(), operands.panels.data()));
  });
}

TEST_CASE("a product adds a bias or what was there", "[unit]") {
  ForAllShapes([](const SequenceLoops& loops, const Shape& shape) {
    Operands operands(shape);
    PackByRows(loops, shape, operands);
    const std::vector<float> before(operands.result.values().begin(),
                                    operands.result.values().end());
    PanelProduct product = ProductOf(shape, operands);
    product.adds = true;
    loops.panel_product(product);
    CHECK(WrongValues(shape, operands, before, 1) == 0);
    test::Unaligned bias(test::RandomFloats(shape.columns, 8));
    product.adds = false;
    product.bias = bias.data();
    loops.panel_product(product);
    CHECK(WrongValues(shape, operands, {bias.values().begin(), bias.values().end()}, 1) == 0);
  });
}

TEST_CASE("a gradient is stored, added, or continued", "[unit]") {
  ForAllShapes([](const SequenceLoops& loops, const Shape& shape) {
    Operands operands(shape);
    PackByRows(loops, shape, operands);
    const std::vector<float> across = Transposed(operands.a.data(), shape.rows, shape.depth);
    test::Unaligned packed(std::vector<float>(shape.rows * shape.depth));
    loops.pack_rows({.from = across.data(),
                     .depth_step = shape.rows,
                     .rows = shape.rows,
                     .depth = shape.depth,
                     .to = packed.data()});
    const std::vector<float> before(operands.result.values().begin(),
                                    operands.result.values().end());
    PanelGradient gradient{.a = packed.data(),
                           .rows = shape.rows,
                           .panels = operands.panels.data(),
                           .depth = shape.depth,
                           .columns = shape.columns,
                           .before = nullptr,
                           .result = operands.result.data(),
                           .result_row = shape.columns,
                           .scale = -0.5F,
                           .accumulate = true};
    loops.panel_gradient(gradient);
    CHECK(WrongValues(shape, operands, before, -0.5) == 0);
    gradient.accumulate = false;
    gradient.before = before.data();
    loops.panel_gradient(gradient);
    CHECK(WrongValues(shape, operands, before, 1) == 0);
    gradient.before = nullptr;
    loops.panel_gradient(gradient);
    CHECK(WrongValues(shape, operands, {}, 1) == 0);
  });
}

TEST_CASE("sums of columns are stored, added, or continued", "[unit]") {
  for (const Isa isa : AvailableIsas()) {
    for (const std::size_t rows : kSizes) {
      for (const std::size_t columns : test::Sizes{1, 7, 16, 33, 127, 128, 129, 200}) {
        INFO(IsaName(isa) << ", " << rows << " x " << columns);
        test::Unaligned x(test::RandomFloats(rows * columns, rows));
        const std::vector<float> before = test::RandomFloats(columns, 2);
        test::Unaligned result(before);
        const ColumnSums added{.x = x.data(),
                               .x_row = columns,
                               .rows = rows,
                               .columns = columns,
                               .before = nullptr,
                               .result = result.data(),
                               .scale = 0.25F,
                               .accumulate = true};
        SequenceLoopsFor(isa).column_sums(added);
        test::Unaligned continued(before);
        ColumnSums more = added;
        more.result = continued.data();
        more.before = continued.data();
        more.accumulate = false;
        SequenceLoopsFor(isa).column_sums(more);
        std::size_t wrong = 0;
        for (std::size_t n = 0; n < columns; ++n) {
          double sum = 0;
          for (std::size_t r = 0; r < rows; ++r)
            sum += static_cast<double>(x.data()[r * columns + n]);
          const double start = static_cast<double>(before[n]);
          if (!(std::abs(static_cast<double>(result.data()[n]) - start - sum / 4) < 1e-5)) ++wrong;
          if (!(std::abs(static_cast<double>(continued.data()[n]) - start - sum) < 1e-5)) ++wrong;
        }
        CHECK(wrong == 0);
      }
    }
  }
}

}  // namespace
}  // namespace skep::kernels
