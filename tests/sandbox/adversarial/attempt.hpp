// An attempt: a program that a policy could propose for a task, evaluated by all rules and gates up to its score.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sandbox/cpu/compiler/host_compiler.hpp"
#include "sandbox/device/session.hpp"
#include "sandbox/verify/verifier.hpp"

namespace cudal1::testing_adversarial {

// A task of one or more inputs by name, with its steps as JSON.
task make_task(const std::string& inputs, const std::string& steps, const std::string& outputs);
// y = relu(a) with KernelBench's draw from [0, 1), on which relu is the identity.
task relu_of_positive(int64_t elements = 4096);
task row_sum(int64_t rows, int64_t columns);
task softmax(int64_t rows, int64_t columns);
task matmul(int64_t m, int64_t k, int64_t n);

// One launch of the kernel `k` of `source`, over all inputs and then all outputs of the task, in order.
struct launch_shape {
  int64_t grid = 1, block = 256;
};
std::string one_kernel(const task& t, launch_shape shape, const std::string& source);

struct finding {
  outcome result = outcome::correct;
  std::string reason;
  std::string stage;                        // that decided: "program", "compiler", "check", "timing"
  double reference_us = 0, variant_us = 0;  // medians, if it was timed
};
std::ostream& operator<<(std::ostream& out, const finding& f);

// A cheating program with the allowed outcomes and a part of the reason; or an honest one, which must be `correct`.
struct attempt {
  const char* name;
  task of;
  launch_shape shape;
  std::string source;
  std::vector<outcome> wanted{outcome::correct};
  const char* words = "";
};

// One session and one compiler for all attempts of a suite.
class adversarial_test : public testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();

  // Program rules, compiler, object rules, every gate of the check on every kind of draw, then timed pairs.
  static finding evaluate(const task& t, const std::string& program, double call_limit_ms = 1000);
  static finding evaluate(const task& t, const checked_program& program, const compiled_code& code,
                          double call_limit_ms = 1000);
  static void expect_all(const std::vector<attempt>& attempts, double call_limit_ms = 1000);

  static inline std::unique_ptr<device_session> session;
  static inline std::unique_ptr<host_compiler> compiler;
};

}  // namespace cudal1::testing_adversarial
