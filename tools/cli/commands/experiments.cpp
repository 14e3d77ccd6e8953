// cudal1 experiments and cudal1 stop.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "actors/clients/client.hpp"
#include "config/base/describe.hpp"
#include "config/base/unique_fd.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

struct experiments_options {
  std::string id;
  bool all = false, json = false;
};

expected<int> one_experiment(store& s, const experiments_options& o, const context& c) {
  CUDAL1_TRY(const auto report, report_experiment(s, o.id));
  if (o.json)
    print_json(c, to_json(report));
  else
    c.out.print(print_report(report, c.out));
  return exit_code::success;
}

std::string budget_of(const experiment_record& e) {
  std::string text;
  if (e.evaluations_per_task > 0) text = fmt::format("{} a task", e.evaluations_per_task);
  if (e.device_s_per_task > 0)
    text += fmt::format("{}{} of device time a task", text.empty() ? "" : ", ", format_time(e.device_s_per_task * 1e6));
  if (e.time_limit_s > 0) text += (text.empty() ? "" : ", ") + format_clock(e.time_limit_s);
  return text.empty() ? "none" : text;
}

expected<int> experiments(const experiments_options& o, context& c) {
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  if (!o.id.empty()) return one_experiment(*reader, o, c);
  CUDAL1_TRY(const auto all, reader->experiments());
  if (o.json) {
    print_json(c, json::make_object({{"experiments", to_json(all)}}));
    return exit_code::success;
  }
  table t({{.title = "experiment"},
           {.title = "state"},
           {.title = "policy"},
           {.title = "device", .drop = 1},
           {.title = "tasks", .right = true},
           {.title = "budget", .drop = 3},
           {.title = "searched", .right = true},
           {.title = "started", .drop = 2}});
  int64_t by_hand = 0;
  for (const auto& e : all) {
    if (e.policy == hand_policy && !o.all) {
      ++by_hand;
      continue;
    }
    const bool leads = std::ranges::any_of(all, [&](const auto& other) { return other.lead == e.id; });
    const bool is_alone = e.lead.empty() && !leads;
    t.add({e.lead.empty() ? e.id : fmt::format("{} (of {})", e.id, e.lead),
           enum_name(e.state) + std::string(e.pruned_unix_ms > 0 ? ", pruned" : ""), e.policy,
           is_alone ? e.device : fmt::format("{} ({})", e.device, e.model), std::to_string(e.tasks.size()),
           budget_of(e), format_clock(e.active_s), format_date(e.created_unix_ms)});
  }
  const auto listed = static_cast<int64_t>(all.size()) - by_hand;
  c.out.print(listed == 0 ? "No experiments yet; `cudal1 run` starts one.\n" : t.text(c.out));
  if (by_hand > 0)
    c.out.print(fmt::format("{} by hand (`cudal1 evaluate`, `cudal1 baseline`): `cudal1 experiments --all` lists {}.\n",
                            format_count(by_hand, "evaluation"), by_hand == 1 ? "it" : "them"));
  return exit_code::success;
}

struct stop_options {
  std::string experiment;
  bool node = false;
};

expected<void> stop_one(const std::string& experiment, const context& c) {
  CUDAL1_TRY(auto client, connect_client(c));
  client_request r;
  r.verb = client_verb::stop;
  r.experiment = experiment;
  CUDAL1_CHECK(client.ask(r, std::chrono::minutes(1)));
  // The experiment ends after the evaluations in flight: waits for that.
  r.verb = client_verb::follow;
  CUDAL1_CHECK(client.send(r));
  for (bool ended = false; !ended;) {
    CUDAL1_TRY(const auto answer, client.receive(std::chrono::minutes(5)));
    if (auto problem = error_of(answer)) return tl::unexpected<error>(std::move(*problem));
    ended = answer.last;
  }
  c.out.print("stopped " + experiment + "; everything finished is kept\n");
  return {};
}

// A node finishes what is on its devices; only then another one can have the data folder.
expected<void> wait_for_end(int node) {
  constexpr std::chrono::minutes limit{6};
  const unique_fd process(static_cast<int>(::syscall(SYS_pidfd_open, node, 0)));
  if (!process && errno == ESRCH) return {};
  if (!process) return fail(errc::infrastructure, "pidfd_open: {}", std::strerror(errno));
  pollfd end{process.get(), POLLIN, 0};
  const int ended = ::poll(&end, 1, static_cast<int>(std::chrono::milliseconds(limit).count()));
  if (ended < 0) return fail(errc::infrastructure, "poll: {}", std::strerror(errno));
  if (ended == 0)
    return fail(errc::infrastructure, "the node was asked to exit, and process {} still runs after {} minutes", node,
                limit.count());
  return {};
}

expected<int> stop(const stop_options& o, context& c) {
  auto node = connect_to_node(c);
  if (!node && node.error().code == errc::not_found) {
    if (!o.experiment.empty())
      return fail(errc::infrastructure, "no node runs on {}, so there is nothing to stop", c.data);
    c.out.print(fmt::format("no node runs on {}: nothing to stop\n", c.data));
    return exit_code::success;
  }
  if (!node) return tl::unexpected<error>(std::move(node).error());
  std::vector<std::string> targets = node->status.experiments;
  if (!o.experiment.empty()) targets = {o.experiment};
  for (const auto& experiment : targets)
    CUDAL1_CHECK(stop_one(experiment, c));
  if (targets.empty()) c.out.print("no experiment runs\n");
  if (o.node) {
    client_request r;
    r.verb = client_verb::shutdown;
    CUDAL1_CHECK(node->client.ask(r, std::chrono::minutes(5)));
    if (c.coordinator) {
      c.out.print("the node was asked to exit\n");
      return exit_code::success;
    }
    CUDAL1_CHECK(wait_for_end(node->status.pid));
    c.out.print("the node has ended\n");
  }
  return exit_code::success;
}

void add_experiments(CLI::App& app, context& c) {
  auto o = std::make_shared<experiments_options>();
  auto* sub = app.add_subcommand("experiments", "all experiments, or the table of one");
  sub->add_option("experiment", o->id, "an experiment, as in e3: prints its table again")->type_name("EXPERIMENT");
  sub->add_flag("--all", o->all, "also list evaluations by hand");
  sub->add_flag("--json", o->json, "one JSON document");
  add_csv_flag(*sub, c, o->json, {"experiments", "tasks"});
  sub->footer(
      footer("  cudal1 experiments\n"
             "  cudal1 experiments e3",
             "  0    printed\n"
             "  2    there is no such experiment, or no store yet\n"
             "  3    the store cannot be read"));
  sub->callback([o, &c] { finish(c, experiments(*o, c)); });
}

void add_stop(CLI::App& app, context& c) {
  auto o = std::make_shared<stop_options>();
  auto* sub = app.add_subcommand("stop", "stop an experiment, or all running ones; everything finished is kept");
  sub->add_option("experiment", o->experiment, "as in e3 (default: all running ones)")->type_name("EXPERIMENT");
  sub->add_flag("--node", o->node, "also end the node, and wait until it has ended");
  sub->footer(
      footer("  cudal1 stop\n"
             "  cudal1 stop e3\n"
             "  cudal1 stop --node",
             "  0    stopped, or there was nothing to stop\n"
             "  2    there is no such experiment\n"
             "  3    the node does not reply"));
  sub->callback([o, &c] { finish(c, stop(*o, c)); });
}

const command_registration registered_experiments(100, add_experiments);
const command_registration registered_stop(110, add_stop);

}  // namespace

}  // namespace cudal1::cli
