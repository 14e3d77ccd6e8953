#include "config/configuration.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <sstream>
#include <type_traits>

#include <boost/mp11.hpp>
#include <toml++/toml.h>

namespace cudal1 {

namespace {

struct range {
  std::string_view key;
  double low, high;
};

// Every number has a range; a number without one does not get past the tests.
constexpr range ranges[] = {
    {"verification.declared_draws", 1, 64},
    {"verification.error_factor_strict", 1, 1e4},
    {"verification.error_floor_float32", 0, 1e-2},
    {"verification.error_floor_half", 0, 0.1},
    {"verification.call_limit_ms", 1, 6e5},
    {"verification.memory_limit_mb", 16, 1 << 20},
    {"timing.screening_forks", 1, 100},
    {"timing.screening_pairs", 1, 100},
    {"timing.screening_half_width", 1e-3, 10},
    {"timing.max_screening_forks", 1, 1000},
    {"timing.refinement_forks", 1, 100},
    {"timing.refinement_pairs", 1, 100},
    {"timing.target_half_width", 1e-4, 0.5},
    {"timing.decided_half_width", 1e-4, 0.5},
    {"timing.max_forks", 1, 1000},
    {"timing.max_seconds", 0.1, 3600},
    {"timing.confirmed_limit", 1e-3, 10},
    {"timing.screened_limit", 1e-3, 10},
    {"timing.fork_bias", 1e-5, 0.5},
    {"timing.least_gain", 0, 0.5},
    {"device.threads", 1, 1024},
    {"device.timing_core", -1, 4095},
    {"device.cores_per_gpu", 0, 64},
    {"device.gpu_memory_limit_mb", 0, 1 << 20},
    {"device.flush_mb", 0, 1 << 14},
    {"compiler.workers", 0, 1024},
    {"compiler.time_limit_s", 0.5, 3600},
    {"compiler.memory_limit_mb", 128, 1 << 20},
    {"compiler.cache_mb", 1, 1 << 24},
    {"search.evaluations_per_task", 1, 1e9},
    {"search.time_limit_s", 0, 1e9},
    {"search.in_a_row", 1, 1024},
    {"search.group_size", 2, 1024},
    {"search.exemplars", 0, 1024},
};

template <class F>
void for_each_member(auto& record, F&& visit) {
  using members = boost::describe::describe_members<std::remove_cvref_t<decltype(record)>, boost::describe::mod_public>;
  boost::mp11::mp_for_each<members>([&](auto d) { visit(std::string_view(d.name), record.*d.pointer); });
}

// Calls visit(section, key, member) for every setting.
template <class F>
void for_each_setting(auto& c, F&& visit) {
  for_each_member(c, [&](std::string_view section, auto& options) {
    for_each_member(options, [&](std::string_view key, auto& member) { visit(section, key, member); });
  });
}

expected<void> check_range(const std::string& key, double value, const std::string& where) {
  const auto found = std::find_if(std::begin(ranges), std::end(ranges), [&](const range& r) { return r.key == key; });
  if (found == std::end(ranges)) return fail(errc::invalid_argument, "{}: {} has no range (a defect)", where, key);
  if (!(value >= found->low && value <= found->high))
    return fail(errc::invalid_argument, "{}: {} = {} is outside {} to {}", where, key, value, found->low, found->high);
  return {};
}

template <class T>
const char* kind_of() {
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_same_v<T, std::string>) return "a string";
  if constexpr (std::is_integral_v<T>) return "an integer";
  return "a number";
}

template <class T>
expected<void> assign(T& member, const toml::node& value, const std::string& key, const std::string& where) {
  if constexpr (std::is_same_v<T, double>) {
    if (!value.is_number()) return fail(errc::parse_error, "{}: {} should be a number", where, key);
    const double d = *value.value<double>();
    CUDAL1_CHECK(check_range(key, d, where));
    member = d;
  } else {
    const auto exact = value.value_exact<T>();
    if (!exact) return fail(errc::parse_error, "{}: {} should be {}", where, key, kind_of<T>());
    if constexpr (std::is_same_v<T, int64_t>) CUDAL1_CHECK(check_range(key, static_cast<double>(*exact), where));
    member = *exact;
  }
  return {};
}

std::string known_keys(const configuration& c, std::string_view wanted_section) {
  std::string out;
  for_each_setting(c, [&](std::string_view section, std::string_view key, const auto&) {
    if (section == wanted_section) out += (out.empty() ? "" : ", ") + std::string(key);
  });
  return out;
}

expected<void> set(configuration& c, std::string_view wanted_section, std::string_view wanted_key,
                   const toml::node& value, const std::string& where) {
  expected<void> result;
  bool found = false;
  for_each_setting(c, [&](std::string_view section, std::string_view key, auto& member) {
    if (section != wanted_section || key != wanted_key) return;
    found = true;
    result = assign(member, value, fmt::format("{}.{}", section, key), where);
  });
  if (!found) {
    const auto known = known_keys(c, wanted_section);
    if (known.empty())
      return fail(errc::invalid_argument,
                  "{}: there is no section [{}]; there are verification, timing, device, compiler, search", where,
                  wanted_section);
    return fail(errc::invalid_argument, "{}: [{}] has no key \"{}\"; it has {}", where, wanted_section, wanted_key,
                known);
  }
  return result;
}

// The value of a flag or an environment variable, as TOML would read it; what TOML cannot read is a string.
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

expected<void> apply_environment(configuration& c, const std::vector<std::string>& environment) {
  for (const auto& entry : environment) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos || entry.compare(0, 7, "CUDAL1_") != 0) continue;
    const std::string name = entry.substr(0, equals), value = entry.substr(equals + 1);
    expected<void> result;
    for_each_setting(std::as_const(c), [&](std::string_view section, std::string_view key, const auto&) {
      std::string expected_name = fmt::format("CUDAL1_{}_{}", section, key);
      std::transform(expected_name.begin(), expected_name.end(), expected_name.begin(),
                     [](unsigned char ch) { return static_cast<char>(std::toupper(ch)); });
      if (expected_name == name && result)
        result = apply_value(c, std::string(section), std::string(key), value, "environment variable " + name);
    });
    CUDAL1_CHECK(result);
  }
  return {};
}

}  // namespace

