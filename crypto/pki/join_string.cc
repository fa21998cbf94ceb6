#include "crypto/pki/join_string.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "shared/base/bytes.h"
#include "shared/base/check.h"
#include "shared/base/sha256.h"
#include "shared/base/try.h"

namespace skep::crypto {
namespace {

constexpr std::string_view kScheme = "https://";
constexpr std::string_view kMark = "#SKEP1-";
constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::size_t kCodeCharacters = 80;
constexpr std::size_t kCodeBytes = 60;
constexpr std::size_t kCheckedBytes = Hash32::kBytes + wire::JoinSecret::kBytes;
constexpr std::size_t kLongestHost = 253;

Error Damaged(const std::string& what) {
  return Error{3116, "join string damaged: " + what,
               "copy the whole line that token create printed"};
}

// Four characters for three bytes: the length makes padding and loose bits impossible.
std::string EncodeBase64Url(const std::array<std::uint8_t, kCodeBytes>& bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::uint32_t group = static_cast<std::uint32_t>(bytes[i]) << 16 |
                                static_cast<std::uint32_t>(bytes[i + 1]) << 8 | bytes[i + 2];
    for (const unsigned shift : {18U, 12U, 6U, 0U}) text += kAlphabet[(group >> shift) & 63];
  }
  return text;
}

bool DecodeBase64Url(std::string_view text, std::array<std::uint8_t, kCodeBytes>& bytes) {
  for (std::size_t i = 0; i < kCodeCharacters / 4; ++i) {
    std::uint32_t group = 0;
    for (const char c : text.substr(i * 4, 4)) {
      const std::size_t digit = kAlphabet.find(c);
      if (digit == std::string_view::npos) return false;
      group = group << 6 | static_cast<std::uint32_t>(digit);
    }
    bytes[i * 3] = static_cast<std::uint8_t>(group >> 16);
    bytes[i * 3 + 1] = static_cast<std::uint8_t>(group >> 8);
    bytes[i * 3 + 2] = static_cast<std::uint8_t>(group);
  }
  return true;
}

std::uint32_t Checksum(std::string_view front, BytesView checked) {
  return Crc32c(checked, Crc32c(AsBytes(front)));
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

bool IsIpv6(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool IsHostName(std::string_view host) {
  return !host.empty() && host.size() <= kLongestHost &&
         std::all_of(host.begin(), host.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '-';
         });
}

Result<std::uint16_t> ParsePort(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool is_whole = failure == std::errc() && end == text.data() + text.size();
  if (!is_whole || port == 0 || text.front() == '0') return Damaged("its port is not 1 to 65535");
  return port;
}

Status ParseEndpoint(std::string_view text, JoinString& join) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return Damaged("it names no port");
  SKEP_ASSIGN(join.port, ParsePort(text.substr(colon + 1)));
  const std::string_view host = text.substr(0, colon);
  const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  join.host = is_bracketed ? host.substr(1, host.size() - 2) : host;
  const bool is_good = is_bracketed ? IsIpv6(join.host) : IsHostName(join.host);
  if (!is_good) return Damaged("its host is not a name or an address");
  return Ok();
}

std::string Front(const JoinString& join) {
  const bool needs_brackets = join.host.find(':') != std::string::npos;
  const std::string host = needs_brackets ? "[" + join.host + "]" : join.host;
  return std::string(kScheme) + host + ":" + std::to_string(join.port) + std::string(kMark);
}

}  // namespace

std::string FormatJoinString(const JoinString& join) {
  const std::string front = Front(join);
  std::array<std::uint8_t, kCodeBytes> code{};
  auto end = std::copy(join.pin.bytes.begin(), join.pin.bytes.end(), code.begin());
  std::copy(join.secret.bytes.begin(), join.secret.bytes.end(), end);
  StoreLittle(Checksum(front, BytesView(code).first(kCheckedBytes)), code.data() + kCheckedBytes);
  const std::string text = front + EncodeBase64Url(code);
  Wipe(code);
  return text;
}

Result<JoinString> ParseJoinString(std::string_view text) {
  text = Trimmed(text);
  if (!text.starts_with(kScheme)) return Damaged("it does not begin with https://");
  const std::size_t mark = text.find(kMark);
  if (mark == std::string_view::npos) return Damaged("it has no #SKEP1- part");
  const std::string_view front = text.substr(0, mark + kMark.size());
  const std::string_view code_text = text.substr(front.size());
  if (code_text.size() != kCodeCharacters) {
    return Damaged("it has " + std::to_string(code_text.size()) +
                   " characters after #SKEP1-, not 80");
  }
  std::array<std::uint8_t, kCodeBytes> code{};
  if (!DecodeBase64Url(code_text, code)) return Damaged("a character is not of base64url");
  const BytesView checked = BytesView(code).first(kCheckedBytes);
  JoinString join;
  join.pin = Hash32::From(checked.first(Hash32::kBytes)).value();
  join.secret = wire::JoinSecret::From(checked.subspan(Hash32::kBytes)).value();
  const auto stored = LoadLittle<std::uint32_t>(code.data() + kCheckedBytes);
  const bool is_whole = stored == Checksum(front, checked);
  Wipe(code);
  SKEP_TRY(ParseEndpoint(front.substr(kScheme.size(), mark - kScheme.size()), join));
  if (!is_whole) return Damaged("its checksum is wrong");
  return join;
}

TokenId TokenIdOf(const wire::JoinSecret& secret) {
  Sha256 hash;
  hash.Update(AsBytes(std::string_view("skep token id\0", 14)));
  hash.Update(secret.view());
  return TokenId::From(hash.Finish().view().first(TokenId::kBytes)).value();
}

Hash32 LookupHashOf(const wire::JoinSecret& secret) {
  return Sha256::Of(secret.view());
}

}  // namespace skep::crypto
