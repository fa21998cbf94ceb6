#include "kernels/cuda/lane_network.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/grids.h"
#include "shared/base/check.h"
#include "shared/base/try.h"

namespace skep::kernels {
namespace {

// Batches whose examples are named by one upload.
constexpr std::uint32_t kStepsPerUpload = 256;

body::ShortcutShape ShapeOf(const model::AddLayer& add) {
  const bool is_image = add.shape.kind == model::Shape::Kind::kImage;
  return {.width = add.shape.width,
          .height = add.shape.height,
          .channels = add.shape.channels,
          .kept_width = add.kept.width,
          .kept_height = add.kept.height,
          .kept_channels = add.kept.channels,
          .row_stride = is_image ? add.stride : 1,
          .stride = add.stride};
}

std::uint32_t KindOf(LossKind loss) {
  switch (loss) {
    case LossKind::kSoftmaxCrossEntropy:
      return body::LossGradient::kSoftmax;
    case LossKind::kSigmoidCrossEntropy:
      return body::LossGradient::kSigmoid;
    case LossKind::kMeanSquaredError:
      break;
  }
  return body::LossGradient::kSquares;
}

bool NeedsGradient(const OptimiserStep& step) {
  return step.rule != Rule::kSgd || step.momentum != 0 || step.weight_decay != 0 ||
         step.gradient_clip != 0;
}

// What a captured step reads of them.
bool AreSame(const LaneData& a, const LaneData& b) {
  return a.bytes.address == b.bytes.address && a.floats.address == b.floats.address &&
         a.labels.address == b.labels.address && a.offset == b.offset && a.scale == b.scale &&
         a.values == b.values && a.positions == b.positions;
}

bool AreEqual(const OptimiserStep& a, const OptimiserStep& b) {
  return a.learning_rate == b.learning_rate && a.rule == b.rule && a.momentum == b.momentum &&
         a.nesterov == b.nesterov && a.weight_decay == b.weight_decay &&
         a.gradient_clip == b.gradient_clip && a.beta1 == b.beta1 && a.beta2 == b.beta2 &&
         a.epsilon == b.epsilon;
}

}  // namespace

LaneNetwork::LaneNetwork(const model::ModelSpec& spec, const LaneLimits& limits)
    : limits_(limits),
      parameters_(spec.layout()->values()),
      positions_(spec.positions()),
      outputs_(spec.outputs()),
      plan_(PlanNetwork(spec)) {
  SKEP_CHECK(limits.lanes >= 1 && limits.rows >= 1);
}

Status LaneNetwork::Allocate(const model::ModelSpec& spec, Arena& arena) {
  const std::uint64_t lane_rows = std::uint64_t{limits_.lanes} * limits_.rows;
  std::uint64_t widest = 0;
  for (const PlannedValue& value : plan_.values) {
    LaneRows rows;
    SKEP_ASSIGN(rows.data,
                arena.Make<float>(lane_rows * value.shape.Values(), "what flows between layers"));
    values_.push_back(rows);
    widest = std::max<std::uint64_t>(widest, value.shape.Values());
  }
  for (LaneRows& delta : deltas_) {
    SKEP_ASSIGN(delta.data, arena.Make<float>(lane_rows * widest, "the gradients of layers"));
  }
  for (const std::size_t values : plan_.slots) {
    LaneRows slot;
    SKEP_ASSIGN(slot.data, arena.Make<float>(lane_rows * values, "the gradients of shortcuts"));
    slots_.push_back(slot);
  }
  const std::uint64_t all = parameters_ * limits_.lanes;
  SKEP_ASSIGN(params_, arena.Make<float>(all, "the parameters"));
  const OptimiserStep& step = limits_.step;
  if (NeedsGradient(step)) {
    SKEP_ASSIGN(gradient_, arena.Make<float>(all, "the gradients"));
  }
  if (step.rule != Rule::kSgd || step.momentum != 0) {
    SKEP_ASSIGN(first_, arena.Make<float>(all, "the optimiser's state"));
  }
  if (step.rule != Rule::kSgd) {
    SKEP_ASSIGN(second_, arena.Make<float>(all, "the optimiser's state"));
  }
  SKEP_TRY(AllocateHeads(arena));
  for (const PlannedStage& stage : plan_.stages) {
    layers_.emplace_back();
    if (stage.kind != PlannedStage::Kind::kLayer) continue;
    SKEP_ASSIGN(layers_.back(),
                MakeLaneLayer(spec.layers()[stage.layer], {.arena = arena,
                                                           .layout = *spec.layout(),
                                                           .lanes = limits_.lanes,
                                                           .rows = limits_.rows,
                                                           .rectify = stage.rectify}));
  }
  return Ok();
}

Status LaneNetwork::AllocateHeads(Arena& arena) {
  const std::uint64_t lanes = limits_.lanes;
  const std::uint64_t lane_rows = lanes * limits_.rows;
  const char* what = "the batches";
  SKEP_ASSIGN(order_, arena.Make<std::uint32_t>(kStepsPerUpload * lane_rows, what));
  SKEP_ASSIGN(keys_, arena.Make<std::uint64_t>(kStepsPerUpload * lanes, what));
  SKEP_ASSIGN(position_, arena.Make<std::uint32_t>(1, what));
  SKEP_ASSIGN(labels_, arena.Make<std::int32_t>(lane_rows * positions_, what));
  SKEP_ASSIGN(active_, arena.Make<std::uint32_t>(lanes, what));
  SKEP_ASSIGN(steps_, arena.Make<std::uint32_t>(lanes, what));
  SKEP_ASSIGN(step_keys_, arena.Make<std::uint64_t>(lanes, what));
  SKEP_ASSIGN(counted_, arena.Make<std::uint32_t>(lanes, what));
  SKEP_ASSIGN(losses_, arena.Make<float>(lane_rows * positions_, what));
  SKEP_ASSIGN(epoch_loss_, arena.Make<double>(lanes, what));
  SKEP_ASSIGN(clip_, arena.Make<float>(lanes, what));
  return Ok();
}

Result<std::unique_ptr<LaneNetwork>> LaneNetwork::Make(const model::ModelSpec& spec,
                                                       const LaneLimits& limits, DeviceApi& device,
                                                       std::uint64_t budget_bytes) {
  std::unique_ptr<LaneNetwork> network(new LaneNetwork(spec, limits));
  network->arena_ = std::make_unique<Arena>(device, budget_bytes);
  SKEP_ASSIGN(const StreamId stream, device.MakeStream());
  network->queue_.emplace(device, stream);
  SKEP_TRY(network->Allocate(spec, *network->arena_));
  return network;
}

Result<std::uint64_t> LaneNetwork::BytesFor(const model::ModelSpec& spec,
                                            const LaneLimits& limits) {
  LaneNetwork network(spec, limits);
  Arena arena;
  SKEP_TRY(network.Allocate(spec, arena));
  return arena.used_bytes();
}

LaneNetwork::~LaneNetwork() {
  if (!queue_) return;
  DropGraph();
  layers_.clear();
  arena_.reset();
  queue_->device().FreeStream(queue_->stream());
}

LanePass LaneNetwork::Pass() const {
  return {.lanes = limits_.lanes,
          .rows = limits_.rows,
          .params = params_,
          .params_stride = parameters_,
          .active = active_,
          .is_training = true,
          .step_keys = step_keys_};
}

Status LaneNetwork::Begin(std::span<const std::span<const float>> params) {
  SKEP_CHECK(params.size() <= limits_.lanes);
  DeviceApi& device = queue_->device();
  const StreamId stream = queue_->stream();
  const std::uint64_t bytes = parameters_ * sizeof(float);
  for (std::size_t lane = 0; lane < limits_.lanes; ++lane) {
    const std::uint64_t at = (params_ + lane * parameters_).address;
    if (lane >= params.size()) {
      SKEP_TRY(device.Clear(stream, at, bytes));
      continue;
    }
    SKEP_CHECK(params[lane].size() == parameters_);
    SKEP_TRY(device.CopyIn(stream, at, params[lane].data(), bytes));
  }
  for (const DevicePtr<float> state : {first_, second_}) {
    if (!state.IsNull()) SKEP_TRY(device.Clear(stream, state.address, bytes * limits_.lanes));
  }
  SKEP_TRY(device.Clear(stream, steps_.address, limits_.lanes * sizeof(std::uint32_t)));
  return queue_->Synchronise();
}

Status LaneNetwork::Upload(const LaneEpoch& epoch, std::uint32_t first, std::uint32_t steps) {
  SKEP_TRY(queue_->Synchronise());  // the copies before may still read the host's memory
  const std::size_t step_rows = std::size_t{limits_.lanes} * limits_.rows;
  const auto order = epoch.order.subspan(first * step_rows, steps * step_rows);
  const auto keys =
      epoch.keys.subspan(std::size_t{first} * limits_.lanes, std::size_t{steps} * limits_.lanes);
  host_order_.assign(order.begin(), order.end());
  host_keys_.assign(keys.begin(), keys.end());
  DeviceApi& device = queue_->device();
  const StreamId stream = queue_->stream();
  SKEP_TRY(device.CopyIn(stream, order_.address, host_order_.data(), order.size_bytes()));
  SKEP_TRY(device.CopyIn(stream, keys_.address, host_keys_.data(), keys.size_bytes()));
  return device.Clear(stream, position_.address, sizeof(std::uint32_t));
}

Status LaneNetwork::Train(const LaneEpoch& epoch) {
  SKEP_CHECK(epoch.order.size() == std::size_t{epoch.steps} * limits_.lanes * limits_.rows);
  SKEP_CHECK(epoch.keys.size() == std::size_t{epoch.steps} * limits_.lanes);
  DeviceApi& device = queue_->device();
  if (!epoch.adds_losses) {
    SKEP_TRY(device.Clear(queue_->stream(), epoch_loss_.address, limits_.lanes * sizeof(double)));
  }
  SKEP_ASSIGN(const GraphId graph, GraphFor(epoch));
  for (std::uint32_t first = 0; first < epoch.steps; first += kStepsPerUpload) {
    const std::uint32_t steps = std::min(kStepsPerUpload, epoch.steps - first);
    SKEP_TRY(Upload(epoch, first, steps));
    for (std::uint32_t step = 0; step < steps; ++step) {
      SKEP_TRY(device.LaunchGraph(queue_->stream(), graph));
    }
  }
  return queue_->Synchronise();
}

Result<GraphId> LaneNetwork::GraphFor(const LaneEpoch& epoch) {
  SKEP_CHECK(NeedsGradient(epoch.step) == NeedsGradient(limits_.step));
  SKEP_CHECK(epoch.step.rule == limits_.step.rule);
  const bool is_same =
      captured_ && AreSame(captured_->data, epoch.data) && AreEqual(captured_->step, epoch.step);
  if (is_same) return captured_->graph;
  DropGraph();
  DeviceApi& device = queue_->device();
  SKEP_TRY(device.BeginCapture(queue_->stream()));
  const Status put = PutStep(epoch.data, epoch.step);
  // Ended whatever happened, so that the stream can be freed.
  Result<GraphId> graph = device.EndCapture(queue_->stream());
  if (!put) {
    if (graph) device.FreeGraph(*graph);
    return put.error();
  }
  if (!graph) return graph;
  captured_ = Captured{epoch.step, epoch.data, *graph};
  return graph;
}

void LaneNetwork::DropGraph() {
  if (captured_) queue_->device().FreeGraph(captured_->graph);
  captured_.reset();
}

Status LaneNetwork::PutStep(const LaneData& data, const OptimiserStep& step) {
  const LanePass pass = Pass();
  SKEP_TRY(Gather(data));
  SKEP_TRY(Forward(pass));
  SKEP_TRY(PutLoss());
  const bool has_gradient = NeedsGradient(step);
  SKEP_TRY(Backward(pass, {.values = has_gradient ? gradient_ : params_,
                           .stride = parameters_,
                           .accumulate = !has_gradient,
                           .scale = has_gradient ? 1 : -step.learning_rate}));
  if (has_gradient) SKEP_TRY(PutOptimiser(step));
  for (const std::unique_ptr<LaneLayer>& layer : layers_) {
    if (layer != nullptr) SKEP_TRY(layer->EndStep(*queue_, pass));
  }
  return queue_->Launch<body::Advance>({.block_threads = 1}, {.position = position_});
}

Status LaneNetwork::Gather(const LaneData& data) {
  SKEP_TRY(queue_->Launch<body::GatherHeads>(GridFor(limits_.lanes), {.order = order_,
                                                                      .keys = keys_,
                                                                      .position = position_,
                                                                      .all_labels = data.labels,
                                                                      .labels = labels_,
                                                                      .active = active_,
                                                                      .steps = steps_,
                                                                      .step_keys = step_keys_,
                                                                      .lanes = limits_.lanes,
                                                                      .rows = limits_.rows,
                                                                      .positions = positions_}));
  const std::uint32_t lane_rows = limits_.lanes * limits_.rows;
  return queue_->Launch<body::GatherInputs>(GridFor(std::uint64_t{lane_rows} * data.values),
                                            {.order = order_,
                                             .position = position_,
                                             .bytes = data.bytes,
                                             .floats = data.floats,
                                             .offset = data.offset,
                                             .scale = data.scale,
                                             .x = values_[0].data,
                                             .lane_rows = lane_rows,
                                             .values = data.values});
}

Status LaneNetwork::Forward(const LanePass& pass) {
  const std::uint64_t lane_rows = std::uint64_t{limits_.lanes} * limits_.rows;
  for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
    const PlannedStage& stage = plan_.stages[i];
    const LaneRows in = values_[stage.input];
    const LaneRows out = values_[stage.output];
    if (stage.kind == PlannedStage::Kind::kLayer) {
      SKEP_TRY(layers_[i]->Forward(*queue_, pass, in, out));
    } else if (stage.kind == PlannedStage::Kind::kAdd) {
      SKEP_TRY(queue_->Launch<body::AddShortcut>(GridFor(lane_rows * stage.add.shape.Values()),
                                                 {.kept = values_[stage.kept].data,
                                                  .x = in.data,
                                                  .y = out.data,
                                                  .rows = lane_rows,
                                                  .shape = ShapeOf(stage.add),
                                                  .rectify = stage.rectify ? 1U : 0U}));
    }
  }
  return Ok();
}

