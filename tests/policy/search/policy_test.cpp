// Policies on a cheap objective: programs with few steps.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/estimate/program_estimate.hpp"
#include "policy/search/immediate_policy.hpp"
#include "policy/search/policy_registry.hpp"
#include "policy/search/schedule_space.hpp"
#include "policy/search/starting_schedules.hpp"
#include "sandbox/verify/rewards.hpp"
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

// The names of those that answer at once.
std::vector<std::string> immediate_names() {
  std::vector<std::string> names;
  for (const auto& name : policy_names())
    if (name != "llm") names.push_back(name);
  return names;
}

// `model`: as the setting search.model.
std::unique_ptr<immediate_policy> made(const std::string& name, uint64_t seed = 1, const std::string& model = "") {
  policy_setup setup;
  setup.seed = seed;
  setup.search.model = model;
  auto p = make_policy(name, setup);
  if (!p) throw std::runtime_error(p.error().message);
  auto* immediate = dynamic_cast<immediate_policy*>(p->release());
  if (immediate == nullptr) throw std::runtime_error(name + " does not answer at once");
  return std::unique_ptr<immediate_policy>(immediate);
}

// A task of the tests, which lives as long as they do.
std::shared_ptr<const task> shared(const task& t) {
  return {std::shared_ptr<const task>(), &t};
}

prompt prompt_of(const task& t, uint64_t seed, std::vector<exemplar> exemplars = {}) {
  prompt p;
  p.what = shared(t);
  p.target = &for_cpu();
  p.seed = seed;
  p.exemplars = std::move(exemplars);
  return p;
}

exemplar exemplar_with(const schedule& plan, const std::string& id, double score) {
  exemplar e;
  e.plan = plan;
  e.known.variant.id = id;
  e.known.result.score = score;
  return e;
}

exemplar exemplar_of(const task& t, const schedule& s) {
  return exemplar_with(s, lower(t, s, for_cpu())->checked.id, score_of(t, s));
}

// The mean score of a search's proposals, which become its exemplars. (The best score shows no difference: on tasks
// this small every policy finds it.)
double search(immediate_policy& by, const task& t, int proposals, uint64_t seed) {
  std::vector<exemplar> seen;
  double sum = 0;
  for (int i = 0; i < proposals; ++i) {
    const auto proposed = by.propose_one(prompt_of(t, seed + static_cast<uint64_t>(i), seen));
    EXPECT_TRUE(proposed);
    seen.push_back(exemplar_of(t, proposed->plan));
    sum += seen.back().score();
    std::sort(seen.begin(), seen.end(), [](const auto& a, const auto& b) { return a.score() > b.score(); });
    if (seen.size() > 8) seen.resize(8);
  }
  return sum / proposals;
}

double mean_score(immediate_policy& by, const task& t, int proposals) {
  double sum = 0;
  for (int i = 0; i < proposals; ++i)
    sum += score_of(t, by.propose_one(prompt_of(t, 1000 + static_cast<uint64_t>(i)))->plan);
  return sum / proposals;
}

// A prompt shows only some of the tried variants; a policy that took the others for new would propose them forever.
TEST(Policy, TriedVariantsAreNotProposedAgainEvenIfNoExemplarShowsThem) {
  const task& t = builtin("softmax");
  for (const auto& name : immediate_names()) {
    auto by = made(name);
    std::vector<exemplar> seen;
    std::set<std::string> tried;
    int repeated = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      prompt p = prompt_of(t, seed, seen);
      p.target = &for_cuda();
      p.is_tried = [&](const std::string& id) { return tried.contains(id); };
      const auto proposed = by->propose_one(p);
      ASSERT_TRUE(proposed);
      const auto result = lower(t, proposed->plan, for_cuda());
      ASSERT_TRUE(result);
      exemplar e = exemplar_with(proposed->plan, result->checked.id, 1.0 + static_cast<double>(seed % 7));
      if (!tried.insert(e.id()).second) ++repeated;
      if (seed % 3 != 0) seen.push_back(std::move(e));  // every third failed
      std::sort(seen.begin(), seen.end(), [](const auto& a, const auto& b) { return a.score() > b.score(); });
      if (seen.size() > 8) seen.resize(8);
    }
    // By chance 0 to 13 of them; 33 to 41 where what was tried is forgotten.
    EXPECT_LE(repeated, 20) << name << ", " << tried.size() << " variants";
  }
}

