#include "tools/cli/evaluator_results.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "config/base/text_file.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

evaluator_summary summary_of(const std::string& group, const std::vector<const evaluated_file*>& files) {
  evaluator_summary s{.group = group};
  double logs = 0;
  int64_t fast_1 = 0, fast_15 = 0, fast_2 = 0;
  for (const auto* f : files) {
    if (f->verdict == evaluator_verdict::refused) ++s.refused;
    if (f->verdict == evaluator_verdict::not_judged) ++s.not_judged;
    if (f->verdict != evaluator_verdict::accepted) continue;
    ++s.accepted;
    logs += std::log(f->speedup);
    s.largest = std::max(s.largest, f->speedup);
    fast_1 += f->speedup > 1 ? 1 : 0;
    fast_15 += f->speedup > 1.5 ? 1 : 0;
    fast_2 += f->speedup > 2 ? 1 : 0;
  }
  const auto share = [&](int64_t n) { return static_cast<double>(n) / static_cast<double>(files.size()); };
  if (s.accepted > 0) s.geometric_mean = std::exp(logs / static_cast<double>(s.accepted));
  if (!files.empty()) {
    s.fast_1 = share(fast_1);
    s.fast_15 = share(fast_15);
    s.fast_2 = share(fast_2);
  }
  return s;
}

std::string ms_text(double ms) {
  return format_time(1000 * ms);
}

}  // namespace

expected<evaluator_results> read_evaluator_results(const std::string& file) {
  CUDAL1_TRY(const std::string text, read_text_file(file));
  auto results = from_text<evaluator_results>(text);
  if (!results) return fail_in(file, std::move(results).error());
  if (results->fingerprint.empty())
    return fail(errc::invalid_argument, "{} is no file of `cudal1 bench evaluator`", file);
  for (const auto& f : results->tasks)
    if (f.verdict == evaluator_verdict::accepted && !(f.speedup > 0))
      return fail(errc::invalid_argument, "{}: {} is accepted, and has no speedup", file, f.task);
  return results;
}

std::vector<evaluator_summary> summaries_of(const evaluator_results& r) {
  std::vector<const evaluated_file*> all;
  std::map<int64_t, std::vector<const evaluated_file*>> levels;
  for (const auto& f : r.tasks) {
    all.push_back(&f);
    if (f.level > 0) levels[f.level].push_back(&f);
  }
  std::vector<evaluator_summary> summaries{summary_of("all", all)};
  for (const auto& [level, files] : levels)
    summaries.push_back(summary_of(fmt::format("level {}", level), files));
  return summaries;
}

std::string verdict_words(const evaluated_file& f) {
  return f.verdict == evaluator_verdict::not_judged ? "not judged" : enum_name(f.verdict);
}

std::string evaluator_sentence(const evaluator_results& r) {
  const auto s = summaries_of(r).front();
  std::string text = fmt::format("KernelBench's own evaluator ({}, {} timed calls, {}) accepts {} of {}", r.layout,
                                 r.trials, r.device, s.accepted, format_count(s.files(), "file"));
  if (s.refused > 0) text += fmt::format(", refuses {}", s.refused);
  if (s.not_judged > 0) text += fmt::format(", could not judge {}", s.not_judged);
  if (s.accepted > 0)
    text += fmt::format("; geometric mean of the accepted {} over eager, the largest {}, fast_1 {:.0f}%",
                        format_speedup(s.geometric_mean), format_speedup(s.largest), 100 * s.fast_1);
  text += ".";
  if (std::ssize(r.tasks) < r.files)
    text += fmt::format(" Interrupted: {} of {} are missing; the same command goes on.", r.files - std::ssize(r.tasks),
                        format_count(r.files, "file"));
  return text;
}

std::string evaluator_text(const evaluator_results& r, const terminal& t) {
  table rows({{.title = "task", .least_width = 16},
              {.title = "KernelBench's evaluator"},
              {.title = "eager", .right = true, .drop = 1},
              {.title = "file", .right = true, .drop = 1},
              {.title = "speedup", .right = true},
              {.title = "why", .least_width = 30}});
  for (const auto& f : r.tasks) {
    const bool timed = f.verdict == evaluator_verdict::accepted;
    const auto flag = f.metadata.contains("excessive_speedup") ? "excessive speedup: look at the kernel" : "";
    rows.add({f.task, verdict_words(f), timed ? ms_text(f.reference_ms) : "-", timed ? ms_text(f.ms) : "-",
              timed ? format_speedup(f.speedup) : "-", timed ? flag : f.why});
  }
  return rows.text(t) + "\n" + wrap(evaluator_sentence(r), t.width, 0) + "\n";
}

}  // namespace cudal1::cli
