// The replay of a task's own program, by the library and by cudal1-replay.
#include "tools/replay/replay.hpp"

#include <array>
#include <cstdio>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/describe.hpp"
#include "tests/sandbox/program/imported_example.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

struct replays : testing::Test {
  imported_example example;
  std::vector<float> x;
  const replay_request request{example.task_file, example.folder + "/in.safetensors",
                               example.folder + "/out.safetensors", ""};

  void SetUp() override {
    std::mt19937 random(3);
    for (std::size_t i = 0; i < example.rows * 4; ++i)
      x.push_back(static_cast<float>(random() % 1000) / 500 - 1);
    write({{"x", {dtype::float32, {static_cast<int64_t>(example.rows), 4}, std::as_bytes(std::span(x))}}});
  }
  void write(const stored_tensors& tensors) const {
    const auto written = write_safetensors(request.tensors, tensors);
    ASSERT_TRUE(written) << written.error().message;
  }
  void expect_outputs() const {
    const auto out = safetensors_file::open(request.out);
    ASSERT_TRUE(out) << out.error().message;
    const auto y = out->find("y");
    ASSERT_TRUE(y) << y.error().message;
    ASSERT_EQ((*y)->shape, (std::vector<int64_t>{static_cast<int64_t>(example.rows), 2}));
    for (std::size_t row = 0; row < example.rows; ++row) {
      std::array<float, 2> got{};
      std::memcpy(got.data(), (*y)->bytes.data() + row * sizeof got, sizeof got);
      const auto wanted = example.answer(x.data() + row * 4);
      EXPECT_NEAR(got[0], wanted[0], 1e-5);
      EXPECT_NEAR(got[1], wanted[1], 1e-5);
    }
  }
};

TEST_F(replays, compute_with_the_given_inputs_and_the_contents_of_the_weights) {
  const auto done = replay(request, {});
  ASSERT_TRUE(done) << done.error().message;
  expect_outputs();
}

TEST_F(replays, report_what_is_missing) {
  write({});
  EXPECT_THAT(replay(request, {}).error().message, HasSubstr("in.safetensors: has no tensor \"x\""));
  const std::array<int64_t, 32> other{};
  write({{"x", {dtype::int64, {8, 4}, std::as_bytes(std::span(other))}}});
  EXPECT_THAT(replay(request, {}).error().message, HasSubstr("x is int64[8, 4], and is declared as float32[8, 4]"));
  std::filesystem::remove(example.blobs() + "/" + example.blob);
  EXPECT_EQ(replay(request, {}).error().code, errc::not_found);
  EXPECT_EQ(replay({"/no/such.json", "", "", ""}, {}).error().code, errc::io_error);
}

TEST_F(replays, continue_after_a_line_that_failed) {
  const std::string lines = example.folder + "/lines", answers = example.folder + "/answers";
  replay_request bad = request;
  bad.task += "x";
  std::ofstream(lines) << to_json(bad).text() << "\nnot json\n" << to_json(request).text() << "\n";
  ASSERT_EQ(std::system(fmt::format("{} --device cpu < {} > {}", CUDAL1_REPLAY, lines, answers).c_str()), 0);
  std::ifstream said(answers);
  std::string first, second, third, rest;
  std::getline(said, first);
  std::getline(said, second);
  std::getline(said, third);
  EXPECT_THAT(first, HasSubstr("layer.jsonx: cannot be opened"));
  EXPECT_THAT(second, HasSubstr("\"error\""));
  EXPECT_THAT(third, HasSubstr("\"ms\""));
  EXPECT_FALSE(std::getline(said, rest));
  expect_outputs();
}

}  // namespace
}  // namespace cudal1
