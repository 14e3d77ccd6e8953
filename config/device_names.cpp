#include "config/device_names.hpp"

#include <algorithm>
#include <charconv>

namespace cudal1 {

namespace {

constexpr std::string_view gpu_prefix = "cuda:";

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string_view::npos ? std::string_view() : text.substr(first, last - first + 1);
}

// The next name of a list; `rest` goes on behind it.
std::string_view next_name(std::string_view& rest) {
  const auto comma = rest.find(',');
  const auto name = trimmed(rest.substr(0, comma));
  rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  return name;
}

void add_once(std::vector<std::string>& names, std::string name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
}

expected<std::string> checked_name(std::string_view name) {
  if (name == "cpu" || name == "cuda") return std::string(name);
  const int index = index_of_gpu(name);
  if (index >= 0) return fmt::format("{}{}", gpu_prefix, index);
  return fail(errc::invalid_argument,
              "there is no device \"{}\"; devices are cpu, cuda:0, cuda:1, ... and cuda, which is every GPU", name);
}

}  // namespace

int index_of_gpu(std::string_view device) {
  if (!device.starts_with(gpu_prefix)) return -1;
  const auto digits = device.substr(gpu_prefix.size());
  int index = -1;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  return problem == std::errc() && end == digits.data() + digits.size() && index >= 0 ? index : -1;
}

expected<std::vector<std::string>> read_device_list(std::string_view text) {
  std::vector<std::string> names;
  do {
    CUDAL1_TRY(std::string name, checked_name(next_name(text)));
    add_once(names, std::move(name));
  } while (!text.empty());
  return names;
}

bool names_device(std::string_view list, std::string_view device) {
  while (!list.empty()) {
    const auto name = next_name(list);
    if (name == device || (name == "cuda" && device.starts_with(gpu_prefix))) return true;
  }
  return false;
}

expected<std::string> kind_of_devices(std::string_view list) {
  CUDAL1_TRY(const auto names, read_device_list(list));
  const bool cpu = names.front() == "cpu";
  for (const auto& name : names)
    if ((name == "cpu") != cpu)
      return fail(
          errc::invalid_argument,
          "\"{}\" names devices of two kinds: a search runs on cpu or on GPUs, since their times cannot be compared",
          list);
  return std::string(cpu ? "cpu" : "cuda");
}

expected<std::vector<std::string>> choose_device_names(std::string_view wanted, int gpus) {
  std::vector<std::string> chosen;
  const auto add_gpus = [&] {
    for (int i = 0; i < gpus; ++i)
      add_once(chosen, fmt::format("{}{}", gpu_prefix, i));
  };
  if (trimmed(wanted) == "auto") {
    add_gpus();
    if (chosen.empty()) chosen.emplace_back("cpu");
    return chosen;
  }
  CUDAL1_TRY(auto names, read_device_list(wanted));
  for (auto& name : names) {
    if (name != "cpu" && gpus == 0)
      return fail(errc::invalid_argument, "there is no device \"{}\": this machine has no GPU that its driver shows",
                  name);
    if (index_of_gpu(name) >= gpus) {
      const auto here = gpus == 1 ? std::string("the only GPU here is cuda:0")
                                  : fmt::format("the GPUs here are cuda:0 to cuda:{}", gpus - 1);
      return fail(errc::invalid_argument, "there is no device \"{}\": {}", name, here);
    }
    if (name == "cuda")
      add_gpus();
    else
      add_once(chosen, std::move(name));
  }
  return chosen;
}

}  // namespace cudal1
