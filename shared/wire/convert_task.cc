// Conversions of tasks: polls, offers, plans as bytes, progress, manifests.
#include "shared/wire/convert.h"
#include "shared/wire/messages.pb.h"

namespace skep::wire {

void ToProto(const TaskRef& from, v1::TaskRef& to) {
  to.set_run_id(Raw(from.run_id));
  to.set_round(from.round);
  to.set_attempt(from.attempt);
  to.set_kind(Number(from.kind));
}
void FromProto(const v1::TaskRef& from, TaskRef& to) {
  Take(from.run_id(), to.run_id);
  to.round = from.round();
  to.attempt = from.attempt();
  to.kind = TaskKind{from.kind()};
}

void ToProto(const SignedManifest& from, v1::SignedManifest& to) {
  to.set_payload(Raw(from.payload));
  to.set_key_id(Raw(from.key_id));
  to.set_signature(Raw(from.signature));
}
void FromProto(const v1::SignedManifest& from, SignedManifest& to) {
  Take(from.payload(), to.payload);
  Take(from.key_id(), to.key_id);
  Take(from.signature(), to.signature);
}

namespace {

void ToProto(const Poll& from, v1::Poll& to) {
  to.set_population(from.population);
  to.set_hold_ms(from.hold_ms);
  to.set_max_model_bytes(from.max_model_bytes);
  to.set_max_update_bytes(from.max_update_bytes);
  for (const Encoding value : from.encodings) to.add_encodings(Number(value));
  for (const TaskKind value : from.task_kinds) to.add_task_kinds(Number(value));
  if (from.evidence) ToProto(*from.evidence, *to.mutable_evidence());
}
void FromProto(const v1::Poll& from, Poll& to) {
  to.population = from.population();
  to.hold_ms = from.hold_ms();
  to.max_model_bytes = from.max_model_bytes();
  to.max_update_bytes = from.max_update_bytes();
  for (const std::uint32_t value : from.encodings()) to.encodings.push_back(Encoding{value});
  for (const std::uint32_t value : from.task_kinds()) to.task_kinds.push_back(TaskKind{value});
  if (from.has_evidence()) FromProto(from.evidence(), to.evidence.emplace());
}

void ToProto(const TaskOffer& from, v1::TaskOffer& to) {
  ToProto(from.manifest, *to.mutable_manifest());
  to.set_offer_ttl_ms(from.offer_ttl_ms);
  to.set_report_within_ms(from.report_within_ms);
  to.set_detach_allowed(from.detach_allowed);
  to.set_client(from.client);
  if (from.last_included) to.set_last_included(Raw(*from.last_included));
}
void FromProto(const v1::TaskOffer& from, TaskOffer& to) {
  FromProto(from.manifest(), to.manifest);
  to.offer_ttl_ms = from.offer_ttl_ms();
  to.report_within_ms = from.report_within_ms();
  to.detach_allowed = from.detach_allowed();
  to.client = from.client();
  if (!from.last_included().empty()) Take(from.last_included(), to.last_included.emplace());
}

void ToProto(const TaskAccept& from, v1::TaskAccept& to) {
  ToProto(from.task, *to.mutable_task());
}
void FromProto(const v1::TaskAccept& from, TaskAccept& to) {
  FromProto(from.task(), to.task);
}

void ToProto(const TaskDecline& from, v1::TaskDecline& to) {
  ToProto(from.task, *to.mutable_task());
  to.set_code(from.code);
  if (from.evidence) ToProto(*from.evidence, *to.mutable_evidence());
}
void FromProto(const v1::TaskDecline& from, TaskDecline& to) {
  FromProto(from.task(), to.task);
  to.code = from.code();
  if (from.has_evidence()) FromProto(from.evidence(), to.evidence.emplace());
}

void ToProto(const PlanRequest& from, v1::PlanRequest& to) {
  to.set_plan_sha256(Raw(from.plan_sha256));
}
void FromProto(const v1::PlanRequest& from, PlanRequest& to) {
  Take(from.plan_sha256(), to.plan_sha256);
}

void ToProto(const PlanReply& from, v1::PlanReply& to) {
  to.set_plan_sha256(Raw(from.plan_sha256));
  to.set_plan(Raw(from.plan));
}
void FromProto(const v1::PlanReply& from, PlanReply& to) {
  Take(from.plan_sha256(), to.plan_sha256);
  Take(from.plan(), to.plan);
}

void ToProto(const Progress& from, v1::Progress& to) {
  ToProto(from.task, *to.mutable_task());
  to.set_phase(Number(from.phase));
  to.set_permille(from.permille);
}
void FromProto(const v1::Progress& from, Progress& to) {
  FromProto(from.task(), to.task);
  to.phase = ProgressPhase{from.phase()};
  to.permille = from.permille();
}

void ToProto(const TaskFailed& from, v1::TaskFailed& to) {
  ToProto(from.task, *to.mutable_task());
  to.set_code(from.code);
}
void FromProto(const v1::TaskFailed& from, TaskFailed& to) {
  FromProto(from.task(), to.task);
  to.code = from.code();
}

void ToProto(const RoundClosed& from, v1::RoundClosed& to) {
  ToProto(from.task, *to.mutable_task());
  to.set_reason(Number(from.reason));
  if (from.come_back) ToProto(*from.come_back, *to.mutable_come_back());
}
void FromProto(const v1::RoundClosed& from, RoundClosed& to) {
  FromProto(from.task(), to.task);
  to.reason = RoundClosedReason{from.reason()};
  if (from.has_come_back()) FromProto(from.come_back(), to.come_back.emplace());
}

void ToProto(const Manifest& from, v1::Manifest& to) {
  to.set_federation_id(Raw(from.federation_id));
  to.set_run_id(Raw(from.run_id));
  to.set_epoch(from.epoch);
  to.set_round(from.round);
  to.set_attempt(from.attempt);
  to.set_kind(Number(from.kind));
  to.set_population(from.population);
  to.set_plan_sha256(Raw(from.plan_sha256));
  to.set_plan_bytes(from.plan_bytes);
  to.set_model_sha256(Raw(from.model_sha256));
  to.set_model_bytes(from.model_bytes);
  to.set_layout_sha256(Raw(from.layout_sha256));
  to.set_round_seed(Raw(from.round_seed));
  to.set_issued_at_ms(from.issued_at_ms);
  to.set_expires_at_ms(from.expires_at_ms);
  for (const Encoding value : from.encodings) to.add_encodings(Number(value));
  to.set_max_weight(from.max_weight);
}
void FromProto(const v1::Manifest& from, Manifest& to) {
  Take(from.federation_id(), to.federation_id);
  Take(from.run_id(), to.run_id);
  to.epoch = from.epoch();
  to.round = from.round();
  to.attempt = from.attempt();
  to.kind = TaskKind{from.kind()};
  to.population = from.population();
  Take(from.plan_sha256(), to.plan_sha256);
  to.plan_bytes = from.plan_bytes();
  Take(from.model_sha256(), to.model_sha256);
  to.model_bytes = from.model_bytes();
  Take(from.layout_sha256(), to.layout_sha256);
  Take(from.round_seed(), to.round_seed);
  to.issued_at_ms = from.issued_at_ms();
  to.expires_at_ms = from.expires_at_ms();
  for (const std::uint32_t value : from.encodings()) to.encodings.push_back(Encoding{value});
  to.max_weight = from.max_weight();
}

}  // namespace

SKEP_WIRE_TIE(SignedManifest, v1::SignedManifest)
SKEP_WIRE_TIE(Poll, v1::Poll)
SKEP_WIRE_TIE(TaskOffer, v1::TaskOffer)
SKEP_WIRE_TIE(TaskAccept, v1::TaskAccept)
SKEP_WIRE_TIE(TaskDecline, v1::TaskDecline)
SKEP_WIRE_TIE(PlanRequest, v1::PlanRequest)
SKEP_WIRE_TIE(PlanReply, v1::PlanReply)
SKEP_WIRE_TIE(Progress, v1::Progress)
SKEP_WIRE_TIE(TaskFailed, v1::TaskFailed)
SKEP_WIRE_TIE(RoundClosed, v1::RoundClosed)
SKEP_WIRE_TIE(Manifest, v1::Manifest)

}  // namespace skep::wire
