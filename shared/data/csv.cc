#include "shared/data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "shared/base/try.h"

namespace skep::data {
namespace {

constexpr std::size_t kLongestLine = std::size_t{1} << 20;
constexpr std::size_t kMostColumns = 65536;
constexpr std::size_t kLongestNumber = 512;

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

FieldValue ParseNumber(std::string_view field) {
  double number = 0;
  const char* const end = field.data() + field.size();
  const auto [stop, failure] = std::from_chars(field.data(), end, number);
  if (stop != end || failure == std::errc::invalid_argument) return {};
  if (failure != std::errc()) return {.kind = FieldKind::kNotFinite};
  if (std::isnan(number)) return {.kind = FieldKind::kMissing};
  if (std::isinf(number)) return {.kind = FieldKind::kNotFinite};
  return {.kind = FieldKind::kNumber, .number = number};
}

// The number that `field` is if its one `sign` is the decimal sign.
FieldValue ParseWithSign(std::string_view field, char sign) {
  if (field.size() > kLongestNumber || std::count(field.begin(), field.end(), sign) != 1) return {};
  std::string text(field);
  std::replace(text.begin(), text.end(), sign, '.');
  if (std::count(text.begin(), text.end(), '.') != 1) return {};
  return ParseNumber(text);
}

}  // namespace

CsvRows::CsvRows(std::string_view text, char separator, std::string file)
    : text_(text), separator_(separator), file_(std::move(file)) {}

Error CsvRows::Refuse(const std::string& reason) const {
  return Error{1202, file_ + ", line " + std::to_string(row_line_) + ": " + reason, ""};
}

bool CsvRows::AtFieldEnd() const {
  return at_ == text_.size() || text_[at_] == separator_ || text_[at_] == '\n' ||
         text_[at_] == '\r';
}

Result<bool> CsvRows::Next() {
  while (at_ < text_.size()) {
    SKEP_TRY(ReadRow());
    const bool is_empty =
        std::all_of(fields_.begin(), fields_.end(), [](std::string_view f) { return f.empty(); });
    if (is_empty && fields_.size() > 1) ++rows_of_separators_;
    if (is_empty) continue;
    if (width_ == 0) width_ = fields_.size();
    if (fields_.size() != width_) {
      return Refuse(std::to_string(fields_.size()) + " fields, the first row has " +
                    std::to_string(width_));
    }
    return true;
  }
  return false;
}

Status CsvRows::ReadRow() {
  fields_.clear();
  unquoted_.clear();
  row_start_ = at_;
  row_line_ = line_;
  for (;;) {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || (text_[at_] == '\t' && separator_ != '\t'))) {
      ++at_;
    }
    if (at_ < text_.size() && text_[at_] == '"') {
      SKEP_TRY(ReadQuoted());
    } else {
      SKEP_TRY(ReadPlain());
    }
    if (fields_.size() > kMostColumns) return Refuse("more than 65536 fields");
    if (at_ == text_.size()) return Ok();
    if (text_[at_] != separator_) return EndLine();
    ++at_;
  }
}

Status CsvRows::EndLine() {
  if (text_[at_] == '\r') ++at_;
  if (at_ == text_.size() || text_[at_] != '\n') {
    return Refuse("a carriage return without a line feed");
  }
  ++at_;
  ++line_;
  return Ok();
}

Status CsvRows::ReadPlain() {
  const std::size_t from = at_;
  while (!AtFieldEnd()) ++at_;
  if (at_ - row_start_ > kLongestLine) return Refuse("longer than 1 MiB");
  std::string_view field = text_.substr(from, at_ - from);
  while (!field.empty() && (field.back() == ' ' || field.back() == '\t')) field.remove_suffix(1);
  fields_.push_back(field);
  return Ok();
}

