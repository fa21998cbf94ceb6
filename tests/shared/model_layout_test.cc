#include "shared/base/bytes.h"
#include "shared/base/sha256.h"
#include "shared/model/layout.h"
#include "shared/model/params.h"
#include "tests/support/catch.h"

namespace skep::model {
namespace {

TensorSpec Tensor(std::string name, std::vector<std::uint32_t> shape, Role role = Role::kAveraged) {
  return {.name = std::move(name), .shape = std::move(shape), .role = role};
}

Error RefusalOf(std::vector<TensorSpec> tensors) {
  const auto layout = Layout::Make(std::move(tensors));
  REQUIRE_FALSE(layout.has_value());
  REQUIRE(layout.error().code == 1301);
  return layout.error();
}

TEST_CASE("offsets are contiguous and roles decide what travels", "[unit]") {
  const LayoutPtr layout =
      Layout::Make({Tensor("a", {2, 3}), Tensor("b", {}, Role::kPrivate),
                    Tensor("c", {4}, Role::kToClient), Tensor("d", {5}, Role::kToServer)})
          .value();
  CHECK(layout->Offset(0) == 0);
  CHECK(layout->Offset(1) == 6);
  CHECK(layout->Offset(2) == 7);
  CHECK(layout->Offset(3) == 11);
  CHECK(layout->values() == 16);
  CHECK(layout->model_values() == 10);
  CHECK(layout->update_values() == 11);
}

TEST_CASE("the layout hash is taken over names, types, roles and shapes", "[unit]") {
  const LayoutPtr layout =
      Layout::Make({Tensor("w", {2, 258}), Tensor("s", {}, Role::kToClient)}).value();
  const Bytes expected = *FromHex(
      "01007701010202000000020100000100730103"
      "00");
  CHECK(layout->hash() == Sha256::Of(expected));
}

TEST_CASE("the model hash covers the tensors that travel to a device, and no others", "[unit]") {
  Params params(Layout::Make({Tensor("a", {2}), Tensor("b", {1}, Role::kPrivate),
                              Tensor("c", {1}, Role::kToClient), Tensor("d", {1}, Role::kToServer)})
                    .value());
  params.Tensor(0)[0] = 1;
  params.Tensor(0)[1] = -2;
  params.Tensor(1)[0] = 7;
  params.Tensor(2)[0] = 0.5F;
  params.Tensor(3)[0] = 9;
  CHECK(params.ModelHash() == Sha256::Of(*FromHex("0000803f000000c00000003f")));
}

TEST_CASE("parameters start at a boundary of 64 bytes", "[unit]") {
  const Params params(Layout::Make({Tensor("a", {3})}).value());
  CHECK(reinterpret_cast<std::uintptr_t>(params.values().data()) % 64 == 0);
  CHECK(params.values()[2] == 0);
}

TEST_CASE("a layout without tensors is refused", "[unit]") {
  CHECK(RefusalOf({}).message == "the model has no parameters");
}

TEST_CASE("two tensors of one name are refused", "[unit]") {
  const Error error = RefusalOf({Tensor("fc1.weight", {1}), Tensor("fc1.weight", {2})});
  CHECK(error.message == "tensor 2 \"fc1.weight\": another tensor has this name");
}

TEST_CASE("a name with other characters is refused and not shown", "[unit]") {
  CHECK(RefusalOf({Tensor("a b", {1})}).message.find("tensor 1: a name is") == 0);
  CHECK(RefusalOf({Tensor(std::string(65, 'a'), {1})}).message.find("tensor 1: a name is") == 0);
  CHECK(RefusalOf({Tensor("", {1})}).message.find("tensor 1: a name is") == 0);
}

TEST_CASE("shapes are checked before their sizes are multiplied", "[unit]") {
  CHECK(RefusalOf({Tensor("a", {0})}).message == "tensor 1 \"a\": a dimension is 0");
  CHECK(RefusalOf({Tensor("a", {1U << 31, 1U << 31, 1U << 31})}).message ==
        "tensor 1 \"a\": more than 2^34 values");
  CHECK(RefusalOf({Tensor("a", std::vector<std::uint32_t>(9, 1))}).message ==
        "tensor 1 \"a\": more than 8 dimensions");
  CHECK(RefusalOf({Tensor("a", {1U << 17, 1U << 17}), Tensor("b", {1})}).message ==
        "tensor 2 \"b\": more than 2^34 values up to here");
  CHECK(Layout::Make({Tensor("a", {1U << 17, 1U << 17})}).has_value());
}

TEST_CASE("unknown types and roles are refused", "[unit]") {
  TensorSpec tensor = Tensor("a", {1});
  tensor.dtype = static_cast<DType>(7);
  CHECK(RefusalOf({tensor}).message == "tensor 1 \"a\": unknown type of values");
  tensor = Tensor("a", {1}, static_cast<Role>(0));
  CHECK(RefusalOf({tensor}).message == "tensor 1 \"a\": unknown role");
}

TEST_CASE("integers are never averaged", "[unit]") {
  TensorSpec tensor = Tensor("steps", {1});
  tensor.dtype = DType::kI64;
  CHECK(RefusalOf({tensor}).message.find("tensor 1 \"steps\": integers") == 0);
  tensor.role = Role::kPrivate;
  CHECK(Layout::Make({tensor}).has_value());
}

TEST_CASE("at most 1024 tensors", "[unit]") {
  std::vector<TensorSpec> tensors;
  for (int i = 0; i < 1025; ++i) tensors.push_back(Tensor("t" + std::to_string(i), {1}));
  CHECK(RefusalOf(tensors).message == "1025 tensors; at most 1024");
  tensors.pop_back();
  CHECK(Layout::Make(tensors).has_value());
}

}  // namespace
}  // namespace skep::model
