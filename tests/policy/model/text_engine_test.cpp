// Continuous batching: answers do not depend on what else is generated, on pages, chunks or the cache's size.
#include <atomic>
#include <future>
#include <map>
#include <random>
#include <thread>

#include <gmock/gmock.h>

#include "policy/model/language_model.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

std::unique_ptr<language_model> some_model() {
  model_shape shape{.vocabulary = 61, .layers = 2, .width = 32, .heads = 4, .kv_heads = 2, .hidden = 48, .context = 96};
  // Large weights, so that the most probable tokens are far apart.
  auto made = language_model::make(shape, 5).value();
  auto weights = made->weights();
  for (double& each : weights)
    each *= 6;
  made->set_weights(weights);
  return made;
}

struct asked {
  std::vector<token> prompt;
  generation_options options;
};

// With common beginnings.
std::vector<asked> some_requests(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](unsigned n) { return random() % n; };
  std::vector<asked> out;
  for (std::size_t i = 0; i < count; ++i) {
    asked each;
    const unsigned family = below(3), length = 1 + below(50);
    for (unsigned k = 0; k < length; ++k)
      each.prompt.push_back(static_cast<token>(k < 30 ? (7 * k + 13 * family) % 61 : below(61)));
    each.options.temperature = below(2) == 0 ? 0 : 0.8;
    each.options.top_p = below(2) == 0 ? 1 : 0.9;
    each.options.top_k = below(3) == 0 ? 7 : 0;
    each.options.most_tokens = 1 + below(30);
    each.options.seed = below(100);
    if (below(3) == 0) each.options.end = {static_cast<token>(below(61)), static_cast<token>(below(61))};
    out.push_back(std::move(each));
  }
  return out;
}

std::vector<generated_tokens> one_by_one(const language_model& model, const std::vector<asked>& requests) {
  std::vector<generated_tokens> out;
  for (const auto& each : requests)
    out.push_back(model.generate(std::span(&each.prompt, 1), each.options).value().answers.front());
  return out;
}

TEST(text_engine, answers_depend_on_nothing_but_their_request) {
  const auto model = some_model();
  const auto requests = some_requests(40, 1);
  const auto wanted = one_by_one(*model, requests);
  const int64_t token_bytes = 2 * 2 * 16 * 4;  // of keys and values: layers, heads of 8 elements, float32
  for (const auto& options : {engine_options{}, engine_options{.page_tokens = 1, .chunk_tokens = 7},
                              engine_options{.page_tokens = 5, .answers_at_once = 3, .chunk_tokens = 1},
                              engine_options{.page_tokens = 16, .cache_bytes = 96 * token_bytes},
                              engine_options{.page_tokens = 8, .cache_bytes = 200 * token_bytes, .chunk_tokens = 20}}) {
    const auto engine = model->make_engine(options).value();
    std::map<std::size_t, generated_tokens> made;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      text_request request{requests[i].prompt, requests[i].options, 0, {}, {}};
      request.done = [&, i](expected<generated_tokens> answer) { made[i] = std::move(answer).value(); };
      ASSERT_TRUE(engine->submit(std::move(request)));
      for (std::size_t k = 0; k < i % 4; ++k)
        engine->step();
    }
    while (engine->step()) {
    }
    ASSERT_EQ(made.size(), requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(made[i].tokens, wanted[i].tokens) << options.page_tokens << ", request " << i;
      EXPECT_EQ(made[i].end, wanted[i].end);
      for (std::size_t k = 0; k < made[i].tokens.size(); ++k)
        EXPECT_NEAR(made[i].log_probability[k], wanted[i].log_probability[k], 1e-3);
    }
    EXPECT_GT(engine->report().reused_tokens, 0);
    EXPECT_LE(engine->report().cache_bytes, options.cache_bytes);
  }
}

TEST(text_engine, later_requests_use_what_earlier_ones_have_read) {
  const auto model = some_model();
  const auto engine = model->make_engine({.page_tokens = 4}).value();
  std::vector<token> text(30);
  for (std::size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<token>(i);
  const auto ask = [&](const std::vector<token>& prompt) {
    generated_tokens out;
    engine->reset_report();
    EXPECT_TRUE(
        engine->submit({prompt, {.temperature = 0, .most_tokens = 10}, 0, {}, [&](auto made) { out = *made; }}));
    while (engine->step()) {
    }
    return out;
  };
  const auto first = ask(text);
  EXPECT_EQ(engine->report().prompt_tokens, 30);
  EXPECT_EQ(ask(text).tokens, first.tokens);
  EXPECT_EQ(engine->report().prompt_tokens, 1);
  EXPECT_EQ(engine->report().reused_tokens, 29);
  // The next round of a conversation.
  text.insert(text.end(), first.tokens.begin(), first.tokens.end());
  text.push_back(3);
  const auto again = ask(text);
  EXPECT_EQ(engine->report().prompt_tokens, 2);  // of the answer, all but its last token was read
  EXPECT_EQ(again.tokens,
            model->generate(std::span(&text, 1), {.temperature = 0, .most_tokens = 10})->answers[0].tokens);
  engine->forget_texts();
  ask(text);
  EXPECT_EQ(engine->report().prompt_tokens, 41);
}

TEST(text_engine, a_model_that_learned_forgets_what_it_read) {
  const auto model = some_model();
  const std::vector<token> prompt(20, 3);
  const generation_options options{.temperature = 0, .most_tokens = 12};
  (void)model->generate(std::span(&prompt, 1), options).value();
  auto weights = model->weights();
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] *= i % 3 == 0 ? 1.5 : -1;
  model->set_weights(weights);
  const auto fresh = model->clone();
  const auto now = model->generate(std::span(&prompt, 1), options).value();
  EXPECT_EQ(now.report.prompt_tokens, 20);
  EXPECT_EQ(now.answers[0].tokens, fresh->generate(std::span(&prompt, 1), options)->answers[0].tokens);
}

