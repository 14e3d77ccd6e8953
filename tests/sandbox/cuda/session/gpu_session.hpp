// A session of the first GPU and its compiler, made once for all tests of a suite.
#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "sandbox/cuda/gpus/gpu.hpp"
#include "sandbox/device/compiler.hpp"
#include "sandbox/device/session.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

struct gpu_finding {
  outcome result = outcome::correct;
  std::string reason;
  double milliseconds = 0;  // of check and timing
  check_report checked;
  timing_report timed;
};

class gpu_session_test : public testing::Test {
 protected:
  static constexpr double call_limit_ms = 300;

  static void SetUpTestSuite();
  static void TearDownTestSuite();
  void SetUp() override;

  // y = relu(x), of `elements` float32.
  static task relu_task(int64_t elements);
  // y = x + 1 + 1 + ..., with `operators` operators.
  static task chain_task(int64_t elements, int operators);
  // One kernel `k(x, y, n)` with this body; `head` comes before its launch, as further steps.
  static std::string relu_program(int64_t elements, const std::string& body, int64_t shared_bytes = 0,
                                  const std::string& head = "");
  // Program rules, compiler, check and timing, as an evaluation does it.
  static gpu_finding evaluate(const task& t, const std::string& program, const timing_plan& plan);
  // Times the task's own program against itself, without another check.
  static timing_report measure_again(const task& t, const timing_plan& plan, int first_fork);
  static device_session& session() { return *session_; }

 private:
  static expected<void> start(const gpu_description& gpu);

  static inline std::unique_ptr<device_session> session_;
  static inline std::unique_ptr<kernel_compiler> compiler_;
  static inline std::string why_skipped_, why_failed_;
};

}  // namespace cudal1
