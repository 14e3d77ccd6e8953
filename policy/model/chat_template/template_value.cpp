#include "policy/model/chat_template/template_value.hpp"

#include <algorithm>

namespace cudal1 {

namespace {

// As Python writes it: 1.0, 0.5, 1e-05.
std::string double_text(double d) {
  std::string out;
  json::append_double(out, d);
  return out;
}

}  // namespace

template_value template_value::of(const json& v) {
  if (v.is_null()) return nullptr;
  if (v.is_bool()) return v.as_bool();
  if (v.is_int()) return v.as_int();
  if (v.is_double()) return v.as_double();
  if (v.is_string()) return v.as_string();
  if (v.is_array()) {
    list out;
    for (const auto& each : v.as_array())
      out.push_back(of(each));
    return out;
  }
  mapping out;
  for (const auto& [key, each] : v.as_object())
    out.emplace_back(key, of(each));
  return out;
}

const template_value* template_value::find(std::string_view key) const {
  if (!is_mapping()) return nullptr;
  const auto found = std::ranges::find(as_mapping(), key, &member::first);
  return found == as_mapping().end() ? nullptr : &found->second;
}

void template_value::set(const std::string& key, template_value v) {
  auto& members = *std::get<std::shared_ptr<mapping>>(value_);
  const auto found = std::ranges::find(members, key, &member::first);
  if (found == members.end())
    members.emplace_back(key, std::move(v));
  else
    found->second = std::move(v);
}

bool template_value::is_true() const {
  if (is_undefined() || is_none()) return false;
  if (is_number()) return as_number() != 0;
  if (is_string()) return !as_string().empty();
  return is_list() ? !as_list().empty() : !as_mapping().empty();
}

bool template_value::operator==(const template_value& other) const {
  if (is_number() && other.is_number()) return as_number() == other.as_number();
  if (is_list() && other.is_list()) return as_list() == other.as_list();
  if (is_mapping() && other.is_mapping()) return as_mapping() == other.as_mapping();
  return value_ == other.value_;
}

const char* template_value::kind_name() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "none";
  if (is_bool()) return "a boolean";
  if (is_number()) return "a number";
  if (is_string()) return "a text";
  return is_list() ? "a list" : "a mapping";
}

expected<std::string> template_value::text() const {
  if (is_undefined()) return std::string();
  if (is_none()) return std::string("None");
  if (is_bool()) return std::string(as_bool() ? "True" : "False");
  if (is_int()) return std::to_string(as_int());
  if (is_double()) return double_text(as_number());
  if (is_string()) return as_string();
  return fail(errc::unsupported, "writing {} as text is not supported (use tojson)", kind_name());
}

expected<std::string> template_value::json_text(int64_t indent) const {
  std::string out;
  CUDAL1_CHECK(append_json(out, indent, 1));
  return out;
}

expected<void> template_value::append_json(std::string& out, int64_t indent, int64_t depth) const {
  if (is_undefined()) return fail(errc::invalid_argument, "an undefined value has no JSON form");
  if (is_none() || is_bool()) {
    out += is_none() ? "null" : as_bool() ? "true" : "false";
    return {};
  }
  if (is_string()) {
    json::append_string(out, as_string());
    return {};
  }
  if (is_number()) {
    CUDAL1_TRY(const std::string number, text());
    out += number;
    return {};
  }
  const auto line = [&](int64_t level) {
    if (indent > 0) out += "\n" + std::string(static_cast<std::size_t>(indent * level), ' ');
  };
  const std::string_view between = indent > 0 ? "," : ", ";
  bool is_first = true;
  const auto begin = [&] {
    if (!is_first) out += between;
    is_first = false;
    line(depth);
  };
  out += is_list() ? '[' : '{';
  if (is_list())
    for (const auto& each : as_list()) {
      begin();
      CUDAL1_CHECK(each.append_json(out, indent, depth + 1));
    }
  else
    for (const auto& [key, each] : as_mapping()) {
      begin();
      json::append_string(out, key);
      out += ": ";
      CUDAL1_CHECK(each.append_json(out, indent, depth + 1));
    }
  if (!is_first) line(depth - 1);
  out += is_list() ? ']' : '}';
  return {};
}

expected<template_value::list> template_value::items() const {
  if (is_list()) return as_list();
  list out;
  if (is_mapping()) {
    for (const auto& each : as_mapping())
      out.emplace_back(each.first);
  } else if (is_string()) {
    for (const auto each : characters_of(as_string()))
      out.emplace_back(std::string(each));
  } else if (!is_undefined()) {
    return fail(errc::invalid_argument, "{} has no items", kind_name());
  }
  return out;
}

expected<int64_t> template_value::length() const {
  if (is_string()) return static_cast<int64_t>(characters_of(as_string()).size());
  if (is_list()) return static_cast<int64_t>(as_list().size());
  if (is_mapping()) return static_cast<int64_t>(as_mapping().size());
  if (is_undefined()) return 0;
  return fail(errc::invalid_argument, "{} has no length", kind_name());
}

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u)
      ++end;
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

}  // namespace cudal1
