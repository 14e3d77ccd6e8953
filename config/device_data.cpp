#include "config/device_data.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/ranges.h>
#include <toml++/toml.h>

namespace cudal1 {

namespace fs = std::filesystem;

namespace {

// Shares of the datasheet's peaks that an H200 reaches: 4.2 of 4.8 TB/s; through cuBLAS 50 of 67 TFLOP/s in float32,
// 330 of 495 in TF32, 790 of 990 in half types. float64 as float32.
constexpr double memory_share = 4.2 / 4.8;
constexpr arithmetic_rates compute_shares{50.0 / 67, 50.0 / 67, 330.0 / 495, 790.0 / 990};

using rate_member = double arithmetic_rates::*;
constexpr std::array<std::pair<std::string_view, rate_member>, 4> rate_names = {
    {{"float64", &arithmetic_rates::float64},
     {"float32", &arithmetic_rates::float32},
     {"tf32", &arithmetic_rates::tf32},
     {"half", &arithmetic_rates::half}}};

// One table of the file. rest() refuses the keys that no other function was called for.
class fields {
 public:
  fields(const toml::table& table, std::string where) : table_(table), where_(std::move(where)) {}

  expected<std::optional<double>> number(std::string_view key) {
    asked_.push_back(key);
    const auto* node = table_.get(key);
    if (node == nullptr) return std::nullopt;
    const auto value = node->value<double>();
    if (!node->is_number() || !value) return fail(errc::parse_error, "{}{} should be a number", where_, key);
    if (!(*value > 0)) return fail(errc::parse_error, "{}{} = {} should be above 0", where_, key, *value);
    return *value;
  }

  expected<double> required(std::string_view key) {
    CUDAL1_TRY(const auto value, number(key));
    if (!value) return fail(errc::parse_error, "{}{} is missing", where_, key);
    return *value;
  }

  // Without keys where it is missing.
  expected<fields> optional_table(std::string_view key) {
    static const toml::table empty;
    if (table_.get(key) != nullptr) return table(key);
    asked_.push_back(key);
    return fields(empty, where_);
  }

  expected<fields> table(std::string_view key) {
    asked_.push_back(key);
    const auto* node = table_.get(key);
    const auto* inner = node == nullptr ? nullptr : node->as_table();
    if (inner == nullptr) return fail(errc::parse_error, "{}{} should be a table", where_, key);
    return fields(*inner, fmt::format("{}{}.", where_, key));
  }

  // Of one string, or of an array of strings.
  expected<std::vector<std::string>> texts(std::string_view key) {
    asked_.push_back(key);
    std::vector<std::string> found;
    const auto* node = table_.get(key);
    if (const auto* list = node == nullptr ? nullptr : node->as_array())
      for (const auto& item : *list)
        found.push_back(item.value<std::string>().value_or(""));
    else if (node != nullptr)
      found.push_back(node->value<std::string>().value_or(""));
    if (found.empty() || std::find(found.begin(), found.end(), "") != found.end())
      return fail(errc::parse_error, "{}{} should be a string or an array of strings, none of them empty", where_, key);
    return found;
  }

  expected<void> rest() const {
    for (const auto& [key, value] : table_)
      if (std::find(asked_.begin(), asked_.end(), key.str()) == asked_.end())
        return fail(errc::parse_error, "{}there is no key {} (there are {})", where_, key.str(),
                    fmt::join(asked_, ", "));
    return {};
  }

