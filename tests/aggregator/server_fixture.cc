#include "tests/aggregator/server_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <sqlite3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "crypto/csprng.h"
#include "shared/base/sha256.h"
#include "shared/net/endpoint.h"
#include "shared/wire/codec.h"

namespace skep::aggregator::test {
namespace {

constexpr int kPatienceSeconds = 20;
constexpr WallMs kHour = 3'600'000;

int ConnectTo(std::uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(socket >= 0);
  const timeval patience{kPatienceSeconds, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  return socket;
}

std::string Table() {
  std::string text = "x,y,kind\n";
  for (int i = 0; i < 40; ++i) {
    const bool is_high = i % 2 == 0;
    text += std::to_string(is_high ? 10 + i % 7 : i % 5) + "," +
            std::to_string(is_high ? 3 + i % 3 : 9) + "," + (is_high ? "high" : "low") + "\n";
  }
  return text;
}

void HashTable(sqlite3* database, const std::string& table, Sha256& hash) {
  sqlite3_stmt* statement = nullptr;
  const std::string select = "SELECT * FROM \"" + table + "\" ORDER BY 1, 2";
  REQUIRE(sqlite3_prepare_v2(database, select.c_str(), -1, &statement, nullptr) == SQLITE_OK);
  while (sqlite3_step(statement) == SQLITE_ROW) {
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
      const std::string name = sqlite3_column_name(statement, i);
      if (name == "last_seen" || name == "software") continue;
      const auto* value = static_cast<const std::uint8_t*>(sqlite3_column_blob(statement, i));
      const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement, i));
      hash.Update(AsBytes(name));
      if (size > 0) hash.Update(BytesView(value, size));
    }
  }
  sqlite3_finalize(statement);
}

}  // namespace

TlsPeer::TlsPeer(std::uint16_t port, const net::TlsContext::Shared& context, wire::Role role)
    : socket_(ConnectTo(port)),
      context_(context),
      ssl_(context->NewConnection().value()),
      decoder_(role, budget_) {
  SSL_set_fd(ssl_.get(), socket_);
  ERR_clear_error();
  is_open_ = SSL_connect(ssl_.get()) == 1;
  if (!is_open_) fault_ = net::ExplainTls(ssl_.get(), ERR_get_error()).code;
}

TlsPeer::~TlsPeer() {
  Cut();
}

void TlsPeer::Cut() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

void TlsPeer::Write(BytesView bytes) {
  // A peer that has closed is found out by reading.
  static_cast<void>(SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())));
}

