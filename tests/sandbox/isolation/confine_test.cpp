#include "sandbox/isolation/confine.hpp"

#include <cerrno>
#include <csignal>
#include <filesystem>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/isolation/self_test.hpp"

namespace cudal1 {
namespace {

int status_of(auto&& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(confinement, every_escape_of_the_self_test_fails) {
  const auto items = test_confinement();
  ASSERT_TRUE(items) << items.error().message;
  int attempts = 0;
  for (const auto& item : *items) {
    EXPECT_TRUE(item.in_force || !item.required) << item.name << ": " << item.detail;
    attempts += item.name.starts_with("self-test: ") ? 1 : 0;
  }
  EXPECT_GE(attempts, 12);
  EXPECT_EQ(missing_confinement(*items), "");
}

TEST(confinement, missing_items_are_named) {
  const std::vector<confinement_item> items{{"seccomp", true, false, "denied"}, {"user namespace", false, false, "no"}};
  EXPECT_EQ(missing_confinement(items), "not in force: seccomp (denied)");
}

TEST(confinement, a_runner_that_opens_a_file_is_killed_by_sigsys) {
  const int status = status_of([] {
    const auto prepared = confinement::prepare({.role = confined_role::runner, .channel = 0});
    if (!prepared || prepared->enter().failed() != nullptr) return 9;
    return ::open("/etc/passwd", O_RDONLY) >= 0 ? 0 : 1;
  });
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(WTERMSIG(status), SIGSYS);
}

TEST(confinement, a_referee_reads_but_neither_writes_nor_connects_nor_executes) {
  const int status = status_of([] {
    const auto prepared = confinement::prepare({.role = confined_role::referee});
    if (!prepared || prepared->enter().failed() != nullptr) return 9;
    if (::open("/proc/self/status", O_RDONLY) < 0) return 1;
    if (::open("/tmp/cudal1-test-file", O_WRONLY | O_CREAT, 0600) >= 0) return 2;
    if (::socket(AF_INET, SOCK_STREAM, 0) >= 0) return 3;
    ::execl("/bin/true", "true", nullptr);
    return errno == EPERM || errno == EACCES ? 0 : 4;
  });
  EXPECT_EQ(status, 0);
}

TEST(confinement, a_referee_may_kill_runners_that_are_not_its_children) {
  const pid_t runner = ::fork();
  if (runner == 0) {
    for (;;)
      ::pause();
  }
  const unique_fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, runner, 0)));
  const int status = status_of([&] {
    const auto prepared = confinement::prepare({.role = confined_role::referee});
    if (!prepared || prepared->enter().failed() != nullptr) return 9;
    return ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0) == 0 ? 0 : errno;
  });
  EXPECT_EQ(status, 0);
  int ended = 0;
  if (status != 0) ::kill(runner, SIGTERM);
  ::waitpid(runner, &ended, 0);
  EXPECT_TRUE(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL) << ended;
}

TEST(confinement, a_compiler_reads_system_folders_and_writes_its_own_only) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("cudal1-confine-{}", ::getpid());
  std::filesystem::create_directory(folder);
  const std::string inside = (folder / "x").string(), outside = folder.string() + "-y";
  const int status = status_of([&] {
    confinement_options options{.role = confined_role::compiler};
    options.writable = {folder.string()};
    const auto prepared = confinement::prepare(options);
    if (!prepared) return 9;
    const auto result = prepared->enter();
    if (result.failed() != nullptr) return 9;
    if (::open("/etc/passwd", O_RDONLY) >= 0) return 1;
    if (::open(inside.c_str(), O_WRONLY | O_CREAT, 0600) < 0) return 2;
    if (::open(outside.c_str(), O_WRONLY | O_CREAT, 0600) >= 0) return 3;
    if (::socket(AF_INET, SOCK_STREAM, 0) >= 0) return 4;
    ::execl("/bin/true", "true", nullptr);
    return 5;
  });
  std::filesystem::remove_all(folder);
  std::filesystem::remove(outside);
  EXPECT_EQ(status, 0) << "exit code " << WEXITSTATUS(status);
}

TEST(confinement, a_limit_is_in_force) {
  const int status = status_of([] {
    confinement_options options{.role = confined_role::compiler};
    options.limits.cpu_seconds = 1;
    const auto prepared = confinement::prepare(options);
    if (!prepared || prepared->enter().failed() != nullptr) return 9;
    for (;;)
      asm volatile("");
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGXCPU);
}

TEST(confinement, a_parent_that_has_ended_is_a_failed_step) {
  confinement_options options{.role = confined_role::referee};
  options.expected_parent = 1;  // not the parent of the probe
  const auto items = probe_confinement(options);
  ASSERT_TRUE(items);
  EXPECT_NE(missing_confinement(*items).find("parent-death signal"), std::string::npos);
}

TEST(confinement, system_calls_have_names) {
  EXPECT_EQ(system_call_name(0), "read");
  EXPECT_EQ(system_call_name(99999), "call 99999");
}

}  // namespace
}  // namespace cudal1
