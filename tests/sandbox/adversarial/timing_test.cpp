// Behaviour that differs from call to call, and native code that reports completion too early.
#include <cstddef>

#include "attempt.hpp"
#include "native_object.hpp"

#include "sandbox/isolation/control_block.hpp"
#include "sandbox/verify/timing_draws.hpp"

namespace cudal1::testing_adversarial {
namespace {

TEST_F(adversarial_test, threads_that_race_for_an_element_are_a_wrong_answer) {
  const task sum = row_sum(16, 64);
  const std::vector<outcome> wrong{outcome::wrong_answer, outcome::inconsistent};
  expect_all({
      {"the_last_writer_wins",
       sum,
       {16, 64},
       R"(__global__ void k(const float* a, float* y) {
         __shared__ float s[64]; s[threadIdx.x] = a[blockIdx.x * 64 + threadIdx.x]; __syncthreads();
         float t = 0; for (unsigned i = 0; i <= threadIdx.x; ++i) t += s[i]; y[blockIdx.x] = t; })",
       wrong,
       "gate"},
      {"a_barrier_left_out",
       sum,
       {16, 64},
       R"(__global__ void k(const float* a, float* y) {
         __shared__ float s[65]; __shared__ float zero; if (threadIdx.x == 0) zero = 0; __syncthreads();
         s[threadIdx.x] = a[blockIdx.x * 64 + threadIdx.x];
         if (threadIdx.x == 63) { float t = zero; for (int i = 0; i < 64; ++i) t += s[i]; y[blockIdx.x] = t; } })",
       wrong,
       "gate"},
  });
}

TEST_F(adversarial_test, a_call_that_sometimes_does_not_end_is_a_hang) {
  // Depends on the poison of its output, which is NaN in every third call on average.
  const task relu = relu_of_positive();
  const std::string loop = R"(__global__ void k(const float* a, float* y) {
      volatile float v = y[0]; while (v != v) v = v; for (int i = 0; i < 4096; ++i) y[i] = a[i] > 0 ? a[i] : 0; })";
  expect_all({{"endless_on_one_kind_of_poison", relu, {1, 1}, loop, {outcome::hang}, "no answer within 200 ms"}}, 200);
  // The same if it first happens in a timed call.
  const auto program = check_program_text(one_kernel(relu, {1, 1}, loop));
  ASSERT_TRUE(program);
  const auto code = compiler->compile(*program);
  ASSERT_TRUE(code) << code.error().message;
  const auto timed = check_and_time(*session, {relu, *program, *code}, plan_check(relu, {}),
                                    {{.forks = 4, .pairs = 7, .call_limit_ms = 200}, 0}, {});
  ASSERT_TRUE(timed) << timed.error().message;
  ASSERT_TRUE(timed->problem);
  EXPECT_EQ(timed->problem->kind, outcome::hang) << timed->problem->reason;
}

// Searches its thread's stack for the page that it shares with the referee, reports there where its output will be (or,
// by `named`, a place whose content stays) and that it is done, and only then computes. (It needs a system call to
// search without faults, and to see in which calls memory is open; a kernel that the object rules accept would have to
// guess.)
enum class named_place { of_the_output, another };

std::string early_done(int64_t elements, named_place named) {
  return fmt::format(
      "static float* before; static long base; unsigned* page = nullptr; long at = (long)&page & -8;\n"
      "const auto readable = [](long p) {{ return call(14, 99, p, 0, 8) != -14; }};\n"
      "if (!readable((long)environ & -8)) {{ for (long i = 0; i < {n}; ++i) y[i] = a[i] > 0 ? a[i] : 0; return; }}\n"
      "long stack = 0;\n"  // of the thread: the highest address on the launch's
      "for (; readable(at); at += 8) if (*(long*)at > stack && *(long*)at < 1L << 47) stack = *(long*)at;\n"
      "at = stack & -8;\n"
      "const auto is_page = [&](long p) {{ return p > 65536 && (p & 4095) == 0 && p < (1L << 47) && readable(p) &&\n"
      "  *(unsigned*)p == {go} && *((unsigned*)p + 1) == 1 && *(long*)(p + {outputs}) == 0 &&\n"
      "  *(long*)(p + {outputs} + 8) > 0 && *(long*)(p + {outputs} + 8) < 1 << 30; }};\n"
      "for (int i = 0; i < 4000 && before && !page && readable(at); ++i, at += 8) {{\n"
      "  const long p = *(long*)at;\n"
      "  if (is_page(p)) {{ page = (unsigned*)p; break; }}\n"
      "  if (p > 65536 && (p & 7) == 0 && p < (1L << 47))\n"
      "    for (int j = 0; j < 24 && !page && readable(p + 8 * j) && readable(p + 8 * j + 7); ++j)\n"
      "      if (is_page(*(long*)(p + 8 * j))) page = *(unsigned**)(p + 8 * j);\n"
      "}}\n"
      "if (before && !page) __builtin_trap();\n"
      "volatile long* offset = (long*)((char*)page + {outputs} + 8);\n"
      "if (before) {{\n"
      "  if (!base) base = (long)before - *offset;\n"
      "  *offset = {place};\n"
      "  __atomic_store_n(page, {done}u, __ATOMIC_SEQ_CST); call(202, (long)page, 1, 1 << 30);\n"
      "}}\n"
      "before = y;\n"
      "for (long i = 0; i < {n}; ++i) y[i] = a[i] > 0 ? a[i] : 0;\n",
      fmt::arg("go", static_cast<uint32_t>(call_state::go)), fmt::arg("done", static_cast<uint32_t>(call_state::done)),
      fmt::arg("outputs", offsetof(control_block, outputs)), fmt::arg("n", elements),
      fmt::arg("place", named == named_place::another ? "0" : "(long)y - base"));
}

TEST_F(adversarial_test, writes_after_done_do_not_count) {
  constexpr int64_t elements = 1 << 20;
  const task relu = testing_device::relu_task(elements);
  const auto program = testing_device::one_launch(elements);
  const auto code =
      testing_device::native(early_done(elements, named_place::of_the_output), elements, "#include <unistd.h>\n");
  const finding f = evaluate(relu, program, code);
  if (f.result != outcome::correct) {
    EXPECT_TRUE(f.result == outcome::wrong_answer || f.result == outcome::inconsistent) << f;
    return;
  }
  // If the referee read the output only after it was complete, its clock stopped as late.
  EXPECT_GT(f.variant_us, 0.5 * f.reference_us) << f;
}

// Few elements, so that they are complete, and named by the runner, before the referee's stop reaches it.
TEST_F(adversarial_test, an_output_is_read_where_it_was_when_the_call_was_done) {
  constexpr int64_t elements = 64;
  const auto code =
      testing_device::native(early_done(elements, named_place::another), elements, "#include <unistd.h>\n");
  const finding f = evaluate(testing_device::relu_task(elements), testing_device::one_launch(elements), code);
  EXPECT_TRUE(f.result == outcome::wrong_answer || f.result == outcome::inconsistent) << f;
}

}  // namespace
}  // namespace cudal1::testing_adversarial
