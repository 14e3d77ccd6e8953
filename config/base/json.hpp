// A JSON document that preserves key order, the difference between 1 and 1.0, and every double exactly (Boost.JSON 1.81
// loses a bit in a tenth of them), and has no duplicate keys. Boost.JSON's push parser does the lexing.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

class json {
 public:
  using array = std::vector<json>;
  using member = std::pair<std::string, json>;
  using object = std::vector<member>;

  json() = default;
  // In json.cpp: inlined, they would be a large part of all that handles documents.
  json(const json& other);
  json(json&& other) noexcept;
  json& operator=(const json& other);
  json& operator=(json&& other) noexcept;
  ~json();
  json(std::nullptr_t) {}
  json(bool v) : value_(v) {}
  json(int v) : value_(static_cast<int64_t>(v)) {}
  json(unsigned v) : value_(static_cast<int64_t>(v)) {}
  json(int64_t v) : value_(v) {}
  json(uint64_t v) : value_(static_cast<int64_t>(v)) {}
  json(double v) : value_(v) {}
  json(const char* v) : value_(std::string(v)) {}
  json(std::string v) : value_(std::move(v)) {}
  json(std::string_view v) : value_(std::string(v)) {}
  json(array v) : value_(std::move(v)) {}
  json(object v) : value_(std::move(v)) {}
  static json make_object(std::initializer_list<member> members = {}) { return json(object(members)); }
  static json make_array(std::initializer_list<json> items = {}) { return json(array(items)); }

  bool is_null() const { return value_.index() == 0; }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_double() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_int() || is_double(); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<array>(value_); }
  bool is_object() const { return std::holds_alternative<object>(value_); }

  // Check is_...() first: another kind throws std::bad_variant_access.
  bool as_bool() const { return std::get<bool>(value_); }
  int64_t as_int() const { return std::get<int64_t>(value_); }
  double as_double() const { return std::get<double>(value_); }
  double as_number() const { return is_int() ? static_cast<double>(as_int()) : as_double(); }
  const std::string& as_string() const { return std::get<std::string>(value_); }
  const array& as_array() const { return std::get<array>(value_); }
  array& as_array() { return std::get<array>(value_); }
  const object& as_object() const { return std::get<object>(value_); }
  object& as_object() { return std::get<object>(value_); }

  // The member of that name, or null if this is not an object or has no such member.
  const json* find(std::string_view key) const;
  json* find(std::string_view key);
  // Adds or replaces a member; a null value becomes an object first.
  json& set(std::string key, json v);
  // Appends an item; a null value becomes an array first.
  json& push_back(json v);

  bool operator==(const json&) const = default;

  // "null", "a boolean", "an integer", "a number", "a string", "an array", "an object": for messages.
  const char* kind_name() const;

  // The whole text must be one document, nested at most `max_depth` deep, without duplicate keys, with integers that
  // fit int64 and finite doubles. The error names line and column.
  static expected<json> parse(std::string_view text, int max_depth = 64);

  // One line without spaces; doubles in their shortest exact form, always with a point or an exponent. Non-finite
  // doubles become the strings "nan", "inf" and "-inf". indent > 0: one member per line, an array of scalars on one
  // line.
  std::string text(int indent = 0) const;
  // Append what text() writes for such a value.
  static void append_string(std::string& out, std::string_view s);
  static void append_double(std::string& out, double d);

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, array, object> value_;
};

}  // namespace cudal1
