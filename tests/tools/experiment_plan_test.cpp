#include "tools/cli/arms/experiment_plan.hpp"

#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/hash.hpp"
#include "config/base/text_file.hpp"
#include "tools/cli/arms/exemplar_pool.hpp"

namespace cudal1::cli {
namespace {

using testing::HasSubstr;

constexpr const char* small_plan = R"(
name = "small"
forms = ["schedule", "program"]
seeds = [3, 4]
answers = 8
samples = [1, 8]
settings = ["timing.max_seconds=1"]
[tasks]
held_out_operators = ["aten::softmax.int"]
[prompts]
exemplars = 2
answers = 4
[decoding]
temperature = 0.7
tokens = 500
[training]
steps = [2, 1, 3]
adapter = {rank = 4, alpha = 8, targets = ["q_proj"]}
[[arms]]
name = "untrained"
[[arms]]
name = "trained, shuffled scores"
weights = "contrastive"
prompt = "shuffled"
[[arms]]
name = "evolutionary"
search = "evolutionary"
)";

std::string with(const std::string& text, const std::string& from, const std::string& to) {
  std::string out = text;
  out.replace(out.find(from), from.size(), to);
  return out;
}

std::string refusal(const std::string& text) {
  const auto read = read_plan(text, "plan.toml");
  return read ? "" : read.error().message;
}

std::vector<task> builtin_tasks() {
  return *load_tasks(CUDAL1_SOURCE "/config/tasks", "cpu");
}

TEST(a_plan, is_read_with_its_hash) {
  const auto plan = *read_plan(small_plan, "plan.toml");
  EXPECT_EQ(plan.sha256, sha256_hex(small_plan));
  EXPECT_EQ(plan.forms, (std::vector{answer_form::schedule, answer_form::program}));
  EXPECT_EQ(plan.seeds, (std::vector<uint64_t>{3, 4}));
  EXPECT_EQ(plan.decoding.temperature, 0.7);
  EXPECT_EQ(plan.decoding.top_p, 0.95) << "the default";
  EXPECT_EQ(plan.training.adapter.rank, 4);
  ASSERT_EQ(plan.arms.size(), 3U);
  EXPECT_EQ(plan.arms[1].weights, arm_weights::contrastive);
  EXPECT_EQ(plan.arms[1].prompt, arm_prompt::shuffled);
  EXPECT_TRUE(plan.trains());
  EXPECT_TRUE(plan.has_search());
  const auto asks = asking_as(plan, answer_form::program);
  EXPECT_EQ(asks.form, "program");
  EXPECT_EQ(asks.max_answer_tokens, 500);
}

TEST(a_plan, that_does_not_fit_is_refused_with_what_is_wrong) {
  EXPECT_EQ(refusal(small_plan), "");
  EXPECT_THAT(refusal("a = ["), HasSubstr("plan.toml, line 1"));
  EXPECT_THAT(refusal(with(small_plan, "temperature = 0.7", "temprature = 0.7")),
              HasSubstr("there is no key decoding.temprature; there are temperature, top_p"));
  EXPECT_THAT(refusal(with(small_plan, "prompt = \"shuffled\"", "promt = \"shuffled\"")), HasSubstr("arms[1].promt"));
  EXPECT_THAT(refusal(with(small_plan, "weights = \"contrastive\"", "weights = \"odd\"")), HasSubstr("odd"));
  EXPECT_THAT(refusal(with(small_plan, "answers = 8", "answers = 7")), HasSubstr("samples is 8, and should be 1 to 7"));
  EXPECT_THAT(refusal(with(small_plan, "[3, 4]", "[3, 3]")), HasSubstr("seeds"));
  EXPECT_THAT(refusal(with(small_plan, "[2, 1, 3]", "[2, 0, 3]")), HasSubstr("training.steps"));
  EXPECT_THAT(refusal(with(small_plan, "exemplars = 2", "exemplars = 1")), HasSubstr("shuffles scores"));
  EXPECT_THAT(refusal(with(small_plan, "timing.max_seconds=1", "timing.odd=1")), HasSubstr("odd"));
  EXPECT_THAT(refusal(with(small_plan, "name = \"evolutionary\"", "name = \"untrained\"")),
              HasSubstr("two arms are called untrained"));
  EXPECT_THAT(
      refusal(with(small_plan, "search = \"evolutionary\"", "search = \"evolutionary\"\nprompt = \"contrastive\"")),
      HasSubstr("neither weights nor a prompt"));
}

TEST(tasks, are_held_out_by_their_operators_and_none_of_these_is_trained_on) {
  const auto split = *split_tasks(builtin_tasks(), {"", {}, {"aten::softmax.int", "aten::amax"}});
  EXPECT_GT(split.held_out.size(), 2U);
  EXPECT_GT(split.trained.size(), split.held_out.size());
  for (const auto& t : split.trained)
    EXPECT_THAT(operators_in(t),
                testing::Not(testing::AnyOf(testing::Contains("aten::softmax.int"), testing::Contains("aten::amax"))))
        << t.name;
  EXPECT_TRUE(std::ranges::any_of(split.held_out, [](const task& t) { return t.name == "softmax"; }));
  const auto unknown = split_tasks(builtin_tasks(), {"", {}, {"aten::softmax.int", "aten::odd"}});
  EXPECT_THAT(unknown.error().message, HasSubstr("no task has aten::odd"));
}

TEST(tasks, are_all_asked_where_no_operators_are_held_out_and_nothing_is_trained) {
  const auto split = *split_tasks(builtin_tasks(), {"", {}, {}});
  EXPECT_EQ(split.held_out.size(), builtin_tasks().size());
  EXPECT_TRUE(split.trained.empty());
  const std::string operators = "held_out_operators = [\"aten::softmax.int\"]";
  EXPECT_THAT(refusal(with(small_plan, operators, "")), HasSubstr("tasks.held_out_operators is empty"));
  const std::string trained =
      "[[arms]]\nname = \"trained, shuffled scores\"\nweights = \"contrastive\"\nprompt = \"shuffled\"\n";
  const auto untrained = with(with(small_plan, operators, ""), trained, "");
  EXPECT_EQ(refusal(untrained), "");
  EXPECT_FALSE(read_plan(untrained, "")->shows_variants());
  EXPECT_TRUE(read_plan(small_plan, "")->shows_variants());
}

// Plans that are meant to be run on a GPU have the operators of their tasks, and both sides where they train.
TEST(the_plans_of_the_repository, fit_the_built_in_tasks) {
  int plans = 0;
  for (const auto& file : std::filesystem::directory_iterator(CUDAL1_SOURCE "/tools/bench/plans")) {
    const std::string path = file.path();
    SCOPED_TRACE(path);
    const auto plan = read_plan(*read_text_file(path), path);
    ASSERT_TRUE(plan) << plan.error().message;
    auto all = builtin_tasks();
    if (!plan->tasks.names.empty())
      std::erase_if(all, [&](const task& t) { return std::ranges::count(plan->tasks.names, t.name) == 0; });
    const auto split = split_tasks(std::move(all), plan->tasks);
    ASSERT_TRUE(split) << split.error().message;
    EXPECT_EQ(plan->trains(), !split->trained.empty());
    ++plans;
  }
  EXPECT_GT(plans, 0);
}

std::vector<pool_variant> variants(std::initializer_list<double> scores) {
  std::vector<pool_variant> out;
  for (const double score : scores) {
    pool_variant v;
    v.variant.id = v.variant.program = fmt::format("{}", score);
    v.variant.schedule = "fuse(steps=0..1)";
    v.variant.analysis = "as it was measured";
    v.result.variant = v.variant.id;
    v.result.score = score;
    out.push_back(std::move(v));
  }
  return out;
}

TEST(exemplars, are_of_different_scores_and_the_same_for_the_same_seed) {
  const auto pool = variants({4, 3.99, 3.98, 3.97, 1.5});
  const plan_prompts how{"compact", 2, 1, 4, 4096};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto drawn = *draw_exemplars(pool, how, arm_prompt::contrastive, seed);
    ASSERT_EQ(drawn.size(), 2U);
    EXPECT_GT(drawn[0].score(), 3.9);
    EXPECT_EQ(drawn[1].score(), 1.5) << "there are two buckets";
    EXPECT_EQ(draw_exemplars(pool, how, arm_prompt::contrastive, seed)->front().id(), drawn[0].id());
  }
  EXPECT_TRUE(draw_exemplars(pool, how, arm_prompt::one_shot, 1)->empty());
  EXPECT_EQ(draw_exemplars(variants({2, 2.01}), how, arm_prompt::contrastive, 1)->size(), 2U) << "of one bucket";
  EXPECT_EQ(draw_exemplars(variants({2}), how, arm_prompt::contrastive, 1)->size(), 1U);
}

TEST(exemplars, that_are_shuffled_have_the_scores_of_each_other) {
  const auto pool = variants({4, 2, 1});
  for (const int64_t count : {2, 3}) {
    const plan_prompts how{"compact", count, 1, 4, 4096};
    const auto real = *draw_exemplars(pool, how, arm_prompt::contrastive, 5),
               shuffled = *draw_exemplars(pool, how, arm_prompt::shuffled, 5);
    std::vector<double> scores, own;
    for (const auto& e : shuffled) {
      scores.push_back(e.score());
      own.push_back(std::stod(e.id()));
      EXPECT_NE(e.score(), std::stod(e.id()));
      EXPECT_EQ(e.known.variant.analysis, "");
    }
    EXPECT_TRUE(std::ranges::is_sorted(scores, std::greater<>())) << "best first, as it seems";
    std::ranges::sort(own, std::greater<>());
    EXPECT_EQ(own, scores);
    EXPECT_EQ(own.size(), real.size());
    EXPECT_EQ(own.front(), real.front().score()) << "the same variants";
  }
}

}  // namespace
}  // namespace cudal1::cli
