// Initial models under PyTorch's names: what is recognised, what is summed, what stays open.
#include <numeric>

#include "shared/base/file.h"
#include "shared/model/initial_model.h"
#include "shared/model/module_names.h"
#include "shared/model/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace skep::model {
namespace {

using Sizes = std::vector<std::uint64_t>;
using test::TemporaryFolder;

ModelSpec Parse(std::vector<std::uint32_t> input, std::vector<std::string> lines) {
  return ModelSpec::Parse(std::move(input), std::move(lines)).value();
}

// Values first, first + 1, ...
FileTensor Counting(std::string name, const Sizes& shape, float first) {
  const auto count = std::accumulate(shape.begin(), shape.end(), std::uint64_t{1},
                                     std::multiplies<std::uint64_t>());
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  const BytesView bytes = AsBytes(std::span<const float>(values));
  return {.name = std::move(name),
          .dtype = FileType::kF32,
          .shape = shape,
          .bytes = Bytes(bytes.begin(), bytes.end())};
}
FileTensor Counter(std::string name) {
  return {.name = std::move(name), .dtype = FileType::kI64, .shape = {}, .bytes = Bytes(8)};
}

Result<Params> Read(const ModelSpec& spec, std::vector<FileTensor> tensors,
                    std::vector<std::string>* notes = nullptr) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "m.safetensors").string();
  const Bytes bytes = EncodeTensorFile({.metadata = {}, .tensors = std::move(tensors)});
  REQUIRE(WriteFileAtomically(path, bytes).has_value());
  auto params = ReadInitialModel(path, spec, notes);
  if (params) return params;
  Error error = std::move(params).error();
  CHECK(error.message.substr(0, path.size()) == path);
  error.message.erase(0, path.size() + 2);
  return error;
}

std::string Refusal(const ModelSpec& spec, std::vector<FileTensor> tensors) {
  const auto params = Read(spec, std::move(tensors));
  REQUIRE_FALSE(params.has_value());
  CHECK(params.error().code == 1301);
  return params.error().message;
}

// The first values of the model's tensors.
std::vector<float> Firsts(const Params& params) {
  std::vector<float> firsts;
  for (std::size_t i = 0; i < params.layout()->tensors().size(); ++i) {
    firsts.push_back(params.Tensor(i)[0]);
  }
  return firsts;
}

TEST_CASE("exact names come first", "[unit]") {
  const ModelSpec spec = Parse({2}, {"dense 2", "relu", "dense 2"});
  // By number alone these would be the other way round.
  const Params params =
      Read(spec, {Counting("fc2.weight", {2, 2}, 10), Counting("fc2.bias", {2}, 20),
                  Counting("fc1.weight", {2, 2}, 30), Counting("fc1.bias", {2}, 40)})
          .value();
  CHECK(Firsts(params) == std::vector<float>{30, 40, 10, 20});
}

TEST_CASE("numbers of a Sequential are read as numbers", "[unit]") {
  const ModelSpec spec = Parse({2}, {"dense 2", "relu", "dense 2"});
  const Params params = Read(spec, {Counting("10.weight", {2, 2}, 10), Counting("10.bias", {2}, 20),
                                    Counting("2.weight", {2, 2}, 30), Counting("2.bias", {2}, 40)})
                            .value();
  CHECK(Firsts(params) == std::vector<float>{30, 40, 10, 20});
}

TEST_CASE("a convolutional net of features and a classifier is recognised", "[unit]") {
  const ModelSpec spec =
      Parse({1, 6, 6}, {"conv 2 3x3", "relu", "conv 2 3x3", "dense 3", "dense 4"});
  const Params params =
      Read(spec,
           {Counting("classifier.3.weight", {4, 3}, 1), Counting("classifier.3.bias", {4}, 2),
            Counting("classifier.0.weight", {3, 8}, 3), Counting("classifier.0.bias", {3}, 4),
            Counting("features.0.weight", {2, 1, 3, 3}, 5), Counting("features.0.bias", {2}, 6),
            Counting("features.3.weight", {2, 2, 3, 3}, 7), Counting("features.3.bias", {2}, 8)})
          .value();
  CHECK(Firsts(params) == std::vector<float>{5, 6, 7, 8, 3, 4, 1, 2});
  CHECK(params.Tensor(2)[35] == 42);  // whole tensors, in order
}

