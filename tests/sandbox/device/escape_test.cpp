// Each fault and each escape attempt by native code in a runner gives an outcome with a reason, and the next check gets
// a fresh runner.
#include <chrono>

#include "native_object.hpp"

#include "config/base/describe.hpp"

namespace cudal1::testing_device {
namespace {

struct attempt {
  const char* name;
  const char* body;
  outcome wanted;
  const char* words;  // in the reason
};

std::ostream& operator<<(std::ostream& out, const attempt& a) {
  return out << a.name;
}

class escape : public device_test, public testing::WithParamInterface<attempt> {};

TEST_P(escape, has_an_outcome_with_a_reason_and_the_next_check_takes_less_than_a_second) {
  const attempt& a = GetParam();
  check_plan plan = short_plan();
  if (a.wanted == outcome::hang) plan.call_limit_ms = 300;
  const auto report = check(native(a.body, elements), plan);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_TRUE(report->problem) << "nothing was noticed";
  EXPECT_EQ(enum_name(report->problem->kind), enum_name(a.wanted)) << report->problem->reason;
  EXPECT_NE(report->problem->reason.find(a.words), std::string::npos) << report->problem->reason;
  const compiled_code right = native(relu_loop, elements);
  const auto start = std::chrono::steady_clock::now();
  const auto next = check(right);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_FALSE(next->problem);
  EXPECT_EQ(next->draws.size(), 3U);
  EXPECT_LT(took.count(), 1.0);
  EXPECT_TRUE(session->runner_pids().empty());
}

constexpr attempt faults[] = {
    {"null_write", "*(volatile int*)0 = 1;", outcome::out_of_bounds, "a write through a null pointer, in step"},
    {"write_into_an_input", "((volatile float*)a)[3] = 1;", outcome::wrote_input, "a write into input \"a\""},
    {"write_past_an_output", "for (long i = 0; i < n + 4; ++i) y[i] = i < n && a[i] > 0 ? a[i] : 0;",
     outcome::out_of_bounds, "after the end"},
    {"write_megabytes_past_an_output", "for (long i = 0; i < n; ++i) y[i] = a[i] > 0 ? a[i] : 0; y[n + (2 << 20)] = 1;",
     outcome::out_of_bounds, "a write outside every tensor"},
    {"read_past_an_input", "volatile float x = a[n]; (void)x;", outcome::out_of_bounds,
     "a read past the end of input \"a\""},
    {"read_far_out", "volatile float x = *(const float*)0x123456789000; (void)x;", outcome::out_of_bounds,
     "a read outside every tensor"},
    {"hang", "for (;;) asm volatile(\"\");", outcome::hang, "within 300 ms"},
    {"divide_by_zero", "volatile int zero = 0; y[0] = 7 / zero;", outcome::crash, "division by zero"},
    {"abort", "__builtin_abort();", outcome::out_of_bounds, "a write outside every tensor"},  // of libc's lock
    {"illegal_instruction", "__builtin_trap();", outcome::crash, "SIGILL"},
    {"stack_overflow",
     "struct deep { static int go(int d) { volatile char b[4096]; b[0] = d; return go(d + 1) + b[0]; } };"
     "y[0] = deep::go(0);",
     outcome::crash, "the stack overflowed"},
    {"exit", "call(231, 0);", outcome::crash, "the process exited"},
};
INSTANTIATE_TEST_SUITE_P(faults, escape, testing::ValuesIn(faults), [](const auto& i) { return i.param.name; });

constexpr attempt calls[] = {
    {"open", "call(2, (long)\"/etc/passwd\");", outcome::forbidden, "the system call open is not allowed"},
    {"openat", "call(257, -100, (long)\"/tmp/x\", 0101, 0600);", outcome::forbidden, "openat"},
    {"socket", "call(41, 2, 1);", outcome::forbidden, "socket"},
    {"fork", "call(57);", outcome::forbidden, "fork"},
    {"clone", "call(56, 17);", outcome::forbidden, "clone"},
    {"execve", "call(59, (long)\"/bin/true\");", outcome::forbidden, "execve"},
    {"kill_the_parent", "call(62, call(110), 9);", outcome::forbidden, "kill"},
    {"tgkill_the_parent", "long p = call(110); call(234, p, p, 9);", outcome::forbidden, "tgkill"},
    {"ptrace", "call(101, 16, call(110));", outcome::forbidden, "ptrace"},
    {"map_executable", "call(9, 0, 4096, 5, 0x22, -1, 0);", outcome::forbidden, "mmap"},
    {"make_executable", "call(10, (long)y & -4096, 4096, 5);", outcome::forbidden, "mprotect"},
    {"write_elsewhere", "call(1, 3, (long)\"x\", 1);", outcome::forbidden, "write"},
    {"take_over_signals", "call(13, 11, 0, 0, 8);", outcome::forbidden, "rt_sigaction"},
};
INSTANTIATE_TEST_SUITE_P(calls, escape, testing::ValuesIn(calls), [](const auto& i) { return i.param.name; });

TEST_F(device_test, a_program_that_allocates_without_end_is_out_of_memory) {
  const auto p = check_program_text(
      R"({"format":1,"name":"greedy","inputs":[{"name":"a","dtype":"float32","shape":[4096]}],"steps":[)"
      R"({"aten":"aten::expand","args":{"self":"a","size":[65536,4096]},"out":["wide"]},)"
      R"({"aten":"aten::relu","args":{"self":"wide"},"out":["big"]},)"
      R"({"aten":"aten::relu","args":{"self":"a"},"out":["y"]}],"outputs":["y"]})");
  ASSERT_TRUE(p) << p.error().message;
  const auto report = session->check(*p, {}, short_plan());
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_TRUE(report->problem);
  EXPECT_EQ(enum_name(report->problem->kind), "out_of_memory") << report->problem->reason;
}

// Private memory outside the arena is limited.
TEST_F(device_test, native_code_cannot_take_memory_without_end) {
  const auto report =
      check(native("for (long i = 0; i < 64; ++i) {"
                   "  char* p = (char*)call(9, 0, 1L << 28, 3, 0x22, -1, 0);"
                   "  for (long j = 0; j < (1L << 28); j += 4096) p[j] = 1; }",
                   elements));
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_TRUE(report->problem);
}

}  // namespace
}  // namespace cudal1::testing_device
