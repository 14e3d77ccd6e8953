#include "policy/prompt/answer_reader.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "policy/prompt/answer_code.hpp"
#include "policy/prompt/markdown.hpp"
#include "policy/prompt/tile_text.hpp"
#include "sandbox/program/dialect.hpp"
#include "sandbox/program/task_fit.hpp"

namespace cudal1 {

namespace {

enum class section_kind { analysis, design, code, other };

bool has_word(const std::string& heading, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](auto word) { return heading.find(word) != std::string::npos; });
}

section_kind kind_of(std::string heading) {
  std::ranges::transform(heading, heading.begin(), [](unsigned char c) { return std::tolower(c); });
  if (has_word(heading, {"analysis", "analyse", "analyze"})) return section_kind::analysis;
  if (has_word(heading, {"design", "approach", "strategy", "plan"})) return section_kind::design;
  if (has_word(heading, {"code", "program", "implementation", "answer", "solution", "schedule", "moves"}))
    return section_kind::code;
  return section_kind::other;
}

std::string trimmed(const std::string& s) {
  const auto first = s.find_first_not_of(" \t\r\n");
  return first == std::string::npos ? "" : s.substr(first, s.find_last_not_of(" \t\r\n") - first + 1);
}

std::string with_heading(const markdown_section& s) {
  return (s.heading.empty() ? "" : s.heading + "\n\n") + trimmed(s.text);
}

// The sections by what they are for. A further heading inside of a section belongs to the one before it.
struct answer_sections {
  std::string analysis, design;
  std::vector<markdown_section> code;    // under a heading that says so
  std::vector<markdown_section> others;  // all the rest, in order
};

answer_sections sections_of(const std::vector<markdown_section>& all) {
  answer_sections out;
  auto now = section_kind::other;
  for (const auto& s : all) {
    const auto kind = kind_of(s.heading);
    const bool continues = kind == section_kind::other && now != section_kind::other;
    if (!continues) now = kind;
    auto& words = now == section_kind::analysis ? out.analysis : out.design;
    if (now == section_kind::analysis || now == section_kind::design)
      words += (words.empty() ? "" : "\n\n") + (continues ? with_heading(s) : trimmed(s.text));
    (now == section_kind::code ? out.code : out.others).push_back(s);
  }
  return out;
}

error cut_off(const answer_request& r) {
  return {errc::parse_error,
          r.form != answer_form::schedule
              ? "the answer was cut off at its limit of tokens before the program was complete; write a much shorter "
                "analysis and design, and a shorter program"
              : "the answer was cut off at its limit of tokens; write a much shorter analysis and design"};
}

expected<void> read_program_code(const answer_request& r, answer& a) {
  CUDAL1_TRY(auto checked, check_program_text(a.code));
  CUDAL1_CHECK(check_fits(*r.what, checked));
  a.program = std::move(checked);
  return {};
}

expected<void> read_tile_code(const answer_request& r, answer& a) {
  std::string own, text = a.code;
  if (looks_like_tile(a.code)) {
    CUDAL1_TRY(auto code, read_tile(a.code, *r.what));
    own = std::move(code.own);
    text = print_program(code.made);
  }
  CUDAL1_TRY(auto checked, check_program_text(text));
  CUDAL1_CHECK(check_fits(*r.what, checked));
  if (tile_functions_in(own.empty() ? checked.text.source : own).empty())
    return fail(errc::invalid_program,
                "the code calls no function of the tile vocabulary: write its kernels with functions such as "
                "load_row_of_block, sum_of_block, copy_to_tile, for_stages, multiply_ab, for_each_pair in place of "
                "loops of single threads");
  a.program = std::move(checked);
  return {};
}

expected<void> read_schedule_code(const answer_request& r, answer& a) {
  CUDAL1_TRY(auto plan, parse_schedule(a.code));
  if (plan.moves.empty())
    return fail(errc::parse_error, "the schedule has no moves; write at least one, such as fuse(steps=0..2)");
  a.plan = std::move(plan);
  CUDAL1_TRY(auto lowered, lower(*r.what, *a.plan, *r.target));
  a.program = std::move(lowered.checked);
  a.explanation = std::move(lowered.explanation);
  return {};
}

}  // namespace

answer read_answer(std::string_view text, const answer_request& r) {
  answer a;
  bool in_thoughts = false;
  const auto visible = without_thoughts(text, in_thoughts);
  const auto sections = sections_of(read_markdown(visible));
  a.analysis = sections.analysis;
  a.design = sections.design;
  auto code = find_code(sections.code, sections.others, r.form);
  if (code) a.code = *code;
  if (in_thoughts || r.finish_reason == "length") {
    a.problem = cut_off(r);
    return a;
  }
  if (!code) {
    a.problem = std::move(code).error();
    return a;
  }
  const auto read = r.form == answer_form::tile      ? read_tile_code(r, a)
                    : r.form == answer_form::program ? read_program_code(r, a)
                                                     : read_schedule_code(r, a);
  if (!read) a.problem = read.error();
  return a;
}

}  // namespace cudal1
