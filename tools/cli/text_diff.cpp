#include "tools/cli/text_diff.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "tools/cli/format.hpp"

namespace cudal1::cli {

namespace {

using line_span = std::span<const std::string>;

constexpr std::ptrdiff_t most_changes = 4000;

// For each number of changes, how far each diagonal reaches; index `limit + diagonal`.
struct reach {
  std::vector<std::vector<std::ptrdiff_t>> by_changes;
  bool ended = false;
};

reach search(line_span a, line_span b) {
  const std::ptrdiff_t n = std::ssize(a), m = std::ssize(b), limit = std::min(n + m, most_changes);
  std::vector<std::ptrdiff_t> v(static_cast<std::size_t>(2 * limit + 3), 0);
  const auto at = [&](std::ptrdiff_t k) -> std::ptrdiff_t& { return v[static_cast<std::size_t>(limit + 1 + k)]; };
  reach found;
  for (std::ptrdiff_t d = 0; d <= limit; ++d) {
    // Only the diagonals that d changes reach are kept.
    found.by_changes.emplace_back(v.begin() + (limit + 1 - d - 1), v.begin() + (limit + 1 + d + 2));
    for (std::ptrdiff_t k = -d; k <= d; k += 2) {
      std::ptrdiff_t x = k == -d || (k != d && at(k - 1) < at(k + 1)) ? at(k + 1) : at(k - 1) + 1;
      std::ptrdiff_t y = x - k;
      while (x < n && y < m && a[static_cast<std::size_t>(x)] == b[static_cast<std::size_t>(y)])
        ++x, ++y;
      at(k) = x;
      if (x >= n && y >= m) {
        found.ended = true;
        return found;
      }
    }
  }
  return found;
}

void append(std::vector<diff_line>& out, line_span from, line_change change) {
  for (const auto& text : from)
    out.push_back({change, text});
}

std::vector<diff_line> middle_of(line_span a, line_span b) {
  std::vector<diff_line> out;
  const auto found = search(a, b);
  if (!found.ended) {
    append(out, a, line_change::removed);
    append(out, b, line_change::added);
    return out;
  }
  std::ptrdiff_t x = std::ssize(a), y = std::ssize(b);
  for (std::ptrdiff_t d = std::ssize(found.by_changes) - 1; d >= 0; --d) {
    const auto& v = found.by_changes[static_cast<std::size_t>(d)];
    const auto at = [&](std::ptrdiff_t k) { return v[static_cast<std::size_t>(d + 1 + k)]; };
    const std::ptrdiff_t k = x - y;
    const bool is_added = k == -d || (k != d && at(k - 1) < at(k + 1));
    const std::ptrdiff_t before = is_added ? k + 1 : k - 1;
    const std::ptrdiff_t from_x = d == 0 ? 0 : at(before), from_y = d == 0 ? 0 : from_x - before;
    while (x > from_x && y > from_y) {
      out.push_back({line_change::kept, a[static_cast<std::size_t>(--x)]});
      --y;
    }
    if (d == 0) break;
    if (is_added)
      out.push_back({line_change::added, b[static_cast<std::size_t>(--y)]});
    else
      out.push_back({line_change::removed, a[static_cast<std::size_t>(--x)]});
  }
  std::ranges::reverse(out);
  return out;
}

}  // namespace

std::vector<diff_line> diff_lines(std::string_view a, std::string_view b) {
  const auto all_a = split_lines(a), all_b = split_lines(b);
  const line_span la(all_a), lb(all_b);
  std::size_t begin = 0, end = 0;
  while (begin < la.size() && begin < lb.size() && la[begin] == lb[begin])
    ++begin;
  while (end < la.size() - begin && end < lb.size() - begin && la[la.size() - 1 - end] == lb[lb.size() - 1 - end])
    ++end;
  std::vector<diff_line> out;
  append(out, la.first(begin), line_change::kept);
  const auto middle = middle_of(la.subspan(begin, la.size() - begin - end), lb.subspan(begin, lb.size() - begin - end));
  out.insert(out.end(), middle.begin(), middle.end());
  append(out, la.last(end), line_change::kept);
  return out;
}

std::vector<std::string> unified_diff(std::string_view a, std::string_view b, std::size_t context) {
  const auto all = diff_lines(a, b);
  std::vector<bool> shown(all.size(), false);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].change != line_change::kept)
      for (std::size_t j = i - std::min(i, context); j < std::min(all.size(), i + context + 1); ++j)
        shown[j] = true;
  std::vector<std::string> out;
  std::size_t line_a = 1, line_b = 1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (shown[i] && (i == 0 || !shown[i - 1])) {
      std::size_t of_a = 0, of_b = 0;
      for (std::size_t j = i; j < all.size() && shown[j]; ++j) {
        if (all[j].change != line_change::added) ++of_a;
        if (all[j].change != line_change::removed) ++of_b;
      }
      out.push_back(fmt::format("@@ -{},{} +{},{} @@", line_a, of_a, line_b, of_b));
    }
    if (shown[i])
      out.push_back((all[i].change == line_change::kept    ? ' '
                     : all[i].change == line_change::added ? '+'
                                                           : '-') +
                    all[i].text);
    if (all[i].change != line_change::added) ++line_a;
    if (all[i].change != line_change::removed) ++line_b;
  }
  return out;
}

}  // namespace cudal1::cli
