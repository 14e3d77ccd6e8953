// Policies on a cheap objective: programs with few steps.
#include "policy/search/policy.hpp"

#include <algorithm>
#include <chrono>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/search/starting_schedules.hpp"
#include "tests/policy/task_texts.hpp"

namespace cudal1::test {
namespace {

// Higher for programs with fewer steps.
double score_of(const task& t, const schedule& s) {
  const auto result = lower(t, s, for_cpu());
  if (!result) return 0;
  const auto calls = std::count_if(result->checked.text.steps.begin(), result->checked.text.steps.end(),
                                   [](const step& x) { return !std::holds_alternative<alloc_step>(x); });
  return static_cast<double>(t.reference.text.steps.size()) / static_cast<double>(calls);
}

std::unique_ptr<policy> made(const std::string& name, uint64_t seed = 1) {
  auto p = make_policy(name, seed);
  if (!p) throw std::runtime_error(p.error().message);
  return std::move(*p);
}

prompt prompt_of(const task& t, uint64_t seed, std::vector<exemplar> exemplars = {}) {
  prompt p;
  p.what = &t;
  p.target = &for_cpu();
  p.seed = seed;
  p.exemplars = std::move(exemplars);
  return p;
}

exemplar exemplar_of(const task& t, const schedule& s) {
  exemplar e;
  e.plan = s;
  e.variant = lower(t, s, for_cpu())->checked.id;
  e.score = score_of(t, s);
  return e;
}

// The mean score of a search's proposals, which become its exemplars. (The best score shows no difference: on tasks
// this small every policy finds it.)
double search(policy& by, const task& t, int proposals, uint64_t seed) {
  std::vector<exemplar> seen;
  double sum = 0;
  for (int i = 0; i < proposals; ++i) {
    const auto proposed = by.propose(prompt_of(t, seed + static_cast<uint64_t>(i), seen));
    EXPECT_TRUE(proposed);
    seen.push_back(exemplar_of(t, proposed->plan));
    sum += seen.back().score;
    std::sort(seen.begin(), seen.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
    if (seen.size() > 8) seen.resize(8);
  }
  return sum / proposals;
}

double mean_score(policy& by, const task& t, int proposals) {
  double sum = 0;
  for (int i = 0; i < proposals; ++i)
    sum += score_of(t, by.propose(prompt_of(t, 1000 + static_cast<uint64_t>(i)))->plan);
  return sum / proposals;
}

// A prompt shows only some of the tried variants; a policy that took the others for new would propose them forever.
TEST(Policy, TriedVariantsAreNotProposedAgainEvenIfNoExemplarShowsThem) {
  const task& t = builtin("softmax");
  for (const auto& name : policy_names()) {
    auto by = made(name);
    std::vector<exemplar> seen;
    std::set<std::string> tried;
    int repeated = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      prompt p = prompt_of(t, seed, seen);
      p.target = &for_cuda();
      p.is_tried = [&](const std::string& id) { return tried.contains(id); };
      const auto proposed = by->propose(p);
      ASSERT_TRUE(proposed);
      const auto result = lower(t, proposed->plan, for_cuda());
      ASSERT_TRUE(result);
      exemplar e{proposed->plan, result->checked.id, outcome::correct, 1.0 + static_cast<double>(seed % 7)};
      if (!tried.insert(e.variant).second) ++repeated;
      if (seed % 3 != 0) seen.push_back(std::move(e));  // every third failed
      std::sort(seen.begin(), seen.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
      if (seen.size() > 8) seen.resize(8);
    }
    EXPECT_LE(repeated, 6) << name << ", " << tried.size() << " variants";
  }
}

TEST(Policy, EveryNameCreatesAPolicyAndUnknownNamesAreErrors) {
  for (const auto& name : policy_names())
    EXPECT_EQ(made(name)->name(), name);
  EXPECT_FALSE(make_policy("oracle", 1));
  EXPECT_FALSE(made("random")->propose(prompt{}));
}

TEST(Policy, TheSameSeedGivesTheSameProposalAndOthersDiffer) {
  const task& t = builtin("rms_norm");
  for (const auto& name : policy_names()) {
    std::vector<std::string> plans;
    for (uint64_t seed = 0; seed < 12; ++seed) {
      const auto a = made(name)->propose(prompt_of(t, seed)), b = made(name)->propose(prompt_of(t, seed));
      ASSERT_TRUE(a && b);
      EXPECT_EQ(a->plan, b->plan) << name;
      EXPECT_TRUE(lower(t, a->plan, for_cpu())) << name;
      plans.push_back(print_schedule(a->plan));
    }
    std::sort(plans.begin(), plans.end());
    EXPECT_GT(std::unique(plans.begin(), plans.end()) - plans.begin(), 2) << name;
  }
}

TEST(Policy, AllPoliciesProposeAndLearnForCudaToo) {
  for (const auto& name : policy_names()) {
    auto by = made(name);
    std::vector<experience> group;
    for (const char* task_name : {"mlp", "softmax"}) {
      const task& t = builtin(task_name);
      group.clear();
      for (uint64_t seed = 0; seed < 4; ++seed) {
        prompt p = prompt_of(t, seed);
        p.target = &for_cuda();
        const auto proposed = by->propose(p);
        ASSERT_TRUE(proposed);
        const auto result = lower(t, proposed->plan, for_cuda());
        ASSERT_TRUE(result) << print_schedule(proposed->plan) << ": " << result.error().message;
        experience e;
        e.what = &t;
        e.target = &for_cuda();
        e.plan = proposed->plan;
        e.score = static_cast<double>(seed);
        group.push_back(std::move(e));
      }
      EXPECT_TRUE(by->learn(group));
    }
  }
}

TEST(WholeSchedules, ForCudaUseGraphsFirstThenSplitProducts) {
  const auto whole = whole_schedules(builtin("mlp"), for_cuda());
  ASSERT_GE(whole.size(), 3u);
  EXPECT_EQ(whole.front().moves.back().name, "graph");
  const auto holds = [](const schedule& s, const char* name) {
    return std::any_of(s.moves.begin(), s.moves.end(), [&](const move& m) { return m.name == name; });
  };
  EXPECT_FALSE(holds(whole[0], "precision"));
  EXPECT_TRUE(holds(whole[1], "precision"));
  EXPECT_EQ(print_schedule(whole.back()), "graph()");
}

// A node waits at most two minutes for a proposal. Listing every legal move before choosing one took longer.
TEST(Policy, ProposalsForANetworkOfHundredsOfStepsTakeSeconds) {
  const task t = residual_network(40);
  auto by = made("evolutionary");
  prompt p = prompt_of(t, 1);
  p.target = &for_cuda();
  const auto start = std::chrono::steady_clock::now();
  for (p.seed = 1; p.seed <= 4; ++p.seed) {
    const auto proposed = by->propose(p);
    ASSERT_TRUE(proposed);
    ASSERT_FALSE(proposed->plan.moves.empty());
    const auto lowered = lower(t, proposed->plan, for_cuda());
    ASSERT_TRUE(lowered) << lowered.error().message;
    exemplar e;
    e.variant = lowered->checked.id;
    e.plan = proposed->plan;
    e.result = outcome::correct;
    e.score = 1;
    p.exemplars.push_back(std::move(e));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  EXPECT_EQ(whole_schedules(t, for_cuda()).front().moves.back().name, "graph") << "after any number of other moves";
}

TEST(Policy, AProposalIsNotOneOfTheExemplars) {
  const task& t = builtin("gelu_by_hand");
  for (const auto& name : policy_names()) {
    auto by = made(name);
    std::vector<exemplar> seen;
    for (uint64_t seed = 0; seed < 12; ++seed) {
      const auto proposed = by->propose(prompt_of(t, seed, seen));
      ASSERT_TRUE(proposed);
      const exemplar e = exemplar_of(t, proposed->plan);
      for (const auto& other : seen)
        EXPECT_NE(other.variant, e.variant) << name;
      seen.push_back(e);
    }
  }
}

TEST(EvolutionaryPolicy, ProposesBetterSchedulesThanRandom) {
  double evolved = 0, random = 0;
  for (const char* name : {"gelu_by_hand", "rms_norm", "bias_relu_twice"}) {
    for (uint64_t seed : {11u, 500u}) {
      evolved += search(*made("evolutionary"), builtin(name), 8, seed);
      random += search(*made("random"), builtin(name), 8, seed);
    }
  }
  EXPECT_GT(evolved, 1.1 * random);
}

TEST(EvolutionaryPolicy, ProposesTheWholeScheduleFirstAndThenMutationsOfTheBest) {
  for (const char* name : {"softmax", "gelu_by_hand", "linear_row_sum"}) {
    const task& t = builtin(name);
    const auto whole = whole_schedules(t, for_cpu());
    ASSERT_FALSE(whole.empty()) << name;
    std::vector<exemplar> seen;
    bool full = false;
    for (uint64_t seed = 0; seed < 2; ++seed) {
      const auto proposed = made("evolutionary")->propose(prompt_of(t, seed, seen));
      ASSERT_TRUE(proposed);
      full = full || proposed->plan == whole.front();
      seen.push_back(exemplar_of(t, proposed->plan));
    }
    EXPECT_TRUE(full) << name;
  }
  // No whole schedule is left: most proposals are then mutations of the best exemplar.
  const task& t = builtin("rms_norm");
  std::vector<exemplar> seen;
  for (const auto& s : whole_schedules(t, for_cpu()))
    seen.push_back(exemplar_of(t, s));
  seen.front().score = 100;
  int from_best = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto proposed = made("evolutionary")->propose(prompt_of(t, seed, seen));
    ASSERT_TRUE(proposed);
    from_best += !proposed->parents.empty() && proposed->parents.front() == seen.front().variant ? 1 : 0;
  }
  EXPECT_GE(from_best, 10);
}

TEST(EvolutionaryPolicy, NamesTheParentsOfItsMutants) {
  const task& t = builtin("gelu_by_hand");
  const exemplar parent = exemplar_of(t, *parse_schedule("fuse(steps=0..7)"));
  bool seen = false;
  for (uint64_t seed = 0; seed < 20 && !seen; ++seed) {
    const auto proposed = made("evolutionary")->propose(prompt_of(t, seed, {parent}));
    seen = proposed->parents == std::vector<std::string>{parent.variant};
  }
  EXPECT_TRUE(seen);
}

std::unique_ptr<policy> trained(const task& t, int rounds) {
  auto by = made("learned");
  for (int round = 0; round < rounds; ++round) {
    std::vector<experience> group;
    for (uint64_t i = 0; i < 8; ++i) {
      const auto proposed = by->propose(prompt_of(t, static_cast<uint64_t>(round) * 100 + i));
      experience e;
      e.what = &t;
      e.target = &for_cpu();
      e.plan = proposed->plan;
      e.trace = proposed->trace;
      e.score = score_of(t, e.plan);
      group.push_back(std::move(e));
    }
    EXPECT_TRUE(by->learn(group));
  }
  return by;
}

TEST(LearnedPolicy, ScoresRiseWithTrainingAndCarryOverToAnotherTask) {
  const task& t = builtin("hard_swish_chain");
  const task& other = builtin("huber_loss");
  auto fresh = made("learned");
  auto by = trained(t, 25);
  EXPECT_GT(by->version(), 0);
  EXPECT_GT(mean_score(*by, t, 24), 1.2 * mean_score(*fresh, t, 24));
  EXPECT_GT(mean_score(*by, other, 16), mean_score(*fresh, other, 16));
}

TEST(LearnedPolicy, EqualScoresTeachNothing) {
  const task& t = builtin("softmax");
  auto by = made("learned");
  experience e;
  e.what = &t;
  e.target = &for_cpu();
  e.plan = *parse_schedule("row_kernel(steps=0)");
  e.score = 1.5;
  const auto changed = by->learn({e, e});
  ASSERT_TRUE(changed);
  EXPECT_FALSE(*changed);
  EXPECT_EQ(by->version(), 0);
}

TEST(LearnedPolicy, ProposesTheSameAfterSavingAndLoading) {
  const task& t = builtin("rms_norm");
  auto by = trained(t, 3);
  auto copy = made("learned", 99);
  const auto loaded = copy->load(by->save(), by->version());
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(copy->version(), by->version());
  for (uint64_t seed = 0; seed < 8; ++seed)
    EXPECT_EQ(copy->propose(prompt_of(t, seed))->plan, by->propose(prompt_of(t, seed))->plan);
  EXPECT_FALSE(copy->load("{}", 1));
  EXPECT_FALSE(copy->load(made("random")->save(), 1));
}

}  // namespace
}  // namespace cudal1::test
