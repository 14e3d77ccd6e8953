// The language model: its gradients against finite differences, its losses against a case by hand, sampling against
// scoring, and that training goes on from a checkpoint bit for bit.
#include "policy/model/language_model.hpp"

#include <cmath>
#include <cstdio>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"

namespace cudal1 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const model_shape tiny{
    .vocabulary = 11, .layers = 2, .width = 8, .heads = 2, .kv_heads = 1, .hidden = 12, .context = 16};

template <class T>
T value_of(expected<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

std::unique_ptr<language_model> made(const model_shape& shape = tiny, uint64_t seed = 1,
                                     model_precision precision = model_precision::float64) {
  auto m = value_of(language_model::make(shape, seed, precision));
  // Weights of a size at which every part of the model matters.
  auto weights = m->weights();
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = weights[i] == 1 ? 1 + 0.3 * std::sin(static_cast<double>(i)) : 15 * weights[i];
  m->set_weights(weights);
  return m;
}

std::vector<token> any_of(int64_t count) {
  std::vector<token> out;
  for (token t = 0; t < count; ++t)
    out.push_back(t);
  return out;
}

// The first `given` tokens are given; each other one is chosen among itself and the two after it, or among all.
token_sequence sequence(std::vector<token> tokens, std::size_t given = 1) {
  token_sequence s;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    s.legal.emplace_back();
    if (i < given) continue;
    if (i % 2 == 0)
      s.legal.back() = any_of(tiny.vocabulary);
    else
      for (token t = tokens[i]; t < std::min<token>(tokens[i] + 3, static_cast<token>(tiny.vocabulary)); ++t)
        s.legal.back().tokens.push_back(t);
  }
  s.tokens = std::move(tokens);
  return s;
}

// With a prior that differs from token to token.
token_sequence with_prior(token_sequence s) {
  for (std::size_t i = 0; i < s.legal.size(); ++i)
    for (const token t : s.legal[i].tokens)
      s.legal[i].prior.push_back(static_cast<float>(std::cos(static_cast<double>(i) + 3.0 * t)));
  return s;
}

const std::vector<token_sequence>& some() {
  static const std::vector<token_sequence> all = {sequence({1, 4, 2, 9, 0, 3}), with_prior(sequence({5, 5, 1}, 2)),
                                                  with_prior(sequence({0, 8, 6, 6, 7, 1, 2, 10}, 3))};
  return all;
}

std::vector<weighted_sequence> weighted() {
  std::vector<weighted_sequence> out;
  for (const auto& s : some())
    out.push_back({s, 0.5 + static_cast<double>(out.size())});
  return out;
}

// Ratios on both sides of the clip, with advantages of both signs.
std::vector<graded_sequence> graded(const language_model& m) {
  const auto now = value_of(m.score(some()));
  std::vector<graded_sequence> out;
  for (std::size_t b = 0; b < some().size(); ++b) {
    graded_sequence g{some()[b], b == 1 ? -0.8 : 1.1, now[b], now[b]};
    for (std::size_t i = 0; i < g.sampled.size(); ++i) {
      g.sampled[i] += (i % 3 == 0 ? 0.5 : i % 3 == 1 ? -0.5 : 0.05);
      g.reference[i] += i % 2 == 0 ? 0.3 : -0.2;
    }
    out.push_back(std::move(g));
  }
  return out;
}

const grpo_options usual{.ratio_clip = 0.2, .kl_weight = 0.1, .entropy_weight = 0.05};

// The largest difference between a gradient and central differences, over every 7th weight.
template <class Loss>
double largest_difference(language_model& m, const std::vector<double>& gradient, const Loss& loss) {
  const auto at = m.weights();
  EXPECT_EQ(gradient.size(), at.size());
  constexpr double step = 1e-5;
  double largest = 0;
  for (std::size_t i = 0; i < at.size(); i += 7) {
    auto moved = at;
    moved[i] = at[i] + step;
    m.set_weights(moved);
    const double above = loss();
    moved[i] = at[i] - step;
    m.set_weights(moved);
    largest = std::max(largest, std::fabs((above - loss()) / (2 * step) - gradient[i]));
  }
  m.set_weights(at);
  return largest;
}

