#include "policy/prompt/performance_analysis.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "policy/moves/move_registry.hpp"
#include "policy/prompt/quantities.hpp"

namespace cudal1 {

namespace {

constexpr double clear_difference = 0.5;  // of shares
constexpr double near_roof = 0.7;         // of the roof: little is left to win on the device
constexpr std::size_t most_contrasts = 5;

// What a schedule consists of, for comparison: names of moves, and of those that choose a value each value too. Which
// steps and groups they refer to differs between schedules that do the same.
std::set<std::string> features_of(const schedule& plan) {
  std::set<std::string> features;
  for (const auto& m : plan.moves) {
    features.insert(m.name);
    const auto* kind = find_move(m.name);
    if (kind == nullptr || !kind->chooses_a_value() || m.parameters.empty()) continue;
    const auto& [name, value] = m.parameters.back();
    features.insert(fmt::format("{}({}={})", m.name, name, value));
  }
  return features;
}

struct feature_counts {
  int64_t variants = 0;  // with a schedule
  std::map<std::string, int64_t> with;

  void add(const exemplar& e) {
    if (!e.plan) return;
    ++variants;
    for (const auto& f : features_of(*e.plan))
      ++with[f];
  }
  double share(const std::string& feature) const {
    const auto found = with.find(feature);
    return found == with.end() || variants == 0 ? 0.0
                                                : static_cast<double>(found->second) / static_cast<double>(variants);
  }
};

bool is_own(const exemplar& e) {
  return e.known.similarity >= 1;
}

// The clearest first; ties by name.
void keep_clearest(std::vector<move_contrast>& moves) {
  const auto clarity = [](const move_contrast& m) { return std::abs(m.in_fast - std::max(m.in_slow, m.in_failed)); };
  std::ranges::stable_sort(moves, [&](const auto& a, const auto& b) { return clarity(a) > clarity(b); });
  if (moves.size() > most_contrasts) moves.resize(most_contrasts);
}

void compare_moves(const feature_counts& fast, const feature_counts& slow, const feature_counts& failed,
                   performance_analysis& a) {
  if (slow.variants + failed.variants == 0) return;
  std::set<std::string> all;
  for (const auto* counts : {&fast, &slow, &failed})
    for (const auto& [feature, count] : counts->with)
      all.insert(feature);
  for (const auto& feature : all) {
    const move_contrast c{feature, fast.share(feature), slow.share(feature), failed.share(feature)};
    if (fast.variants > 0 && c.in_fast - std::max(c.in_slow, c.in_failed) >= clear_difference) a.helping.push_back(c);
    if (fast.variants > 0 && c.in_fast == 0 && std::max(c.in_slow, c.in_failed) >= clear_difference)
      a.harming.push_back(c);
  }
  keep_clearest(a.helping);
  keep_clearest(a.harming);
}

time_bound bound_of(const performance_analysis& a, const task_bounds& b) {
  if (a.best.empty() || !b.roof || !(a.measured.variant_us > 0)) return time_bound::unknown;
  const double on_device = a.measured.variant_device_us;
  if (on_device > 0 && on_device < a.measured.variant_us / 2) return time_bound::call;
  if (a.roof_share >= near_roof)
    return b.roof->limit() == std::string_view("memory") ? time_bound::memory : time_bound::compute;
  return on_device > 0 ? time_bound::code : time_bound::unknown;
}

void advise(const task_bounds& b, performance_analysis& a) {
  switch (a.bound) {
    case time_bound::memory:
      a.advice.push_back(
          "The best variant is close to the memory roof: only a variant that moves fewer bytes is faster.");
      break;
    case time_bound::compute:
      a.advice.push_back("The best variant is close to the roof of its arithmetic: only fewer operations help.");
      break;
    case time_bound::call:
      a.advice.push_back("Most of its call time is not spent on the device: use fewer launches, or replay a graph.");
      break;
    case time_bound::code:
      a.advice.push_back(
          "It is far from the roof: divide the work of its kernels in another way (threads, elements "
          "for each thread, partial results), and read each value once.");
      break;
    case time_bound::unknown:
      break;
  }
  const auto least = b.work.bytes();
  if (a.best.empty() && b.operators > 1 && b.stepwise_bytes > least)
    a.advice.push_back(
        fmt::format("Step by step the task's program moves {}, of which {} are unavoidable: compute "
                    "several steps in one kernel.",
                    size_text(static_cast<double>(b.stepwise_bytes)), size_text(static_cast<double>(least))));
}

std::string share_text(double share) {
  return fmt::format("{:.0f}%", 100 * share);
}

std::string contrast_text(const move_contrast& m, const performance_analysis& a) {
  std::vector<std::string> others;
  if (a.slow > 0) others.push_back(share_text(m.in_slow) + " of the slow");
  if (a.failed > 0) others.push_back(share_text(m.in_failed) + " of the failed");
  return fmt::format("{} (in {} of the fast, {})", m.move, share_text(m.in_fast), fmt::join(others, ", "));
}

std::string contrasts_text(const std::vector<move_contrast>& moves, const performance_analysis& a) {
  std::vector<std::string> texts;
  texts.reserve(moves.size());
  for (const auto& m : moves)
    texts.push_back(contrast_text(m, a));
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string best_text(const performance_analysis& a) {
  std::string text =
      fmt::format("The best of {} correct variants is {} the reference ({} against {} a call)", a.fast + a.slow,
                  score_text(a.measured), time_text(a.measured.variant_us), time_text(a.measured.reference_us));
  if (a.measured.variant_device_us > 0)
    text += fmt::format(", {} on the device", time_text(a.measured.variant_device_us));
  if (a.roof_share > 0)
    text += fmt::format(", which is {} of the roof of {}", share_text(a.roof_share), time_text(a.roof_us));
  return text + ".";
}

}  // namespace

performance_analysis analyse(const task& t, const std::vector<exemplar>& correct, const std::vector<exemplar>& failed,
                             const task_bounds& bounds) {
  performance_analysis a;
  a.task = t.name;
  const exemplar* best = nullptr;
  for (const auto& e : correct)
    if (is_own(e) && (best == nullptr || e.score() > best->score())) best = &e;
  feature_counts in_fast, in_slow, in_failed;
  for (const auto& e : correct) {
    if (!is_own(e)) continue;
    const bool is_fast = e.score() * bucket_ratio >= best->score();
    ++(is_fast ? a.fast : a.slow);
    (is_fast ? in_fast : in_slow).add(e);
  }
  std::map<std::string, int64_t> outcomes;
  for (const auto& e : failed) {
    if (!is_own(e)) continue;
    ++a.failed;
    ++outcomes[enum_name(e.result())];
    in_failed.add(e);
  }
  for (const auto& [name, count] : outcomes)
    a.failures.push_back(fmt::format("{} {}", name, count));
  if (bounds.roof) a.roof_us = bounds.roof->device_us(), a.floor_us = bounds.roof->call_us();
  if (best != nullptr) {
    a.best = best->id();
    a.best_moves = best->plan ? print_schedule(*best->plan) : "";
    a.measured = best->known.result;
    if (a.roof_us > 0 && a.measured.variant_device_us > 0) a.roof_share = a.roof_us / a.measured.variant_device_us;
  }
  compare_moves(in_fast, in_slow, in_failed, a);
  a.bound = bound_of(a, bounds);
  advise(bounds, a);
  return a;
}

std::string sentences(const performance_analysis& a) {
  std::vector<std::string> parts;
  if (!a.best.empty()) parts.push_back(best_text(a));
  if (!a.best_moves.empty()) parts.push_back("Its moves: " + a.best_moves + ".");
  if (!a.helping.empty())
    parts.push_back("The fast variants share what others lack: " + contrasts_text(a.helping, a) + ".");
  if (!a.harming.empty()) parts.push_back("Only slow or failed variants have: " + contrasts_text(a.harming, a) + ".");
  if (!a.failures.empty()) parts.push_back(fmt::format("Failed: {}.", fmt::join(a.failures, ", ")));
  parts.insert(parts.end(), a.advice.begin(), a.advice.end());
  return fmt::format("{}", fmt::join(parts, " "));
}

}  // namespace cudal1