// Of the last value, in deltas_[0].
Status LaneNetwork::PutLoss() {
  const std::size_t last = plan_.stages.back().output;
  const PlannedValue& planned = plan_.values[last];
  const std::uint64_t rows = std::uint64_t{limits_.rows} * positions_;
  SKEP_TRY(queue_->device().CopyWithin(
      queue_->stream(), deltas_[0].data.address, values_[last].data.address,
      std::uint64_t{limits_.lanes} * limits_.rows * planned.shape.Values() * sizeof(float)));
  SKEP_TRY(queue_->Launch<body::CountLabels>(
      GridFor(limits_.lanes),
      {.labels = labels_, .counted = counted_, .rows = rows, .lanes = limits_.lanes}));
  SKEP_TRY(queue_->Launch<body::LossGradient>(GridFor(rows, limits_.lanes),
                                              {.outputs = deltas_[0].data,
                                               .labels = labels_,
                                               .counted = counted_,
                                               .losses = losses_,
                                               .rows = rows,
                                               .width = outputs_,
                                               .kind = KindOf(limits_.loss)}));
  SKEP_TRY(queue_->Launch<body::AddLoss>(
      GridFor(limits_.lanes),
      {.losses = losses_, .epoch_loss = epoch_loss_, .rows = rows, .lanes = limits_.lanes}));
  if (planned.is_rectified) SKEP_TRY(Rectify(last, deltas_[0]));
  return Ok();
}

