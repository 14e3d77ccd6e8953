#include "tools/cli/commands/first_comparison.hpp"

#include <fmt/format.h>

#include "sandbox/device/device_names.hpp"
#include "store/blobs.hpp"
#include "tools/baseline/task_comparison.hpp"
#include "tools/cli/node_process.hpp"

namespace cudal1::cli {

// "" once it is known that the task computes what its model does.
expected<std::string> first_comparison::why_uncompared(task& t, const environment& where, const context& c,
                                                       run_view& view) {
  if (compared_.contains(t.origin->source)) return std::string();
  if (is_replayed(where)) return t.origin->uncompared;
  if (c.coordinator || !machine_of(where.device).empty())
    return fmt::format("{}, and {} is a device of another machine", t.origin->uncompared, where.device);
  view.remark(fmt::format("comparing {} with its model on {}", t.name, where.device));
  CUDAL1_TRY(const auto found, compare_with_model(t, blobs(c.data).folder(), where.device));
  if (!found.differs.empty())
    return fail(errc::refused,
                "{} does not compute what its model does: on {}, {}. It is not searched; import its model again, and "
                "report it if that does not help",
                t.name, where.device, found.differs);
  for (const auto& note : found.notes)
    view.note(t.name + ": " + note);
  if (!found.uncompared.empty()) return found.uncompared;
  view.note(found.rounding > 0 ? fmt::format("{} gives what its model gives on {}, but for rounding (up to {:.1e})",
                                             t.name, where.device, found.rounding)
                               : fmt::format("{} gives its model's bits on {}", t.name, where.device));
  if (t.is_whole_model()) compared_.insert(t.origin->source);
  return std::string();
}

expected<void> first_comparison::compare(std::vector<task>& tasks, const environment& where, const context& c,
                                         run_view& view) {
  std::vector<task> kept;
  bool used_device = false;
  for (auto& t : tasks) {
    if (is_uncompared(t)) {
      used_device = true;
      auto why = why_uncompared(t, where, c, view);
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
  if (used_device) wait_for_device(c, where.device);
  return {};
}

}  // namespace cudal1::cli