TEST_CASE("modules with any name are recognised where shapes tell them apart", "[unit]") {
  const ModelSpec spec = Parse({4}, {"dense 3", "relu", "dense 2"});
  const Params params =
      Read(spec, {Counting("zeta.weight", {3, 4}, 1), Counting("zeta.bias", {3}, 2),
                  Counting("alpha.weight", {2, 3}, 3), Counting("alpha.bias", {2}, 4)})
          .value();
  CHECK(Firsts(params) == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("the two biases of an LSTM are summed, its layers told by number", "[unit]") {
  const ModelSpec spec = Parse({3, 2}, {"lstm 2", "lstm 2"});
  std::vector<FileTensor> tensors;
  for (const char* layer : {"l1", "l0"}) {
    const float base = layer[1] == '0' ? 100 : 500;
    const auto name = [&](const char* field) { return std::string("lstm.") + field + "_" + layer; };
    tensors.push_back(Counting(name("weight_ih"), {8, 2}, base));
    tensors.push_back(Counting(name("weight_hh"), {8, 2}, base + 50));
    tensors.push_back(Counting(name("bias_ih"), {8}, base + 1));
    tensors.push_back(Counting(name("bias_hh"), {8}, base + 2));
  }
  const Params params = Read(spec, tensors).value();
  CHECK(Firsts(params) == std::vector<float>{100, 150, 203, 500, 550, 1003});
  CHECK(params.Tensor(2)[7] == 217);
}

TEST_CASE("a GRU's recurrent bias of the new gate stays apart", "[unit]") {
  const ModelSpec spec = Parse({3, 2}, {"gru 2"});
  const Params params =
      Read(spec, {Counting("rnn.weight_ih_l0", {6, 2}, 1), Counting("rnn.weight_hh_l0", {6, 2}, 2),
                  Counting("rnn.bias_ih_l0", {6}, 10), Counting("rnn.bias_hh_l0", {6}, 100)})
          .value();
  const auto bias = params.Tensor(2);
  CHECK(std::vector<float>(bias.begin(), bias.end()) ==
        std::vector<float>{110, 112, 114, 116, 14, 15});
  const auto apart = params.Tensor(3);
  CHECK(std::vector<float>(apart.begin(), apart.end()) == std::vector<float>{104, 105});
}

TEST_CASE("a cell's names have no layer", "[unit]") {
  const ModelSpec spec = Parse({3, 2}, {"lstm 2"});
  const Params params =
      Read(spec, {Counting("cell.weight_ih", {8, 2}, 1), Counting("cell.weight_hh", {8, 2}, 2),
                  Counting("cell.bias_ih", {8}, 3), Counting("cell.bias_hh", {8}, 4)})
          .value();
  CHECK(Firsts(params) == std::vector<float>{1, 2, 7});
}

TEST_CASE("a transformer's names are recognised", "[unit]") {
  const ModelSpec spec = Parse({3}, {"embedding 2 symbols 5", "positions", "residual", "norm layer",
                                     "attention 1 causal", "add", "residual", "norm layer",
                                     "dense 4", "gelu", "dense 2", "add", "norm layer", "dense 5"});
  const Params params =
      Read(spec,
           {Counting("embedding.weight", {5, 2}, 1), Counting("pos_embedding", {1, 3, 2}, 2),
            Counting("blocks.0.norm1.weight", {2}, 3), Counting("blocks.0.norm1.bias", {2}, 4),
            Counting("blocks.0.attn.in_proj_weight", {6, 2}, 5),
            Counting("blocks.0.attn.in_proj_bias", {6}, 6),
            Counting("blocks.0.attn.out_proj.weight", {2, 2}, 7),
            Counting("blocks.0.attn.out_proj.bias", {2}, 8),
            Counting("blocks.0.norm2.weight", {2}, 9), Counting("blocks.0.norm2.bias", {2}, 10),
            Counting("blocks.0.mlp.0.weight", {4, 2}, 11), Counting("blocks.0.mlp.0.bias", {4}, 12),
            Counting("blocks.0.mlp.2.weight", {2, 4}, 13), Counting("blocks.0.mlp.2.bias", {2}, 14),
            Counting("norm.weight", {2}, 15), Counting("norm.bias", {2}, 16),
            Counting("head.weight", {5, 2}, 17), Counting("head.bias", {5}, 18)})
          .value();
  std::vector<float> expected(18);
  std::iota(expected.begin(), expected.end(), 1.0F);
  CHECK(Firsts(params) == expected);
}

TEST_CASE("a residual net with batch norm is recognised, its counters are skipped", "[unit]") {
  const ModelSpec spec =
      Parse({1, 4, 4}, {"conv 2 3x3 same nobias", "norm batch", "relu", "residual",
                        "conv 2 3x3 same nobias", "norm batch", "add", "globalpool", "dense 3"});
  std::vector<FileTensor> tensors{Counting("fc.weight", {3, 2}, 11), Counting("fc.bias", {3}, 12),
                                  Counting("layer1.0.conv1.weight", {2, 2, 3, 3}, 6),
                                  Counting("conv1.weight", {2, 1, 3, 3}, 1)};
  float first = 7;
  for (const char* norm : {"layer1.0.bn1", "bn1"}) {
    for (const char* field : {".weight", ".bias", ".running_mean", ".running_var"}) {
      tensors.push_back(Counting(norm + std::string(field), {2}, first++));
    }
    tensors.push_back(Counter(norm + std::string(".num_batches_tracked")));
    first = 2;
  }
  std::vector<std::string> notes;
  const Params params = Read(spec, tensors, &notes).value();
  CHECK(Firsts(params) == std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  CHECK(notes ==
        std::vector<std::string>{"skipped the integers of \"bn1.num_batches_tracked\"",
                                 "skipped the integers of \"layer1.0.bn1.num_batches_tracked\""});
}

TEST_CASE("equal shapes whose names leave the order open are refused", "[unit]") {
  const ModelSpec spec = Parse({2}, {"dense 2", "relu", "dense 2"});
  CHECK(Refusal(spec, {Counting("hidden.weight", {2, 2}, 1), Counting("hidden.bias", {2}, 2),
                       Counting("input.weight", {2, 2}, 3), Counting("input.bias", {2}, 4)}) ==
        "\"hidden\" and \"input\" have equal shapes, and their names do not say which comes first");
}

TEST_CASE("what is missing and what is left over is listed", "[unit]") {
  const ModelSpec spec = Parse({4}, {"dense 3", "dense 2"});
  const FileTensor weight = Counting("0.weight", {3, 4}, 1);
  const FileTensor bias = Counting("0.bias", {3}, 1);
  const std::string differs = "the file's tensors are not the model's; ";
  CHECK(Refusal(spec, {weight, bias}) ==
        differs + "missing: \"fc2.weight\" [2, 3], \"fc2.bias\" [2]");
  CHECK(
      Refusal(spec, {weight, bias, Counting("2.weight", {5, 3}, 1), Counting("2.bias", {5}, 1)}) ==
      differs +
          "missing: \"fc2.weight\" [2, 3], \"fc2.bias\" [2]; left over: \"2.bias\" [5], "
          "\"2.weight\" [5, 3]");
  CHECK(Refusal(spec, {weight, bias, Counting("2.weight", {2, 3}, 1)}) ==
        differs +
            "missing: \"fc2.weight\" [2, 3], \"fc2.bias\" [2]; left over: \"2.weight\" [2, 3]");
}

TEST_CASE("long lists are cut", "[unit]") {
  const ModelSpec spec = Parse({2}, {"dense 2", "dense 3", "dense 4", "dense 5"});
  CHECK(Refusal(spec, {Counting("a.gamma", {9}, 1)}) ==
        "the file's tensors are not the model's; missing: \"fc1.weight\" [2, 2], \"fc1.bias\" [2], "
        "\"fc2.weight\" [3, 2], \"fc2.bias\" [3], \"fc3.weight\" [4, 3], \"fc3.bias\" [4] and 2 "
        "more; "
        "left over: \"a.gamma\" [9]");
}

TEST_CASE("a layer of one direction is no layer of two", "[unit]") {
  const ModelSpec spec = Parse({3, 2}, {"lstm 2"});
  CHECK(Refusal(spec, {Counting("r.weight_ih_l0", {8, 2}, 1), Counting("r.weight_hh_l0", {8, 2}, 2),
                       Counting("r.bias_ih_l0", {8}, 3), Counting("r.bias_hh_l0", {8}, 4),
                       Counting("r.weight_ih_l0_reverse", {8, 2}, 5)}) ==
        "the file's tensors are not the model's; left over: \"r.weight_ih_l0_reverse\" [8, 2]");
}

TEST_CASE("two names for one field fit nothing", "[unit]") {
  const ModelSpec spec = Parse({3}, {"embedding 2 symbols 5"});
  const auto params = Read(spec, {Counting("e", {5, 2}, 1), Counting("e.weight", {5, 2}, 2)});
  REQUIRE_FALSE(params.has_value());
  CHECK(params.error().code == 1301);
}

TEST_CASE("values that are not finite, and variances below 0, are refused", "[unit]") {
  const ModelSpec spec = Parse({2}, {"norm batch"});
  const auto tensors = [](float mean, float variance) {
    return std::vector<FileTensor>{Counting("bn.weight", {2}, 1), Counting("bn.bias", {2}, 1),
                                   Counting("bn.running_mean", {2}, mean),
                                   Counting("bn.running_var", {2}, variance)};
  };
  CHECK(Read(spec, tensors(0, 0)).has_value());
  CHECK(Refusal(spec, tensors(0, -1)) == "tensor \"norm1.running_var\": a variance is below 0");
  CHECK(Refusal(spec, tensors(INFINITY, 1)) == "tensor \"bn.running_mean\": value 0 is not finite");
}

TEST_CASE("modules are ordered by their numbers and by usual words, never by letters", "[unit]") {
  const auto order = [](const char* a, const char* b) { return CompareModules(a, b); };
  CHECK(order("2", "10") == Order::kBefore);
  CHECK(order("layer2.0.conv1", "layer1.5.conv2") == Order::kAfter);
  CHECK(order("module.net.3", "module.net.0") == Order::kAfter);
  CHECK(order("bn1", "layer1.0.bn1") == Order::kBefore);
  CHECK(order("norm", "blocks.11.norm2") == Order::kAfter);
  CHECK(order("norm1", "blocks.0.norm1") == Order::kOpen);
  CHECK(order("a", "b") == Order::kOpen);
  CHECK(order("fc", "fc2") == Order::kOpen);
  CHECK(order("fc01", "fc1") == Order::kOpen);
  CHECK(order("encoder", "encoder.0") == Order::kOpen);
  CHECK(order("3", "fc") == Order::kOpen);
  CHECK(order("x99999999999999999999", "x1") == Order::kOpen);
}

}  // namespace
}  // namespace skep::model
