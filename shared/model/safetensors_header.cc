#include "shared/model/safetensors_header.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <set>

#include "shared/base/try.h"

namespace skep::model {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostTensors = 100000;
constexpr std::size_t kMostDimensions = 8;
constexpr std::size_t kLongestName = 256;
constexpr std::string_view kMetadataKey = "__metadata__";

constexpr std::array<std::string_view, 10> kTypeNames{"F64",  "I64", "F32", "I32", "F16",
                                                      "BF16", "I16", "I8",  "U8",  "BOOL"};

Error Damaged(std::string reason) {
  return Error{1302, std::move(reason), ""};
}

bool HasControlCharacter(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
}

// A header is an object of objects: this follows where the parser stands and takes what is expected
// there. The first breach is kept in `reason` and stops the parser.
class HeaderHandler {
 public:
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);

  Header header;
  std::string reason;

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }

  bool on_object_begin(json::error_code& ec) {
    if (place_ == Place::kStart) return Go(Place::kTop);
    if (place_ == Place::kTop && key_ == kMetadataKey) return Go(Place::kMetadata);
    if (place_ == Place::kTop) return BeginEntry(ec);
    return Fail(ec, "an object where none belongs");
  }
  bool on_object_end(std::size_t, json::error_code& ec) {
    if (place_ == Place::kEntry) return EndEntry(ec);
    return Go(place_ == Place::kMetadata ? Place::kTop : Place::kStart);
  }
  bool on_array_begin(json::error_code& ec) {
    if (place_ == Place::kEntry && key_ == "shape") return Go(Place::kShape);
    if (place_ == Place::kEntry && key_ == "data_offsets") return Go(Place::kOffsets);
    return Fail(ec, "an array where none belongs");
  }
  bool on_array_end(std::size_t, json::error_code& ec) {
    if (place_ == Place::kOffsets && offsets_.size() != 2) {
      return Fail(ec, "data_offsets has " + std::to_string(offsets_.size()) + " numbers; 2");
    }
    return Go(Place::kEntry);
  }

  bool on_key_part(json::string_view part, std::size_t, json::error_code&) {
    partial_.append(part.data(), part.size());
    return true;
  }
  bool on_key(json::string_view part, std::size_t, json::error_code& ec) {
    partial_.append(part.data(), part.size());
    key_ = std::exchange(partial_, {});
    std::set<std::string>& known = place_ == Place::kTop ? top_keys_ : inner_keys_;
    if (!known.insert(key_).second) return Fail(ec, "the key \"" + key_ + "\" occurs twice");
    if (place_ != Place::kEntry) return true;
    if (key_ == "dtype" || key_ == "shape" || key_ == "data_offsets") return true;
    return Fail(ec, "unknown key \"" + key_ + "\"");
  }
  bool on_string_part(json::string_view part, std::size_t, json::error_code&) {
    partial_.append(part.data(), part.size());
    return true;
  }
  bool on_string(json::string_view part, std::size_t, json::error_code& ec) {
    partial_.append(part.data(), part.size());
    const std::string value = std::exchange(partial_, {});
    if (place_ == Place::kMetadata) {
      header.metadata[key_] = value;
      return true;
    }
    if (place_ == Place::kEntry && key_ == "dtype") return TakeType(value, ec);
    return Fail(ec, "a string where none belongs");
  }

  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(std::int64_t value, json::string_view, json::error_code& ec) {
    if (value < 0) return Fail(ec, "a negative number");
    return TakeNumber(static_cast<std::uint64_t>(value), ec);
  }
  bool on_uint64(std::uint64_t value, json::string_view, json::error_code& ec) {
    return TakeNumber(value, ec);
  }
  bool on_double(double, json::string_view, json::error_code& ec) {
    return Fail(ec, "a number that is no 64-bit integer");
  }
  bool on_bool(bool, json::error_code& ec) { return Fail(ec, "true or false where none belongs"); }
  bool on_null(json::error_code& ec) { return Fail(ec, "null where none belongs"); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  enum class Place { kStart, kTop, kMetadata, kEntry, kShape, kOffsets };

  bool Go(Place place) {
    place_ = place;
    if (place == Place::kMetadata) inner_keys_.clear();
    return true;
  }
  bool Fail(json::error_code& ec, const std::string& what) {
    const bool in_entry =
        place_ == Place::kEntry || place_ == Place::kShape || place_ == Place::kOffsets;
    reason = (in_entry ? "tensor \"" + header.entries.back().name + "\": " : std::string()) + what;
    ec = json::make_error_code(json::error::syntax);
    return false;
  }

  bool BeginEntry(json::error_code& ec) {
    if (header.entries.size() == kMostTensors) return Fail(ec, "more than 100000 tensors");
    if (key_.empty() || key_.size() > kLongestName || HasControlCharacter(key_)) {
      return Fail(ec, "a tensor's name has 1 to 256 bytes without control characters");
    }
    header.entries.emplace_back().name = key_;
    inner_keys_.clear();
    offsets_.clear();
    return Go(Place::kEntry);
  }
  bool EndEntry(json::error_code& ec) {
    for (const char* key : {"dtype", "shape", "data_offsets"}) {
      if (!inner_keys_.contains(key)) return Fail(ec, std::string("lacks ") + key);
    }
    header.entries.back().begin = offsets_[0];
    header.entries.back().end = offsets_[1];
    return Go(Place::kTop);
  }
  bool TakeType(const std::string& name, json::error_code& ec) {
    const auto* const found = std::find(kTypeNames.begin(), kTypeNames.end(), name);
    if (found == kTypeNames.end()) return Fail(ec, "type " + name.substr(0, 16) + " is not read");
    header.entries.back().dtype = static_cast<FileType>(found - kTypeNames.begin());
    return true;
  }
  bool TakeNumber(std::uint64_t value, json::error_code& ec) {
    if (place_ == Place::kShape) {
      header.entries.back().shape.push_back(value);
      return header.entries.back().shape.size() <= kMostDimensions ||
             Fail(ec, "more than 8 dimensions");
    }
    if (place_ == Place::kOffsets) {
      offsets_.push_back(value);
      return offsets_.size() <= 2 || Fail(ec, "data_offsets has more than 2 numbers");
    }
    return Fail(ec, "a number where none belongs");
  }

  Place place_ = Place::kStart;
  std::string partial_;  // of a key or string that the parser delivers in parts
  std::string key_;
  std::set<std::string> top_keys_;
  std::set<std::string> inner_keys_;
  std::vector<std::uint64_t> offsets_;
};

