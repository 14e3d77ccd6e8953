// Recorded spaces, training and comparison as a user runs them, on a sample of a space that was measured on an H100.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/tools_fixture.hpp"

namespace cudal1::cli {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

std::string sample() {
  return std::string(CUDAL1_SOURCE) + "/tests/tools/recorded/sample_space.jsonl";
}

std::vector<std::string> quickly(std::vector<std::string> arguments) {
  for (const char* each : {"--layers", "1", "--width", "16", "--batch", "8", "--group", "4", "--supervised", "2",
                           "--self-supervised", "1", "--contrastive", "3"})
    arguments.emplace_back(each);
  return arguments;
}

TEST(recorded_spaces, a_space_is_shown_with_where_it_was_measured) {
  const auto p = run_cudal1({"spaces", "show", sample()});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_THAT(p.out, AllOf(HasSubstr("167 candidates of 4 tasks on NVIDIA H100 80GB HBM3 (LibTorch 2.11.0)"),
                           ContainsRegex("part-bmm-755a3283 +bmm +24 +[0-9]+ +[0-9.]+x")));
  const auto missing = run_cudal1({"spaces", "show", "/nowhere/space.jsonl"});
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.err, HasSubstr("/nowhere/space.jsonl cannot be read"));
}

TEST(recorded_spaces, estimates_order_a_space_better_than_chance) {
  const auto p = run_cudal1({"spaces", "estimate", sample(), "--json"});
  ASSERT_EQ(p.code, 0) << p.err;
  const json document = document_of(p);
  const json& all = *document.find("all");
  EXPECT_EQ(document.find("device")->as_string(), "H100 SXM");
  EXPECT_EQ(all.find("candidates")->as_int(), 167);
  EXPECT_GT(all.find("rank_correlation")->as_double(), 0.6);
  const auto &estimated = all.find("by_estimate")->as_array(), &random = all.find("by_chance")->as_array();
  for (std::size_t i = 0; i < estimated.size(); ++i)
    EXPECT_GT(estimated[i].as_double(), random[i].as_double()) << i;
  EXPECT_GT(estimated[0].as_double(), 0.9);

  const auto shown = run_cudal1({"spaces", "estimate", sample(), "--folds", "2", "--fold", "0"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(ContainsRegex("mean of [123] tasks? +[0-9]+ +0\\.[0-9]+ +[0-9.]+% \\([0-9.]+%\\)"),
                               HasSubstr("Spearman")));
  const auto beyond = run_cudal1({"spaces", "estimate", sample(), "--folds", "2", "--fold", "2"});
  EXPECT_EQ(beyond.code, 2);
  EXPECT_THAT(beyond.err, HasSubstr("--fold is 2"));
}

TEST(recorded_spaces, a_store_without_enough_candidates_has_no_space) {
  temporary_folder folder;
  prepare_store(folder / "data");
  const auto p = run_cudal1({"spaces", "record", folder / "space.jsonl", "--data", folder / "data"});
  EXPECT_EQ(p.code, 2);
  EXPECT_THAT(p.err, HasSubstr("no task of which 16 schedules were measured"));
}

TEST(recorded_spaces, a_model_is_trained_resumed_and_compared) {
  temporary_folder folder;
  const std::string model = folder / "model.json";
  const auto trained = run_cudal1(quickly({"train", sample(), "--out", model}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("contrastive 3/3"));
  EXPECT_TRUE(std::filesystem::exists(folder / "model.safetensors"));
  const auto again = run_cudal1(quickly({"train", sample(), "--out", model, "--resume"}));
  EXPECT_EQ(again.code, 0) << "all steps are done: " << again.err;

  const auto compared = run_cudal1({"compare", sample(), "--model", model, "--seeds", "2", "--evaluations", "8"});
  ASSERT_EQ(compared.code, 0) << compared.err;
  EXPECT_THAT(compared.out, AllOf(ContainsRegex("random +[0-9.]+% \\["), ContainsRegex("evolutionary +[0-9.]+% \\["),
                                  ContainsRegex("model \\(trained on these\\) +[0-9.]+% \\["),
                                  HasSubstr("model over random after 4")));
  EXPECT_THAT(compared.out, HasSubstr("model (trained on these)"));
  const auto unknown = run_cudal1({"compare", sample(), "--policy", "random", "--model", model, "--folds", "2"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("was not trained with --folds 2: what it has seen"));
  const auto p = run_cudal1({"compare", sample(), "--policy", "random", "--seeds", "3", "--evaluations", "24",
                             "--folds", "2", "--fold", "1", "--json"});
  ASSERT_EQ(p.code, 0) << p.err;
  const json document = document_of(p);
  const json& random = document.find("policies")->as_array().front();
  EXPECT_EQ(random.find("seeds")->as_int(), 3);
  EXPECT_EQ(random.find("curve")->as_array().size(), 24u);
  EXPECT_LT(random.find("tasks")->as_int(), 4) << "one fold is held out";
}

TEST(recorded_spaces, a_search_that_estimates_choose_for_is_ahead_at_first) {
  const auto p = run_cudal1({"compare", sample(), "--policy", "evolutionary_without_estimates", "--policy",
                             "evolutionary", "--policy", "estimates", "--seeds", "8", "--evaluations", "4", "--json"});
  ASSERT_EQ(p.code, 0) << p.err;
  const json document = document_of(p);
  const auto after_one = [&](std::size_t policy) {
    const json& curve = *document.find("policies")->as_array()[policy].find("curve");
    return curve.as_array().front().find("value")->as_double();
  };
  EXPECT_GT(after_one(1), after_one(0) + 0.02);
  EXPECT_GT(after_one(2), after_one(1)) << "all candidates are looked at, not a few drawn ones";
  const auto other = run_cudal1({"compare", sample(), "--policy", "learned"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("should be one of random, estimates"));
}

TEST(recorded_spaces, each_task_is_searched_by_the_models_that_have_not_seen_it) {
  temporary_folder folder;
  std::string models;
  for (const char* seed : {"1", "2"})
    for (const char* fold : {"0", "1"}) {
      const std::string model = folder / ("m" + std::string(seed) + fold + ".json");
      const auto trained =
          run_cudal1(quickly({"train", sample(), "--out", model, "--folds", "2", "--fold", fold, "--seed", seed}));
      ASSERT_EQ(trained.code, 0) << trained.err;
      models += (models.empty() ? "mine=" : ",") + model;
    }
  const auto p = run_cudal1({"compare", sample(), "--model", models, "--policy", "random", "--folds", "2", "--seeds",
                             "4", "--evaluations", "8", "--threads", "2", "--json"});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_THAT(p.err, HasSubstr("mine: "));
  const json document = document_of(p);
  const json& mine = document.find("policies")->as_array().back();
  EXPECT_EQ(mine.find("name")->as_string(), "mine");
  EXPECT_EQ(mine.find("tasks")->as_int(), 4) << "those of both folds";
  EXPECT_EQ(mine.find("seeds")->as_int(), 4);
  EXPECT_EQ(mine.find("trainings")->as_int(), 2);
  // The same tasks of another file: what a fold holds out follows from operators, so the models have not seen them.
  std::string text = read_file(sample());
  text.replace(text.find("cudal1 spaces record"), 6, "others");
  write_file(folder / "other.jsonl", text);
  const auto elsewhere = run_cudal1({"compare", folder / "other.jsonl", "--model", models, "--policy", "random",
                                     "--folds", "2", "--seeds", "4", "--evaluations", "8"});
  EXPECT_EQ(elsewhere.code, 0) << elsewhere.err;
  EXPECT_THAT(elsewhere.out, ContainsRegex("mine +[0-9.]+% \\["));
  // Most of forty folds hold out none of the four tasks.
  const auto few = run_cudal1({"compare", sample(), "--policy", "random", "--folds", "40", "--seeds", "2", "--json"});
  ASSERT_EQ(few.code, 0) << few.err;
  EXPECT_EQ(document_of(few).find("policies")->as_array().front().find("tasks")->as_int(), 4);
  const auto uneven = run_cudal1({"compare", sample(), "--model", models, "--folds", "2", "--seeds", "3"});
  EXPECT_EQ(uneven.code, 2);
  EXPECT_THAT(uneven.err, HasSubstr("--seeds is 3, and should be a multiple of the 2 trainings of mine"));
  const auto missing =
      run_cudal1({"compare", sample(), "--model", models.substr(0, models.rfind(',')), "--folds", "2", "--seeds", "4"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("mine should have as many models for each of the 2 folds"));
}

TEST(recorded_spaces, what_does_not_fit_is_refused_with_a_sentence) {
  temporary_folder folder;
  const std::string model = folder / "model.json";
  const auto fold = run_cudal1({"train", sample(), "--out", model, "--folds", "2", "--fold", "2"});
  EXPECT_EQ(fold.code, 2);
  EXPECT_THAT(fold.err, HasSubstr("--fold is 2, and should be below --folds, 2"));
  const auto batch = run_cudal1({"train", sample(), "--out", model, "--batch", "10", "--group", "4"});
  EXPECT_EQ(batch.code, 2);
  EXPECT_THAT(batch.err, HasSubstr("a batch of 10 is not made of groups of 4"));
  const auto device = run_cudal1({"train", sample(), "--out", model, "--device", "npu:0"});
  EXPECT_NE(device.code, 0);
  EXPECT_THAT(device.err, HasSubstr("npu:0"));
  const auto none = run_cudal1({"compare", sample(), "--policy", "random", "--model", folder / "none.json"});
  EXPECT_NE(none.code, 0);
  EXPECT_THAT(none.err, HasSubstr("none.json cannot be read"));
}

}  // namespace
}  // namespace cudal1::cli