TEST(Policy, EveryNameCreatesAPolicyAndUnknownNamesAreErrors) {
  for (const auto& name : immediate_names())
    EXPECT_EQ(made(name)->name(), name);
  EXPECT_FALSE(make_policy("oracle", {}));
  EXPECT_FALSE(check_policy_name("oracle"));
  EXPECT_FALSE(made("random")->propose_one(prompt{}));
}

TEST(Policy, TheSameSeedGivesTheSameProposalAndOthersDiffer) {
  const task& t = builtin("rms_norm");
  for (const auto& name : immediate_names()) {
    if (name == "exhaustive") continue;  // has no seed
    std::vector<std::string> plans;
    for (uint64_t seed = 0; seed < 12; ++seed) {
      // A trained model may be sure of its answer.
      const auto a = made(name, 1, "random")->propose_one(prompt_of(t, seed));
      const auto b = made(name, 1, "random")->propose_one(prompt_of(t, seed));
      ASSERT_TRUE(a && b);
      EXPECT_EQ(a->plan, b->plan) << name;
      EXPECT_TRUE(lower(t, a->plan, for_cpu())) << name;
      plans.push_back(print_schedule(a->plan));
    }
    std::sort(plans.begin(), plans.end());
    EXPECT_GT(std::unique(plans.begin(), plans.end()) - plans.begin(), 2) << name;
  }
}

// No task that the shipped model was trained on had such a sum.
TEST(Policy, TheTrainedPolicyTriesTheWholeScheduleToo) {
  const task& t = builtin("linear_row_sum");
  const auto by = made("contrastive");
  int whole = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    prompt p = prompt_of(t, seed);
    p.target = &for_cuda();
    const auto proposed = by->propose_one(p);
    ASSERT_TRUE(proposed) << proposed.error().message;
    whole += print_schedule(proposed->plan).starts_with("pull_sum_through_linear") ? 1 : 0;
  }
  EXPECT_GE(whole, 2);
  EXPECT_LE(whole, 10) << "and what the model writes";
}

TEST(Policy, AllPoliciesProposeAndLearnForCudaToo) {
  for (const auto& name : immediate_names()) {
    auto by = made(name);
    std::vector<experience> group;
    for (const char* task_name : {"mlp", "softmax"}) {
      const task& t = builtin(task_name);
      group.clear();
      for (uint64_t seed = 0; seed < 4; ++seed) {
        prompt p = prompt_of(t, seed);
        p.target = &for_cuda();
        const auto proposed = by->propose_one(p);
        ASSERT_TRUE(proposed);
        const auto result = lower(t, proposed->plan, for_cuda());
        ASSERT_TRUE(result) << print_schedule(proposed->plan) << ": " << result.error().message;
        experience e;
        e.what = shared(t);
        e.target = &for_cuda();
        e.plan = proposed->plan;
        e.reward = static_cast<double>(seed) - 1.5;
        group.push_back(std::move(e));
      }
      EXPECT_TRUE(by->learn(group));
    }
  }
}

