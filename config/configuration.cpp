#include "config/configuration.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <fstream>
#include <sstream>
#include <type_traits>

#include <boost/mp11.hpp>
#include <fmt/ranges.h>
#include <toml++/toml.h>

namespace cudal1 {

namespace {

template <class F>
void for_each_member(auto& record, F&& visit) {
  using members = boost::describe::describe_members<std::remove_cvref_t<decltype(record)>, boost::describe::mod_public>;
  boost::mp11::mp_for_each<members>([&](auto d) { visit(std::string_view(d.name), record.*d.pointer); });
}

// The descriptions of a section's keys, in the order of its members.
template <class Section>
const std::vector<key_description>& keys_of() {
  static const std::vector<key_description> keys = [] {
    key_recorder recorder;
    [[maybe_unused]] const Section section;
    return recorder.keys;
  }();
  return keys;
}

// Calls visit(section, key, member, description) for every setting.
template <class F>
void for_each_setting(auto& c, F&& visit) {
  for_each_member(c, [&](std::string_view section, auto& options) {
    const auto& keys = keys_of<std::remove_cvref_t<decltype(options)>>();
    std::size_t i = 0;
    for_each_member(options, [&](std::string_view key, auto& member) { visit(section, key, member, keys.at(i++)); });
  });
}

std::string sections_of(const configuration& c) {
  std::string out;
  for_each_member(
      c, [&](std::string_view section, const auto&) { out += (out.empty() ? "" : ", ") + std::string(section); });
  return out;
}

expected<void> check_range(const key_description& d, const std::string& key, double value, const std::string& where) {
  const auto [low, high, unit] = d.range.value();
  if (!(value >= low && value <= high))
    return fail(errc::invalid_argument, "{}: {} = {} is outside {} to {}", where, key, value, low, high);
  return {};
}

expected<void> check_choice(const key_description& d, const std::string& key, const std::string& value,
                            const std::string& where) {
  if (d.choices.empty() || std::ranges::count(d.choices, value) > 0) return {};
  return fail(errc::invalid_argument, "{}: {} = \"{}\" should be one of {}", where, key, value,
              fmt::join(d.choices, ", "));
}

template <class T>
const char* kind_of() {
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_same_v<T, std::string>) return "a string";
  if constexpr (std::is_integral_v<T>) return "an integer";
  return "a number";
}

template <class T>
expected<void> assign(T& member, const key_description& d, const toml::node& value, const std::string& key,
                      const std::string& where) {
  if constexpr (std::is_same_v<T, double>) {
    if (!value.is_number()) return fail(errc::parse_error, "{}: {} should be a number", where, key);
    const double number = *value.value<double>();
    CUDAL1_CHECK(check_range(d, key, number, where));
    member = number;
  } else {
    const auto exact = value.value_exact<T>();
    if (!exact) return fail(errc::parse_error, "{}: {} should be {}", where, key, kind_of<T>());
    if constexpr (std::is_same_v<T, int64_t>) CUDAL1_CHECK(check_range(d, key, static_cast<double>(*exact), where));
    if constexpr (std::is_same_v<T, std::string>) CUDAL1_CHECK(check_choice(d, key, *exact, where));
    member = *exact;
  }
  return {};
}

std::string known_keys(const configuration& c, std::string_view wanted_section) {
  std::string out;
  for_each_setting(c, [&](std::string_view section, std::string_view key, const auto&, const auto&) {
    if (section == wanted_section) out += (out.empty() ? "" : ", ") + std::string(key);
  });
  return out;
}

expected<void> set(configuration& c, std::string_view wanted_section, std::string_view wanted_key,
                   const toml::node& value, const std::string& where) {
  expected<void> result;
  bool found = false;
  for_each_setting(c, [&](std::string_view section, std::string_view key, auto& member, const auto& described) {
    if (section != wanted_section || key != wanted_key) return;
    found = true;
    result = assign(member, described, value, fmt::format("{}.{}", section, key), where);
  });
  if (!found) {
    const auto known = known_keys(c, wanted_section);
    if (known.empty())
      return fail(errc::invalid_argument, "{}: there is no section [{}]; there are {}", where, wanted_section,
                  sections_of(c));
    return fail(errc::invalid_argument, "{}: [{}] has no key \"{}\"; it has {}", where, wanted_section, wanted_key,
                known);
  }
  return result;
}

// The value of a flag or an environment variable, read as TOML; if it is not TOML, it is a string.
expected<void> apply_value(configuration& c, const std::string& section, const std::string& key,
                           const std::string& value, const std::string& where) {
  toml::table parsed;
  try {
    parsed = toml::parse("v = " + value);
  } catch (const toml::parse_error&) {
    parsed = toml::table{{"v", value}};
  }
  return set(c, section, key, *parsed.get("v"), where);
}

expected<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(errc::not_found, "cannot read the configuration file {}", path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Environment variables that are not settings: of the programs, the imports, the Python client, and the scripts that
// build and test.
// Names that begin with CUDAL1_TEST_ are the tests'.
constexpr std::array<std::string_view, 17> other_variables = {"CUDAL1_DATA",         "CUDAL1_CONFIG",
                                                              "CUDAL1_TASKS",        "CUDAL1_DEVICES",
                                                              "CUDAL1_PYTHON",       "CUDAL1_TORCH",
                                                              "CUDAL1_TORCH_PYTHON", "CUDAL1_BUILD",
                                                              "CUDAL1_JOBS",         "CUDAL1_WITH_TESTS",
                                                              "CUDAL1_AA_RUNS",      "CUDAL1_WRONG_VARIANTS",
                                                              "CUDAL1_TIDY_BASE",    "CUDAL1_FAULT_EVALUATIONS",
                                                              "CUDAL1_COORDINATOR",  "CUDAL1_URL",
                                                              "CUDAL1_TOKEN"};

expected<void> apply_environment(configuration& c, const std::vector<std::string>& environment) {
  for (const auto& entry : environment) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos || entry.compare(0, 7, "CUDAL1_") != 0) continue;
    const std::string name = entry.substr(0, equals), value = entry.substr(equals + 1);
    expected<void> result;
    bool found = name.starts_with("CUDAL1_TEST_") || std::ranges::count(other_variables, name) > 0;
    for_each_setting(std::as_const(c), [&](std::string_view section, std::string_view key, const auto&, const auto&) {
      std::string expected_name = fmt::format("CUDAL1_{}_{}", section, key);
      std::transform(expected_name.begin(), expected_name.end(), expected_name.begin(),
                     [](unsigned char ch) { return static_cast<char>(std::toupper(ch)); });
      if (expected_name != name) return;
      found = true;
      if (result)
        result = apply_value(c, std::string(section), std::string(key), value, "environment variable " + name);
    });
    CUDAL1_CHECK(result);
    if (!found)
      return fail(
          errc::invalid_argument,
          "environment variable {}: there is no such setting; `cudal1 config` prints all, and KEY of [SECTION] is "
          "CUDAL1_SECTION_KEY",
          name);
  }
  return {};
}

