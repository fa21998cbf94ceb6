// How much memory a payload costs: every allocation of this program is counted, protobuf's too.
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "shared/wire/codec.h"
#include "tests/shared/wire_samples.h"
#include "tests/support/catch.h"

namespace {

std::atomic<std::size_t> in_use{0};
std::atomic<std::size_t> most{0};

void* Count(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  const std::size_t now = in_use += malloc_usable_size(block);
  if (now > most) most = now;
  return block;
}

void Discount(void* block) {
  if (block == nullptr) return;
  in_use -= malloc_usable_size(block);
  std::free(block);
}

}  // namespace

void* operator new(std::size_t size) {
  return Count(std::malloc(size == 0 ? 1 : size));
}
void* operator new[](std::size_t size) {
  return operator new(size);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return operator new(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return operator new(size);
}
void operator delete(void* block) noexcept {
  Discount(block);
}
void operator delete[](void* block) noexcept {
  Discount(block);
}
void operator delete(void* block, std::size_t) noexcept {
  Discount(block);
}
void operator delete[](void* block, std::size_t) noexcept {
  Discount(block);
}

namespace skep::wire {
namespace {

// The peak of what `decode` allocates above what was in use before.
template <class Decode>
std::size_t PeakOf(Decode decode) {
  const std::size_t before = in_use;
  most = before;
  decode();
  return most - before;
}

std::size_t Allowed(const Bytes& payload) {
  return 2 * payload.size() + (std::size_t{1} << 20);
}

Bytes Repeated(std::string_view hex, std::size_t times) {
  const Bytes part = FromHex(hex).value();
  Bytes all;
  for (std::size_t i = 0; i < times; ++i) Append(all, part);
  return all;
}

void AppendField(Bytes& to, std::uint8_t tag, const Bytes& content) {
  to.push_back(tag);
  for (std::size_t rest = content.size();; rest >>= 7) {
    to.push_back(static_cast<std::uint8_t>(rest >= 0x80 ? rest | 0x80 : rest));
    if (rest < 0x80) break;
  }
  Append(to, content);
}

TEST_CASE("no message costs more than twice its bytes and 1 MiB", "[unit]") {
  test::Samples samples(7);
  for (int round = 0; round < 10; ++round) {
    for (std::size_t kind = 0; kind < test::kMessageKinds; ++kind) {
      const Message message = samples.Any(kind);
      const Bytes payload = EncodeMessage(message);
      INFO(MessageName(IdOf(message)));
      const std::size_t peak =
          PeakOf([&] { REQUIRE(DecodeMessage(IdOf(message), payload).has_value()); });
      CHECK(peak <= Allowed(payload));
    }
  }
}

// As many parts as the counts and the walker's total of fields allow, each as small as it may be.
Bytes CrowdedPlan(std::size_t tensors, std::size_t params, std::size_t features,
                  std::size_t classes) {
  Bytes plan = FromHex("0801").value();
  for (std::size_t i = 0; i < tensors; ++i) {
    const Bytes name{static_cast<std::uint8_t>('A' + i % 26),
                     static_cast<std::uint8_t>('A' + i / 26 % 26),
                     static_cast<std::uint8_t>('A' + i / 676)};
    Bytes tensor;
    AppendField(tensor, 0x0A, name);
    Append(tensor, FromHex("1001").value());
    AppendField(plan, 0x12, tensor);
  }
  Append(plan, Repeated("1a030a016b", params));
  Bytes data = FromHex("0801").value();
  Append(data, Repeated("12050a01661001", features));
  Append(data, Repeated("1a0163", classes));
  AppendField(plan, 0x2A, data);
  return plan;
}

TEST_CASE("the plans that cost most for their size stay within the same bound", "[unit]") {
  const std::vector<Bytes> plans{
      CrowdedPlan(1024, 1024, 3700, 0), CrowdedPlan(1024, 1024, 2380, 4096),
      CrowdedPlan(1, 0, 4096, 4080),    CrowdedPlan(1024, 1024, 0, 4096),
      CrowdedPlan(1024, 0, 2990, 4096),
  };
  for (const Bytes& plan : plans) {
    REQUIRE(plan.size() <= kMaxPlanBytes);
    const std::size_t peak = PeakOf([&] { REQUIRE(DecodePlan(plan).has_value()); });
    INFO("peak " << peak << " for " << plan.size() << " bytes");
    CHECK(peak <= Allowed(plan));
  }
}

TEST_CASE("a plan of empty sub-messages costs next to nothing", "[unit]") {
  const Bytes bomb = Repeated("1200", kMaxPlanBytes / 2);
  const std::size_t peak = PeakOf([&] { CHECK(DecodePlan(bomb).error().code == 3212); });
  CHECK(peak < 4096);
}

TEST_CASE("a message of unknown fields costs next to nothing", "[unit]") {
  const Bytes bomb = Repeated("f20700", 1365);
  const std::size_t peak =
      PeakOf([&] { CHECK(DecodeMessage(MessageId::kPoll, bomb).error().code == 3207); });
  CHECK(peak < 4096);
}

}  // namespace
}  // namespace skep::wire
