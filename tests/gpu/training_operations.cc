// Losses, optimisers, shortcuts.
#include <algorithm>
#include <array>

#include "tests/gpu/operations.h"
#include "tests/gpu/shapes.h"

namespace skep::gpu {
namespace {

namespace body = kernels::body;

std::vector<std::int32_t> LabelsWithGaps(Bench& b, std::uint64_t count, std::uint32_t below) {
  const auto numbers = b.RandomNumbers(count, below);
  std::vector<std::int32_t> labels(numbers.begin(), numbers.end());
  for (std::size_t i = 0; i < labels.size(); i += 4) labels[i] = -1;
  return labels;
}

void TryCountLabels(Bench& b, std::uint64_t n) {
  constexpr std::uint64_t kRows = 6;
  const auto labels = LabelsWithGaps(b, n * kRows, 3);
  const auto counted = b.Put(std::vector<std::uint32_t>(n));
  b.Launch<body::CountLabels>(b.Loop(), {.labels = b.Put(labels),
                                         .counted = counted,
                                         .rows = kRows,
                                         .lanes = static_cast<std::uint32_t>(n)});
  const auto got = b.Take(counted, n);
  for (std::uint64_t lane = 0; lane < n; ++lane) {
    std::uint32_t count = 0;
    for (std::uint64_t r = 0; r < kRows; ++r) count += labels[lane * kRows + r] >= 0 ? 1 : 0;
    b.CompareNumbers("counted", lane, got[lane], count);
  }
}

struct RowLoss {
  Bound loss;
  std::vector<Bound> gradient;
};

RowLoss SoftmaxLoss(const float* z, std::uint32_t width, std::uint32_t label, const Bound& scale) {
  const double largest = *std::max_element(z, z + width);
  std::vector<Bound> shares;
  Bound sum;
  for (std::uint32_t i = 0; i < width; ++i) {
    shares.push_back(Exp(Bound(z[i]) - Bound(largest)));
    sum = sum + shares.back();
  }
  for (std::uint32_t i = 0; i < width; ++i) {
    shares[i] = shares[i] * (scale / sum);
    if (i == label) shares[i] = shares[i] - scale;
  }
  return {Log(sum) - (Bound(z[label]) - Bound(largest)), shares};
}

RowLoss ApartLoss(const float* z, std::uint32_t width, std::uint32_t label, const Bound& scale,
                  bool is_sigmoid) {
  RowLoss row;
  const Bound each = scale / Bound(width);
  for (std::uint32_t i = 0; i < width; ++i) {
    const Bound target = (width == 1 ? label == 1 : label == i) ? 1 : 0;
    const Bound value = z[i];
    if (is_sigmoid) {
      row.loss = row.loss + (Larger(Bound(0), value) - value * target +
                             Log1p(Exp(Bound(-std::abs(value.value)))));
      row.gradient.push_back((Sigmoid(value) - target) * each);
    } else {
      const Bound apart = value - target;
      row.loss = row.loss + apart * apart;
      row.gradient.push_back(Bound(2) * apart * each);
    }
  }
  row.loss = row.loss / Bound(width);
  return row;
}

void TryLossOf(Bench& b, std::uint64_t n, std::uint32_t kind, std::uint32_t width) {
  const Floats z = b.Random(kLanes * n * width, 4);
  const auto labels = LabelsWithGaps(b, kLanes * n, std::max(width, 2U));
  std::vector<std::uint32_t> counted(kLanes);
  for (std::uint64_t r = 0; r < kLanes * n; ++r) counted[r / n] += labels[r] >= 0 ? 1U : 0U;
  const auto outputs = b.Put(z);
  const auto losses = b.Put(Floats(kLanes * n));
  b.Launch<body::LossGradient>(b.Loop(kLanes), {.outputs = outputs,
                                                .labels = b.Put(labels),
                                                .counted = b.Put(counted),
                                                .losses = losses,
                                                .rows = n,
                                                .width = width,
                                                .kind = kind});
  const Floats gradient = b.Take(outputs, kLanes * n * width);
  const Floats loss = b.Take(losses, kLanes * n);
  for (std::uint64_t r = 0; r < kLanes * n; ++r) {
    RowLoss want{0, std::vector<Bound>(width)};
    if (labels[r] >= 0) {
      const Bound scale = Bound(1) / Bound(counted[r / n]);
      const auto label = static_cast<std::uint32_t>(labels[r]);
      want = kind == body::LossGradient::kSoftmax ? SoftmaxLoss(&z[r * width], width, label, scale)
                                                  : ApartLoss(&z[r * width], width, label, scale,
                                                              kind == body::LossGradient::kSigmoid);
    }
    b.Compare("loss", r, loss[r], want.loss);
    for (std::uint32_t i = 0; i < width; ++i) {
      b.Compare("gradient", r * width + i, gradient[r * width + i], want.gradient[i]);
    }
  }
}

void TryLossGradient(Bench& b, std::uint64_t n) {
  TryLossOf(b, n, body::LossGradient::kSoftmax, 5);
  TryLossOf(b, n, body::LossGradient::kSigmoid, 3);
  TryLossOf(b, n, body::LossGradient::kSigmoid, 1);
  TryLossOf(b, n, body::LossGradient::kSquares, 4);
}

void TryAddLoss(Bench& b, std::uint64_t n) {
  constexpr std::uint64_t kRows = 5;
  const Floats losses = b.Random(n * kRows);
  const auto sums = b.Put(std::vector<double>(n, 0.25));
  b.Launch<body::AddLoss>(b.Loop(), {.losses = b.Put(losses),
                                     .epoch_loss = sums,
                                     .rows = kRows,
                                     .lanes = static_cast<std::uint32_t>(n)});
  const auto got = b.Take(sums, n);
  for (std::uint64_t lane = 0; lane < n; ++lane) {
    double sum = 0.25;
    for (std::uint64_t r = 0; r < kRows; ++r) sum += static_cast<double>(losses[lane * kRows + r]);
    b.CompareDoubles("epoch_loss", lane, got[lane], sum, 10);
  }
}

// n values, shared by the threads of one block.
void TryClipScale(Bench& b, std::uint64_t n) {
  const std::uint64_t stride = n + 5;
  const Floats gradient = b.Random(kLanes * stride);
  for (const double clip : {0.01, 1e6}) {
    const auto scale = b.Put(Floats(kLanes));
    b.Launch<body::ClipScale>(
        b.Blocks(1, kLanes),
        {.gradient = b.Put(gradient), .stride = stride, .count = n, .clip = clip, .scale = scale});
    const Floats got = b.Take(scale, kLanes);
    for (std::uint64_t lane = 0; lane < kLanes; ++lane) {
      double squares = 0;
      for (std::uint64_t i = 0; i < n; ++i) {
        const double g = gradient[lane * stride + i];
        squares += g * g;
      }
      const double norm = std::sqrt(squares);
      b.Compare("scale", lane, got[lane], Bound(norm > clip ? clip / norm : 1));
    }
  }
}

struct Update {
  std::uint64_t begin = 2;
  std::uint64_t stride;
  Floats params;
  Floats gradient;
  Floats first;
  Floats second;
  Floats scale{0.5F, 1, 0.25F};
  std::vector<std::uint32_t> active{4, 0, 1};  // the lane in the middle rests

