#include "tools/cli/table.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "tools/cli/format.hpp"

namespace cudal1::cli {

namespace {

constexpr std::size_t gap = 2;

struct layout {
  std::vector<std::size_t> shown;   // columns, in order
  std::vector<std::size_t> widths;  // of those
  std::size_t total() const {
    return std::accumulate(widths.begin(), widths.end(), std::size_t{0}) +
           gap * (widths.empty() ? 0 : widths.size() - 1);
  }
};

// The column to leave out next, as an index into `shown`.
std::optional<std::size_t> next_to_drop(const layout& l, const std::vector<column>& columns) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < l.shown.size(); ++i) {
    const int drop = columns[l.shown[i]].drop;
    if (drop > 0 && (!found || drop > columns[l.shown[*found]].drop)) found = i;
  }
  return found;
}

// Columns with cut_last are cut only where no other can be left out any more.
enum class cut_columns { without_last, all };

// Narrows the columns that may be cut, the widest first, until the table fits or none is left.
void cut(layout& l, const std::vector<column>& columns, std::size_t width, cut_columns which) {
  while (l.total() > width) {
    std::optional<std::size_t> widest;
    for (std::size_t i = 0; i < l.shown.size(); ++i) {
      const auto least = columns[l.shown[i]].least_width;
      if (columns[l.shown[i]].cut_last && which == cut_columns::without_last) continue;
      if (least > 0 && l.widths[i] > least && (!widest || l.widths[i] > l.widths[*widest])) widest = i;
    }
    if (!widest) return;
    --l.widths[*widest];
  }
}

layout lay_out(const std::vector<column>& columns, const std::vector<std::vector<std::string>>& rows,
               std::size_t width) {
  layout natural;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    std::size_t widest = display_width(columns[c].title);
    for (const auto& row : rows)
      widest = std::max(widest, display_width(row[c]));
    natural.shown.push_back(c);
    natural.widths.push_back(widest);
  }
  for (;;) {
    layout fitted = natural;
    const auto drop = next_to_drop(natural, columns);
    if (width > 0) cut(fitted, columns, width, drop ? cut_columns::without_last : cut_columns::all);
    if (width == 0 || fitted.total() <= width || !drop) return fitted;
    natural.shown.erase(natural.shown.begin() + static_cast<std::ptrdiff_t>(*drop));
    natural.widths.erase(natural.widths.begin() + static_cast<std::ptrdiff_t>(*drop));
  }
}

}  // namespace

std::string table::text(std::size_t width) const {
  return text(terminal{.width = width});
}

std::string table::text(const terminal& t) const {
  const layout l = lay_out(columns_, rows_, t.width);
  const auto line = [&](const auto& cell_of) {
    std::string out;
    for (std::size_t i = 0; i < l.shown.size(); ++i) {
      if (i > 0) out.append(gap, ' ');
      out += pad(fit(cell_of(l.shown[i]), l.widths[i]), l.widths[i],
                 columns_[l.shown[i]].right ? alignment::right : alignment::left);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
  };
  const auto heading = line([&](std::size_t c) { return columns_[c].title; });
  std::string out = t.bold(heading) + "\n";
  for (const auto& row : rows_)
    out += line([&](std::size_t c) { return row[c]; }) + "\n";
  return out;
}

std::string table::markdown() const {
  const auto escaped = [](const std::string& cell) {
    std::string out;
    for (const char c : cell) {
      if (c == '|') out += '\\';
      out += c == '\n' ? ' ' : c;
    }
    return out;
  };
  std::string out = "|", rule = "|";
  for (const auto& c : columns_) {
    out += " " + escaped(c.title) + " |";
    rule += c.right ? "---:|" : "---|";
  }
  out += "\n" + rule + "\n";
  for (const auto& row : rows_) {
    out += "|";
    for (const auto& cell : row)
      out += " " + escaped(cell) + " |";
    out += "\n";
  }
  return out;
}

}  // namespace cudal1::cli
