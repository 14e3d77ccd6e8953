// Sessions with an imported task: the referee computes with the weights in its blob.
#include "native_object.hpp"
#include <gmock/gmock.h>

#include "sandbox/cpu/compiler/host_compiler.hpp"
#include "tests/sandbox/program/imported_example.hpp"

namespace cudal1::testing_device {
namespace {

using testing::HasSubstr;

struct weights_test : testing::Test {
  imported_example example;
  std::unique_ptr<device_session> session;

  void SetUp() override {
    session_options options = test_options();
    options.blobs = example.blobs();
    auto started = device_session::start(options);
    ASSERT_TRUE(started) << started.error().message;
    session = std::move(*started);
  }

  static check_plan plan() {
    check_plan p;
    p.draws = {{draw_kind::declared, 0}, {draw_kind::declared, 0}, {draw_kind::standard_normal, 0}};
    p.memory_limit_bytes = 64 << 20;
    return p;
  }
};

TEST_F(weights_test, declared_weights_are_the_contents_and_others_are_drawn) {
  const auto opened = session->open_task(example.load());
  ASSERT_TRUE(opened) << opened.error().message;
  // A variant with the weights' values in its source, which reads no weight.
  const auto p = check_program_text(
      R"({"format":1,"name":"spelt_out","inputs":[{"name":"x","dtype":"float32","shape":[8,4]}],)"
      R"("weights":[{"name":"w","dtype":"float32","shape":[3,4]},{"name":"b","dtype":"float32","shape":[3]},)"
      R"({"name":"index","dtype":"int64","shape":[2]}],"steps":[{"alloc":"y","dtype":"float32","shape":[8,2]},)"
      R"({"launch":"f","grid":[1,1,1],"block":[16,1,1],"args":[{"in":"x"},{"in":"index"},{"out":"y"}]}],)"
      R"("outputs":["y"]})"
      "\n---\n__global__ void f(const float* x, const long long* index, float* y) {\n"
      "  int i = threadIdx.x, row = i / 2;\n  int u = (int)index[i % 2];\n"
      "  float s = u == 0 ? 0.5f : u == 1 ? -1.5f : 2.5f;\n"
      "  for (int k = 0; k < 4; ++k) s += x[row * 4 + k] * (0.25f * (float)(u * 4 + k) - 1.0f);\n  y[i] = s;\n}\n");
  ASSERT_TRUE(p) << p.error().message;
  const auto compiler = host_compiler::create({});
  ASSERT_TRUE(compiler) << compiler.error().message;
  const auto code = (*compiler)->compile(*p);
  ASSERT_TRUE(code) << code.error().message;
  const auto report = session->check(*p, *code, plan());
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_FALSE(report->problem) << report->problem->reason;
  ASSERT_EQ(report->draws.size(), 3U);
  for (const std::size_t declared : {0, 1})
    EXPECT_EQ(report->draws[declared].outputs.at(0).outside, 0) << report->draws[declared].outputs[0].max_absolute;
  EXPECT_GT(report->draws[2].outputs.at(0).outside, 8);
}

TEST_F(weights_test, contents_survive_a_renewal_and_a_new_referee) {
  const task t = example.load();
  ASSERT_TRUE(session->open_task(t));
  ASSERT_TRUE(session->open_task(t, timing_pool::renew));
  ASSERT_EQ(::kill(session->referee_pid(), SIGKILL), 0);
  (void)session->check(t.reference, {}, plan());  // lost with the referee
  const auto report = session->check(t.reference, {}, plan());
  ASSERT_TRUE(report) << report.error().message;
  for (const auto& d : report->draws)
    EXPECT_EQ(d.outputs.at(0).max_absolute, 0);
}

TEST_F(weights_test, a_missing_or_altered_blob_is_an_error_of_the_task_alone) {
  const task t = example.load();
  const int referee = session->referee_pid();
  damage(example.blobs() + "/" + example.blob);
  const auto altered = session->open_task(t);
  ASSERT_FALSE(altered);
  EXPECT_EQ(altered.error().code, errc::corrupt);
  EXPECT_THAT(altered.error().message,
              testing::AllOf(HasSubstr("the weights of layer: "), HasSubstr(example.blob), HasSubstr("tasks import")));
  std::filesystem::remove(example.blobs() + "/" + example.blob);
  const auto missing = session->open_task(t);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, errc::not_found);
  EXPECT_TRUE(session->open_task(relu_task(64)));
  EXPECT_EQ(session->referee_pid(), referee) << "no process was replaced";
}

TEST_F(weights_test, contents_that_do_not_match_are_refused_by_the_referee) {
  std::string text = example.text(R"({"distribution": "normal"})");
  text.replace(text.find("\"fc.bias\""), 9, "\"fc.bios\"");
  const auto t = read_task(text, "cpu");
  ASSERT_TRUE(t) << t.error().message;
  const auto opened = session->open_task(*t);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, errc::invalid_program);
  EXPECT_THAT(opened.error().message, HasSubstr("has no tensor \"fc.bios\""));
}

}  // namespace
}  // namespace cudal1::testing_device
