// The JSON form of records, derived from their BOOST_DESCRIBE_STRUCT: for the store, the frames between processes and
// `--json`. For machine-written JSON: a missing member keeps its default and an unknown one is ignored, so that records
// can grow; a member of the wrong kind is an error that names it.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/describe.hpp>
#include <boost/mp11.hpp>

#include "config/base/json.hpp"

namespace cudal1 {

template <class T>
concept described_struct = boost::describe::has_describe_members<T>::value && !std::is_enum_v<T>;
template <class T>
concept described_enum = boost::describe::has_describe_enumerators<T>::value;

// The enumerator's name as written; "bool_" loses its trailing underscore.
template <described_enum E>
std::string enum_name(E value) {
  const char* found = boost::describe::enum_to_string(value, "?");
  std::string name = found;
  if (name.size() > 1 && name.back() == '_') name.pop_back();
  return name;
}

template <described_enum E>
std::optional<E> enum_value(std::string_view name) {
  std::optional<E> found;
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<E>>([&](auto d) {
    if (enum_name(static_cast<E>(d.value)) == name) found = static_cast<E>(d.value);
  });
  return found;
}

template <class T>
json to_json(const T& value);
template <class T>
expected<void> from_json(const json& source, T& target, const std::string& where = "");

namespace detail {
template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {};
template <class T>
struct is_vector : std::false_type {};
template <class T>
struct is_vector<std::vector<T>> : std::true_type {};
template <class T>
struct is_array : std::false_type {};
template <class T, std::size_t N>
struct is_array<std::array<T, N>> : std::true_type {};
template <class T>
struct is_string_map : std::false_type {};
template <class T>
struct is_string_map<std::map<std::string, T>> : std::true_type {};

inline tl::unexpected<error> wrong_kind(const std::string& where, const char* wanted, const json& got) {
  return fail(errc::parse_error, "{} should be {}, and is {}", where.empty() ? "the value" : where, wanted,
              got.kind_name());
}
}  // namespace detail

template <class T>
json to_json(const T& value) {
  if constexpr (std::is_same_v<T, json>) {
    return value;
  } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
    return json(value);
  } else if constexpr (described_enum<T>) {
    return json(enum_name(value));
  } else if constexpr (std::is_integral_v<T>) {
    return json(static_cast<int64_t>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    return json(static_cast<double>(value));
  } else if constexpr (detail::is_optional<T>::value) {
    return value ? to_json(*value) : json();
  } else if constexpr (detail::is_vector<T>::value || detail::is_array<T>::value) {
    json::array items;
    items.reserve(value.size());
    for (const auto& item : value)
      items.push_back(to_json(static_cast<const typename T::value_type&>(item)));
    return json(std::move(items));
  } else if constexpr (detail::is_string_map<T>::value) {
    json::object members;
    for (const auto& [key, item] : value)
      members.emplace_back(key, to_json(item));
    return json(std::move(members));
  } else {
    static_assert(described_struct<T>, "describe this type with BOOST_DESCRIBE_STRUCT");
    json::object members;
    boost::mp11::mp_for_each<boost::describe::describe_members<T, boost::describe::mod_any_access>>(
        [&](auto d) { members.emplace_back(d.name, to_json(value.*d.pointer)); });
    return json(std::move(members));
  }
}

template <class T>
expected<void> from_json(const json& source, T& target, const std::string& where) {
  if constexpr (std::is_same_v<T, json>) {
    target = source;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!source.is_bool()) return detail::wrong_kind(where, "a boolean", source);
    target = source.as_bool();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!source.is_string()) return detail::wrong_kind(where, "a string", source);
    target = source.as_string();
  } else if constexpr (described_enum<T>) {
    if (!source.is_string()) return detail::wrong_kind(where, "a string", source);
    const auto found = enum_value<T>(source.as_string());
    if (!found) return fail(errc::parse_error, "{}: there is no value \"{}\"", where, source.as_string());
    target = *found;
  } else if constexpr (std::is_integral_v<T>) {
    if (!source.is_int()) return detail::wrong_kind(where, "an integer", source);
    // A 64-bit seed above 2^63 is written as the negative number of the same bits.
    if constexpr (std::is_same_v<T, uint64_t>) {
      target = static_cast<uint64_t>(source.as_int());
      return {};
    }
    if (!std::in_range<T>(source.as_int()))
      return fail(errc::parse_error, "{}: {} is out of range", where, source.as_int());
    target = static_cast<T>(source.as_int());
  } else if constexpr (std::is_floating_point_v<T>) {
    if (source.is_string() && source.as_string() == "nan") {
      target = std::numeric_limits<T>::quiet_NaN();
    } else if (source.is_string() && (source.as_string() == "inf" || source.as_string() == "-inf")) {
      target = source.as_string() == "inf" ? std::numeric_limits<T>::infinity() : -std::numeric_limits<T>::infinity();
    } else {
      if (!source.is_number()) return detail::wrong_kind(where, "a number", source);
      target = static_cast<T>(source.as_number());
    }
  } else if constexpr (detail::is_optional<T>::value) {
    if (source.is_null()) {
      target.reset();
    } else {
      return from_json(source, target.emplace(), where);
    }
  } else if constexpr (detail::is_vector<T>::value) {
    if (!source.is_array()) return detail::wrong_kind(where, "an array", source);
    target.clear();
    target.reserve(source.as_array().size());
    for (const auto& item : source.as_array()) {
      typename T::value_type v{};
      CUDAL1_CHECK(from_json(item, v, where + "[" + std::to_string(target.size()) + "]"));
      target.push_back(std::move(v));
    }
  } else if constexpr (detail::is_array<T>::value) {
    if (!source.is_array() || source.as_array().size() != target.size())
      return detail::wrong_kind(where, ("an array of " + std::to_string(target.size())).c_str(), source);
    for (std::size_t i = 0; i < target.size(); ++i)
      CUDAL1_CHECK(from_json(source.as_array()[i], target[i], where + "[" + std::to_string(i) + "]"));
  } else if constexpr (detail::is_string_map<T>::value) {
    if (!source.is_object()) return detail::wrong_kind(where, "an object", source);
    target.clear();
    for (const auto& [key, item] : source.as_object())
      CUDAL1_CHECK(from_json(item, target[key], where.empty() ? key : where + "." + key));
  } else {
    static_assert(described_struct<T>, "describe this type with BOOST_DESCRIBE_STRUCT");
    if (!source.is_object()) return detail::wrong_kind(where, "an object", source);
    expected<void> result;
    boost::mp11::mp_for_each<boost::describe::describe_members<T, boost::describe::mod_any_access>>([&](auto d) {
      if (!result) return;
      if (const json* member = source.find(d.name))
        result = from_json(*member, target.*d.pointer, where.empty() ? d.name : where + "." + d.name);
    });
    return result;
  }
  return {};
}

