// Programs that do less work than the task requires, or with lower precision.
#include "attempt.hpp"

namespace cudal1::testing_adversarial {
namespace {

TEST_F(adversarial_test, incomplete_work_is_a_wrong_answer) {
  const task relu = relu_of_positive(), sum = row_sum(64, 256), soft = softmax(64, 256), product = matmul(32, 64, 48);
  const std::vector<outcome> wrong{outcome::wrong_answer};
  expect_all({
      {"constant",
       soft,
       {64, 256},
       R"(__global__ void k(const float* a, float* y) {
         y[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f / 256; })",
       wrong,
       "gate"},
      {"zeros", sum, {1, 64}, "__global__ void k(const float* a, float* y) { y[threadIdx.x] = 0; }", wrong, "gate"},
      {"pass_through_hidden_by_the_declared_draw",
       relu,
       {16, 256},
       R"(__global__ void k(const float* a, float* y) {
         int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = a[i]; })",
       wrong,
       "gate 5 draws"},
      {"half_of_the_reduction",
       sum,
       {1, 64},
       R"(__global__ void k(const float* a, float* y) {
         float s = 0; for (int i = 0; i < 128; ++i) s += a[threadIdx.x * 256 + i]; y[threadIdx.x] = 2 * s; })",
       wrong,
       "gate 2 close"},
      {"half_of_the_inner_dimension",
       product,
       {32, 48},
       R"(__global__ void k(const float* a, const float* b, float* y) {
         float s = 0; for (int i = 0; i < 32; ++i) s += a[blockIdx.x * 64 + i] * b[i * 48 + threadIdx.x];
         y[blockIdx.x * 48 + threadIdx.x] = s; })",
       wrong,
       "gate 2 close"},
      {"a_share_of_the_grid",
       relu,
       {15, 256},
       R"(__global__ void k(const float* a, float* y) {
         int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = a[i] > 0 ? a[i] : 0; })",
       wrong,
       "gate"},
      {"every_element_but_one",
       relu,
       {16, 256},
       R"(__global__ void k(const float* a, float* y) {
         int i = blockIdx.x * blockDim.x + threadIdx.x; if (i != 2049) y[i] = a[i] > 0 ? a[i] : 0; })",
       wrong,
       "gate"},
      {"an_output_that_is_never_written",
       relu,
       {16, 256},
       "__global__ void k(const float* a, float* y) {}",
       wrong,
       "gate"},
      {"row_maximum_left_out_of_softmax",
       soft,
       {1, 64},
       R"(__global__ void k(const float* a, float* y) {
         const float* r = a + threadIdx.x * 256; float s = 0;
         for (int i = 0; i < 256; ++i) s += expf(r[i] * 10) ;
         for (int i = 0; i < 256; ++i) y[threadIdx.x * 256 + i] = expf(r[i] * 10) / s; })",
       wrong,
       "gate"},
  });
}

TEST_F(adversarial_test, lower_precision_is_a_wrong_answer) {
  const task sum = row_sum(64, 256), product = matmul(32, 64, 48), relu = relu_of_positive();
  const std::string half =
      "__device__ float half_of(float x) {"
      "  return __uint_as_float(__float_as_uint(x) & 0xfffff000u); }\n";
  const std::string brain =
      "__device__ float brain(float x) {"
      "  return __uint_as_float((__float_as_uint(x) + 0x8000u) & 0xffff0000u); }\n";
  const std::vector<outcome> wrong{outcome::wrong_answer};
  expect_all({
      {"accumulator_of_half_the_mantissa",
       sum,
       {1, 64},
       half + R"(__global__ void k(const float* a, float* y) {
         float s = 0; for (int i = 0; i < 256; ++i) s = half_of(s + a[threadIdx.x * 256 + i]); y[threadIdx.x] = s; })",
       wrong,
       "gate"},
      {"inputs_rounded_to_bfloat16",
       product,
       {32, 48},
       brain + R"(
         __global__ void k(const float* a, const float* b, float* y) {
           float s = 0; for (int i = 0; i < 64; ++i)
             s += brain(a[blockIdx.x * 64 + i]) * brain(b[i * 48 + threadIdx.x]);
           y[blockIdx.x * 48 + threadIdx.x] = s; })",
       wrong,
       "gate"},
      {"inputs_cut_to_tf32",
       product,
       {32, 48},
       R"(
         __device__ float cut(float x) { return __uint_as_float(__float_as_uint(x) & 0xffffe000u); }
         __global__ void k(const float* a, const float* b, float* y) {
           float s = 0; for (int i = 0; i < 64; ++i) s += cut(a[blockIdx.x * 64 + i]) * cut(b[i * 48 + threadIdx.x]);
           y[blockIdx.x * 48 + threadIdx.x] = s; })",
       wrong,
       "gate"},
      {"outputs_of_half_the_mantissa",
       relu,
       {16, 256},
       half + R"(__global__ void k(const float* a, float* y) {
         int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = half_of(a[i] > 0 ? a[i] : 0); })",
       wrong,
       "gate"},
  });
}

