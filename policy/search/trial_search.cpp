#include "policy/search/trial_search.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "config/base/hash.hpp"
#include "config/base/split_mix.hpp"
#include "policy/moves/lowering.hpp"
#include "policy/search/evolutionary_policy.hpp"
#include "store/exemplars.hpp"

namespace cudal1 {

namespace {

constexpr int most_tries = 8;           // of a policy, to propose a candidate that is recorded and open
constexpr std::size_t shown_best = 16;  // exemplars of the policy evolutionary, as search.exemplars

// The same for all policies.
uint64_t seed_of(const trial_task& t, std::size_t search) {
  return split_mix(std::strtoull(t.what.id.substr(0, 16).c_str(), nullptr, 16) + search * split_mix_step);
}

void measure_any(recorded_trial& t) {
  const auto open = t.open_candidates();
  t.measure(open[draw_below(open.size(), t.random())]);
}

// What a policy of moves is shown of a trial.
prompt prompt_of(recorded_trial& t, const lowering_target& target, const std::set<std::string>& unrecorded) {
  prompt p;
  p.what = std::shared_ptr<const task>(std::shared_ptr<const task>(), &t.of().what);
  p.target = &target;
  p.where = t.of().where;
  auto measured = t.measured();
  std::ranges::stable_sort(measured, std::greater<>(), &measured_candidate::score);
  for (const auto& m : measured) {
    if (m.score <= 0 || p.exemplars.size() == shown_best) break;
    exemplar e;
    e.plan = t.of().candidates.plan(m.candidate);
    e.known.variant.id = t.of().candidates.program(m.candidate);
    e.known.result.score = m.score;
    p.exemplars.push_back(std::move(e));
  }
  p.is_tried = [&t, &unrecorded](const std::string& id) {
    const std::size_t c = t.of().candidates.find(id);
    return c < t.of().candidates.size() ? !t.open().test(c) : unrecorded.contains(id);
  };
  return p;
}

class evolution {
 public:
  evolution(uint64_t seed, int64_t& fallbacks, const search_options& how)
      : policy_({.seed = seed, .search = how}), fallbacks_(&fallbacks) {}

  expected<void> measure_one(recorded_trial& t) {
    CUDAL1_TRY(const lowering_target* target, find_lowering_target(device_kind(t.of().where)));
    // What it proposed in vain counts as tried, as a measured variant would.
    std::set<std::string>& unrecorded = unrecorded_[&t];
    if (t.evaluations() == 0) unrecorded.clear();
    prompt p = prompt_of(t, *target, unrecorded);
    for (int i = 0; i < most_tries; ++i) {
      p.seed = t.random() = split_mix(t.random() + split_mix_step);
      const auto made = policy_.propose_one(p);
      if (!made) break;
      const auto program = lower(t.of().what, made->plan, *target);
      const std::size_t c = program ? t.of().candidates.find(program->checked.id) : t.of().candidates.size();
      if (c == t.of().candidates.size() && program) unrecorded.insert(program->checked.id);
      if (c == t.of().candidates.size() || !t.open().test(c)) continue;
      t.measure(c);
      return {};
    }
    ++*fallbacks_;
    measure_any(t);
    return {};
  }

 private:
  evolutionary_policy policy_;
  int64_t* fallbacks_;
  std::map<const recorded_trial*, std::set<std::string>> unrecorded_;  // programs
};

// For each fold, its trainings drawn with replacement: [folds][trainings].
std::vector<std::vector<std::size_t>> drawn_trainings(const trial_curves& c, uint64_t& random) {
  const std::size_t folds = c.folds.empty() ? 0 : *std::ranges::max_element(c.folds) + 1;
  std::vector<std::vector<std::size_t>> out(folds, std::vector<std::size_t>(c.trainings));
  for (auto& of_fold : out)
    for (auto& training : of_fold)
      training = draw_below(c.trainings, random);
  return out;
}

// Logarithms of a number of each search, [tasks][seeds].
std::vector<double> logarithms(const trial_curves& c, const trial_number& number) {
  std::vector<double> out;
  for (std::size_t t = 0; t < c.tasks; ++t)
    for (std::size_t s = 0; s < c.seeds; ++s)
      out.push_back(std::log(number(c, t, s)));
  return out;
}

// One policy's numbers, to be resampled.
struct resampled {
  const trial_curves* of;
  std::vector<double> values;                       // [tasks][seeds], logarithms
  std::vector<std::vector<std::size_t>> trainings;  // drawn, [folds][trainings]