TEST(WholeSchedules, ForCudaUseGraphsFirstThenOwnAndSplitProducts) {
  const auto whole = whole_schedules(builtin("mlp"), for_cuda());
  ASSERT_GE(whole.size(), 4u);
  EXPECT_EQ(whole.front().moves.back().name, "graph");
  const auto holds = [](const schedule& s, const char* name) {
    return std::any_of(s.moves.begin(), s.moves.end(), [&](const move& m) { return m.name == name; });
  };
  EXPECT_FALSE(holds(whole[0], "precision"));
  EXPECT_TRUE(holds(whole[1], "product_kernel"));
  EXPECT_TRUE(holds(whole[2], "precision"));
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
    const auto proposed = by->propose_one(p);
    ASSERT_TRUE(proposed);
    ASSERT_FALSE(proposed->plan.moves.empty());
    const auto lowered = lower(t, proposed->plan, for_cuda());
    ASSERT_TRUE(lowered) << lowered.error().message;
    p.exemplars.push_back(exemplar_with(proposed->plan, lowered->checked.id, 1));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  EXPECT_EQ(whole_schedules(t, for_cuda()).front().moves.back().name, "graph") << "after any number of other moves";
}

TEST(Policy, AProposalIsNotOneOfTheExemplars) {
  const task& t = builtin("gelu_by_hand");
  for (const auto& name : immediate_names()) {
    auto by = made(name);
    std::vector<exemplar> seen;
    for (uint64_t seed = 0; seed < 12; ++seed) {
      const auto proposed = by->propose_one(prompt_of(t, seed, seen));
      ASSERT_TRUE(proposed);
      const exemplar e = exemplar_of(t, proposed->plan);
      for (const auto& other : seen)
        EXPECT_NE(other.id(), e.id()) << name;
      seen.push_back(e);
    }
  }
}

// Who reads a proposal does not lower it again.
TEST(Policy, TheLoweringOfAProposalIsThatOfItsSchedule) {
  const task& t = builtin("gelu_by_hand");
  for (const char* name : {"random", "evolutionary", "learned"}) {
    auto by = made(name);
    std::vector<exemplar> seen;
    int with_lowering = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const auto proposed = by->propose_one(prompt_of(t, seed, seen));
      ASSERT_TRUE(proposed);
      seen.push_back(exemplar_of(t, proposed->plan));
      if (!proposed->lowering) continue;  // of a list that was lowered before
      ++with_lowering;
      const auto checked = check_lowered(*proposed->lowering), again = lower(t, proposed->plan, for_cpu());
      ASSERT_TRUE(checked && again);
      EXPECT_EQ(checked->checked.id, again->checked.id);
      EXPECT_EQ(checked->explanation, again->explanation);
      EXPECT_EQ(checked->certificates, again->certificates);
    }
    EXPECT_GT(with_lowering, 0) << name;
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
      const auto proposed = made("evolutionary")->propose_one(prompt_of(t, seed, seen));
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
  seen.front().known.result.score = 100;
  int from_best = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto proposed = made("evolutionary")->propose_one(prompt_of(t, seed, seen));
    ASSERT_TRUE(proposed);
    from_best += !proposed->parents.empty() && proposed->parents.front() == seen.front().id() ? 1 : 0;
  }
  EXPECT_GE(from_best, 10);
}

TEST(EvolutionaryPolicy, SeldomRepeatsAMoveOfWhichOnlyWrongAnswersCame) {
  prompt p = prompt_of(builtin("gelu_by_hand"), 0);
  p.target = &for_cuda();
  const auto with = [&](const std::string& text, outcome result) {
    exemplar e = exemplar_with(*parse_schedule(text), "id of " + text, result == outcome::correct ? 2 : 0);
    e.known.result.result = result;
    return e;
  };
  const auto share_of_graphs = [&] {
    int holding = 0;
    for (p.seed = 0; p.seed < 40; ++p.seed) {
      const auto proposed = made("evolutionary")->propose_one(p);
      EXPECT_TRUE(proposed);
      holding += std::ranges::count(proposed->plan.moves, "graph", &move::name) > 0 ? 1 : 0;
    }
    return holding / 40.0;
  };
  p.exemplars = {with("fuse(steps=0..7)", outcome::correct)};
  const double before = share_of_graphs();
  EXPECT_GT(before, 0.5);
  for (const char* text : {"graph()", "fuse(steps=0..7); graph()"})
    p.failed.push_back(with(text, outcome::wrong_answer));
  EXPECT_EQ(share_of_graphs(), before) << "twice is not often";
  p.failed.push_back(with("fuse(steps=0..6); graph()", outcome::wrong_answer));
  EXPECT_LT(share_of_graphs(), 0.25);
  p.failed.back().known.result.result = outcome::compile_error;
  EXPECT_EQ(share_of_graphs(), before) << "another failure";
  p.failed.back().known.result.result = outcome::wrong_answer;
  p.exemplars.push_back(with("fuse(steps=1..7); graph()", outcome::correct));
  EXPECT_GT(share_of_graphs(), 0.5) << "once it was right";
  EXPECT_GT(made("evolutionary")->traits().exemplars.sample.failed, 3u);
}

