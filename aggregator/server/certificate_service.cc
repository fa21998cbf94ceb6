#include "aggregator/server/certificate_service.h"

#include <algorithm>
#include <utility>

#include "crypto/csprng.h"
#include "crypto/pki/join_string.h"
#include "shared/base/try.h"

namespace skep::aggregator {
namespace {

constexpr int kMajorUnsupported = 3311;
constexpr int kClosed = 3120;
constexpr int kTooEarly = 3121;
constexpr std::uint32_t kPartsOfLifetime = 4;  // between two renewals

WallMs InMs(Nanoseconds span) {
  return static_cast<WallMs>(std::chrono::duration_cast<Milliseconds>(span).count());
}

}  // namespace

Serial SerialOf(const crypto::Certificate& certificate) {
  const Bytes bytes = certificate.Serial();
  Serial serial;
  // Big-endian without leading zeros: the last bytes are the row's last bytes.
  const std::size_t count = std::min(bytes.size(), Serial::kBytes);
  std::copy_n(bytes.end() - static_cast<std::ptrdiff_t>(count), count,
              serial.bytes.end() - static_cast<std::ptrdiff_t>(count));
  return serial;
}

Result<CertificateRow> CertificateService::Issue(const crypto::CertificateRequest& request,
                                                 const DeviceId& device, WallMs now) const {
  const crypto::Validity validity{.not_before = now - InMs(rules_.clock_skew),
                                  .not_after = now + InMs(rules_.certificate_lifetime)};
  SKEP_ASSIGN(const crypto::Certificate certificate,
              device_ca_.IssueDevice(request, {rules_.federation, device}, validity));
  return CertificateRow{.serial = SerialOf(certificate),
                        .device = device,
                        .key_sha256 = request.KeyHash(),
                        .not_before = certificate.NotBefore(),
                        .not_after = certificate.NotAfter(),
                        .state = CertificateState::kLive,
                        .der = certificate.ToDer()};
}

NewDevice CertificateService::AnswerOf(const Enrolled& enrolled) const {
  NewDevice made;
  made.device = enrolled.certificate.device;
  made.population = enrolled.token.population;
  made.client = enrolled.token.client;
  made.is_repeat = enrolled.is_repeat;
  made.answer.device_id = made.device;
  made.answer.certificate = enrolled.certificate.der;
  made.answer.server_ca = {rules_.server_ca.ToDer()};
  made.answer.signing_keys = rules_.signing_keys;
  made.answer.device_endpoint = rules_.device_endpoint;
  made.answer.federation_id = rules_.federation;
  made.answer.populations = {made.population};
  made.answer.not_after_ms = enrolled.certificate.not_after;
  return made;
}

Result<NewDevice> CertificateService::Enrol(const wire::EnrolRequest& request, WallMs now) {
  if (request.major != wire::kMajor) {
    return Error{kMajorUnsupported, "the device speaks another major version", ""};
  }
  SKEP_ASSIGN(const auto csr, crypto::CertificateRequest::Check(request.csr));
  const Hash32 secret = crypto::LookupHashOf(request.secret);
  SKEP_ASSIGN(const auto known, registry_.CheckToken(secret, csr.KeyHash(), now));
  if (known) return AnswerOf(*known);
  SKEP_ASSIGN(const std::vector<DeviceRow> devices, registry_.Devices());
  if (devices.size() >= rules_.max_devices) {
    return Error{kClosed, "the number of devices has reached enrolment.max_devices",
                 "raise enrolment.max_devices"};
  }
  SKEP_ASSIGN(const DeviceId device, crypto::RandomId<DeviceId>());
  SKEP_ASSIGN(CertificateRow certificate, Issue(csr, device, now));
  SKEP_ASSIGN(const Enrolled enrolled, registry_.UseToken({.secret_sha256 = secret,
                                                           .hint = request.name_hint,
                                                           .software = request.software,
                                                           .certificate = std::move(certificate)},
                                                          now));
  return AnswerOf(enrolled);
}

Result<wire::RenewResult> CertificateService::Renew(const DeviceId& device,
                                                    const crypto::Certificate& current,
                                                    BytesView csr, WallMs now) {
  SKEP_ASSIGN(const auto request, crypto::CertificateRequest::Check(csr));
  const Hash32 key = request.KeyHash();
  const auto latest = renewals_.find(device);
  const bool is_repeat = latest != renewals_.end() && latest->second.key == key;
  if (!is_repeat) {
    const double lifetime = static_cast<double>(current.NotAfter() - current.NotBefore());
    const double age = static_cast<double>(now) - static_cast<double>(current.NotBefore());
    const bool is_again =
        latest != renewals_.end() &&
        static_cast<double>(now - latest->second.at) < lifetime / kPartsOfLifetime;
    if (age < rules_.renew_after * lifetime || is_again) {
      return Error{kTooEarly, "renewal too early or too often", ""};
    }
  }
  SKEP_ASSIGN(const CertificateRow issued, Issue(request, device, now));
  SKEP_ASSIGN(const CertificateRow row, registry_.AddCertificate(issued, now));
  if (!is_repeat) renewals_[device] = {key, now};
  return wire::RenewResult{.certificate = row.der, .chain = {}, .not_after_ms = row.not_after};
}

}  // namespace skep::aggregator
