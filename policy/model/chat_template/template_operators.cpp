#include <algorithm>
#include <cmath>

#include "policy/model/chat_template/template_functions.hpp"

namespace cudal1 {

namespace {

tl::unexpected<error> does_not_fit(const std::string& sign, const template_value& left, const template_value& right) {
  return fail(errc::invalid_argument, "{} {} {} is not possible", left.kind_name(), sign, right.kind_name());
}

expected<template_value> whole_numbers(const std::string& sign, int64_t a, int64_t b) {
  int64_t out = 0;
  bool overflows = false;
  if (sign == "+")
    overflows = __builtin_add_overflow(a, b, &out);
  else if (sign == "-")
    overflows = __builtin_sub_overflow(a, b, &out);
  else if (sign == "*")
    overflows = __builtin_mul_overflow(a, b, &out);
  else if (b == 0 || b == -1)
    return fail(errc::invalid_argument, "{} by {} is not supported", sign, b);
  else if (sign == "/")
    return template_value(static_cast<double>(a) / static_cast<double>(b));
  else  // as Python: towards minus infinity
    out = sign == "//" ? a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0) : (a % b + b) % b;
  if (overflows) return fail(errc::invalid_argument, "{} {} {} is too large", a, sign, b);
  return template_value(out);
}

expected<template_value> numbers(const std::string& sign, const template_value& left, const template_value& right) {
  if (!left.is_double() && !right.is_double()) return whole_numbers(sign, left.as_int(), right.as_int());
  const double a = left.as_number(), b = right.as_number();
  if (sign == "+") return template_value(a + b);
  if (sign == "-") return template_value(a - b);
  if (sign == "*") return template_value(a * b);
  if (sign == "/" && b != 0) return template_value(a / b);
  return does_not_fit(sign, left, right);
}

expected<bool> is_in(const template_value& what, const template_value& where) {
  if (where.is_string() && what.is_string()) return where.as_string().find(what.as_string()) != std::string::npos;
  if (where.is_list()) return std::ranges::find(where.as_list(), what) != where.as_list().end();
  if (where.is_mapping()) return what.is_string() && where.find(what.as_string()) != nullptr;
  return does_not_fit("in", what, where);
}

expected<bool> is_less(const template_value& left, const template_value& right) {
  if (left.is_number() && right.is_number()) return left.as_number() < right.as_number();
  if (left.is_string() && right.is_string()) return left.as_string() < right.as_string();
  return does_not_fit("<", left, right);
}

expected<bool> compares(const std::string& sign, const template_value& left, const template_value& right) {
  if (sign == "==") return left == right;
  if (sign == "!=") return !(left == right);
  if (sign == "in") return is_in(left, right);
  if (sign == "<") return is_less(left, right);
  if (sign == ">") return is_less(right, left);
  auto opposite = sign == "not in" ? is_in(left, right) : sign == "<=" ? is_less(right, left) : is_less(left, right);
  if (opposite) *opposite = !*opposite;
  return opposite;
}

// A bound of a slice, within 0 to `size` (or -1 to size - 1 where it counts down).
expected<int64_t> bound(const template_value& v, int64_t otherwise, int64_t size, bool counts_down) {
  if (v.is_undefined() || v.is_none()) return otherwise;
  if (!v.is_int()) return fail(errc::invalid_argument, "the bound of a slice is {}", v.kind_name());
  const int64_t at = v.as_int() < 0 ? v.as_int() + size : v.as_int();
  return std::clamp<int64_t>(at, counts_down ? -1 : 0, counts_down ? size - 1 : size);
}

}  // namespace

expected<template_value> apply_operator(const std::string& sign, const template_value& left,
                                        const template_value& right) {
  if (sign == "~") {
    CUDAL1_TRY(const std::string a, left.text());
    CUDAL1_TRY(const std::string b, right.text());
    return template_value(a + b);
  }
  if (sign == "+" || sign == "-" || sign == "*" || sign == "/" || sign == "//" || sign == "%") {
    if (left.is_number() && right.is_number()) return numbers(sign, left, right);
    if (sign == "+" && left.is_string() && right.is_string())
      return template_value(left.as_string() + right.as_string());
    if (sign == "+" && left.is_list() && right.is_list()) {
      auto both = left.as_list();
      both.insert(both.end(), right.as_list().begin(), right.as_list().end());
      return template_value(std::move(both));
    }
    return does_not_fit(sign, left, right);
  }
  CUDAL1_TRY(const bool holds, compares(sign, left, right));
  return template_value(holds);
}

expected<template_value> item_of(const template_value& of, const template_value& index) {
  if (of.is_undefined()) return fail(errc::invalid_argument, "an undefined value has no items");
  if (of.is_mapping()) {
    const template_value* found = index.is_string() ? of.find(index.as_string()) : nullptr;
    return found == nullptr ? template_value() : *found;
  }
  if (!index.is_int() || !(of.is_list() || of.is_string())) return template_value();
  CUDAL1_TRY(const auto items, of.items());
  const auto size = static_cast<int64_t>(items.size());
  const int64_t at = index.as_int() < 0 ? index.as_int() + size : index.as_int();
  return at >= 0 && at < size ? items[static_cast<std::size_t>(at)] : template_value();
}

expected<template_value> slice_of(const template_value& of, const template_value& from, const template_value& to,
                                  const template_value& step) {
  if (!of.is_list() && !of.is_string()) return fail(errc::invalid_argument, "{} has no slices", of.kind_name());
  CUDAL1_TRY(const auto items, of.items());
  const int64_t by = step.is_int() ? step.as_int() : 1, size = static_cast<int64_t>(items.size());
  if (by == 0) return fail(errc::invalid_argument, "the step of a slice is 0");
  CUDAL1_TRY(const int64_t first, bound(from, by < 0 ? size - 1 : 0, size, by < 0));
  CUDAL1_TRY(const int64_t last, bound(to, by < 0 ? -1 : size, size, by < 0));
  template_value::list out;
  for (int64_t i = first; by < 0 ? i > last : i < last; i += by)
    out.push_back(items[static_cast<std::size_t>(i)]);
  if (of.is_list()) return template_value(std::move(out));
  std::string text;
  for (const auto& each : out)
    text += each.as_string();
  return template_value(std::move(text));
}

}  // namespace cudal1
