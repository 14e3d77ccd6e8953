// cudal1 follow: the progress of a running search, from another terminal.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/cli/command.hpp"
#include "tools/cli/commands/finished_search.hpp"
#include "tools/cli/commands/followed_run.hpp"
#include "tools/cli/node_process.hpp"

namespace cudal1::cli {

namespace {

struct follow_options {
  std::string experiment;
};

// The one that is named, or the only one that runs.
expected<std::string> running_experiment(const follow_options& o, const node_status& node) {
  const auto& running = node.experiments;
  if (running.empty()) return fail(errc::not_found, "no experiment runs on the node; `cudal1 experiments` lists them");
  if (o.experiment.empty() && running.size() > 1)
    return fail(errc::invalid_argument, "several experiments run: name one of {}", fmt::join(running, ", "));
  if (o.experiment.empty()) return running.front();
  if (std::ranges::find(running, o.experiment) != running.end()) return o.experiment;
  return fail(errc::not_found, "experiment {} is not running (running: {}); `cudal1 experiments {}` prints its table",
              o.experiment, fmt::join(running, ", "), o.experiment);
}

expected<int> follow(const follow_options& o, context& c) {
  auto connected = connect_to_node(c);
  if (!connected && connected.error().code == errc::not_found)
    return fail(errc::not_found, "no node runs on {}, so there is nothing to follow", c.data);
  if (!connected) return tl::unexpected<error>(std::move(connected).error());
  CUDAL1_TRY(const auto experiment, running_experiment(o, connected->status));
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  CUDAL1_TRY(const auto record, reader->get_experiment(experiment));
  CUDAL1_TRY(interrupt_watch interrupt, interrupt_watch::start());
  client_request r;
  r.verb = client_verb::follow;
  r.experiment = experiment;
  CUDAL1_CHECK(connected->client.send(r));
  run_view view(c.out, {record.device, record.policy, record.time_limit_s},
                c.quiet ? view_mode::silent : view_mode::shown);
  followed_run follower(interrupt, view, followed_run::interruption::leaves);
  const auto ended = follower.follow(connected->client);
  if (ended && follower.interrupted()) {
    view.keep();
    if (c.out.live) c.out.print("\n");  // behind the terminal's ^C
    note(c, fmt::format("the search goes on; `cudal1 stop {}` ends it", experiment));
    return exit_code::success;
  }
  view.close();
  CUDAL1_CHECK(ended);
  CUDAL1_TRY(const auto tasks, tasks_of(*reader, record));
  CUDAL1_CHECK(print_result({experiment, base_of(tasks), false}, connected->status, c));
  return exit_code::success;
}

void add_follow(CLI::App& app, context& c) {
  auto o = std::make_shared<follow_options>();
  auto* sub =
      app.add_subcommand("follow", "the progress of a running search, from another terminal; its table at the end");
  sub->add_option("experiment", o->experiment, "as in e3 (default: the one that runs)")->type_name("EXPERIMENT");
  sub->footer(
      footer("  cudal1 follow\n"
             "  cudal1 follow e3     Ctrl-C leaves it; the search goes on",
             "  0    it ended, or was left\n"
             "  2    it does not run\n"
             "  3    the node was lost"));
  sub->callback([o, &c] { finish(c, follow(*o, c)); });
}

const command_registration registered_follow(12, add_follow);

}  // namespace

}  // namespace cudal1::cli
