#include "tools/cli/commands/first_comparison.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sandbox/device/device_names.hpp"
#include "store/blobs.hpp"
#include "tools/baseline/task_comparison.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/cli/task_source.hpp"

namespace cudal1::cli {

namespace {

// For the node's answer, beyond the comparison itself: another client may hold the device.
constexpr std::chrono::minutes answer_grace{15};

bool is_of_this_machine(const std::string& device, const context& c) {
  return !c.coordinator && machine_of(device).empty();
}

expected<std::optional<task_comparison>> compare_elsewhere(const std::string& device, const task& t, const context& c,
                                                           int wake_fd) {
  CUDAL1_TRY(node_client client, connect_client(c));
  client_request r;
  r.verb = client_verb::compare;
  r.device = device;
  r.task = canonical_text(t);
  CUDAL1_CHECK(client.send(r));
  CUDAL1_TRY(auto answer, client.receive(longest_comparison + answer_grace, wake_fd));
  if (auto problem = error_of(answer)) return tl::unexpected<error>(std::move(*problem));
  return std::move(answer.comparison);
}

}  // namespace

expected<std::optional<task_comparison>> first_comparison::compare_on(const std::string& device, const task& t,
                                                                      const context& c, run_view& view) {
  view.remark(fmt::format("comparing {} with its model on {}", t.name, device));
  if (!is_of_this_machine(device, c)) return compare_elsewhere(device, t, c, wake_fd_);
  used_devices_.insert(device);
  return compare_with_model(t, blobs(c.data).folder(), {device, "", wake_fd_});
}

expected<void> first_comparison::judge(const task_comparison& found, const std::string& device, const task& t,
                                       run_view& view) {
  if (!found.differs.empty())
    return fail(errc::refused,
                "{} does not compute what its model does: on {}, {}. It is not searched; import its model again, and "
                "report it if that does not help",
                t.name, device, found.differs);
  for (const auto& note : found.notes)
    view.note(t.name + ": " + note);
  view.note(found.rounding > 0 ? fmt::format("{} gives what its model gives on {}, but for rounding (up to {:.1e})",
                                             t.name, device, found.rounding)
                               : fmt::format("{} gives its model's bits on {}", t.name, device));
  if (t.is_whole_model()) compared_.insert(t.origin->source);
  return {};
}

// A device that is in use or whose machine refuses may have a neighbour that is not; else one of a machine is enough.
expected<std::string> first_comparison::why_uncompared(const task& t, const std::vector<device_report>& devices,
                                                       const context& c, run_view& view) {
  if (compared_.contains(t.origin->source)) return std::string();
  if (is_replayed(devices.front().where)) return t.origin->uncompared;
  std::vector<std::string> reasons;
  std::set<std::string> machines;  // that need not be asked again
  for (const auto& d : devices) {
    const std::string& device = d.where.device;
    if (machines.contains(machine_of(device))) continue;
    const auto answer = compare_on(device, t, c, view);
    if (answer && !*answer) {
      view.note(t.name + " has been compared with its model for another search meanwhile");
      return std::string();
    }
    const task_comparison* const found = answer ? &**answer : nullptr;
    if (found && found->uncompared.empty()) {
      CUDAL1_CHECK(judge(*found, device, t, view));
      return std::string();
    }
    if (!found && answer.error().code == errc::cancelled) return tl::unexpected<error>(answer.error());
    if (found || answer.error().code != errc::refused) machines.insert(machine_of(device));
    if (found && found->uncompared == t.origin->uncompared) continue;
    auto reason = found ? fmt::format("on {}: {}", device, found->uncompared) : answer.error().message;
    if (std::ranges::count(reasons, reason) == 0) reasons.push_back(std::move(reason));
  }
  if (reasons.empty()) return t.origin->uncompared;
  return fmt::format("{}, and {}", t.origin->uncompared, fmt::join(reasons, "; "));
}

expected<void> first_comparison::compare(std::vector<task>& tasks, const std::vector<device_report>& devices,
                                         const context& c, run_view& view) {
  CUDAL1_CHECK(clear_known_marks(c, tasks));
  std::vector<task> kept;
  for (auto& t : tasks) {
    if (is_uncompared(t)) {
      auto why = why_uncompared(t, devices, c, view);
      if (!why && why.error().code == errc::refused && tasks.size() > 1) {
        view.note(why.error().message);
        continue;
      }
      CUDAL1_TRY(t.origin->uncompared, std::move(why));
    }
    if (!is_uncompared(t) || others_ == uncompared_tasks::searched) {
      if (is_uncompared(t))
        view.note(fmt::format("{} is searched uncompared with its model: {}", t.name, t.origin->uncompared));
      kept.push_back(std::move(t));
      continue;
    }
    view.note(
        fmt::format("{} is left out, since nothing has shown that it computes what its model does: {}. "
                    "--uncompared searches it all the same",
                    t.name, t.origin->uncompared));
  }
  if (kept.empty() && !tasks.empty())
    return fail(errc::refused, "no task was compared with its model, so that nothing is searched; see the notes above");
  tasks = std::move(kept);
  for (const auto& device : std::exchange(used_devices_, {}))
    wait_for_device(c, device);
  return {};
}

}  // namespace cudal1::cli
