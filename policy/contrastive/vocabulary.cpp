#include "policy/contrastive/vocabulary.hpp"

#include <set>

#include "policy/moves/move_registry.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

constexpr std::string_view of_the_frame[] = {
    frame::device,    frame::problem,   frame::input,          frame::weight, frame::output,     frame::size,
    frame::steps,     frame::bytes,     frame::flops,          frame::floor,  frame::processors, frame::bandwidth,
    frame::rate,      frame::cache,     frame::exemplar,       frame::score,  frame::time,       frame::failed,
    frame::registers, frame::blocks,    frame::threads,        frame::answer, frame::fastest,    frame::keep,
    frame::change,    frame::candidate, frame::implementation, frame::tuned,  frame::end,        frame::group,
    frame::spell,     frame::spelled};

std::vector<std::string> standard_words() {
  std::vector<std::string> out;
  std::set<std::string> known;
  const auto add = [&](std::string word) {
    if (known.insert(word).second) out.push_back(std::move(word));
  };
  for (const auto word : of_the_frame)
    add(std::string(word));
  for (const char* name : frame::names)
    add(name);
  for (const char* word : {"cpu", "cuda", "..", "+", "tf32", "tf32x3", "float32", "halves"})
    add(word);
  for (int i = 0; i <= 32; ++i)
    add(std::to_string(i));
  for (int64_t i = 64; i <= 65536; i *= 2) {
    add(std::to_string(i));
    add(std::to_string(3 * i / 4));
  }
  for (char c = 'a'; c <= 'z'; ++c)
    add(std::string(1, c));
  add("_");
  for (const auto& kind : move_kinds())
    add(kind.name);
  for (const auto& record : operator_records())
    add(std::string(record.name()));
  return out;
}

}  // namespace

vocabulary::vocabulary(std::vector<std::string> words) : words_(std::move(words)) {
  for (std::size_t i = 0; i < words_.size(); ++i)
    tokens_.emplace(words_[i], static_cast<token>(i));
}

const vocabulary& vocabulary::standard() {
  static const vocabulary all{standard_words()};
  return all;
}

expected<vocabulary> vocabulary::of(std::vector<std::string> words) {
  vocabulary out(std::move(words));
  if (out.tokens_.size() != out.words_.size()) return fail(errc::corrupt, "a vocabulary has a word twice");
  for (const auto word : of_the_frame)
    if (!out.find(word)) return fail(errc::corrupt, "a vocabulary lacks the word {}", word);
  for (const char* word : frame::names)
    if (!out.find(word)) return fail(errc::corrupt, "a vocabulary lacks the word {}", word);
  if (!out.find("_")) return fail(errc::corrupt, "a vocabulary lacks the character _");
  return out;
}

std::optional<token> vocabulary::find(std::string_view word) const {
  const auto found = tokens_.find(std::string(word));
  if (found == tokens_.end()) return std::nullopt;
  return found->second;
}

void vocabulary::append(std::string_view word, std::vector<token>& to) const {
  if (const auto known = find(word)) {
    to.push_back(*known);
    return;
  }
  to.push_back(of(frame::spell));
  for (const char c : word)
    to.push_back(find(std::string_view(&c, 1)).value_or(of("_")));
  to.push_back(of(frame::spelled));
}

}  // namespace cudal1
