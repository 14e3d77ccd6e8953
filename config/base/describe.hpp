// The JSON form of records, derived from their BOOST_DESCRIBE_STRUCT: for the store, the frames between processes and
// `--json`. For machine-written JSON: a missing member keeps its default and an unknown one is ignored, so that records
// can grow; a member of the wrong kind is an error that names it.
#pragma once

#include <array>
#include <limits>
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

// What does not depend on the record's type is compiled once, in describe.cpp: there are hundreds of records.
tl::unexpected<error> wrong_kind(const std::string& where, const char* wanted, const json& got);
tl::unexpected<error> unknown_value(const std::string& where, const json& got);
expected<void> read_value(const json& source, bool& target, const std::string& where);
expected<void> read_value(const json& source, std::string& target, const std::string& where);
expected<void> read_integer(const json& source, int64_t low, int64_t high, int64_t& target, const std::string& where);
expected<void> read_number(const json& source, double& target, const std::string& where);

// Reads a value of some type into `target`.
using read_function = expected<void> (*)(const json& source, void* target, const std::string& where);
template <class T>
expected<void> read_as(const json& source, void* target, const std::string& where) {
  return from_json(source, *static_cast<T*>(target), where);
}
// A member, unless it is missing or `result` is an error already.
void read_member(const json& source, const char* name, const std::string& where, read_function read, void* target,
                 expected<void>& result);
// The item of an array, and the member of a map.
expected<void> read_item(const json& item, std::size_t index, const std::string& where, read_function read,
                         void* target);
expected<void> read_entry(const json& item, const std::string& key, const std::string& where, read_function read,
                          void* target);

void add_member(json::object& members, const char* name, json value);
// The comma before a member unless it is the first one, its name and the colon.
void append_name(std::string& out, bool& first, std::string_view name);
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
        [&](auto d) { detail::add_member(members, d.name, to_json(value.*d.pointer)); });
    return json(std::move(members));
  }
}

template <class T>
expected<void> from_json(const json& source, T& target, const std::string& where) {
  if constexpr (std::is_same_v<T, json>) {
    target = source;
  } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
    return detail::read_value(source, target, where);
  } else if constexpr (described_enum<T>) {
    if (!source.is_string()) return detail::wrong_kind(where, "a string", source);
    const auto found = enum_value<T>(source.as_string());
    if (!found) return detail::unknown_value(where, source);
    target = *found;
  } else if constexpr (std::is_integral_v<T>) {
    // A 64-bit seed above 2^63 is written as the negative number of the same bits.
    using limits = std::numeric_limits<std::conditional_t<sizeof(T) == sizeof(int64_t), int64_t, T>>;
    int64_t value = 0;
    CUDAL1_CHECK(detail::read_integer(source, limits::min(), limits::max(), value, where));
    target = static_cast<T>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    double value = 0;
    CUDAL1_CHECK(detail::read_number(source, value, where));
    target = static_cast<T>(value);
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
      CUDAL1_CHECK(detail::read_item(item, target.size(), where, detail::read_as<typename T::value_type>, &v));
      target.push_back(std::move(v));
    }
  } else if constexpr (detail::is_array<T>::value) {
    if (!source.is_array() || source.as_array().size() != target.size())
      return detail::wrong_kind(where, ("an array of " + std::to_string(target.size())).c_str(), source);
    for (std::size_t i = 0; i < target.size(); ++i)
      CUDAL1_CHECK(
          detail::read_item(source.as_array()[i], i, where, detail::read_as<typename T::value_type>, &target[i]));
  } else if constexpr (detail::is_string_map<T>::value) {
    if (!source.is_object()) return detail::wrong_kind(where, "an object", source);
    target.clear();
    for (const auto& [key, item] : source.as_object())
      CUDAL1_CHECK(detail::read_entry(item, key, where, detail::read_as<typename T::mapped_type>, &target[key]));
  } else {
    static_assert(described_struct<T>, "describe this type with BOOST_DESCRIBE_STRUCT");
    if (!source.is_object()) return detail::wrong_kind(where, "an object", source);
    expected<void> result;
    boost::mp11::mp_for_each<boost::describe::describe_members<T, boost::describe::mod_any_access>>([&](auto d) {
      auto& member = target.*d.pointer;
      detail::read_member(source, d.name, where, detail::read_as<std::remove_reference_t<decltype(member)>>, &member,
                          result);
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
      detail::append_name(out, first, key);
      append_text(out, item);
    }
    out += '}';
  } else {
    static_assert(described_struct<T>, "describe this type with BOOST_DESCRIBE_STRUCT");
    out += '{';
    bool first = true;
    boost::mp11::mp_for_each<boost::describe::describe_members<T, boost::describe::mod_any_access>>([&](auto d) {
      detail::append_name(out, first, d.name);
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
