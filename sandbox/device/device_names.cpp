#include "sandbox/device/device_names.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>

#include <fmt/ranges.h>

namespace cudal1 {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string_view::npos ? std::string_view() : text.substr(first, last - first + 1);
}

// The next name of a list; `rest` becomes the list after it.
std::string_view next_name(std::string_view& rest) {
  const auto comma = rest.find(',');
  const auto name = trimmed(rest.substr(0, comma));
  rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  return name;
}

std::string_view machine_in(std::string_view name) {
  const auto slash = name.find('/');
  return slash == std::string_view::npos ? std::string_view() : name.substr(0, slash);
}

std::string_view local_in(std::string_view name) {
  const auto slash = name.find('/');
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}

std::string_view kind_in(std::string_view name) {
  const auto local = local_in(name);
  return local.substr(0, local.find(':'));
}

expected<std::string> checked_name(std::string_view name) {
  const auto* const type = find_device_type(name);
  if (type == nullptr)
    return fail(errc::invalid_argument, "there is no device \"{}\"; devices are {}", name, known_device_names());
  const int index = index_of_device(name);
  return index < 0 ? std::string(name) : device_on(machine_in(name), fmt::format("{}:{}", kind_in(name), index));
}

std::vector<const device_type*> least_preferred_first() {
  auto types = device_types();
  std::ranges::reverse(types);
  return types;
}

void add_once(std::vector<found_device>& devices, const found_device& device) {
  if (std::ranges::none_of(devices, [&](const auto& d) { return d.name == device.name; })) devices.push_back(device);
}

error no_such_device(const std::string& name, const device_traits& kind, const std::vector<found_device>& here) {
  if (here.empty())
    return {errc::invalid_argument,
            fmt::format("there is no device \"{}\": the driver of this machine lists no {}", name, kind.noun)};
  const auto present = here.size() == 1
                           ? fmt::format("the only {} here is {}", kind.noun, here.front().name)
                           : fmt::format("the {}s here are {} to {}", kind.noun, here.front().name, here.back().name);
  return {errc::invalid_argument, fmt::format("there is no device \"{}\": {}", name, present)};
}

expected<std::vector<found_device>> preferred_devices(const discovery& discover) {
  for (const auto* type : device_types()) {
    if (!type->traits().replays.empty()) continue;
    CUDAL1_TRY(auto found, discover(*type));
    if (!found.empty()) return found;
  }
  return fail(errc::infrastructure, "this machine has no device of any kind");
}

}  // namespace

std::string machine_of(std::string_view device) {
  return std::string(machine_in(device));
}

std::string name_on_machine(std::string_view device) {
  return std::string(local_in(device));
}

std::string device_on(std::string_view machine, std::string_view name) {
  return machine.empty() ? std::string(name) : fmt::format("{}/{}", machine, name);
}

bool is_of_kind(std::string_view name, const device_traits& kind) {
  if (name.find('/') != std::string_view::npos && !is_machine_name(machine_in(name))) return false;
  name = local_in(name);
  return name == kind.kind || (kind.numbered && kind_in(name) == kind.kind && index_of_device(name) >= 0);
}

int index_of_device(std::string_view device) {
  const auto colon = device.find(':');
  if (colon == std::string_view::npos) return -1;
  const auto digits = device.substr(colon + 1);
  int index = -1;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  return problem == std::errc() && end == digits.data() + digits.size() && index >= 0 ? index : -1;
}

std::string known_device_names() {
  std::vector<std::string> names;
  bool any_replay = false;
  for (const auto* type : least_preferred_first()) {
    const auto& t = type->traits();
    any_replay = any_replay || !t.replays.empty();
    if (t.replays.empty())
      names.push_back(t.numbered ? fmt::format("{0}:0, {0}:1, ... and {0}, which is every {1}", t.kind, t.noun)
                                 : t.kind);
  }
  if (any_replay) names.emplace_back("replay, which answers from stored verdicts");
  return fmt::format("{}", fmt::join(names, ", "));
}

expected<std::vector<std::string>> read_device_list(std::string_view text) {
  std::vector<std::string> names;
  do {
    CUDAL1_TRY(std::string name, checked_name(next_name(text)));
    if (std::ranges::count(names, name) == 0) names.push_back(std::move(name));
  } while (!text.empty());
  return names;
}

bool names_device(std::string_view list, std::string_view device) {
  while (!list.empty()) {
    const auto name = next_name(list);
    if (name == device || name == kind_in(device)) return true;
    if (!machine_in(name).empty() && machine_in(name) == machine_in(device) && local_in(name) == kind_in(device))
      return true;
  }
  return false;
}

expected<std::string> kind_of_devices(std::string_view list) {
  CUDAL1_TRY(const auto names, read_device_list(list));
  const auto kind = kind_in(names.front());
  if (std::ranges::all_of(names, [&](const auto& name) { return kind_in(name) == kind; })) return std::string(kind);
  std::vector<std::string> kinds;
  for (const auto* type : least_preferred_first())
    if (type->traits().replays.empty()) kinds.push_back(type->traits().noun + (type->traits().numbered ? "s" : ""));
  return fail(errc::invalid_argument,
              "\"{}\" names devices of two kinds: a search runs either on {}, since their times cannot be compared",
              list, fmt::join(kinds, " or on "));
}

expected<std::vector<found_device>> choose_devices(std::string_view wanted, const discovery& discover) {
  if (trimmed(wanted) == "auto") return preferred_devices(discover);
  CUDAL1_TRY(const auto names, read_device_list(wanted));
  std::vector<found_device> chosen;
  std::map<const device_type*, std::vector<found_device>> found;  // so that each kind is discovered once
  for (const auto& name : names) {
    const auto* const type = find_device_type(name);
    if (!found.contains(type)) {
      CUDAL1_TRY(found[type], discover(*type));
    }
    bool any = false;
    for (const auto& device : found[type]) {
      if (!names_device(name, device.name)) continue;
      add_once(chosen, device);
      any = true;
    }
    if (!any) return tl::unexpected<error>(no_such_device(name, type->traits(), found[type]));
  }
  return chosen;
}

expected<std::vector<found_device>> find_devices(std::string_view wanted) {
  return choose_devices(wanted, [](const device_type& type) { return type.discover(); });
}

bool comes_before(const std::string& a, const std::string& b) {
  const auto place = [](const std::string& device) {
    return std::tuple(-traits_of(device).preference, machine_in(device), index_of_device(device),
                      std::string_view(device));
  };
  return place(a) < place(b);
}

}  // namespace cudal1
