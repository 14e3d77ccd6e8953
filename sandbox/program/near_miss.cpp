#include "sandbox/program/near_miss.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace cudal1 {

namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Edits that turn a into b: insert, delete, replace, swap neighbours.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    next[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const bool same = lower(a[i]) == lower(b[j]);
      next[j + 1] = std::min({row[j + 1] + 1, next[j] + 1, row[j] + (same ? 0 : 1)});
      if (i > 0 && j > 0 && lower(a[i]) == lower(b[j - 1]) && lower(a[i - 1]) == lower(b[j]))
        next[j + 1] = std::min(next[j + 1], before[j - 1] + 1);
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row[b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view given, const std::vector<std::string_view>& known) {
  constexpr std::size_t longest = 64;  // longer words are not typing errors, and the search stays cheap
  if (given.empty() || given.size() > longest) return "";
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(given.size() / 3, 1) + 1;
  for (const auto word : known) {
    if (word.empty() || word.size() > longest) continue;
    auto d = distance(given, word);
    // "float" for "float32", "aten::softmax" for "aten::softmax.int": a prefix counts as close.
    if (given.size() >= 3 && word.starts_with(given)) d = std::min<std::size_t>(d, 1);
    if (d < best_distance) best_distance = d, best = word;
  }
  return best.empty() || best == given ? "" : fmt::format("; did you mean \"{}\"?", best);
}

}  // namespace cudal1
