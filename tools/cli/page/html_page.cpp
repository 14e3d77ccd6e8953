#include "tools/cli/page/html_page.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/page/html_text.hpp"
#include "tools/cli/page/page_style.hpp"
#include "tools/cli/page/page_tables.hpp"

namespace cudal1::cli {

using charts::escaped;

namespace {

int64_t reached(const page_data& page) {
  return std::ranges::count_if(page.report.tasks, &best_row::is_reached);
}

bool is_any_timed(const page_data& page) {
  return std::ranges::any_of(page.report.tasks, [](const best_row& row) { return row.reference_us > 0; });
}

bool is_over_a_baseline(const page_data& page) {
  return page.report.against != against_program && page.report.over && page.report.over->measured > 0;
}

// Why there are no results, or not all.
std::string state_note(const page_data& page) {
  const auto& r = page.report;
  const auto open = std::ssize(r.tasks) - reached(page);
  if (page.experiment && page.experiment->state == experiment_state::running)
    return fmt::format("This experiment was running when the page was written: {} of {} had been evaluated.",
                       reached(page), format_count(std::ssize(r.tasks), "task"));
  if (page.experiment && page.experiment->state == experiment_state::cancelled)
    return fmt::format("This experiment was stopped before its limits; {} of {} had been evaluated.", reached(page),
                       format_count(std::ssize(r.tasks), "task"));
  if (r.tasks.empty()) return "The store has no evaluations yet. `cudal1 run` starts a search.";
  if (open > 0) return fmt::format("{} of {} have no result.", open, format_count(std::ssize(r.tasks), "task"));
  return "";
}

std::string figure(const std::string& value, const std::string& meaning) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(meaning), escaped(value));
}

// The largest speedup, over the same base as the headline.
std::string largest_figure(const page_data& page) {
  const auto& r = page.report;
  const auto value = [&](const best_row& row) {
    if (!is_over_a_baseline(page)) return row.speedup;
    return row.against && row.against->problem.empty() ? row.against->speedup : 0.0;
  };
  const auto best = std::ranges::max_element(r.tasks, {}, value);
  return value(*best) > 1 ? figure(format_speedup(value(*best)), "the largest: " + best->name) : "";
}

std::string key_figures(const page_data& page) {
  const auto& r = page.report;
  if (reached(page) == 0) return "";
  std::string out;
  if (is_over_a_baseline(page))
    out += figure(
        format_speedup(r.over->geometric_mean),
        fmt::format("geometric mean over {}, {}", base_words(r.against), format_count(r.over->measured, "task")));
  if (is_any_timed(page)) {
    out += figure(format_speedup(r.geometric_mean),
                  fmt::format("geometric mean over the tasks' own programs, {}", format_count(reached(page), "task")));
    out += figure(fmt::format("{} of {}", r.beat_reference, reached(page)),
                  "tasks faster than their own program by more than the 95% interval");
    out += largest_figure(page);
  }
  if (r.gap_closed) out += figure(fmt::format("{:.0f}%", 100 * *r.gap_closed), "of the log gap to the floor closed");
  int64_t failed = 0;
  for (const auto& f : page.failures)
    failed += f.count;
  out += figure(std::to_string(r.evaluations),
                failed > 0 ? fmt::format("evaluations; {} failed", failed) : "evaluations; none failed");
  constexpr int in_one_row = 4;  // more are in rows of three
  const auto count = std::ranges::count(out, '\n');
  return fmt::format("<dl class=\"figures{}\">\n", count == in_one_row ? " four" : "") + out + "</dl>\n";
}

void add_fact(std::string& out, const std::string& name, const std::string& value) {
  if (!value.empty()) out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(value));
}