  Update(Bench& b, std::uint64_t n)
      : stride(n + 4),
        params(b.Random(kLanes * stride)),
        gradient(b.Random(kLanes * stride)),
        first(b.Random(kLanes * stride)),
        second(b.Random(kLanes * stride)) {
    for (float& value : second) value = std::abs(value);
  }
  // Whether value i is one that moves.
  [[nodiscard]] bool Moves(std::uint64_t i, std::uint64_t n) const {
    return active[i / stride] != 0 && i % stride >= begin && i % stride < begin + n;
  }
};

void TrySgdOf(Bench& b, std::uint64_t n, float momentum, bool nesterov) {
  const Update u(b, n);
  const float rate = 0.1F;
  const float decay = nesterov ? 0.01F : 0.0F;
  const auto params = b.Put(u.params);
  const auto velocity = momentum > 0 ? b.Put(u.first) : DevicePtr<float>{};
  const DevicePtr<const float> scale =
      momentum > 0 ? DevicePtr<const float>(b.Put(u.scale)) : DevicePtr<const float>{};
  b.Launch<body::SgdStep>(b.Loop(kLanes), {.params = params,
                                           .gradient = b.Put(u.gradient),
                                           .velocity = velocity,
                                           .scale = scale,
                                           .active = b.Put(u.active),
                                           .stride = u.stride,
                                           .begin = u.begin,
                                           .end = u.begin + n,
                                           .learning_rate = rate,
                                           .weight_decay = decay,
                                           .momentum = momentum,
                                           .nesterov = nesterov ? 1U : 0U});
  const Floats got = b.Take(params, u.params.size());
  const Floats got_velocity = momentum > 0 ? b.Take(velocity, u.params.size()) : Floats{};
  for (std::uint64_t i = 0; i < u.params.size(); ++i) {
    Bound step = Bound(u.gradient[i]) * Bound(momentum > 0 ? u.scale[i / u.stride] : 1);
    if (decay != 0) step = Bound(decay) * Bound(u.params[i]) + step;
    Bound moved = Bound(u.first[i]);
    if (momentum > 0) {
      moved = Bound(momentum) * moved + step;
      step = nesterov ? Bound(momentum) * moved + step : moved;
    }
    const bool moves = u.Moves(i, n);
    b.Compare("params", i, got[i],
              moves ? Bound(u.params[i]) - Bound(rate) * step : Bound(u.params[i]));
    if (momentum > 0) {
      b.Compare("velocity", i, got_velocity[i], moves ? moved : Bound(u.first[i]));
    }
  }
}

void TrySgdStep(Bench& b, std::uint64_t n) {
  TrySgdOf(b, n, 0, false);
  TrySgdOf(b, n, 0.9F, false);
  TrySgdOf(b, n, 0.9F, true);
}

void TryAdamStep(Bench& b, std::uint64_t n) {
  Update u(b, n);
  const std::vector<std::uint32_t> steps{1, 2, 30};
  // The first step of a task, where the moments are but a share of the gradient.
  std::fill_n(u.first.begin(), u.stride, 0.0F);
  std::fill_n(u.second.begin(), u.stride, 0.0F);
  const body::AdamStep::Args args{.params = b.Put(u.params),
                                  .gradient = b.Put(u.gradient),
                                  .first = b.Put(u.first),
                                  .second = b.Put(u.second),
                                  .scale = b.Put(u.scale),
                                  .active = b.Put(u.active),
                                  .steps = b.Put(steps),
                                  .stride = u.stride,
                                  .begin = u.begin,
                                  .end = u.begin + n,
                                  .learning_rate = 0.01F,
                                  .gradient_decay = 0.02F,
                                  .weight_factor = 0.999F,
                                  .beta1 = 0.9,
                                  .beta2 = 0.999,
                                  .epsilon = 1e-8F};
  b.Launch<body::AdamStep>(b.Loop(kLanes), args);
  const Floats got = b.Take(args.params, u.params.size());
  const Floats got_first = b.Take(args.first, u.params.size());
  const Floats got_second = b.Take(args.second, u.params.size());
  const Bound beta1 = 0.9F;
  const Bound beta2 = 0.999F;
  // As on the processor, not 1 minus the floats above.
  const Bound rest1 = static_cast<float>(1 - 0.9);
  const Bound rest2 = static_cast<float>(1 - 0.999);
  for (std::uint64_t i = 0; i < u.params.size(); ++i) {
    const double count = steps[i / u.stride];
    const Bound step_size(0.01F / (1 - std::pow(0.9, count)), 1);
    const Bound root_scale(1 / std::sqrt(1 - std::pow(0.999, count)), 40);
    const Bound param = u.params[i];
    const Bound g = Bound(u.gradient[i]) * Bound(u.scale[i / u.stride]) + Bound(0.02F) * param;
    const Bound first = beta1 * Bound(u.first[i]) + rest1 * g;
    const Bound second = beta2 * Bound(u.second[i]) + rest2 * g * g;
    const Bound next =
        param * Bound(0.999F) - step_size * first / (root_scale * Root(second) + Bound(1e-8F));
    const bool moves = u.Moves(i, n);
    b.Compare("first", i, got_first[i], moves ? first : Bound(u.first[i]));
    b.Compare("second", i, got_second[i], moves ? second : Bound(u.second[i]));
    b.Compare("params", i, got[i], moves ? next : param);
  }
}

// A result of 2 x 2 places with 3 channels from 4 x 3 places with 2.
constexpr body::ShortcutShape kShortcut{.width = 2,
                                        .height = 2,
                                        .channels = 3,
                                        .kept_width = 3,
                                        .kept_height = 4,
                                        .kept_channels = 2,
                                        .row_stride = 2,
                                        .stride = 2};
constexpr std::uint64_t kResult = 12;
constexpr std::uint64_t kKept = 24;

// Where value `at` of a result takes its addend from; kKept: nowhere.
std::uint64_t KeptFor(std::uint64_t at) {
  const std::uint64_t channel = at % 3;
  const std::uint64_t line = at / 3 / 2 * 2;
  const std::uint64_t column = at / 3 % 2 * 2;
  return channel < 2 ? (line * 3 + column) * 2 + channel : kKept;
}

void TryAddShortcutOf(Bench& b, std::uint64_t n, bool rectify) {
  const std::uint64_t rows = (n + kResult - 1) / kResult;
  const Floats kept = b.Random(rows * kKept);
  const Floats x = b.Random(rows * kResult);
  const auto y = b.Put(Floats(rows * kResult));
  b.Launch<body::AddShortcut>(b.Loop(), {.kept = b.Put(kept),
                                         .x = b.Put(x),
                                         .y = y,
                                         .rows = rows,
                                         .shape = kShortcut,
                                         .rectify = rectify ? 1U : 0U});
  const Floats got = b.Take(y, rows * kResult);
  for (std::uint64_t i = 0; i < got.size(); ++i) {
    const std::uint64_t from = KeptFor(i % kResult);
    const Bound more = from == kKept ? 0 : kept[i / kResult * kKept + from];
    const Bound sum = Bound(x[i]) + more;
    b.Compare("y", i, got[i], rectify && sum.value < 0 ? Bound(0) : sum);
  }
}

void TryAddShortcut(Bench& b, std::uint64_t n) {
  TryAddShortcutOf(b, n, false);
  TryAddShortcutOf(b, n, true);
}

void TryKeepShortcutGradient(Bench& b, std::uint64_t n) {
  const std::uint64_t rows = (n + kKept - 1) / kKept;
  const Floats dy = b.Random(rows * kResult);
  const auto slot = b.Put(Floats(rows * kKept, 9));
  b.Launch<body::KeepShortcutGradient>(
      b.Loop(), {.dy = b.Put(dy), .slot = slot, .rows = rows, .shape = kShortcut});
  const Floats got = b.Take(slot, rows * kKept);
  Floats want(rows * kKept);
  for (std::uint64_t i = 0; i < rows * kResult; ++i) {
    const std::uint64_t from = KeptFor(i % kResult);
    if (from != kKept) want[i / kResult * kKept + from] = dy[i];
  }
  for (std::uint64_t i = 0; i < got.size(); ++i) b.Compare("slot", i, got[i], Bound(want[i]));
}

void TryAddShortcutGradient(Bench& b, std::uint64_t n) {
  const Floats slot = b.Random(n);
  const Floats dy = b.Random(n);
  const auto at = b.Put(dy);
  b.Launch<body::AddShortcutGradient>(b.Loop(), {.slot = b.Put(slot), .dy = at, .count = n});
  const Floats got = b.Take(at, n);
  for (std::uint64_t i = 0; i < n; ++i) b.Compare("dy", i, got[i], Bound(dy[i]) + Bound(slot[i]));
}

constexpr std::array kOperations{
    Operation{"count_labels", false, TryCountLabels},
    Operation{"loss_gradient", false, TryLossGradient},
    Operation{"add_loss", false, TryAddLoss},
    Operation{"clip_scale", true, TryClipScale},
    Operation{"sgd_step", false, TrySgdStep},
    Operation{"adam_step", false, TryAdamStep},
    Operation{"add_shortcut", false, TryAddShortcut},
    Operation{"keep_shortcut_gradient", false, TryKeepShortcutGradient},
    Operation{"add_shortcut_gradient", false, TryAddShortcutGradient}};

}  // namespace

std::span<const Operation> TrainingOperations() {
  return kOperations;
}

}  // namespace skep::gpu
