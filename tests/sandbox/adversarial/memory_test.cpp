// Memory that a kernel may not use: inputs, memory outside the tensors, and data of earlier calls.
#include "attempt.hpp"
#include <dlfcn.h>
#include <link.h>

namespace cudal1::testing_adversarial {
namespace {

TEST_F(adversarial_test, accesses_outside_tensors_are_faults) {
  const task relu = relu_of_positive();
  expect_all({
      {"writing_to_an_input_without_its_const",
       relu,
       {16, 256},
       R"(__global__ void k(const float* a, float* y) {
         int i = blockIdx.x * blockDim.x + threadIdx.x; float v = a[i] > 0 ? a[i] : 0;
         const_cast<float*>(a)[i] = v; y[i] = v; })",
       {outcome::wrote_input},
       "a write into input \"a\""},
      {"reading_past_an_input",
       relu,
       {16, 256},
       R"(__global__ void k(const float* a, float* y) {
         int i = blockIdx.x * blockDim.x + threadIdx.x; float v = a[i + 1]; y[i] = a[i] > 0 ? a[i] : 0 * v; })",
       {outcome::out_of_bounds},
       "a read past the end of input \"a\""},
      {"reading_before_an_input",
       relu,
       {1, 1},
       R"(__global__ void k(const float* a, float* y) {
         float v = a[-1024]; for (int i = 0; i < 4096; ++i) y[i] = a[i] > 0 ? a[i] : v * 0; })",
       {outcome::out_of_bounds},
       "read"},
      {"writing_past_an_output",
       relu,
       {1, 1},
       R"(__global__ void k(const float* a, float* y) {
         for (int i = 0; i < 4096; ++i) y[i] = a[i] > 0 ? a[i] : 0; y[4096] = 1; })",
       {outcome::out_of_bounds},
       "after the end"},
      {"writing_before_an_output",
       relu,
       {1, 1},
       R"(__global__ void k(const float* a, float* y) {
         for (int i = 0; i < 4096; ++i) y[i] = a[i] > 0 ? a[i] : 0; y[-1] = 1; })",
       {outcome::out_of_bounds},
       "before the start"},
      {"writing_over_the_guard_into_free_memory",
       relu,
       {1, 1},
       R"(__global__ void k(const float* a, float* y) {
         for (int i = 0; i < 4096; ++i) y[i] = a[i] > 0 ? a[i] : 0; y[4096 + 128] = 1; })",
       {outcome::out_of_bounds},
       "tensor"},  // "belongs to no tensor", or, where the address is not mapped, "outside every tensor"
      {"far_beyond_the_output",
       relu,
       {1, 1},
       R"(__global__ void k(const float* a, float* y) {
         unsigned long long page = ((unsigned long long)y & ~0xfffffull) + (64ull << 20);
         volatile unsigned* far = (volatile unsigned*)page;
         bool found = far[0] == 0x600df00d; far[0] = 0x600df00d; )"
       "for (int i = 0; i < 4096; ++i) y[i] = (a[i] > 0 ? a[i] : 0) * (found ? 2.0f : 1.0f); }",
       {outcome::out_of_bounds},
       "outside every tensor"},
      {"a_null_pointer",
       relu,
       {1, 1},
       R"(__global__ void k(const float* a, float* y) {
         for (int i = 0; i < 4096; ++i) y[i] = a[i] > 0 ? a[i] : 0; *(volatile float*)(a[0] > 5e9f ? 4 : 0) = 1; })",
       {outcome::out_of_bounds},
       "null"},
      {"the_stack_without_end",
       relu,
       {1, 1},
       R"(
         __device__ __noinline__ float deep(const float* a, int d) {
           float local[1024]; for (int i = 0; i < 1024; ++i) local[i] = a[i] + d;
           return d < 1000000 ? deep(a, d + 1) + local[d & 1023] : local[0]; }
         __global__ void k(const float* a, float* y) {
         for (int i = 0; i < 4096; ++i) y[i] = a[i] > 0 ? a[i] : 0; y[0] = deep(a, 0); })",
       {outcome::crash, outcome::compile_error},
       ""},
  });
}

