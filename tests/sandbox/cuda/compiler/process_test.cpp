// The processes that compile: the cache, several callers, a zygote that is lost.
#include <csignal>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "sandbox/cuda/compiler/compile_process.hpp"
#include "tests/sandbox/cuda/compiler/harness.hpp"

namespace cudal1::test {
namespace {

using testing::HasSubstr;

class temporary_folder {
 public:
  temporary_folder() : path_(testing::TempDir() + "cudal1-nvrtc-" + std::to_string(::getpid())) {
    std::filesystem::remove_all(path_);
  }
  ~temporary_folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::unique_ptr<nvrtc_compiler> make(const std::string& architecture, const std::string& folder) {
  nvrtc_compiler_options options;
  options.architecture = architecture;
  options.cache_folder = folder;
  auto made = nvrtc_compiler::create(options);
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

TEST(cache, returns_the_same_cubin_resources_and_log) {
  const temporary_folder folder;
  const auto compiler = make("sm_80", folder.path());
  const auto p = program_of(in_kernel("__shared__ float s[8]; s[n & 7] = y[0]; int unused; y[1] = s[0];"));
  const auto first = compiler->compile(p);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_FALSE(first->cached);
  const auto second = compiler->compile(p);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_TRUE(second->cached);
  EXPECT_EQ(second->object, first->object);
  EXPECT_EQ(second->log, first->log);
  ASSERT_EQ(second->resources.size(), 1u);
  EXPECT_EQ(second->resources[0].registers, first->resources[0].registers);
  EXPECT_EQ(second->resources[0].static_shared_bytes, 32);
  // Another source, other headers, another architecture: none of them uses this entry.
  EXPECT_FALSE(compiler->compile(program_of(p.text.source + "\n// more\n"))->cached);
  const auto with_headers = compiler->compile(program_of(p.text.source, {"cuda"}));
  EXPECT_TRUE(!with_headers || !with_headers->cached);
  const auto other = make("sm_90", folder.path());
  const auto elsewhere = other->compile(p);
  ASSERT_TRUE(elsewhere);
  EXPECT_FALSE(elsewhere->cached);
  EXPECT_NE(elsewhere->object, first->object);
}

TEST(cache, holds_nothing_that_was_refused) {
  const temporary_folder folder;
  const auto compiler = make("sm_80", folder.path());
  const auto p = program_of(in_kernel("y[0] = (float)clock64();"));
  for (int i = 0; i < 2; ++i) {
    const auto made = compiler->compile(p);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, errc::refused);
  }
}

TEST(compiler, describes_itself) {
  EXPECT_THAT(compiler_for("sm_90a").describe(), HasSubstr("NVRTC 13"));
  EXPECT_THAT(compiler_for("sm_90a").describe(), HasSubstr("sm_90a"));
}

TEST(compiler, refuses_invalid_options) {
  nvrtc_compiler_options options;
  options.architecture = "sm_12345";
  const auto unknown = nvrtc_compiler::create(options);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, errc::unsupported) << unknown.error().message;
  EXPECT_THAT(unknown.error().message, HasSubstr("sm_12345"));
  options.architecture = "compute_90";
  EXPECT_EQ(nvrtc_compiler::create(options).error().code, errc::invalid_argument);
  options.architecture = "sm_90";
  options.processes = 0;
  EXPECT_EQ(nvrtc_compiler::create(options).error().code, errc::invalid_argument);
  options.processes = 1;
  options.worker = "/nowhere/cudal1-worker";
  EXPECT_EQ(nvrtc_compiler::create(options).error().code, errc::not_found);
}

TEST(compiler, serves_several_threads_at_once) {
  auto& compiler = compiler_for("sm_90a");
  std::vector<std::thread> threads;
  std::vector<std::string> problems(6);
  for (std::size_t t = 0; t < problems.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 3; ++i) {
        const bool bad = (t + static_cast<std::size_t>(i)) % 3 == 0;
        const auto value = std::to_string(t * 10 + static_cast<std::size_t>(i)) + ".5f";
        const auto made = compiler.compile(program_of(in_kernel("y[0] = " + value + (bad ? " +;" : ";"))));
        if (bad == made.has_value()) problems[t] = made ? "compiled what is wrong" : made.error().message;
        if (bad && !made && made.error().message.find(value) == std::string::npos)
          problems[t] = "another program's error: " + made.error().message;
      }
    });
  for (auto& thread : threads)
    thread.join();
  for (const auto& problem : problems)
    EXPECT_EQ(problem, "");
}

TEST(processes, are_started_again_after_the_zygote_was_lost) {
  compile_settings settings;
  settings.architecture = "sm_80";
  const auto started = compile_processes::start("", settings);
  ASSERT_TRUE(started) << started.error().message;
  const compile_request request{"extern \"C\" __global__ void k(float* y) { y[0] = 1.0f; }\n", {}};
  ASSERT_TRUE((*started)->run(request));
  const int lost = (*started)->zygote();
  ::kill(lost, SIGKILL);
  const auto again = (*started)->run(request);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->status, compile_status::compiled);
  EXPECT_NE((*started)->zygote(), lost);
}

}  // namespace
}  // namespace cudal1::test
