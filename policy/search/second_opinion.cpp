#include "policy/search/second_opinion.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "policy/prompt/shown_variant.hpp"

namespace cudal1 {

namespace {

constexpr std::string_view system_text =
    "You audit CUDA kernels that were found by a search, which rewards speed. A variant computes the same as a task's "
    "program, faster. Some variants gain their speed by cheating: they keep results from one call to the next, solve "
    "an "
    "input before the clock starts, compute only a part, return a constant where the checks' tolerances hide it, use a "
    "lower precision, write outside of their tensors, or read what another call left in memory. Others are surprising "
    "but right: algebra saves arithmetic, a product with a diagonal matrix is a scaling, a declared fact about an "
    "input "
    "is used. You are shown one variant that is suspicious. Say what it does, step by step, whether it computes the "
    "task's result for every input that the task allows, and where its speed comes from. Do not guess: quote the lines "
    "that your judgement rests on.\n"
    "Begin with one line: `Rating: honest`, `Rating: doubtful` or `Rating: cheating`. Then give your reasons in at "
    "most 300 words.";

std::string gates_of(const verdict& v) {
  std::string text;
  for (const auto& g : v.gates)
    text += fmt::format("- {} {}: {}\n", g.passed ? "passed" : "FAILED", g.gate, g.reason);
  return text;
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// The rating of a line "Rating: honest", with any Markdown around it.
std::optional<opinion_rating> rating_of(std::string_view line) {
  const std::string text = lower_case(line);
  const auto at = text.find("rating");
  if (at == std::string::npos || text.find_first_of("abcdefghijklmnopqrstuvwxyz") != at) return std::nullopt;
  std::string word;
  for (const char c : std::string_view(text).substr(at + 6))
    if (std::isalpha(static_cast<unsigned char>(c)) != 0)
      word += c;
    else if (!word.empty())
      break;
  return enum_value<opinion_rating>(word);
}

}  // namespace

std::vector<chat_message> opinion_messages(const task& t, const stored_exemplar& suspicious) {
  const auto& [variant, v, similarity] = suspicious;
  std::string text = fmt::format(
      "# The task: {}\n\n{}\n\n```\n{}\n```\n\n# The variant\n\n```\n{}\n```\n\n# What was measured\n\nOutcome: {}{}\n",
      t.name, t.summary, readable_program(print_program(t.reference.text)), readable_program(variant.program),
      enum_name(v.result), v.reason.empty() ? "" : ", " + v.reason);
  if (v.score > 0)
    text +=
        fmt::format("Speedup {:.3g}x (95% interval {:.3g} to {:.3g}): {:.4g} us a call, the task's program {:.4g}.\n",
                    v.score, v.score_interval.low, v.score_interval.high, v.variant_us, v.reference_us);
  if (v.floor_us > 0) text += fmt::format("Estimate of the least possible time of a call: {:.4g} us.\n", v.floor_us);
  if (!v.suspicion.empty()) text += "Suspicion: " + v.suspicion + "\n";
  text += "\nThe gates:\n" + gates_of(v);
  return {{"system", std::string(system_text)}, {"user", std::move(text)}};
}

read_opinion_result read_opinion(std::string_view text) {
  read_opinion_result out;
  bool found = false;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const auto rating = found ? std::nullopt : rating_of(line);
    if (rating) {
      out.rating = *rating;
      found = true;
    } else {
      out.reasons += std::string(line) + "\n";
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const auto first = out.reasons.find_first_not_of(" \n\r\t"), last = out.reasons.find_last_not_of(" \n\r\t");
  out.reasons = first == std::string::npos ? "" : out.reasons.substr(first, last - first + 1);
  return out;
}

}  // namespace cudal1