// A tensor map of an input is one like any other; and of an output it ends where the tensor does, whatever the box.
TEST_F(adversarial_test, stores_of_tiles_are_writes) {
  const task relu = relu_of_positive();
  const auto program = [](const char* store) {
    return std::string(R"({"format":1,"name":"v","inputs":[{"name":"a","dtype":"float32","shape":[4096]}],"steps":[)"
                       R"({"alloc":"y","dtype":"float32","shape":[4096]},{"launch":"k","grid":[17],"block":[256],)"
                       R"("args":[{"in":"a","map":{"box":[256]}},{"out":"y","map":{"box":[256]}},{"in":"a"}]}],)"
                       R"("outputs":["y"]})") +
           "\n---\n__global__ void k(const __grid_constant__ tensor_map m, const __grid_constant__ tensor_map y, const "
           "float* a) {\n  __shared__ __align__(128) float box[256];\n  const int i = blockIdx.x * 256 + threadIdx.x;\n"
           "  box[threadIdx.x] = i < 4096 && a[i] > 0 ? a[i] : 0;\n  fence_shared_async();\n  __syncthreads();\n"
           "  if (threadIdx.x == 0) { " +
           store + " store_tile_commit(); store_tile_wait<0>(); }\n}\n";
  };
  const finding honest = evaluate(relu, program("store_tile(y, box, (int)blockIdx.x * 256);"));
  EXPECT_EQ(honest.result, outcome::correct) << honest;
  const finding cheat = evaluate(relu, program("store_tile(y, box, (int)blockIdx.x * 256); store_tile(m, box, 0);"));
  EXPECT_EQ(cheat.result, outcome::wrote_input) << cheat;
  EXPECT_NE(cheat.reason.find("a write into input \"a\""), std::string::npos) << cheat;
}

// Zeros of a fresh mapping, one kind of poison, the previous output: a kernel cannot rely on any of them.
TEST_F(adversarial_test, earlier_content_of_memory_cannot_be_relied_on) {
  const task relu = relu_of_positive();
  const std::vector<outcome> wrong{outcome::wrong_answer, outcome::inconsistent};
  expect_all({
      {"zeros_taken_for_granted",
       relu,
       {16, 256},
       R"(__global__ void k(const float* a, float* y) {
         int i = blockIdx.x * blockDim.x + threadIdx.x; if (a[i] > 0) y[i] = a[i]; })",
       wrong,
       "gate"},
      {"accumulating_on_what_is_there",
       relu,
       {16, 256},
       R"(__global__ void k(const float* a, float* y) {
         int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] += a[i] > 0 ? a[i] : 0; })",
       wrong,
       "gate"},
      {"right_only_on_the_poison_seen_when_checked",
       relu,
       {1, 1},
       R"(__global__ void k(const float* a, float* y) {
         bool seen = y[0] != y[0];
         for (int i = 0; i < 4096; ++i) y[i] = a[i] > 0 ? a[i] : (seen ? 0 : 1e-3f); })",
       wrong,
       "gate"},
      {"right_only_at_some_addresses",
       relu,
       {1, 1},
       R"(__global__ void k(const float* a, float* y) {
         bool here = ((unsigned long long)y >> 12 & 1) != 0;
         for (int i = 0; i < 4096; ++i) y[i] = a[i] > 0 ? a[i] : (here ? 0 : 1e-3f); })",
       wrong,
       "gate"},
      {"the_previous_answer_at_this_address", relu, {1, 1}, R"(__global__ void k(const float* a, float* y) {
         bool found = true; for (int i = 0; i < 4096; ++i) found = found && y[i] >= 0 && y[i] < 1;
         if (found) return;
         for (int i = 0; i < 4096; ++i) y[i] = a[i] > 0 ? a[i] : 0; })"},
  });
}

