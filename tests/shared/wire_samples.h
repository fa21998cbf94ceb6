// Valid messages to test with, drawn from a seeded stream: every field within its limits, optional
// ones there or not. The same stream gives the same messages.
#pragma once

#include <cstddef>

#include "shared/base/rng.h"
#include "shared/wire/messages.h"

namespace skep::wire::test {

inline constexpr std::size_t kMessageKinds = std::variant_size_v<Message>;

class Samples {
 public:
  explicit Samples(std::uint64_t seed) : stream_(seed, {.purpose = Purpose::kSyntheticData}) {}

  // A message of alternative `kind` of the variant.
  [[nodiscard]] Message Any(std::size_t kind);
  [[nodiscard]] Manifest AnyManifest();
  [[nodiscard]] KeyStatement AnyKeyStatement();
  [[nodiscard]] Plan AnyPlan();

  [[nodiscard]] RandomStream& stream() { return stream_; }

 private:
  [[nodiscard]] bool Coin() { return stream_.Below(2) == 0; }
  [[nodiscard]] std::uint32_t Upto(std::uint32_t most) {
    return 1 + static_cast<std::uint32_t>(stream_.Below(most));
  }
  [[nodiscard]] std::uint32_t U32() { return stream_.Word() >> stream_.Below(32); }
  [[nodiscard]] std::uint32_t Positive() { return U32() | 1U; }
  [[nodiscard]] std::uint64_t U64() {
    return ((std::uint64_t{stream_.Word()} << 32) | stream_.Word()) >> stream_.Below(64);
  }
  [[nodiscard]] std::string Letters(std::size_t longest);
  [[nodiscard]] Bytes Blob(std::size_t longest);
  template <class Id>
  [[nodiscard]] Id AnyId();
  template <class E>
  [[nodiscard]] E OneOf(std::uint32_t last) {
    return E{Upto(last)};
  }
  template <class Make>
  [[nodiscard]] auto Some(std::size_t least, std::size_t most, Make make);

  [[nodiscard]] TaskRef Task();
  [[nodiscard]] SignedManifest Signed();
  [[nodiscard]] ComeBack Return();
  [[nodiscard]] std::optional<ComeBack> MaybeReturn();

  void Fill(Ping& m);
  void Fill(Pong& m);
  void Fill(PeerError& m);
  void Fill(Goodbye& m);
  void Fill(Hello& m);
  void Fill(HelloAck& m);
  void Fill(Poll& m);
  void Fill(ComeBack& m);
  void Fill(TaskOffer& m);
  void Fill(TaskAccept& m);
  void Fill(TaskDecline& m);
  void Fill(PlanRequest& m);
  void Fill(PlanReply& m);
  void Fill(Progress& m);
  void Fill(TaskFailed& m);
  void Fill(RoundClosed& m);
  void Fill(DownloadRequest& m);
  void Fill(DownloadBegin& m);
  void Fill(UploadBegin& m);
  void Fill(UploadAccept& m);
  void Fill(TransferProgress& m);
  void Fill(TransferCancel& m);
  void Fill(UpdateAck& m);
  void Fill(UpdateRefused& m);
  void Fill(RenewRequest& m);
  void Fill(RenewResult& m);
  void Fill(SigningKeyUpdate& m);
  void Fill(EnrolRequest& m);
  void Fill(EnrolResult& m);
  template <std::size_t kAlternative>
  [[nodiscard]] Message AnyFrom(std::size_t kind);

  RandomStream stream_;
};

}  // namespace skep::wire::test
