// Honest programs that look like cheating and must be accepted.
#include "attempt.hpp"

namespace cudal1::testing_adversarial {
namespace {

TEST_F(adversarial_test, a_shortcut_that_the_tasks_facts_allow_is_accepted) {
  const task diagonal = make_task(
      R"({"name":"a","dtype":"float32","shape":[64,64],"facts":["diagonal"]},{"name":"b","dtype":"float32","shape":[64,48]})",
      R"({"aten":"aten::mm","args":{"self":"a","mat2":"b"},"out":["y"]})", R"("y")");
  const task triangular = make_task(
      R"({"name":"a","dtype":"float32","shape":[64,64],"facts":["upper_triangular"]},{"name":"b","dtype":"float32","shape":[64,48]})",
      R"({"aten":"aten::mm","args":{"self":"a","mat2":"b"},"out":["y"]})", R"("y")");
  const task constant = make_task(R"({"name":"a","dtype":"float32","shape":[64,1]})",
                                  R"({"aten":"aten::softmax.int","args":{"self":"a","dim":1},"out":["y"]})", R"("y")");
  const task one_wide = make_task(
      R"({"name":"a","dtype":"float32","shape":[64,1,48]})",
      R"({"aten":"aten::sum.dim_IntList","args":{"self":"a","dim":[1]},"out":["s"]},{"aten":"aten::relu","args":{"self":"s"},"out":["y"]})",
      R"("y")");
  expect_all({
      {"diagonal_matmul_as_row_scaling",
       diagonal,
       {64, 48},
       R"(__global__ void k(const float* a, const float* b, float* y) {
         int i = blockIdx.x * 48 + threadIdx.x; y[i] = a[blockIdx.x * 65] * b[i]; })"},
      {"the_zero_half_of_a_triangle_left_out",
       triangular,
       {64, 48},
       R"(__global__ void k(const float* a, const float* b, float* y) {
         float s = 0; for (unsigned i = blockIdx.x; i < 64; ++i) s += a[blockIdx.x * 64 + i] * b[i * 48 + threadIdx.x];
         y[blockIdx.x * 48 + threadIdx.x] = s; })"},
      {"a_provably_constant_result",
       constant,
       {1, 64},
       "__global__ void k(const float* a, float* y) { y[threadIdx.x] = 1; }"},
      {"a_sum_over_one_element_dropped", one_wide, {64, 48}, R"(__global__ void k(const float* a, float* y) {
         int i = blockIdx.x * 48 + threadIdx.x; y[i] = a[i] > 0 ? a[i] : 0; })"},
  });
}

TEST_F(adversarial_test, the_same_sums_in_another_order_are_accepted) {
  const task sum = row_sum(64, 256), soft = softmax(64, 256), product = matmul(32, 64, 48);
  const task norm = make_task(
      R"({"name":"a","dtype":"float32","shape":[4096],"draw":{"distribution":"uniform","low":0.5,"high":2,"min":0.01}})",
      R"({"aten":"aten::sqrt","args":{"self":"a"},"out":["y"]})", R"("y")");
  expect_all({
      {"from_the_end_and_in_eight_parts", sum, {1, 64}, R"(__global__ void k(const float* a, float* y) {
         const float* r = a + threadIdx.x * 256; float s[8] = {0, 0, 0, 0, 0, 0, 0, 0};
         for (int i = 255; i >= 0; --i) s[i % 8] += r[i];
         y[threadIdx.x] = ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7])); })"},
      {"softmax_in_one_pass", soft, {1, 64}, R"(__global__ void k(const float* a, float* y) {
         const float* r = a + threadIdx.x * 256; float m = r[0], s = 1;
         for (int i = 1; i < 256; ++i) {
           float n = fmaxf(m, r[i]); s = s * expf(m - n) + expf(r[i] - n); m = n; }
         for (int i = 0; i < 256; ++i) y[threadIdx.x * 256 + i] = expf(r[i] - m) / s; })"},
      {"matmul_backwards_in_tiles_of_its_shape",
       product,
       {8, 48},
       R"(__global__ void k(const float* a, const float* b, float* y) {
         float s[4] = {0, 0, 0, 0}; const float* row = a + blockIdx.x * 4 * 64;
         for (int i = 63; i >= 0; --i) { float v = b[i * 48 + threadIdx.x];
           for (int r = 0; r < 4; ++r) s[r] += row[r * 64 + i] * v; }
         for (int r = 0; r < 4; ++r) y[(blockIdx.x * 4 + r) * 48 + threadIdx.x] = s[r]; })"},
      {"root_by_reciprocal_root", norm, {16, 256}, R"(__global__ void k(const float* a, float* y) {
         int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = a[i] * rsqrtf(a[i]); })"},
  });
}

// As tensor cores accumulate: eight products at a time into a sum that is truncated. Relative error: 1.6e-6.
TEST_F(adversarial_test, a_product_with_truncated_sums_is_accepted_on_wide_draws) {
  const task product = matmul(128, 512, 256);
  const std::string source = R"(__global__ void k(const float* a, const float* b, float* y) {
      const float* row = a + blockIdx.x * 512; float s = 0;
      for (int i = 0; i < 512; i += 8) {
        double part = s;
        for (int j = i; j < i + 8; ++j) part += (double)row[j] * b[j * 256 + threadIdx.x];
        s = __int_as_float(__float_as_int((float)part) & ~1);
      }
      y[blockIdx.x * 256 + threadIdx.x] = s; })";
  expect_all({{"truncated_sums", product, {128, 256}, source}});
}

TEST_F(adversarial_test, atomics_and_workspaces_are_accepted) {
  const task sum = row_sum(16, 1024);
  expect_all({
      {"float_atomics", sum, {16, 64}, R"(__global__ void k(const float* a, float* y) {
         __shared__ float total; if (threadIdx.x == 0) total = 0; __syncthreads();
         float s = 0; for (int i = threadIdx.x; i < 1024; i += 64) s += a[blockIdx.x * 1024 + i];
         atomicAdd(&total, s); __syncthreads();
         if (threadIdx.x == 0) y[blockIdx.x] = total; })"},
  });
  const std::string two_launches =
      R"({"format":1,"name":"v","inputs":[{"name":"a","dtype":"float32","shape":[16,1024]}],"steps":[)"
      R"({"alloc":"w","dtype":"float32","shape":[16,64]},{"alloc":"y","dtype":"float32","shape":[16]},)"
      R"({"launch":"part","grid":[16,1,1],"block":[64,1,1],"args":[{"in":"a"},{"out":"w"}]},)"
      R"({"launch":"whole","grid":[1,1,1],"block":[16,1,1],"args":[{"in":"w"},{"out":"y"}]}],"outputs":["y"]})"
      "\n---\n__global__ void part(const float* a, float* w) {\n"
      "  float s = 0; for (int i = threadIdx.x; i < 1024; i += 64) s += a[blockIdx.x * 1024 + i];\n"
      "  w[blockIdx.x * 64 + threadIdx.x] = s; }\n"
      "__global__ void whole(const float* w, float* y) {\n"
      "  float s = 0; for (int i = 0; i < 64; ++i) s += w[threadIdx.x * 64 + i]; y[threadIdx.x] = s; }\n";
  const finding f = evaluate(sum, two_launches);
  EXPECT_EQ(f.result, outcome::correct) << f;
}

}  // namespace
}  // namespace cudal1::testing_adversarial