TEST(EvolutionaryPolicy, NamesTheParentsOfItsMutants) {
  const task& t = builtin("gelu_by_hand");
  const exemplar parent = exemplar_of(t, *parse_schedule("fuse(steps=0..7)"));
  bool seen = false;
  for (uint64_t seed = 0; seed < 20 && !seen; ++seed) {
    const auto proposed = made("evolutionary")->propose_one(prompt_of(t, seed, {parent}));
    seen = proposed->parents == std::vector<std::string>{parent.id()};
  }
  EXPECT_TRUE(seen);
}

task on_gpu(const std::string& name) {
  auto read = load_task(*builtin_task_folder() + "/" + name + ".json", "cuda");
  if (!read) throw std::runtime_error(read.error().message);
  return *read;
}

schedule proposed_for(const task& t, const lowering_target& target, const std::string& model, uint64_t seed,
                      std::vector<exemplar> seen = {}, bool estimates = true) {
  policy_setup setup;
  setup.search.estimates = estimates;
  const auto by = make_policy("evolutionary", setup);
  prompt p = prompt_of(t, seed, std::move(seen));
  p.target = &target;
  p.where.model = model;
  return dynamic_cast<immediate_policy&>(**by).propose_one(p)->plan;
}

constexpr const char* a_known_gpu = "NVIDIA H100 80GB HBM3";

double estimated_us(const task& t, const schedule& s) {
  return estimate_of(t, s, for_cuda(), **find_device_data(a_known_gpu)).value().call_us;
}

// Mostly: the others are as without estimates, so that nothing is excluded.
TEST(EvolutionaryPolicy, ProposesWhatIsEstimatedToBeFastOnAKnownGpu) {
  const task t = on_gpu("softmax");
  const schedule slow = *parse_schedule("row_kernel(steps=0); row_threads(group=0, threads=32)");
  const std::vector<exemplar> seen = {exemplar_with(slow, lower(t, slow, for_cuda())->checked.id, 1.5)};
  for (const auto& exemplars : {std::vector<exemplar>(), seen}) {
    double with = 0, without = 0;
    int same = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const auto chosen = proposed_for(t, for_cuda(), a_known_gpu, seed, exemplars);
      const auto drawn = proposed_for(t, for_cuda(), "", seed, exemplars, true);
      EXPECT_EQ(drawn, proposed_for(t, for_cuda(), "a GPU that nobody knows", seed, exemplars));
      EXPECT_EQ(drawn, proposed_for(t, for_cuda(), a_known_gpu, seed, exemplars, false));
      with += std::log(estimated_us(t, chosen));
      without += std::log(estimated_us(t, drawn));
      same += chosen == drawn ? 1 : 0;
    }
    EXPECT_LT(with / 60, without / 60 - 0.05);
    EXPECT_LT(same, 59);
  }
}

TEST(EvolutionaryPolicy, EstimatesChooseNothingOnTheCpuAndOfLargeTasks) {
  const task large = residual_network(10);
  ASSERT_GT(large.reference.text.steps.size(), most_steps_of_a_space);
  for (uint64_t seed = 0; seed < 5; ++seed) {
    EXPECT_EQ(proposed_for(builtin("softmax"), for_cpu(), a_known_gpu, seed),
              proposed_for(builtin("softmax"), for_cpu(), "", seed));
    EXPECT_EQ(proposed_for(large, for_cuda(), a_known_gpu, seed), proposed_for(large, for_cuda(), "", seed));
  }
}

