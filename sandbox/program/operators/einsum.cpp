#include "sandbox/program/operators/einsum.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace cudal1 {

namespace {

constexpr int letters = 52;
constexpr int ellipsis = -1;  // until its number of dimensions is known

// The labels of one operand or of the result.
expected<std::vector<int>> read_labels(std::string_view text, std::string_view equation) {
  std::vector<int> labels;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == ' ') continue;
    if (text.substr(i).starts_with("...") && std::find(labels.begin(), labels.end(), ellipsis) == labels.end()) {
      labels.push_back(ellipsis);
      i += 2;
    } else if (c >= 'A' && c <= 'Z') {
      labels.push_back(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      labels.push_back(c - 'a' + letters / 2);
    } else {
      return fail(errc::invalid_program,
                  "equation \"{}\" should have letters, commas, one \"->\" and at most one \"...\" per operand",
                  equation);
    }
  }
  return labels;
}

// Replaces the ellipsis by labels for the last `count` of `all` dimensions.
void open_ellipsis(std::vector<int>& labels, int64_t count, int64_t all) {
  const auto place = std::find(labels.begin(), labels.end(), ellipsis);
  if (place == labels.end()) return;
  const auto at = labels.erase(place) - labels.begin();
  for (int64_t d = 0; d < count; ++d)
    labels.insert(labels.begin() + at + d, letters + static_cast<int>(all - count + d));
}

expected<void> read_operands(einsum_equation& e, std::string_view text, std::string_view equation,
                             const std::vector<int64_t>& ranks) {
  for (bool more = true; more;) {
    const auto comma = text.find(',');
    CUDAL1_TRY(auto labels, read_labels(text.substr(0, comma), equation));
    e.operands.push_back(std::move(labels));
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
  }
  if (e.operands.size() == ranks.size()) return {};
  return fail(errc::invalid_program, "equation \"{}\" names {} operands, but {} are given", equation, e.operands.size(),
              ranks.size());
}

// Replaces the "..." of each operand by labels; returns the largest number of dimensions that one stands for.
expected<int64_t> open_operands(einsum_equation& e, std::string_view equation, const std::vector<int64_t>& ranks) {
  std::vector<int64_t> counts;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto& labels = e.operands[i];
    const bool open = std::find(labels.begin(), labels.end(), ellipsis) != labels.end();
    const int64_t named = static_cast<int64_t>(labels.size()) - (open ? 1 : 0);
    if (open ? named > ranks[i] : named != ranks[i])
      return fail(errc::invalid_program, "equation \"{}\" names {} dimensions of operand {}, which has {}", equation,
                  named, i, ranks[i]);
    counts.push_back(open ? ranks[i] - named : 0);
  }
  const int64_t longest = *std::max_element(counts.begin(), counts.end());
  for (std::size_t i = 0; i < ranks.size(); ++i)
    open_ellipsis(e.operands[i], counts[i], longest);
  return longest;
}

}  // namespace

expected<einsum_equation> parse_einsum(std::string_view equation, const std::vector<int64_t>& ranks) {
  einsum_equation e;
  if (ranks.empty()) return fail(errc::invalid_program, "tensors should not be empty");
  const auto arrow = equation.find("->");
  CUDAL1_CHECK(read_operands(e, equation.substr(0, arrow), equation, ranks));
  CUDAL1_TRY(const int64_t longest, open_operands(e, equation, ranks));
  std::vector<int> count(static_cast<std::size_t>(letters + longest), 0);
  for (const auto& labels : e.operands)
    for (const int label : labels)
      ++count[static_cast<std::size_t>(label)];
  if (arrow == std::string_view::npos) {  // "..." and the labels that appear once
    for (int64_t d = 0; d < longest; ++d)
      e.output.push_back(letters + static_cast<int>(d));
    for (int label = 0; label < letters; ++label)
      if (count[static_cast<std::size_t>(label)] == 1) e.output.push_back(label);
  } else {
    CUDAL1_TRY(e.output, read_labels(equation.substr(arrow + 2), equation));
    open_ellipsis(e.output, longest, longest);
  }
  std::set<int> put;
  for (const int label : e.output)
    if (!put.insert(label).second || count[static_cast<std::size_t>(label)] == 0)
      return fail(errc::invalid_program,
                  "equation \"{}\": each label of the result should appear there once, and in an "
                  "operand",
                  equation);
  for (int64_t d = 0; d < longest; ++d)
    if (put.insert(letters + static_cast<int>(d)).second) e.summed.push_back(letters + static_cast<int>(d));
  for (int label = 0; label < letters; ++label)
    if (count[static_cast<std::size_t>(label)] > 0 && put.insert(label).second) e.summed.push_back(label);
  return e;
}

}  // namespace cudal1
