// The pool: draws with expected outputs, and the reuse of their memory.
#include <set>

#include <gtest/gtest.h>

#include "sandbox/cuda/referee/gpu_backend.hpp"
#include "sandbox/cuda/referee/gpu_expected_outputs.hpp"
#include "sandbox/referee/draw_pool.hpp"
#include "tests/sandbox/cuda/referee/cpu_device.hpp"
#include "tests/sandbox/program/imported_example.hpp"

namespace cudal1::test {
namespace {

struct pools : testing::Test {
  gpu_backend backend{make_cpu_device()};
  tensor_memory& memory = backend.memory();
  std::unique_ptr<draw_pool> open(task t, int64_t bound = int64_t{1} << 30) {
    auto pool = draw_pool::open(std::move(t), {}, backend, bound);
    EXPECT_TRUE(pool) << pool.error().message;
    return std::move(*pool);
  }
  static std::shared_ptr<const draw> get(draw_pool& pool, draw_request request, int ordinal = 0) {
    auto d = pool.get(request, ordinal);
    EXPECT_TRUE(d) << d.error().message;
    return *d;
  }
  static std::shared_ptr<const shared_tensors> inputs_of(const std::shared_ptr<const draw>& d) {
    return shared_tensors::of(d->inputs);
  }
  static std::shared_ptr<const shared_tensors> weights_of(const std::shared_ptr<const draw>& d) {
    return shared_tensors::of(d->weights);
  }
  static const gpu_expected_outputs& outputs(const std::shared_ptr<const draw>& d) {
    return gpu_expected_outputs::of(*d);
  }
  static float element(const tensor_view& t, int64_t i) { return static_cast<const float*>(t.data)[i]; }
};

// A layer norm of the input times some numbers around one, each a weight.
task long_product(int factors) {
  std::string weights, steps, last = "x";
  for (int i = 0; i < factors; ++i) {
    const std::string n = std::to_string(i);
    weights += R"({"name":"w)" + n +
               R"(","dtype":"float32","shape":[1],"draw":{"distribution":"normal","mean":1,"std":0.2}},)";
    steps += R"({"aten":"aten::mul.Tensor","args":{"self":")" + last + R"(","other":"w)" + n + R"("},"out":["m)" + n +
             R"("]},)";
    last = "m" + n;
  }
  weights.pop_back();
  auto t = read_task(R"({"format":1,"name":"t","inputs":[{"name":"x","dtype":"float32","shape":[4,32]}],"weights":[)" +
                         weights + R"(],"steps":[)" + steps + R"({"aten":"aten::layer_norm","args":{"input":")" + last +
                         R"(","normalized_shape":[32]},"out":["y"]}],"outputs":["y"]})",
                     "cuda");
  if (!t) throw std::runtime_error(t.error().message);
  return std::move(*t);
}

TEST_F(pools, weights_have_outliers_unless_these_take_float32_out_of_its_range) {
  constexpr int outputs_of_task = 4 * 32;
  for (const int factors : {2, 24}) {
    const auto pool = open(long_product(factors));
    const auto d = get(*pool, {draw_kind::outliers, 5});
    const auto& statistics = outputs(d).statistics.at(0);
    EXPECT_EQ(statistics.compared, outputs_of_task) << factors;
    const auto weights = weights_of(d);
    float largest = 0;
    for (int i = 0; i < factors; ++i)
      largest = std::max(largest, std::abs(element(weights->views[static_cast<std::size_t>(i)], 0)));
    if (factors == 2)
      EXPECT_GT(largest, 10) << "an outlier";
    else
      EXPECT_LT(largest, 10) << "80 to the 24th is out of range";
  }
}

