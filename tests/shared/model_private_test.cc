// Norm layers that stay on the devices: roles, what they start from, and the parts of a model.
#include <set>

#include "shared/model/initial_model.h"
#include "shared/model/parts.h"
#include "shared/model/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace skep::model {
namespace {

ModelSpec Spec(std::vector<std::string> lines = {"dense 3", "norm batch", "relu", "dense 2"}) {
  return ModelSpec::Parse({2}, std::move(lines)).value();
}

// Values 1, 2, 3, ...
Params Counted(const LayoutPtr& layout) {
  Params params(layout);
  for (std::size_t i = 0; i < params.values().size(); ++i) {
    params.values()[i] = static_cast<float>(i + 1);
  }
  return params;
}

TEST_CASE("weights, biases and statistics of every kind of norm become private", "[unit]") {
  const std::vector<std::pair<const char*, std::set<std::string>>> kinds{
      {"norm batch", {"norm1.weight", "norm1.bias", "norm1.running_mean", "norm1.running_var"}},
      {"norm group 3", {"norm1.weight", "norm1.bias"}},
      {"norm layer", {"norm1.weight", "norm1.bias"}}};
  for (const auto& [line, expected] : kinds) {
    INFO(line);
    const ModelSpec shared = Spec({"dense 3", line, "dense 2"});
    const ModelSpec own = shared.WithPrivateNorms().value();
    std::set<std::string> kept;
    for (const TensorSpec& tensor : own.layout()->tensors()) {
      if (tensor.role == Role::kPrivate) kept.insert(tensor.name);
    }
    CHECK(kept == expected);
    CHECK(own.layout()->private_values() == 3 * expected.size());
    CHECK(own.layout()->values() == shared.layout()->values());
    CHECK(own.layout()->hash() != shared.layout()->hash());
    CHECK(shared.layout()->private_values() == 0);
    CHECK(own.lines() == shared.lines());
  }
}

TEST_CASE("a model without norm layers has nothing to keep", "[unit]") {
  const auto refused = Spec({"dense 3", "relu", "dense 2"}).WithPrivateNorms();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == 1103);
}

TEST_CASE("private tensors start from weight 1, bias 0, mean 0 and variance 1", "[unit]") {
  const ModelSpec spec = Spec().WithPrivateNorms().value();
  const Params fresh(spec.layout());
  const Params drawn = InitialParams(spec, Initialiser::kFanIn, 7);
  const Params shared = InitialParams(Spec(), Initialiser::kFanIn, 7);
  for (std::size_t i = 0; i < spec.layout()->tensors().size(); ++i) {
    const TensorSpec& tensor = spec.layout()->tensors()[i];
    if (tensor.role != Role::kPrivate) continue;
    INFO(tensor.name);
    const bool is_one = tensor.name == "norm1.weight" || tensor.name == "norm1.running_var";
    for (const float value : fresh.Tensor(i)) CHECK(value == (is_one ? 1.0F : 0.0F));
    for (const float value : drawn.Tensor(i)) CHECK(value == (is_one ? 1.0F : 0.0F));
  }
  // The same weights as without: nothing is drawn for a norm.
  CHECK(std::equal(drawn.values().begin(), drawn.values().end(), shared.values().begin()));
  CHECK(drawn.ModelHash() != shared.ModelHash());
}

TEST_CASE("the parts of a model are put back where they were taken", "[unit]") {
  const LayoutPtr layout =
      Layout::Make({{.name = "a", .shape = {2}},
                    {.name = "b", .shape = {3}, .role = Role::kPrivate, .initial = 5},
                    {.name = "c", .shape = {1}, .role = Role::kToClient},
                    {.name = "d", .shape = {2}, .role = Role::kToServer},
                    {.name = "e", .shape = {1}}})
          .value();
  const Params params = Counted(layout);
  CHECK(ValuesOf(*layout, Part::kModel) == 4);
  CHECK(ValuesOf(*layout, Part::kUpdate) == 5);
  CHECK(ValuesOf(*layout, Part::kPrivate) == 3);
  const auto floats = [](std::vector<float> values) {
    const BytesView bytes = AsBytes(std::span<const float>(values));
    return Bytes(bytes.begin(), bytes.end());
  };
  CHECK(TakePart(*layout, Part::kModel, params.values()) == floats({1, 2, 6, 9}));
  CHECK(TakePart(*layout, Part::kUpdate, params.values()) == floats({1, 2, 7, 8, 9}));
  CHECK(TakePart(*layout, Part::kPrivate, params.values()) == floats({3, 4, 5}));
  Params other(layout);
  PutPart(*layout, Part::kModel, floats({1, 2, 6, 9}), other.values());
  const std::vector<float> with_initial{1, 2, 5, 5, 5, 6, 0, 0, 9};
  CHECK(std::equal(with_initial.begin(), with_initial.end(), other.values().begin()));
  PutPart(*layout, Part::kPrivate, floats({3, 4, 5}), other.values());
  PutPart(*layout, Part::kUpdate, floats({1, 2, 7, 8, 9}), other.values());
  CHECK(std::equal(params.values().begin(), params.values().end(), other.values().begin()));
  FillPrivate(*layout, other.values());
  CHECK(TakePart(*layout, Part::kPrivate, other.values()) == floats({5, 5, 5}));
}

TEST_CASE("a model file has no private tensors, and reading passes over those of a file",
          "[unit]") {
  const test::TemporaryFolder folder;
  const ModelSpec spec = Spec().WithPrivateNorms().value();
  const Params own = Counted(spec.layout());
  const std::string path = (folder.path() / "m.safetensors").string();
  REQUIRE(WriteModel(path, own, {}).has_value());
  const TensorFile file = ReadTensorFile(path, 1000).value();
  CHECK(file.tensors.size() == 4);
  const Params read = ReadModel(path, spec.layout()).value();
  CHECK(read.ModelHash() == own.ModelHash());
  CHECK(read.Tensor(2)[0] == 1);  // norm1.weight

  // A file of the same model without fedbn has them.
  const Params shared = Counted(Spec().layout());
  REQUIRE(WriteModel(path, shared, {}).has_value());
  std::vector<std::string> notes;
  const Params initial = ReadInitialModel(path, spec, &notes).value();
  CHECK(initial.Tensor(0)[0] == 1);
  CHECK(initial.Tensor(2)[0] == 1);
  CHECK(initial.Tensor(3)[0] == 0);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].find("fedbn: every client starts its norm layers from") == 0);
  CHECK(initial.ModelHash() == own.ModelHash());
}

}  // namespace
}  // namespace skep::model
