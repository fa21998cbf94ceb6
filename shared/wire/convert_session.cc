// Conversions of what opens, keeps and ends a session, enrolment and renewal included.
#include "shared/wire/convert.h"
#include "shared/wire/messages.pb.h"

namespace skep::wire {

void ToProto(const ComeBack& from, v1::ComeBack& to) {
  to.set_earliest_ms(from.earliest_ms);
  to.set_latest_ms(from.latest_ms);
  to.set_reason(Number(from.reason));
}
void FromProto(const v1::ComeBack& from, ComeBack& to) {
  to.earliest_ms = from.earliest_ms();
  to.latest_ms = from.latest_ms();
  to.reason = ComeBackReason{from.reason()};
}

namespace {

void ToProto(const Ping& from, v1::Ping& to) {
  to.set_nonce(from.nonce);
}
void FromProto(const v1::Ping& from, Ping& to) {
  to.nonce = from.nonce();
}

void ToProto(const Pong& from, v1::Pong& to) {
  to.set_nonce(from.nonce);
}
void FromProto(const v1::Pong& from, Pong& to) {
  to.nonce = from.nonce();
}

void ToProto(const PeerError& from, v1::Error& to) {
  to.set_code(from.code);
  to.set_retry(Number(from.retry));
  to.set_retry_after_ms(from.retry_after_ms);
  to.set_in_reply_to(from.in_reply_to);
  to.set_text(from.text);
}
void FromProto(const v1::Error& from, PeerError& to) {
  to.code = from.code();
  to.retry = RetryClass{from.retry()};
  to.retry_after_ms = from.retry_after_ms();
  to.in_reply_to = from.in_reply_to();
  to.text = from.text();
}

void ToProto(const Goodbye& from, v1::Goodbye& to) {
  to.set_reason(Number(from.reason));
  if (from.come_back) ToProto(*from.come_back, *to.mutable_come_back());
}
void FromProto(const v1::Goodbye& from, Goodbye& to) {
  to.reason = GoodbyeReason{from.reason()};
  if (from.has_come_back()) FromProto(from.come_back(), to.come_back.emplace());
}

void ToProto(const Hello& from, v1::Hello& to) {
  to.set_major(from.major);
  to.set_minor(from.minor);
  to.set_min_minor(from.min_minor);
  to.set_software(from.software);
  to.set_app_version(from.app_version);
  to.set_clock_ms(from.clock_ms);
  AddRaw(from.known_key_ids, to.mutable_known_key_ids());
}
void FromProto(const v1::Hello& from, Hello& to) {
  to.major = from.major();
  to.minor = from.minor();
  to.min_minor = from.min_minor();
  to.software = from.software();
  to.app_version = from.app_version();
  to.clock_ms = from.clock_ms();
  TakeAll(from.known_key_ids(), to.known_key_ids);
}

void ToProto(const HelloAck& from, v1::HelloAck& to) {
  to.set_minor(from.minor);
  to.set_software(from.software);
  to.set_federation_id(Raw(from.federation_id));
  to.set_session_id(Raw(from.session_id));
  to.set_epoch(from.epoch);
  to.set_clock_ms(from.clock_ms);
  to.set_ping_interval_ms(from.ping_interval_ms);
  to.set_progress_interval_ms(from.progress_interval_ms);
  to.set_max_hold_ms(from.max_hold_ms);
  to.set_chunk_bytes(from.chunk_bytes);
  to.set_renew_now(from.renew_now);
  AddRaw(from.signing_key_ids, to.mutable_signing_key_ids());
  to.set_reconnect_spread_ms(from.reconnect_spread_ms);
}
void FromProto(const v1::HelloAck& from, HelloAck& to) {
  to.minor = from.minor();
  to.software = from.software();
  Take(from.federation_id(), to.federation_id);
  Take(from.session_id(), to.session_id);
  to.epoch = from.epoch();
  to.clock_ms = from.clock_ms();
  to.ping_interval_ms = from.ping_interval_ms();
  to.progress_interval_ms = from.progress_interval_ms();
  to.max_hold_ms = from.max_hold_ms();
  to.chunk_bytes = from.chunk_bytes();
  to.renew_now = from.renew_now();
  TakeAll(from.signing_key_ids(), to.signing_key_ids);
  to.reconnect_spread_ms = from.reconnect_spread_ms();
}

void ToProto(const RenewRequest& from, v1::RenewRequest& to) {
  to.set_csr(Raw(from.csr));
}
void FromProto(const v1::RenewRequest& from, RenewRequest& to) {
  Take(from.csr(), to.csr);
}

void ToProto(const RenewResult& from, v1::RenewResult& to) {
  to.set_certificate(Raw(from.certificate));
  AddRaw(from.chain, to.mutable_chain());
  to.set_not_after_ms(from.not_after_ms);
}
void FromProto(const v1::RenewResult& from, RenewResult& to) {
  Take(from.certificate(), to.certificate);
  TakeAll(from.chain(), to.chain);
  to.not_after_ms = from.not_after_ms();
}

void ToProto(const SigningKeyUpdate& from, v1::SigningKeyUpdate& to) {
  to.set_payload(Raw(from.payload));
  to.set_key_id(Raw(from.key_id));
  to.set_signature(Raw(from.signature));
}
void FromProto(const v1::SigningKeyUpdate& from, SigningKeyUpdate& to) {
  Take(from.payload(), to.payload);
  Take(from.key_id(), to.key_id);
  Take(from.signature(), to.signature);
}

void ToProto(const EnrolRequest& from, v1::EnrolRequest& to) {
  to.set_major(from.major);
  to.set_minor(from.minor);
  to.set_secret(Raw(from.secret));
  to.set_csr(Raw(from.csr));
  to.set_software(from.software);
  to.set_name_hint(from.name_hint);
}
void FromProto(const v1::EnrolRequest& from, EnrolRequest& to) {
  to.major = from.major();
  to.minor = from.minor();
  Take(from.secret(), to.secret);
  Take(from.csr(), to.csr);
  to.software = from.software();
  to.name_hint = from.name_hint();
}

void ToProto(const EnrolResult& from, v1::EnrolResult& to) {
  to.set_device_id(Raw(from.device_id));
  to.set_certificate(Raw(from.certificate));
  AddRaw(from.chain, to.mutable_chain());
  AddRaw(from.server_ca, to.mutable_server_ca());
  AddRaw(from.signing_keys, to.mutable_signing_keys());
  to.set_device_endpoint(from.device_endpoint);
  to.set_federation_id(Raw(from.federation_id));
  for (const std::string& name : from.populations) to.add_populations(name);
  to.set_not_after_ms(from.not_after_ms);
}
void FromProto(const v1::EnrolResult& from, EnrolResult& to) {
  Take(from.device_id(), to.device_id);
  Take(from.certificate(), to.certificate);
  TakeAll(from.chain(), to.chain);
  TakeAll(from.server_ca(), to.server_ca);
  TakeAll(from.signing_keys(), to.signing_keys);
  to.device_endpoint = from.device_endpoint();
  Take(from.federation_id(), to.federation_id);
  to.populations.assign(from.populations().begin(), from.populations().end());
  to.not_after_ms = from.not_after_ms();
}

void ToProto(const KeyStatement& from, v1::KeyStatement& to) {
  to.set_federation_id(Raw(from.federation_id));
  to.set_public_key(Raw(from.public_key));
  to.set_not_before_ms(from.not_before_ms);
  to.set_retire_old_at_ms(from.retire_old_at_ms);
}
void FromProto(const v1::KeyStatement& from, KeyStatement& to) {
  Take(from.federation_id(), to.federation_id);
  Take(from.public_key(), to.public_key);
  to.not_before_ms = from.not_before_ms();
  to.retire_old_at_ms = from.retire_old_at_ms();
}

}  // namespace

SKEP_WIRE_TIE(ComeBack, v1::ComeBack)
SKEP_WIRE_TIE(Ping, v1::Ping)
SKEP_WIRE_TIE(Pong, v1::Pong)
SKEP_WIRE_TIE(PeerError, v1::Error)
SKEP_WIRE_TIE(Goodbye, v1::Goodbye)
SKEP_WIRE_TIE(Hello, v1::Hello)
SKEP_WIRE_TIE(HelloAck, v1::HelloAck)
SKEP_WIRE_TIE(RenewRequest, v1::RenewRequest)
SKEP_WIRE_TIE(RenewResult, v1::RenewResult)
SKEP_WIRE_TIE(SigningKeyUpdate, v1::SigningKeyUpdate)
SKEP_WIRE_TIE(EnrolRequest, v1::EnrolRequest)
SKEP_WIRE_TIE(EnrolResult, v1::EnrolResult)
SKEP_WIRE_TIE(KeyStatement, v1::KeyStatement)

}  // namespace skep::wire
