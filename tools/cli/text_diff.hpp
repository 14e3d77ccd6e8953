// The difference of two texts by lines, as `diff -u` shows it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cudal1::cli {

enum class line_change { kept, removed, added };

struct diff_line {
  line_change change = line_change::kept;
  std::string text;  // without its newline
  bool operator==(const diff_line&) const = default;
};

// The fewest changes that make `b` of `a` (E. Myers, "An O(ND) Difference Algorithm and Its Variations", 1986). Where
// more than 4,000 are needed, all lines between the common ends count as replaced.
std::vector<diff_line> diff_lines(std::string_view a, std::string_view b);

// In hunks with so many kept lines around each change; "" for equal texts. Lines begin with ' ', '-' or '+', heads with
// "@@".
std::vector<std::string> unified_diff(std::string_view a, std::string_view b, std::size_t context = 3);

}  // namespace cudal1::cli
