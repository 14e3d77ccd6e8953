#include "tools/kernelbench/device_words.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "sandbox/program/scanner.hpp"

namespace cudal1::kernelbench {

namespace {

constexpr std::array<std::string_view, 6> k_spaces{"__device__",   "__global__", "__host__",
                                                   "__constant__", "__shared__", "__managed__"};
// Declarations that are neither functions nor tables.
constexpr std::array<std::string_view, 4> k_others{"typedef", "using", "static_assert", "friend"};

template <std::size_t N>
bool is_one_of(const token& t, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), t.text) != words.end();
}

enum class scope_kind { namespace_scope, class_body };

// What the tokens of a declaration have shown so far.
struct declaration_facts {
  bool has_space = false, is_function = false, is_table = false, has_value = false, is_type = false, is_enum = false;

  void note(const token& t) {
    has_space = has_space || is_one_of(t, k_spaces);
    is_enum = is_enum || t.is("enum");
    is_type = is_type || t.is("struct") || t.is("class") || t.is("union");
    has_value = has_value || t.is("=");
    is_function = is_function || (t.is("(") && !has_value);
  }
};

class reader {
 public:
  explicit reader(const std::vector<token>& tokens) : tokens_(tokens) {}

  std::vector<std::size_t> run() {
    while (at_ < tokens_.size()) {
      scope(scope_kind::namespace_scope);
      ++at_;  // a stray }
    }
    return std::move(places_);
  }

 private:
  bool here(std::string_view word) const { return at_ < tokens_.size() && tokens_[at_].is(word); }

  // Moves past the bracket that closes the one here, or to the end.
  void skip_group() { at_ = std::min(after_matching_bracket(tokens_, at_), tokens_.size()); }

  // Up to the } that ends it.
  void scope(scope_kind kind) {
    while (at_ < tokens_.size() && !here("}")) {
      if (tokens_[at_].kind == token_kind::directive || here(";"))
        ++at_;
      else if (kind == scope_kind::class_body && (here("public") || here("private") || here("protected")))
        at_ += 2;  // and the colon
      else
        declaration(kind);
    }
  }

  void template_head() {
    while (here("template")) {
      ++at_;
      int depth = 0;
      while (at_ < tokens_.size()) {
        if (here("(")) {
          skip_group();
          continue;
        }
        if (here("<")) ++depth;
        if (here(">")) --depth;
        if (here(">>")) depth -= 2;
        ++at_;
        if (depth <= 0) break;
      }
    }
  }

  void inner_scope(scope_kind kind) {
    ++at_;
    scope(kind);
    if (at_ < tokens_.size()) ++at_;
  }

  void declaration(scope_kind kind) {
    template_head();
    const std::size_t begin = at_;
    declaration_facts facts;
    if (at_ < tokens_.size() && is_one_of(tokens_[at_], k_others)) facts.has_space = true;
    while (at_ < tokens_.size() && !here(";") && !here("}")) {
      const auto& t = tokens_[at_];
      facts.note(t);
      if (t.is("[") && !facts.has_value && !facts.is_function) facts.is_table = facts.is_table || !in_attribute();
      if (t.is("{") && opens_scope(facts, begin)) {
        inner_scope(facts.is_type ? scope_kind::class_body : scope_kind::namespace_scope);
        if (!facts.is_type) return;
        facts.has_space = true;  // what follows are the type's variables, if any
      } else if (t.is("(") || t.is("[") || t.is("{")) {
        skip_group();
        if (t.is("{") && facts.is_function && !initialises_members()) break;
      } else {
        ++at_;
      }
    }
    const bool wanted = facts.is_function || (facts.is_table && kind == scope_kind::namespace_scope);
    if (wanted && !facts.has_space && begin < tokens_.size()) places_.push_back(tokens_[begin].begin);
  }

  bool in_attribute() const {
    return (at_ + 1 < tokens_.size() && tokens_[at_ + 1].is("[")) || (at_ > 0 && tokens_[at_ - 1].is("["));
  }
  // Of a type, `namespace x {` or `extern "C" {`.
  bool opens_scope(const declaration_facts& facts, std::size_t begin) const {
    if (facts.is_function || facts.has_value || facts.is_table || facts.is_enum) return false;
    const auto& first = tokens_[begin];
    return facts.is_type || first.is("namespace") || first.is("inline") ||
           (first.is("extern") && begin + 2 == at_ && tokens_[begin + 1].kind == token_kind::text);
  }
  // After `: a{1}` of a constructor more initialisers or its body follow.
  bool initialises_members() const { return here(",") || here("{"); }

  const std::vector<token>& tokens_;
  std::size_t at_ = 0;
  std::vector<std::size_t> places_;
};

}  // namespace

expected<std::string> with_device_specifiers(std::string_view source) {
  const std::string joined = join_lines(source).text;
  CUDAL1_TRY(const auto tokens, tokens_of(joined));
  std::string text;
  std::size_t at = 0;
  for (const std::size_t place : reader(tokens).run()) {
    text.append(joined, at, place - at).append("__device__ ");
    at = place;
  }
  return text.append(joined, at);
}

}  // namespace cudal1::kernelbench