double supervised_loss(const language_model& m, const std::vector<weighted_sequence>& batch) {
  double sum = 0;
  int64_t count = 0;
  for (const auto& w : batch) {
    const auto scored = value_of(m.score(std::span(&w.sequence, 1)));
    for (const double log_p : scored.front())
      sum -= w.weight * log_p, ++count;
  }
  return sum / static_cast<double>(count);
}

// As the formula in language_model.hpp, without the entropy.
double grpo_loss(const language_model& m, const std::vector<graded_sequence>& batch, const grpo_options& o) {
  double sum = 0;
  int64_t count = 0;
  for (const auto& g : batch) {
    const auto now = value_of(m.score(std::span(&g.sequence, 1))).front();
    for (std::size_t i = 0; i < now.size(); ++i) {
      const double ratio = std::exp(now[i] - g.sampled[i]);
      const double clipped = std::min(std::max(ratio, 1 - o.ratio_clip), 1 + o.ratio_clip);
      const double ahead = g.reference[i] - now[i];
      sum += -std::min(ratio * g.advantage, clipped * g.advantage) + o.kl_weight * (std::exp(ahead) - ahead - 1);
      ++count;
    }
  }
  return sum / static_cast<double>(count);
}

TEST(LanguageModel, HasAsManyWeightsAsItsShapeSays) {
  EXPECT_EQ(static_cast<int64_t>(made()->weights().size()), tiny.parameters());
  EXPECT_NEAR(static_cast<double>(model_shape{}.parameters()), 3e6, 0.3e6);
  EXPECT_THAT(language_model::make({.width = 100, .heads = 3}, 1).error().message, HasSubstr("heads"));
  EXPECT_THAT(language_model::make({.heads = 6, .kv_heads = 4}, 1).error().message, HasSubstr("keys and values"));
  EXPECT_THAT(language_model::make({.layers = 0}, 1).error().message, HasSubstr("layers"));
}

TEST(LanguageModel, TheGradientOfTheSupervisedLossIsThatOfFiniteDifferences) {
  auto m = made();
  const auto batch = weighted();
  const auto gradient = value_of(m->gradient(batch));
  EXPECT_LT(largest_difference(*m, gradient, [&] { return supervised_loss(*m, batch); }), 1e-7);
}

TEST(LanguageModel, TheGradientOfGrposLossIsThatOfFiniteDifferences) {
  auto m = made();
  const auto batch = graded(*m);
  auto without_entropy = usual;
  without_entropy.entropy_weight = 0;
  const auto gradient = value_of(m->gradient(batch, without_entropy));
  EXPECT_LT(largest_difference(*m, gradient, [&] { return grpo_loss(*m, batch, without_entropy); }), 1e-7);
}

TEST(LanguageModel, GrposLossOfACaseByHand) {
  auto m = made();
  // One token, of two legal ones.
  token_sequence s{{3, 7}, {{}, {2, 7}}};
  const double p = std::exp(value_of(m->score(std::span(&s, 1)))[0][0]);
  graded_sequence g{s, 2.0, {std::log(p / 1.5)}, {std::log(p * 1.25)}};
  const grpo_options o{.ratio_clip = 0.2, .kl_weight = 0.1, .entropy_weight = 0.5};
  const double entropy = -(p * std::log(p) + (1 - p) * std::log(1 - p));
  // The ratio is 1.5, clipped to 1.2; the reference is 1.25 times as probable.
  const double wanted = -1.2 * 2.0 + 0.1 * (1.25 - std::log(1.25) - 1) - 0.5 * entropy;
  const auto report = value_of(m->learn(std::span(&g, 1), o, {}));
  EXPECT_NEAR(report.loss, wanted, 1e-12);
  EXPECT_NEAR(report.entropy, entropy, 1e-12);
  EXPECT_EQ(report.clipped, 1);
  EXPECT_EQ(report.tokens, 1);
  g.sampled = {};
  EXPECT_THAT(m->learn(std::span(&g, 1), o, {}).error().message, HasSubstr("1 chosen tokens"));
}