// The bytes of a tensor, or an error: the product is checked at every factor.
Result<std::uint64_t> SizeOf(const HeaderEntry& entry) {
  std::uint64_t size = ItemSize(entry.dtype);
  for (const std::uint64_t dimension : entry.shape) {
    if (__builtin_mul_overflow(size, dimension, &size)) {
      return Damaged("tensor \"" + entry.name + "\": its size does not fit 64 bits");
    }
  }
  return size;
}

Status CheckRanges(const std::vector<HeaderEntry>& entries, std::uint64_t buffer_size) {
  std::vector<const HeaderEntry*> sorted;
  for (const HeaderEntry& entry : entries) {
    SKEP_ASSIGN(const std::uint64_t size, SizeOf(entry));
    if (entry.end < entry.begin || entry.end - entry.begin != size) {
      return Damaged("tensor \"" + entry.name + "\": data_offsets [" + std::to_string(entry.begin) +
                     ", " + std::to_string(entry.end) + "] do not hold the " +
                     std::to_string(size) + " bytes of its shape");
    }
    sorted.push_back(&entry);
  }
  std::sort(sorted.begin(), sorted.end(), [](const HeaderEntry* a, const HeaderEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t next = 0;
  for (const HeaderEntry* entry : sorted) {
    if (entry->begin != next) {
      return Damaged("tensor \"" + entry->name + "\": starts at " + std::to_string(entry->begin) +
                     " of the buffer, where " + std::to_string(next) + " is the next byte");
    }
    next = entry->end;
  }
  if (next != buffer_size) {
    return Damaged("the tensors cover " + std::to_string(next) + " bytes, the buffer has " +
                   std::to_string(buffer_size));
  }
  return Ok();
}

}  // namespace

std::string_view TypeName(FileType type) {
  return kTypeNames[static_cast<std::size_t>(type)];
}

Result<Header> ParseHeader(std::string_view text, std::uint64_t buffer_size) {
  if (text.empty() || text[0] != '{') return Damaged("the header does not start with \"{\"");
  while (text.back() == ' ') text.remove_suffix(1);
  json::basic_parser<HeaderHandler> parser{json::parse_options{}};
  json::error_code ec;
  const std::size_t used = parser.write_some(false, text.data(), text.size(), ec);
  if (!parser.handler().reason.empty()) return Damaged(parser.handler().reason);
  if (ec) {
    return Damaged("the header is no valid JSON near byte " + std::to_string(used) + ": " +
                   ec.message());
  }
  if (used != text.size()) return Damaged("the header holds more than one JSON object");
  Header header = std::move(parser.handler().header);
  SKEP_TRY(CheckRanges(header.entries, buffer_size));
  return header;
}

}  // namespace skep::model
