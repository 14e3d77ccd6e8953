#include "tools/baseline/baseline_process.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "tools/baseline/task_comparison.hpp"

namespace cudal1::cli {

namespace {

using clock = std::chrono::steady_clock;
constexpr std::string_view taking = "take the request";  // the step before the first that the process reports

// One line of its standard output: the union of the members of all events.
struct event_line {
  std::string event, torch, problem, doing;
  std::vector<std::string> kinds;
  double limit_s = 0;
};
BOOST_DESCRIBE_STRUCT(event_line, (), (event, torch, problem, doing, kinds, limit_s))

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

bool contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

}  // namespace

// ---- the process ----------------------------------------------------------------------------------------------------

baseline_process::baseline_process(baseline_process_options options)
    : options_(std::move(options)),
      process_({"the measuring process",
                {options_.python, "-u", options_.script, "--device", options_.place.device},
                options_.place.log}) {}

expected<void> baseline_process::start() {
  CUDAL1_CHECK(process_.start());
  auto line = process_.receive(clock::now() + options_.start_limit, options_.place.wake_fd);
  if (!line) {
    process_.end();
    return tl::unexpected<error>(std::move(line).error());
  }
  const auto said = *line ? from_text<event_line>(**line) : expected<event_line>(event_line{});
  if (said && said->event == "ready") {
    torch_ = said->torch;
    return {};
  }
  const auto why = said && said->event == "broken" ? said->problem : process_.how_it_ended();
  process_.end();
  return fail(errc::infrastructure, "the measuring process did not start: {}; its log is {}", why, options_.place.log);
}

// ---- a request ------------------------------------------------------------------------------------------------------

expected<std::optional<baseline_process::interruption>> baseline_process::exchange(const baseline_request& r,
                                                                                   std::vector<kind_times>& answers) {
  interruption at{"", r.kinds, std::string(taking)};
  auto until = clock::now() + milliseconds(r.prepare_seconds) + options_.grace;
  double limit_s = r.prepare_seconds;
  if (!process_.send(to_text(r))) {
    at.problem = process_.how_it_ended();
    return std::optional(at);
  }
  for (;;) {
    auto line = process_.receive(until, options_.place.wake_fd);
    if (!line && line.error().code == errc::timeout) {
      at.problem = fmt::format("it did not end within {:.0f} s", limit_s);
      return std::optional(at);
    }
    if (!line) return tl::unexpected<error>(std::move(line).error());
    if (!*line) {
      at.problem = process_.how_it_ended();
      return std::optional(at);
    }
    CUDAL1_TRY(const event_line said, from_text<event_line>(**line));
    if (said.event == "done") return std::optional<interruption>();
    if (said.event == "broken") {
      at.problem = said.problem;
      return std::optional(at);
    }
    if (said.event == "begin") {
      at.kinds = said.kinds;
      at.doing = said.doing;
      limit_s = said.limit_s;
      until = clock::now() + milliseconds(limit_s) + options_.grace;
    } else if (said.event == "kind") {
      CUDAL1_TRY(kind_times answer, from_text<kind_times>(**line));
      if (contains(r.kinds, answer.kind)) answers.push_back(std::move(answer));
    }
  }
}

expected<std::vector<kind_times>> baseline_process::measure(const baseline_request& r) {
  std::vector<kind_times> answers;
  baseline_request next = r;  // with the kinds that are left
  bool asked_again = false;
  while (!next.kinds.empty()) {
    if (!process_.is_running()) CUDAL1_CHECK(start());
    const std::size_t before = answers.size();
    auto exchanged = exchange(next, answers);
    if (!exchanged) {
      process_.end();
      return tl::unexpected<error>(std::move(exchanged).error());
    }
    const auto left_over = [&](const std::string& kind) {
      return std::none_of(answers.begin() + static_cast<std::ptrdiff_t>(before), answers.end(),
                          [&](const kind_times& a) { return a.kind == kind; });
    };
    std::vector<std::string> left;
    std::copy_if(next.kinds.begin(), next.kinds.end(), std::back_inserter(left), left_over);
    const auto& stopped = *exchanged;
    if (stopped) process_.end();
    if (left.empty()) break;
    // The process had ended before this request: its kinds are not the cause.
    if (stopped && stopped->doing == taking && !std::exchange(asked_again, true)) {
      next.kinds = std::move(left);
      continue;
    }
    const auto was_measuring = [&](const std::string& kind) { return !stopped || contains(stopped->kinds, kind); };
    std::vector<std::string> blamed, others;
    for (const auto& kind : left)
      (was_measuring(kind) ? blamed : others).push_back(kind);
    for (const auto& kind : blamed)
      answers.push_back({.kind = kind,
                         .problem = stopped ? fmt::format("failed to {}: {}", stopped->doing, stopped->problem)
                                            : std::string("the measuring process returned no result"),
                         .call_us = {},
                         .device_us = {},
                         .check = {},
                         .notes = {}});
    // No progress and no kind that caused it: repeating the request would loop forever.
    if (blamed.empty() && answers.size() == before)
      return fail(errc::infrastructure, "the measuring process does not work: {}; its log is {}",
                  stopped ? stopped->problem : "it returned no result", options_.place.log);
    next.kinds = std::move(others);
  }
  return answers;
}

expected<task_comparison> baseline_process::compare(const task& t, const std::string& blobs) {
  return compare_with_model(t, blobs, options_.place);
}

}  // namespace cudal1::cli
