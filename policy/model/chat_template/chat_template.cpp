#include "policy/model/chat_template/chat_template.hpp"

#include <algorithm>

#include "policy/model/chat_template/template_functions.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t longest_text = std::size_t{1} << 26;
constexpr int64_t most_steps = 1'000'000;

class renderer {
 public:
  explicit renderer(template_value::mapping variables) { scopes_.push_back(std::move(variables)); }

  expected<std::string> render(const std::vector<template_statement>& statements) {
    CUDAL1_CHECK(run(statements));
    return std::move(out_);
  }

 private:
  expected<void> run(const std::vector<template_statement>& statements) {
    for (const auto& each : statements) {
      auto done = run(each);
      if (!done && !done.error().message.starts_with("line "))
        return fail_in("line " + std::to_string(each.line), done.error());
      CUDAL1_CHECK(std::move(done));
    }
    return {};
  }

  expected<void> run(const template_statement& s) {
    CUDAL1_CHECK(step());
    switch (s.kind) {
      case statement_kind::text:
        out_ += s.text;
        return {};
      case statement_kind::output: {
        CUDAL1_TRY(const auto value, of(s.expressions[0]));
        CUDAL1_TRY(const std::string text, value.text());
        out_ += text;
        return {};
      }
      case statement_kind::branch:
        for (std::size_t i = 0; i < s.expressions.size(); ++i) {
          CUDAL1_TRY(const auto condition, of(s.expressions[i]));
          if (condition.is_true()) return run(s.bodies[i]);
        }
        return s.bodies.size() > s.expressions.size() ? run(s.bodies.back()) : expected<void>();
      case statement_kind::loop:
        return loop(s);
      case statement_kind::assignment:
        break;
    }
    CUDAL1_TRY(auto value, of(s.expressions[0]));
    if (s.names.size() == 1) {
      assign(s.names[0], std::move(value));
      return {};
    }
    template_value* space = variable(s.names[0]);
    if (space == nullptr || !space->is_mapping()) return fail(errc::invalid_argument, "{} is no namespace", s.names[0]);
    space->set(s.names[1], std::move(value));
    return {};
  }

  expected<void> step() {
    if (++steps_ > most_steps || out_.size() > longest_text)
      return fail(errc::unsupported, "the template makes more than {} steps, or {} bytes", most_steps, longest_text);
    return {};
  }

  // Names of a loop: the item, or its parts.
  expected<void> assign_item(const std::vector<std::string>& names, const template_value& item) {
    if (names.size() == 1) {
      assign(names[0], item);
      return {};
    }
    CUDAL1_TRY(const auto parts, item.items());
    if (parts.size() != names.size())
      return fail(errc::invalid_argument, "an item of {} parts has {} names", parts.size(), names.size());
    for (std::size_t i = 0; i < names.size(); ++i)
      assign(names[i], parts[i]);
    return {};
  }

  expected<void> loop(const template_statement& s) {
    CUDAL1_TRY(const auto over, of(s.expressions[0]));
    CUDAL1_TRY(auto items, over.items());
    if (s.expressions.size() > 1) {
      template_value::list kept;
      for (const auto& item : items) {
        CUDAL1_CHECK(step());
        const scope inner(*this);
        CUDAL1_CHECK(assign_item(s.names, item));
        CUDAL1_TRY(const auto condition, of(s.expressions[1]));
        if (condition.is_true()) kept.push_back(item);
      }
      items = std::move(kept);
    }
    if (items.empty()) return s.bodies.size() > 1 ? run(s.bodies[1]) : expected<void>();
    const auto count = static_cast<int64_t>(items.size());
    for (int64_t i = 0; i < count; ++i) {
      CUDAL1_CHECK(step());
      const auto at = static_cast<std::size_t>(i);
      const scope inner(*this);
      template_value::mapping state = {
          {"index", i + 1},  {"index0", i},           {"first", i == 0},           {"last", i + 1 == count},
          {"length", count}, {"revindex", count - i}, {"revindex0", count - i - 1}};
      if (i > 0) state.emplace_back("previtem", items[at - 1]);
      if (i + 1 < count) state.emplace_back("nextitem", items[at + 1]);
      assign("loop", std::move(state));
      CUDAL1_CHECK(assign_item(s.names, items[at]));
      CUDAL1_CHECK(run(s.bodies[0]));
    }
    return {};
  }