TEST(LanguageModel, ProbabilitiesAreAmongTheLegalTokens) {
  auto m = made();
  double sum = 0;
  for (const token t : {2, 5, 9}) {
    token_sequence s{{1, 4, t}, {{}, {}, {2, 5, 9}}};
    sum += std::exp(value_of(m->score(std::span(&s, 1)))[0][0]);
  }
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(LanguageModel, APriorIsAddedToTheLogits) {
  auto m = made();
  const std::vector<token> choices = {2, 5, 9};
  const std::vector<float> prior = {0, 2.5, -1};
  const auto score = [&](token t, const legal_tokens& legal) {
    const token_sequence s{{1, t}, {{}, legal}};
    return value_of(m->score(std::span(&s, 1)))[0][0];
  };
  for (const std::size_t i : {1u, 2u})
    EXPECT_NEAR((score(choices[i], {choices, prior}) - score(choices[0], {choices, prior})) -
                    (score(choices[i], choices) - score(choices[0], choices)),
                prior[i], 1e-9);
  const std::vector<token_sequence> prompts(200, {{1}});
  const auto once = [&](std::size_t, std::span<const token> so_far) {
    return so_far.size() == 1 ? legal_tokens(choices, {0, 0, 60}) : legal_tokens();
  };
  for (const auto& s : value_of(m->sample(prompts, once, {.seed = 1}))) {
    EXPECT_EQ(s.sequence.tokens.back(), 9) << "nothing else is as probable, whatever the model says";
    EXPECT_THAT(s.sequence.legal.back().prior, ElementsAre(0, 0, 60)) << "kept, to be learned from";
  }
}

TEST(LanguageModel, WhatIsSampledHasTheProbabilityThatIsScored) {
  for (const auto precision : {model_precision::float64, model_precision::float32}) {
    auto m = made(tiny, 3, precision);
    // Prompts of different lengths beside each other.
    const std::vector<token_sequence> prompts = {{{1}}, {{4, 4, 2, 9}}, {{7, 0}}, {{3, 3, 3, 3, 3, 3, 3}}};
    const auto legal = [](std::size_t, std::span<const token> so_far) {
      if (so_far.size() >= 12) return legal_tokens();
      return so_far.back() % 2 == 0 ? legal_tokens(any_of(tiny.vocabulary))
                                    : legal_tokens({0, 2, 3, 8, 9}, {0, 1, -1, 0.5, 0});
    };
    const auto samples = value_of(m->sample(prompts, legal, {.seed = 5}));
    std::vector<token_sequence> all;
    for (const auto& s : samples) {
      EXPECT_TRUE(s.complete);
      EXPECT_EQ(s.sequence.tokens.size(), 12u);
      all.push_back(s.sequence);
    }
    const auto scored = value_of(m->score(all));
    for (std::size_t b = 0; b < samples.size(); ++b) {
      ASSERT_EQ(scored[b].size(), samples[b].log_probability.size());
      for (std::size_t i = 0; i < scored[b].size(); ++i)
        EXPECT_NEAR(scored[b][i], samples[b].log_probability[i], precision == model_precision::float64 ? 1e-9 : 1e-3);
    }
    const auto alone = value_of(m->sample(std::span(prompts).first(1), legal, {.seed = 5}));
    EXPECT_EQ(alone.front().sequence.tokens, samples.front().sequence.tokens) << "whatever is sampled beside it";
    EXPECT_NE(value_of(m->sample(prompts, legal, {.seed = 6}))[3].sequence.tokens, samples[3].sequence.tokens);
  }
}

TEST(LanguageModel, SamplesAsOftenAsTheProbabilitySays) {
  auto m = made();
  constexpr std::size_t n = 4000;
  const std::vector<token_sequence> prompts(n, {{6}});
  const std::vector<token> choices = {1, 3, 4, 8};
  const auto once = [&](std::size_t, std::span<const token> so_far) {
    return so_far.size() == 1 ? choices : std::vector<token>{};
  };
  const auto counts_of = [&](const sampling_options& o) {
    std::map<token, double> counts;
    for (const auto& s : value_of(m->sample(prompts, once, o)))
      counts[s.sequence.tokens.back()] += 1.0 / n;
    return counts;
  };
  std::map<token, double> p;
  for (const token t : choices) {
    token_sequence s{{6, t}, {{}, choices}};
    p[t] = std::exp(value_of(m->score(std::span(&s, 1)))[0][0]);
  }
  const auto plain = counts_of({.seed = 1});
  double of_powers = 0;
  for (const token t : choices)
    of_powers += p[t] * p[t];
  const auto cold = counts_of({.temperature = 0.5, .seed = 2});
  for (const token t : choices) {
    const auto at = [&](const auto& counts) { return counts.contains(t) ? counts.at(t) : 0.0; };
    EXPECT_NEAR(at(plain), p[t], 4 * std::sqrt(p[t] / n) + 1e-3) << t;
    EXPECT_NEAR(at(cold), p[t] * p[t] / of_powers, 4 * std::sqrt(p[t] / n) + 1e-3) << t;
  }
  const auto best = std::ranges::max_element(p, {}, [](const auto& each) { return each.second; });
  const auto greedy = counts_of({.temperature = 0});
  EXPECT_EQ(greedy.size(), 1u);
  EXPECT_TRUE(greedy.contains(best->first));
  const auto nucleus = counts_of({.top_p = best->second * 0.99, .seed = 3});
  EXPECT_EQ(nucleus.size(), 1u) << "the most probable token alone has that probability";
}

TEST(LanguageModel, NeverChoosesWhatIsNotLegal) {
  auto m = made(tiny, 9, model_precision::float32);
  const std::vector<token_sequence> prompts(2000, {{0}});
  // What is legal depends on all tokens so far.
  const auto legal = [](std::size_t, std::span<const token> so_far) {
    if (so_far.size() == 6) return std::vector<token>{};
    token sum = 0;
    for (const token t : so_far)
      sum += t;
    return std::vector<token>{static_cast<token>(sum % 5), static_cast<token>(5 + sum % 6)};
  };
  for (const auto& s : value_of(m->sample(prompts, legal, {.temperature = 2, .seed = 4})))
    for (std::size_t i = 1; i < s.sequence.tokens.size(); ++i) {
      const auto allowed = legal(0, std::span(s.sequence.tokens).first(i));
      ASSERT_TRUE(std::ranges::count(allowed, s.sequence.tokens[i]) > 0);
      ASSERT_EQ(s.sequence.legal[i].tokens, allowed);
    }
}

TEST(LanguageModel, EndsAtTheContextAndAtTheLimit) {
  auto m = made();
  const std::vector<token_sequence> prompts = {{{1, 2}}};
  const auto always = [](std::size_t, std::span<const token>) { return any_of(tiny.vocabulary); };
  const auto to_context = value_of(m->sample(prompts, always, {})).front();
  EXPECT_EQ(static_cast<int64_t>(to_context.sequence.tokens.size()), tiny.context);
  EXPECT_FALSE(to_context.complete);
  EXPECT_EQ(value_of(m->sample(prompts, always, {.most_tokens = 3})).front().sequence.tokens.size(), 5u);
}

TEST(LanguageModel, LearnsWhatItIsShown) {
  auto m = value_of(language_model::make(tiny, 2));
  const auto batch = weighted();
  const optimizer_options how{.rate = 1e-2};
  const double before = value_of(m->learn(batch, how)).loss;
  step_report last;
  for (int i = 0; i < 100; ++i)
    last = value_of(m->learn(batch, how));
  EXPECT_LT(last.loss, 0.2 * before);
  EXPECT_EQ(last.tokens, 5 + 1 + 5);
}

// Of two actions the second is paid: GRPO makes it probable, and the weight on KL holds it back.
TEST(LanguageModel, GrpoPrefersWhatIsPaid) {
  const auto probability_after = [](double kl_weight) {
    auto m = value_of(language_model::make(tiny, 2));
    const std::vector<token> actions = {3, 8};
    std::vector<token_sequence> both;
    for (const token t : actions)
      both.push_back({{1, t}, {{}, actions}});
    const auto reference = value_of(m->score(both));
    for (int step = 0; step < 60; ++step) {
      const auto sampled = value_of(m->score(both));
      std::vector<graded_sequence> group;
      for (std::size_t i = 0; i < 2; ++i)
        group.push_back({both[i], i == 1 ? 1.0 : -1.0, sampled[i], reference[i]});
      value_of(m->learn(group, {.kl_weight = kl_weight}, {.rate = 3e-3}));
    }
    return std::exp(value_of(m->score(both))[1][0]);
  };
  EXPECT_GT(probability_after(0), 0.95);
  EXPECT_LT(probability_after(5), 0.8);
}

TEST(LanguageModel, GoesOnFromACheckpointBitForBit) {
  auto m = value_of(language_model::make(tiny, 4));
  const auto batch = weighted();
  for (int i = 0; i < 3; ++i)
    value_of(m->learn(batch, {}));
  const auto kept = m->checkpoint();
  auto other = value_of(language_model::make(tiny, 5));
  ASSERT_TRUE(other->restore(kept));
  for (int i = 0; i < 4; ++i) {
    value_of(m->learn(batch, {}));
    value_of(other->learn(batch, {}));
  }
  EXPECT_EQ(m->weights(), other->weights());
  auto larger = tiny;
  larger.layers = 3;
  EXPECT_FALSE(value_of(language_model::make(larger, 1))->restore(kept));
  EXPECT_FALSE(other->restore("nonsense"));
  EXPECT_FALSE(other->restore(kept.substr(0, kept.size() / 2)));
}

TEST(LanguageModel, IsSavedAsALlamaCheckpoint) {
  const temporary_folder folder;
  const std::string path = folder.path() + "/model.safetensors";
  auto m = made(tiny, 6, model_precision::float32);
  ASSERT_TRUE(m->save(path));
  auto read = value_of(language_model::load(tiny, path));
  EXPECT_EQ(value_of(read->score(some())), value_of(m->score(some())));
  // Rounded, its answers are nearly the same.
  for (const auto& [type, bound] : {std::pair(dtype::float16, 1e-2), std::pair(dtype::bfloat16, 1e-1)}) {
    const std::string rounded = folder.path() + "/rounded.safetensors";
    ASSERT_TRUE(m->save(rounded, type));
    const auto before = value_of(m->score(some()));
    const auto after = value_of(value_of(language_model::load(tiny, rounded))->score(some()));
    for (std::size_t i = 0; i < before.size(); ++i)
      for (std::size_t k = 0; k < before[i].size(); ++k)
        EXPECT_NEAR(after[i][k], before[i][k], bound);
    EXPECT_NE(after, before);
  }
  EXPECT_FALSE(m->save(path, dtype::int64));
  auto other = tiny;
  other.hidden = 16;
  EXPECT_THAT(language_model::load(other, path).error().message, HasSubstr("mlp.gate_proj.weight should be"));
  other = tiny;
  other.layers = 3;
  EXPECT_THAT(language_model::load(other, path).error().message, HasSubstr("model.layers.2"));
  EXPECT_FALSE(language_model::load(tiny, folder.path() + "/none"));
}

TEST(LanguageModel, MovesTowardsAnother) {
  auto a = made(tiny, 1);
  const auto b = made(tiny, 2);
  const auto from = a->weights(), to = b->weights();
  a->move_towards(*b, 0.25);
  const auto moved = a->weights();
  for (std::size_t i = 0; i < moved.size(); ++i)
    ASSERT_NEAR(moved[i], 0.75 * from[i] + 0.25 * to[i], 1e-12);
  auto copy = a->clone();
  EXPECT_EQ(copy->weights(), moved);
  value_of(copy->learn(weighted(), {}));
  EXPECT_EQ(a->weights(), moved) << "a clone has weights of its own";
}

TEST(LanguageModel, SaysWhatIsWrongWithASequence) {
  auto m = made();
  const auto problem = [&](token_sequence s) { return m->score(std::span(&s, 1)).error().message; };
  EXPECT_THAT(problem({{1, 99}, {{}, {}}}), HasSubstr("not in the vocabulary"));
  EXPECT_THAT(problem({{1, 2}, {{}, {3}}}), HasSubstr("not among its legal ones"));
  EXPECT_THAT(problem({{1, 2}, {{}, {2, 1}}}), HasSubstr("do not ascend"));
  EXPECT_THAT(problem({std::vector<token>(17, 1), std::vector<legal_tokens>(17)}), HasSubstr("context"));
  EXPECT_THAT(problem({{1}, {}}), HasSubstr("what was legal"));
  for (const std::vector<float>& prior : {std::vector<float>{0.5}, std::vector<float>{0, INFINITY}})
    EXPECT_THAT(problem({{1, 2}, {{}, legal_tokens({2, 3}, prior)}}), HasSubstr("finite prior for each legal token"));
}

}  // namespace
}  // namespace cudal1
