// Pretrained models against transformers: logits and greedy text of each layout, of GGUF files, and generation.
#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>

#include "policy/model/language_model.hpp"
#include "tests/policy/model/references.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

constexpr double tolerance = 1e-4;

std::unique_ptr<language_model> opened(const std::string& name, model_precision precision = model_precision::float32) {
  auto made = language_model::open(reference(name), precision);
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

std::vector<token> tokens_of(const std::string& folder, const std::string& tensor) {
  const auto read = reference_values<int64_t>(folder + "/expected.safetensors", tensor);
  return {read.begin(), read.end()};
}

// A batch of one prompt.
std::vector<std::vector<token>> alone(std::vector<token> prompt) {
  std::vector<std::vector<token>> out;
  out.push_back(std::move(prompt));
  return out;
}

// The largest difference of logits, and the greedy text.
void expect_equal(const language_model& model, const std::string& folder) {
  const auto prompt = tokens_of(folder, "tokens");
  const auto wanted = reference_values<float>(folder + "/expected.safetensors", "logits");
  const auto logits = model.logits(prompt);
  ASSERT_TRUE(logits) << logits.error().message;
  ASSERT_EQ(logits->size(), wanted.size());
  double most = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    most = std::max(most, static_cast<double>(std::abs((*logits)[i] - wanted[i])));
  EXPECT_LT(most, tolerance);
  const auto greedy = tokens_of(folder, "greedy");
  const auto made =
      model.generate(alone(prompt), {.temperature = 0, .most_tokens = static_cast<int64_t>(greedy.size())});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->answers.front().tokens, greedy);
  EXPECT_EQ(made->answers.front().end, generation_end::length);
}

class layout : public with_references, public testing::WithParamInterface<std::string> {};

TEST_P(layout, has_the_logits_and_greedy_text_of_transformers) {
  expect_equal(*opened(GetParam()), GetParam());
}

INSTANTIATE_TEST_SUITE_P(folders, layout,
                         testing::Values("llama_default", "llama_linear", "llama_dynamic", "llama_llama3", "llama_yarn",
                                         "llama_float16", "qwen2", "qwen2_half", "qwen3"),
                         [](const auto& each) { return each.param; });

class pretrained_model : public with_references {};

TEST_F(pretrained_model, of_a_gguf_file_with_mixed_types_equals_transformers) {
  expect_equal(*opened("mixed/model.gguf"), "mixed");
}

TEST_F(pretrained_model, smollm2_equals_transformers) {
  expect_equal(*opened("smollm2/model.gguf"), "smollm2");
}

TEST_F(pretrained_model, in_bfloat16_is_near) {
  const auto model = opened("qwen3", model_precision::bfloat16);
  const auto logits = model->logits(tokens_of("qwen3", "tokens"));
  ASSERT_TRUE(logits) << logits.error().message;
  const auto wanted = reference_values<float>("qwen3/expected.safetensors", "logits");
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    difference += std::pow((*logits)[i] - wanted[i], 2);
    size += std::pow(wanted[i], 2);
  }
  EXPECT_LT(std::sqrt(difference / size), 0.03);
}

// Prompts of several lengths after a common beginning.
std::vector<std::vector<token>> some_prompts(std::size_t common) {
  std::vector<std::vector<token>> out(4);
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (std::size_t k = 0; k < common; ++k)
      out[i].push_back(static_cast<token>((7 * k + 3) % 151));
    for (std::size_t k = 0; k < 1 + 5 * i; ++k)
      out[i].push_back(static_cast<token>((11 * k + 29 * i + 1) % 151));
  }
  return out;
}

TEST_F(pretrained_model, prompts_side_by_side_give_what_each_gives_alone) {
  const auto model = opened("qwen2");
  for (const std::size_t common : {0, 1, 40}) {
    const auto prompts = some_prompts(common);
    const generation_options options{.temperature = 0, .most_tokens = 24};
    const auto together = model->generate(prompts, options, 2);
    ASSERT_TRUE(together) << together.error().message;
    ASSERT_EQ(together->answers.size(), 8u);
    EXPECT_EQ(together->report.shared_tokens, static_cast<int64_t>(common));
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const auto one = model->generate(alone(prompts[i]), options);
      ASSERT_TRUE(one) << one.error().message;
      EXPECT_EQ(together->answers[2 * i].tokens, one->answers[0].tokens) << common << ", " << i;
      EXPECT_EQ(together->answers[2 * i + 1].tokens, one->answers[0].tokens);
    }
  }
}