TEST_F(pools, a_draw_has_the_expected_outputs_of_its_inputs) {
  const auto pool = open(add_relu_task(5000));
  const auto d = get(*pool, {draw_kind::standard_normal, 0});
  EXPECT_NE(d->request.seed, 0U);
  ASSERT_EQ(outputs(d).shipped.size(), 1U);
  EXPECT_EQ(outputs(d).exact[0].scalar_type(), at::kDouble);
  for (const int64_t i : {0, 17, 4999}) {
    const double x = element(inputs_of(d)->views[0], i), w = element(weights_of(d)->views[0], i);
    EXPECT_EQ(outputs(d).exact[0].const_data_ptr<double>()[i], std::max(x + w, 0.0));
    EXPECT_EQ(outputs(d).shipped[0].const_data_ptr<float>()[i],
              std::max(static_cast<float>(x) + static_cast<float>(w), 0.F));
  }
  const auto& f = outputs(d).statistics.at(0);
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
  auto opened = draw_pool::open(t, std::move(*contents), backend, int64_t{1} << 30);
  ASSERT_TRUE(opened) << opened.error().message;
  draw_pool& pool = **opened;
  const auto declared = get(pool, {}, 0), other = get(pool, {draw_kind::around_one, 0});
  for (std::size_t i = 0; i < example.weight.size(); ++i)
    EXPECT_EQ(element(weights_of(declared)->views[0], static_cast<int64_t>(i)), example.weight[i]);
  EXPECT_NE(element(weights_of(other)->views[0], 0), example.weight[0]);
  for (const auto& d : {declared, other})
    EXPECT_EQ(static_cast<const int64_t*>(weights_of(d)->views[2].data)[0], example.index[0]);
  const auto answer = example.answer(static_cast<const float*>(inputs_of(declared)->views[0].data));
  EXPECT_NEAR(outputs(declared).shipped[0].const_data_ptr<float>()[0], answer[0], 1e-5);
  const auto weights = declared->weights;
  pool.renew();
  EXPECT_EQ(get(pool, {}, 0)->weights, weights) << "there are no others";
}

