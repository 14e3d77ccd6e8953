#include "sandbox/program/size_expression.hpp"

#include <charconv>

#include <fmt/format.h>

#include "sandbox/program/form.hpp"
#include "sandbox/program/near_miss.hpp"

namespace cudal1 {

namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Recursive descent: sum = product {+- product}, product = factor {*/ factor}, factor = -factor | number | name |
// (sum).
class evaluator {
 public:
  evaluator(std::string_view text, const size_names& names) : text_(text), names_(names) {}

  expected<int64_t> run() {
    constexpr std::size_t longest = 200;
    if (text_.size() > longest) return fail(errc::parse_error, "a size of {} characters is too long", text_.size());
    CUDAL1_TRY(const int64_t value, sum(0));
    if (peek() != '\0') return wrong(fmt::format("there is '{}' where an operator should be", peek()));
    return value;
  }

 private:
  tl::unexpected<error> wrong(std::string_view why) const {
    return fail(errc::parse_error, "the size \"{}\": {}", printable(text_), printable(why));
  }
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t'))
      ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  expected<int64_t> sum(int depth) {
    CUDAL1_TRY(int64_t value, product(depth));
    while (peek() == '+' || peek() == '-') {
      const bool plus = text_[at_++] == '+';
      CUDAL1_TRY(const int64_t other, product(depth));
      if (plus ? __builtin_add_overflow(value, other, &value) : __builtin_sub_overflow(value, other, &value))
        return wrong("does not fit 64 bits");
    }
    return value;
  }

  expected<int64_t> product(int depth) {
    CUDAL1_TRY(int64_t value, factor(depth));
    while (peek() == '*' || peek() == '/') {
      const bool times = text_[at_++] == '*';
      CUDAL1_TRY(const int64_t other, factor(depth));
      if (times) {
        if (__builtin_mul_overflow(value, other, &value)) return wrong("does not fit 64 bits");
        continue;
      }
      if (other == 0) return wrong("divides by 0");
      if (other == -1) {
        if (__builtin_sub_overflow(int64_t{0}, value, &value)) return wrong("does not fit 64 bits");
        continue;
      }
      if (value % other != 0) return wrong(fmt::format("{} / {} leaves a remainder", value, other));
      value /= other;
    }
    return value;
  }

  expected<int64_t> factor(int depth) {
    constexpr int deepest = 32;
    if (depth > deepest) return wrong("is nested too deep");
    const char c = peek();
    if (c == '-') {
      ++at_;
      CUDAL1_TRY(int64_t value, factor(depth + 1));
      if (__builtin_sub_overflow(int64_t{0}, value, &value)) return wrong("does not fit 64 bits");
      return value;
    }
    if (c == '(') {
      ++at_;
      CUDAL1_TRY(const int64_t value, sum(depth + 1));
      if (peek() != ')') return wrong("a ) is missing");
      ++at_;
      return value;
    }
    if (is_digit(c)) return number();
    if (is_letter(c)) return name();
    return wrong(c == '\0' ? std::string("ends where a number or a name should be")
                           : fmt::format("there is '{}' where a number or a name should be", c));
  }

  expected<int64_t> number() {
    int64_t value = 0;
    const auto [end, problem] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (problem != std::errc{}) return wrong("does not fit 64 bits");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  expected<int64_t> name() {
    const auto start = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_])))
      ++at_;
    const auto word = text_.substr(start, at_ - start);
    if (const auto found = names_.find(word); found != names_.end()) return found->second;
    return wrong(fmt::format("there is no size \"{}\"{}", word, did_you_mean(word, names_, [](const auto& entry) {
                               return std::string_view(entry.first);
                             })));
  }

  std::string_view text_;
  const size_names& names_;
  std::size_t at_ = 0;
};

}  // namespace

expected<int64_t> evaluate_size(std::string_view expression, const size_names& names) {
  return evaluator(expression, names).run();
}

}  // namespace cudal1
