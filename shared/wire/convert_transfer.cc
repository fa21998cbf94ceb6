// Conversions of what opens, steers and answers transfers.
#include "shared/wire/convert.h"
#include "shared/wire/messages.pb.h"

namespace skep::wire {

namespace {

void ToProto(const MetricValue& from, v1::Metric& to) {
  to.set_id(from.id);
  to.set_value(from.value);
}
void FromProto(const v1::Metric& from, MetricValue& to) {
  to.id = from.id();
  to.value = from.value();
}

void ToProto(const DownloadRequest& from, v1::DownloadRequest& to) {
  to.set_transfer_id(from.transfer_id);
  to.set_kind(Number(from.kind));
  to.set_sha256(Raw(from.sha256));
  to.set_offset(from.offset);
}
void FromProto(const v1::DownloadRequest& from, DownloadRequest& to) {
  to.transfer_id = from.transfer_id();
  to.kind = DownloadKind{from.kind()};
  Take(from.sha256(), to.sha256);
  to.offset = from.offset();
}

void ToProto(const DownloadBegin& from, v1::DownloadBegin& to) {
  to.set_transfer_id(from.transfer_id);
  to.set_size(from.size);
  to.set_offset(from.offset);
  to.set_chunk_bytes(from.chunk_bytes);
}
void FromProto(const v1::DownloadBegin& from, DownloadBegin& to) {
  to.transfer_id = from.transfer_id();
  to.size = from.size();
  to.offset = from.offset();
  to.chunk_bytes = from.chunk_bytes();
}

void ToProto(const UploadBegin& from, v1::UploadBegin& to) {
  to.set_transfer_id(from.transfer_id);
  to.set_update_id(Raw(from.update_id));
  ToProto(from.task, *to.mutable_task());
  to.set_encoding(Number(from.encoding));
  to.set_size(from.size);
  to.set_sha256(Raw(from.sha256));
  to.set_layout_sha256(Raw(from.layout_sha256));
  to.set_model_sha256(Raw(from.model_sha256));
  to.set_weight(from.weight);
  for (const MetricValue& metric : from.metrics) ToProto(metric, *to.add_metrics());
  to.set_train_ms(from.train_ms);
}
void FromProto(const v1::UploadBegin& from, UploadBegin& to) {
  to.transfer_id = from.transfer_id();
  Take(from.update_id(), to.update_id);
  FromProto(from.task(), to.task);
  to.encoding = Encoding{from.encoding()};
  to.size = from.size();
  Take(from.sha256(), to.sha256);
  Take(from.layout_sha256(), to.layout_sha256);
  Take(from.model_sha256(), to.model_sha256);
  to.weight = from.weight();
  for (const v1::Metric& metric : from.metrics()) FromProto(metric, to.metrics.emplace_back());
  to.train_ms = from.train_ms();
}

void ToProto(const UploadAccept& from, v1::UploadAccept& to) {
  to.set_transfer_id(from.transfer_id);
  to.set_offset(from.offset);
  to.set_chunk_bytes(from.chunk_bytes);
}
void FromProto(const v1::UploadAccept& from, UploadAccept& to) {
  to.transfer_id = from.transfer_id();
  to.offset = from.offset();
  to.chunk_bytes = from.chunk_bytes();
}

void ToProto(const TransferProgress& from, v1::TransferProgress& to) {
  to.set_transfer_id(from.transfer_id);
  to.set_received(from.received);
}
void FromProto(const v1::TransferProgress& from, TransferProgress& to) {
  to.transfer_id = from.transfer_id();
  to.received = from.received();
}

void ToProto(const TransferCancel& from, v1::TransferCancel& to) {
  to.set_transfer_id(from.transfer_id);
  to.set_code(from.code);
}
void FromProto(const v1::TransferCancel& from, TransferCancel& to) {
  to.transfer_id = from.transfer_id();
  to.code = from.code();
}

void ToProto(const UpdateAck& from, v1::UpdateAck& to) {
  to.set_update_id(Raw(from.update_id));
  to.set_sha256(Raw(from.sha256));
  to.set_seq(from.seq);
  to.set_disposition(Number(from.disposition));
  if (from.come_back) ToProto(*from.come_back, *to.mutable_come_back());
}
void FromProto(const v1::UpdateAck& from, UpdateAck& to) {
  Take(from.update_id(), to.update_id);
  Take(from.sha256(), to.sha256);
  to.seq = from.seq();
  to.disposition = Disposition{from.disposition()};
  if (from.has_come_back()) FromProto(from.come_back(), to.come_back.emplace());
}

void ToProto(const UpdateRefused& from, v1::UpdateRefused& to) {
  to.set_update_id(Raw(from.update_id));
  to.set_code(from.code);
  if (from.come_back) ToProto(*from.come_back, *to.mutable_come_back());
  to.set_transfer_id(from.transfer_id);
  to.set_retry(Number(from.retry));
  to.set_retry_after_ms(from.retry_after_ms);
}
void FromProto(const v1::UpdateRefused& from, UpdateRefused& to) {
  Take(from.update_id(), to.update_id);
  to.code = from.code();
  if (from.has_come_back()) FromProto(from.come_back(), to.come_back.emplace());
  to.transfer_id = from.transfer_id();
  to.retry = RetryClass{from.retry()};
  to.retry_after_ms = from.retry_after_ms();
}

}  // namespace

SKEP_WIRE_TIE(DownloadRequest, v1::DownloadRequest)
SKEP_WIRE_TIE(DownloadBegin, v1::DownloadBegin)
SKEP_WIRE_TIE(UploadBegin, v1::UploadBegin)
SKEP_WIRE_TIE(UploadAccept, v1::UploadAccept)
SKEP_WIRE_TIE(TransferProgress, v1::TransferProgress)
SKEP_WIRE_TIE(TransferCancel, v1::TransferCancel)
SKEP_WIRE_TIE(UpdateAck, v1::UpdateAck)
SKEP_WIRE_TIE(UpdateRefused, v1::UpdateRefused)

}  // namespace skep::wire
