// Programs of many kernels, which are compiled in pieces and linked into one object.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sandbox/cpu/compiler/harness.hpp"
#include "tests/sandbox/large_source.hpp"
#include "tests/temporary_folder.hpp"

namespace cudal1::test {
namespace {

using testing::HasSubstr;

constexpr int count = 24, pieces = 4;

std::unique_ptr<host_compiler> compiler_keeping_in(const std::string& cache_folder, double time_limit_s = 60) {
  host_compiler_options options;
  options.cache_folder = cache_folder;
  options.time_limit_s = time_limit_s;
  options.processes = 2;
  return host_compiler::create(options).value();
}

int kept_files(const std::string& folder) {
  int found = 0;
  for (const auto& e : std::filesystem::recursive_directory_iterator(folder))
    found += e.is_regular_file() ? 1 : 0;
  return found;
}

TEST(pieces, their_kernels_are_in_one_object_with_what_all_use) {
  kernels all(scale_kernels(count) +
              "__global__ void reversed(float* y) {\n  __shared__ float s[32];\n  s[threadIdx.x] = y[threadIdx.x];\n"
              "  __syncthreads();\n  y[threadIdx.x] = s[31 - threadIdx.x] + table[0];\n}\n");
  std::vector<float> x(300), y(300);
  for (int i = 0; i < 300; ++i)
    x[static_cast<std::size_t>(i)] = static_cast<float>(i);
  for (int k = 0; k < count; ++k) {
    all.launch(fmt::format("scale_{}", k), {2, 1, 1}, {256, 1, 1}, static_cast<const float*>(x.data()), y.data(), 300);
    for (std::size_t i = 0; i < 300; ++i)
      ASSERT_EQ(y[i], 0.5f * static_cast<float>(k) * x[i] + static_cast<float>(i % 4 + 1)) << k;
  }
  EXPECT_FALSE(all.uses_fibers("scale_7"));
  EXPECT_TRUE(all.uses_fibers("reversed"));
  all.launch("reversed", {1, 1, 1}, {32, 1, 1}, x.data());
  EXPECT_EQ(x[0], 32.f);
}

TEST(pieces, a_variant_that_changes_one_kernel_compiles_one_piece) {
  const temporary_folder folder;
  const auto host = compiler_keeping_in(folder.path());
  const auto source = scale_kernels(count - 1);
  const auto first = host->compile(program_of(source + scale_kernel(count)));
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_FALSE(first->cached);
  EXPECT_EQ(kept_files(folder.path()), pieces + 1);
  const auto second = host->compile(program_of("\n\n" + source + scale_kernel(count, " * 2.f")));
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_FALSE(second->cached);
  EXPECT_NE(second->object, first->object);
  EXPECT_EQ(kept_files(folder.path()), pieces + 3);  // a piece and the object
  const auto again = host->compile(program_of(source + scale_kernel(count)));
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->cached);
  EXPECT_EQ(again->object, first->object);
}

TEST(pieces, state_between_calls_is_refused_also_when_the_pieces_are_in_the_cache) {
  const temporary_folder folder;
  const auto host = compiler_keeping_in(folder.path());
  const auto source =
      scale_kernels(count) + "__device__ int calls = 1;\n__global__ void counts(float* y) { y[0] = (float)++calls; }\n";
  for (int i = 0; i < 2; ++i) {
    const auto refused = host->compile(program_of(source));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, errc::refused) << refused.error().message;
    EXPECT_THAT(refused.error().message, HasSubstr("calls"));
    EXPECT_EQ(kept_files(folder.path()), pieces);
  }
}

TEST(pieces, an_error_has_its_line_of_the_program) {
  const auto error = compile_error(scale_kernels(count, 10, " + nothing"));
  EXPECT_EQ(error.code, errc::compile_failed);
  EXPECT_THAT(error.message, HasSubstr("program.cu:55:"));
  EXPECT_THAT(error.message, HasSubstr("nothing"));
}

TEST(pieces, what_a_time_limit_interrupts_goes_on_from_the_finished_ones) {
  const temporary_folder folder;
  const auto source = scale_kernels(count);
  const auto whole = compiler_keeping_in("")->compile(program_of(source));
  ASSERT_TRUE(whole) << whole.error().message;
  // A quarter of the time is too short for all pieces; some attempts later all are there.
  int attempts = 0;
  for (expected<compiled_code> made = fail(errc::timeout, ""); !made && attempts < 20; ++attempts) {
    made =
        compiler_keeping_in(folder.path())->compile(program_of(source), whole->compile_ms / 1e3 * (attempts + 1) / 4);
    if (made) continue;
    ASSERT_EQ(made.error().code, errc::timeout) << made.error().message;
    EXPECT_THAT(made.error().message, HasSubstr("of 4 parts of the program"));
  }
  EXPECT_GT(attempts, 1);
  EXPECT_LT(attempts, 20);
}

TEST(pieces, a_compiler_needs_a_process) {
  host_compiler_options options;
  options.processes = 0;
  EXPECT_EQ(host_compiler::create(options).error().code, errc::invalid_argument);
}

}  // namespace
}  // namespace cudal1::test