  double sum() const { return std::accumulate(values.begin(), values.end(), 0.0); }
  void draw_trainings(uint64_t& random) { trainings = drawn_trainings(*of, random); }
  // The mean over searches of a task that are drawn from the drawn trainings.
  double drawn_mean(std::size_t task, uint64_t& random) const {
    const std::size_t of_training = of->seeds / of->trainings;
    double sum = 0;
    for (const std::size_t training : trainings[of->folds[task]])
      for (std::size_t s = 0; s < of_training; ++s)
        sum += values[task * of->seeds + training * of_training + draw_below(of_training, random)];
    return sum / static_cast<double>(of->seeds);
  }
};

// Of the mean over tasks of the mean over searches of `a`, less that of `b` where there is one.
curve_estimate estimate(resampled a, std::optional<resampled> b) {
  constexpr int draws = 1000;
  const trial_curves& c = *a.of;
  std::map<std::string, std::vector<std::size_t>> by_operators;
  for (std::size_t t = 0; t < c.tasks; ++t)
    by_operators[c.operators[t]].push_back(t);
  std::vector<const std::vector<std::size_t>*> clusters;
  for (const auto& each : by_operators)
    clusters.push_back(&each.second);
  uint64_t random = 1;
  std::vector<double> means;
  for (int i = 0; i < draws; ++i) {
    a.draw_trainings(random);
    if (b) b->draw_trainings(random);
    double drawn = 0, count = 0;
    for (std::size_t k = 0; k < clusters.size(); ++k)
      for (const std::size_t task : *clusters[draw_below(clusters.size(), random)]) {
        drawn += a.drawn_mean(task, random) - (b ? b->drawn_mean(task, random) : 0);
        ++count;
      }
    means.push_back(drawn / count);
  }
  std::ranges::sort(means);
  const double mean =
      a.sum() / static_cast<double>(a.values.size()) - (b ? b->sum() / static_cast<double>(b->values.size()) : 0);
  return {std::exp(mean), std::exp(means[draws / 40]), std::exp(means[draws - 1 - draws / 40])};
}

}  // namespace

trial_step random_step() {
  return [](std::span<recorded_trial*> trials, std::size_t most) -> expected<void> {
    for (auto* t : trials)
      for (std::size_t i = 0; i < most && t->open().any(); ++i)
        measure_any(*t);
    return {};
  };
}

trial_step estimate_step(estimates_use how) {
  return [how](std::span<recorded_trial*> trials, std::size_t most) -> expected<void> {
    for (auto* t : trials) {
      if (t->of().estimates.empty())
        return fail(errc::unsupported, "there are no estimates of task {} on {}", t->of().what.name,
                    t->of().where.model);
      for (std::size_t i = 0; i < most && t->open().any(); ++i) {
        const auto measured = how == estimates_use::corrected ? t->measured() : std::vector<measured_candidate>();
        t->measure(t->of().estimates.prior(1, measured).best_candidate_of(t->open()));
      }
    }
    return {};
  };
}

trial_step evolutionary_step(uint64_t seed, int64_t& fallbacks, const search_options& how) {
  auto all = std::make_shared<evolution>(seed, fallbacks, how);
  return [all](std::span<recorded_trial*> trials, std::size_t most) -> expected<void> {
    for (auto* t : trials)
      for (std::size_t i = 0; i < most && t->open().any(); ++i)
        CUDAL1_CHECK(all->measure_one(*t));
    return {};
  };
}

trial_step contrastive_step(const candidate_writer& writer, uint64_t seed, double temperature) {
  // Trials whose prompts it reads together: on a GPU it takes about as long for many as for a few.
  const std::size_t at_once = writer.model().device() == "cpu" ? 64 : 512;
  return [&writer, temperature, at_once, random = seed](std::span<recorded_trial*> trials,
                                                        std::size_t most) mutable -> expected<void> {
    for (std::size_t first = 0; first < trials.size(); first += at_once) {
      const auto some = trials.subspan(first, std::min(at_once, trials.size() - first));
      std::vector<contrastive_request> requests;
      for (auto* t : some)
        requests.push_back(t->next_request());
      CUDAL1_TRY(
          const auto written,
          writer.write(requests, most, {.temperature = temperature, .seed = split_mix(random += split_mix_step)}));
      for (std::size_t i = 0; i < written.size(); ++i)
        some[i / most]->measure(written[i].answer.candidate);
    }
    return {};
  };
}

expected<trial_curves> run_trials(std::span<const std::shared_ptr<const trial_task>> tasks, const trial_plan& plan,
                                  const trial_step& step) {
  std::vector<recorded_trial> trials;
  for (std::size_t t = 0; t < tasks.size(); ++t)
    for (std::size_t s = 0; s < plan.seeds; ++s)
      trials.emplace_back(tasks[t], seed_of(*tasks[t], plan.first_seed + s), plan.exemplars);
  for (;;) {
    // By how many they may measure until the next prompt.
    std::map<std::size_t, std::vector<recorded_trial*>> left;
    for (auto& t : trials)
      if (t.evaluations() < plan.evaluations && t.open().any())
        left[std::min(plan.a_prompt, plan.evaluations - t.evaluations())].push_back(&t);
    if (left.empty()) break;
    for (auto& [most, some] : left)
      CUDAL1_CHECK(step(some, most));
  }
  trial_curves out{tasks.size(), plan.seeds, plan.evaluations, 1, {}, {}, {}};
  out.folds.resize(tasks.size());
  for (const auto& t : tasks)
    out.operators.push_back(t->operators);
  for (const auto& t : trials)
    for (std::size_t n = 0; n < plan.evaluations; ++n)
      out.values.push_back(t.best_so_far()[std::min(n, t.best_so_far().size() - 1)]);
  return out;
}

trial_curves joined(const std::vector<std::vector<trial_curves>>& by_training) {
  const auto& folds = by_training.front();
  trial_curves out{0, by_training.size() * folds.front().seeds, folds.front().evaluations, by_training.size(), {}, {},
                   {}};
  for (std::size_t f = 0; f < folds.size(); ++f) {
    out.tasks += folds[f].tasks;
    out.operators.insert(out.operators.end(), folds[f].operators.begin(), folds[f].operators.end());
    out.folds.resize(out.tasks, f);
    const std::size_t of_task = folds[f].seeds * folds[f].evaluations;
    for (std::size_t t = 0; t < folds[f].tasks; ++t)
      for (const auto& training : by_training) {
        const auto* from = training[f].values.data() + t * of_task;
        out.values.insert(out.values.end(), from, from + of_task);
      }
  }
  return out;
}

trial_number share_after(std::size_t evaluations, const trial_tasks& tasks) {
  return [evaluations, &tasks](const trial_curves& c, std::size_t task, std::size_t seed) {
    return c.at(task, seed, std::min(evaluations, c.evaluations) - 1) / std::max(tasks[task]->best, 1.0);
  };
}

trial_number area_under(const trial_tasks& tasks) {
  return [&tasks](const trial_curves& c, std::size_t task, std::size_t seed) {
    double sum = 0;
    for (std::size_t n = 0; n < c.evaluations; ++n)
      sum += std::log(c.at(task, seed, n) / std::max(tasks[task]->best, 1.0));
    return std::exp(sum / static_cast<double>(c.evaluations));
  };
}

trial_number evaluations_to(double share, const trial_tasks& tasks) {
  return [share, &tasks](const trial_curves& c, std::size_t task, std::size_t seed) {
    for (std::size_t n = 0; n < c.evaluations; ++n)
      if (c.at(task, seed, n) >= share * tasks[task]->best) return static_cast<double>(n + 1);
    return 2.0 * static_cast<double>(c.evaluations);
  };
}

curve_estimate mean_of(const trial_curves& c, const trial_number& number) {
  return estimate({&c, logarithms(c, number), {}}, std::nullopt);
}

curve_estimate mean_ratio(const trial_curves& c, const trial_curves& to, const trial_number& number) {
  return estimate({&c, logarithms(c, number), {}}, resampled{&to, logarithms(to, number), {}});
}

bool is_held_out(const std::string& operators, std::size_t fold, std::size_t folds) {
  return std::strtoull(sha256_hex(operators).substr(0, 8).c_str(), nullptr, 16) % folds == fold;
}

}  // namespace cudal1
