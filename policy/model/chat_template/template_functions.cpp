#include "policy/model/chat_template/template_functions.hpp"

#include <algorithm>
#include <array>
#include <ctime>

#include <utf8proc.h>

namespace cudal1 {

namespace {

constexpr int64_t longest_range = 100'000;

// What Python's str.strip() takes away.
bool is_blank(std::string_view character) {
  constexpr std::array<std::string_view, 29> known = {
      "\t",       "\n",     "\v",     "\f",     "\r",     "\x1c",   "\x1d",   "\x1e",   "\x1f",   " ",
      "\xc2\x85", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
      "\u2007",   "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
  return std::ranges::find(known, character) != known.end();
}

enum class ends { left, right, both };

// Without blanks, or characters of `stripped` where it is a text, at these ends.
expected<template_value> stripped_text(const std::string& text, ends at, const template_value& stripped) {
  if (!stripped.is_undefined() && !stripped.is_none() && !stripped.is_string())
    return fail(errc::invalid_argument, "strip needs a text");
  const auto chosen = stripped.is_string() ? characters_of(stripped.as_string()) : std::vector<std::string_view>();
  const auto goes = [&](std::string_view c) {
    return stripped.is_string() ? std::ranges::find(chosen, c) != chosen.end() : is_blank(c);
  };
  const auto all = characters_of(text);
  std::size_t first = 0, last = all.size();
  while (at != ends::right && first < last && goes(all[first]))
    ++first;
  while (at != ends::left && last > first && goes(all[last - 1]))
    --last;
  if (first == last) return template_value(std::string());
  return template_value(std::string(all[first].data(), all[last - 1].data() + all[last - 1].size()));
}

// Letter by letter: "ß" stays as it is.
std::string in_case(std::string_view text, bool upper) {
  std::string out;
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (auto left = static_cast<utf8proc_ssize_t>(text.size()); left > 0;) {
    utf8proc_int32_t letter = 0;
    const auto size = utf8proc_iterate(at, left, &letter);
    if (size <= 0) return std::string(text);  // not UTF-8
    std::array<utf8proc_uint8_t, 4> made{};
    const auto bytes = utf8proc_encode_char(upper ? utf8proc_toupper(letter) : utf8proc_tolower(letter), made.data());
    out.append(reinterpret_cast<const char*>(made.data()), static_cast<std::size_t>(bytes));
    at += size;
    left -= size;
  }
  return out;
}

expected<template_value> split_text(const std::string& text, const template_value& by, const template_value& most) {
  if (!by.is_string() || by.as_string().empty())
    return fail(errc::unsupported, "split() is supported with a separator only");
  if (!most.is_undefined() && !most.is_int()) return fail(errc::invalid_argument, "split() needs a number of cuts");
  int64_t left = most.is_int() ? most.as_int() : -1;
  template_value::list out;
  std::size_t at = 0;
  while (true) {
    const auto found = left == 0 ? std::string::npos : text.find(by.as_string(), at);
    out.emplace_back(text.substr(at, found == std::string::npos ? found : found - at));
    if (found == std::string::npos) return template_value(std::move(out));
    at = found + by.as_string().size();
    --left;
  }
}

expected<template_value> replaced_text(const std::string& text, const template_value& from, const template_value& to) {
  if (!from.is_string() || from.as_string().empty() || !to.is_string())
    return fail(errc::invalid_argument, "replace needs two texts");
  std::string out;
  std::size_t at = 0;
  for (auto found = text.find(from.as_string()); found != std::string::npos; found = text.find(from.as_string(), at)) {
    out += text.substr(at, found - at) + to.as_string();
    at = found + from.as_string().size();
  }
  return template_value(out + text.substr(at));
}

// Whether the text begins or ends with a text, or one of a list of them.
template <class Matches>
expected<template_value> any_matches(const template_value& wanted, Matches&& matches) {
  if (wanted.is_string()) return template_value(matches(wanted.as_string()));
  if (!wanted.is_list()) return fail(errc::invalid_argument, "startswith and endswith need a text");
  return template_value(std::ranges::any_of(
      wanted.as_list(), [&](const template_value& v) { return v.is_string() && matches(v.as_string()); }));
}

expected<template_value> joined(const template_value& of, const template_value& between) {
  CUDAL1_TRY(const auto items, of.items());
  CUDAL1_TRY(const std::string separator, between.text());
  std::string out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    CUDAL1_TRY(const std::string text, items[i].text());
    out += (i > 0 ? separator : "") + text;
  }
  return template_value(std::move(out));
}

// `select("equalto", x)`: the items that pass a test, or do not.
expected<template_value> selected(const template_value& of, const template_arguments& a, bool wanted) {
  CUDAL1_TRY(const auto items, of.items());
  const auto test = a.get(0, "");
  if (!test.is_undefined() && !test.is_string()) return fail(errc::invalid_argument, "a test's name should be a text");
  const std::span<const template_value> rest(a.by_position);
  template_value::list out;
  for (const auto& each : items) {
    expected<bool> passes = each.is_true();
    if (test.is_string()) passes = apply_test(test.as_string(), each, rest.subspan(1));
    if (!passes) return tl::unexpected<error>(passes.error());
    if (*passes == wanted) out.push_back(each);
  }
  return template_value(std::move(out));
}

template_value pairs_of(const template_value& of) {
  template_value::list out;
  for (const auto& [key, value] : of.as_mapping())
    out.emplace_back(template_value::list{key, value});
  return out;
}

expected<template_value> json_filter(const template_value& of, const template_arguments& a) {
  for (const auto& [name, value] : a.by_name)
    if (name != "indent" && !(name == "ensure_ascii" && !value.is_true()))
      return fail(errc::unsupported, "tojson with {} is not supported", name);
  const auto indent = a.get(0, "indent");
  CUDAL1_TRY(auto text, of.json_text(indent.is_int() ? indent.as_int() : 0));
  return template_value(std::move(text));
}

expected<template_value> end_item(const template_value& of, bool first) {
  CUDAL1_TRY(const auto items, of.items());
  return items.empty() ? template_value() : first ? items.front() : items.back();
}

}  // namespace

template_value template_arguments::get(std::size_t position, std::string_view name) const {
  if (position < by_position.size()) return by_position[position];
  const auto found = std::ranges::find(by_name, name, &template_value::member::first);
  return found == by_name.end() ? template_value() : found->second;
}

expected<template_value> apply_filter(const std::string& name, const template_value& of, const template_arguments& a) {
  if (name == "tojson") return json_filter(of, a);
  if (name == "default" || name == "d") {
    const bool replaces = of.is_undefined() || (a.get(1, "boolean").is_true() && !of.is_true());
    return replaces ? a.get(0, "default_value") : of;
  }
  if (name == "length" || name == "count") {
    CUDAL1_TRY(const int64_t length, of.length());
    return template_value(length);
  }
  if (name == "join") return joined(of, a.get(0, "d"));
  if (name == "list") {
    CUDAL1_TRY(auto items, of.items());
    return template_value(std::move(items));
  }
  if (name == "first" || name == "last") return end_item(of, name == "first");
  if (name == "select" || name == "reject") return selected(of, a, name == "select");
  if (name == "items" && of.is_mapping()) return pairs_of(of);
  CUDAL1_TRY(const std::string text, of.text());
  if (name == "string" || name == "safe") return template_value(text);
  if (name == "trim") return stripped_text(text, ends::both, a.get(0, "chars"));
  if (name == "upper" || name == "lower") return template_value(in_case(text, name == "upper"));
  if (name == "replace") return replaced_text(text, a.get(0, "old"), a.get(1, "new"));
  return fail(errc::unsupported, "the filter \"{}\" is not supported", name);
}

expected<bool> apply_test(const std::string& name, const template_value& of,
                          std::span<const template_value> arguments) {
  if (name == "defined") return !of.is_undefined();
  if (name == "undefined") return of.is_undefined();
  if (name == "none") return of.is_none();
  if (name == "string") return of.is_string();
  if (name == "mapping") return of.is_mapping();
  if (name == "iterable") return of.is_list() || of.is_mapping() || of.is_string() || of.is_undefined();
  if (name == "sequence") return of.is_list() || of.is_mapping() || of.is_string() || of.is_undefined();
  if (name == "boolean") return of.is_bool();
  if (name == "number") return of.is_number();
  if (name == "integer") return of.is_int();
  if (name == "float") return of.is_double();
  if (name == "true" || name == "false") return of.is_bool() && of.as_bool() == (name == "true");
  if ((name == "odd" || name == "even") && of.is_int()) return (of.as_int() % 2 != 0) == (name == "odd");
  if ((name == "equalto" || name == "eq") && arguments.size() == 1) return of == arguments[0];
  if (name == "ne" && arguments.size() == 1) return !(of == arguments[0]);
  if (name == "in" && arguments.size() == 1) {
    CUDAL1_TRY(const auto found, apply_operator("in", of, arguments[0]));
    return found.is_true();
  }
  return fail(errc::unsupported, "the test \"{}\" of {} is not supported", name, of.kind_name());
}

expected<template_value> call_method(const std::string& name, const template_value& of, const template_arguments& a) {
  const auto first = a.get(0, "");
  if (of.is_string()) {
    const std::string& text = of.as_string();
    if (name == "strip") return stripped_text(text, ends::both, first);
    if (name == "lstrip") return stripped_text(text, ends::left, first);
    if (name == "rstrip") return stripped_text(text, ends::right, first);
    if (name == "startswith") return any_matches(first, [&](const std::string& s) { return text.starts_with(s); });
    if (name == "endswith") return any_matches(first, [&](const std::string& s) { return text.ends_with(s); });
    if (name == "split") return split_text(text, first, a.get(1, "maxsplit"));
    if (name == "replace") return replaced_text(text, first, a.get(1, ""));
    if (name == "upper" || name == "lower") return template_value(in_case(text, name == "upper"));
  }
  if (of.is_mapping()) {
    if (name == "items") return pairs_of(of);
    if (name == "get" && first.is_string()) {
      const template_value* found = of.find(first.as_string());
      const auto otherwise = a.get(1, "default");
      return found != nullptr ? *found : otherwise.is_undefined() ? template_value(nullptr) : otherwise;
    }
    template_value::list out;
    for (const auto& [key, value] : of.as_mapping())
      out.push_back(name == "keys" ? template_value(key) : value);
    if (name == "keys" || name == "values") return template_value(std::move(out));
  }
  return fail(errc::unsupported, "the method \"{}\" of {} is not supported", name, of.kind_name());
}

bool is_template_function(std::string_view name) {
  return name == "raise_exception" || name == "namespace" || name == "range" || name == "strftime_now";
}

expected<template_value> call_function(const std::string& name, const template_arguments& a) {
  if (name == "namespace") return template_value(a.by_name);
  const auto first = a.get(0, "");
  if (name == "raise_exception") {
    CUDAL1_TRY(const std::string why, first.text());
    return fail(errc::invalid_argument, "the template refuses these messages: {}", why);
  }
  if (name == "strftime_now" && first.is_string()) {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    ::localtime_r(&now, &local);
    std::array<char, 256> out{};
    return template_value(
        std::string(out.data(), std::strftime(out.data(), out.size(), first.as_string().c_str(), &local)));
  }
  if (name == "range" && first.is_int()) {
    const auto second = a.get(1, "");
    const int64_t from = second.is_int() ? first.as_int() : 0, to = second.is_int() ? second.as_int() : first.as_int();
    if (a.by_position.size() > 2 || to - from > longest_range)
      return fail(errc::unsupported, "range() is supported with two bounds, and up to {} numbers", longest_range);
    template_value::list out;
    for (int64_t i = from; i < to; ++i)
      out.emplace_back(i);
    return template_value(std::move(out));
  }
  return fail(errc::unsupported, "the function \"{}\" of {} is not supported", name, first.kind_name());
}

}  // namespace cudal1
