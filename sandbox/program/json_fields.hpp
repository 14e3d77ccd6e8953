// Strict reading of JSON fields: every key must be known and of the right kind; errors name the field and what is
// expected.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/describe.hpp"
#include "config/base/error.hpp"
#include "config/base/json.hpp"

namespace cudal1 {

tl::unexpected<error> wrong_json_kind(const std::string& where, std::string_view wanted, const json& got);
// Checks that `object` is an object with no other keys than these.
expected<void> known_keys(const json& object, const std::string& where, const std::vector<std::string_view>& known);
expected<const json*> required_key(const json& object, std::string_view key, const std::string& where);

expected<std::string> read_string(const json& v, const std::string& where);
expected<int64_t> read_integer(const json& v, const std::string& where);
// A number, or "inf", "-inf", "nan".
expected<double> read_real(const json& v, const std::string& where);
expected<std::vector<int64_t>> read_integers(const json& v, const std::string& where);
expected<std::vector<std::string>> read_strings(const json& v, const std::string& where);

tl::unexpected<error> no_such_name(const std::string& name, const std::vector<std::string>& known,
                                   const std::string& where);
// An enumerator by its name.
template <described_enum E>
expected<E> read_enum(const json& v, const std::string& where) {
  CUDAL1_TRY(const auto name, read_string(v, where));
  if (const auto found = enum_value<E>(name)) return *found;
  std::vector<std::string> known;
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<E>>(
      [&](auto d) { known.push_back(enum_name(static_cast<E>(d.value))); });
  return no_such_name(name, known, where);
}

}  // namespace cudal1
