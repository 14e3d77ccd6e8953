// The cache of compiled objects.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/cpu/compiler/compiler_process.hpp"
#include "sandbox/device/code_cache.hpp"
#include "tests/sandbox/cpu/compiler/harness.hpp"

namespace cudal1::test {
namespace {

namespace fs = std::filesystem;

expected<std::unique_ptr<host_compiler>> compiler_with(const std::string& path, const std::string& cache_folder) {
  host_compiler_options options;
  options.compiler = path;
  options.cache_folder = cache_folder;
  return host_compiler::create(options);
}

const std::string source = "__global__ void k(float* y) { y[threadIdx.x] = 1.f; }";

std::vector<fs::path> files_in(const std::string& folder) {
  std::vector<fs::path> found;
  for (const auto& e : fs::recursive_directory_iterator(folder))
    if (e.is_regular_file()) found.push_back(e.path());
  return found;
}

TEST(ObjectCache, ServesTheSecondCompilationInAnyProcess) {
  const auto folder = std::move(*private_folder::create());
  const auto first = std::move(*compiler_with("", folder.path() + "/objects"));
  const auto second = std::move(*compiler_with("", folder.path() + "/objects"));
  const auto made = first->compile(program_of(source));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_FALSE(made->cached);
  const auto found = second->compile(program_of(source));
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->cached);
  EXPECT_EQ(found->object, made->object);
  EXPECT_FALSE(second->compile(program_of(source + "// changed\n__constant__ int x = 3;"))->cached);
}

TEST(ObjectCache, DamagedFilesAreCompiledAgain) {
  const auto folder = std::move(*private_folder::create());
  const auto host = std::move(*compiler_with("", folder.path()));
  const auto made = host->compile(program_of(source));
  ASSERT_TRUE(made);
  const auto files = files_in(folder.path());
  ASSERT_EQ(files.size(), 1u);
  for (const bool truncate : {false, true}) {
    if (truncate) {
      fs::resize_file(files[0], fs::file_size(files[0]) / 2);
    } else {
      std::fstream f(files[0], std::ios::in | std::ios::out | std::ios::binary);
      f.seekp(2000);
      f.put('\x55');
    }
    const auto again = host->compile(program_of(source));
    ASSERT_TRUE(again);
    EXPECT_FALSE(again->cached);
    EXPECT_EQ(again->object, made->object);
    EXPECT_TRUE(host->compile(program_of(source))->cached);
  }
}

TEST(ObjectCache, DropsTheOldestWhenItGrowsPastItsLimit) {
  const auto folder = std::move(*private_folder::create());
  auto cache = std::move(*code_cache::open(folder.path(), 100000));
  const auto key = [](int i) { return fmt::format("{:064x}", i); };
  const std::string object(5000, 'x');
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 65; ++i) {  // the 1st and the 65th prune
    ASSERT_TRUE(cache.store(key(i), object));
    for (const auto& f : files_in(folder.path()))
      if (f.filename().string().starts_with(key(i))) fs::last_write_time(f, now - std::chrono::hours(100 - i));
  }
  EXPECT_LE(files_in(folder.path()).size(), 20u);
  EXPECT_FALSE(cache.find(key(0)));
  EXPECT_EQ(cache.find(key(60)), object);
}

TEST(ObjectCache, ThatCannotBeWrittenDoesNotFailACompilation) {
  const auto folder = std::move(*private_folder::create());
  const auto host = std::move(*compiler_with("", folder.path()));
  const auto source = "__global__ void k(float* y) { y[0] = 1; }";
  fs::remove_all(folder.path());
  std::ofstream(folder.path()) << "a file is where the folder was";
  const auto made = host->compile(program_of(source));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_FALSE(made->object.empty());
  EXPECT_THAT(made->log, testing::HasSubstr("the cache: cannot write"));
  fs::remove(folder.path());
  EXPECT_FALSE(host->compile(program_of(source))->cached);
  EXPECT_TRUE(host->compile(program_of(source))->cached);
}

TEST(ObjectCache, FailuresAreNotKept) {
  const auto folder = std::move(*private_folder::create());
  const auto host = std::move(*compiler_with("", folder.path()));
  EXPECT_FALSE(host->compile(program_of("__global__ void k(float* y) { y[0] = nothing; }")));
  EXPECT_FALSE(host->compile(program_of("__device__ int n; __global__ void k(float* y) { y[0] = n++; }")));
  EXPECT_TRUE(files_in(folder.path()).empty());
}

TEST(HostCompiler, DescribesItselfAndRefusesAMissingCompiler) {
  EXPECT_THAT(compiler().describe(), testing::HasSubstr("-march="));
  EXPECT_FALSE(compiler_with("/nonexistent/g++", ""));
  const auto empty = compile("  \n");
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->object.empty());
}

}  // namespace
}  // namespace cudal1::test