 private:
  const toml::table& table_;
  std::string where_;
  std::vector<std::string_view> asked_;
};

expected<void> read_rates(fields peak, fields reached, device_data& d) {
  for (const auto& [key, member] : rate_names) {
    CUDAL1_TRY(d.peak_tflops.*member, peak.required(key));
    CUDAL1_TRY(const auto measured, reached.number(key));
    d.reached_tflops.*member = measured.value_or(d.peak_tflops.*member * (compute_shares.*member));
    if (member == &arithmetic_rates::tf32) d.measured = d.measured && measured.has_value();
  }
  CUDAL1_CHECK(peak.rest());
  return reached.rest();
}

expected<device_data> read_fields(fields file) {
  device_data d;
  CUDAL1_TRY(const auto names, file.texts("name"));
  d.name = names.front();
  CUDAL1_TRY(d.models, file.texts("models"));
  CUDAL1_TRY(auto memory, file.table("memory"));
  CUDAL1_TRY(d.peak_gb_per_s, memory.required("peak_gb_per_s"));
  CUDAL1_TRY(const auto bandwidth, memory.number("reached_gb_per_s"));
  d.measured = bandwidth.has_value();
  d.reached_gb_per_s = bandwidth.value_or(d.peak_gb_per_s * memory_share);
  if (d.reached_gb_per_s > d.peak_gb_per_s)
    return fail(errc::parse_error, "memory.reached_gb_per_s = {} is above the peak, {}", d.reached_gb_per_s,
                d.peak_gb_per_s);
  CUDAL1_TRY(const double cache, memory.required("cache_bytes"));
  d.cache_bytes = static_cast<int64_t>(cache);
  CUDAL1_CHECK(memory.rest());
  CUDAL1_TRY(auto compute, file.table("compute"));
  CUDAL1_TRY(const double multiprocessors, compute.required("multiprocessors"));
  d.multiprocessors = static_cast<int64_t>(multiprocessors);
  CUDAL1_TRY(auto peak, compute.table("peak_tflops"));
  CUDAL1_TRY(auto reached, compute.optional_table("reached_tflops"));
  CUDAL1_CHECK(read_rates(std::move(peak), std::move(reached), d));
  CUDAL1_CHECK(compute.rest());
  CUDAL1_TRY(auto call, file.table("call"));
  CUDAL1_TRY(d.overhead_us, call.required("overhead_us"));
  CUDAL1_TRY(d.least_us, call.required("least_us"));
  CUDAL1_CHECK(call.rest());
  CUDAL1_CHECK(file.rest());
  return d;
}

// `*` matches any text, including none.
bool matches(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() != '*')
    return !text.empty() && text.front() == pattern.front() && matches(pattern.substr(1), text.substr(1));
  for (std::size_t skip = 0; skip <= text.size(); ++skip)
    if (matches(pattern.substr(1), text.substr(skip))) return true;
  return false;
}

// Those that exist, in search order.
expected<std::vector<std::string>> data_folders() {
  std::error_code problem;
  std::vector<std::string> folders;
  if (const char* own = std::getenv("CUDAL1_DEVICES"); own != nullptr && *own != '\0') {
    if (!fs::is_directory(own, problem))
      return fail(errc::not_found, "CUDAL1_DEVICES names {}, which is not a folder", own);
    folders.emplace_back(own);
  }
  std::string builtin = CUDAL1_SOURCE_DEVICES;
  if (const auto self = fs::read_symlink("/proc/self/exe", problem); !problem) {
    const auto installed = self.parent_path().parent_path() / "share" / "cudal1" / "devices";
    if (fs::is_directory(installed, problem)) builtin = installed.string();
  }
  if (fs::is_directory(builtin, problem)) folders.push_back(builtin);
  return folders;
}

}  // namespace

bool device_data::is_of(std::string_view model) const {
  return std::any_of(models.begin(), models.end(), [&](const std::string& m) { return matches(m, model); });
}

expected<device_data> read_device_data(std::string_view text, const std::string& source) {
  try {
    const toml::table file = toml::parse(text);
    auto read = read_fields(fields(file, ""));
    if (!read) return fail_in(source, read.error());
    return read;
  } catch (const toml::parse_error& e) {
    return fail(errc::parse_error, "{}:{}: {}", source, e.source().begin.line, e.description());
  }
}

expected<std::vector<device_data>> load_device_data(const std::string& folder) {
  std::error_code problem;
  std::vector<std::string> paths;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end; entry.increment(problem))
    if (entry->path().extension() == ".toml") paths.push_back(entry->path().string());
  if (problem) return fail(errc::io_error, "the folder of device data {}: {}", folder, problem.message());
  std::sort(paths.begin(), paths.end());
  std::vector<device_data> found;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    if (!file) return fail(errc::io_error, "cannot read the device data {}", path);
    CUDAL1_TRY(auto one, read_device_data(text, path));
    found.push_back(std::move(one));
  }
  return found;
}

expected<std::vector<device_data>> all_device_data() {
  CUDAL1_TRY(const auto folders, data_folders());
  std::vector<device_data> all;
  for (const auto& folder : folders) {
    CUDAL1_TRY(auto some, load_device_data(folder));
    std::move(some.begin(), some.end(), std::back_inserter(all));
  }
  return all;
}

expected<std::optional<device_data>> find_device_data(std::string_view model) {
  CUDAL1_TRY(auto all, all_device_data());
  const auto found = std::find_if(all.begin(), all.end(), [&](const device_data& d) { return d.is_of(model); });
  if (found == all.end()) return std::nullopt;
  return std::move(*found);
}

}  // namespace cudal1
