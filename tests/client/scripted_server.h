// A client session with the other side played by the test: what is said is chosen line by line,
// what the session answers is looked at.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/session.h"
#include "shared/base/sha256.h"
#include "shared/wire/codec.h"
#include "tests/support/catch.h"

namespace skep::client::test {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

inline constexpr WallMs kWall = 1'800'000'000'000;
inline constexpr std::uint32_t kChunk = 1024;

template <class Id>
Id MakeId(std::uint8_t number) {
  Id id;
  id.bytes.fill(number);
  return id;
}

// A softmax model of 4 inputs and 3 classes: 15 values.
wire::Plan MakePlan();
Body MakeModel();

class FakeDevice final : public Device {
 public:
  Status Verify(const wire::SignedManifest&) override { return verdict; }
  Result<std::uint32_t> CountExamples(const wire::Plan&, wire::TaskKind) override {
    return examples;
  }
  UpdateId NewUpdateId() override { return MakeId<UpdateId>(++ids_drawn); }
  double Uniform() override {
    ++uniforms_drawn;
    return uniform;
  }
  std::shared_ptr<const wire::Plan> CachedPlan(const Hash32& sha256) override {
    const auto found = plans.find(sha256);
    return found == plans.end() ? nullptr : found->second;
  }
  void KeepPlan(const Hash32& sha256, std::shared_ptr<const wire::Plan> plan) override {
    plans[sha256] = std::move(plan);
  }
  std::optional<Body> CachedModel(const Hash32& sha256) override {
    return model && model->sha256 == sha256 ? model : std::nullopt;
  }
  std::uint64_t HeldOf(const Hash32&) override { return held; }
  void DropHeld(const Hash32&) override { held = 0; }

  Status verdict = Ok();
  Result<std::uint32_t> examples = 120U;
  double uniform = 0.5;
  std::map<Hash32, std::shared_ptr<const wire::Plan>> plans;
  std::optional<Body> model;
  std::uint64_t held = 0;
  std::uint8_t ids_drawn = 0;
  int uniforms_drawn = 0;
};

// What tests change of a task before it is offered.
struct OfferedTask {
  wire::Manifest manifest;
  ClientNumber client = 7;
  std::uint32_t offer_ttl_ms = 60'000;
  std::uint32_t report_within_ms = 600'000;
  std::optional<Bytes> payload;  // in place of the encoded manifest

  [[nodiscard]] wire::TaskRef Ref() const {
    return {manifest.run_id, manifest.round, manifest.attempt, manifest.kind};
  }
  [[nodiscard]] wire::TaskOffer Message() const;
};

OfferedTask MakeTask(std::uint32_t round = 1, wire::TaskKind kind = wire::TaskKind::kTrain);
PendingUpdate MakeUpdate(const wire::TaskRef& task, wire::Encoding encoding = wire::Encoding::kF32);

class Script {
 public:
  explicit Script(SessionConfig config = MakeConfig());

  static SessionConfig MakeConfig();
  static wire::HelloAck MakeAck();

  // Steps: what happens to the session. Each replaces the outputs looked at.
  void Step(Input input);
  template <class MessageType>
  void Hear(MessageType message) {
    Step(ServerMessage{wire::Message(std::move(message))});
  }
  void Wait(Nanoseconds duration) { now.steady += duration, now.wall += Ms(duration); }
  // Lets the latest timer of the last outputs that armed one fire, on time.
  void FireTimer();

  // Ways to a state.
  void Connect() { Step(Connected{MakeAck()}); }
  void Offer(const OfferedTask& task) { Hear(task.Message()); }
  void ReachDeciding();                                      // plan asked for
  void ReachDownloading();                                   // model asked for
  void ReachTraining(const OfferedTask& task = MakeTask());  // model and plan at hand
  void ReachUploading();                                     // UploadBegin said
  void ReachSending();                                       // UploadAccept came
  void ReachSettling();                                      // body sent

  // Outputs of the last Step.
  template <class MessageType>
  [[nodiscard]] const MessageType* Said() const {
    for (const Output& output : outputs) {
      const auto* send = std::get_if<Send>(&output);
      if (send == nullptr) continue;
      if (const auto* message = std::get_if<MessageType>(&send->message)) return message;
    }
    return nullptr;
  }
  template <class OutputType>
  [[nodiscard]] const OutputType* Get() const {
    for (const Output& output : outputs) {
      if (const auto* wanted = std::get_if<OutputType>(&output)) return wanted;
    }
    return nullptr;
  }
  [[nodiscard]] int Messages() const;
  [[nodiscard]] const Note* NoteOf(Note::Kind kind) const;
  // The length of the timer armed last.
  [[nodiscard]] Nanoseconds Armed() const { return armed_after_; }
  // The delay of the Reconnect among the outputs; -1 without one.
  [[nodiscard]] Nanoseconds ReconnectAfter() const;

  FakeDevice device;
  Session session;
  Now now{SteadyTime(hours(100)), kWall};
  Outputs outputs;

 private:
  static WallMs Ms(Nanoseconds duration) {
    return static_cast<WallMs>(std::chrono::duration_cast<milliseconds>(duration).count());
  }
  TimerId armed_ = 0;
  Nanoseconds armed_after_{};
};

// That the task was declined with `code` and a new one asked for.
void CheckDeclined(const Script& script, std::uint32_t code);

}  // namespace skep::client::test