std::optional<wire::Frame> TlsPeer::Read() {
  while (true) {
    BytesView input = BytesView(received_).subspan(taken_);
    auto frame = decoder_.Next(input);
    taken_ = received_.size() - input.size();
    REQUIRE(frame.has_value());
    if (frame->has_value()) return std::move(**frame);
    received_.resize(65'536);
    taken_ = 0;
    ERR_clear_error();
    const int count = SSL_read(ssl_.get(), received_.data(), static_cast<int>(received_.size()));
    received_.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    if (count > 0) continue;
    if (SSL_get_error(ssl_.get(), count) != SSL_ERROR_ZERO_RETURN) {
      fault_ = net::ExplainTls(ssl_.get(), ERR_get_error()).code;
    }
    return std::nullopt;
  }
}

std::optional<wire::Message> TlsPeer::ReadMessage() {
  while (auto frame = Read()) {
    REQUIRE(frame->kind == wire::FrameKind::kControl);
    auto message = wire::DecodeMessage(frame->id, frame->payload);
    REQUIRE(message.has_value());
    if (const auto* ping = std::get_if<wire::Ping>(&*message)) {
      Send(wire::Pong{ping->nonce});
      continue;
    }
    return std::move(message).value();
  }
  return std::nullopt;
}

int TlsPeer::ReadEnd() {
  int code = 0;
  while (const auto message = ReadMessage()) {
    if (const auto* error = std::get_if<wire::PeerError>(&*message)) {
      code = static_cast<int>(error->code);
    }
  }
  return code;
}

TlsPeer& Device::Connect() {
  const net::Credentials own{certificate_, key_, {}};
  const auto context =
      net::TlsContext::ForDevice(own, {server_ca_, std::nullopt, "127.0.0.1", std::nullopt})
          .value();
  peer_ = std::make_unique<TlsPeer>(port_, context, wire::Role::kClient);
  transfer_ = 0;
  return *peer_;
}

void Device::Join() {
  REQUIRE(Connect().is_open());
  peer_->Send(wire::Hello{.major = 1, .software = "scripted device", .clock_ms = 1});
  const auto ack = peer_->Expect<wire::HelloAck>();
  chunk_bytes = ack.chunk_bytes;
  peer_->SetChunkBytes(chunk_bytes);
}

void Device::Poll(const std::string& population) {
  wire::Poll poll;
  poll.population = population;
  poll.hold_ms = 60'000;
  poll.max_model_bytes = 1 << 30;
  poll.max_update_bytes = 1 << 30;
  poll.encodings = {wire::Encoding::kF32};
  poll.task_kinds = {wire::TaskKind::kTrain, wire::TaskKind::kEvaluate};
  peer_->Send(poll);
}

wire::TaskOffer Device::ExpectOffer() {
  // A round that has just closed may still say so.
  while (true) {
    const auto message = peer_->ReadMessage();
    REQUIRE(message);
    if (const auto* offer = std::get_if<wire::TaskOffer>(&*message)) return *offer;
    INFO("got " << wire::MessageName(wire::IdOf(*message)));
    REQUIRE(std::holds_alternative<wire::RoundClosed>(*message));
  }
}

wire::Manifest ManifestOf(const wire::TaskOffer& offer) {
  return wire::DecodeManifest(offer.manifest.payload).value();
}

namespace {
wire::TaskRef RefOf(const wire::Manifest& manifest) {
  return {manifest.run_id, manifest.round, manifest.attempt, manifest.kind};
}
}  // namespace

void Device::Accept(const wire::Manifest& manifest) {
  peer_->Send(wire::TaskAccept{RefOf(manifest)});
}

wire::Plan Device::AskPlan(const Hash32& sha256) {
  peer_->Send(wire::PlanRequest{sha256});
  const auto reply = peer_->Expect<wire::PlanReply>();
  CHECK(Sha256::Of(reply.plan) == sha256);
  return wire::DecodePlan(reply.plan).value();
}

Bytes Device::Download(const Hash32& sha256, std::uint64_t size) {
  const std::uint32_t id = NextTransfer();
  peer_->Send(wire::DownloadRequest{.transfer_id = id, .sha256 = sha256});
  const auto begin = peer_->Expect<wire::DownloadBegin>();
  REQUIRE(begin.size == size);
  wire::ChunkReceiver receiver(
      {.id = id, .total = size, .offset = 0, .chunk_bytes = begin.chunk_bytes});
  Bytes model;
  while (!receiver.is_done()) {
    const auto frame = peer_->Read();
    REQUIRE(frame);
    REQUIRE(frame->kind == wire::FrameKind::kChunk);
    const auto chunk = receiver.Accept(frame->payload);
    REQUIRE(chunk.has_value());
    Append(model, chunk->data);
  }
  CHECK(Sha256::Of(model) == sha256);
  return model;
}

Bytes UpdateOf(float value) {
  const std::vector<float> values(kValues, value);
  const BytesView bytes = AsBytes(std::span<const float>(values));
  return {bytes.begin(), bytes.end()};
}

wire::UploadBegin Device::Begin(const wire::Manifest& manifest, const Bytes& body,
                                std::uint32_t weight) {
  wire::UploadBegin begin;
  begin.transfer_id = NextTransfer();
  begin.update_id = crypto::RandomId<UpdateId>().value();
  begin.task = RefOf(manifest);
  begin.encoding = body.empty() ? wire::Encoding::kNone : wire::Encoding::kF32;
  begin.size = body.size();
  begin.sha256 = Sha256::Of(body);
  begin.layout_sha256 = manifest.layout_sha256;
  begin.model_sha256 = manifest.model_sha256;
  begin.weight = weight;
  return begin;
}

void Device::SendBody(std::uint32_t transfer_id, const Bytes& body, std::uint64_t offset) {
  SendPart(transfer_id, body, offset, body.size());
}

void Device::SendPart(std::uint32_t transfer_id, const Bytes& body, std::uint64_t offset,
                      std::uint64_t end) {
  wire::ChunkSender sender(
      {.id = transfer_id, .total = body.size(), .offset = offset, .chunk_bytes = chunk_bytes});
  while (!sender.is_done() && sender.offset() + sender.NextLength() <= end) {
    peer_->Write(sender.NextFrame(BytesView(body).subspan(sender.offset(), sender.NextLength())));
  }
}

wire::UpdateAck Device::Train(const wire::TaskOffer& offer, float value, std::uint32_t weight) {
  const wire::Manifest manifest = ManifestOf(offer);
  Accept(manifest);
  static_cast<void>(AskPlan(manifest.plan_sha256));
  static_cast<void>(Download(manifest.model_sha256, manifest.model_bytes));
  const Bytes body = UpdateOf(value);
  const wire::UploadBegin begin = Begin(manifest, body, weight);
  peer_->Send(begin);
  const auto accept = peer_->Expect<wire::UploadAccept>();
  CHECK(accept.offset == 0);
  SendBody(begin.transfer_id, body);
  return peer_->Expect<wire::UpdateAck>();
}

TestServer::TestServer(Changes changes, bool handles_signals)
    : folder_text_(folder_.path().string() + "/store"),
      changes_(std::move(changes)),
      handles_signals_(handles_signals),
      federation_(crypto::RandomId<FederationId>().value()),
      server_ca_(
          crypto::Authority::Make(crypto::AuthorityKind::kServer, federation_, ReadClock().wall)
              .value()),
      device_ca_(
          crypto::Authority::Make(crypto::AuthorityKind::kDevice, federation_, ReadClock().wall)
              .value()),
      key_(crypto::PrivateKey::MakeP256().value()),
      certificate_(server_ca_
                       .IssueServer(key_, {"127.0.0.1"},
                                    {ReadClock().wall - kHour, ReadClock().wall + kHour})
                       .value()),
      signing_key_(crypto::SigningKey::Make().value()) {
  LogOptions options;
  options.level = LogLevel::kDebug;
  options.sink = [this](LogLevel, std::string_view line) {
    const std::scoped_lock lock(log_mutex_);
    log.emplace_back(line);
  };
  log_ = std::make_unique<Log>(std::move(options));
  REQUIRE(SqliteStore::Create(folder_text_, federation_, ReadClock().wall).has_value());
  static_cast<void>(folder_.Write("table.csv", Table()));
  Start();
}

TestServer::~TestServer() = default;

void TestServer::Start() {
  const Status started = TryStart();
  if (!started) FAIL(started.error().message);
}

Status TestServer::TryStart() {
  std::string text = "schema = 1\n[listen]\ndevices = \"" + devices_address +
                     "\"\nenrol = \"127.0.0.1:0\"\n"
                     "advertise_devices = \"127.0.0.1:0\"\nadvertise_enrol = \"127.0.0.1:0\"\n"
                     "[store]\ndirectory = \"" +
                     folder_text_ + "\"\nlow_disk = \"1MiB\"\ncritical_disk = \"512KiB\"\n";
  for (const auto& [section, line] : changes_) {
    text.append("[").append(section).append("]\n").append(line).append("\n");
  }
  auto loaded = config::ParseServerConfig(text, "server.toml");
  if (!loaded) FAIL(config::FormatProblems(loaded.problems(), {.program = "test"}));
  auto started = Server::Start({.config = loaded.value().value,
                                .store = SqliteStore::Open(folder_text_, federation_).value(),
                                .certificate = certificate_,
                                .key = key_,
                                .server_ca = server_ca_.certificate(),
                                .device_ca = device_ca_.certificate(),
                                .device_authority = device_ca_,
                                .signing_key = signing_key_,
                                .warnings = {},
                                .isa = kernels::Isa::kPortable,
                                .handles_signals = handles_signals_,
                                .log = log_.get()});
  if (!started) return started.error();
  server_ = std::move(started).value();
  return Ok();
}

std::uint16_t TestServer::devices_port() const {
  const auto endpoint = net::ParseEndpoint(server_->GetStatus().value().listeners[0].address);
  return endpoint->port;
}

std::uint16_t TestServer::enrol_port() const {
  const auto endpoint = net::ParseEndpoint(server_->GetStatus().value().listeners[1].address);
  return endpoint->port;
}

Result<wire::EnrolResult> TestServer::Join(const std::string& join_string,
                                           const crypto::PrivateKey& key) {
  const crypto::JoinString join = crypto::ParseJoinString(join_string).value();
  const auto context =
      net::TlsContext::ForEnrolment({std::nullopt, join.pin, "127.0.0.1", std::nullopt}).value();
  TlsPeer peer(join.port, context, wire::Role::kEnrolClient);
  REQUIRE(peer.is_open());
  wire::EnrolRequest request;
  request.major = 1;
  request.secret = join.secret;
  request.csr = crypto::MakeRequest(key).value();
  request.software = "scripted device";
  peer.Send(request);
  const auto answer = peer.ReadMessage();
  REQUIRE(answer);
  if (const auto* error = std::get_if<wire::PeerError>(&*answer)) {
    return Error{static_cast<int>(error->code), error->text, ""};
  }
  CHECK(peer.ReadEnd() == 0);
  return std::get<wire::EnrolResult>(*answer);
}

std::vector<std::unique_ptr<Device>> TestServer::Enrol(std::uint32_t count,
                                                       const std::string& population) {
  REQUIRE(server_->CreatePopulation(population).has_value());
  const auto joins = server_->CreateTokens(population, count, {}).value();
  std::vector<std::unique_ptr<Device>> devices;
  for (const std::string& join : joins) {
    const auto key = crypto::PrivateKey::MakeP256().value();
    const wire::EnrolResult result = Join(join, key).value();
    devices.push_back(std::make_unique<Device>(
        devices_port(), key, crypto::Certificate::FromDer(result.certificate).value(),
        crypto::Certificate::FromDer(result.server_ca.at(0)).value()));
  }
  return devices;
}

StartRequest TestServer::Request(std::uint32_t rounds, std::uint32_t clients,
                                 const std::string& more) const {
  StartRequest request;
  request.path = "demo.toml";
  request.folder = folder_.path().string();
  request.population = "pump";
  const std::string count = std::to_string(clients);
  request.text =
      "schema = 1\nname = \"demo\"\nseed = 7\n[data]\npath = \"table.csv\"\nlabel = \"kind\"\n"
      "num_clients = " +
      count + "\npartition = \"iid\"\n[model]\narchitecture = \"softmax\"\n[training]\nrounds = " +
      std::to_string(rounds) + "\nclients_per_round = " + count + "\n" + more;
  return request;
}

StartedRun TestServer::StartRun(std::uint32_t rounds, std::uint32_t clients,
                                const std::string& more) {
  auto started = server_->StartRun(Request(rounds, clients, more));
  if (!started) FAIL(config::FormatProblems(started.problems(), {.program = "test"}));
  return started.value();
}

bool TestServer::Until(const std::function<bool(Server&)>& is_so) {
  const SteadyTime end = ReadClock().steady + std::chrono::seconds(kPatienceSeconds);
  while (ReadClock().steady < end) {
    if (is_so(*server_)) return true;
    std::this_thread::yield();
  }
  return false;
}

Hash32 TestServer::StoreDigest() const {
  sqlite3* database = nullptr;
  const std::string path = folder_text_ + "/skep.db";
  REQUIRE(sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK);
  std::vector<std::string> tables;
  sqlite3_stmt* list = nullptr;
  REQUIRE(sqlite3_prepare_v2(database,
                             "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name",
                             -1, &list, nullptr) == SQLITE_OK);
  while (sqlite3_step(list) == SQLITE_ROW) {
    tables.emplace_back(reinterpret_cast<const char*>(sqlite3_column_text(list, 0)));
  }
  sqlite3_finalize(list);
  Sha256 hash;
  for (const std::string& table : tables) HashTable(database, table, hash);
  sqlite3_close(database);
  return hash.Finish();
}

}  // namespace skep::aggregator::test
