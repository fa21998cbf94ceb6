// HTML that is also well-formed XML: escaping, tables, folded numbers.
//
// Builds text; knows nothing of runs. Pure functions; any thread.
// Source: docs/formats.md (report).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace skep::simulator {

// `& < > " '` as entities; control characters and what is not UTF-8 replaced by "?".
[[nodiscard]] std::string Escape(std::string_view text);

struct TableColumn {
  std::string title;
  bool is_number = true;  // right-aligned
};

// Cells are escaped here. The first cell of a row is its heading.
[[nodiscard]] std::string Table(std::string_view caption, const std::vector<TableColumn>& columns,
                                const std::vector<std::vector<std::string>>& rows);
// A table behind "Numbers".
[[nodiscard]] std::string Folded(std::string_view summary, const std::string& content);
// `content` is HTML; the title is escaped here.
[[nodiscard]] std::string SectionOf(std::string_view title, const std::string& content);

struct Card {
  std::string label;
  std::string figure;
  std::string detail;
};
[[nodiscard]] std::string Cards(const std::vector<Card>& cards);

// A picture of chart.h as a file of its own, light and without a page's style.
[[nodiscard]] std::string StandaloneSvg(const std::string& svg);

// The whole file. `header` and `body` are HTML.
[[nodiscard]] std::string Page(std::string_view title, const std::string& header,
                               const std::string& body);

}  // namespace skep::simulator
