#include <algorithm>
#include <array>
#include <charconv>

#include "policy/model/chat_template/template_syntax.hpp"

namespace cudal1 {

namespace {

using kind = expression_kind;
using word = template_word::kind;

constexpr int deepest = 100;  // of expressions and statements in each other

template_expression binary(std::string sign, template_expression left, template_expression right) {
  template_expression out;
  out.kind = kind::binary;
  out.text = std::move(sign);
  out.parts.push_back(std::move(left));
  out.parts.push_back(std::move(right));
  return out;
}

template_expression around(kind what, std::string text, template_expression inner) {
  template_expression out;
  out.kind = what;
  out.text = std::move(text);
  out.parts.push_back(std::move(inner));
  return out;
}

// From the loosest operator to the tightest, as in Jinja's grammar.
class expression_parser {
 public:
  explicit expression_parser(std::vector<template_word> words) : words_(std::move(words)) {}

  expected<template_expression> expression() { return conditional(); }
  // Without `a if b else c`, as after `for x in`.
  expected<template_expression> without_condition() { return disjunction(); }
  bool takes(std::string_view sign_or_name) {
    if (!is(sign_or_name)) return false;
    ++at_;
    return true;
  }
  bool is(std::string_view sign_or_name) const {
    const auto& w = words_[at_];
    return (w.what == word::sign || w.what == word::name) && w.text == sign_or_name;
  }
  expected<std::string> name() {
    if (words_[at_].what != word::name) return unexpected("a name");
    return words_[at_++].text;
  }
  expected<void> want(std::string_view sign_or_name) {
    if (takes(sign_or_name)) return {};
    return unexpected(sign_or_name);
  }
  expected<void> end() {
    if (words_[at_].what == word::end) return {};
    return unexpected("the end of the tag");
  }
  // A list without brackets: a tuple.
  expected<template_expression> tuple() {
    CUDAL1_TRY(auto first, conditional());
    if (!is(",")) return first;
    auto out = around(kind::list, "", std::move(first));
    while (takes(",") && words_[at_].what != word::end && !is(")")) {
      CUDAL1_TRY(auto next, conditional());
      out.parts.push_back(std::move(next));
    }
    return out;
  }

 private:
  tl::unexpected<error> unexpected(std::string_view wanted) const {
    const auto& w = words_[at_];
    return fail(errc::parse_error, "{} is expected, and here is {}", wanted,
                w.what == word::end ? std::string("the tag's end") : "\"" + w.text + "\"");
  }

  expected<template_expression> conditional() {
    if (++depth_ > deepest) return fail(errc::unsupported, "expressions nested deeper than {}", deepest);
    CUDAL1_TRY(auto then, disjunction());
    while (takes("if")) {
      CUDAL1_TRY(auto condition, disjunction());
      auto out = around(kind::conditional, "", std::move(then));
      out.parts.push_back(std::move(condition));
      out.parts.emplace_back();
      if (takes("else")) {
        CUDAL1_TRY(out.parts.back(), conditional());
      }
      then = std::move(out);
    }
    --depth_;
    return then;
  }

  // Operators of one level, grouped from the left.
  template <std::size_t count, class Next>
  expected<template_expression> level(const std::array<std::string_view, count>& signs, Next&& next) {
    CUDAL1_TRY(auto left, next());
    while (true) {
      const auto found = std::ranges::find_if(signs, [&](std::string_view s) { return is(s); });
      if (found == signs.end()) return left;
      ++at_;
      CUDAL1_TRY(auto right, next());
      left = binary(std::string(*found), std::move(left), std::move(right));
    }
  }

  expected<template_expression> disjunction() {
    return level(std::array<std::string_view, 1>{"or"}, [this] { return conjunction(); });
  }
  expected<template_expression> conjunction() {
    return level(std::array<std::string_view, 1>{"and"}, [this] { return negation(); });
  }
  expected<template_expression> negation() {
    if (!takes("not")) return comparison();
    if (++depth_ > deepest) return fail(errc::unsupported, "expressions nested deeper than {}", deepest);
    CUDAL1_TRY(auto inner, negation());
    --depth_;
    return around(kind::unary, "not", std::move(inner));
  }