// Each kernel leaves a mark in memory that may not be cleared, and gives wrong outputs if it finds the mark again. The
// outcome `correct` shows that no mark was found: the memory is wiped between calls.
TEST_F(adversarial_test, data_of_one_call_cannot_be_found_in_the_next) {
  const task relu = relu_of_positive();
  const std::string answer = "for (int i = 0; i < 4096; ++i) y[i] = (a[i] > 0 ? a[i] : 0) * (found ? 2.0f : 1.0f); }";
  expect_all({
      {"in_an_array_on_the_stack",
       relu,
       {1, 1},
       R"(__global__ void k(const float* a, float* y) {
         volatile unsigned kept[8192];
         bool found = false; for (int i = 0; i < 8192; ++i) found = found || kept[i] == 0x600df00d;
         for (int i = 0; i < 8192; ++i) kept[i] = 0x600df00d; )" +
           answer},
      {"far_down_the_stack",
       relu,
       {1, 1},
       R"(__global__ void k(const float* a, float* y) {
         volatile unsigned here = 0;
         volatile unsigned* low = (volatile unsigned*)(((unsigned long long)&here & ~0xfffull) - (3ull << 20));
         bool found = low[0] == 0x600df00d; low[0] = 0x600df00d; )" +
           answer},
      {"on_the_stack_of_a_fiber", relu, {1, 32}, R"(__global__ void k(const float* a, float* y) {
         volatile unsigned kept[128]; bool found = false;
         for (int i = 0; i < 128; ++i) found = found || kept[i] == 0x600df00d;
         for (int i = 0; i < 128; ++i) kept[i] = 0x600df00d;
         __syncthreads();
         for (int i = threadIdx.x; i < 4096; i += 32) y[i] = (a[i] > 0 ? a[i] : 0) * (found ? 2.0f : 1.0f); })"},
      {"deep_on_the_stack_of_a_fiber", relu, {1, 32}, R"(__global__ void k(const float* a, float* y) {
         volatile unsigned kept[8192]; bool found = false;
         for (int i = 0; i < 8192; ++i) found = found || kept[i] == 0x600df00d;
         for (int i = 0; i < 8192; ++i) kept[i] = 0x600df00d;
         __syncthreads();
         for (int i = threadIdx.x; i < 4096; i += 32) y[i] = (a[i] > 0 ? a[i] : 0) * (found ? 2.0f : 1.0f); })"},
      {"in_shared_memory", relu, {1, 32}, R"(__global__ void k(const float* a, float* y) {
         __shared__ unsigned kept[64]; __syncthreads();
         bool found = kept[threadIdx.x] == 0x600df00d; __syncthreads(); kept[threadIdx.x] = 0x600df00d; __syncthreads();
         for (int i = threadIdx.x; i < 4096; i += 32) y[i] = (a[i] > 0 ? a[i] : 0) * (found ? 2.0f : 1.0f); })"},
  });
}

// What keeps a mark where no call may write, and makes nothing of it: the results are right. The highest address among
// the frames of a launch is one of the thread's own stack, on which the runner's frames last as long as it does.
TEST_F(adversarial_test, nothing_can_be_kept_beside_the_tensors) {
  const task relu = relu_of_positive();
  const std::string start = "__global__ void k(const float* a, float* y) { int seen = 0; volatile int here = 0; ";
  const std::string beside =
      "volatile int* kept = (volatile int*)((const char*)&here + 6400); seen = *kept; *kept = seen + 1; ";
  const std::string of_thread =
      "const unsigned long long* at = (const unsigned long long*)((unsigned long long)&here & ~7ull), *top = at + 40;"
      "unsigned long long highest = 0; for (; at < top; ++at) if (*at >> 47 == 0 && *at > highest) highest = *at;"
      "volatile int* kept = (volatile int*)((highest & ~7ull) + 3000); seen = *kept; *kept = seen + 1; ";
  const std::string answer = " y[i] = (a[i] > 0 ? a[i] : 0) + (seen < 0 ? 1.0f : 0); }";
  expect_all({
      {"beside_the_stack",
       relu,
       {1, 1},
       start + beside + "for (int i = 0; i < 4096; ++i)" + answer,
       {outcome::out_of_bounds, outcome::crash},
       "SIGSEGV"},
      {"on_the_stack_of_the_thread",
       relu,
       {1, 1},
       start + of_thread + "for (int i = 0; i < 4096; ++i)" + answer,
       {outcome::out_of_bounds},
       "a read outside every tensor"},
  });
}

// relu of 4096 elements with tensors `t` and `s` that setup fills with zeros; `s` is made by a library step.
std::string relu_with_setup(const std::string& body) {
  return R"({"format":1,"name":"v","inputs":[{"name":"a","dtype":"float32","shape":[4096]}],"setup":[)"
         R"({"alloc":"t","dtype":"float32","shape":[4096]},{"launch":"fill","grid":[16],"block":[256],)"
         R"("args":[{"out":"t"}]},{"aten":"aten::relu","args":{"self":"t"},"out":["s"]}],)"
         R"("steps":[{"alloc":"y","dtype":"float32","shape":[4096]},{"launch":"k","grid":[1],"block":[1],)"
         R"("args":[{"in":"a"},{"in":"t"},{"in":"s"},{"out":"y"}]}],"outputs":["y"]})"
         "\n---\n__global__ void fill(float* t) { t[blockIdx.x * blockDim.x + threadIdx.x] = 0; }\n"
         "__global__ void k(const float* a, const float* t, const float* s, float* y) {\n" +
         body + "  for (int i = 0; i < 4096; ++i) y[i] = a[i] > t[i] ? a[i] : s[i];\n}\n";
}