TEST(text_engine, a_request_that_never_fits_is_refused_with_the_numbers) {
  const auto model = some_model();
  const auto engine = model->make_engine({.page_tokens = 8, .cache_bytes = 4 * 8 * 256}).value();
  const auto refused = engine->submit({std::vector<token>(30, 1), {.most_tokens = 10}, 0, {}, {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::out_of_memory);
  EXPECT_THAT(refused.error().message, HasSubstr("need 5 pages of 8 tokens"));
  EXPECT_THAT(refused.error().message, HasSubstr("has 4"));
  EXPECT_TRUE(engine->submit({std::vector<token>(30, 1), {.most_tokens = 3}, 0, {}, {}}));
  EXPECT_FALSE(model->make_engine({.page_tokens = 0}));
}

TEST(text_engine, constraints_decide_which_tokens_may_come) {
  const auto model = some_model();
  const std::vector<std::vector<token>> prompts = {std::vector<token>(5, 1), std::vector<token>(9, 2)};
  generation_options options{.temperature = 1.5, .most_tokens = 20};
  options.constraint = [](std::size_t answer, std::span<const token> so_far, std::span<uint32_t> allowed) {
    if (answer % 2 == 1) return false;
    // Tokens that differ from the last one by 1 or 2.
    const token last = so_far.empty() ? 10 : so_far.back();
    for (token t = last + 1; t <= last + 2; ++t)
      allowed[static_cast<std::size_t>(t) / 32] |= 1u << (t % 32);
    return true;
  };
  const auto made = model->generate(prompts, options, 2).value();
  for (std::size_t a = 0; a < 4; ++a) {
    token last = 10;
    bool follows = true;
    for (const token t : made.answers[a].tokens) {
      follows = follows && (t == last + 1 || t == last + 2);
      last = t;
    }
    EXPECT_EQ(follows, a % 2 == 0) << a;
  }
  options.constraint = [](std::size_t, std::span<const token> so_far, std::span<uint32_t> allowed) {
    if (so_far.size() < 2) allowed[0] = 2;
    return true;
  };
  const auto none = model->generate(prompts, options);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("allows no token after 2 tokens"));
}

// From several threads, with cancels, more answers than slots and a cache that is too small for all.
TEST(text_engine, goes_on_under_random_joins_cancels_and_pressure) {
  const auto model = some_model();
  const auto requests = some_requests(90, 17);
  const auto wanted = one_by_one(*model, requests);
  const auto engine =
      model->make_engine({.page_tokens = 4, .cache_bytes = 300 * 256, .answers_at_once = 6, .chunk_tokens = 16})
          .value();
  engine->start();
  std::vector<std::promise<expected<generated_tokens>>> answers(requests.size());
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (std::size_t i = t; i < requests.size(); i += 3) {
        text_request request{requests[i].prompt, requests[i].options, 0, {}, {}};
        request.done = [&answers, i](expected<generated_tokens> made) { answers[i].set_value(std::move(made)); };
        const auto id = engine->submit(std::move(request)).value();
        if (i % 7 == 0) {
          for (unsigned k = random() % 200; k > 0; --k)
            std::this_thread::yield();
          engine->cancel(id);
        }
      }
    });
  for (auto& each : threads)
    each.join();
  std::size_t whole = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto made = answers[i].get_future().get().value();
    if (made.end == generation_end::stopped) {
      ASSERT_EQ(i % 7, 0u);
      ASSERT_LE(made.tokens.size(), wanted[i].tokens.size());
      EXPECT_TRUE(std::equal(made.tokens.begin(), made.tokens.end(), wanted[i].tokens.begin())) << i;
    } else {
      EXPECT_EQ(made.tokens, wanted[i].tokens) << i;
      ++whole;
    }
  }
  EXPECT_GE(whole, 77u);
}

TEST(text_engine, ends_its_requests_with_itself) {
  const auto model = some_model();
  errc code = errc::infrastructure;
  {
    const auto engine = model->make_engine({}).value();
    ASSERT_TRUE(engine->submit({{1, 2, 3}, {}, 0, {}, [&](const auto& made) { code = made.error().code; }}));
  }
  EXPECT_EQ(code, errc::cancelled);
}

}  // namespace
}  // namespace cudal1
