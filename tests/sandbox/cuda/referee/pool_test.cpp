// The pool: draws with answers, their memory, and what becomes of them.
#include "sandbox/cuda/referee/pool.hpp"

#include <gtest/gtest.h>

#include "tests/sandbox/cuda/referee/cpu_device.hpp"

namespace cudal1::test {
namespace {

struct pools : testing::Test {
  std::unique_ptr<referee_device> device = make_cpu_device();
  output_comparer comparer{*device};
  std::unique_ptr<gpu_draw_pool> open(task t, int64_t bound = int64_t{1} << 30) {
    auto pool = gpu_draw_pool::open(std::move(t), *device, comparer, bound);
    EXPECT_TRUE(pool) << pool.error().message;
    return std::move(*pool);
  }
  static std::shared_ptr<const gpu_draw> get(gpu_draw_pool& pool, draw_request request, int ordinal = 0) {
    auto d = pool.get(request, ordinal);
    EXPECT_TRUE(d) << d.error().message;
    return *d;
  }
  static float element(const tensor_view& t, int64_t i) { return static_cast<const float*>(t.data)[i]; }
};

TEST_F(pools, a_draw_has_answers_that_belong_to_its_inputs) {
  const auto pool = open(add_relu_task(5000));
  const auto d = get(*pool, {draw_kind::standard_normal, 0});
  EXPECT_NE(d->request.seed, 0U);
  ASSERT_EQ(d->answers.eager.size(), 1U);
  EXPECT_EQ(d->answers.exact[0].scalar_type(), at::kDouble);
  for (const int64_t i : {0, 17, 4999}) {
    const double x = element(d->inputs->views[0], i), w = element(d->weights->views[0], i);
    EXPECT_EQ(d->answers.exact[0].const_data_ptr<double>()[i], std::max(x + w, 0.0));
    EXPECT_EQ(d->answers.eager[0].const_data_ptr<float>()[i],
              std::max(static_cast<float>(x) + static_cast<float>(w), 0.F));
  }
  const auto& f = d->answers.figures.at(0);
  EXPECT_GT(f.error, 0) << "a sum in float32 rounds";
  EXPECT_LT(f.error, 1e-6);
  EXPECT_EQ(f.strict_error, f.error) << "on the CPU eager is strict";
  EXPECT_EQ(f.strict_outside, 0);
  EXPECT_GT(f.deviation, 0.1);
}

TEST_F(pools, an_evicted_draw_comes_back_the_same_with_another_id) {
  const auto pool = open(add_relu_task(1 << 14), 1);  // a bound that holds one draw
  const auto d = get(*pool, {draw_kind::standard_normal, 99});
  const int64_t id = d->inputs->id;
  const float third = element(d->inputs->views[0], 3);
  (void)get(*pool, {draw_kind::heavy_tails, 5});
  const auto again = get(*pool, {draw_kind::standard_normal, 99});
  EXPECT_NE(again->inputs->id, id);
  EXPECT_EQ(element(again->inputs->views[0], 3), third);
  EXPECT_EQ(pool->timing_draws(), 4) << "fewer for huge ones";
}

TEST_F(pools, declared_draws_share_their_weights_until_they_are_renewed) {
  const auto pool = open(add_relu_task(1000));
  const auto first = get(*pool, {}, 0), second = get(*pool, {}, 1), other = get(*pool, {draw_kind::around_one, 0});
  EXPECT_EQ(first->weights, second->weights);
  EXPECT_NE(first->weights, other->weights);
  EXPECT_NE(first->request.seed, second->request.seed);
  const uint64_t seed = pool->seed({}, 0);
  EXPECT_EQ(seed, first->request.seed);
  pool->renew();
  EXPECT_NE(pool->seed({}, 0), seed);
  EXPECT_NE(get(*pool, {}, 0)->weights, first->weights);
}

TEST_F(pools, other_tolerances_make_other_figures_of_the_same_draw) {
  const auto pool = open(add_relu_task(1000));
  const auto loose = get(*pool, {}, 0);
  EXPECT_EQ(loose->answers.figures[0].outside, 0);
  pool->judge_by({{0, 0}, {0, 0}});
  const auto strict = get(*pool, {}, 0);
  EXPECT_EQ(strict->request.seed, loose->request.seed);
  EXPECT_GT(strict->answers.figures[0].outside, 0) << "float32 rounds";
}

}  // namespace
}  // namespace cudal1::test