  std::string comparison_sign() {
    for (const std::string_view sign : {"==", "!=", "<=", ">=", "<", ">", "in"})
      if (takes(sign)) return std::string(sign);
    if (is("not") && words_[at_ + 1].what == word::name && words_[at_ + 1].text == "in") {
      at_ += 2;
      return "not in";
    }
    return "";
  }
  expected<template_expression> comparison() {
    CUDAL1_TRY(auto left, sum());
    const std::string sign = comparison_sign();
    if (sign.empty()) return left;
    CUDAL1_TRY(auto right, sum());
    if (!comparison_sign().empty()) return fail(errc::unsupported, "comparisons in a chain (a < b < c)");
    return binary(sign, std::move(left), std::move(right));
  }

  expected<template_expression> sum() {
    return level(std::array<std::string_view, 2>{"+", "-"}, [this] { return joined(); });
  }
  expected<template_expression> joined() {
    return level(std::array<std::string_view, 1>{"~"}, [this] { return product(); });
  }
  expected<template_expression> product() {
    return level(std::array<std::string_view, 4>{"*", "/", "//", "%"}, [this] { return signed_value(); });
  }
  expected<template_expression> signed_value() {
    CUDAL1_TRY(auto made, without_filters());
    return filtered(std::move(made));
  }
  expected<template_expression> without_filters() {
    for (const std::string_view sign : {"-", "+"})
      if (takes(sign)) {
        if (++depth_ > deepest) return fail(errc::unsupported, "expressions nested deeper than {}", deepest);
        CUDAL1_TRY(auto inner, without_filters());
        --depth_;
        return around(kind::unary, std::string(sign), std::move(inner));
      }
    CUDAL1_TRY(auto made, primary());
    return with_parts(std::move(made));
  }

  expected<template_expression> primary() {
    const auto w = words_[at_];
    template_expression out;
    if (w.what == word::sign && (w.text == "(" || w.text == "[" || w.text == "{")) {
      ++at_;
      return w.text == "(" ? in_parentheses() : w.text == "[" ? list_items() : mapping_items();
    }
    if (w.what == word::end || w.what == word::sign) return unexpected("a value");
    ++at_;
    if (w.what == word::text) {
      std::string text = w.text;
      while (words_[at_].what == word::text)
        text += words_[at_++].text;
      out.value = text;
    } else if (w.what == word::integer) {
      int64_t number = 0;
      const auto [end, problem] = std::from_chars(w.text.data(), w.text.data() + w.text.size(), number);
      if (problem != std::errc()) return fail(errc::parse_error, "the number {} is too large", w.text);
      out.value = number;
    } else if (w.what == word::real) {
      out.value = std::strtod(w.text.c_str(), nullptr);
    } else if (w.text == "true" || w.text == "True" || w.text == "false" || w.text == "False") {
      out.value = w.text[0] == 't' || w.text[0] == 'T';
    } else if (w.text == "none" || w.text == "None") {
      out.value = nullptr;
    } else {
      out.kind = kind::name;
      out.text = w.text;
    }
    return out;
  }
  expected<template_expression> in_parentheses() {
    if (takes(")")) return around(kind::list, "", {});
    CUDAL1_TRY(auto out, tuple());
    CUDAL1_CHECK(want(")"));
    return out;
  }
  expected<template_expression> list_items() {
    template_expression out;
    out.kind = kind::list;
    while (!takes("]")) {
      CUDAL1_TRY(auto item, conditional());
      out.parts.push_back(std::move(item));
      if (!is("]")) CUDAL1_CHECK(want(","));
    }
    return out;
  }
  expected<template_expression> mapping_items() {
    template_expression out;
    out.kind = kind::mapping;
    while (!takes("}")) {
      CUDAL1_TRY(auto key, conditional());
      CUDAL1_CHECK(want(":"));
      CUDAL1_TRY(auto value, conditional());
      out.parts.push_back(std::move(key));
      out.parts.push_back(std::move(value));
      if (!is("}")) CUDAL1_CHECK(want(","));
    }
    return out;
  }