TEST_F(pretrained_model, answers_that_end_leave_the_others_as_they_are) {
  const auto model = opened("llama_default");
  const auto prompts = some_prompts(10);
  const auto whole = model->generate(prompts, {.temperature = 0, .most_tokens = 24});
  ASSERT_TRUE(whole);
  const token end = whole->answers[1].tokens[5];
  const auto cut = model->generate(prompts, {.temperature = 0, .most_tokens = 24, .end = {end}});
  ASSERT_TRUE(cut);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    auto wanted = whole->answers[i].tokens;
    const auto found = std::ranges::find(wanted, end);
    const bool ends = found != wanted.end();
    if (ends) wanted.erase(found + 1, wanted.end());
    EXPECT_EQ(cut->answers[i].tokens, wanted);
    EXPECT_EQ(cut->answers[i].end, ends ? generation_end::end_token : generation_end::length);
  }
  std::vector<int> heard(prompts.size());
  const auto stopped = model->generate(prompts, {.temperature = 0, .most_tokens = 24}, 1,
                                       [&](std::size_t answer, token) { return ++heard[answer] < 3 || answer != 2; });
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->answers[2].tokens.size(), 3u);
  EXPECT_EQ(stopped->answers[2].end, generation_end::stopped);
  EXPECT_EQ(stopped->answers[3].tokens, whole->answers[3].tokens);
}

// Of the first token after a prompt, from the logits.
std::vector<double> probabilities(const language_model& model, const std::vector<token>& prompt, double temperature) {
  const auto all = model.logits(prompt).value();
  const auto count = all.size() / prompt.size();
  std::vector<double> out(all.end() - static_cast<std::ptrdiff_t>(count), all.end());
  const double most = *std::ranges::max_element(out);
  double sum = 0;
  for (double& each : out)
    sum += each = std::exp((each - most) / temperature);
  for (double& each : out)
    each /= sum;
  return out;
}

std::vector<double> frequencies(const language_model& model, const std::vector<token>& prompt,
                                const generation_options& options, std::size_t count, std::size_t vocabulary) {
  const auto made = model.generate(alone(prompt), options, count);
  if (!made) throw std::runtime_error(made.error().message);
  std::vector<double> out(vocabulary);
  for (const auto& answer : made->answers)
    out[static_cast<std::size_t>(answer.tokens[0])] += 1.0 / static_cast<double>(count);
  return out;
}

TEST_F(pretrained_model, samples_follow_the_probabilities) {
  const auto model = opened("llama_default");
  const auto prompt = some_prompts(10)[1];
  constexpr std::size_t count = 20'000;
  const auto p = probabilities(*model, prompt, 0.8);
  const auto drawn = frequencies(*model, prompt, {.temperature = 0.8, .most_tokens = 1, .seed = 3}, count, p.size());
  for (std::size_t i = 0; i < p.size(); ++i)
    EXPECT_NEAR(drawn[i], p[i], 5 * std::sqrt(p[i] * (1 - p[i]) / count) + 1e-4) << i;
}

TEST_F(pretrained_model, top_k_and_top_p_leave_out_the_rest) {
  const auto model = opened("llama_default");
  const auto prompt = some_prompts(10)[1];
  auto sorted = probabilities(*model, prompt, 1.5);
  const auto p = sorted;
  std::ranges::sort(sorted, std::greater<>());
  const auto of_k = frequencies(*model, prompt, {.temperature = 1.5, .top_k = 5, .most_tokens = 1}, 4000, p.size());
  double mass = 0;
  std::size_t kept = 0;
  while (mass < 0.7)
    mass += sorted[kept++];
  ASSERT_GT(kept, 2u);
  const auto of_p = frequencies(*model, prompt, {.temperature = 1.5, .top_p = 0.7, .most_tokens = 1}, 4000, p.size());
  for (std::size_t i = 0; i < p.size(); ++i) {
    EXPECT_EQ(of_k[i] > 0, p[i] >= sorted[4]) << i;
    EXPECT_NEAR(of_p[i], p[i] >= sorted[kept - 1] ? p[i] / mass : 0, p[i] >= sorted[kept - 1] ? 0.05 : 0) << i;
  }
}

TEST_F(pretrained_model, log_probabilities_are_those_of_the_logits) {
  const auto model = opened("qwen3");
  const auto prompt = some_prompts(3)[2];
  const auto made = model->generate(alone(prompt), {.temperature = 2, .most_tokens = 6, .seed = 9});
  ASSERT_TRUE(made);
  auto text = prompt;
  for (std::size_t i = 0; i < 6; ++i) {
    const token t = made->answers[0].tokens[i];
    EXPECT_NEAR(made->answers[0].log_probability[i],
                std::log(probabilities(*model, text, 1)[static_cast<std::size_t>(t)]), 1e-4);
    text.push_back(t);
  }
}

TEST_F(pretrained_model, refuses_what_does_not_fit) {
  const auto model = opened("llama_default");
  const std::vector<token> long_text(257, 1);
  EXPECT_THAT(model->generate(alone(long_text), {}).error().message, HasSubstr("context 256"));
  EXPECT_THAT(model->generate(alone(std::vector<token>{151}), {}).error().message, HasSubstr("vocabulary of 151"));
  EXPECT_THAT(model->generate(alone(std::vector<token>{}), {}).error().message, HasSubstr("no token"));
  EXPECT_THAT(model->generate(alone(std::vector<token>{1}), {.top_p = 0}).error().message, HasSubstr("top_p"));
  const auto full = model->generate(alone(std::vector<token>(250, 1)), {.most_tokens = 100});
  ASSERT_TRUE(full);
  EXPECT_EQ(full->answers[0].tokens.size(), 7u);
}

}  // namespace
}  // namespace cudal1
