// Generation on a GPU against the same on the CPU: kernels of decoding for each size of head and type, graphs, choosing
// tokens. Skipped where there is no GPU.
#include <cmath>
#include <map>
#include <random>

#include <gmock/gmock.h>

#include "policy/model/language_model.hpp"
#include "tests/policy/model/references.hpp"

namespace cudal1 {
namespace {

constexpr const char* gpu = "cuda:0";

class on_gpu : public testing::Test {
 protected:
  void SetUp() override {
    auto tried = language_model::make({}, 1).value();
    if (const auto there = tried->use_device(gpu); !there) GTEST_SKIP() << there.error().message;
  }
};

// With weights so large that the most probable tokens are far apart.
std::unique_ptr<language_model> model_of(const model_shape& shape, double scale = 4,
                                         model_precision precision = model_precision::float32) {
  auto made = language_model::make(shape, 5, precision).value();
  if (scale != 1) {
    auto weights = made->weights();
    for (double& each : weights)
      each *= scale;
    made->set_weights(weights);
  }
  return made;
}

std::unique_ptr<language_model> there(std::unique_ptr<language_model> model) {
  if (const auto moved = model->use_device(gpu); !moved) throw std::runtime_error(moved.error().message);
  return model;
}

model_shape shape_of(int64_t head, int64_t heads, int64_t kv_heads) {
  model_shape out{
      .vocabulary = 203, .layers = 2, .width = 64, .heads = heads, .kv_heads = kv_heads, .hidden = 96, .context = 640};
  out.head_elements = head;
  return out;
}

// Lengths from 1 token to several tiles of keys.
std::vector<std::vector<token>> prompts_of(std::initializer_list<std::size_t> lengths) {
  std::mt19937 random(11);
  std::vector<std::vector<token>> out;
  for (const std::size_t length : lengths) {
    out.emplace_back();
    for (std::size_t i = 0; i < length; ++i)
      out.back().push_back(static_cast<token>(random() % 203));
  }
  return out;
}

void expect_same(const generation& made, const generation& wanted, double tolerance = 2e-3) {
  ASSERT_EQ(made.answers.size(), wanted.answers.size());
  for (std::size_t i = 0; i < made.answers.size(); ++i) {
    const auto &a = made.answers[i], &b = wanted.answers[i];
    EXPECT_EQ(a.tokens, b.tokens) << "answer " << i;
    for (std::size_t k = 0; k < std::min(a.tokens.size(), b.tokens.size()) && a.tokens[k] == b.tokens[k]; ++k)
      ASSERT_NEAR(a.log_probability[k], b.log_probability[k], tolerance) << "answer " << i << ", token " << k;
  }
}

TEST_F(on_gpu, greedy_answers_equal_the_cpus_for_each_size_of_head) {
  const auto prompts = prompts_of({1, 63, 64, 65, 130, 400, 7, 128, 20});
  const generation_options options{.temperature = 0, .most_tokens = 40};
  for (const auto& [head, heads, kv_heads] : {std::tuple(64, 9, 3), std::tuple(80, 4, 4), std::tuple(96, 8, 1),
                                              std::tuple(128, 14, 2), std::tuple(8, 4, 2)}) {
    SCOPED_TRACE(head);
    auto shape = shape_of(head, heads, kv_heads);
    shape.has_qk_norm = head == 128;
    shape.has_qkv_bias = head == 64;
    shape.is_tied = head != 80;
    const auto wanted = model_of(shape)->generate(prompts, options).value();
    const auto model = there(model_of(shape));
    for (const auto& how : {engine_options{}, engine_options{.page_tokens = 16, .answers_at_once = 4},
                            engine_options{.page_tokens = 64, .chunk_tokens = 50, .graphs = false}}) {
      model->set_engine_options(how);
      const auto made = model->generate(prompts, options);
      ASSERT_TRUE(made) << made.error().message;
      expect_same(*made, wanted);
      EXPECT_EQ(made->report.graph_steps, how.graphs ? made->report.steps : 0);
    }
    for (const std::size_t alone : {2, 5}) {
      const auto one = model->generate(std::span(&prompts[alone], 1), options).value();
      EXPECT_EQ(one.answers[0].tokens, wanted.answers[alone].tokens);
    }
  }
}

TEST_F(on_gpu, drawn_answers_equal_the_cpus) {
  auto shape = shape_of(64, 4, 2);
  const auto prompts = prompts_of({5, 90, 3, 17});
  for (const int64_t vocabulary : {203, 5000}) {
    shape.vocabulary = vocabulary;
    const auto here = model_of(shape, 3), away = there(model_of(shape, 3));
    for (generation_options options :
         {generation_options{}, generation_options{.top_p = 0.9}, generation_options{.temperature = 1.7, .top_k = 20},
          generation_options{.temperature = 0.6, .top_p = 0.7, .top_k = 50}, generation_options{.top_p = 0.01},
          generation_options{.top_k = 1}}) {
      options.most_tokens = 60;
      options.seed = 77;
      expect_same(away->generate(prompts, options, 3).value(), here->generate(prompts, options, 3).value());
    }
  }
}

TEST_F(on_gpu, draws_follow_the_constraint) {
  const auto shape = shape_of(64, 4, 2);
  generation_options options{.top_p = 0.8, .most_tokens = 30, .seed = 3};
  options.constraint = [](std::size_t answer, std::span<const token> so_far, std::span<uint32_t> allowed) {
    for (token t = 0; t < 203; ++t)
      if ((t + static_cast<token>(so_far.size())) % 3 == 0) allowed[static_cast<std::size_t>(t) / 32] |= 1u << (t % 32);
    return answer != 1;
  };
  const auto prompts = prompts_of({9, 30, 70});
  const auto made = there(model_of(shape, 3))->generate(prompts, options).value();
  for (const std::size_t a : {0, 2})
    for (std::size_t i = 0; i < made.answers[a].tokens.size(); ++i)
      EXPECT_EQ((made.answers[a].tokens[i] + static_cast<token>(i)) % 3, 0);
  expect_same(made, model_of(shape, 3)->generate(prompts, options).value());
}

TEST_F(on_gpu, in_bfloat16_is_near_float32) {
  for (const int64_t head : {64, 80, 96, 128}) {
    auto shape = shape_of(head, 6, 2);
    shape.width = 256;
    const auto prompts = prompts_of({1, 5, 100, 64, 300});
    const generation_options options{.temperature = 0, .most_tokens = 8};
    const auto wanted = model_of(shape, 1)->generate(prompts, options).value();
    const auto model = there(model_of(shape, 1, model_precision::bfloat16));
    const auto made = model->generate(prompts, options);
    ASSERT_TRUE(made) << made.error().message;
    model->set_engine_options({.page_tokens = 16, .chunk_tokens = 33, .graphs = false});
    const auto other = model->generate(prompts, options).value();
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_NEAR(made->answers[i].log_probability[0], wanted.answers[i].log_probability[0], 0.05) << i;
      EXPECT_NEAR(other.answers[i].log_probability[0], wanted.answers[i].log_probability[0], 0.05) << i;
    }
  }
}

TEST_F(on_gpu, a_long_context_is_split_over_blocks) {
  auto shape = shape_of(64, 8, 2);
  shape.context = 9000;
  const auto prompts = prompts_of({8000, 5, 3000});
  const generation_options options{.temperature = 0, .most_tokens = 20};
  const auto model = there(model_of(shape, 2));
  expect_same(model->generate(prompts, options).value(), model_of(shape, 2)->generate(prompts, options).value());
}

// From several requests at random, each must be what it is alone.
TEST_F(on_gpu, answers_do_not_depend_on_others) {
  const auto shape = shape_of(64, 4, 2);
  const auto model = there(model_of(shape));
  std::mt19937 random(2);
  std::vector<std::vector<token>> prompts;
  std::vector<generation_options> options;
  for (int i = 0; i < 50; ++i) {
    prompts.push_back(prompts_of({1 + random() % 200})[0]);
    options.push_back({.temperature = i % 2 == 0 ? 0 : 0.9,
                       .top_p = 0.9,
                       .most_tokens = static_cast<int64_t>(1 + random() % 60),
                       .seed = random()});
  }
  const auto engine =
      model
          ->make_engine(
              {.page_tokens = 16, .cache_bytes = 1200 * 2 * 2 * 128 * 4, .answers_at_once = 7, .chunk_tokens = 64})
          .value();
  std::map<std::size_t, generated_tokens> made;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto id = engine->submit(
        {prompts[i], options[i], 0, {}, [&made, i](expected<generated_tokens> a) { made[i] = std::move(a).value(); }});
    ASSERT_TRUE(id) << id.error().message;
    for (unsigned k = random() % 5; k > 0; --k)
      engine->step();
    if (i % 9 == 8) engine->cancel(*id);
  }
  while (engine->step()) {
  }
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (made.at(i).end == generation_end::stopped) continue;
    EXPECT_EQ(made.at(i).tokens, model->generate(std::span(&prompts[i], 1), options[i])->answers[0].tokens) << i;
  }
}

TEST_F(on_gpu, equals_transformers) {
  if (!std::filesystem::exists(reference("complete.txt"))) GTEST_SKIP() << "no references";
  for (const std::string name : {"llama_default", "qwen2", "qwen3"}) {
    const auto model = language_model::open(reference(name), model_precision::float32, gpu).value();
    const auto read = [&](const std::string& tensor) {
      const auto values = reference_values<int64_t>(name + "/expected.safetensors", tensor);
      return std::vector<token>(values.begin(), values.end());
    };
    const auto prompt = read("tokens"), greedy = read("greedy");
    const generation_options options{.temperature = 0, .most_tokens = static_cast<int64_t>(greedy.size())};
    const auto made = model->generate(std::span(&prompt, 1), options);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->answers.front().tokens, greedy) << name;
  }
}

}  // namespace
}  // namespace cudal1
