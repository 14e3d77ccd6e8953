// Native code in a runner that bypasses the object rules, to test confinement alone.
#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "sandbox/device/session.hpp"

namespace cudal1::testing_device {

// y = relu(a), a of `elements` float32 drawn from N(0,1).
task relu_task(int64_t elements);
// A program that launches kernel `k` (blocks of one thread) with `a` in and `y` out.
checked_program one_launch(int64_t elements, int64_t blocks = 1);

// `body` as the kernel `k` for the blocks [first, last): it can use these two, `a`, `y`, and `n`. Compiled with the
// host compiler without further processing. `before` precedes it (globals, for example).
compiled_code native(const std::string& body, int64_t elements, const std::string& before = "");
// A correct body.
inline constexpr const char* relu_loop = "for (long i = 0; i < n; ++i) y[i] = a[i] > 0 ? a[i] : 0;";

session_options test_options();

// One session for all tests of a suite; starting one takes a second.
class device_test : public testing::Test {
 protected:
  static constexpr int64_t elements = 4096;
  static void SetUpTestSuite();
  static void TearDownTestSuite();
  void SetUp() override;

  // Declared draws only, three of them.
  static check_plan short_plan();
  expected<check_report> check(const compiled_code& code, const check_plan& plan = short_plan());
  // Times it if it is correct on the draws of the timing pool.
  static expected<timing_report> timed(const task& t, const checked_program& program, const compiled_code& code,
                                       const timing_plan& plan, int first_fork = 0);
  static inline std::unique_ptr<device_session> session;
};

}  // namespace cudal1::testing_device