Status LaneNetwork::Rectify(std::size_t value, LaneRows gradient) {
  const std::uint64_t count =
      std::uint64_t{limits_.lanes} * limits_.rows * plan_.values[value].shape.Values();
  return queue_->Launch<body::RectifyGradient>(
      GridFor(count), {.x = values_[value].data, .dx = gradient.data, .count = count});
}

// As Network::Backward.
Status LaneNetwork::Backward(const LanePass& pass, const LaneSink& sink) {
  const std::uint64_t lane_rows = std::uint64_t{limits_.lanes} * limits_.rows;
  std::size_t turn = 0;
  LaneRows dy = deltas_[0];
  for (std::size_t i = plan_.stages.size(); i-- > plan_.lowest_trained;) {
    const PlannedStage& stage = plan_.stages[i];
    const PlannedValue& in = plan_.values[stage.input];
    if (stage.kind == PlannedStage::Kind::kAdd) {
      SKEP_TRY(queue_->Launch<body::KeepShortcutGradient>(
          GridFor(lane_rows * stage.add.kept.Values()), {.dy = dy.data,
                                                         .slot = slots_[stage.slot].data,
                                                         .rows = lane_rows,
                                                         .shape = ShapeOf(stage.add)}));
      if (in.is_rectified) SKEP_TRY(Rectify(stage.input, dy));
      continue;
    }
    if (stage.kind == PlannedStage::Kind::kKeep) {
      if (stage.input == 0) continue;
      const std::uint64_t count = lane_rows * in.shape.Values();
      SKEP_TRY(queue_->Launch<body::AddShortcutGradient>(
          GridFor(count), {.slot = slots_[stage.slot].data, .dy = dy.data, .count = count}));
      if (in.is_rectified) SKEP_TRY(Rectify(stage.input, dy));
      continue;
    }
    const bool starts_shortcut = i > 0 && plan_.stages[i - 1].kind == PlannedStage::Kind::kKeep;
    turn = 1 - turn;
    const LaneRows dx = i == plan_.lowest_trained ? LaneRows{} : deltas_[turn];
    SKEP_TRY(layers_[i]->Backward(*queue_, pass,
                                  {.x = values_[stage.input],
                                   .y = values_[stage.output],
                                   .dy = dy,
                                   .dx = dx,
                                   .x_is_rectified = in.is_rectified && !starts_shortcut},
                                  sink));
    dy = dx;
  }
  return Ok();
}