std::string budget_text(const experiment_record& e) {
  std::vector<std::string> parts;
  if (e.evaluations_per_task > 0) parts.push_back(format_count(e.evaluations_per_task, "evaluation") + " of each task");
  if (e.device_s_per_task > 0)
    parts.push_back(format_time(e.device_s_per_task * 1e6) + " of device time for each task");
  if (e.time_limit_s > 0) parts.push_back(format_clock(e.time_limit_s) + " in all");
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

// What it was measured on, and how.
std::string facts(const page_data& page) {
  std::string out = "<dl class=\"facts\">\n";
  if (page.experiment) {
    const auto& e = *page.experiment;
    add_fact(out, "Experiment", fmt::format("{} ({}), policy {}, seed {}", e.id, enum_name(e.state), e.policy, e.seed));
    add_fact(out, "Limits", budget_text(e));
    std::string when = format_date(e.created_unix_ms);
    if (e.finished_unix_ms > 0) when += " to " + format_date(e.finished_unix_ms);
    add_fact(out, "Searched", fmt::format("{}; {} of search", when, format_clock(e.active_s)));
    if (!e.models.empty()) add_fact(out, "Language models", fmt::format("{}", fmt::join(e.models, ", ")));
  } else {
    add_fact(out, "Experiments", std::to_string(page.experiments.size()));
  }
  for (const auto& e : page.report.environments) {
    add_fact(out, "Device", e.device + ": " + e.model);
    add_fact(out, "Software", e.details);
  }
  add_fact(out, "Page written",
           format_date(page.now_unix_ms) + (page.version.empty() ? "" : " by cudal1 " + page.version));
  std::string remark;
  for (const auto& e : page.report.environments)
    if (remark.empty()) remark = timing_remark(e.device);
  return out + "</dl>\n" + paragraph(remark, "note");
}

struct part {
  std::string id, title, inside;
};

std::string drawn(const std::optional<page_chart>& chart) {
  return chart ? html_of(*chart) : "";
}

std::string shown(const data_table& t) {
  return t.empty() ? "" : html_of(without_empty_columns(t));
}

std::string lines_of(const std::string& text, const std::string& css_class) {
  std::string out;
  for (const auto& line : split_lines(text))
    out += paragraph(line, css_class);
  return out;
}

std::string speedup_part(const page_data& page) {
  const auto& r = page.report;
  return drawn(speedup_chart(page)) + lines_of(print_against(r), "note") + paragraph(print_ill_conditioned(r), "note") +
         paragraph(print_in_parts(r), "note") + paragraph(print_in_half_precision(r), "note") +
         paragraph(print_unconfirmed(r), "note") + shown(task_table(page));
}

std::string level_part(const page_data& page) {
  std::string out = shown(level_table(page)) + drawn(fast_share_chart(page)) + shown(fast_table(page));
  if (const auto families = family_table(page); !families.empty())
    out += "<details class=\"more\"><summary>By family of tasks</summary>\n" + html_of(families) + "</details>\n";
  return out;
}

std::string evaluator_part(const page_data& page) {
  if (!page.evaluator) return "";
  return paragraph(evaluator_sentence(*page.evaluator)) + shown(evaluator_group_table(page)) +
         shown(evaluator_table(page));
}

std::string failure_part(const page_data& page) {
  if (page.report.evaluations == 0) return "";
  std::string out = drawn(failure_chart(page)) + shown(failure_table(page));
  if (out.empty()) out = paragraph("No variant failed.");
  out += "<h4>Hack cases</h4>\n";
  const auto hacks = hack_table(page);
  return out + (hacks.empty() ? paragraph("No refused variant was evidence of a way to cheat.") : html_of(hacks));
}

std::vector<part> parts_of(const page_data& page) {
  std::string sections;
  for (std::size_t i = 0; i < page.tasks.size(); ++i)
    sections += task_section(page.tasks[i], i + 1);
  std::string environment = shown(environment_table(page)) + shown(stage_table(page));
  std::vector<part> parts = {{"speedup", "Speedups", speedup_part(page)},
                             {"by-level", "By level and family", level_part(page)},
                             {"kernelbench", "By KernelBench's own evaluator", evaluator_part(page)},
                             {"progress", "Progress of the search", drawn(progress_chart(page))},
                             {"roofs", "Distance to the floor", drawn(roof_chart(page))},
                             {"technique", "Techniques", drawn(technique_chart(page)) + shown(technique_table(page))},
                             {"model", "Language models", shown(model_table(page))},
                             {"failure", "Failures", failure_part(page)},
                             {"where", "Environment", std::move(environment)},
                             {"task-list", "Tasks", std::move(sections)}};
  std::erase_if(parts, [](const part& p) { return p.inside.empty(); });
  return parts;
}

}  // namespace

std::string headline(const page_data& page) {
  const auto& r = page.report;
  if (r.tasks.empty()) return "Nothing was evaluated yet";
  if (reached(page) == 0) return fmt::format("No result yet for {}", format_count(std::ssize(r.tasks), "task"));
  if (!is_any_timed(page)) return fmt::format("No variant of {} was correct", format_count(reached(page), "task"));
  if (is_over_a_baseline(page))
    return fmt::format("{} of {} run faster than with {}: {} in the geometric mean", r.over->improved,
                       format_count(r.over->measured, "task"), base_words(r.against),
                       format_speedup(r.over->geometric_mean));
  if (r.beat_reference == 0)
    return fmt::format("No faster variant was confirmed for {}", format_count(reached(page), "task"));
  return fmt::format("{} of {} run faster: {} in the geometric mean", r.beat_reference,
                     format_count(reached(page), "task"), format_speedup(r.geometric_mean));
}

std::vector<page_chart> charts_of(const page_data& page) {
  std::vector<page_chart> all;
  for (auto& chart : {speedup_chart(page), fast_share_chart(page), progress_chart(page), roof_chart(page),
                      technique_chart(page), failure_chart(page)})
    if (chart) all.push_back(*chart);
  for (std::size_t i = 0; i < page.tasks.size(); ++i)
    for (auto& chart : task_charts(page.tasks[i], i + 1))
      all.push_back(std::move(chart));
  return all;
}

std::string html_page(const page_data& page) {
  const auto title =
      page.report.experiment.empty() ? "cudal1 report" : "cudal1 report, experiment " + page.report.experiment;
  const auto parts = parts_of(page);
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      escaped(title) + "</title>\n<style>\n" + page_style() +
      "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#content\">Skip to the results</a>\n<header>\n";
  out += paragraph(title, "over") + "<h1>" + escaped(headline(page)) + "</h1>\n" +
         paragraph(state_note(page), "state") + key_figures(page) + facts(page);
  if (parts.size() > 1) {
    out += "<nav aria-label=\"Sections\"><ul>\n";
    for (const auto& p : parts)
      out += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", p.id, escaped(p.title));
    out += "</ul></nav>\n";
  }
  out += "</header>\n<main id=\"content\">\n";
  for (const auto& p : parts)
    out += fmt::format("<section aria-labelledby=\"{0}\"><h2 id=\"{0}\">{1}</h2>\n", p.id, escaped(p.title)) +
           p.inside + "</section>\n";
  return out + "</main>\n<footer>\n" +
         paragraph(
             "Speedups are medians of paired ratios of call times; each best variant was measured again on new "
             "inputs before it counted. The floor is an estimate from the device's specifications.") +
         "</footer>\n</body>\n</html>\n";
}

}  // namespace cudal1::cli
