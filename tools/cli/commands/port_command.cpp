// cudal1 port: measures the best variants of a search again on other devices, and shows how far they carry.
#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/clients/client.hpp"
#include "config/base/describe.hpp"
#include "sandbox/device/device_names.hpp"
#include "sandbox/program/task.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/report/speedup_statistics.hpp"
#include "tools/cli/table.hpp"
#include "tools/cli/verdict_request.hpp"

namespace cudal1::cli {

namespace {

struct port_options {
  std::string experiment;
  std::string devices;
  node_flags node;
  bool json = false;
};

// A variant on one of the other devices.
struct ported {
  std::string device, model;
  std::string outcome, reason;  // reason: why it is not correct
  double speedup = 0;           // over the task's own program on that device; 0 if it is not correct
  interval speedup_interval;
  double reference_us = 0, variant_us = 0;
};
BOOST_DESCRIBE_STRUCT(ported, (), (device, model, outcome, reason, speedup, speedup_interval, reference_us, variant_us))

struct ported_row {
  std::string task, variant;
  double speedup = 0;  // where it was found
  interval speedup_interval;
  std::vector<ported> elsewhere;
};
BOOST_DESCRIBE_STRUCT(ported_row, (), (task, variant, speedup, speedup_interval, elsewhere))

ported result_on(const device_report& device, const verdict& v) {
  ported p;
  p.device = device.where.device;
  p.model = device.where.model;
  p.outcome = enum_name(v.result);
  if (v.result != outcome::correct) {
    p.reason = v.reason;
    return p;
  }
  p.speedup = v.score;
  p.speedup_interval = v.score_interval;
  p.reference_us = v.reference_us;
  p.variant_us = v.variant_us;
  return p;
}

// By the rule of all reports: a task without a faster variant counts as 1.
double geometric_mean(const std::vector<ported_row>& rows, const std::function<double(const ported_row&)>& speedup) {
  std::vector<task_speedup> tasks;
  for (const auto& row : rows)
    tasks.push_back({.success = true, .measured = true, .speedup = speedup(row)});
  return summarize(tasks).geometric_mean;
}

expected<search_report> report_of(store& s, const port_options& o) {
  if (!o.experiment.empty()) return report_experiment(s, o.experiment);
  CUDAL1_TRY(const auto all, s.experiments());
  const auto last = std::find_if(all.rbegin(), all.rend(), [](const auto& e) { return e.policy != hand_policy; });
  if (last == all.rend()) return fail(errc::not_found, "there is no experiment yet; `cudal1 run` starts one");
  return report_experiment(s, last->id);
}

expected<void> check_same_kind(const search_report& found, const std::vector<device_report>& devices) {
  CUDAL1_TRY(const std::string kind, kind_of_devices(found.device));
  for (const auto& d : devices) {
    CUDAL1_TRY(const std::string other, kind_of_devices(d.where.device));
    if (other != kind)
      return fail(errc::invalid_argument, "the variants of {} were written for {}, and {} is a device of another kind",
                  found.experiment, kind, d.where.device);
  }
  return {};
}

expected<ported_row> measure(const best_row& best, store& s, const std::vector<device_report>& devices,
                             const std::string& experiment, node_client& client, int wake_fd) {
  ported_row row;
  row.task = best.name;
  row.variant = best.variant;
  row.speedup = best.speedup;
  row.speedup_interval = best.speedup_interval;
  CUDAL1_TRY(const variant_record variant, s.get_variant(best.variant));
  CUDAL1_TRY(const task_record what, s.get_task(best.task));
  for (const auto& device : devices) {
    client_request r;
    r.verb = client_verb::evaluate;
    r.device = device.where.device;
    r.task = what.text;
    r.program = variant.program;
    r.origin = "the best of " + experiment;
    CUDAL1_TRY(const auto v, ask_for_verdict(client, r, wake_fd));
    row.elsewhere.push_back(result_on(device, v));
  }
  return row;
}

void print_rows(const std::vector<ported_row>& rows, const search_report& found,
                const std::vector<device_report>& devices, const context& c) {
  std::vector<column> columns = {{.title = "task"}, {.title = "found on " + found.device}};
  for (const auto& d : devices)
    columns.push_back({.title = d.where.device});
  columns.push_back({.title = "variant", .drop = 1});
  table t(std::move(columns));
  for (const auto& row : rows) {
    std::vector<std::string> cells = {row.task, format_speedup(row.speedup, row.speedup_interval)};
    for (const auto& p : row.elsewhere)
      cells.push_back(p.outcome == "correct" ? format_speedup(p.speedup, p.speedup_interval) : p.outcome);
    cells.push_back(short_id(row.variant));
    t.add(std::move(cells));
  }
  c.out.print(t.text(c.out));
  c.out.print(fmt::format("\nGeometric means over {}: {} where they were found",
                          format_count(static_cast<int64_t>(rows.size()), "task"),
                          format_speedup(geometric_mean(rows, [](const auto& row) { return row.speedup; }))));
  for (std::size_t i = 0; i < devices.size(); ++i)
    c.out.print(
        fmt::format(", {} on {} ({})",
                    format_speedup(geometric_mean(rows, [i](const auto& row) { return row.elsewhere[i].speedup; })),
                    devices[i].where.device, devices[i].where.model));
  c.out.print(".\nSpeedups are over the task's own program on the same device.\n");
  for (const auto& row : rows)
    for (const auto& p : row.elsewhere)
      if (!p.reason.empty()) c.out.print(fmt::format("{} on {}: {}\n", row.task, p.device, p.reason));
}

expected<int> port(const port_options& o, context& c) {
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  CUDAL1_TRY(const auto found, report_of(*reader, o));
  CUDAL1_TRY(interrupt_watch interrupt, interrupt_watch::start());
  node_flags flags = o.node;
  flags.device = o.devices;
  CUDAL1_TRY(connected_node node, connect_or_start(
                                      c, flags, [&](const std::string& what) { note(c, what); }, interrupt.fd()));
  CUDAL1_TRY(const auto devices, choose_devices(node.status, o.devices));
  CUDAL1_CHECK(check_same_kind(found, devices));
  std::vector<ported_row> rows;
  for (const auto& best : found.tasks) {
    if (best.is_reference) continue;
    note(c, fmt::format("measuring {}", best.name));
    CUDAL1_TRY(rows.emplace_back(), measure(best, *reader, devices, found.experiment, node.client, interrupt.fd()));
  }
  if (o.json)
    print_json(c, json::make_object({{"experiment", found.experiment},
                                     {"device", found.device},
                                     {"environments", to_json(found.environments)},
                                     {"tasks", to_json(rows)}}));
  else if (rows.empty())
    c.out.print(fmt::format("{} has no confirmed variant that is faster than its reference\n", found.experiment));
  else
    print_rows(rows, found, devices, c);
  return exit_code::success;
}

void add_port(CLI::App& app, context& c) {
  auto o = std::make_shared<port_options>();
  auto* sub = app.add_subcommand("port", "measure the best variants of a search again on other devices");
  sub->add_option("experiment", o->experiment, "as in e3 (default: the last one)")->type_name("EXPERIMENT");
  sub->add_option("--device", o->devices, "the other devices: cuda:1, gpu7/cuda:0, or a list")
      ->type_name("DEVICES")
      ->required();
  sub->add_flag("--json", o->json, "one JSON document");
  add_csv_flag(*sub, c, o->json, {"tasks"});
  add_node_flags(*sub, o->node);
  sub->footer(
      footer("  cudal1 port --device gpu7/cuda:0               the last search, on a machine of the cluster\n"
             "  cudal1 port e3 --device b/cuda:0,c/cuda:0 --json\n"
             "  cudal1 --data COPY port e3 --device cuda:0     a data folder brought from another machine",
             "  0    measured; the table was printed\n"
             "  2    there is no such experiment or device, or the device is of another kind\n"
             "  3    no node could be reached or started, or the node was lost\n"
             "  130  Ctrl-C"));
  sub->callback([o, &c] { finish(c, port(*o, c)); });
}

const command_registration registered_port(55, add_port);

}  // namespace

}  // namespace cudal1::cli
