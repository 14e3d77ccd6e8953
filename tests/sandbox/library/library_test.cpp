// Every program of the library is legal, fits its task, compiles without spilling registers, and is correct by every
// gate on every kind of draw, on the devices that this machine has. CUDAL1_TEST_ONLY: those whose name has these words.
#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "config/base/describe.hpp"
#include "sandbox/cuda/compiler/nvrtc_compiler.hpp"
#include "sandbox/device/device_type.hpp"
#include "sandbox/device/session.hpp"
#include "sandbox/program/program_library.hpp"
#include "sandbox/program/task.hpp"
#include "sandbox/verify/timing_draws.hpp"
#include "sandbox/verify/verifier.hpp"

namespace cudal1 {
namespace {

std::vector<library_program> library(std::string_view profile) {
  auto programs = load_program_library(profile);
  EXPECT_TRUE(programs) << programs.error().message;
  if (!programs) return {};
  const char* const only = std::getenv("CUDAL1_TEST_ONLY");
  if (only != nullptr) std::erase_if(*programs, [&](const auto& p) { return p.name.find(only) == std::string::npos; });
  return std::move(*programs);
}

expected<task> task_of(const library_program& p, std::string_view profile) {
  CUDAL1_TRY(const auto folder, builtin_task_folder());
  return load_task(folder + "/" + p.task + ".json", profile);
}

// The lines of comment that a source begins with.
int lines_of_comment(const std::string& source) {
  std::istringstream lines(source);
  int count = 0;
  for (std::string line; std::getline(lines, line) && line.starts_with("// ");)
    ++count;
  return count;
}

class program_library : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(profiles, program_library, testing::Values("cpu", "cuda"),
                         [](const auto& profile) { return std::string(profile.param); });

TEST_P(program_library, has_the_inputs_weights_and_outputs_of_its_tasks) {
  for (const auto& p : library(GetParam())) {
    SCOPED_TRACE(p.name);
    const auto t = task_of(p, GetParam());
    ASSERT_TRUE(t) << t.error().message;
    const auto& text = p.program.text;
    EXPECT_EQ(text.name, p.name);
    EXPECT_EQ(text.inputs, t->reference.text.inputs);
    EXPECT_EQ(text.weights, t->reference.text.weights);
    ASSERT_EQ(text.outputs.size(), t->reference.text.outputs.size());
    for (std::size_t i = 0; i < text.outputs.size(); ++i)
      EXPECT_EQ(p.program.types.at(text.outputs[i]), t->reference.types.at(t->reference.text.outputs[i]));
  }
}

TEST_P(program_library, says_what_each_program_does_in_one_to_three_lines) {
  for (const auto& p : library(GetParam())) {
    const int lines = lines_of_comment(p.program.text.source);
    EXPECT_TRUE(lines >= 1 && lines <= 3) << p.name << " begins with " << lines << " lines of comment";
  }
}

TEST_P(program_library, covers_the_tasks) {
  std::set<std::string> tasks;
  const auto programs = library(GetParam());
  for (const auto& p : programs)
    tasks.insert(p.task);
  if (std::getenv("CUDAL1_TEST_ONLY") != nullptr) GTEST_SKIP() << "a part of the library";
  EXPECT_GE(programs.size(), GetParam() == std::string_view("cuda") ? 40U : 30U);
  EXPECT_GE(tasks.size(), GetParam() == std::string_view("cuda") ? 30U : 27U);
}

TEST(programs_for_cuda, compile_for_hopper_without_spilling) {
  nvrtc_compiler_options options;
  options.architecture = "sm_90a";
  options.time_limit_s = 60;
  const auto compiler = nvrtc_compiler::create(options);
  ASSERT_TRUE(compiler) << compiler.error().message;
  for (const auto& p : library("cuda")) {
    SCOPED_TRACE(p.name);
    const auto code = (*compiler)->compile(p.program);
    ASSERT_TRUE(code) << code.error().message;
    EXPECT_EQ(code->log, "");
    EXPECT_FALSE(code->resources.empty());
    for (const auto& kernel : code->resources)
      EXPECT_EQ(kernel.spill_store_bytes, 0) << kernel.kernel << " with " << kernel.registers << " registers";
  }
}

// Checks programs on the first device of a kind.
class on_a_device {
 public:
  // "" or why it cannot start.
  std::string start(const std::string& name) {
    const device_type* const type = find_device_type(name);
    if (type == nullptr) return "there is no kind of device for " + name;
    const auto found = type->discover();
    if (!found) return found.error().message;
    const auto device = std::find_if(found->begin(), found->end(), [&](const auto& d) { return d.name == name; });
    is_absent_ = device == found->end();
    if (is_absent_) return "this machine has no " + name;
    // The programs are ours, so a machine that confines less, as a rented container, will do.
    auto compiler = type->make_compiler({.architecture = device->architecture, .allow_weak_confinement = true});
    if (!compiler) return compiler.error().message;
    compiler_ = std::move(*compiler);
    session_options options;
    options.device = name;
    options.allow_weak_confinement = true;
    auto session = device_session::start(options);
    if (!session) return session.error().message;
    session_ = std::move(*session);
    return "";
  }
  bool is_absent() const { return is_absent_; }

  // "" or why it is not correct.
  std::string fault_of(const library_program& p, const task& t) {
    const auto code = compiler_->compile(p.program);
    if (!code) return code.error().message;
    if (const auto opened = session_->open_task(t); !opened) return opened.error().message;
    const check_plan plan = plan_check(t, {});
    const auto report = session_->check(p.program, *code, plan);
    if (!report) return report.error().message;
    if (const auto j = judge(t, plan, *report, {}); j.result != outcome::correct)
      return std::string(enum_name(j.result)) + ": " + j.reason;
    // A few timed calls, whose outputs must be those of the check.
    const auto timed = check_and_time(*session_, {t, p.program, *code}, plan, {{.forks = 1, .pairs = 2}, 0}, {});
    if (!timed) return timed.error().message;
    return timed->problem ? timed->problem->reason : timed->inconsistency;
  }

 private:
  bool is_absent_ = false;
  std::shared_ptr<kernel_compiler> compiler_;
  std::unique_ptr<device_session> session_;
};

void expect_all_correct(const std::string& device, const char* profile) {
  on_a_device here;
  const auto problem = here.start(device);
  if (here.is_absent()) GTEST_SKIP() << problem;
  ASSERT_EQ(problem, "");
  for (const auto& p : library(profile)) {
    const auto t = task_of(p, profile);
    ASSERT_TRUE(t) << t.error().message;
    EXPECT_EQ(here.fault_of(p, *t), "") << p.name;
  }
}

TEST(programs_for_cpu, are_correct_on_it) {
  expect_all_correct("cpu", "cpu");
}
TEST(programs_for_cuda, are_correct_on_a_gpu) {
  expect_all_correct("cuda:0", "cuda");
}

}  // namespace
}  // namespace cudal1
