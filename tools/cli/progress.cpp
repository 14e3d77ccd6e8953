#include "tools/cli/progress.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "tools/cli/format.hpp"

namespace cudal1::cli {

namespace {

constexpr double seconds_between_lines = 10;

// Up to 1, by time or by evaluations, whichever is further; negative if the search has no limit.
double fraction_done(const experiment_progress& p, const run_limits& limits) {
  double done = -1;
  if (limits.time_limit_s > 0) done = std::max(done, p.active_s / limits.time_limit_s);
  if (p.planned > 0) done = std::max(done, static_cast<double>(p.evaluations) / static_cast<double>(p.planned));
  return std::min(done, 1.0);
}

std::string bar(double fraction, std::size_t columns) {
  if (fraction < 0 || columns < 8) return "";
  const auto full = static_cast<std::size_t>(std::lround(fraction * static_cast<double>(columns - 2)));
  return "[" + std::string(full, '#') + std::string(columns - 2 - full, '.') + "]  ";
}

std::string counts(const experiment_progress& p) {
  std::string text = std::to_string(p.evaluations);
  if (p.planned > 0) text += fmt::format(" of {}", p.planned);
  return text + fmt::format(" evaluations, {}/s", format_number(p.evaluations_per_s));
}

std::string clock_of(const experiment_progress& p, const run_limits& limits) {
  const auto elapsed = format_clock(p.active_s);
  return limits.time_limit_s > 0 ? elapsed + " of " + format_clock(limits.time_limit_s) : elapsed;
}

// "31 answers, 212k tokens, 0.83"; "" without a language model.
std::string answers_of(const experiment_progress& p) {
  if (p.answers.answers == 0) return "";
  return fmt::format("; {}, {:.0f}k tokens, cost {:.3g}", format_count(p.answers.answers, "answer"),
                     static_cast<double>(p.answers.prompt_tokens + p.answers.answer_tokens) / 1000, p.answers.money);
}

// Ahead of their reference, perhaps by less than the interval of the speedup, which the message does not have.
int64_t ahead(const experiment_progress& p) {
  return std::count_if(p.tasks.begin(), p.tasks.end(), [](const auto& t) { return t.best > 1; });
}

// Wrapped, so that the reason at its end is seen; of a flat terminal only as much as leaves room for the rest.
std::vector<std::string> problem_lines(const experiment_progress& p, const terminal& t) {
  constexpr std::size_t most = 4, low = 12;
  if (p.problem.empty()) return {};
  auto lines = split_lines(wrap(p.problem, t.width > 0 ? t.width - 1 : 79));
  if (const std::size_t room = t.height > 0 && t.height < low ? 1 : most; lines.size() > room) {
    lines.resize(room);
    lines.back() += " ...";
  }
  return lines;
}

// The tasks with their best speedups, in as many columns as fit.
std::vector<std::string> task_grid(const experiment_progress& p, const terminal& t) {
  std::size_t longest = 0;
  for (const auto& task : p.tasks)
    longest = std::max(longest, display_width(task.name));
  constexpr std::size_t numbers = 14;  // "  12.3x   123 "
  const std::size_t width = t.width > 0 ? t.width - 1 : 79;
  longest = std::min(longest, width > numbers + 4 ? width - numbers : 4);
  const std::size_t across = std::max<std::size_t>(1, (width + 2) / (longest + numbers + 2));
  const std::size_t down = (p.tasks.size() + across - 1) / across;
  std::vector<std::string> lines(down);
  for (std::size_t i = 0; i < p.tasks.size(); ++i) {
    const auto& task = p.tasks[i];
    const auto best = pad(task.best > 0 ? format_speedup(task.best) : "-", 7, alignment::right);
    auto& line = lines[i % down];  // column by column
    if (!line.empty()) line += "  ";
    line += pad(fit(task.name, longest), longest) + (task.best > 1 ? t.good(best) : best) +
            t.dim(pad(std::to_string(task.evaluations), 7, alignment::right));
  }
  return lines;
}

}  // namespace

std::vector<std::string> progress_frame(const experiment_progress& p, const run_limits& limits, const terminal& t,
                                        const std::string& remark) {
  const std::size_t width = t.width > 0 ? t.width - 1 : 79;
  std::vector<std::string> lines;
  const auto left =
      fmt::format("{} on {}{}", p.experiment, limits.device, limits.policy.empty() ? "" : ", policy " + limits.policy);
  const auto right = clock_of(p, limits);
  const auto between = width > left.size() + right.size() + 1 ? width - left.size() - right.size() : 2;
  lines.push_back(t.bold(left) + std::string(between, ' ') + right);
  const auto counted = counts(p);
  const auto columns = width > counted.size() + 2 ? width - counted.size() - 2 : 0;
  lines.push_back(bar(fraction_done(p, limits), std::min<std::size_t>(columns, 60)) + counted);
  auto failures = format_failures(p.outcomes);
  if (p.infrastructure_faults > 0)
    failures += fmt::format("{}lost and repeated {}", failures.empty() ? "" : "; ", p.infrastructure_faults);
  if (p.unrecorded > 0) failures += fmt::format("{}not recorded {}", failures.empty() ? "" : "; ", p.unrecorded);
  const auto last =
      fmt::format("{} of {} tasks ahead{}", ahead(p), p.tasks.size(), failures.empty() ? "" : "; failed: " + failures) +
      answers_of(p);
  auto grid = task_grid(p, t);
  // The grid is cut to the terminal's height; its last line is then "...".
  const auto problem = problem_lines(p, t);
  const std::size_t others = lines.size() + 1 + (remark.empty() ? 0 : 1) + problem.size() + 1;
  const std::size_t room = t.height > others ? t.height - others : 0;
  if (t.height > 0 && grid.size() > room) {
    grid.resize(room);
    if (room > 0) grid.back() = "...";
  }
  lines.insert(lines.end(), grid.begin(), grid.end());
  lines.push_back(t.dim(last));
  for (const auto& line : problem)
    lines.push_back(t.bold(line));
  if (!remark.empty()) lines.push_back(t.bold(remark));
  for (auto& line : lines)
    line = fit(std::move(line), t.width > 0 ? width : 0);
  return lines;
}

std::vector<std::string> search_frame(const experiment_progress& lead, const std::vector<experiment_progress>& others,
                                      const run_limits& limits, const terminal& t, const std::string& remark) {
  if (others.empty()) return progress_frame(lead, limits, t, remark);
  terminal part = t;
  if (t.height > 0) part.height = std::max<std::size_t>(t.height / (others.size() + 1), 4);
  std::vector<std::string> lines;
  const auto add = [&](const experiment_progress& p, const std::string& last) {
    run_limits own = limits;
    if (!p.model.empty()) own.device += " (" + p.model + ")";
    std::ranges::move(progress_frame(p, own, part, last), std::back_inserter(lines));
  };
  add(lead, "");
  for (const auto& p : others)
    add(p, &p == &others.back() ? remark : "");
  return lines;
}

std::string progress_line(const experiment_progress& p) {
  const auto failures = format_failures(p.outcomes);
  return fmt::format("{:>7}  {}, {} of {} tasks ahead{}", format_clock(p.active_s), counts(p), ahead(p), p.tasks.size(),
                     failures.empty() ? "" : "; failed: " + failures) +
         answers_of(p) + (p.problem.empty() ? "" : "; " + p.problem);
}

void run_view::remark(const std::string& what) {
  if (what == remark_ || mode_ == view_mode::silent) return;
  remark_ = what;
  if (terminal_.live)
    draw();
  else if (!what.empty())
    terminal_.print(what + "\n");
}

void run_view::note(const std::string& what) {
  if (mode_ == view_mode::silent) return;
  if (terminal_.live)
    area_.print_above(what + "\n");
  else
    terminal_.print(what + "\n");
}

void run_view::update(const experiment_progress& p, std::vector<experiment_progress> others) {
  if (mode_ == view_mode::silent) return;
  last_ = p;
  others_ = std::move(others);
  if (terminal_.live) return draw();
  print_lines(p, others_.empty() ? "" : p.model);
  for (const auto& other : others_)
    print_lines(other, other.model);
}

void run_view::draw() {
  const terminal now = examine(terminal_.stream);
  if (last_.experiment.empty())
    area_.draw({now.bold(remark_)});
  else
    area_.draw(search_frame(last_, others_, limits_, now, remark_));
}

void run_view::print_lines(const experiment_progress& p, const std::string& model) {
  std::string text;
  const std::string on = model.empty() ? "" : " on " + model;
  for (const auto& task : p.tasks) {
    auto& printed = printed_best_[p.experiment + "/" + task.task];
    if (task.best <= 1 || task.best <= printed) continue;
    printed = task.best;
    text += fmt::format("{:>7}  {} {}{}, variant {}\n", format_clock(p.active_s), task.name, format_speedup(task.best),
                        on, short_id(task.best_variant));
  }
  auto& printed_problem = printed_problem_[p.experiment];
  const auto problem = p.problem.substr(0, p.problem.find(" (try "));  // the same one, tried again, is no news
  const bool is_new_problem = !problem.empty() && problem != printed_problem;
  printed_problem = problem;
  if (auto& printed_at_s = printed_at_s_[p.experiment];
      is_new_problem || p.active_s - printed_at_s >= seconds_between_lines) {
    printed_at_s = p.active_s;
    text += progress_line(p) + on + "\n";
  }
  if (!text.empty()) terminal_.print(text);
}

}  // namespace cudal1::cli
