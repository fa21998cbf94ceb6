#include "simulator/html.h"

#include <fmt/format.h>

#include "shared/config/utf8.h"
#include "simulator/html_style.h"

namespace skep::simulator {
namespace {

// U+0080 to U+009F, U+FFFE and U+FFFF: not allowed, or not seen.
bool IsUnwanted(const std::string& point) {
  if (point == "\n" || point == "\t") return false;
  return config::IsHidden(point) || point == "\xEF\xBF\xBE" || point == "\xEF\xBF\xBF";
}

}  // namespace

std::string Escape(std::string_view text) {
  std::string escaped;
  for (const std::string& point : config::CodePoints(text)) {
    if (point == "&") {
      escaped += "&amp;";
    } else if (point == "<") {
      escaped += "&lt;";
    } else if (point == ">") {
      escaped += "&gt;";
    } else if (point == "\"") {
      escaped += "&quot;";
    } else if (point == "'") {
      escaped += "&#39;";
    } else {
      escaped += IsUnwanted(point) ? "?" : point;
    }
  }
  return escaped;
}

std::string Table(std::string_view caption, const std::vector<TableColumn>& columns,
                  const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<div class=\"scroll\"><table>\n<caption>" + Escape(caption) + "</caption>\n";
  html += "<thead><tr>";
  for (const TableColumn& column : columns)
    html += fmt::format("<th scope=\"col\"{}>{}</th>", column.is_number ? " class=\"n\"" : "",
                        Escape(column.title));
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const char* const numeric = columns[i].is_number ? " class=\"n\"" : "";
      html += i == 0 ? fmt::format("<th scope=\"row\"{}>{}</th>", numeric, Escape(row[i]))
                     : fmt::format("<td{}>{}</td>", numeric, Escape(row[i]));
    }
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table></div>\n";
}

std::string Folded(std::string_view summary, const std::string& content) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", Escape(summary), content);
}

std::string SectionOf(std::string_view title, const std::string& content) {
  return fmt::format("<section>\n<h2>{}</h2>\n{}</section>\n", Escape(title), content);
}

std::string Cards(const std::vector<Card>& cards) {
  std::string html = "<div class=\"cards\">\n";
  for (const Card& card : cards) {
    html += fmt::format(
        "<div class=\"card\"><div class=\"label\">{}</div><div class=\"figure\">{}</div>"
        "<div class=\"detail\">{}</div></div>\n",
        Escape(card.label), Escape(card.figure), Escape(card.detail));
  }
  return html + "</div>\n";
}

std::string StandaloneSvg(const std::string& svg) {
  constexpr std::string_view kOpening = "<svg ";
  constexpr std::string_view kAfter = "</desc>";
  std::string file = "<svg xmlns=\"http://www.w3.org/2000/svg\" " + svg.substr(kOpening.size());
  file.insert(file.find(kAfter) + kAfter.size(), fmt::format("<style>\n{}</style>", kPictureStyle));
  return file;
}

std::string Page(std::string_view title, const std::string& header, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src &#39;none&#39;; "
      "style-src "
      "&#39;unsafe-inline&#39;\"/>\n<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n"
      "<header>\n{}</header>\n<main>\n{}</main>\n</body>\n</html>\n",
      Escape(title), kPageStyle, header, body);
}

}  // namespace skep::simulator
