// Training on text: packed rows, layers that are recomputed, precisions, GRPO to an optimum, resuming bit for bit.
#include "policy/model/training/text_trainer.hpp"

#include <cmath>
#include <filesystem>

#include <gmock/gmock.h>

#include "tests/policy/model/tiny_model.hpp"
#include "tests/temporary_folder.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

template <class T>
T value_of(expected<T> made) {
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

class text_training : public testing::Test {
 protected:
  text_training() : model(folder.path() + "/model") { write_tiny_model(model, 1, 2048, 12); }
  std::unique_ptr<text_trainer> opened(const trainer_options& o = {}) const {
    return value_of(text_trainer::open(model, o));
  }

  temporary_folder folder;
  std::string model;
};

// Of different lengths; the second half was written.
std::vector<text_episode> some_texts(std::size_t count) {
  std::vector<text_episode> out(count);
  uint64_t random = 9;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < 6 + 7 * i; ++k)
      out[i].tokens.push_back(static_cast<token>((random = split_mix(random + split_mix_step)) % tiny_vocabulary));
    for (std::size_t k = out[i].tokens.size() / 2; k < out[i].tokens.size(); ++k)
      out[i].written.push_back(static_cast<int64_t>(k));
    out[i].weight = i % 2 == 0 ? 1.0 : -0.5;
  }
  return out;
}

double norm_of(const std::map<std::string, std::vector<float>>& gradient) {
  double sum = 0;
  for (const auto& [name, values] : gradient)
    for (const float v : values)
      sum += static_cast<double>(v) * v;
  return std::sqrt(sum);
}

double distance(const std::map<std::string, std::vector<float>>& a,
                const std::map<std::string, std::vector<float>>& b) {
  double sum = 0;
  for (const auto& [name, values] : a)
    for (std::size_t i = 0; i < values.size(); ++i)
      sum += std::pow(static_cast<double>(values[i]) - b.at(name)[i], 2);
  return std::sqrt(sum);
}

TEST_F(text_training, packed_texts_have_the_losses_and_gradients_of_each_alone) {
  const auto texts = some_texts(5);
  for (const bool adapter : {true, false}) {
    trainer_options o;
    if (!adapter) o.adapter.reset();
    o.pack_tokens = 1000;
    const auto packed = opened(o);
    o.pack_tokens = 1;
    const auto alone = opened(o);
    const auto a = value_of(packed->score(texts)), b = value_of(alone->score(texts));
    for (std::size_t i = 0; i < texts.size(); ++i)
      for (std::size_t k = 0; k < a[i].size(); ++k)
        EXPECT_NEAR(a[i][k], b[i][k], 1e-5);
    const auto g = value_of(packed->gradient(texts)), h = value_of(alone->gradient(texts));
    EXPECT_GT(norm_of(g), 1e-4);
    EXPECT_LT(distance(g, h), 1e-5 * norm_of(g));
    o.pack_tokens = 1000;
    o.recompute = true;
    const auto recomputed = value_of(opened(o)->gradient(texts));
    EXPECT_LT(distance(g, recomputed), 1e-6 * norm_of(g)) << "layers that are computed again";
    auto trained = packed->learn(texts, optimizer_options{});
    ASSERT_TRUE(trained) << trained.error().message;
    EXPECT_EQ(trained->rows, 1);
    EXPECT_EQ(value_of(alone->learn(texts, optimizer_options{})).rows, 5);
  }
}

TEST_F(text_training, tokens_that_were_not_allowed_have_no_probability) {
  const auto trainer = opened();
  std::vector<uint32_t> two(tiny_vocabulary / 32);
  two[0] = (1u << 3) | (1u << 7);
  text_episode three{{1, 2, 3}, {2}}, seven{{1, 2, 7}, {2}};
  three.allowed = seven.allowed = {two};
  const auto scores = value_of(trainer->score(std::vector{three, seven}));
  EXPECT_NEAR(std::exp(scores[0][0]) + std::exp(scores[1][0]), 1, 1e-6);
  text_episode four{{1, 2, 4}, {2}};
  four.allowed = {two};
  EXPECT_THAT(trainer->score(std::vector{four}).error().message, HasSubstr("not among the allowed"));
}

