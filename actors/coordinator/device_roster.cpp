#include "actors/coordinator/device_roster.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "sandbox/device/device_names.hpp"

namespace cudal1 {

void device_roster::add(const node_device& device, device_role role) {
  of_model_.clear();
  if (role != device_role::measure) {
    entries_.erase(device.name);
    reserved_[device.name] = {device.name, device.model, role};
    return;
  }
  reserved_.erase(device.name);
  auto& e = entries_[device.name];
  e.what = device;
  e.now = state::starting;
  e.problem = {};
}

void device_roster::away(const std::string& device, const error& problem) {
  auto& e = entries_.at(device);
  e.now = state::away;
  e.problem = problem;
}

void device_roster::restarted(const std::string& device) {
  entries_.at(device).now = state::starting;
}

void device_roster::started(const std::string& device, const device_report& report) {
  auto& e = entries_.at(device);
  if (e.now == state::given_up) return;  // a device that was given up stays so
  e.now = state::ready;
  e.report = report;
  e.problem = {};
}

void device_roster::failed(const std::string& device, const error& problem) {
  entries_.at(device).problem = problem;
}

void device_roster::give_up(const std::string& device, const error& problem) {
  auto& e = entries_.at(device);
  e.now = state::given_up;
  e.problem = problem;
}

bool device_roster::is_ready(const std::string& device) const {
  const auto found = entries_.find(device);
  return found != entries_.end() && found->second.now == state::ready;
}

std::vector<std::string> device_roster::of_machine(const std::string& machine) const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_)
    if (cudal1::machine_of(name) == machine) names.push_back(name);
  return names;
}

bool device_roster::any_usable(const std::string& devices) const {
  return std::ranges::any_of(entries_,
                             [&](const auto& d) { return names_device(devices, d.first) && d.second.usable(); });
}

bool device_roster::settled() const {
  return std::ranges::none_of(entries_, [](const auto& d) { return d.second.now == state::starting; });
}

expected<void> device_roster::any_ready() const {
  if (std::ranges::any_of(entries_, [](const auto& d) { return d.second.now == state::ready; })) return {};
  if (entries_.empty()) return fail(errc::infrastructure, "this node has no device");
  return tl::unexpected<error>(entries_.begin()->second.problem);
}

expected<std::string> device_roster::choose(const std::string& wanted) const {
  std::vector<std::string> chosen;
  if (wanted.empty()) {
    auto first = std::ranges::find_if(entries_, [](const auto& d) { return d.second.here(); });
    if (first == entries_.end())
      first = std::ranges::find_if(entries_, [](const auto& d) { return d.second.usable(); });
    if (first != entries_.end()) chosen.push_back(first->first);
  } else {
    CUDAL1_CHECK(kind_of_devices(wanted));
    for (const auto& [name, device] : entries_)
      if (names_device(wanted, name)) chosen.push_back(name);
    CUDAL1_TRY(const auto names, read_device_list(wanted));
    for (const auto& name : names)
      CUDAL1_CHECK(check_measures(name));
    std::vector<std::string> here;
    for (const auto& [name, device] : entries_)
      here.push_back(name);
    for (const auto& name : names)
      if (std::ranges::none_of(chosen, [&](const auto& c) { return names_device(name, c); }))
        return here.empty()
                   ? fail(errc::invalid_argument, "there is no device {}: no machine has joined yet", name)
                   : fail(errc::invalid_argument, "there is no device {}; there are {}", name, fmt::join(here, ", "));
  }
  if (chosen.empty())
    return fail(errc::infrastructure, "this node has no device that can be used; `cudal1 doctor` says why");
  std::vector<std::string> problems;
  for (const auto& name : chosen)
    if (!at(name).usable())
      problems.push_back(fmt::format("device {} cannot be used: {}", name, at(name).problem.message));
  if (problems.size() == chosen.size()) return fail(errc::infrastructure, "{}", fmt::join(problems, "; "));
  if (wanted.empty()) return chosen.front();
  CUDAL1_TRY(const auto names, read_device_list(wanted));
  return fmt::format("{}", fmt::join(names, ","));
}

// `name` is that of a device, or of all of a kind.
expected<void> device_roster::check_measures(const std::string& name) const {
  const auto is_meant = [&](const auto& d) { return names_device(name, d.first); };
  if (std::ranges::any_of(entries_, is_meant)) return {};
  const auto kept = std::ranges::find_if(reserved_, is_meant);
  if (kept == reserved_.end()) return {};
  return fail(errc::invalid_argument,
              "device {} does not measure: it is reserved for the policy's models (device.policy_devices of its node); "
              "`cudal1 devices` lists the others",
              kept->first);
}

std::vector<std::string> device_roster::models_of(const std::string& devices) const {
  std::vector<std::string> models;
  for (const auto& [name, entry] : entries_)
    if (names_device(devices, name) && entry.usable() && std::ranges::count(models, entry.what.model) == 0)
      models.push_back(entry.what.model);
  return models;
}

const device_roster::entry& device_roster::first_of(const std::string& devices) const {
  const auto is_named = [&](const auto& d) { return names_device(devices, d.first); };
  const auto ready =
      std::ranges::find_if(entries_, [&](const auto& d) { return is_named(d) && d.second.now == state::ready; });
  return ready != entries_.end() ? ready->second : std::ranges::find_if(entries_, is_named)->second;
}

std::string device_roster::of_model(const std::string& devices, const std::string& model) const {
  const auto [known, is_new] = of_model_.try_emplace({devices, model});
  if (!is_new) return known->second;
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_)
    if (names_device(devices, name) && entry.what.model == model) names.push_back(name);
  return known->second = fmt::format("{}", fmt::join(names, ","));
}

std::size_t device_roster::count_here(const std::string& devices) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      entries_, [&](const auto& d) { return names_device(devices, d.first) && d.second.here(); }));
}

std::string device_roster::why_none_is_here(const std::string& devices) const {
  std::vector<std::string> problems;
  for (const auto& [name, entry] : entries_) {
    if (!names_device(devices, name)) continue;
    if (entry.here()) return "";
    problems.push_back(fmt::format("device {}: {}", name, entry.problem.message));
  }
  return fmt::format("{}", fmt::join(problems, "; "));
}

}  // namespace cudal1
