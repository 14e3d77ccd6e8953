#include "tools/kernelbench/device_words.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "sandbox/cpu/compiler/tokens.hpp"

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

class reader {
 public:
  explicit reader(const std::vector<token>& tokens) : tokens_(tokens) {}

  std::vector<std::size_t> run() {
    while (at_ < tokens_.size()) {
      scope(false);
      ++at_;  // a stray }
    }
    return std::move(places_);
  }

 private:
  bool here(std::string_view word) const { return at_ < tokens_.size() && tokens_[at_].is(word); }

  // To behind the partner of what opens here.
  void skip_group(std::string_view open, std::string_view close) {
    int depth = 0;
    for (; at_ < tokens_.size(); ++at_) {
      if (tokens_[at_].is(open)) ++depth;
      if (tokens_[at_].is(close) && --depth == 0) break;
    }
    if (at_ < tokens_.size()) ++at_;
  }

  // Up to the } that ends it.
  void scope(bool in_class) {
    while (at_ < tokens_.size() && !here("}")) {
      if (tokens_[at_].kind == token_kind::directive || here(";"))
        ++at_;
      else if (in_class && (here("public") || here("private") || here("protected")))
        at_ += 2;  // and the colon
      else
        declaration(in_class);
    }
  }

  void template_head() {
    while (here("template")) {
      ++at_;
      int depth = 0;
      while (at_ < tokens_.size()) {
        if (here("(")) {
          skip_group("(", ")");
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

  void inner_scope(bool in_class) {
    ++at_;
    scope(in_class);
    if (at_ < tokens_.size()) ++at_;
  }

  void declaration(bool in_class) {
    template_head();
    const std::size_t begin = at_;
    bool has_space = false, is_function = false, is_table = false, has_value = false, is_type = false, is_enum = false;
    if (at_ < tokens_.size() && is_one_of(tokens_[at_], k_others)) has_space = true;
    for (; at_ < tokens_.size() && !here(";") && !here("}"); ++at_) {
      const auto& t = tokens_[at_];
      if (is_one_of(t, k_spaces)) has_space = true;
      if (t.is("enum")) is_enum = true;
      if (t.is("struct") || t.is("class") || t.is("union")) is_type = true;
      if (t.is("=")) has_value = true;
      if (t.is("[") && !has_value && !is_function) is_table = is_table || !in_attribute();
      if (t.is("(") && !has_value) is_function = true;
      if (t.is("(") || t.is("[")) {
        skip_group(t.is("(") ? "(" : "[", t.is("(") ? ")" : "]");
        --at_;
        continue;
      }
      if (!t.is("{")) continue;
      if (!is_function && !has_value && !is_table && !is_enum && (is_type || opens_scope(begin))) {
        inner_scope(is_type);
        if (!is_type) return;
        has_space = true;  // what follows are the type's variables, if any
        --at_;
        continue;
      }
      skip_group("{", "}");
      --at_;
      if (is_function && !initialises_members()) {
        ++at_;
        break;
      }
    }
    const bool wanted = is_function || (is_table && !in_class);
    if (wanted && !has_space && begin < tokens_.size()) places_.push_back(tokens_[begin].begin);
  }

  bool in_attribute() const {
    return (at_ + 1 < tokens_.size() && tokens_[at_ + 1].is("[")) || (at_ > 0 && tokens_[at_ - 1].is("["));
  }
  // `namespace x {`, `extern "C" {`
  bool opens_scope(std::size_t begin) const {
    const auto& first = tokens_[begin];
    return first.is("namespace") || first.is("inline") ||
           (first.is("extern") && begin + 2 == at_ && tokens_[begin + 1].kind == token_kind::text);
  }
  // Behind `: a{1}` of a constructor comes more of it.
  bool initialises_members() const {
    return at_ + 1 < tokens_.size() && (tokens_[at_ + 1].is(",") || tokens_[at_ + 1].is("{"));
  }

  const std::vector<token>& tokens_;
  std::size_t at_ = 0;
  std::vector<std::size_t> places_;
};

}  // namespace

expected<std::string> with_device_words(std::string_view source) {
  const std::string joined = join_lines(source);
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
