#include "tools/cli/frequent_reasons.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

namespace cudal1::cli {

namespace {
constexpr std::size_t most_reasons = 5, longest_reason = 110;
}  // namespace

std::string kind_of_reason(const std::string& reason) {
  std::string out;
  bool was_digit = false;
  for (const char c : reason.substr(0, reason.find('\n'))) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit) out += c;
    if (is_digit && !was_digit) out += '#';
    was_digit = is_digit;
  }
  return out.size() > longest_reason ? out.substr(0, longest_reason) + "..." : out;
}

std::vector<std::string> frequent_reasons(const std::map<std::string, int64_t>& count_of_kind) {
  std::vector<std::pair<std::string, int64_t>> sorted(count_of_kind.begin(), count_of_kind.end());
  std::ranges::stable_sort(sorted, std::greater<>(), [](const auto& each) { return each.second; });
  std::vector<std::string> out;
  for (const auto& [reason, count] : sorted)
    if (out.size() < most_reasons) out.push_back(fmt::format("{}x {}", count, reason));
  return out;
}

}  // namespace cudal1::cli