TEST_F(text_training, what_does_not_fit_is_refused_with_its_reason) {
  const auto trainer = opened();
  const auto message = [&](const text_episode& e) { return trainer->score(std::span(&e, 1)).error().message; };
  EXPECT_THAT(message({{1, 2}, {}}), HasSubstr("nothing to learn"));
  EXPECT_THAT(message({{1, 2}, {0}}), HasSubstr("ascend from 1"));
  EXPECT_THAT(message({{1, tiny_vocabulary}, {1}}), HasSubstr("not in the vocabulary"));
  EXPECT_THAT(message({std::vector<token>(3000, 1), {1}}), HasSubstr("context 2048"));
  EXPECT_THAT(text_trainer::open(model, {.adapter = adapter_options{.rank = 0}}).error().message, HasSubstr("rank"));
  EXPECT_THAT(text_trainer::open(model, {.adapter = adapter_options{.targets = {"lm_head"}}}).error().message,
              HasSubstr("lm_head"));
  EXPECT_THAT(text_trainer::open(model, {.device = "cuda:77"}).error().message, HasSubstr(""));
}

TEST_F(text_training, half_weights_with_float_masters_learn_as_float_weights) {
  const auto texts = some_texts(3);
  for (const bool adapter : {true, false}) {
    std::vector<double> losses;
    for (const auto precision : {model_precision::float32, model_precision::bfloat16}) {
      trainer_options o{.precision = precision};
      if (!adapter) o.adapter.reset();
      const auto trainer = opened(o);
      auto positive = texts;
      for (auto& t : positive)
        t.weight = 1;
      for (int i = 0; i < 12; ++i)
        losses.push_back(value_of(trainer->learn(positive, optimizer_options{.rate = 3e-3})).loss);
    }
    EXPECT_LT(losses[11], losses[0] - 0.05);
    EXPECT_NEAR(losses[23], losses[11], 0.1);
  }
}

// The probability of an answer that is paid grows to nearly 1: with rewards alone, from what the sampler draws.
void expect_optimum(const std::string& folder, bool constrained) {
  const std::vector<token> prompt = {5, 9, 2}, paid = {40, 41, 42};
  const trainer_options o{.adapter = adapter_options{.rank = 8, .alpha = 16}};
  const auto trainer = value_of(text_trainer::open(folder, o));
  const auto sampler = value_of(language_model::open(folder, model_precision::float32));
  // Eight tokens of 640 are allowed, or it would take as long as to find one of 640^3.
  std::vector<uint32_t> some(tiny_vocabulary / 32);
  some[1] = 0xffu << 8;
  const auto allow = [&](std::size_t, std::span<const token>, std::span<uint32_t> bits) {
    std::ranges::copy(some, bits.begin());
    return true;
  };
  double late = 0, gap = 0;
  constexpr std::size_t group = 24;
  constexpr uint64_t rounds = 60, last = 20;
  for (uint64_t round = 0; round < rounds; ++round) {
    ASSERT_TRUE(sampler->use_adapter(value_of(trainer->adapter())));
    generation_options how{.most_tokens = std::ssize(paid), .seed = round};
    if (constrained) how.constraint = allow;
    const std::vector<std::vector<token>> prompts = {prompt};
    const auto made = value_of(sampler->generate(prompts, how, group));
    std::vector<text_episode> batch;
    std::vector<double> rewards;
    for (const auto& a : made.answers) {
      text_episode e{prompt, {}, 0, a.log_probability};
      double right = 0;
      for (std::size_t i = 0; i < a.tokens.size(); ++i) {
        e.written.push_back(std::ssize(e.tokens));
        e.tokens.push_back(a.tokens[i]);
        if (constrained) e.allowed.push_back(some);
        // Without a constraint a reward is met by chance only if near ones are paid as well.
        right += constrained ? a.tokens[i] == paid[i]
                             : 1 - std::abs(static_cast<double>(a.tokens[i] - paid[i])) / tiny_vocabulary;
      }
      rewards.push_back(right / static_cast<double>(paid.size()));
      batch.push_back(std::move(e));
    }
    double sum = 0, squares = 0;
    for (const double r : rewards)
      sum += r, squares += r * r;
    const double mean = sum / group;
    if (round + last >= rounds) late += mean / last;
    const double deviation = std::sqrt(std::max(squares / group - mean * mean, 0.0));
    for (std::size_t i = 0; i < group; ++i)
      batch[i].weight = (rewards[i] - mean) / (deviation + 1e-3);
    policy_loss_options loss;
    loss.kl_weight = 0;
    const auto report = value_of(trainer->learn(batch, loss, optimizer_options{.rate = 5e-3}));
    gap = std::max(gap, report.sampler_gap);
  }
  EXPECT_GT(late, 0.9);
  EXPECT_LT(gap, 1e-4) << "sampler and trainer have the same weights";
}

