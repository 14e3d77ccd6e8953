// The values of chat templates: those of Python that Jinja's templates of language models use.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/base/error.hpp"
#include "config/base/json.hpp"

namespace cudal1 {

class template_value {
 public:
  struct undefined {
    bool operator==(const undefined&) const = default;
  };
  using list = std::vector<template_value>;
  using member = std::pair<std::string, template_value>;
  using mapping = std::vector<member>;  // in the order of insertion

  template_value() = default;  // undefined
  template_value(std::nullptr_t) : value_(nullptr) {}
  template_value(bool v) : value_(v) {}
  template_value(int64_t v) : value_(v) {}
  template_value(double v) : value_(v) {}
  template_value(std::string v) : value_(std::move(v)) {}
  template_value(list v) : value_(std::make_shared<list>(std::move(v))) {}
  template_value(mapping v) : value_(std::make_shared<mapping>(std::move(v))) {}
  static template_value of(const json& v);

  bool is_undefined() const { return std::holds_alternative<undefined>(value_); }
  bool is_none() const { return std::holds_alternative<std::nullptr_t>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_double() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_int() || is_double() || is_bool(); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_list() const { return std::holds_alternative<std::shared_ptr<list>>(value_); }
  bool is_mapping() const { return std::holds_alternative<std::shared_ptr<mapping>>(value_); }

  // Check is_...() first.
  bool as_bool() const { return std::get<bool>(value_); }
  int64_t as_int() const { return is_bool() ? static_cast<int64_t>(as_bool()) : std::get<int64_t>(value_); }
  double as_number() const { return is_double() ? std::get<double>(value_) : static_cast<double>(as_int()); }
  const std::string& as_string() const { return std::get<std::string>(value_); }
  const list& as_list() const { return *std::get<std::shared_ptr<list>>(value_); }
  const mapping& as_mapping() const { return *std::get<std::shared_ptr<mapping>>(value_); }

  const template_value* find(std::string_view key) const;  // null where this is no mapping or has no such key
  // In place: all copies of the mapping see it (`set namespace.x = ...`).
  void set(const std::string& key, template_value v);

  bool is_true() const;
  bool operator==(const template_value& other) const;
  const char* kind_name() const;
  // As Python's str(); errc::unsupported for lists and mappings.
  expected<std::string> text() const;
  // As Python's json.dumps(ensure_ascii=False); indent 0: one line. errc::invalid_argument where a part is undefined.
  expected<std::string> json_text(int64_t indent) const;
  // Items of a list, keys of a mapping, characters of a text.
  expected<list> items() const;
  expected<int64_t> length() const;

 private:
  expected<void> append_json(std::string& out, int64_t indent, int64_t depth) const;

  std::variant<undefined, std::nullptr_t, bool, int64_t, double, std::string, std::shared_ptr<list>,
               std::shared_ptr<mapping>>
      value_;
};

// A text's characters, each in UTF-8.
std::vector<std::string_view> characters_of(std::string_view text);

}  // namespace cudal1
