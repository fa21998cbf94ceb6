#include "shared/wire/messages.h"

#include <algorithm>
#include <array>

namespace skep::wire {
namespace {

enum class From { kClient, kAggregator, kBoth };
enum class On { kSession, kEnrolment, kBoth };

constexpr MessageInfo Row(MessageId id, std::string_view name, std::uint32_t max_bytes, From from,
                          On on = On::kSession) {
  return {.id = id,
          .name = name,
          .max_bytes = max_bytes,
          .from_client = from != From::kAggregator,
          .from_aggregator = from != From::kClient,
          .enrolment = on != On::kSession,
          .session = on != On::kEnrolment};
}

// In ascending order of id: looked up by bisection.
constexpr std::array<MessageInfo, 29> kMessages{
    Row(MessageId::kPing, "Ping", 16, From::kBoth),
    Row(MessageId::kPong, "Pong", 16, From::kBoth),
    Row(MessageId::kError, "Error", 512, From::kBoth, On::kBoth),
    Row(MessageId::kGoodbye, "Goodbye", 64, From::kBoth),
    Row(MessageId::kHello, "Hello", 4'096, From::kClient),
    Row(MessageId::kHelloAck, "HelloAck", 4'096, From::kAggregator),
    Row(MessageId::kPoll, "Poll", 4'096, From::kClient),
    Row(MessageId::kComeBack, "ComeBack", 64, From::kAggregator),
    Row(MessageId::kTaskOffer, "TaskOffer", 4'096, From::kAggregator),
    Row(MessageId::kTaskAccept, "TaskAccept", 128, From::kClient),
    Row(MessageId::kTaskDecline, "TaskDecline", 4'096, From::kClient),
    Row(MessageId::kPlanRequest, "PlanRequest", 64, From::kClient),
    Row(MessageId::kPlanReply, "PlanReply", 65'536, From::kAggregator),
    Row(MessageId::kProgress, "Progress", 128, From::kClient),
    Row(MessageId::kTaskFailed, "TaskFailed", 128, From::kClient),
    Row(MessageId::kRoundClosed, "RoundClosed", 256, From::kAggregator),
    Row(MessageId::kDownloadRequest, "DownloadRequest", 128, From::kClient),
    Row(MessageId::kDownloadBegin, "DownloadBegin", 64, From::kAggregator),
    Row(MessageId::kUploadBegin, "UploadBegin", 4'096, From::kClient),
    Row(MessageId::kUploadAccept, "UploadAccept", 64, From::kAggregator),
    Row(MessageId::kTransferProgress, "TransferProgress", 64, From::kBoth),
    Row(MessageId::kTransferCancel, "TransferCancel", 64, From::kBoth),
    Row(MessageId::kUpdateAck, "UpdateAck", 256, From::kAggregator),
    Row(MessageId::kUpdateRefused, "UpdateRefused", 256, From::kAggregator),
    Row(MessageId::kRenewRequest, "RenewRequest", 4'096, From::kClient),
    Row(MessageId::kRenewResult, "RenewResult", 16'384, From::kAggregator),
    Row(MessageId::kSigningKeyUpdate, "SigningKeyUpdate", 1'024, From::kAggregator),
    Row(MessageId::kEnrolRequest, "EnrolRequest", 4'096, From::kClient, On::kEnrolment),
    Row(MessageId::kEnrolResult, "EnrolResult", 32'768, From::kAggregator, On::kEnrolment),
};

static_assert(kMessages.size() == std::variant_size_v<Message>);

}  // namespace

const MessageInfo* FindMessage(std::uint16_t id) {
  const auto row = std::lower_bound(
      kMessages.begin(), kMessages.end(), id,
      [](const MessageInfo& info, std::uint16_t value) { return std::uint16_t(info.id) < value; });
  return row != kMessages.end() && std::uint16_t(row->id) == id ? &*row : nullptr;
}

MessageId IdOf(const Message& message) {
  return std::visit([](const auto& value) { return value.kId; }, message);
}

std::string_view MessageName(MessageId id) {
  const MessageInfo* info = FindMessage(static_cast<std::uint16_t>(id));
  return info != nullptr ? info->name : "unknown";
}

}  // namespace skep::wire
