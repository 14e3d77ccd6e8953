#include "tools/cli/top_view.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/cli/format.hpp"

namespace cudal1::cli {

namespace {

std::string sides(const std::string& left, const std::string& right, std::size_t width) {
  const auto used = display_width(left) + display_width(right);
  return left + std::string(width > used ? width - used : 1, ' ') + right;
}

bool uses(const top_experiment& e, const std::string& device) {
  const auto& of = e.limits.device;
  // "cuda" is every GPU.
  if (of == device || (!of.empty() && device.starts_with(of + ":"))) return true;
  return ("," + of + ",").find("," + device + ",") != std::string::npos;
}

void add_devices(std::vector<std::string>& lines, const top_state& s, const terminal& t, std::size_t width) {
  for (const auto& d : s.node->devices) {
    const auto state = state_of(d, s);
    const auto left = fit(fmt::format("  {}  {}", pad(d.where.device, 8), d.where.model),
                          width > display_width(state) + 2 ? width - display_width(state) - 2 : 8);
    lines.push_back(sides(left, state == "idle" ? t.dim(state) : state, width));
  }
  for (const auto& d : s.node->troubled)
    lines.push_back(fmt::format("  {}  {}: {}", pad(d.device, 8),
                                t.bad(d.given_up ? "does not work" : "does not work yet"), d.problem));
  for (const auto& d : s.node->reserved)
    lines.push_back(sides(fmt::format("  {}  {}", pad(d.device, 8), d.model), "runs models", width));
}

std::string bar(double share, std::size_t columns) {
  const auto full = static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * static_cast<double>(columns)));
  return "[" + std::string(full, '#') + std::string(columns - full, '.') + "]";
}

// The best tasks of an experiment in two columns.
std::vector<std::string> best_tasks(const experiment_progress& p, const terminal& t, std::size_t width,
                                    std::size_t most_lines) {
  std::vector<const task_progress*> tasks;
  for (const auto& task : p.tasks)
    if (task.best > 0) tasks.push_back(&task);
  std::ranges::stable_sort(tasks, [](const auto* a, const auto* b) { return a->best > b->best; });
  const std::size_t column = (width - 2) / 2, name = column > 20 ? column - 18 : 4;
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < tasks.size() && i / 2 < most_lines; ++i) {
    const auto best = pad(format_speedup(tasks[i]->best), 7, alignment::right);
    const auto cell = pad(fit(tasks[i]->name, name), name) + (tasks[i]->best > 1 ? t.good(best) : best) +
                      t.dim(pad(std::to_string(tasks[i]->evaluations), 7, alignment::right));
    if (i % 2 == 0)
      lines.push_back("  " + cell + "    ");
    else
      lines.back() += cell;
  }
  return lines;
}

void add_experiment(std::vector<std::string>& lines, const top_experiment& e, const terminal& t, std::size_t width,
                    std::size_t most_lines) {
  const auto& p = e.progress;
  const auto left = remaining_s(p, e.limits);
  lines.push_back("");
  lines.push_back(
      sides(t.bold(fmt::format("{}  {} on {}", p.experiment, e.limits.policy, e.limits.device)),
            fmt::format("{}, {}", format_clock(p.active_s), left ? format_clock(*left) + " left" : "no limit"), width));
  lines.push_back(fmt::format("  {}  {}{} evaluations, {}/s; in flight {}", bar(share_done(p, e.limits), 24),
                              p.evaluations, p.planned > 0 ? fmt::format(" of {}", p.planned) : "",
                              format_number(p.evaluations_per_s), e.in_flight));
  const auto ahead = std::ranges::count_if(p.tasks, [](const auto& task) { return task.best > 1; });
  const auto failures = format_failures(p.outcomes), now = device_work(e);
  lines.push_back(t.dim(fmt::format("  {} of {} ahead{}", ahead, format_count(std::ssize(p.tasks), "task"),
                                    failures.empty() ? "" : "; failed: " + failures)));
  if (!now.empty()) lines.push_back(t.dim("  on the device now: " + now));
  if (!p.problem.empty()) lines.push_back(t.bad("  " + p.problem));
  for (auto& line : best_tasks(p, t, width, most_lines))
    lines.push_back(std::move(line));
}

}  // namespace

double share_done(const experiment_progress& p, const run_limits& limits) {
  double done = 0;
  if (limits.time_limit_s > 0) done = p.active_s / limits.time_limit_s;
  if (p.planned > 0) done = std::max(done, static_cast<double>(p.evaluations) / static_cast<double>(p.planned));
  return std::min(done, 1.0);
}

std::string device_work(const top_experiment& e) {
  const double held = device_ms_of(e.recent_ms);
  if (!(held > 0)) return "";
  std::vector<std::string> parts;
  for (const auto stage : device_stages) {
    const auto found = e.recent_ms.find(std::string(stage));
    const double share = found == e.recent_ms.end() ? 0 : found->second / held;
    if (share >= 0.005) parts.push_back(fmt::format("{} {:.0f}%", stage, 100 * share));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string state_of(const device_report& d, const top_state& s) {
  std::vector<std::string> used;
  double busy = 0;
  for (const auto& e : s.experiments)
    if (uses(e, d.where.device)) {
      used.push_back(e.progress.experiment);
      busy = std::max(busy, e.progress.device_busy);
    }
  if (used.empty()) return "idle";
  return fmt::format("{}, busy {:.0f}%", fmt::join(used, ", "), 100 * busy);
}

std::optional<double> remaining_s(const experiment_progress& p, const run_limits& limits) {
  std::optional<double> left;
  if (limits.time_limit_s > 0) left = std::max(0.0, limits.time_limit_s - p.active_s);
  if (p.planned > 0 && p.evaluations > 0 && p.active_s > 0) {
    const double each = p.active_s / static_cast<double>(p.evaluations);
    const double by_count = each * static_cast<double>(std::max<int64_t>(0, p.planned - p.evaluations));
    left = left ? std::min(*left, by_count) : by_count;
  }
  return left;
}

std::vector<std::string> top_frame(const top_state& s, const terminal& t) {
  const std::size_t width = t.width > 1 ? t.width - 1 : 79;
  std::vector<std::string> lines;
  lines.push_back(sides(t.bold("cudal1 top"), t.dim("q leaves"), width));
  if (!s.node) {
    lines.push_back(fmt::format("No node runs on {}. `cudal1 run` starts one.", s.place));
  } else {
    lines.push_back(
        fmt::format("Node {} on {}{}", s.node->pid, s.place,
                    s.node->machines.size() > 1 ? ", " + format_count(std::ssize(s.node->machines), "machine") : ""));
    add_devices(lines, s, t, width);
    if (s.node->experiments.empty()) lines.push_back("No experiment runs.");
  }
  if (!s.problem.empty()) lines.push_back(t.bad(s.problem));
  // Each experiment gets as many lines for its tasks as are left, shared evenly.
  constexpr std::size_t head = 6;
  const std::size_t room = t.height > lines.size() ? t.height - lines.size() : (t.height == 0 ? 1000 : 0);
  const std::size_t each = s.experiments.empty() ? 0 : room / s.experiments.size();
  for (const auto& e : s.experiments)
    add_experiment(lines, e, t, width, each > head ? each - head : 0);
  if (t.height > 0 && lines.size() > t.height) lines.resize(t.height);
  for (auto& line : lines)
    line = fit(std::move(line), width);
  return lines;
}

}  // namespace cudal1::cli
