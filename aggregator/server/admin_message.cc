#include "aggregator/server/admin_message.h"

#include "shared/base/bytes.h"

namespace skep::aggregator {
namespace {

constexpr std::string_view kUnreserved =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";

void AppendEscaped(std::string& to, std::string_view text, std::string_view also_plain) {
  for (const char c : text) {
    if (kUnreserved.find(c) != std::string_view::npos ||
        also_plain.find(c) != std::string_view::npos) {
      to += c;
    } else {
      const auto byte = static_cast<std::uint8_t>(c);
      to += "%" + ToHex({&byte, 1});
    }
  }
}

std::optional<std::string> Unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const auto byte = FromHex(text.substr(i + 1, 2));
      if (!byte || byte->size() != 1) return std::nullopt;
      c = static_cast<char>(byte->front());
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return std::nullopt;
    plain += c;
  }
  return plain;
}

bool DecodeQuery(std::string_view text, std::map<std::string, std::string>& query) {
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) return false;
    auto key = Unescaped(pair.substr(0, equals));
    auto value = Unescaped(pair.substr(equals + 1));
    if (!key || !value || !query.emplace(std::move(*key), std::move(*value)).second) return false;
  }
  return true;
}

}  // namespace

std::string EncodeTarget(const AdminRequest& request) {
  std::string target;
  AppendEscaped(target, request.path, "/");
  char mark = '?';
  for (const auto& [key, value] : request.query) {
    target += mark;
    AppendEscaped(target, key, "");
    target += '=';
    AppendEscaped(target, value, "");
    mark = '&';
  }
  return target;
}

bool DecodeTarget(std::string_view target, AdminRequest& request) {
  const std::size_t mark = target.find('?');
  auto path = Unescaped(target.substr(0, mark));
  if (!path || path->empty() || path->front() != '/') return false;
  request.path = std::move(*path);
  request.query.clear();
  return mark == std::string_view::npos || DecodeQuery(target.substr(mark + 1), request.query);
}

}  // namespace skep::aggregator
