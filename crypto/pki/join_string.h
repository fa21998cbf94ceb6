// Join strings: the one line that lets one device enrol: where, whose certificate authority, and a
// secret.
//
// Made by `token create`, read by `join`. The secret is a credential: no message, log or error
// holds it; the token id stands for it. A value; the secret is wiped when dropped. Source: Skep
// protocol 1.0, section 10.3.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "crypto/secret.h"
#include "shared/base/ids.h"
#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace skep::crypto {

struct JoinString {
  std::string host;  // a name, an IPv4 address, or an IPv6 address without its brackets
  std::uint16_t port = 0;
  Hash32 pin;  // SHA-256 of the server CA's SubjectPublicKeyInfo
  wire::JoinSecret secret;

  JoinString() = default;
  JoinString(const JoinString&) = default;
  JoinString& operator=(const JoinString&) = default;
  ~JoinString() { Wipe(secret.bytes); }
};

// "https://HOST:PORT#SKEP1-" and 80 characters of base64url. Precondition: host and port are ones
// that parse.
[[nodiscard]] std::string FormatJoinString(const JoinString& join);

// White space around the string is dropped. SKEP-3116 for anything that is not exactly such a
// string with a right checksum; the text says which part, never what it held.
[[nodiscard]] Result<JoinString> ParseJoinString(std::string_view text);

// First 8 bytes of SHA-256("skep token id" 0x00 secret).
[[nodiscard]] TokenId TokenIdOf(const wire::JoinSecret& secret);

// SHA-256 of the secret: what the aggregator stores and looks up.
[[nodiscard]] Hash32 LookupHashOf(const wire::JoinSecret& secret);

}  // namespace skep::crypto
