#include "tools/cli/commands/finished_search.hpp"

#include <algorithm>
#include <iterator>

#include "config/base/describe.hpp"
#include "config/data_folder.hpp"
#include "sandbox/device/device_names.hpp"
#include "tools/baseline/measure_baselines.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/report/search_models.hpp"
#include "tools/kernelbench/export_kernelbench.hpp"

namespace cudal1::cli {

namespace {

// The models of device of a search: each has an experiment of its own.
enum class models_of_search { one, several };

// The devices of one experiment.
expected<std::vector<device_report>> devices_of(const experiment_record& e, models_of_search models,
                                                const node_status& node) {
  CUDAL1_TRY(auto devices, choose_devices(node, e.device));
  if (models == models_of_search::several)
    std::erase_if(devices, [&](const auto& d) { return d.where.model != e.model; });
  if (devices.empty()) return fail(errc::not_found, "no device of the model {} is here any more", e.model);
  if (is_replayed(devices.front().where))
    return fail(errc::unsupported, "{} replays stored verdicts, and PyTorch is measured on real devices only",
                e.device);
  return devices;
}

expected<bool> measure_one(const experiment_record& e, models_of_search models, const finished_search& f, store& s,
                           const node_status& node, const context& c, run_view& view, int wake_fd) {
  CUDAL1_TRY(const auto devices, devices_of(e, models, node));
  baseline_plan plan;
  plan.kinds = {f.against};
  plan.devices = names_of(devices);
  plan.experiment = e.id;
  CUDAL1_TRY(plan.tasks, tasks_of(s, e));
  baseline_observer observer;
  observer.doing = [&](const std::string& what) { view.remark("measuring PyTorch: " + what); };
  CUDAL1_TRY(const auto measured, measure_baselines(c.data, plan, observer, wake_fd));
  if (measured.fault) return tl::unexpected<error>(*measured.fault);
  return !measured.interrupted;
}

// A search from another machine has not measured its base: where nobody else has, the table is over the program.
expected<void> compare_with_measured_base(store& s, search_report& r, const finished_search& f, const context& c) {
  CUDAL1_CHECK(compare_with_base(s, r, f.against));
  if (c.coordinator && r.over && r.over->measured == 0) return compare_with_base(s, r, std::string(against_program));
  return {};
}

json document_of(const std::vector<search_report>& reports) {
  json document = to_json(reports.front());
  if (reports.size() > 1)
    document.set("others", to_json(std::vector<search_report>(reports.begin() + 1, reports.end())));
  return document;
}

expected<std::string> command_of_export(store& s, const std::vector<experiment_record>& search) {
  std::vector<task> all;
  for (const auto& e : search) {
    CUDAL1_TRY(auto tasks, tasks_of(s, e));
    std::ranges::move(tasks, std::back_inserter(all));
  }
  return export_command(all, search.front().device);
}

}  // namespace

std::string base_of(const std::vector<task>& tasks) {
  const bool imported = std::all_of(tasks.begin(), tasks.end(), [](const task& t) { return t.origin.has_value(); });
  return std::string(imported ? "eager" : against_program);
}

expected<std::vector<task>> tasks_of(store& s, const experiment_record& e) {
  std::vector<task> tasks;
  for (const auto& id : e.tasks) {
    CUDAL1_TRY(const auto record, s.get_task(id));
    CUDAL1_TRY(task t, read_task(record.text, record.profile));
    tasks.push_back(std::move(t));
  }
  return tasks;
}

expected<bool> measure_base(const finished_search& f, const node_status& node, const context& c, run_view& view,
                            int wake_fd) {
  if (c.coordinator) {
    view.note(
        fmt::format("{} was not measured: `cudal1 baseline --experiment {} --kinds {}` on the coordinator's "
                    "machine does it",
                    f.against, f.experiment, f.against));
    return true;
  }
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  CUDAL1_TRY(const auto search, experiments_of_search(*reader, f.experiment));
  const auto models = search.size() == 1 ? models_of_search::one : models_of_search::several;
  for (const auto& e : search) {
    const auto measured = measure_one(e, models, f, *reader, node, c, view, wake_fd);
    if (measured && !*measured) return false;
    if (!measured) view.note(fmt::format("{} was not measured: {}", f.against, measured.error().message));
  }
  return true;
}

expected<void> print_result(const finished_search& f, const node_status& node, const context& c) {
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  CUDAL1_TRY(const auto search, experiments_of_search(*reader, f.experiment));
  std::vector<search_report> reports;
  for (const auto& e : search) {
    CUDAL1_TRY(reports.emplace_back(), report_experiment(*reader, e.id));
    CUDAL1_CHECK(compare_with_measured_base(*reader, reports.back(), f, c));
  }
  if (f.json) {
    print_json(c, document_of(reports));
    return {};
  }
  bool is_first = true;
  for (const auto& r : reports)
    c.out.print((std::exchange(is_first, false) && c.out.live ? "" : "\n") + print_report(r, examine(c.out.stream)));
  CUDAL1_TRY(const auto exported, command_of_export(*reader, search));
  const bool is_usual = c.coordinator || c.data == default_data_folder();
  const std::string next =
      fmt::format("Kept in {}{}. Next: `cudal1 show VARIANT`, `{}`.", place_of(c),
                  is_usual ? "" : ", which other commands need as --data or CUDAL1_DATA", exported);
  c.out.print(c.out.dim(rewrap(next, c.out.width)));
  const auto ports = port_commands(search, node.devices);
  if (ports.empty()) return {};
  c.out.print("Each model's variants were measured on that model only. The best of one on another:\n");
  for (const auto& command : ports)
    c.out.print("  " + command + "\n");
  return {};
}

}  // namespace cudal1::cli
