// What is going on, on one page; and the list of experiments.
#include <algorithm>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/page/html_text.hpp"
#include "tools/cli/page/page_charts.hpp"
#include "tools/serve/dashboard/device_tables.hpp"
#include "tools/serve/dashboard/pages.hpp"

namespace cudal1::serve {

namespace {

constexpr std::size_t experiments_on_overview = 8, events_on_overview = 12, most_text_on_overview = 80,
                      experiments_on_page = 100;

bool is_search(const page_input& in, const cli::top_experiment& e) {
  const auto* record = in.records().experiment(e.progress.experiment);
  return record == nullptr || record->policy != hand_policy;
}

std::string overview_title(const page_input& in) {
  std::vector<cli::top_experiment> running;
  for (const auto& e : in.now->node.experiments)
    if (is_search(in, e)) running.push_back(e);
  if (running.size() > 1) return fmt::format("{} searches run", running.size());
  if (running.empty()) return in.records().experiments.empty() ? "Nothing was searched yet" : "No search runs";
  const auto& e = running.front();
  const auto left = cli::remaining_s(e.progress, e.limits);
  if (!left) return e.progress.experiment + " runs, without a limit";
  return fmt::format("{} is {:.0f}% done, {} left", e.progress.experiment, 100 * cli::share_done(e.progress, e.limits),
                     cli::format_clock(*left));
}

std::string head_figures(const page_input& in, const cli::page_data& page) {
  const auto& r = page.report;
  if (r.evaluations == 0) return "";
  std::vector<std::pair<std::string, std::string>> figures;
  const auto reached = std::ranges::count_if(r.tasks, &cli::best_row::is_reached);
  figures.emplace_back("tasks faster than their own program by more than the 95% interval",
                       fmt::format("{} of {}", r.beat_reference, reached));
  figures.emplace_back(
      fmt::format("geometric mean over the tasks' own programs, {}", cli::format_count(reached, "task")),
      cli::format_speedup(r.geometric_mean));
  int64_t failed = 0;
  for (const auto& f : page.failures)
    failed += f.count;
  figures.emplace_back(failed > 0 ? fmt::format("evaluations; {} failed", failed) : "evaluations; none failed",
                       std::to_string(r.evaluations));
  figures.emplace_back("waiting or running over HTTP",
                       std::to_string(in.routes.board->count().waiting + in.routes.board->count().running));
  return figures_of(figures);
}

std::string running_part(const page_input& in) {
  std::string out;
  int64_t single = 0;
  for (const auto& e : in.now->node.experiments)
    if (is_search(in, e))
      out += progress_of(in, e);
    else
      ++single;
  if (single > 0)
    out += cli::paragraph(fmt::format("{} by hand or over HTTP {}.", cli::format_count(single, "evaluation"),
                                      single == 1 ? "runs" : "run"));
  return out;
}

std::vector<const experiment_record*> searches_of(const store_snapshot& records) {
  std::vector<const experiment_record*> all;
  for (auto e = records.experiments.rbegin(); e != records.experiments.rend(); ++e)
    if (e->policy != hand_policy) all.push_back(&*e);
  return all;
}

std::string drawn(const std::optional<cli::page_chart>& chart) {
  return chart ? cli::html_of(*chart) : "";
}

}  // namespace

expected<page_parts> overview_page(const page_input& in) {
  CUDAL1_TRY(const auto page, charts_data(in, ""));
  const auto& records = in.records();
  auto searches = searches_of(records);
  const auto count = searches.size();
  searches.resize(std::min(count, experiments_on_overview));
  std::string head = page_title(overview_title(in)) + cli::paragraph(in.now->problem, "problem") +
                     cli::paragraph(in.now->node.problem, "problem");
  if (records.experiments.empty())
    head += cli::paragraph("The store has no evaluations yet. A search starts here, or with `cudal1 run`.", "state");
  head += index_note(in) + head_figures(in, page);
  std::string recent = shown_table(experiment_table(in, searches, "The newest searches."));
  if (count > searches.size()) recent += link_line("/experiments", fmt::format("All {} experiments", count));
  auto events = event_table(in, events_on_overview, "", most_text_on_overview);
  return page_parts{"Overview", "/",
                    live_part("head", head) + "<p class=\"actions\"><a href=\"/start\">Start a search</a></p>\n" +
                        live_section("running", "Running", running_part(in)) +
                        live_section("devices", "Devices", device_part(in)) +
                        live_section("progress", "Best so far", drawn(cli::progress_chart(page))) +
                        live_section("recent", "Experiments", recent) +
                        live_section("speedups", "Speedups", drawn(cli::speedup_chart(page))) +
                        live_section("failed", "Verdicts by class", failures_of(in, page)) +
                        live_section("log", "The end of the log",
                                     events.empty() ? "" : shown_table(events) + link_line("/log", "More of the log"))};
}

expected<page_parts> experiments_page(const page_input& in) {
  const auto& records = in.records();
  const auto searches = searches_of(records);
  const auto by_hand = std::ssize(records.experiments) - std::ssize(searches);
  const auto number = static_cast<std::size_t>(in.call.number("page", 1));
  const auto first = (number - 1) * experiments_on_page;
  std::vector<const experiment_record*> shown;
  for (auto i = first; i < std::min(first + experiments_on_page, searches.size()); ++i)
    shown.push_back(searches[i]);
  std::string out = shown_table(experiment_table(in, shown, "All searches, the newest first."));
  if (searches.empty()) out = cli::paragraph("No search was started yet.", "state");
  if (by_hand > 0)
    out += cli::paragraph(fmt::format("Beside these: {} by hand or over HTTP, each an experiment of its own.",
                                      cli::format_count(by_hand, "evaluation")),
                          "note");
  if (number > 1) out += link_line(fmt::format("/experiments?page={}", number - 1), "Newer");
  if (first + experiments_on_page < searches.size())
    out += link_line(fmt::format("/experiments?page={}", number + 1), "Older");
  return page_parts{"Experiments", "/experiments",
                    page_title("Experiments") + "<p class=\"actions\"><a href=\"/start\">Start a search</a></p>\n" +
                        live_part("experiments-part", out)};
}

}  // namespace cudal1::serve
