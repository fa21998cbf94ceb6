// The regions: uploads, downloads, and the messages that cross.
#include "tests/aggregator/session_machine_fixture.h"

namespace skep::aggregator::test {
namespace {

using std::chrono::seconds;

Bytes BodyOf(std::size_t size) {
  Bytes body(size);
  for (std::size_t i = 0; i < size; ++i) body[i] = static_cast<std::uint8_t>(i * 31);
  return body;
}

TEST_CASE("an upload goes from begin to acknowledgement", "[unit]") {
  const Bytes body = BodyOf(2 * kChunk + 5);
  Peer peer;
  peer.Accept();
  REQUIRE(FindIn<OfferUpload>(peer.Say(BeginOf(1, body))));
  const auto accept = FindMessage<wire::UploadAccept>(
      peer.machine.OnEngine(peer.now, AdmitUpload{9, 1, 77, BeginOf(1, body)}));
  REQUIRE(accept);
  CHECK(accept->transfer_id == 1);
  CHECK(accept->offset == 0);
  CHECK(accept->chunk_bytes == kChunk);
  Bytes received;
  bool was_last = false;
  for (const Bytes& frame : ChunksOf(1, body)) {
    SessionOutputs outputs = peer.SayChunk(frame);
    REQUIRE_FALSE(outputs.empty());
    const auto& taken = std::get<TakeBody>(outputs.front());
    CHECK(taken.upload == 77);
    Append(received, taken.data);
    was_last = taken.is_last;
  }
  CHECK(received == body);
  CHECK(was_last);
  CHECK(peer.machine.upload() == UploadRegion::kSettling);
  CHECK_FALSE(peer.machine.receiving());
  wire::UpdateAck ack;
  ack.update_id = BeginOf(1, body).update_id;
  ack.sha256 = BeginOf(1, body).sha256;
  ack.seq = 4;
  CHECK(FindMessage<wire::UpdateAck>(peer.machine.OnEngine(peer.now, Send{9, ack})));
  CHECK(peer.machine.upload() == UploadRegion::kNone);
}

TEST_CASE("an upload goes on from what is here, and one that is all here is settling", "[unit]") {
  const Bytes body = BodyOf(2 * kChunk + 5);
  Peer peer;
  peer.Accept();
  REQUIRE(FindIn<OfferUpload>(peer.Say(BeginOf(1, body))));
  const auto accept = FindMessage<wire::UploadAccept>(
      peer.machine.OnEngine(peer.now, AdmitUpload{9, 1, 77, BeginOf(1, body), kChunk}));
  REQUIRE(accept);
  CHECK(accept->offset == kChunk);
  const std::vector<Bytes> chunks = ChunksOf(1, body);
  // The first chunk is not the next one.
  Peer other;
  other.Accept();
  static_cast<void>(other.Say(BeginOf(1, body)));
  static_cast<void>(
      other.machine.OnEngine(other.now, AdmitUpload{9, 1, 77, BeginOf(1, body), kChunk}));
  CHECK(ClosedWith(other.SayChunk(chunks[0])) != 0);
  CHECK_FALSE(std::get<TakeBody>(peer.SayChunk(chunks[1]).front()).is_last);
  CHECK(std::get<TakeBody>(peer.SayChunk(chunks[2]).front()).is_last);

  Peer whole;
  whole.Accept();
  static_cast<void>(whole.Say(BeginOf(1, body)));
  const auto all = FindMessage<wire::UploadAccept>(
      whole.machine.OnEngine(whole.now, AdmitUpload{9, 1, 77, BeginOf(1, body), body.size()}));
  REQUIRE(all);
  CHECK(all->offset == body.size());
  CHECK(whole.machine.upload() == UploadRegion::kSettling);
  CHECK(ClosedWith(whole.SayChunk(chunks[2])) == 3303);
}

TEST_CASE("a Poll while an upload is going on is 3302", "[unit]") {
  const Bytes body = BodyOf(10);
  Peer peer;
  peer.BeginUpload(body);
  CHECK(ClosedWith(peer.Say(Peer::APoll())) == 3302);
}

TEST_CASE("transfer ids rise over both directions", "[unit]") {
  const Bytes body = BodyOf(10);
  Peer zero;
  zero.Accept();
  wire::DownloadRequest request{.transfer_id = 5, .sha256 = HashOf(0xBB)};
  static_cast<void>(zero.Say(request));
  CHECK(ClosedWith(zero.Say(BeginOf(5, body))) == 3302);
  Peer second;
  second.BeginUpload(body);
  CHECK(ClosedWith(second.Say(BeginOf(2, body))) == 3302);
}

TEST_CASE("a chunk that nobody admitted is 3303", "[unit]") {
  const Bytes body = BodyOf(10);
  Peer none;
  none.Accept();
  CHECK(ClosedWith(none.SayChunk(ChunksOf(1, body).front())) == 3303);
  Peer deciding;
  deciding.BeginUpload(body);
  CHECK(ClosedWith(deciding.SayChunk(ChunksOf(1, body).front())) == 3303);
  Peer settling;
  settling.Receive(body);
  static_cast<void>(settling.SayChunk(ChunksOf(1, body).front()));
  CHECK(ClosedWith(settling.SayChunk(ChunksOf(1, body).front())) == 3303);
}

TEST_CASE("a chunk of another transfer, at another place or with another checksum is refused",
          "[unit]") {
  const Bytes body = BodyOf(2 * kChunk);
  const auto refused = [&](std::size_t at, std::uint8_t bits) {
    Peer peer;
    peer.Receive(body);
    Bytes frame = ChunksOf(1, body).front();
    frame[wire::kFrameHeaderBytes + at] ^= bits;
    const int code = ClosedWith(peer.SayChunk(frame));
    // The engine hears of it when the connection ends.
    CHECK(peer.machine.receiving() == UploadNumber{77});
    return code;
  };
  CHECK(refused(0, 2) == 3303);   // transfer id
  CHECK(refused(4, 2) == 3202);   // flags
  CHECK(refused(8, 1) == 3304);   // offset
  CHECK(refused(16, 1) == 3304);  // total
  CHECK(refused(28, 1) == 3305);  // checksum
  CHECK(refused(40, 1) == 3305);  // data
}

TEST_CASE("progress is reported after so many bytes, and after a while", "[unit]") {
  const Bytes body = BodyOf(4 * kChunk);
  Peer peer;
  peer.Receive(body);
  const std::vector<Bytes> chunks = ChunksOf(1, body);
  CHECK_FALSE(FindMessage<wire::TransferProgress>(peer.SayChunk(chunks[0])));
  const auto report = FindMessage<wire::TransferProgress>(peer.SayChunk(chunks[1]));
  REQUIRE(report);
  CHECK(report->received == 2 * kChunk);
  static_cast<void>(peer.SayChunk(chunks[2]));
  peer.Pass(seconds(15));
  const auto later = FindMessage<wire::TransferProgress>(peer.machine.OnDeadline(peer.now));
  REQUIRE(later);
  CHECK(later->received == 3 * kChunk);
}

TEST_CASE("an upload below the minimum rate is 3325, one above it is not", "[unit]") {
  const Bytes body = BodyOf(64 * kChunk);
  const std::vector<Bytes> chunks = ChunksOf(1, body);
  Peer slow;
  slow.Receive(body);
  static_cast<void>(slow.SayChunk(chunks[0]));
  slow.machine.OnBytes(slow.now, {.is_open = true});
  slow.Pass(seconds(30));
  slow.machine.OnBytes(slow.now, {.is_open = true});
  CHECK(ClosedWith(slow.machine.OnDeadline(slow.now)) == 3325);

  Peer enough;
  enough.Receive(body);
  for (std::size_t i = 0; i < 8; ++i) static_cast<void>(enough.SayChunk(chunks[i]));
  enough.Pass(seconds(30));
  enough.machine.OnBytes(enough.now, {.is_open = true});
  CHECK(ClosedWith(enough.machine.OnDeadline(enough.now)) == 0);
}

TEST_CASE("an upload that is refused before it began is answered and over", "[unit]") {
  const Bytes body = BodyOf(10);
  Peer peer;
  peer.BeginUpload(body);
  const auto refused = FindMessage<wire::UpdateRefused>(
      peer.machine.OnEngine(peer.now, RefuseUpload{9, 1, BeginOf(1, body).update_id, 2107}));
  REQUIRE(refused);
  CHECK(refused->code == 2107);
  CHECK(refused->retry == wire::RetryClass::kNever);
  CHECK(refused->transfer_id == 1);
  CHECK(peer.machine.upload() == UploadRegion::kNone);
  CHECK(FindIn<OfferUpload>(peer.Say(BeginOf(2, body))));
}

TEST_CASE("chunks that cross a cancellation are dropped until the sender has stopped", "[unit]") {
  const Bytes body = BodyOf(4 * kChunk);
  const std::vector<Bytes> chunks = ChunksOf(1, body);
  Peer peer;
  peer.Receive(body);
  static_cast<void>(peer.SayChunk(chunks[0]));
  const SessionOutputs cancelled = peer.machine.OnEngine(peer.now, CancelUpload{77, 2109});
  REQUIRE(FindMessage<wire::TransferCancel>(cancelled));
  CHECK(FindMessage<wire::TransferCancel>(cancelled)->code == 2109);
  CHECK(FindIn<DropBody>(cancelled));
  CHECK(peer.machine.upload() == UploadRegion::kDraining);
  CHECK(peer.SayChunk(chunks[1]).empty());
  SECTION("it answers") {
    CHECK(peer.Say(wire::TransferCancel{.transfer_id = 1, .code = 2109}).empty());
    CHECK(peer.machine.upload() == UploadRegion::kNone);
  }
  SECTION("it had sent everything") {
    CHECK(peer.SayChunk(chunks[2]).empty());
    CHECK(peer.SayChunk(chunks[3]).empty());
    CHECK(peer.machine.upload() == UploadRegion::kNone);
  }
  SECTION("it never stops") {
    peer.Pass(seconds(10));
    peer.machine.OnBytes(peer.now, {.is_open = true});
    CHECK(ClosedWith(peer.machine.OnDeadline(peer.now)) == 3323);
  }
  SECTION("it sends another transfer's chunk") {
    CHECK(ClosedWith(peer.SayChunk(ChunksOf(2, body).front())) == 3303);
  }
}

TEST_CASE("a client's own cancellation ends its upload and is told to the engine", "[unit]") {
  const Bytes body = BodyOf(4 * kChunk);
  Peer peer;
  peer.Receive(body);
  const SessionOutputs outputs = peer.Say(wire::TransferCancel{.transfer_id = 1, .code = 7407});
  REQUIRE(ToldIn<UploadAborted>(outputs));
  CHECK(ToldIn<UploadAborted>(outputs)->upload == 77);
  CHECK(FindIn<DropBody>(outputs));
  CHECK(peer.machine.upload() == UploadRegion::kNone);
  // A late word about it is no fault.
  CHECK(peer.Say(wire::TransferCancel{.transfer_id = 1, .code = 7407}).empty());
  CHECK(peer.Say(wire::TransferProgress{.transfer_id = 1, .received = 1}).empty());
}

TEST_CASE("an upload admitted after its client has cancelled is given back", "[unit]") {
  const Bytes body = BodyOf(10);
  Peer peer;
  peer.BeginUpload(body);
  static_cast<void>(peer.Say(wire::TransferCancel{.transfer_id = 1, .code = 7407}));
  const SessionOutputs outputs =
      peer.machine.OnEngine(peer.now, AdmitUpload{9, 1, 77, BeginOf(1, body)});
  CHECK_FALSE(FindMessage<wire::UploadAccept>(outputs));
  REQUIRE(ToldIn<UploadAborted>(outputs));
  CHECK(ToldIn<UploadAborted>(outputs)->upload == 77);
}

TEST_CASE("a model is served to whom it was granted, from where it is asked for", "[unit]") {
  Peer peer;
  peer.Accept();
  const auto wanted = FindIn<FindModel>(
      peer.Say(wire::DownloadRequest{.transfer_id = 1, .sha256 = HashOf(0xBB), .offset = 100}));
  REQUIRE(wanted);
  CHECK(wanted->model == HashOf(0xBB));
  const SessionOutputs outputs = peer.machine.BeginDownload(peer.now, 1, 1000);
  const auto begin = FindMessage<wire::DownloadBegin>(outputs);
  REQUIRE(begin);
  CHECK(begin->size == 1000);
  CHECK(begin->offset == 100);
  REQUIRE(FindIn<SendModel>(outputs));
  CHECK(FindIn<SendModel>(outputs)->transfer.offset == 100);
  CHECK(ClosedWith(peer.Say(wire::DownloadRequest{.transfer_id = 2, .sha256 = HashOf(0xBB)})) ==
        3302);
}

TEST_CASE("the model of a task accepted on an earlier session is served", "[unit]") {
  Peer peer;
  peer.Join();
  static_cast<void>(peer.machine.OnEngine(peer.now, Grant{9, HashOf(0xAA), HashOf(0xBB)}));
  const auto wanted =
      FindIn<FindModel>(peer.Say(wire::DownloadRequest{.transfer_id = 1, .sha256 = HashOf(0xBB)}));
  REQUIRE(wanted);
  CHECK(wanted->model == HashOf(0xBB));
}

TEST_CASE("a download of something else is 3401, beyond the end 3402, and keeps the session",
          "[unit]") {
  Peer peer;
  peer.Accept();
  const auto other = FindMessage<wire::TransferCancel>(
      peer.Say(wire::DownloadRequest{.transfer_id = 1, .sha256 = HashOf(0xEE)}));
  REQUIRE(other);
  CHECK(other->code == 3401);
  static_cast<void>(
      peer.Say(wire::DownloadRequest{.transfer_id = 2, .sha256 = HashOf(0xBB), .offset = 1001}));
  const auto beyond =
      FindMessage<wire::TransferCancel>(peer.machine.BeginDownload(peer.now, 2, 1000));
  REQUIRE(beyond);
  CHECK(beyond->code == 3402);
  CHECK(peer.machine.download() == DownloadRegion::kNone);
  // All of it is there already: a begin and no chunk.
  static_cast<void>(
      peer.Say(wire::DownloadRequest{.transfer_id = 3, .sha256 = HashOf(0xBB), .offset = 1000}));
  const SessionOutputs whole = peer.machine.BeginDownload(peer.now, 3, 1000);
  CHECK(FindMessage<wire::DownloadBegin>(whole));
  CHECK_FALSE(FindIn<SendModel>(whole));
  CHECK(peer.machine.download() == DownloadRegion::kNone);
}

TEST_CASE("a stopped download is confirmed after its last chunk", "[unit]") {
  Peer peer;
  peer.Accept();
  static_cast<void>(peer.Say(wire::DownloadRequest{.transfer_id = 1, .sha256 = HashOf(0xBB)}));
  static_cast<void>(peer.machine.BeginDownload(peer.now, 1, 1000));
  const SessionOutputs stop = peer.Say(wire::TransferCancel{.transfer_id = 1, .code = 7404});
  CHECK(FindIn<StopModel>(stop));
  CHECK(SentIn(stop).empty());
  const auto confirmed =
      FindMessage<wire::TransferCancel>(peer.machine.DownloadStopped(peer.now, 1));
  REQUIRE(confirmed);
  CHECK(confirmed->code == 7404);
  CHECK(peer.machine.download() == DownloadRegion::kNone);
}

}  // namespace
}  // namespace skep::aggregator::test