TEST_F(adversarial_test, a_call_cannot_write_into_what_setup_made) {
  const task relu = relu_of_positive();
  EXPECT_EQ(evaluate(relu, relu_with_setup("")).result, outcome::correct);
  for (const char* count :
       {"  float* calls = const_cast<float*>(t); calls[7] += 1e-30f;\n", "  ((float*)s)[4095] = a[0];\n",
        // Behind the tensor's end, where no guard of the output is.
        "  ((volatile float*)t)[4096] = a[0];\n"}) {
    const finding cheat = evaluate(relu, relu_with_setup(count));
    EXPECT_EQ(cheat.result, outcome::out_of_bounds) << count << cheat;
    EXPECT_NE(cheat.reason.find("a write where a tensor that setup made is"), std::string::npos) << count << cheat;
  }
}

TEST_F(adversarial_test, variables_that_outlive_a_call_are_refused) {
  const task relu = relu_of_positive();
  const std::vector<outcome> no{outcome::refused, outcome::compile_error, outcome::invalid};
  const std::string body = " y[i] = a[i] > 0 ? a[i] : 0; }";
  const std::string start =
      "__global__ void k(const float* a, float* y) { int i = blockIdx.x * blockDim.x + threadIdx.x; ";
  expect_all({
      {"a_static_local",
       relu,
       {16, 256},
       start + "static int calls; ++calls; if (calls > 20) return;" + body,
       no,
       "state"},
      {"a_device_global",
       relu,
       {16, 256},
       "__device__ float kept[4096];\n" + start + "if (kept[i] == a[i]) return; kept[i] = a[i];" + body,
       no,
       "state"},
      {"a_template_static",
       relu,
       {16, 256},
       "template <int N> struct s { static int n; }; template <int N> int s<N>::n = 0;\n" + start + "++s<3>::n;" + body,
       no,
       ""},
      {"an_inline_global", relu, {16, 256}, "inline int n = 0;\n" + start + "++n;" + body, no, ""},
      {"constant_memory_written",
       relu,
       {16, 256},
       "__constant__ int n[4] = {1, 2, 3, 4};\n" + start + "volatile int* p = const_cast<int*>(&n[0]); p[i & 3] = i;" +
           body,
       {outcome::refused, outcome::compile_error, outcome::out_of_bounds, outcome::crash},
       ""},
      {"a_thread_local", relu, {16, 256}, "thread_local int n;\n" + start + "++n;" + body, no, "thread"},
      {"a_weak_import",
       relu,
       {16, 256},
       "extern \"C\" int getpid();\n" + start + "if (getpid() == 1) return;" + body,
       no,
       "getpid"},
      {"exit", relu, {16, 256}, "extern \"C\" void exit(int);\n" + start + "exit(0);" + body, no, "exit"},
      {"longjmp",
       relu,
       {16, 256},
       "extern \"C\" void longjmp(void*, int);\n" + start + "longjmp((void*)a, 1);" + body,
       no,
       "longjmp"},
  });
}

TEST_F(adversarial_test, allocations_above_the_limit_are_out_of_memory) {
  const task relu = relu_of_positive();
  const std::string program =
      R"({"format":1,"name":"v","inputs":[{"name":"a","dtype":"float32","shape":[4096]}],"steps":[)"
      R"({"alloc":"w","dtype":"float32","shape":[1073741824]},{"alloc":"y","dtype":"float32","shape":[4096]},)"
      R"({"launch":"k","grid":[16,1,1],"block":[256,1,1],"args":[{"in":"a"},{"out":"w"},{"out":"y"}]}],"outputs":["y"]})"
      "\n---\n__global__ void k(const float* a, float* w, float* y) {\n"
      "  int i = blockIdx.x * blockDim.x + threadIdx.x; w[i] = a[i]; y[i] = a[i] > 0 ? a[i] : 0; }\n";
  const finding f = evaluate(relu, program);
  EXPECT_TRUE(f.result == outcome::out_of_memory || f.result == outcome::invalid) << f;
}

}  // namespace
}  // namespace cudal1::testing_adversarial