  expected<template_value> of(const template_expression& e) {
    CUDAL1_CHECK(step());
    switch (e.kind) {
      case expression_kind::literal:
        return e.value;
      case expression_kind::name: {
        const template_value* found = variable(e.text);
        if (found != nullptr) return *found;
        // So that templates can ask whether it is defined.
        return is_template_function(e.text) ? template_value(template_value::mapping()) : template_value();
      }
      case expression_kind::list:
        return list_of(e);
      case expression_kind::mapping:
        return mapping_of(e);
      case expression_kind::attribute: {
        CUDAL1_TRY(const auto value, of(e.parts[0]));
        if (value.is_undefined()) return fail(errc::invalid_argument, "an undefined value has no attribute {}", e.text);
        return item_of(value, template_value(e.text));
      }
      case expression_kind::item: {
        CUDAL1_TRY(const auto value, of(e.parts[0]));
        CUDAL1_TRY(const auto index, of(e.parts[1]));
        return item_of(value, index);
      }
      case expression_kind::slice: {
        CUDAL1_TRY(const auto all, list_of(e));
        const auto& p = all.as_list();
        return slice_of(p[0], p[1], p[2], p[3]);
      }
      case expression_kind::call:
        return call(e);
      case expression_kind::filter: {
        CUDAL1_TRY(const auto value, of(e.parts[0]));
        CUDAL1_TRY(const auto arguments, arguments_of(e));
        return apply_filter(e.text, value, arguments);
      }
      case expression_kind::test: {
        CUDAL1_TRY(const auto value, of(e.parts[0]));
        CUDAL1_TRY(const auto arguments, arguments_of(e));
        CUDAL1_TRY(const bool holds, apply_test(e.text, value, arguments.by_position));
        return template_value(holds);
      }
      case expression_kind::unary:
        return unary(e);
      case expression_kind::binary:
        return binary(e);
      case expression_kind::conditional:
        break;
    }
    CUDAL1_TRY(const auto condition, of(e.parts[1]));
    return of(condition.is_true() ? e.parts[0] : e.parts[2]);
  }

  expected<template_value> list_of(const template_expression& e) {
    template_value::list out;
    for (const auto& part : e.parts) {
      CUDAL1_TRY(auto value, of(part));
      out.push_back(std::move(value));
    }
    return template_value(std::move(out));
  }

  expected<template_value> mapping_of(const template_expression& e) {
    template_value out = template_value::mapping();
    for (std::size_t i = 0; i + 1 < e.parts.size(); i += 2) {
      CUDAL1_TRY(const auto key, of(e.parts[i]));
      CUDAL1_TRY(auto value, of(e.parts[i + 1]));
      if (!key.is_string()) return fail(errc::unsupported, "keys that are {} are not supported", key.kind_name());
      out.set(key.as_string(), std::move(value));
    }
    return out;
  }

  expected<template_arguments> arguments_of(const template_expression& e) {
    template_arguments out;
    for (std::size_t i = 1; i < e.parts.size(); ++i) {
      CUDAL1_TRY(auto value, of(e.parts[i]));
      out.by_position.push_back(std::move(value));
    }
    for (const auto& [name, expression] : e.named) {
      CUDAL1_TRY(auto value, of(expression));
      out.by_name.emplace_back(name, std::move(value));
    }
    return out;
  }

  expected<template_value> call(const template_expression& e) {
    const auto& what = e.parts[0];
    CUDAL1_TRY(const auto arguments, arguments_of(e));
    if (what.kind == expression_kind::name) return call_function(what.text, arguments);
    if (what.kind != expression_kind::attribute)
      return fail(errc::unsupported, "only functions and methods can be called");
    CUDAL1_TRY(const auto value, of(what.parts[0]));
    return call_method(what.text, value, arguments);
  }

  expected<template_value> unary(const template_expression& e) {
    CUDAL1_TRY(const auto value, of(e.parts[0]));
    if (e.text == "not") return template_value(!value.is_true());
    return apply_operator(e.text, template_value(int64_t{0}), value);
  }

  expected<template_value> binary(const template_expression& e) {
    CUDAL1_TRY(auto left, of(e.parts[0]));
    if (e.text == "and") return left.is_true() ? of(e.parts[1]) : left;
    if (e.text == "or") return left.is_true() ? left : of(e.parts[1]);
    CUDAL1_TRY(const auto right, of(e.parts[1]));
    return apply_operator(e.text, left, right);
  }

  // Variables that are set within a loop end with its round.
  struct scope {
    explicit scope(renderer& r) : of(r) { of.scopes_.emplace_back(); }
    ~scope() { of.scopes_.pop_back(); }
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    renderer& of;
  };

  void assign(const std::string& name, template_value value) {
    auto& innermost = scopes_.back();
    const auto found = std::ranges::find(innermost, name, &template_value::member::first);
    if (found == innermost.end())
      innermost.emplace_back(name, std::move(value));
    else
      found->second = std::move(value);
  }
  template_value* variable(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = std::ranges::find(*scope, name, &template_value::member::first);
      if (found != scope->end()) return &found->second;
    }
    return nullptr;
  }

  std::vector<template_value::mapping> scopes_;
  std::string out_;
  int64_t steps_ = 0;
};

}  // namespace

expected<chat_template> chat_template::make(const std::string& source) {
  chat_template out;
  auto read = parse_template(source);
  if (!read) return fail_in("the chat template", read.error());
  out.statements_ = std::move(*read);
  return out;
}

expected<std::string> chat_template::render(const json& variables) const {
  if (!variables.is_object()) return fail(errc::invalid_argument, "the variables of a chat template are no object");
  auto out = renderer(template_value::of(variables).as_mapping()).render(statements_);
  if (!out) return fail_in("the chat template", out.error());
  return out;
}

}  // namespace cudal1
