// Every word of the `layers` syntax, with the geometry and the tensors that follow from it.
#include "shared/model/model_spec.h"
#include "tests/support/catch.h"

namespace skep::model {
namespace {

using Kind = Shape::Kind;
using Sizes = std::vector<std::uint32_t>;

ModelSpec Parse(Sizes input, std::vector<std::string> lines) {
  auto spec = ModelSpec::Parse(std::move(input), std::move(lines));
  if (!spec) FAIL(spec.error().message);
  return std::move(spec).value();
}

template <class L>
L LayerAt(const ModelSpec& spec, std::size_t index) {
  REQUIRE(index < spec.layers().size());
  REQUIRE(std::holds_alternative<L>(spec.layers()[index]));
  return std::get<L>(spec.layers()[index]);
}

Sizes TensorShape(const ModelSpec& spec, std::size_t tensor) {
  return spec.layout()->tensors().at(tensor).shape;
}

Shape Image(std::uint32_t channels, std::uint32_t height, std::uint32_t width) {
  return {Kind::kImage, channels, height, width};
}
Shape Sequence(std::uint32_t length, std::uint32_t features) {
  return {Kind::kSequence, features, 1, length};
}
Shape Values(std::uint32_t count) {
  return {Kind::kValues, count, 1, 1};
}

TEST_CASE("dense takes values, and a sequence place by place", "[unit]") {
  const ModelSpec values = Parse({4}, {"dense 3"});
  const auto dense = LayerAt<DenseLayer>(values, 0);
  CHECK(dense.positions == 1);
  CHECK(dense.inputs == 4);
  CHECK(dense.outputs == 3);
  CHECK(dense.has_bias);
  CHECK(TensorShape(values, dense.weight) == Sizes{3, 4});
  CHECK(TensorShape(values, dense.bias) == Sizes{3});
  const ModelSpec sequence = Parse({7, 4}, {"dense 3"});
  CHECK(LayerAt<DenseLayer>(sequence, 0).positions == 7);
  CHECK(sequence.layout()->values() == 15);
  CHECK(sequence.positions() == 7);
}

TEST_CASE("dense without a bias has one tensor", "[unit]") {
  const ModelSpec spec = Parse({4}, {"dense 3 nobias"});
  CHECK_FALSE(LayerAt<DenseLayer>(spec, 0).has_bias);
  CHECK(spec.layout()->tensors().size() == 1);
}

TEST_CASE("dense flattens an image, in channel-major order", "[unit]") {
  const ModelSpec raw = Parse({3, 4, 4}, {"dense 2"});
  REQUIRE(raw.layers().size() == 1);  // the data are channel-major already
  CHECK(LayerAt<DenseLayer>(raw, 0).inputs == 48);
  const ModelSpec convolved = Parse({3, 4, 4}, {"conv 5 1x1", "dense 2"});
  REQUIRE(convolved.layers().size() == 4);
  CHECK(LayerAt<TransposeLayer>(convolved, 0).to_channel_last);
  const auto back = LayerAt<TransposeLayer>(convolved, 2);
  CHECK_FALSE(back.to_channel_last);
  CHECK(back.pixels == 16);
  CHECK(back.channels == 5);
  CHECK(LayerAt<DenseLayer>(convolved, 3).inputs == 80);
}

TEST_CASE("an image of one channel needs no turning", "[unit]") {
  const ModelSpec spec = Parse({1, 6, 6}, {"conv 2 3x3", "dense 2"});
  REQUIRE(spec.layers().size() == 3);
  CHECK(LayerAt<ConvLayer>(spec, 0).in == Image(1, 6, 6));
  CHECK(LayerAt<TransposeLayer>(spec, 1).pixels == 16);
}

TEST_CASE("conv is valid unless it says same", "[unit]") {
  const ModelSpec valid = Parse({1, 28, 20}, {"conv 8 5x3"});
  const auto conv = LayerAt<ConvLayer>(valid, 0);
  CHECK(conv.out == Image(8, 24, 18));
  CHECK(conv.kernel_height == 5);
  CHECK(conv.kernel_width == 3);
  CHECK(conv.pad_height == 0);
  CHECK(TensorShape(valid, conv.weight) == Sizes{8, 1, 5, 3});
  CHECK(LayerAt<ConvLayer>(Parse({1, 28, 20}, {"conv 8 5x3 valid"}), 0).out == Image(8, 24, 18));
  const auto same = LayerAt<ConvLayer>(Parse({1, 28, 20}, {"conv 8 5x3 same"}), 0);
  CHECK(same.out == Image(8, 28, 20));
  CHECK(same.pad_height == 2);
  CHECK(same.pad_width == 1);
}

TEST_CASE("conv with a stride rounds down", "[unit]") {
  CHECK(LayerAt<ConvLayer>(Parse({1, 8, 9}, {"conv 1 3x3 stride 2"}), 0).out == Image(1, 3, 4));
  CHECK(LayerAt<ConvLayer>(Parse({1, 8, 9}, {"conv 1 3x3 same stride 2"}), 0).out ==
        Image(1, 4, 5));
}

TEST_CASE("conv in groups has the weights of one group's inputs", "[unit]") {
  const ModelSpec spec = Parse({6, 4, 4}, {"conv 9 3x3 groups 3 nobias"});
  const auto conv = LayerAt<ConvLayer>(spec, 1);
  CHECK(conv.groups == 3);
  CHECK_FALSE(conv.has_bias);
  CHECK(TensorShape(spec, conv.weight) == Sizes{9, 2, 3, 3});
  CHECK(spec.layout()->tensors().size() == 1);
  const ModelSpec depthwise = Parse({6, 4, 4}, {"conv 6 3x3 same groups 6"});
  CHECK(TensorShape(depthwise, 0) == Sizes{6, 1, 3, 3});
}

TEST_CASE("the words after a size stand in any order", "[unit]") {
  const auto conv =
      LayerAt<ConvLayer>(Parse({2, 8, 8}, {"conv 4 3x3 nobias groups 2 stride 2 same"}), 1);
  CHECK(conv.stride == 2);
  CHECK(conv.groups == 2);
  CHECK(conv.pad_width == 1);
  CHECK_FALSE(conv.has_bias);
}

TEST_CASE("conv1d runs over the length of a sequence", "[unit]") {
  const ModelSpec spec = Parse({128, 6}, {"conv1d 32 5"});
  const auto conv = LayerAt<ConvLayer>(spec, 0);
  CHECK(conv.in == Sequence(128, 6));
  CHECK(conv.out == Sequence(124, 32));
  CHECK(conv.kernel_height == 1);
  CHECK(TensorShape(spec, conv.weight) == Sizes{32, 6, 5});
  CHECK(LayerAt<ConvLayer>(Parse({128, 6}, {"conv1d 1 5 same"}), 0).out == Sequence(128, 1));
  CHECK(LayerAt<ConvLayer>(Parse({128, 6}, {"conv1d 1 4 same"}), 0).out == Sequence(129, 1));
  CHECK(LayerAt<ConvLayer>(Parse({128, 6}, {"conv1d 1 5 same stride 3"}), 0).out ==
        Sequence(43, 1));
  CHECK_FALSE(LayerAt<ConvLayer>(Parse({128, 6}, {"conv1d 1 5 valid nobias"}), 0).has_bias);
}

TEST_CASE("activations keep the shape", "[unit]") {
  const ModelSpec spec = Parse({3, 2, 2}, {"relu", "tanh", "sigmoid", "gelu", "dense 1"});
  CHECK(LayerAt<ActivationLayer>(spec, 1).kind == Activation::kRelu);
  CHECK(LayerAt<ActivationLayer>(spec, 2).kind == Activation::kTanh);
  CHECK(LayerAt<ActivationLayer>(spec, 3).kind == Activation::kSigmoid);
  CHECK(LayerAt<ActivationLayer>(spec, 4).kind == Activation::kGelu);
  CHECK(LayerAt<ActivationLayer>(spec, 4).shape == Image(3, 2, 2));
}

TEST_CASE("pools leave out what fills no window", "[unit]") {
  const auto image = LayerAt<PoolLayer>(Parse({1, 7, 9}, {"maxpool 2", "dense 1"}), 0);
  CHECK(image.is_maximum);
  CHECK(image.out == Image(1, 3, 4));
  CHECK(image.window_height == 2);
  const auto window = LayerAt<PoolLayer>(Parse({7, 5}, {"maxpool1d 3", "dense 1"}), 0);
  CHECK(window.out == Sequence(2, 5));
  CHECK(window.window_height == 1);
  CHECK(window.window_width == 3);
}

TEST_CASE("avgpool takes images and sequences", "[unit]") {
  const auto image = LayerAt<PoolLayer>(Parse({1, 7, 9}, {"avgpool 3", "dense 1"}), 0);
  CHECK_FALSE(image.is_maximum);
  CHECK(image.out == Image(1, 2, 3));
  CHECK(LayerAt<PoolLayer>(Parse({7, 5}, {"avgpool 3", "dense 1"}), 0).out == Sequence(2, 5));
}

TEST_CASE("globalpool is one average a channel", "[unit]") {
  const ModelSpec image = Parse({3, 7, 9}, {"globalpool", "dense 1"});
  const auto pool = LayerAt<PoolLayer>(image, 1);
  CHECK_FALSE(pool.is_maximum);
  CHECK(pool.window_height == 7);
  CHECK(pool.window_width == 9);
  CHECK(pool.out == Values(3));
  CHECK(LayerAt<PoolLayer>(Parse({7, 5}, {"globalpool", "dense 1"}), 0).out == Values(5));
}

TEST_CASE("flatten is channel-major, and the data's order where nothing came before", "[unit]") {
  CHECK(Parse({3, 2, 2}, {"flatten", "dense 1"}).layers().size() == 1);
  CHECK(Parse({7, 5}, {"flatten", "dense 1"}).layers().size() == 1);
  CHECK(Parse({4}, {"flatten", "dense 1"}).layers().size() == 1);
  const ModelSpec sequence = Parse({7, 5}, {"conv1d 4 3", "flatten", "dense 1"});
  CHECK(LayerAt<TransposeLayer>(sequence, 1).pixels == 5);
  CHECK(LayerAt<TransposeLayer>(sequence, 1).channels == 4);
  CHECK(LayerAt<DenseLayer>(sequence, 2).inputs == 20);
  CHECK(sequence.shapes()[1] == Values(20));
  const ModelSpec pooled = Parse({1, 2, 2}, {"conv 4 2x2", "flatten", "dense 1"});
  CHECK(pooled.layers().size() == 2);  // one place: nothing to turn
}

TEST_CASE("dropout knows its probability and its line", "[unit]") {
  const ModelSpec spec = Parse({4}, {"dense 3", "dropout 0.25", "relu", "dropout 0"});
  CHECK(LayerAt<DropoutLayer>(spec, 1).probability == 0.25);
  CHECK(LayerAt<DropoutLayer>(spec, 1).index == 1);
  CHECK(LayerAt<DropoutLayer>(spec, 3).index == 3);
  // The line counts, not the layers that it took before.
  CHECK(LayerAt<DropoutLayer>(Parse({3, 2, 2}, {"dropout 0.5", "dense 1"}), 1).index == 0);
}

TEST_CASE("batch norm has running statistics", "[unit]") {
  const ModelSpec spec = Parse({3, 2, 2}, {"norm batch"});
  const auto norm = LayerAt<NormLayer>(spec, 1);
  CHECK(norm.kind == NormLayer::Kind::kBatch);
  CHECK(spec.has_batch_norm());
  REQUIRE(spec.layout()->tensors().size() == 4);
  CHECK(spec.layout()->tensors()[norm.running_mean].name == "norm1.running_mean");
  CHECK(spec.layout()->tensors()[norm.running_var].name == "norm1.running_var");
  CHECK(TensorShape(spec, norm.running_var) == Sizes{3});
}

TEST_CASE("group norm knows its groups", "[unit]") {
  const ModelSpec spec = Parse({6, 2, 2}, {"norm group 3"});
  const auto norm = LayerAt<NormLayer>(spec, 1);
  CHECK(norm.kind == NormLayer::Kind::kGroup);
  CHECK(norm.groups == 3);
  CHECK_FALSE(spec.has_batch_norm());
  CHECK(spec.layout()->tensors().size() == 2);
}

TEST_CASE("layer norm is by place on a sequence, by example on an image and values", "[unit]") {
  CHECK(LayerAt<NormLayer>(Parse({7, 5}, {"norm layer"}), 0).kind == NormLayer::Kind::kLayer);
  for (const Sizes& input : {Sizes{1, 2, 2}, Sizes{4}}) {
    const auto norm = LayerAt<NormLayer>(Parse(input, {"norm layer"}), 0);
    CHECK(norm.kind == NormLayer::Kind::kGroup);
    CHECK(norm.groups == 1);
  }
}

TEST_CASE("embedding makes a sequence of symbols", "[unit]") {
  const ModelSpec spec = Parse({80}, {"embedding 8 symbols 65"});
  const auto embedding = LayerAt<EmbeddingLayer>(spec, 0);
  CHECK(embedding.length == 80);
  CHECK(embedding.symbols == 65);
  CHECK(embedding.features == 8);
  CHECK(TensorShape(spec, embedding.weight) == Sizes{65, 8});
  CHECK(spec.shapes()[0] == Sequence(80, 8));
  CHECK(spec.input_symbols() == 65);
}

TEST_CASE("positions have a vector a place", "[unit]") {
  const ModelSpec spec = Parse({7, 5}, {"positions"});
  CHECK(TensorShape(spec, LayerAt<PositionsLayer>(spec, 0).weight) == Sizes{7, 5});
  CHECK(spec.layout()->tensors()[0].name == "positions1.weight");
}

TEST_CASE("lstm has four gates and one bias", "[unit]") {
  const ModelSpec spec = Parse({7, 5}, {"lstm 3"});
  const auto lstm = LayerAt<RecurrentLayer>(spec, 0);
  CHECK(lstm.kind == RecurrentLayer::Kind::kLstm);
  CHECK(TensorShape(spec, lstm.weight_ih) == Sizes{12, 5});
  CHECK(TensorShape(spec, lstm.weight_hh) == Sizes{12, 3});
  CHECK(TensorShape(spec, lstm.bias) == Sizes{12});
  CHECK(spec.layout()->tensors().size() == 3);
  CHECK(spec.shapes()[0] == Sequence(7, 3));
}

TEST_CASE("gru has three gates and a bias of its own for the new one", "[unit]") {
  const ModelSpec spec = Parse({7, 5}, {"gru 3"});
  const auto gru = LayerAt<RecurrentLayer>(spec, 0);
  CHECK(gru.gates() == 3);
  CHECK(TensorShape(spec, gru.weight_ih) == Sizes{9, 5});
  CHECK(TensorShape(spec, gru.bias) == Sizes{9});
  CHECK(TensorShape(spec, gru.bias_hn) == Sizes{3});
  CHECK(spec.layout()->tensors()[gru.bias_hn].name == "gru1.bias_hn");
}

TEST_CASE("attention keeps the shape and may be causal", "[unit]") {
  const ModelSpec spec = Parse({7, 6}, {"attention 3 causal", "attention 2"});
  const auto causal = LayerAt<AttentionLayer>(spec, 0);
  CHECK(causal.is_causal);
  CHECK(causal.heads == 3);
  CHECK(causal.length == 7);
  CHECK(TensorShape(spec, causal.weight_qkv) == Sizes{18, 6});
  CHECK(TensorShape(spec, causal.bias_out) == Sizes{6});
  CHECK_FALSE(LayerAt<AttentionLayer>(spec, 1).is_causal);
}

TEST_CASE("residual and add nest like brackets", "[unit]") {
  const ModelSpec spec = Parse(
      {4}, {"residual", "dense 4", "residual", "relu", "add", "add", "residual", "relu", "add"});
  CHECK(LayerAt<ResidualLayer>(spec, 0).slot == 0);
  CHECK(LayerAt<ResidualLayer>(spec, 2).slot == 1);
  CHECK(LayerAt<AddLayer>(spec, 4).slot == 1);
  CHECK(LayerAt<AddLayer>(spec, 5).slot == 0);
  CHECK(LayerAt<ResidualLayer>(spec, 6).slot == 0);
}

TEST_CASE("add takes every stride-th place and zeros for missing channels", "[unit]") {
  const auto add = LayerAt<AddLayer>(
      Parse({3, 7, 7}, {"residual", "conv 5 3x3 same stride 2", "add", "dense 1"}), 3);
  CHECK(add.stride == 2);
  CHECK(add.kept == Image(3, 7, 7));
  CHECK(add.shape == Image(5, 4, 4));
  const auto sequence =
      LayerAt<AddLayer>(Parse({9, 2}, {"residual", "conv1d 2 1 stride 3", "add"}), 2);
  CHECK(sequence.stride == 3);
}

TEST_CASE("spaces and tabs between words do not matter", "[unit]") {
  CHECK(LayerAt<DenseLayer>(Parse({4}, {"  dense\t3   nobias "}), 0).outputs == 3);
}

}  // namespace
}  // namespace skep::model