TEST_F(adversarial_test, nan_and_infinity_must_match) {
  const task root =
      make_task(R"({"name":"a","dtype":"float32","shape":[4096],"draw":{"distribution":"normal","mean":0,"std":1}})",
                R"({"aten":"aten::sqrt","args":{"self":"a"},"out":["y"]})", R"("y")");
  const std::vector<outcome> wrong{outcome::wrong_answer};
  expect_all({
      {"nan_everywhere",
       root,
       {16, 256},
       R"(__global__ void k(const float* a, float* y) {
         y[blockIdx.x * blockDim.x + threadIdx.x] = __uint_as_float(0x7fc00000u); })",
       wrong,
       "gate 1 form"},
      {"nan_made_zero",
       root,
       {16, 256},
       R"(__global__ void k(const float* a, float* y) {
         int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = a[i] > 0 ? sqrtf(a[i]) : 0; })",
       wrong,
       "gate 1 form"},
      {"infinity_for_nan",
       root,
       {16, 256},
       R"(__global__ void k(const float* a, float* y) {
         int i = blockIdx.x * blockDim.x + threadIdx.x;
         y[i] = a[i] < 0 ? __uint_as_float(0x7f800000u) : sqrtf(a[i]); })",
       wrong,
       "gate 1 form"},
      {"nan_where_nan_is_the_answer", root, {16, 256}, R"(__global__ void k(const float* a, float* y) {
         int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = sqrtf(a[i]); })"},
  });
}

TEST_F(adversarial_test, a_shape_that_would_broadcast_is_a_wrong_answer) {
  const task sum = row_sum(64, 256);
  const std::string program =
      R"({"format":1,"name":"v","inputs":[{"name":"a","dtype":"float32","shape":[64,256]}],"steps":[)"
      R"({"alloc":"y","dtype":"float32","shape":[64,1]},{"launch":"k","grid":[1,1,1],"block":[64,1,1],"args":[)"
      R"({"in":"a"},{"out":"y"}]}],"outputs":["y"]})"
      "\n---\n__global__ void k(const float* a, float* y) {\n"
      "  float s = 0; for (int i = 0; i < 256; ++i) s += a[threadIdx.x * 256 + i]; y[threadIdx.x] = s; }\n";
  const finding f = evaluate(sum, program);
  EXPECT_EQ(f.result, outcome::wrong_answer) << f;
  EXPECT_NE(f.reason.find("should be float32[64]"), std::string::npos) << f;
}

TEST_F(adversarial_test, sums_of_small_integers_must_be_exact) {
  const task sum = row_sum(64, 256);
  expect_all({{"a_factor_that_rounding_hides",
               sum,
               {1, 64},
               R"(__global__ void k(const float* a, float* y) {
         float s = 0; for (int i = 0; i < 256; ++i) s += a[threadIdx.x * 256 + i];
         y[threadIdx.x] = s * 1.000002f; })",
               {outcome::wrong_answer},
               "draw small_integers"}});
}

TEST_F(adversarial_test, what_skips_work_where_it_sees_zeros_meets_impulses_at_tile_borders) {
  const task sum = row_sum(64, 256);
  expect_all({{"tiles_that_look_empty",
               sum,
               {1, 64},
               R"(__global__ void k(const float* a, float* y) {
         float s = 0;
         for (int tile = 0; tile < 256; tile += 16) {
           const float* t = a + threadIdx.x * 256 + tile; bool empty = true;
           for (int i = 3; i < 13; ++i) empty = empty && t[i] == 0;
           if (!empty) for (int i = 0; i < 16; ++i) s += t[i];
         }
         y[threadIdx.x] = s; })",
               {outcome::wrong_answer},
               "draw impulses"}});
}

}  // namespace
}  // namespace cudal1::testing_adversarial
