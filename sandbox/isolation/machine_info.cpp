#include "sandbox/isolation/machine_info.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

#include <sys/utsname.h>
#include <unistd.h>

#include "config/base/hash.hpp"

namespace cudal1 {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The text after "key : " or "key:" in the first line that begins with the key.
std::string field_of(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

// The bytes in "32768K" or "12 kB".
int64_t bytes_of(const std::string& text) {
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc()) return 0;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (unit.find_first_of("kK") != std::string_view::npos) return value << 10;
  if (unit.find('M') != std::string_view::npos) return value << 20;
  return value;
}

}  // namespace

int64_t private_memory_bytes() {
  return bytes_of(field_of("/proc/self/status", "VmData"));
}

int64_t physical_memory_bytes() {
  return ::sysconf(_SC_PHYS_PAGES) * static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
}

int64_t last_level_cache_bytes() {
  int64_t largest = 0;
  for (int index = 0; index < 8; ++index)
    largest = std::max(
        largest, bytes_of(first_line("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size")));
  return largest > 0 ? largest : int64_t{32} << 20;
}

std::string processor_model() {
  for (const char* key : {"model name", "CPU part"})
    if (auto text = field_of("/proc/cpuinfo", key); !text.empty()) return text;
  return "unknown processor";
}

std::string processor_flags_hash() {
  std::string flags = field_of("/proc/cpuinfo", "flags");
  if (flags.empty()) flags = field_of("/proc/cpuinfo", "Features");
  return sha256_hex(flags).substr(0, 12);
}

std::string frequency_governor() {
  return first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
}

std::string kernel_release() {
  utsname name{};
  return ::uname(&name) == 0 ? name.release : "";
}

}  // namespace cudal1
