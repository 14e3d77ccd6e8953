// The bundle that `cmake --install` creates: it still runs after a move, and reports what it lacks.
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "tests/tools/tools_fixture.hpp"

namespace cudal1::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct shell_result {
  int code = -1;
  std::string text;  // standard output and standard error
};

// Runs a command in an environment without variables of the build.
shell_result shell(const std::string& command) {
  const std::string whole =
      "env -u LD_LIBRARY_PATH -u CUDAL1_TASKS -u CUDAL1_DATA -u CUDAL1_TORCH sh -c '" + command + "' 2>&1";
  shell_result r;
  std::FILE* pipe = ::popen(whole.c_str(), "re");
  if (pipe == nullptr) return r;
  char part[4096];
  for (std::size_t got = 0; (got = std::fread(part, 1, sizeof part, pipe)) > 0;)
    r.text.append(part, got);
  const int status = ::pclose(pipe);
  r.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return r;
}

class bundle : public testing::Test {
 protected:
  // Installs once, then renames the folder.
  static void SetUpTestSuite() {
    folder_ = new temporary_folder;
    const auto installed =
        shell(std::string(CUDAL1_CMAKE) + " --install " + CUDAL1_BUILD + " --prefix " + (*folder_ / "first"));
    ASSERT_EQ(installed.code, 0) << installed.text;
    fs::rename(*folder_ / "first", *folder_ / "moved");
  }
  static void TearDownTestSuite() { delete std::exchange(folder_, nullptr); }
  static std::string at(const std::string& path) { return *folder_ / ("moved/" + path); }

  static temporary_folder* folder_;
};
temporary_folder* bundle::folder_ = nullptr;

TEST_F(bundle, holds_the_programs_their_libraries_and_the_tasks_in_less_than_78_mib) {
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(*folder_ / "moved")) {
    if (!entry.is_regular_file() || entry.is_symlink()) continue;
    bytes += entry.file_size();
    const auto name = entry.path().filename().string();
    for (const char* foreign : {"libc.so", "libm.so", "ld-linux", "libtorch", "libc10", "libcu", "libnv"})
      EXPECT_FALSE(name.starts_with(foreign) && !name.starts_with("libcudal1")) << name << " is the target machine's";
  }
  EXPECT_LT(bytes, std::uintmax_t{78} << 20);
  for (const char* file :
       {"bin/cudal1", "bin/cudal1-node", "bin/cudal1-worker", "bin/cudal1-cuda-worker", "bin/cudal1-replay",
        "bin/cudal1-setup", "lib/libstdc++.so.6", "lib/libcudal1_language_model.so", "lib/libcudal1_cpu_kernels.so",
        "share/cudal1/models/contrastive.json", "share/cudal1/tasks/softmax.json",
        "share/cudal1/examples/row_scale.cu1", "share/cudal1/python/import_tasks.py",
        "share/cudal1/python/torch_package/runtime/program.py", "share/cudal1/python/importing/passes.py"})
    EXPECT_TRUE(fs::exists(at(file))) << file;
}

TEST_F(bundle, its_programs_use_its_libraries_in_any_folder) {
  const auto version = shell(at("bin/cudal1") + " --version");
  EXPECT_EQ(version.code, 0) << version.text;
  EXPECT_EQ(shell(at("bin/cudal1-node") + " --version").code, 0);
  EXPECT_THAT(shell(at("bin/cudal1") + " tasks").text, HasSubstr("diagonal_matmul"));
  for (const char* program : {"cudal1", "cudal1-node", "cudal1-worker", "cudal1-cuda-worker", "cudal1-replay"}) {
    const auto libraries = shell("ldd " + at("bin/") + program).text;
    EXPECT_THAT(libraries, HasSubstr(*folder_ / "moved/bin/../lib/libstdc++.so.6")) << program;
    EXPECT_THAT(libraries, Not(HasSubstr(CUDAL1_TORCH_FOLDER))) << program << " still looks into the build";
  }
}

TEST_F(bundle, without_libtorch_doctor_says_so_and_with_it_a_device_starts) {
  const auto doctor =
      at("bin/cudal1") + " doctor --device cpu --set device.allow_weak_confinement=true --data " + (*folder_ / "data");
  const auto before = shell(doctor);
  EXPECT_EQ(before.code, 1) << before.text;
  EXPECT_THAT(before.text, AllOf(HasSubstr("libtorch"), HasSubstr("cudal1-setup")));
  const auto refused = shell(at("bin/cudal1-setup") + " " + (*folder_ / "nowhere"));
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.text, HasSubstr("neither a torch folder nor a python"));
  const auto set_up = shell(at("bin/cudal1-setup") + " " + CUDAL1_TORCH_FOLDER);
  ASSERT_EQ(set_up.code, 0) << set_up.text;
  EXPECT_THAT(shell(doctor + " --json").text, HasSubstr("LibTorch 2.11"));
}

}  // namespace
}  // namespace cudal1::cli
