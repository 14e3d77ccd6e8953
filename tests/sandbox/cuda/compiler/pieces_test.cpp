// Programs of many kernels, which are compiled in pieces, and the bundle of their cubins.
#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/cuda/runtime/cubin_bundle.hpp"
#include "tests/sandbox/cuda/compiler/harness.hpp"
#include "tests/sandbox/large_source.hpp"
#include "tests/temporary_folder.hpp"

namespace cudal1::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int count = 24, pieces = 4;

std::unique_ptr<nvrtc_compiler> compiler_keeping_in(const std::string& cache_folder) {
  nvrtc_compiler_options options;
  options.cache_folder = cache_folder;
  options.time_limit_s = 60;
  options.processes = 2;
  return nvrtc_compiler::create(options).value();
}

int kept_files(const std::string& folder) {
  int found = 0;
  for (const auto& e : std::filesystem::recursive_directory_iterator(folder))
    found += e.is_regular_file() ? 1 : 0;
  return found;
}

std::vector<std::string> kernels_in_bundle(const std::string& object) {
  std::vector<std::string> names;
  const auto cubins = cubins_in(object).value();
  for (const auto cubin : cubins)
    for (const auto& name : kernels_in(std::string(cubin)))
      names.push_back(name);
  return names;
}

TEST(pieces, a_bundle_has_all_kernels_and_what_is_known_of_each) {
  const auto made = compile(scale_kernels(count));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(cubins_in(made->object)->size(), static_cast<std::size_t>(pieces));
  auto names = kernels_in_bundle(made->object);
  std::ranges::sort(names);
  std::vector<std::string> wanted;
  for (int i = 0; i < count; ++i)
    wanted.push_back(fmt::format("scale_{}", i));
  std::ranges::sort(wanted);
  EXPECT_EQ(names, wanted);
  ASSERT_EQ(made->resources.size(), static_cast<std::size_t>(count));
  for (const auto& r : made->resources)
    EXPECT_GT(r.registers, 0) << r.kernel;
}

TEST(pieces, kernels_are_the_same_code_as_in_one_piece) {
  // A macro keeps the source whole.
  const auto divided = compile(scale_kernels(count)), whole = compile("#define WHOLE\n" + scale_kernels(count));
  ASSERT_TRUE(divided) << divided.error().message;
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(cubins_in(whole->object)->size(), 1u);
  for (const auto& r : divided->resources) {
    const auto same = std::ranges::find(whole->resources, r.kernel, &kernel_resources::kernel);
    ASSERT_NE(same, whole->resources.end());
    EXPECT_EQ(same->registers, r.registers);
  }
}

TEST(pieces, a_variant_that_changes_one_kernel_compiles_one_piece) {
  const temporary_folder folder;
  const auto compiler = compiler_keeping_in(folder.path());
  const auto source = scale_kernels(count - 1);
  const auto first = compiler->compile(program_of(source + scale_kernel(count)));
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_FALSE(first->cached);
  EXPECT_EQ(kept_files(folder.path()), pieces);
  const auto second = compiler->compile(program_of("\n\n" + source + scale_kernel(count, " * 2.f")));
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_FALSE(second->cached);
  EXPECT_EQ(kept_files(folder.path()), pieces + 1);
  const auto again = compiler->compile(program_of(source + scale_kernel(count)));
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->cached);
  EXPECT_EQ(again->object, first->object);
  EXPECT_EQ(again->resources.size(), first->resources.size());
}

TEST(pieces, an_error_has_its_line_of_the_program) {
  const auto error = compile_error(scale_kernels(count, 10, " + nothing"));
  EXPECT_EQ(error.code, errc::compile_failed);
  EXPECT_THAT(error.message, HasSubstr("program.cu(55): error"));
  EXPECT_THAT(error.message, HasSubstr("nothing"));
}

TEST(pieces, each_must_pass_the_rules) {
  const auto source = scale_kernels(count);
  const auto writes = compile(source + "__device__ int calls;\n__global__ void counts(float* y) { y[0] = ++calls; }\n");
  ASSERT_FALSE(writes);
  EXPECT_EQ(writes.error().code, errc::refused) << writes.error().message;
  EXPECT_THAT(writes.error().message, HasSubstr("calls"));
  const auto clock = compile(source + "__global__ void times(float* y) { y[0] = clock64(); }\n");
  ASSERT_FALSE(clock);
}

TEST(pieces, those_that_call_grid_sync_get_its_barrier) {
  const auto made = compile(scale_kernels(count) +
                            "__global__ void together(float* y) { y[threadIdx.x] = 1.f; grid_sync(); y[0] = 2.f; }\n");
  EXPECT_TRUE(made) << made.error().message;
}

TEST(pieces, what_a_time_limit_interrupts_goes_on_from_the_finished_ones) {
  const temporary_folder folder;
  const auto source = scale_kernels(count);
  const auto whole = compiler_keeping_in("")->compile(program_of(source));
  ASSERT_TRUE(whole) << whole.error().message;
  const auto compiler = compiler_keeping_in(folder.path());
  // A quarter of the time is too short for all pieces; some attempts later all are there.
  int attempts = 0;
  for (expected<compiled_code> made = fail(errc::timeout, ""); !made && attempts < 20; ++attempts) {
    made = compiler->compile(program_of(source), whole->compile_ms / 1e3 * (attempts + 1) / 4);
    if (made) continue;
    ASSERT_EQ(made.error().code, errc::timeout) << made.error().message;
    EXPECT_THAT(made.error().message, HasSubstr("of 4 parts of the program"));
  }
  EXPECT_GT(attempts, 1);
  EXPECT_LT(attempts, 20);
}

TEST(cubin_bundle, gives_back_what_was_put_in) {
  const std::vector<std::string> cubins{"first", std::string(33, 'x'), ""};
  const auto object = bundle_of(cubins);
  const auto found = cubins_in(object).value();
  EXPECT_THAT(found, ElementsAre(cubins[0], cubins[1], cubins[2]));
  for (const auto cubin : found)
    EXPECT_EQ((cubin.data() - object.data()) % 16, 0);
  EXPECT_EQ(bundle_of({"one"}), "one");
  EXPECT_THAT(cubins_in("one").value(), ElementsAre("one"));
}

TEST(cubin_bundle, damage_is_found) {
  const auto object = bundle_of({"first", "second"});
  for (std::size_t bytes = 16; bytes < object.size(); ++bytes)
    EXPECT_FALSE(cubins_in(object.substr(0, bytes))) << bytes;
  EXPECT_FALSE(cubins_in(object + "x"));
  for (const std::size_t at : {16, 24, 32}) {
    auto changed = object;
    changed.replace(at, 8, 8, '\xff');
    EXPECT_FALSE(cubins_in(changed)) << at;
  }
}

}  // namespace
}  // namespace cudal1::test
