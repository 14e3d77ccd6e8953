// Pieces that several pages have.
#include <algorithm>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "tools/charts/drawing.hpp"
#include "tools/charts/escape.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/page/html_text.hpp"
#include "tools/cli/page/page_charts.hpp"
#include "tools/cli/page/page_tables.hpp"
#include "tools/serve/dashboard/pages.hpp"

namespace cudal1::serve {

using charts::escaped;

namespace {

constexpr std::size_t most_reason_characters = 160;

// Between two of those in which the search ran when it ended.
std::string share_text(const experiment_record& e, const tally_record& sum) {
  if (e.evaluations_per_task <= 0 || e.tasks.empty()) return "-";
  const auto planned = e.evaluations_per_task * std::ssize(e.tasks);
  return fmt::format("{} of {}", sum.evaluations, planned);
}

tally_record sum_of(const store_snapshot& records, const std::string& experiment) {
  tally_record sum;
  if (const auto found = records.tallies.find(experiment); found != records.tallies.end())
    for (const auto& t : found->second)
      cli::add_tally(sum, t);
  return sum;
}

std::string state_text(const page_input& in, const experiment_record& e) {
  const auto* running = in.now->running(e.id);
  if (running == nullptr) return e.state == experiment_state::running ? "interrupted" : enum_name(e.state);
  const auto left = cli::remaining_s(running->progress, running->limits);
  return fmt::format("running, {:.0f}%{}", 100 * cli::share_done(running->progress, running->limits),
                     left ? ", " + cli::format_clock(*left) + " left" : "");
}

}  // namespace

std::string progress_of(const page_input& in, const cli::top_experiment& e) {
  const auto& p = e.progress;
  const auto left = cli::remaining_s(p, e.limits);
  const double share = cli::share_done(p, e.limits);
  const auto ahead = std::ranges::count_if(p.tasks, [](const auto& task) { return task.best > 1; });
  const auto* record = in.records().experiment(p.experiment);
  std::string out =
      fmt::format("<div class=\"run\"><h3><a href=\"{}\">{}</a> <span class=\"over\">{} on {}</span></h3>\n",  //
                  experiment_path(p.experiment), escaped(p.experiment),
                  escaped(record != nullptr ? record->policy : e.limits.policy), escaped(e.limits.device));
  if (left)
    out += fmt::format("<progress max=\"100\" value=\"{0:.0f}\" aria-label=\"Progress of {1}\">{0:.0f}%</progress>\n",
                       100 * share, escaped(p.experiment));
  out += "<p class=\"run-figures\">";
  const std::string rate = p.evaluations_per_s > 0 ? cli::format_number(p.evaluations_per_s) + " a second" : "none now";
  for (const auto& part : {left ? fmt::format("{:.0f}% done", 100 * share) : std::string("no limit"),
                           left ? cli::format_clock(*left) + " left" : cli::format_clock(p.active_s) + " so far",
                           p.planned > 0 ? fmt::format("{} of {} evaluations", p.evaluations, p.planned)
                                         : cli::format_count(p.evaluations, "evaluation"),
                           rate, fmt::format("{} in flight", e.in_flight),
                           fmt::format("{} of {} ahead", ahead, cli::format_count(std::ssize(p.tasks), "task"))})
    out += "<span>" + escaped(part) + "</span> ";
  out += "</p>\n";
  const auto failures = cli::format_failures(p.outcomes), now = cli::device_work(e);
  if (!now.empty()) out += cli::paragraph("On the device now: " + now + ".", "note");
  if (!failures.empty()) out += cli::paragraph("Failed: " + failures + ".", "note");
  if (!p.problem.empty()) out += cli::paragraph(p.problem, "problem");
  return out + "</div>\n";
}

cli::data_table experiment_table(const page_input& in, const std::vector<const experiment_record*>& all,
                                 const std::string& caption) {
  cli::data_table t{"experiments",
                    caption,
                    {{"experiment"},
                     {"state"},
                     {"policy"},
                     {"device"},
                     {"tasks", true},
                     {"evaluations", true},
                     {"correct", true},
                     {"searched", true},
                     {"begun", true}},
                    {}};
  for (const auto* e : all) {
    const auto sum = sum_of(in.records(), e->id);
    const auto share = share_text(*e, sum);
    t.rows.push_back({experiment_cell(e->id),
                      {state_text(in, *e)},
                      {e->policy},
                      {e->device},
                      number_cell(std::ssize(e->tasks)),
                      {share == "-" ? std::to_string(sum.evaluations) : share},
                      number_cell(sum.correct),
                      {cli::format_clock(e->active_s)},
                      {cli::format_date(e->created_unix_ms)}});
  }
  return t;
}

cli::data_table linked_task_table(const page_input& in, const cli::page_data& page) {
  auto t = cli::task_table(page);
  t.caption = "Every task with its best confirmed variant, over its own program.";
  for (std::size_t i = 0; i < t.rows.size(); ++i) {
    const auto& row = page.report.tasks[i];
    t.rows[i].front() = task_cell(in.records(), row.task);
    if (!row.is_reference) t.rows[i].back() = variant_cell(row.variant);
  }
  return t;
}

expected<cli::page_data> charts_data(const page_input& in, const std::string& experiment) {
  cli::page_data page;
  const auto& records = in.records();
  std::vector<tally_record> counts;
  for (auto& [task, sum] : records.counts(experiment))
    counts.push_back(sum);
  CUDAL1_TRY(auto rows, in.data.rows(records, experiment));
  page.report = cli::summed_report(std::move(rows), counts);
  page.report.experiment = experiment;

  // The newest ones that were no single evaluation.
  constexpr std::size_t most = 6;
  std::vector<const experiment_record*> drawn;
  for (auto e = records.experiments.rbegin(); e != records.experiments.rend() && drawn.size() < most; ++e)
    if (experiment.empty() ? e->policy != hand_policy && !e->device.starts_with(replay_prefix) : e->id == experiment)
      drawn.push_back(&*e);
  if (!in.data.variants().state().complete) drawn.clear();  // half of a curve is a wrong one
  std::ranges::reverse(drawn);
  for (const auto* e : drawn) {
    std::vector<std::vector<cli::best_so_far>> curves;
    int64_t longest = 0;
    for (const auto& [task, curve] : in.data.variants().curves_of(e->id)) {
      longest = std::max(longest, curve.verdicts);
      curves.push_back(curve.points);
    }
    if (longest > 1)
      page.curves.push_back({fmt::format("{} ({})", e->id, e->policy), cli::mean_curve(curves), longest});
  }
  const auto newest = in.data.variants().failures_of(experiment);
  for (const auto& [name, count] : page.report.outcomes) {
    if (name == enum_name(outcome::correct) || count == 0) continue;
    cli::failure_class f{name, count, "", "", ""};
    for (const auto& [result, failure] : newest)
      if (enum_name(result) == name) f.task = failure.task, f.variant = failure.variant, f.reason = failure.reason;
    page.failures.push_back(std::move(f));
  }
  std::ranges::stable_sort(page.failures, std::greater{}, &cli::failure_class::count);
  return page;
}

std::string index_note(const page_input& in) {
  const auto state = in.data.variants().state();
  if (state.complete) return "";
  const double share = state.all > 0 ? 100.0 * static_cast<double>(state.read) / static_cast<double>(state.all) : 0;
  return cli::paragraph(state.all > 0 ? fmt::format("The verdicts are being read: {:.0f}% of {}.", share, state.all)
                                      : "The verdicts are being read.",
                        "state");
}

std::string failures_of(const page_input& in, const cli::page_data& page) {
  if (page.report.evaluations == 0) return "";
  const auto correct = page.report.outcomes.find(enum_name(outcome::correct));
  auto sentence = cli::paragraph(fmt::format("{} of {} found a correct variant.",
                                             correct == page.report.outcomes.end() ? 0 : correct->second,
                                             cli::format_count(page.report.evaluations, "evaluation")));
  if (page.failures.empty()) return sentence;
  auto t = cli::failure_table(page);
  for (std::size_t i = 0; i < t.rows.size(); ++i) {
    const auto& f = page.failures[i];
    t.rows[i][0].link = "/variants?outcome=" + f.outcome +
                        (page.report.experiment.empty() ? "" : "&experiment=" + page.report.experiment);
    t.rows[i][2] = task_cell(in.records(), f.task);
    t.rows[i][3] = variant_cell(f.variant);
    t.rows[i][4] = {f.reason.empty() ? "-" : charts::shortened(f.reason, most_reason_characters)};
  }
  const auto chart = cli::failure_chart(page);
  return sentence + (chart ? cli::html_of(*chart) : "") + shown_table(t);
}

cli::data_table event_table(const page_input& in, std::size_t most, const std::string& experiment,
                            std::size_t most_characters) {
  cli::data_table t{"events",
                    "The newest events of the store.",
                    {{"time"}, {"event"}, {"experiment"}, {"task"}, {"variant"}, {"what", false, true}},
                    {}};
  for (const auto& e : in.records().events) {
    if (t.rows.size() == most) break;
    if (!experiment.empty() && e.experiment != experiment) continue;
    t.rows.push_back({{cli::format_date(e.time_unix_ms)},
                      {e.kind},
                      experiment_cell(e.experiment),
                      task_cell(in.records(), e.task),
                      variant_cell(e.variant),
                      {charts::shortened(e.text, most_characters)}});
  }
  return t;
}

}  // namespace cudal1::serve
