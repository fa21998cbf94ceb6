#include "shared/base/bytes.h"
#include "shared/base/sha256.h"
#include "shared/model/free_memory.h"
#include "shared/model/layout.h"
#include "shared/model/params.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

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

// A tree of the kernel's files: a machine with 8 GiB free, and a process in the group /a/b.
class Kernel {
 public:
  Kernel() {
    Write("proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 1024 kB\nMemAvailable: 8388608 kB\n");
  }
  void Write(const std::string& file, const std::string& text) const {
    (void)folder_.Write(file, text);
  }
  [[nodiscard]] std::uint64_t Free() const { return FreeMemory(folder_.path().string()); }

 private:
  test::TemporaryFolder folder_;
};

constexpr std::uint64_t kMib = 1U << 20U;

TEST_CASE("without limits free memory is the machine's", "[unit]") {
  const Kernel kernel;
  CHECK(kernel.Free() == 8192 * kMib);
  kernel.Write("proc/self/cgroup", "0::/a/b\n");
  CHECK(kernel.Free() == 8192 * kMib);
  kernel.Write("sys/fs/cgroup/a/b/memory.max", "max\n");
  CHECK(kernel.Free() == 8192 * kMib);
}

TEST_CASE("the least of a group and of those above it counts", "[unit]") {
  const Kernel kernel;
  kernel.Write("proc/self/cgroup", "1:name=systemd:/x\n0::/a/b\n");
  kernel.Write("sys/fs/cgroup/a/b/memory.max", "1073741824\n");
  kernel.Write("sys/fs/cgroup/a/b/memory.current", "268435456\n");
  CHECK(kernel.Free() == 768 * kMib);
  // File pages that are not in use are dropped when memory is short.
  kernel.Write("sys/fs/cgroup/a/b/memory.stat", "anon 1\ninactive_file 134217728\n");
  CHECK(kernel.Free() == 896 * kMib);
  kernel.Write("sys/fs/cgroup/a/memory.max", "536870912\n");
  kernel.Write("sys/fs/cgroup/a/memory.current", "530000000\n");
  CHECK(kernel.Free() == 536870912 - 530000000);
  kernel.Write("sys/fs/cgroup/a/memory.current", "600000000\n");  // above its limit for a moment
  CHECK(kernel.Free() == 1);
}

TEST_CASE("a container that sees its own group as the root is limited by it", "[unit]") {
  const Kernel kernel;
  kernel.Write("proc/self/cgroup", "0::/docker/0123\n");  // as the host names it
  kernel.Write("sys/fs/cgroup/memory.max", "1048576\n");
  CHECK(kernel.Free() == kMib);
  kernel.Write("proc/self/cgroup", "0::/\n");
  CHECK(kernel.Free() == kMib);
}

TEST_CASE("limits of version 1 count, and its number for none does not", "[unit]") {
  const Kernel kernel;
  const std::string folder = "sys/fs/cgroup/memory/a/";
  kernel.Write("proc/self/cgroup", "9:cpu,cpuacct:/a\n4:pids,memory:/a\n0::/\n");
  kernel.Write(folder + "memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(kernel.Free() == 8192 * kMib);
  kernel.Write(folder + "memory.limit_in_bytes", "2147483648\n");
  kernel.Write(folder + "memory.usage_in_bytes", "1073741824\n");
  kernel.Write(folder + "memory.stat", "inactive_file 1\ntotal_inactive_file 536870912\n");
  CHECK(kernel.Free() == 1536 * kMib);
}

TEST_CASE("a machine that says nothing has no figure, and nothing is refused by it", "[unit]") {
  const test::TemporaryFolder empty;
  CHECK(FreeMemory(empty.path().string()) == 0);
  CHECK(CheckFits(std::uint64_t{1} << 60U, 0, "it", "").has_value());
  CHECK(FreeMemory() > 0);  // this one does
}

TEST_CASE("four fifths of what is free may be taken", "[unit]") {
  CHECK(CheckFits(80 * kMib, 100 * kMib, "it", "").has_value());
  const Status refused = CheckFits(81 * kMib, 100 * kMib, "the plan", "take less");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == 1401);
  CHECK(refused.error().message == "the plan needs 81.0 MiB; 80 % of the free memory is 80.0 MiB");
  CHECK(refused.error().hint == "take less");
}

}  // namespace
}  // namespace skep::model