TEST_F(text_training, rewards_alone_bring_a_constrained_model_to_the_optimum) {
  expect_optimum(model, true);
}

TEST_F(text_training, rewards_alone_bring_a_free_model_to_the_optimum) {
  expect_optimum(model, false);
}

TEST_F(text_training, a_sampler_with_other_weights_is_weighted_and_reported) {
  auto texts = some_texts(2);
  const auto trainer = opened();
  const auto scores = value_of(trainer->score(texts));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    texts[i].sampled = scores[i];
    for (double& each : texts[i].sampled)
      each -= 3;
  }
  policy_loss_options loss;
  const auto report = value_of(trainer->learn(texts, loss, optimizer_options{.rate = 0}));
  EXPECT_NEAR(report.sampler_gap, 3, 1e-3);
  EXPECT_EQ(report.truncated, 1) << "each token's importance would be e^3";
  EXPECT_NEAR(report.kl, 0, 1e-9);
  // Each token's gain is twice its advantage.
  double wanted = 0, tokens = 0;
  for (const auto& t : texts) {
    wanted -= 2 * t.weight * static_cast<double>(t.written.size());
    tokens += static_cast<double>(t.written.size());
  }
  EXPECT_NEAR(report.loss, wanted / tokens, 1e-6);
}

TEST_F(text_training, the_folder_of_an_adapter_is_a_model) {
  const auto texts = some_texts(3);
  const auto trainer = opened();
  value_of(trainer->learn(texts, optimizer_options{.rate = 0.05}));
  const std::string adapter = folder.path() + "/adapter";
  ASSERT_TRUE(write_adapter(adapter, value_of(trainer->adapter()), "model"));
  EXPECT_THAT(language_model::open(adapter, model_precision::float32).error().message,
              HasSubstr("set base_model_name_or_path"));
  ASSERT_TRUE(write_adapter(adapter, value_of(trainer->adapter()), model));
  const auto plain = value_of(language_model::open(model, model_precision::float32));
  const auto changed = value_of(language_model::open(adapter, model_precision::float32));
  const auto& text = texts.back().tokens;
  const auto before = value_of(plain->logits(text)), after = value_of(changed->logits(text));
  EXPECT_NE(before, after);
  ASSERT_TRUE(plain->use_adapter(value_of(trainer->adapter())));
  EXPECT_EQ(value_of(plain->logits(text)), after);
  EXPECT_THAT(text_trainer::open(adapter, {}).error().message, HasSubstr("is an adapter"));
}

TEST_F(text_training, goes_on_bit_for_bit_where_it_was_stopped) {
  const auto texts = some_texts(4);
  for (const bool adapter : {true, false}) {
    trainer_options o;
    if (!adapter) o.adapter.reset();
    const std::string kept = folder.path() + (adapter ? "/a" : "/b");
    const auto whole = opened(o);
    policy_loss_options loss;
    for (int i = 0; i < 3; ++i)
      value_of(whole->learn(texts, loss, optimizer_options{.rate = 1e-3}));
    ASSERT_TRUE(whole->save_state(kept, json(7)));
    const auto later = opened(o);
    EXPECT_EQ(value_of(later->load_state(kept)).as_int(), 7);
    EXPECT_EQ(later->steps(), 3);
    for (int i = 0; i < 2; ++i) {
      const auto a = value_of(whole->learn(texts, loss, optimizer_options{.rate = 1e-3}));
      const auto b = value_of(later->learn(texts, loss, optimizer_options{.rate = 1e-3}));
      EXPECT_EQ(a.loss, b.loss);
      EXPECT_EQ(a.gradient_norm, b.gradient_norm);
    }
    EXPECT_EQ(value_of(whole->score(texts)), value_of(later->score(texts)));
    // A save that was interrupted leaves the state before it.
    std::ofstream(kept + "/training-5.safetensors.new") << "half";
    EXPECT_EQ(value_of(opened(o)->load_state(kept)).as_int(), 7);
    trainer_options other;
    other.adapter = adapter_options{.rank = 2};
    EXPECT_THAT(opened(other)->load_state(kept).error().message, HasSubstr("another model, adapter"));
  }
  EXPECT_THAT(opened()->load_state(folder.path()).error().message, HasSubstr("no state"));
}

}  // namespace
}  // namespace cudal1
