#include "config/base/describe.hpp"

#include <limits>

namespace cudal1::detail {

tl::unexpected<error> wrong_kind(const std::string& where, const char* wanted, const json& got) {
  return fail(errc::parse_error, "{} should be {}, and is {}", where.empty() ? "the value" : where, wanted,
              got.kind_name());
}

tl::unexpected<error> unknown_value(const std::string& where, const json& got) {
  return fail(errc::parse_error, "{}: there is no value \"{}\"", where, got.as_string());
}

expected<void> read_value(const json& source, bool& target, const std::string& where) {
  if (!source.is_bool()) return wrong_kind(where, "a boolean", source);
  target = source.as_bool();
  return {};
}

expected<void> read_value(const json& source, std::string& target, const std::string& where) {
  if (!source.is_string()) return wrong_kind(where, "a string", source);
  target = source.as_string();
  return {};
}

expected<void> read_integer(const json& source, int64_t low, int64_t high, int64_t& target, const std::string& where) {
  if (!source.is_int()) return wrong_kind(where, "an integer", source);
  if (source.as_int() < low || source.as_int() > high)
    return fail(errc::parse_error, "{}: {} is out of range", where, source.as_int());
  target = source.as_int();
  return {};
}

expected<void> read_number(const json& source, double& target, const std::string& where) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (source.is_string() && source.as_string() == "nan") {
    target = std::numeric_limits<double>::quiet_NaN();
  } else if (source.is_string() && (source.as_string() == "inf" || source.as_string() == "-inf")) {
    target = source.as_string() == "inf" ? infinity : -infinity;
  } else {
    if (!source.is_number()) return wrong_kind(where, "a number", source);
    target = source.as_number();
  }
  return {};
}

void read_member(const json& source, const char* name, const std::string& where, read_function read, void* target,
                 expected<void>& result) {
  if (!result) return;
  if (const json* member = source.find(name))
    result = read(*member, target, where.empty() ? std::string(name) : where + "." + name);
}

expected<void> read_item(const json& item, std::size_t index, const std::string& where, read_function read,
                         void* target) {
  return read(item, target, where + "[" + std::to_string(index) + "]");
}

expected<void> read_entry(const json& item, const std::string& key, const std::string& where, read_function read,
                          void* target) {
  return read(item, target, where.empty() ? key : where + "." + key);
}

void add_member(json::object& members, const char* name, json value) {
  members.emplace_back(name, std::move(value));
}

void append_name(std::string& out, bool& first, std::string_view name) {
  if (!std::exchange(first, false)) out += ',';
  json::append_string(out, name);
  out += ':';
}

}  // namespace cudal1::detail
