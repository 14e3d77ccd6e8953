// cudal1 status: the node, its devices, and what the store holds.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/clients/client.hpp"
#include "config/base/describe.hpp"
#include "sandbox/device/device_type.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/cli/report/report.hpp"

namespace cudal1::cli {

namespace {

struct store_counts {
  int64_t tasks = 0, evaluations = 0, correct = 0, experiments = 0;
  std::map<std::string, int64_t> outcomes;
};
BOOST_DESCRIBE_STRUCT(store_counts, (), (tasks, evaluations, correct, experiments, outcomes))

struct status_report {
  std::string data;
  bool node_runs = false;
  std::optional<node_status> node;
  bool has_store = false;
  store_counts counts;
  std::vector<experiment_record> experiments;
};
BOOST_DESCRIBE_STRUCT(status_report, (), (data, node_runs, node, has_store, counts, experiments))

expected<void> count(store& s, status_report& r) {
  CUDAL1_TRY(const auto tasks, s.tasks());
  r.counts.tasks = static_cast<int64_t>(tasks.size());
  CUDAL1_TRY(const auto tallies, s.tallies());
  for (const auto& t : tallies) {
    r.counts.evaluations += t.evaluations;
    for (const auto& [result, count] : t.outcomes)
      r.counts.outcomes[result] += count;
  }
  r.counts.correct = r.counts.outcomes[enum_name(outcome::correct)];
  CUDAL1_TRY(r.experiments, s.experiments());
  r.counts.experiments = static_cast<int64_t>(r.experiments.size());
  return {};
}

std::string confinement_line(const device_report& d) {
  std::vector<std::string> in_force, missing;
  for (const auto& item : d.confinement)
    (item.in_force ? in_force : missing).push_back(item.name + (item.in_force || !item.required ? "" : " (required)"));
  return fmt::format("confinement: {} of {} in force{}", in_force.size(), d.confinement.size(),
                     missing.empty() ? "" : fmt::format("; not: {}", fmt::join(missing, ", ")));
}

void print_node(const status_report& r, const terminal& t) {
  if (!r.node) {
    t.print(fmt::format("No node runs on {}. `cudal1 run` starts one.\n", r.data));
    return;
  }
  const auto place = r.data == r.node->data ? r.data : fmt::format("{}, folder {}", r.data, r.node->data);
  t.print(t.bold(fmt::format("A node runs on {} (pid {})", place, r.node->pid)) + "\n");
  for (const auto& d : r.node->devices) {
    t.print(wrap(describe_device(d.where), t.width, 2) + "\n");
    const auto& remark =
        traits_of(d.where.device).replays.empty() ? confinement_line(d) : timing_remark(d.where.device);
    t.print(wrap(remark, t.width, 4) + "\n");
    for (const auto& each : d.remarks)
      t.print(wrap(each, t.width, 4) + "\n");
  }
  for (const auto& d : r.node->troubled)
    t.print(wrap(fmt::format("{}: {}{}", d.device, t.bad("does not work"), d.given_up ? "" : " yet") + ": " + d.problem,
                 t.width, 2) +
            "\n");
  for (const auto& [role, pids] : r.node->processes)
    t.print(fmt::format("    {}: {}\n", role, pids.empty() ? "-" : fmt::format("pid {}", fmt::join(pids, ", "))));
  std::vector<std::string> running;
  for (const auto& id : r.node->experiments) {
    const auto e = std::ranges::find(r.experiments, id, &experiment_record::id);
    running.push_back(e == r.experiments.end() || e->lead.empty() ? id : fmt::format("{} (of {})", id, e->lead));
  }
  t.print(running.empty() ? "  no experiment runs\n" : fmt::format("  running: {}\n", fmt::join(running, ", ")));
}

void print_store(const status_report& r, const terminal& t) {
  if (!r.has_store) {
    t.print("There is no store there yet.\n");
    return;
  }
  const auto failures = format_failures(r.counts.outcomes);
  t.print(t.bold("The store") + fmt::format(": {}, {}, {} ({} correct{})\n", format_count(r.counts.tasks, "task"),
                                            format_count(r.counts.experiments, "experiment"),
                                            format_count(r.counts.evaluations, "evaluation"), r.counts.correct,
                                            failures.empty() ? "" : "; " + failures));
}

struct status_options {
  bool json = false;
};

expected<int> status(const status_options& o, context& c) {
  status_report r;
  r.data = place_of(c);
  if (auto node = connect_to_node(c)) {
    r.node = std::move(node->status);
    r.node_runs = true;
  } else if (node.error().code != errc::not_found) {
    return tl::unexpected<error>(std::move(node).error());
  }
  r.has_store = store_exists(c);
  if (r.has_store) {
    CUDAL1_TRY(const auto reader, open_for_reading(c));
    CUDAL1_CHECK(count(*reader, r));
  }
  if (o.json) {
    print_json(c, to_json(r));
  } else {
    print_node(r, c.out);
    print_store(r, c.out);
  }
  return exit_code::success;
}

void add_status(CLI::App& app, context& c) {
  auto o = std::make_shared<status_options>();
  auto* sub = app.add_subcommand("status", "the node, its devices and their confinement, and what the store holds");
  sub->add_flag("--json", o->json, "one JSON document");
  sub->footer(
      footer("  cudal1 status\n"
             "  cudal1 status --json --data /srv/cudal1",
             "  0    the status was printed, whether a node runs or not\n"
             "  3    the node does not reply, or the store cannot be read"));
  sub->callback([o, &c] { finish(c, status(*o, c)); });
}

const command_registration registered_status(30, add_status);

}  // namespace

}  // namespace cudal1::cli