std::unique_ptr<immediate_policy> trained(const task& t, int rounds) {
  auto by = made("learned");
  for (int round = 0; round < rounds; ++round) {
    std::vector<experience> group;
    std::vector<reward_member> members;
    for (uint64_t i = 0; i < 8; ++i) {
      const auto proposed = by->propose_one(prompt_of(t, static_cast<uint64_t>(round) * 100 + i));
      experience e;
      e.what = shared(t);
      e.target = &for_cpu();
      e.plan = proposed->plan;
      e.trace = proposed->trace;
      e.score = score_of(t, *e.plan);
      reward_member m;
      m.score = e.score;
      m.score_interval = {e.score, e.score};
      for (int fork = 0; fork < 8; ++fork)
        m.samples.push_back({fork, false, e.score, 1, 0, 0});
      members.push_back(std::move(m));
      group.push_back(std::move(e));
    }
    const auto paid = pay_group(members, {});
    for (std::size_t i = 0; paid && i < group.size(); ++i)
      group[i].reward = paid->members[i].reward;
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

experience experience_of_softmax() {
  experience e;
  e.what = shared(builtin("softmax"));
  e.target = &for_cpu();
  e.plan = *parse_schedule("row_kernel(steps=0)");
  return e;
}

TEST(LearnedPolicy, RewardsOfZeroTeachNothing) {
  auto by = made("learned");
  const experience e = experience_of_softmax();
  const auto changed = by->learn({e, e});
  ASSERT_TRUE(changed);
  EXPECT_FALSE(*changed);
  EXPECT_EQ(by->version(), 0);
}

TEST(LearnedPolicy, WhatWasPutTogetherFromPartsTeachesNothing) {
  auto by = made("learned");
  experience e = experience_of_softmax();
  e.reward = 1;
  e.trace.set("origin", "parts");
  experience worse = e;
  worse.reward = -1;
  EXPECT_FALSE(by->learn({e, worse}).value());
  e.trace.set("origin", "drawn");
  EXPECT_TRUE(by->learn({e, worse}).value());
}

TEST(LearnedPolicy, StatesTheProbabilityOfAProposal) {
  const task& t = builtin("softmax");
  auto by = made("learned");
  std::map<std::string, int> counts;
  std::map<std::string, double> stated;
  constexpr int n = 2000;
  for (uint64_t seed = 0; seed < n; ++seed) {
    const auto proposed = by->propose_one(prompt_of(t, seed));
    ASSERT_TRUE(proposed && proposed->log_probability);
    const auto plan = print_schedule(proposed->plan);
    ++counts[plan];
    stated[plan] = std::exp(*proposed->log_probability);
  }
  for (const auto& [plan, count] : counts) {
    if (count > n / 20) {
      EXPECT_NEAR(stated[plan], count / double{n}, 0.25 * count / n) << plan;
    }
  }
}

TEST(ImmediatePolicy, DeliversAGroupOfDifferentProposalsToOneTicket) {
  const task& t = builtin("rms_norm");
  auto by = made("learned");
  std::vector<delivery> got;
  by->connect([&](delivery d) { got.push_back(std::move(d)); });
  const ticket to = by->propose(prompt_of(t, 7), 5);
  ASSERT_EQ(got.size(), 5u);
  std::set<std::string> plans;
  for (const auto& d : got) {
    EXPECT_EQ(d.to, to);
    const auto made = d.read();
    ASSERT_TRUE(made);
    plans.insert(print_schedule(made->plan));
    EXPECT_EQ(d.last, &d == &got.back());
  }
  EXPECT_GT(plans.size(), 1u);
  got.clear();
  EXPECT_NE(by->propose(prompt{}, 3), to);
  ASSERT_EQ(got.size(), 1u) << "an error ends the ticket";
  EXPECT_FALSE(got[0].read());
  EXPECT_TRUE(got[0].last);
}

TEST(ImmediatePolicy, MakesTheSameProposalsInSeveralThreads) {
  for (const auto& name : {"random", "evolutionary", "learned"}) {
    std::vector<std::pair<const task*, uint64_t>> asked;
    for (const auto& what : {"softmax", "rms_norm", "gelu_by_hand"})
      for (uint64_t seed = 0; seed < 40; ++seed)
        asked.emplace_back(&builtin(what), seed);
    auto alone = made(name), shared = made(name);
    std::vector<std::string> one_by_one, at_once(asked.size());
    for (const auto& [what, seed] : asked)
      one_by_one.push_back(print_schedule(alone->propose_one(prompt_of(*what, seed))->plan));
    std::atomic<std::size_t> next = 0;
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
          for (std::size_t at = next++; at < asked.size(); at = next++)
            at_once[at] = print_schedule(shared->propose_one(prompt_of(*asked[at].first, asked[at].second))->plan);
        });
    }
    EXPECT_EQ(at_once, one_by_one) << name;
  }
}