template <class T>
std::string toml_text(const T& value) {
  if constexpr (std::is_same_v<T, double>) {
    return fmt::format("{}", value);  // the shortest text that reads back to the same number
  } else {
    std::ostringstream out;
    out << toml::value<T>(value);
    return out.str();
  }
}

// "1 to 64 draws; default 5, on a GPU 6"
std::string range_and_default(const key_description& d, const std::string& by_default) {
  std::string out;
  if (d.range)
    out += fmt::format("{} to {}{}{}; ", d.range->low, d.range->high, d.range->unit.empty() ? "" : " ", d.range->unit);
  if (!d.choices.empty()) out += fmt::format("one of {}; ", fmt::join(d.choices, ", "));
  out += "default " + by_default;
  if (d.on_gpu) out += fmt::format(", on a GPU {}", *d.on_gpu);
  return out;
}

// Lines of at most 100 characters that begin with "# ".
std::string comment(std::string_view text) {
  constexpr std::size_t width = 98;
  std::string out;
  while (!text.empty()) {
    std::size_t end = text.size() <= width ? text.size() : text.rfind(' ', width);
    if (end == std::string_view::npos) end = text.find(' ');
    out += fmt::format("# {}\n", text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end == std::string_view::npos ? text.size() : end + 1));
  }
  return out;
}

}  // namespace