  // .name, [index], [from:to:step] and (arguments) after a value.
  expected<template_expression> with_parts(template_expression of) {
    while (true) {
      if (takes(".")) {
        CUDAL1_TRY(auto called, name());
        of = around(kind::attribute, std::move(called), std::move(of));
      } else if (takes("[")) {
        CUDAL1_TRY(of, item_of(std::move(of)));
      } else if (takes("(")) {
        of = around(kind::call, "", std::move(of));
        CUDAL1_CHECK(arguments(of));
      } else {
        return of;
      }
    }
  }
  expected<template_expression> item_of(template_expression of) {
    std::array<template_expression, 3> parts;
    std::size_t count = 0;
    bool is_slice = false;
    while (!takes("]")) {
      if (takes(":")) {
        is_slice = true;
        if (++count > 2) return unexpected("]");
        continue;
      }
      CUDAL1_TRY(parts[count], conditional());
      if (!is(":") && !is("]")) return unexpected("]");
    }
    auto out = around(is_slice ? kind::slice : kind::item, "", std::move(of));
    out.parts.push_back(std::move(parts[0]));
    if (!is_slice) return out;
    out.parts.push_back(std::move(parts[1]));
    out.parts.push_back(std::move(parts[2]));
    return out;
  }
  // Up to the closing parenthesis.
  expected<void> arguments(template_expression& of) {
    while (!takes(")")) {
      if (words_[at_].what == word::name && words_[at_ + 1].what == word::sign && words_[at_ + 1].text == "=") {
        std::string named = words_[at_].text;
        at_ += 2;
        CUDAL1_TRY(auto value, conditional());
        of.named.emplace_back(std::move(named), std::move(value));
      } else {
        CUDAL1_TRY(auto value, conditional());
        of.parts.push_back(std::move(value));
      }
      if (!is(")")) CUDAL1_CHECK(want(","));
    }
    return {};
  }

  expected<template_expression> filtered(template_expression of) {
    while (true) {
      if (takes("|")) {
        CUDAL1_TRY(auto called, name());
        of = around(kind::filter, std::move(called), std::move(of));
        if (takes("(")) CUDAL1_CHECK(arguments(of));
      } else if (takes("is")) {
        const bool is_negated = takes("not");
        CUDAL1_TRY(auto called, name());
        of = around(kind::test, std::move(called), std::move(of));
        if (takes("(")) {
          CUDAL1_CHECK(arguments(of));
        } else if (words_[at_].what == word::text || words_[at_].what == word::integer) {
          CUDAL1_TRY(of.parts.emplace_back(), primary());
        }
        if (is_negated) of = around(kind::unary, "not", std::move(of));
      } else {
        return of;
      }
    }
  }

  std::vector<template_word> words_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

class statement_parser {
 public:
  explicit statement_parser(std::vector<template_piece> pieces) : pieces_(std::move(pieces)) {}

  expected<std::vector<template_statement>> whole() {
    CUDAL1_TRY(auto out, statements());
    if (at_ < pieces_.size()) return fail(errc::parse_error, "line {}: {} ends nothing", pieces_[at_].line, ending_);
    return out;
  }

 private:
  // Up to a block that ends or divides the statement around them: its first word is in ending_, the rest in rest_.
  expected<std::vector<template_statement>> statements() {
    if (++depth_ > deepest) return fail(errc::unsupported, "blocks nested deeper than {}", deepest);
    std::vector<template_statement> out;
    for (; at_ < pieces_.size(); ++at_) {
      const auto& piece = pieces_[at_];
      template_statement made;
      made.line = piece.line;
      if (piece.what == template_piece::kind::text) {
        made.text = std::string(piece.text);
      } else {
        auto read = piece.what == template_piece::kind::output ? output(piece, made) : block(piece, made);
        if (!read && read.error().message.starts_with("line ")) return tl::unexpected<error>(read.error());
        if (!read) return fail_in("line " + std::to_string(piece.line), read.error());
        if (!*read) break;
      }
      out.push_back(std::move(made));
    }
    --depth_;
    return out;
  }