configuration default_configuration(std::string_view kind) {
  configuration c;
  if (kind == "cuda") {
    // One process times both sides there, on a clock that nothing else disturbs. A fork is then two loads, which cost
    // as much as some pairs: few forks of many pairs. The draws that a screening is timed on are those of the check.
    c.verification.declared_draws = 6;
    c.verification.call_limit_ms = 1000;
    c.timing.fork_bias = 0.004;
    c.timing.least_gain = 0.02;  // a renewed pool costs as much as some evaluations
    c.timing.screening_forks = 2;
    c.timing.screening_pairs = 5;
    c.timing.screening_half_width = 0.03;
    c.timing.max_screening_forks = 4;
    c.timing.refinement_forks = 2;
    c.timing.refinement_pairs = 7;
    c.timing.target_half_width = 0.01;
    c.timing.decided_half_width = 0.03;
    c.timing.max_forks = 14;
    c.timing.max_seconds = 1;  // of calls of many milliseconds; others end long before
    c.timing.confirmed_limit = 0.1;
    c.timing.screened_limit = 0.3;
    // An evaluation of a small task takes 13 ms, and the pool that it needs, with all answers, several times that.
    c.search.in_a_row = 6;
  }
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
      return fail(errc::invalid_argument,
                  "{}, line {}: there is no section [{}]; there are verification, timing, device, compiler, search",
                  origin, value.source().begin.line, section.str());
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
                                           const std::vector<std::string>& settings, std::string_view kind) {
  configuration c = default_configuration(kind);
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
  std::string out, open;
  for_each_setting(c, [&](std::string_view section, std::string_view key, const auto& member) {
    if (section != open) {
      out += fmt::format("{}[{}]\n", open.empty() ? "" : "\n", section);
      open = section;
    }
    using member_type = std::remove_cvref_t<decltype(member)>;
    std::ostringstream value;
    if constexpr (std::is_same_v<member_type, std::string>) {
      value << toml::value<std::string>(member);
    } else {
      value << toml::value<member_type>(member);
    }
    out += fmt::format("{} = {}", key, value.str());
    if constexpr (std::is_arithmetic_v<member_type> && !std::is_same_v<member_type, bool>) {
      const auto full = fmt::format("{}.{}", section, key);
      for (const auto& r : ranges)
        if (r.key == full) out += fmt::format("  # {} to {}", r.low, r.high);
    }
    out += '\n';
  });
  return out;
}

}  // namespace cudal1
