#include "tools/cli/page/data_table.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "config/base/json.hpp"
#include "tools/charts/escape.hpp"
#include "tools/cli/csv.hpp"

namespace cudal1::cli {

using charts::escaped;

std::string exact(double value) {
  return fmt::format("{}", value);
}

data_table without_empty_columns(data_table t) {
  for (std::size_t i = t.columns.size(); i-- > 1;) {
    if (std::ranges::any_of(t.rows, [&](const auto& row) { return row[i].text != "-"; })) continue;
    t.columns.erase(t.columns.begin() + static_cast<std::ptrdiff_t>(i));
    for (auto& row : t.rows)
      row.erase(row.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return t;
}

namespace {

std::string linked(const std::string& text, const std::string& link) {
  if (link.empty()) return escaped(text);
  return fmt::format("<a href=\"{}{}\">{}</a>", link.starts_with('/') ? "" : "#", escaped(link), escaped(text));
}

std::string column_heading(const data_column& c) {
  const std::string_view sorted = c.order == sorting::ascending    ? " aria-sort=\"ascending\""
                                  : c.order == sorting::descending ? " aria-sort=\"descending\""
                                                                   : "";
  return fmt::format("<th scope=\"col\"{}{}>{}</th>", c.is_number ? " class=\"num\"" : "", sorted,
                     linked(c.title, c.link));
}

}  // namespace

std::string html_of(const data_table& t) {
  std::string out = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"{0}-caption\"><table id=\"{0}\">"
      "<caption id=\"{0}-caption\"><span>{1}</span></caption>\n<thead><tr>",
      t.id, escaped(t.caption));
  for (const auto& c : t.columns)
    out += column_heading(c);
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : t.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size() && i < t.columns.size(); ++i) {
      const std::string_view number = t.columns[i].is_number ? " class=\"num\""
                                      : t.columns[i].is_long ? " class=\"long\""
                                                             : "";
      out += i == 0 ? fmt::format("<th scope=\"row\"{}>{}</th>", number, linked(row[i].text, row[i].link))
                    : fmt::format("<td{}>{}</td>", number, linked(row[i].text, row[i].link));
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string csv_of(const data_table& t) {
  json::array rows;
  for (const auto& row : t.rows) {
    json item = json::make_object();
    for (std::size_t i = 0; i < row.size() && i < t.columns.size(); ++i)
      item.set(t.columns[i].title, row[i].raw.empty() ? row[i].text : row[i].raw);
    rows.push_back(std::move(item));
  }
  return csv_text(json(std::move(rows)), {});
}

}  // namespace cudal1::cli
