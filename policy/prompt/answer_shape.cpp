#include "policy/prompt/answer_shape.hpp"

#include <algorithm>

#include "policy/prompt/head_pattern.hpp"
#include "policy/prompt/source_pattern.hpp"
#include "policy/prompt/tile_pattern.hpp"

namespace cudal1 {

namespace {

using pattern = byte_pattern;

// Shares of an answer's tokens.
constexpr double share_of_thoughts = 0.4, share_of_words = 0.15, share_of_head = 0.4;

// What a model that thinks writes before its answer.
pattern thoughts() {
  return pattern::choice(
      {pattern::text(""),
       pattern::within(pattern::sequence({pattern::text("<think>"), pattern::text_until("</think>", {"<think"}),
                                          pattern::text("\n\n")}),
                       share_of_thoughts)});
}

pattern section(const std::string& next_heading) {
  return pattern::within(pattern::text_until("\n## " + next_heading + "\n", not_in_words()), share_of_words);
}

pattern with_sections(pattern code) {
  return pattern::sequence({thoughts(), pattern::text("## Performance analysis\n"), section("Design"), section("Code"),
                            pattern::text("```\n"), std::move(code)});
}

// To the body of a kernel.
pattern parameters() {
  auto forbidden = not_in_source();
  forbidden.insert(forbidden.end(), {"(", "{", "}", ";", "//", "#"});
  return pattern::sequence({pattern::text_until(")", std::move(forbidden)), pattern::one_of({" {", "{", "\n{"})});
}

// A kernel begins a line, so that it is neither part of a word nor of a comment, however its model is led there.
pattern source_with(const std::vector<std::string>& kernels) {
  const std::string declared = "__global__ void ";
  const auto after_others = pattern::text_until("\n" + declared, not_in_source());
  std::vector<pattern> parts{pattern::text("---\n")};
  for (const auto& name : kernels) {
    const bool is_first = parts.size() == 1;
    parts.push_back(is_first ? pattern::choice({pattern::text(declared), after_others}) : after_others);
    parts.push_back(launch_bounds());
    parts.push_back(pattern::text(name + "("));
    parts.push_back(parameters());
  }
  parts.push_back(pattern::text_until("\n```", not_in_source()));
  return pattern::sequence(std::move(parts));
}

pattern program_pattern(const task& t) {
  std::vector<pattern> options;
  for (const auto& kernels : kernels_of_answers())
    options.push_back(
        pattern::sequence({pattern::within(head_with_kernels(t, kernels), share_of_head), source_with(kernels)}));
  if (auto head = head_of_operators(t))
    options.push_back(pattern::sequence({pattern::within(std::move(*head), share_of_head), pattern::text("```")}));
  return pattern::choice(std::move(options));
}

bool is_word(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Places of the word in the text.
std::vector<std::size_t> places_of(const std::string& word, const std::string& text) {
  std::vector<std::size_t> out;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) out.push_back(at);
  }
  return out;
}

// The kernels that steps launch, in the order of the source.
std::vector<std::string> launched_kernels(const program& p) {
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const auto* list : {&p.setup, &p.steps})
    for (const auto& s : *list) {
      const auto* launch = std::get_if<launch_step>(&s);
      if (launch == nullptr ||
          std::ranges::count(found, launch->kernel, &std::pair<std::size_t, std::string>::second) > 0)
        continue;
      const auto places = places_of(launch->kernel, p.source);
      found.emplace_back(places.empty() ? std::string::npos : places.front(), launch->kernel);
    }
  std::ranges::sort(found);
  std::vector<std::string> out;
  for (auto& [place, name] : found)
    out.push_back(std::move(name));
  return out;
}

}  // namespace

program with_answer_names(program p) {
  const auto old = launched_kernels(p);
  const auto& all = kernels_of_answers();
  const auto names = std::ranges::find(all, old.size(), &std::vector<std::string>::size);
  if (names == all.end()) return p;
  for (const auto& name : *names)
    if (std::ranges::count(old, name) == 0 && !places_of(name, p.source).empty()) return p;
  program out = std::move(p);
  // By way of names that nothing has: two kernels may exchange theirs.
  for (const bool is_last : {false, true})
    for (std::size_t i = 0; i < old.size(); ++i) {
      const std::string between = "kernel_to_be_named_" + std::to_string(i);
      const auto& from = is_last ? between : old[i];
      const auto& to = is_last ? (*names)[i] : between;
      auto places = places_of(from, out.source);
      for (std::size_t k = places.size(); k-- > 0;)
        out.source.replace(places[k], from.size(), to);
      for (auto* list : {&out.setup, &out.steps})
        for (auto& s : *list)
          if (auto* launch = std::get_if<launch_step>(&s); launch != nullptr && launch->kernel == from)
            launch->kernel = to;
    }
  return out;
}

expected<byte_automaton> shape_of_answer(const task& t, const lowering_target& target, answer_form form) {
  if (form == answer_form::program) return byte_automaton::make(with_sections(program_pattern(t)));
  if (form == answer_form::tile) return byte_automaton::make(with_sections(tile_pattern(t)));
  CUDAL1_TRY(auto moves, schedule_pattern(t, target));
  return byte_automaton::make(
      with_sections(pattern::sequence({pattern::within(std::move(moves), share_of_head), pattern::text("\n```")})));
}

}  // namespace cudal1
