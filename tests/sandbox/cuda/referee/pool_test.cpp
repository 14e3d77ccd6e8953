// The pool: draws with answers, their memory, and what becomes of them.
#include <set>

#include <gtest/gtest.h>

#include "sandbox/cuda/referee/gpu_pool.hpp"
#include "tests/sandbox/cuda/referee/cpu_device.hpp"
#include "tests/sandbox/program/imported_example.hpp"

namespace cudal1::test {
namespace {

struct pools : testing::Test {
  std::unique_ptr<referee_device> device = make_cpu_device();
  output_comparer comparer{*device};
  tensor_memory memory{*device};
  std::unique_ptr<gpu_draw_pool> open(task t, int64_t bound = int64_t{1} << 30) {
    auto pool = gpu_draw_pool::open(std::move(t), {}, memory, comparer, bound);
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

TEST_F(pools, declared_weights_are_their_content_and_others_are_drawn) {
  const imported_example example;
  const task t = example.load();
  auto contents = weight_contents::open(t, example.blobs());
  ASSERT_TRUE(contents) << contents.error().message;
  auto opened = gpu_draw_pool::open(t, std::move(*contents), memory, comparer, int64_t{1} << 30);
  ASSERT_TRUE(opened) << opened.error().message;
  gpu_draw_pool& pool = **opened;
  const auto declared = get(pool, {}, 0), other = get(pool, {draw_kind::around_one, 0});
  for (std::size_t i = 0; i < example.weight.size(); ++i)
    EXPECT_EQ(element(declared->weights->views[0], static_cast<int64_t>(i)), example.weight[i]);
  EXPECT_NE(element(other->weights->views[0], 0), example.weight[0]);
  for (const auto& d : {declared, other})
    EXPECT_EQ(static_cast<const int64_t*>(d->weights->views[2].data)[0], example.index[0]);
  const auto answer = example.answer(static_cast<const float*>(declared->inputs->views[0].data));
  EXPECT_NEAR(declared->answers.eager[0].const_data_ptr<float>()[0], answer[0], 1e-5);
  const auto weights = declared->weights;
  pool.renew();
  EXPECT_EQ(get(pool, {}, 0)->weights, weights) << "there are no others";
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

TEST_F(pools, a_renewed_draw_takes_over_the_memory_and_has_its_own_values_and_answers) {
  const auto pool = open(add_relu_task(5000));
  const auto held = get(*pool, {}, 0);
  const float held_value = element(held->inputs->views[0], 7);
  std::map<int64_t, float> ids;
  for (int i = 1; i < 4; ++i)
    ids[get(*pool, {}, i)->inputs->id] = element(get(*pool, {}, i)->inputs->views[0], 7);
  const int64_t before = pool->bytes() + memory.spare_bytes();
  pool->renew();
  for (int i = 0; i < 3; ++i) {
    const auto d = get(*pool, {}, i);
    ASSERT_TRUE(ids.contains(d->inputs->id)) << "memory of a draw that nobody holds";
    const float x = element(d->inputs->views[0], 7), w = element(d->weights->views[0], 7);
    EXPECT_NE(x, ids[d->inputs->id]);
    EXPECT_EQ(d->answers.eager[0].const_data_ptr<float>()[7], std::max(x + w, 0.F));
    ids.erase(d->inputs->id);
  }
  EXPECT_EQ(element(held->inputs->views[0], 7), held_value) << "what somebody holds stays";
  EXPECT_LE(pool->bytes() + memory.spare_bytes(), before);
}

TEST_F(pools, what_a_task_leaves_serves_the_next_that_is_laid_out_in_as_much) {
  auto first = open(add_relu_task(5000));
  const auto held = get(*first, {}, 1)->inputs;
  const float held_value = element(held->views[0], 7);
  std::set<int64_t> left{get(*first, {}, 0)->inputs->id, get(*first, {}, 2)->inputs->id};
  const int64_t weights = get(*first, {}, 0)->weights->id;
  first.reset();
  EXPECT_GT(memory.spare_bytes(), 0);
  const auto larger = open(add_relu_task(1 << 20));
  EXPECT_FALSE(left.contains(get(*larger, {}, 0)->inputs->id)) << "too small";
  const auto next = open(add_relu_task(4000));
  for (int i = 0; i < 3; ++i) {
    const auto d = get(*next, {}, i);
    const float x = element(d->inputs->views[0], 3999), w = element(d->weights->views[0], 3999);
    EXPECT_EQ(d->answers.eager[0].const_data_ptr<float>()[3999], std::max(x + w, 0.F));
    EXPECT_EQ(d->weights->id, weights);
    left.erase(d->inputs->id);
  }
  EXPECT_TRUE(left.empty());
  EXPECT_EQ(element(held->views[0], 7), held_value) << "what somebody holds stays";
  EXPECT_EQ(memory.spare_bytes(), 0);
}

TEST_F(pools, memory_that_is_spare_goes_back_to_the_device_when_it_is_trimmed) {
  auto pool = open(add_relu_task(5000));
  const auto held = get(*pool, {}, 0);
  (void)get(*pool, {}, 1);
  pool.reset();
  EXPECT_EQ(memory.spare_bytes(), held->inputs->memory.bytes);
  memory.trim(memory.spare_bytes());
  EXPECT_EQ(memory.spare_bytes(), held->inputs->memory.bytes);
  memory.trim(1);
  EXPECT_EQ(memory.spare_bytes(), 0);
}

TEST_F(pools, weights_in_the_memory_of_others_have_another_generation) {
  const auto pool = open(add_relu_task(1000));
  const auto weights = [&] {
    const auto d = get(*pool, {}, 0);
    return std::pair(d->weights->id, d->weights->generation);
  };
  const auto first = weights();
  pool->renew();
  const auto second = weights();
  EXPECT_EQ(first.first, second.first);
  EXPECT_NE(first.second, second.second);
}

TEST_F(pools, kinds_that_nothing_is_timed_on_are_renewed_every_fourth_time) {
  const auto pool = open(add_relu_task(1000));
  const draw_request other{draw_kind::heavy_tails, 0};
  int renewed = 0;
  for (int i = 0; i < 8; ++i) {
    const uint64_t declared = pool->seed({}, 0), heavy = pool->seed(other, 0);
    pool->renew();
    EXPECT_NE(pool->seed({}, 0), declared);
    renewed += pool->seed(other, 0) != heavy ? 1 : 0;
  }
  EXPECT_EQ(renewed, 2);
}

TEST_F(pools, keep_within_their_bound_with_what_they_keep_for_later) {
  constexpr int64_t bound = int64_t{16} << 20;
  const auto pool = open(add_relu_task(1 << 14), bound);  // 2 MiB of inputs, and as much of weights
  for (int round = 0; round < 3; ++round) {
    for (const auto kind : {draw_kind::declared, draw_kind::standard_normal, draw_kind::heavy_tails})
      for (int i = 0; i < 3; ++i) {
        (void)get(*pool, {kind, 0}, i);
        EXPECT_LE(pool->bytes() + memory.spare_bytes(), bound);
      }
    pool->renew();
    EXPECT_LE(pool->bytes() + memory.spare_bytes(), bound);
  }
}

TEST_F(pools, other_tasks_and_then_its_own_draws_give_way_where_the_device_has_no_room) {
  constexpr int64_t draw = int64_t{2} << 20;  // what a draw's inputs are laid out in, and the weights
  const auto small = make_cpu_device(5 * draw);
  output_comparer compares{*small};
  tensor_memory there{*small};
  std::unique_ptr<gpu_draw_pool> other;  // with one draw and its weights
  int asked = 0;
  const auto open_there = [&] {
    return gpu_draw_pool::open(add_relu_task(1 << 14), {}, there, compares, int64_t{1} << 30, [&] {
      ++asked;
      other.reset();
      there.trim(0);
    });
  };
  auto first = open_there(), second = open_there();
  ASSERT_TRUE(first && second);
  other = std::move(*first);
  gpu_draw_pool& pool = **second;
  (void)get(pool, {}, 1);
  EXPECT_EQ(asked, 0);
  const float value = element(get(pool, {}, 0)->inputs->views[0], 5);
  (void)get(pool, {}, 2);
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(other);
  (void)get(pool, {}, 3);
  EXPECT_EQ(asked, 1) << "there is room again";
  const auto held = get(pool, {}, 4);
  EXPECT_EQ(asked, 3) << "before its own draws go, and then";
  EXPECT_EQ(element(get(pool, {}, 0)->inputs->views[0], 5), value) << "made again from its seed";
  std::vector<std::shared_ptr<const gpu_draw>> all{held};
  for (int i = 0; i < 3; ++i)
    all.push_back(get(pool, {}, i));
  const auto none = pool.get({}, 7);
  ASSERT_FALSE(none) << "everything is held";
  EXPECT_EQ(none.error().code, errc::unsupported) << none.error().message;
}

TEST_F(pools, only_programs_with_a_step_of_cudnn_run_strictly_a_second_time) {
  EXPECT_FALSE(open(add_relu_task(1000))->programs().strict_differs());
  const auto convolving = read_task(
      R"({"format":1,"name":"conv","summary":"","family":"test","inputs":[{"name":"x","dtype":"float32","shape":[1,2,9]}],)"
      R"("weights":[{"name":"w","dtype":"float32","shape":[3,2,3]}],)"
      R"("steps":[{"aten":"aten::conv1d","args":{"input":"x","weight":"w"},"out":["y"]}],"outputs":["y"]})",
      "cuda");
  ASSERT_TRUE(convolving) << convolving.error().message;
  const auto pool = open(*convolving);
  EXPECT_TRUE(pool->programs().strict_differs());
  const auto& figures = get(*pool, {})->answers.figures.at(0);
  EXPECT_EQ(figures.strict_error, figures.error) << "the CPU has no TensorFloat-32";
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