Status CsvRows::ReadQuoted() {
  ++at_;
  std::size_t from = at_;
  std::string joined;
  bool is_joined = false;
  for (;;) {
    const std::size_t quote = std::min(text_.find('"', at_), text_.size());
    if (quote - row_start_ > kLongestLine) return Refuse("longer than 1 MiB");
    if (quote == text_.size()) return Refuse("a quote does not end");
    line_ += static_cast<std::uint64_t>(
        std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                   text_.begin() + static_cast<std::ptrdiff_t>(quote), '\n'));
    at_ = quote + 1;
    if (at_ == text_.size() || text_[at_] != '"') {
      if (is_joined) joined.append(text_.substr(from, quote - from));
      break;
    }
    joined.append(text_.substr(from, at_ - from));  // with one of the two quotes
    is_joined = true;
    from = ++at_;
  }
  const std::size_t end = at_ - 1;
  while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  if (!AtFieldEnd()) return Refuse("text after a closing quote");
  if (is_joined) {
    fields_.emplace_back(unquoted_.emplace_back(std::move(joined)));
  } else {
    fields_.push_back(text_.substr(from, end - from));
  }
  return Ok();
}

Result<std::string_view> PlainText(std::string_view text, const std::string& file) {
  const auto refuse = [&](const std::string& encoding) {
    return Error{1202, file + " is " + encoding + " text", "save it as UTF-8"};
  };
  using std::string_view_literals::operator""sv;
  if (StartsWith(text, "\xFF\xFE\0\0"sv) || StartsWith(text, "\0\0\xFE\xFF"sv))
    return refuse("UTF-32");
  if (StartsWith(text, "\xFF\xFE"sv)) return refuse("UTF-16 (little-endian)");
  if (StartsWith(text, "\xFE\xFF"sv)) return refuse("UTF-16 (big-endian)");
  // Without a mark: every second byte of Latin text is zero, and text has no zero bytes of its own.
  if (text.size() >= 2 && text[0] != 0 && text[1] == 0) return refuse("UTF-16 (little-endian)");
  if (text.size() >= 2 && text[0] == 0) return refuse("UTF-16 (big-endian)");
  if (StartsWith(text, "\xEF\xBB\xBF"sv)) text.remove_prefix(3);
  return text;
}

char FindSeparator(std::string_view text) {
  std::string line;  // the first line that is not empty, without what is quoted
  bool is_quoted = false;
  for (const char c : text.substr(0, kLongestLine)) {
    if (c == '"') is_quoted = !is_quoted;
    if (is_quoted) continue;
    if ((c == '\n' || c == '\r') && !line.empty()) break;
    if (c != '\n' && c != '\r') line += c;
  }
  const auto count = [&](char c) { return std::count(line.begin(), line.end(), c); };
  const auto commas = count(',');
  const auto semicolons = count(';');
  const auto tabs = count('\t');
  if (tabs > commas && tabs > semicolons) return '\t';
  if (semicolons == 0) return tabs > commas ? '\t' : ',';
  if (semicolons >= commas) return ';';
  // More commas than semicolons: still semicolons if every comma is a decimal sign ("3,5;2,1;7").
  std::size_t from = 0;
  for (;;) {
    const std::size_t end = std::min(line.find(';', from), line.size());
    const std::string_view field = std::string_view(line).substr(from, end - from);
    if (field.find(',') != std::string_view::npos &&
        ParseWithSign(field, ',').kind != FieldKind::kNumber) {
      return ',';
    }
    if (end == line.size()) return ';';
    from = end + 1;
  }
}

std::string_view SeparatorName(char separator) {
  return separator == ';' ? "semicolon" : separator == '\t' ? "tab" : "comma";
}

FieldValue ReadField(std::string_view field, char decimal) {
  if (field.empty() || field == "NA" || field == "?") return {.kind = FieldKind::kMissing};
  const char other = decimal == '.' ? ',' : '.';
  const bool has_point = field.find('.') != std::string_view::npos;
  if (decimal == '.' || !has_point) {
    const FieldValue plain = decimal == '.' || field.find(',') == std::string_view::npos
                                 ? ParseNumber(field)
                                 : ParseWithSign(field, decimal);
    if (plain.kind != FieldKind::kText) return plain;
  }
  if (ParseWithSign(field, other).kind == FieldKind::kNumber)
    return {.kind = FieldKind::kOtherDecimal};
  return {};
}

}  // namespace skep::data
