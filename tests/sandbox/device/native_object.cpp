#include "native_object.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

#include "sandbox/cpu/dialect/abi.hpp"
#include "sandbox/verify/timing_draws.hpp"

namespace cudal1::testing_device {

task relu_task(int64_t count) {
  const std::string text = fmt::format(
      R"({{"format":1,"name":"relu","summary":"relu","family":"pointwise","inputs":[{{"name":"a","dtype":"float32",)"
      R"("shape":[{}],"draw":{{"distribution":"normal","mean":0,"std":1}}}}],"weights":[],"steps":[{{"aten":)"
      R"("aten::relu","args":{{"self":"a"}},"out":["y"]}}],"outputs":["y"]}})",
      count);
  auto t = read_task(text, "cpu");
  if (!t) throw std::runtime_error(t.error().message);
  return *t;
}

checked_program one_launch(int64_t count, int64_t blocks) {
  const std::string text = fmt::format(
      R"({{"format":1,"name":"native","inputs":[{{"name":"a","dtype":"float32","shape":[{0}]}}],"steps":[{{"alloc":"y",)"
      R"("dtype":"float32","shape":[{0}]}},{{"launch":"k","grid":[{1},1,1],"block":[1,1,1],"args":[{{"in":"a"}},)"
      R"({{"out":"y"}}]}}],"outputs":["y"]}})"
      "\n---\n__global__ void k(const float* a, float* y) {{}}\n",
      count, blocks);
  auto p = check_program_text(text);
  if (!p) throw std::runtime_error(p.error().message);
  return *p;
}

compiled_code native(const std::string& body, int64_t count, const std::string& before) {
  static int number = 0;
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / fmt::format("cudal1-native-{}-{}", ::getpid(), ++number);
  fs::create_directory(folder);
  std::ofstream(folder / "k.cpp") << fmt::format(
      "struct launch {{ int grid[3], block[3]; void* const* arguments; }};\n"
      "struct info {{ int abi, kind, parameters, cluster[3]; }};\n"
      "extern \"C\" {{ extern const info cudal1_info_k = {{{}, 1, 2, {{1, 1, 1}}}}; }}\n"
      "static long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {{\n"
      "  long r; register long r10 asm(\"r10\") = d; register long r8 asm(\"r8\") = e; register long r9 asm(\"r9\") = "
      "f;\n"
      "  asm volatile(\"syscall\" : \"=a\"(r) : \"a\"(number), \"D\"(a), \"S\"(b), \"d\"(c), \"r\"(r10), \"r\"(r8),\n"
      "               \"r\"(r9) : \"rcx\", \"r11\", \"memory\"); return r; }}\n"
      "[[maybe_unused]] static auto keep = call;\n{}\n"
      "extern \"C\" void cudal1_run_k(const launch* l, long long first, long long last) {{\n"
      "  const float* a = *(const float* const*)l->arguments[0]; float* y = *(float* const*)l->arguments[1];\n"
      "  const long n = {}; (void)a; (void)y; (void)n; (void)first; (void)last;\n  {}\n}}\n",
      static_cast<int>(cudal1_abi_version), before, count, body);
  const std::string command = fmt::format("c++ -std=c++20 -O1 -w -fPIC -shared -o {0}/k.so {0}/k.cpp", folder.string());
  if (std::system(command.c_str()) != 0) throw std::runtime_error("the test's native code does not compile: " + body);
  std::ostringstream bytes;
  bytes << std::ifstream(folder / "k.so", std::ios::binary).rdbuf();
  fs::remove_all(folder);
  compiled_code code;
  code.object = bytes.str();
  return code;
}

session_options test_options() {
  session_options options;
  options.device = "cpu";
  options.worker = CUDAL1_TEST_WORKER;
  options.flush_bytes = 1 << 20;
  return options;
}

void device_test::SetUpTestSuite() {
  auto started = device_session::start(test_options());
  ASSERT_TRUE(started) << started.error().message;
  session = std::move(*started);
}

void device_test::TearDownTestSuite() {
  session.reset();
}

void device_test::SetUp() {
  ASSERT_TRUE(session);
  const auto opened = session->open_task(relu_task(elements));
  ASSERT_TRUE(opened) << opened.error().message;
}

check_plan device_test::short_plan() {
  check_plan plan;
  plan.draws.resize(3);
  plan.call_limit_ms = 2000;
  plan.memory_limit_bytes = 256 << 20;
  return plan;
}

expected<timing_report> device_test::timed(const task& t, const checked_program& program, const compiled_code& code,
                                           const timing_plan& plan, int first_fork) {
  return check_and_time(*session, {t, program, code}, plan_check(t, {}), {plan, first_fork}, {});
}

expected<check_report> device_test::check(const compiled_code& code, const check_plan& plan) {
  return session->check(one_launch(elements), code, plan);
}

}  // namespace cudal1::testing_device