  expected<bool> output(const template_piece& piece, template_statement& made) {
    CUDAL1_TRY(auto words, words_of(piece.text));
    expression_parser parser(std::move(words));
    made.kind = statement_kind::output;
    CUDAL1_TRY(made.expressions.emplace_back(), parser.tuple());
    CUDAL1_CHECK(parser.end());
    return true;
  }

  // False if it is one that ends or divides.
  expected<bool> block(const template_piece& piece, template_statement& made) {
    CUDAL1_TRY(auto words, words_of(piece.text));
    expression_parser parser(std::move(words));
    CUDAL1_TRY(const std::string what, parser.name());
    if (what == "if") return true_if(branch(parser, made));
    if (what == "for") return true_if(loop(parser, made));
    if (what == "set") return true_if(assignment(parser, made));
    if (what == "elif" || what == "else" || what == "endif" || what == "endfor") {
      ending_ = what;
      rest_ = piece.text.substr(piece.text.find(what) + what.size());
      return false;
    }
    return fail(errc::unsupported, "the block \"{}\" is not supported; if, for and set are", what);
  }
  static expected<bool> true_if(expected<void> read) {
    if (!read) return tl::unexpected<error>(read.error());
    return true;
  }

  // The statements of a body, and what ended them.
  expected<std::string> body(template_statement& made) {
    ++at_;
    const int line = made.line;
    CUDAL1_TRY(auto inner, statements());
    made.bodies.push_back(std::move(inner));
    if (at_ >= pieces_.size()) return fail(errc::parse_error, "line {}: this block does not end", line);
    return ending_;
  }

  expected<void> branch(expression_parser& parser, template_statement& made) {
    made.kind = statement_kind::branch;
    CUDAL1_TRY(made.expressions.emplace_back(), parser.expression());
    CUDAL1_CHECK(parser.end());
    bool has_else = false;
    while (true) {
      CUDAL1_TRY(const std::string ended_by, body(made));
      if (ended_by == "endif") return {};
      if (has_else || ended_by == "endfor") return fail(errc::parse_error, "{} within an if", ended_by);
      has_else = ended_by == "else";
      if (has_else) continue;
      CUDAL1_TRY(auto words, words_of(rest_));
      expression_parser condition(std::move(words));
      CUDAL1_TRY(made.expressions.emplace_back(), condition.expression());
      CUDAL1_CHECK(condition.end());
    }
  }

  expected<void> loop(expression_parser& parser, template_statement& made) {
    made.kind = statement_kind::loop;
    do {
      CUDAL1_TRY(auto called, parser.name());
      made.names.push_back(std::move(called));
    } while (parser.takes(","));
    CUDAL1_CHECK(parser.want("in"));
    CUDAL1_TRY(made.expressions.emplace_back(), parser.without_condition());
    if (parser.takes("if")) {
      CUDAL1_TRY(made.expressions.emplace_back(), parser.expression());
    }
    if (parser.is("recursive")) return fail(errc::unsupported, "recursive loops are not supported");
    CUDAL1_CHECK(parser.end());
    CUDAL1_TRY(std::string ended_by, body(made));
    if (ended_by == "else") {
      CUDAL1_TRY(ended_by, body(made));
    }
    if (ended_by != "endfor") return fail(errc::parse_error, "{} within a for", ended_by);
    return {};
  }

  expected<void> assignment(expression_parser& parser, template_statement& made) {
    made.kind = statement_kind::assignment;
    CUDAL1_TRY(made.names.emplace_back(), parser.name());
    if (parser.takes(".")) {
      CUDAL1_TRY(made.names.emplace_back(), parser.name());
    }
    if (!parser.takes("=")) return fail(errc::unsupported, "only {{% set NAME = VALUE %}} is supported");
    CUDAL1_TRY(made.expressions.emplace_back(), parser.tuple());
    return parser.end();
  }

  std::vector<template_piece> pieces_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::string ending_;
  std::string_view rest_;
};

}  // namespace

expected<std::vector<template_statement>> parse_template(std::string_view source) {
  CUDAL1_TRY(auto pieces, cut_template(source));
  return statement_parser(std::move(pieces)).whole();
}

}  // namespace cudal1