TEST_F(pools, an_evicted_draw_is_made_again_with_another_id) {
  const auto pool = open(add_relu_task(1 << 14), 1);  // a bound that holds one draw
  const auto d = get(*pool, {draw_kind::standard_normal, 99});
  const int64_t id = inputs_of(d)->id;
  const float third = element(inputs_of(d)->views[0], 3);
  (void)get(*pool, {draw_kind::heavy_tails, 5});
  const auto again = get(*pool, {draw_kind::standard_normal, 99});
  EXPECT_NE(inputs_of(again)->id, id);
  EXPECT_EQ(element(inputs_of(again)->views[0], 3), third);
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

TEST_F(pools, a_renewed_draw_reuses_memory_and_has_its_own_values_and_expected_outputs) {
  const auto pool = open(add_relu_task(5000));
  const auto held = get(*pool, {}, 0);
  const float held_value = element(inputs_of(held)->views[0], 7);
  std::map<int64_t, float> ids;
  for (int i = 1; i < 4; ++i)
    ids[inputs_of(get(*pool, {}, i))->id] = element(inputs_of(get(*pool, {}, i))->views[0], 7);
  const int64_t before = pool->bytes() + memory.spare_bytes();
  pool->renew();
  for (int i = 0; i < 3; ++i) {
    const auto d = get(*pool, {}, i);
    ASSERT_TRUE(ids.contains(inputs_of(d)->id)) << "memory of an unused draw";
    const float x = element(inputs_of(d)->views[0], 7), w = element(weights_of(d)->views[0], 7);
    EXPECT_NE(x, ids[inputs_of(d)->id]);
    EXPECT_EQ(outputs(d).shipped[0].const_data_ptr<float>()[7], std::max(x + w, 0.F));
    ids.erase(inputs_of(d)->id);
  }
  EXPECT_EQ(element(inputs_of(held)->views[0], 7), held_value) << "a draw in use stays";
  EXPECT_LE(pool->bytes() + memory.spare_bytes(), before);
}

TEST_F(pools, memory_of_a_task_is_reused_by_the_next_of_the_same_size) {
  auto first = open(add_relu_task(5000));
  const auto held = inputs_of(get(*first, {}, 1));
  const float held_value = element(held->views[0], 7);
  std::set<int64_t> left{inputs_of(get(*first, {}, 0))->id, inputs_of(get(*first, {}, 2))->id};
  const int64_t weights = weights_of(get(*first, {}, 0))->id;
  first.reset();
  EXPECT_GT(memory.spare_bytes(), 0);
  const auto larger = open(add_relu_task(1 << 20));
  EXPECT_FALSE(left.contains(inputs_of(get(*larger, {}, 0))->id)) << "too small";
  const auto next = open(add_relu_task(4000));
  for (int i = 0; i < 3; ++i) {
    const auto d = get(*next, {}, i);
    const float x = element(inputs_of(d)->views[0], 3999), w = element(weights_of(d)->views[0], 3999);
    EXPECT_EQ(outputs(d).shipped[0].const_data_ptr<float>()[3999], std::max(x + w, 0.F));
    EXPECT_EQ(weights_of(d)->id, weights);
    left.erase(inputs_of(d)->id);
  }
  EXPECT_TRUE(left.empty());
  EXPECT_EQ(element(held->views[0], 7), held_value) << "a draw in use stays";
  EXPECT_EQ(memory.spare_bytes(), 0);
}

TEST_F(pools, spare_memory_is_freed_when_it_is_trimmed) {
  auto pool = open(add_relu_task(5000));
  const auto held = get(*pool, {}, 0);
  (void)get(*pool, {}, 1);
  pool.reset();
  EXPECT_EQ(memory.spare_bytes(), inputs_of(held)->memory.bytes);
  memory.trim(memory.spare_bytes());
  EXPECT_EQ(memory.spare_bytes(), inputs_of(held)->memory.bytes);
  memory.trim(1);
  EXPECT_EQ(memory.spare_bytes(), 0);
}

TEST_F(pools, weights_in_the_memory_of_others_have_another_generation) {
  const auto pool = open(add_relu_task(1000));
  const auto weights = [&] {
    const auto d = get(*pool, {}, 0);
    return std::pair(weights_of(d)->id, weights_of(d)->generation);
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

TEST_F(pools, stay_within_their_bound_with_their_spare_memory) {
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

TEST_F(pools, other_tasks_and_then_its_own_draws_are_evicted_if_the_device_is_full) {
  constexpr int64_t draw_bytes = int64_t{2} << 20;  // size of a draw's inputs, and of the weights
  gpu_backend small{make_cpu_device(5 * draw_bytes)};
  std::unique_ptr<draw_pool> other;  // with one draw and its weights
  int asked = 0;
  const auto open_there = [&] {
    return draw_pool::open(add_relu_task(1 << 14), {}, small, int64_t{1} << 30, [&] {
      ++asked;
      other.reset();
      small.memory().trim(0);
    });
  };
  auto first = open_there(), second = open_there();
  ASSERT_TRUE(first && second);
  other = std::move(*first);
  draw_pool& pool = **second;
  (void)get(pool, {}, 1);
  EXPECT_EQ(asked, 0);
  const float value = element(inputs_of(get(pool, {}, 0))->views[0], 5);
  (void)get(pool, {}, 2);
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(other);
  (void)get(pool, {}, 3);
  EXPECT_EQ(asked, 1) << "there is room again";
  const auto held = get(pool, {}, 4);
  EXPECT_EQ(asked, 3) << "before its own draws go, and then";
  EXPECT_EQ(element(inputs_of(get(pool, {}, 0))->views[0], 5), value) << "made again from its seed";
  std::vector<std::shared_ptr<const draw>> all{held};
  for (int i = 0; i < 3; ++i)
    all.push_back(get(pool, {}, i));
  const auto none = pool.get({}, 7);
  ASSERT_FALSE(none) << "everything is in use";
  EXPECT_EQ(none.error().code, errc::unsupported) << none.error().message;
}

TEST_F(pools, only_programs_with_a_step_of_cudnn_run_strictly_a_second_time) {
  EXPECT_FALSE(open(add_relu_task(1000))->reference().strict_differs());
  const auto convolving = read_task(
      R"({"format":1,"name":"conv","summary":"","family":"test","inputs":[{"name":"x","dtype":"float32","shape":[1,2,9]}],)"
      R"("weights":[{"name":"w","dtype":"float32","shape":[3,2,3]}],)"
      R"("steps":[{"aten":"aten::conv1d","args":{"input":"x","weight":"w"},"out":["y"]}],"outputs":["y"]})",
      "cuda");
  ASSERT_TRUE(convolving) << convolving.error().message;
  const auto pool = open(*convolving);
  EXPECT_TRUE(pool->reference().strict_differs());
  const auto& statistics = outputs(get(*pool, {})).statistics.at(0);
  EXPECT_EQ(statistics.strict_error, statistics.error) << "the CPU has no TensorFloat-32";
}

TEST_F(pools, other_tolerances_give_other_statistics_of_the_same_draw) {
  const auto pool = open(add_relu_task(1000));
  const auto loose = get(*pool, {}, 0);
  EXPECT_EQ(outputs(loose).statistics[0].outside, 0);
  pool->set_tolerances({{0, 0}, {0, 0}});
  const auto strict = get(*pool, {}, 0);
  EXPECT_EQ(strict->request.seed, loose->request.seed);
  EXPECT_GT(outputs(strict).statistics[0].outside, 0) << "float32 rounds";
}

}  // namespace
}  // namespace cudal1::test