TEST(LearnedPolicy, ProposesTheSameAfterSavingAndLoading) {
  const task& t = builtin("rms_norm");
  auto by = trained(t, 3);
  auto copy = made("learned", 99);
  const auto loaded = copy->load(by->save(), by->version());
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(copy->version(), by->version());
  for (uint64_t seed = 0; seed < 8; ++seed)
    EXPECT_EQ(copy->propose_one(prompt_of(t, seed))->plan, by->propose_one(prompt_of(t, seed))->plan);
  EXPECT_FALSE(copy->load("{}", 1));
  EXPECT_FALSE(copy->load(made("random")->save(), 1));
}

// Also after a restart, when what was tried is known from the store.
TEST(ExhaustivePolicy, ProposesEveryScheduleOfTheSpaceOnce) {
  for (const auto* target : {&for_cpu(), &for_cuda()}) {
    const task& t = builtin("rms_norm");
    const auto space = space_of(t, *target, most_schedules_of_a_space);
    std::set<std::string> tried;
    prompt p = prompt_of(t, 0);
    p.target = target;
    p.is_tried = [&](const std::string& id) { return tried.contains(id); };
    auto exhaustive = made("exhaustive");
    for (std::size_t i = 1; i < space.schedules.size(); ++i) {
      if (i == 3) exhaustive = made("exhaustive");
      p.seed = i;
      const auto next = exhaustive->propose_one(p);
      ASSERT_TRUE(next) << next.error().message;
      EXPECT_EQ(next->plan, space.schedules[i]);
      EXPECT_TRUE(tried.insert(lower(t, next->plan, *target)->checked.id).second) << print_schedule(next->plan);
    }
    const auto end = exhaustive->propose_one(p);
    ASSERT_FALSE(end);
    EXPECT_EQ(end.error().code, errc::not_found);
    EXPECT_THAT(end.error().message, testing::HasSubstr("schedules of task rms_norm were proposed"));
  }
}

TEST(ExhaustivePolicy, SaysThatALargeTaskIsNotForIt) {
  const task t = residual_network(40);
  const auto refused = made("exhaustive")->propose_one(prompt_of(t, 0));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::not_found);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("such as parts"));
}

// A product's space has both ways to split its operands, before any tuning.
TEST(ScheduleSpace, HasEveryWayToComputeAStep) {
  const auto space = space_of(builtin("linear_gelu"), for_cuda(), most_schedules_of_a_space);
  std::vector<std::string> first;
  for (std::size_t i = 0; i < 12; ++i)
    first.push_back(print_schedule(space.schedules[i]));
  EXPECT_THAT(first, testing::Contains("fuse(steps=1); product_kernel(steps=0..1, factors=halves); graph()"));
  EXPECT_THAT(first, testing::Contains("fuse(steps=1); product_kernel(steps=0..1); graph()"));
}

}  // namespace
}  // namespace cudal1::test