configuration gpu_configuration() {
  configuration c;
  for_each_setting(c, [&](std::string_view, std::string_view, auto& member, const key_description& d) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(member)>>)
      if (d.on_gpu) member = static_cast<std::remove_cvref_t<decltype(member)>>(*d.on_gpu);
  });
  return c;
}

expected<void> apply_toml(configuration& c, std::string_view text, const std::string& origin) {
  toml::table document;
  try {
    document = toml::parse(text, origin);
  } catch (const toml::parse_error& e) {
    return fail(errc::parse_error, "{}, line {}: {}", origin, e.source().begin.line, e.description());
  }
  for (const auto& [section, value] : document) {
    const auto* table = value.as_table();
    if (table == nullptr)
      return fail(errc::parse_error, "{}, line {}: \"{}\" should be a [section]", origin, value.source().begin.line,
                  section.str());
    if (known_keys(c, section.str()).empty())
      return fail(errc::invalid_argument, "{}, line {}: there is no section [{}]; there are {}", origin,
                  value.source().begin.line, section.str(), sections_of(c));
    for (const auto& [key, item] : *table)
      CUDAL1_CHECK(
          set(c, section.str(), key.str(), item, fmt::format("{}, line {}", origin, item.source().begin.line)));
  }
  return {};
}

expected<void> apply_setting(configuration& c, std::string_view setting, const std::string& origin) {
  const auto equals = setting.find('='), dot = setting.find('.');
  if (equals == std::string_view::npos || dot == std::string_view::npos || dot > equals)
    return fail(errc::invalid_argument, "{}: \"{}\" should look like section.key=value", origin, setting);
  return apply_value(c, std::string(setting.substr(0, dot)), std::string(setting.substr(dot + 1, equals - dot - 1)),
                     std::string(setting.substr(equals + 1)), origin);
}

expected<configuration> load_configuration(const std::optional<std::string>& file, const std::string& default_file,
                                           const std::vector<std::string>& environment,
                                           const std::vector<std::string>& settings, configuration c) {
  const std::string path = file.value_or(default_file);
  if (file || std::ifstream(path).good()) {
    CUDAL1_TRY(const std::string text, read_file(path));
    CUDAL1_CHECK(apply_toml(c, text, path));
  }
  CUDAL1_CHECK(apply_environment(c, environment));
  for (const auto& setting : settings)
    CUDAL1_CHECK(apply_setting(c, setting, "--set"));
  return c;
}

std::string print_configuration(const configuration& c) {
  std::string out =
      "# The configuration of cudal1, with every key. A line that begins with # is a comment: remove the # of a key "
      "to\n"
      "# give it another value than its default.\n";
  for_each_member(c, [&](std::string_view section, const auto& options) {
    using section_type = std::remove_cvref_t<decltype(options)>;
    out += "\n" + comment(section_type::about) + fmt::format("[{}]\n", section);
    const section_type section_defaults;
    const auto& keys = keys_of<section_type>();
    std::size_t i = 0;
    boost::mp11::mp_for_each<boost::describe::describe_members<section_type, boost::describe::mod_public>>([&](auto d) {
      const auto& value = options.*d.pointer;
      const auto& by_default = section_defaults.*d.pointer;
      const auto& described = keys.at(i++);
      out += "\n" + comment(described.meaning) + comment(range_and_default(described, toml_text(by_default)));
      out += fmt::format("{}{} = {}\n", value == by_default ? "#" : "", d.name, toml_text(value));
    });
  });
  return out;
}

}  // namespace cudal1
