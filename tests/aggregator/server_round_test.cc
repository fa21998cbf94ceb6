// Whole rounds over TLS, from a join string to a published model.
#include "aggregator/engine/round_engine.h"
#include "crypto/signature.h"
#include "shared/wire/codec.h"
#include "tests/aggregator/server_fixture.h"

namespace skep::aggregator::test {
namespace {

bool HasFinished(Server& server) {
  const auto run = server.FindRun("demo");
  return run.has_value() && run->status.view.state == RunState::kFinished;
}

TEST_CASE("a device enrols, trains by hand and finds its update in the published model", "[unit]") {
  TestServer server;
  const auto devices = server.Enrol(1);
  const StartedRun started = server.StartRun(1, 1);
  CHECK_FALSE(started.existed);
  Device& device = *devices.front();
  device.Join();
  device.Poll();
  const wire::TaskOffer offer = device.ExpectOffer();
  const wire::Manifest manifest = ManifestOf(offer);
  CHECK(crypto::IsSignedBy(server.signing_key(), crypto::SignedKind::kManifest,
                           offer.manifest.payload, offer.manifest.signature));
  CHECK(offer.client == 0);
  CHECK(manifest.plan_sha256 == started.plan_sha256);
  CHECK(manifest.model_sha256 == started.initial_model);
  const wire::Plan plan = device.AskPlan(manifest.plan_sha256);
  CHECK(plan.data->classes.size() == 2);
  const Bytes model = [&] {
    device.Accept(manifest);
    return device.Download(manifest.model_sha256, manifest.model_bytes);
  }();
  const Bytes body = UpdateOf(0.25F);
  const wire::UploadBegin begin = device.Begin(manifest, body, 5);
  device.peer().Send(begin);
  static_cast<void>(device.peer().Expect<wire::UploadAccept>());
  device.SendBody(begin.transfer_id, body);
  const auto ack = device.peer().Expect<wire::UpdateAck>();
  CHECK(ack.update_id == begin.update_id);
  CHECK(ack.sha256 == begin.sha256);
  CHECK(ack.disposition == wire::Disposition::kAccepted);
  REQUIRE(server.Until(HasFinished));

  const auto published = server.server().Model("demo", 1);
  REQUIRE(published.has_value());
  const auto* before = reinterpret_cast<const float*>(model.data());
  for (std::size_t i = 0; i < kValues; ++i) {
    CHECK(published->params->values()[i] == Approx(before[i] + 0.25F));
  }
  const auto detail = server.server().FindRun("demo").value();
  REQUIRE(detail.rounds.size() == 1);
  CHECK(detail.rounds[0].row.state == RoundState::kPublished);
  CHECK(detail.rounds[0].row.model_out == published->sha256);
  CHECK(detail.rounds[0].counts->ok == 1);
  CHECK(detail.status.seed == 7);
}

// Three rounds with two devices; `reversed` swaps who comes first.
Hash32 ThreeRounds(bool reversed) {
  TestServer server;
  auto devices = server.Enrol(2);
  const std::size_t order[] = {reversed ? 1U : 0U, reversed ? 0U : 1U};
  for (const auto& device : devices) device->Join();
  for (const std::size_t i : order) devices[i]->Poll();
  server.StartRun(3, 2);
  for (int round = 1; round <= 3; ++round) {
    const wire::TaskOffer offers[] = {devices[0]->ExpectOffer(), devices[1]->ExpectOffer()};
    CHECK(ManifestOf(offers[0]).round == static_cast<std::uint32_t>(round));
    CHECK(offers[0].manifest == offers[1].manifest);
    for (const std::size_t i : order) {
      devices[i]->Train(offers[i], 0.1F * static_cast<float>(i + 1),
                        3 + static_cast<std::uint32_t>(i));
    }
    if (round == 3) break;
    for (const std::size_t i : order) devices[i]->Poll();
  }
  REQUIRE(server.Until(HasFinished));
  return server.server().Model("demo", std::nullopt).value().sha256;
}

TEST_CASE("three rounds with two devices end at the same model in either order", "[unit]") {
  const Hash32 first = ThreeRounds(false);
  CHECK(first == ThreeRounds(true));
}

TEST_CASE("a model of many chunks arrives whole, and a body of many chunks is taken", "[unit]") {
  TestServer server(TestServer::Changes{{"transfer", "chunk_bytes = \"16KiB\""}});
  const auto devices = server.Enrol(1);
  // 784 hidden units over two inputs: 784 x 4 + 2 values more, in two chunks and a bit.
  auto request = server.Request(1, 1);
  request.sets = {"model.architecture=mlp", "model.hidden=[2000]"};
  const auto started = server.server().StartRun(request);
  if (!started) FAIL(config::FormatProblems(started.problems(), {.program = "test"}));
  REQUIRE(started.value().model_bytes > 32'768);
  Device& device = *devices.front();
  device.Join();
  device.Poll();
  const wire::Manifest manifest = ManifestOf(device.ExpectOffer());
  device.Accept(manifest);
  static_cast<void>(device.Download(manifest.model_sha256, manifest.model_bytes));
  const Bytes body(started.value().update_bytes);
  const wire::UploadBegin begin = device.Begin(manifest, body, 5);
  device.peer().Send(begin);
  static_cast<void>(device.peer().Expect<wire::UploadAccept>());
  device.SendBody(begin.transfer_id, body);
  static_cast<void>(device.peer().Expect<wire::UpdateAck>());
  REQUIRE(server.Until(HasFinished));
}

}  // namespace
}  // namespace skep::aggregator::test
