#include "sandbox/program/json_fields.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sandbox/program/near_miss.hpp"

namespace cudal1 {

tl::unexpected<error> wrong_json_kind(const std::string& where, std::string_view wanted, const json& got) {
  return fail(errc::parse_error, "{}: should be {}, but is {}", where, wanted, got.kind_name());
}

expected<void> known_keys(const json& object, const std::string& where, const std::vector<std::string_view>& known) {
  if (!object.is_object()) return wrong_json_kind(where, "an object", object);
  for (const auto& [key, value] : object.as_object())
    if (std::find(known.begin(), known.end(), key) == known.end())
      return fail(errc::parse_error, "{}: unknown key {}{} (known: {})", where, json(key).text(),
                  did_you_mean(key, known), fmt::join(known, ", "));
  return {};
}

expected<const json*> required_key(const json& object, std::string_view key, const std::string& where) {
  if (const auto* found = object.find(key)) return found;
  return fail(errc::parse_error, "{}: the key \"{}\" is missing", where, key);
}

expected<std::string> read_string(const json& v, const std::string& where) {
  if (!v.is_string()) return wrong_json_kind(where, "a string", v);
  return v.as_string();
}

expected<int64_t> read_integer(const json& v, const std::string& where) {
  if (!v.is_int()) return wrong_json_kind(where, "an integer", v);
  return v.as_int();
}

expected<double> read_real(const json& v, const std::string& where) {
  if (v.is_number()) return v.as_number();
  if (v.is_string() && v.as_string() == "inf") return std::numeric_limits<double>::infinity();
  if (v.is_string() && v.as_string() == "-inf") return -std::numeric_limits<double>::infinity();
  if (v.is_string() && v.as_string() == "nan") return std::numeric_limits<double>::quiet_NaN();
  return wrong_json_kind(where, R"(a number, "inf", "-inf" or "nan")", v);
}

expected<std::vector<int64_t>> read_integers(const json& v, const std::string& where) {
  if (!v.is_array()) return wrong_json_kind(where, "an array of integers", v);
  std::vector<int64_t> numbers;
  for (const auto& item : v.as_array()) {
    CUDAL1_TRY(const int64_t n, read_integer(item, fmt::format("{}[{}]", where, numbers.size())));
    numbers.push_back(n);
  }
  return numbers;
}

expected<std::vector<std::string>> read_strings(const json& v, const std::string& where) {
  if (!v.is_array()) return wrong_json_kind(where, "an array of strings", v);
  std::vector<std::string> words;
  for (const auto& item : v.as_array()) {
    CUDAL1_TRY(auto word, read_string(item, fmt::format("{}[{}]", where, words.size())));
    words.push_back(std::move(word));
  }
  return words;
}

tl::unexpected<error> no_such_name(const std::string& name, const std::vector<std::string>& known,
                                   const std::string& where) {
  return fail(errc::parse_error, "{}: there is no {}{} (there are {})", where, json(name).text(),
              did_you_mean(name, {known.begin(), known.end()}), fmt::join(known, ", "));
}

}  // namespace cudal1