// Appends the text of to_json(value), without making the document.
template <class T>
void append_text(std::string& out, const T& value) {
  if constexpr (std::is_same_v<T, json>) {
    out += value.text();
  } else if constexpr (std::is_same_v<T, bool>) {
    out += value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, std::string>) {
    json::append_string(out, value);
  } else if constexpr (described_enum<T>) {
    json::append_string(out, enum_name(value));
  } else if constexpr (std::is_integral_v<T>) {
    out += std::to_string(static_cast<int64_t>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    json::append_double(out, static_cast<double>(value));
  } else if constexpr (detail::is_optional<T>::value) {
    value ? append_text(out, *value) : void(out += "null");
  } else if constexpr (detail::is_vector<T>::value || detail::is_array<T>::value) {
    out += '[';
    for (bool first = true; const auto& item : value) {
      if (!std::exchange(first, false)) out += ',';
      append_text(out, static_cast<const typename T::value_type&>(item));
    }
    out += ']';
  } else if constexpr (detail::is_string_map<T>::value) {
    out += '{';
    for (bool first = true; const auto& [key, item] : value) {
      if (!std::exchange(first, false)) out += ',';
      json::append_string(out, key);
      out += ':';
      append_text(out, item);
    }
    out += '}';
  } else {
    static_assert(described_struct<T>, "describe this type with BOOST_DESCRIBE_STRUCT");
    out += '{';
    bool first = true;
    boost::mp11::mp_for_each<boost::describe::describe_members<T, boost::describe::mod_any_access>>([&](auto d) {
      if (!std::exchange(first, false)) out += ',';
      json::append_string(out, d.name);
      out += ':';
      append_text(out, value.*d.pointer);
    });
    out += '}';
  }
}

// The record as one line of JSON, and back.
template <class T>
std::string to_text(const T& value) {
  std::string text;
  append_text(text, value);
  return text;
}
template <class T>
expected<T> from_text(std::string_view text) {
  CUDAL1_TRY(const json document, json::parse(text));
  T value{};
  CUDAL1_CHECK(from_json(document, value));
  return value;
}

}  // namespace cudal1
