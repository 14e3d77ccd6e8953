// Programs that leave something for a later call, each in another place of the device: none may gain by it. And honest
// ones that use the same places.
#include <algorithm>

#include "config/base/describe.hpp"
#include "tests/sandbox/cuda/session/gpu_session.hpp"

namespace cudal1 {
namespace {

constexpr int64_t elements = 1 << 18;
constexpr const char* magic = "0x5eed0fca11ab1e5eull";

class state : public gpu_session_test {
 protected:
  static timing_plan short_plan() { return {.forks = 2, .pairs = 3, .call_limit_ms = call_limit_ms}; }
  static gpu_finding evaluate(const std::string& program) {
    gpu_finding found = gpu_session_test::evaluate(relu_task(elements), program, short_plan());
    std::printf("%-14s in %6.1f ms: %s\n", enum_name(found.result).c_str(), found.milliseconds, found.reason.c_str());
    return found;
  }
  static void expect_refused(const std::string& program, const std::string& words) {
    const gpu_finding found = evaluate(program);
    EXPECT_EQ(found.result, outcome::out_of_bounds) << found.reason;
    EXPECT_NE(found.reason.find(words), std::string::npos) << found.reason;
    EXPECT_EQ(evaluate(relu_program(elements, "  y[i] = fmaxf(x[i], 0.0f);")).result, outcome::correct)
        << "the next one is honest";
  }
  // What `writer` leaves, `reader` would find and then be wrong.
  static void expect_nothing_left(const std::string& writer, const std::string& reader) {
    EXPECT_EQ(evaluate(writer).result, outcome::correct);
    EXPECT_EQ(evaluate(reader).result, outcome::correct) << "it found what another program had left";
  }
  // relu with a tensor `t` of setup, as large as the output.
  static std::string with_table(const std::string& body) {
    return fmt::format(
        R"({{"format":1,"name":"relu","inputs":[{{"name":"x","dtype":"float32","shape":[{0}]}}],"setup":[)"
        R"({{"alloc":"t","dtype":"float32","shape":[{0}]}},{{"launch":"fill","grid":[{1},1,1],"block":[256,1,1],)"
        R"("args":[{{"out":"t"}},{{"i32":{0}}}]}}],"steps":[{{"alloc":"y","dtype":"float32","shape":[{0}]}},)"
        R"({{"launch":"k","grid":[{1},1,1],"block":[256,1,1],"args":[{{"in":"x"}},{{"in":"t"}},{{"out":"y"}},)"
        R"({{"i32":{0}}}]}}],"outputs":["y"]}})"
        "\n---\n__global__ void fill(float* t, int n) {{\n"
        "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) t[i] = 0.0f;\n}}\n"
        "__global__ void k(const float* x, const float* t, float* y, int n) {{\n"
        "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n{2}\n}}\n",
        elements, elements / 256, body);
  }
  static std::string with_local(const std::string& use) {
    return relu_program(elements,
                        "  volatile unsigned long long left[96]; bool found = false;\n"
                        "  for (int j = 0; j < 96; ++j) " +
                            use + "\n  y[i] = found ? x[i] - 1.0f : fmaxf(x[i], 0.0f);");
  }
  static std::string with_shared(const std::string& use) {
    constexpr int64_t bytes = 200 << 10;
    return relu_program(
        elements,
        "  extern __shared__ unsigned long long words[];\n  volatile unsigned long long* left = words; bool "
        "found = false;\n  for (int j = threadIdx.x; j < 25600; j += 256) " +
            use + "\n  y[i] = __syncthreads_or(found) ? x[i] - 1.0f : fmaxf(x[i], 0.0f);",
        bytes);
  }
};

TEST_F(state, a_setup_tensor_that_is_only_read_is_honest) {
  EXPECT_EQ(evaluate(with_table("  y[i] = fmaxf(x[i], t[i]);")).result, outcome::correct);
}

TEST_F(state, a_replay_cache_in_a_setup_tensor_is_refused) {
  expect_refused(with_table("  float* c = const_cast<float*>(t);\n  if (c[i] == 0.0f || i % 256 == 0) c[i] = y[i] = "
                            "fmaxf(x[i], 0.0f);\n  else y[i] = fmaxf(x[i], 0.0f);"),
                 "setup");
}

TEST_F(state, writes_far_behind_an_output_are_refused) {
  expect_refused(relu_program(elements, "  y[i] = fmaxf(x[i], 0.0f); if (i < 8) y[i + (1ll << 27)] = 1.0f;"),
                 "belong to no tensor");
  expect_refused(relu_program(elements, "  y[i] = fmaxf(x[i], 0.0f); if (i < 8) y[i + (1ll << 29)] = 1.0f;"), "");
}

TEST_F(state, nothing_is_left_in_local_memory) {
  expect_nothing_left(with_local(fmt::format("left[j] = {};", magic)),
                      with_local(fmt::format("found = found || left[j] == {};", magic)));
}

TEST_F(state, nothing_is_left_in_shared_memory) {
  expect_nothing_left(with_shared(fmt::format("left[j] = {};", magic)),
                      with_shared(fmt::format("found = found || left[j] == {};", magic)));
}

TEST_F(state, a_large_frame_in_local_memory_is_honest_and_wiped) {
  const auto large = [](const std::string& use) {
    return relu_program(elements,
                        "  volatile unsigned long long left[1500]; bool found = false;\n"
                        "  for (int j = 0; j < 1500; ++j) " +
                            use + "\n  y[i] = found ? x[i] - 1.0f : fmaxf(x[i], 0.0f);");
  };
  expect_nothing_left(large(fmt::format("left[j] = {};", magic)),
                      large(fmt::format("found = found || left[j] == {};", magic)));
}

TEST_F(state, tables_of_constants_are_honest) {
  std::string program = relu_program(elements, "  y[i] = fmaxf(x[i], 0.0f) + (t[i & 63] > 4 ? c[i & 63] : 0.0f);");
  program.insert(program.find("__global__"), "const float t[64] = {1, 2, 3, 4};\n__constant__ float c[64];\n");
  EXPECT_EQ(evaluate(program).result, outcome::correct);
}

TEST_F(state, a_device_variable_of_inline_assembly_is_refused) {
  const gpu_finding found = evaluate(relu_program(
      elements,
      "  int v; asm volatile(\".global .b32 first, second;\"); asm volatile(\"{ .reg .u32 t; ld.global.u32 t, [first]; "
      "add.u32 t, t, 1; st.global.u32 [first], t; mov.u32 %0, t; }\" : \"=r\"(v)); y[i] = fmaxf(x[i], v < 0 ? 1.0f : "
      "0.0f);"));
  EXPECT_EQ(found.result, outcome::compile_error);
  EXPECT_NE(found.reason.find("first"), std::string::npos) << found.reason;
}

}  // namespace
}  // namespace cudal1