Status LaneNetwork::PutOptimiser(const OptimiserStep& step) {
  DevicePtr<const float> clip;
  if (step.gradient_clip > 0) {
    clip = clip_;
    SKEP_TRY(queue_->Launch<body::ClipScale>(
        GridOfBlocks(1, parameters_, sizeof(double), limits_.lanes), {.gradient = gradient_,
                                                                      .stride = parameters_,
                                                                      .count = parameters_,
                                                                      .clip = step.gradient_clip,
                                                                      .scale = clip_}));
  }
  for (const ParameterRange& range : plan_.trained) {
    const Grid grid = GridFor(range.end - range.begin, limits_.lanes);
    if (step.rule == Rule::kSgd) {
      SKEP_TRY(queue_->Launch<body::SgdStep>(grid, {.params = params_,
                                                    .gradient = gradient_,
                                                    .velocity = first_,
                                                    .scale = clip,
                                                    .active = active_,
                                                    .stride = parameters_,
                                                    .begin = range.begin,
                                                    .end = range.end,
                                                    .learning_rate = step.learning_rate,
                                                    .weight_decay = step.weight_decay,
                                                    .momentum = step.momentum,
                                                    .nesterov = step.nesterov ? 1U : 0U}));
      continue;
    }
    const bool is_apart = step.rule == Rule::kAdamW;
    SKEP_TRY(queue_->Launch<body::AdamStep>(
        grid, {.params = params_,
               .gradient = gradient_,
               .first = first_,
               .second = second_,
               .scale = clip,
               .active = active_,
               .steps = steps_,
               .stride = parameters_,
               .begin = range.begin,
               .end = range.end,
               .learning_rate = step.learning_rate,
               .gradient_decay = is_apart ? 0 : step.weight_decay,
               .weight_factor = is_apart ? 1 - step.learning_rate * step.weight_decay : 1,
               .beta1 = step.beta1,
               .beta2 = step.beta2,
               .epsilon = static_cast<float>(step.epsilon)}));
  }
  return Ok();
}

Status LaneNetwork::ReadLosses(std::span<double> losses) {
  SKEP_CHECK(losses.size() <= limits_.lanes);
  SKEP_TRY(queue_->device().CopyOut(queue_->stream(), losses.data(), epoch_loss_.address,
                                    losses.size_bytes()));
  return queue_->Synchronise();
}

Status LaneNetwork::ForgetLoss(std::uint32_t lane) {
  SKEP_CHECK(lane < limits_.lanes);
  return queue_->device().Clear(queue_->stream(), (epoch_loss_ + lane).address, sizeof(double));
}

Status LaneNetwork::ReadParams(std::span<const std::span<float>> params) {
  SKEP_CHECK(params.size() <= limits_.lanes);
  for (std::size_t lane = 0; lane < params.size(); ++lane) {
    SKEP_CHECK(params[lane].size() == parameters_);
    SKEP_TRY(queue_->device().CopyOut(queue_->stream(), params[lane].data(),
                                      (params_ + lane * parameters_).address,
                                      params[lane].size_bytes()));
  }
  return queue_->Synchronise();
}

}  // namespace skep::kernels
