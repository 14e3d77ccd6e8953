#include "sandbox/cuda/gpus/near_cores.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>

namespace cudal1 {

namespace {

constexpr int most_cores = 1 << 16;

bool take_number(std::string_view& text, int& number) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || number < 0 || number >= most_cores) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

std::vector<int> read_core_list(std::string_view text) {
  std::vector<int> cores;
  for (int first = 0; take_number(text, first);) {
    int last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      if (!take_number(text, last)) break;
    }
    for (int core = first; core <= last; ++core)
      cores.push_back(core);
    if (!text.starts_with(',')) break;
    text.remove_prefix(1);
  }
  return cores;
}

std::string format_core_list(const std::vector<int>& cores) {
  std::string text;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1)
      ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cores[i]);
    if (last > i) text += '-' + std::to_string(cores[last]);
    i = last + 1;
  }
  return text;
}

std::vector<int> cores_near(const std::string& pci_bus) {
  // NVML writes the domain with eight digits, Linux with four, in lower case.
  std::string address = pci_bus;
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char ch) { return static_cast<char>(std::tolower(ch)); });
  if (const auto colon = address.find(':'); colon != std::string::npos && colon > 4) address.erase(0, colon - 4);
  std::ifstream file("/sys/bus/pci/devices/" + address + "/local_cpulist");
  std::string line;
  std::getline(file, line);
  return read_core_list(line);
}

}  // namespace cudal1
