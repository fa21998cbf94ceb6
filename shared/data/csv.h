// CSV text as rows of fields (RFC 4180 with comma, semicolon or tab).
//
// Knows lines, quotes and separators; what columns mean is table.h's. The text is not trusted. Not
// thread-safe. Source: docs/formats.md (CSV); RFC 4180.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace skep::data {

// Rows of one text, front to back. Fields are views that live until the next call of Next.
class CsvRows {
 public:
  // `file` stands in messages. `text` must outlive this.
  CsvRows(std::string_view text, char separator, std::string file);

  // Moves to the next row that holds anything; false at the end. Empty lines and rows of separators
  // only are skipped. SKEP-1202 names the line: over 1 MiB, more than 65,536 fields, another number
  // of fields than the first row, a quote that does not end, text after a closing quote, a carriage
  // return without line feed.
  [[nodiscard]] Result<bool> Next();

  [[nodiscard]] const std::vector<std::string_view>& fields() const { return fields_; }
  [[nodiscard]] std::uint64_t line() const { return row_line_; }  // where the row starts, from 1
  [[nodiscard]] std::uint64_t rows_of_separators() const { return rows_of_separators_; }

 private:
  Status ReadRow();
  Status ReadQuoted();
  Status ReadPlain();
  Status EndField();
  Status EndLine();
  [[nodiscard]] bool AtFieldEnd() const;
  [[nodiscard]] Error Refuse(const std::string& reason) const;

  std::string_view text_;
  char separator_;
  std::string file_;
  std::size_t at_ = 0;
  std::size_t row_start_ = 0;
  std::uint64_t line_ = 1;
  std::uint64_t row_line_ = 1;
  std::uint64_t rows_of_separators_ = 0;
  std::size_t width_ = 0;  // 0: no row yet
  std::vector<std::string_view> fields_;
  std::deque<std::string> unquoted_;  // fields that hold doubled quotes
};

// Drops a byte order mark. SKEP-1202 refuses UTF-16 and UTF-32 by name.
[[nodiscard]] Result<std::string_view> PlainText(std::string_view text, const std::string& file);

// The separator that the first line is cut by.
[[nodiscard]] char FindSeparator(std::string_view text);
[[nodiscard]] std::string_view SeparatorName(char separator);  // "comma", "semicolon", "tab"

// What a field is as a number, read with `decimal` as its decimal sign.
enum class FieldKind : std::uint8_t { kNumber, kMissing, kOtherDecimal, kNotFinite, kText };
struct FieldValue {
  FieldKind kind = FieldKind::kText;
  double number = 0;
};
// Missing: empty, NA, nan, ?. kOtherDecimal: a number but for the other decimal sign.
[[nodiscard]] FieldValue ReadField(std::string_view field, char decimal);

}  // namespace skep::data
