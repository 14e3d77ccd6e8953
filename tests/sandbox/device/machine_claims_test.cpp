// Claims between the processes of a machine.
#include "sandbox/device/machine_claims.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/temporary_folder.hpp"

namespace cudal1 {
namespace {

// A process that takes a claim and keeps it until it is killed; -1 if it cannot take it.
int spawn_holder(const std::string& folder, const std::string& name) {
  int ready[2];
  if (::pipe(ready) != 0) return -1;
  const int pid = ::fork();
  if (pid == 0) {
    auto claims = machine_claims::open(folder);
    const char took = claims && claims->take(name) ? 'y' : 'n';
    if (::write(ready[1], &took, 1) != 1 || took == 'n') ::_exit(1);
    for (;;)
      ::pause();
  }
  char took = 'n';
  const bool answered = ::read(ready[0], &took, 1) == 1;
  ::close(ready[0]);
  ::close(ready[1]);
  if (answered && took == 'y') return pid;
  ::waitpid(pid, nullptr, 0);
  return -1;
}

TEST(machine_claims, what_another_process_has_is_refused_until_it_is_killed) {
  const temporary_folder folder;
  const int holder = spawn_holder(folder.path(), "GPU-1");
  ASSERT_GT(holder, 0);
  auto claims = machine_claims::open(folder.path());
  ASSERT_TRUE(claims) << claims.error().message;
  const auto refused = claims->take("GPU-1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::already_exists);
  EXPECT_THAT(refused.error().message, testing::HasSubstr(std::to_string(holder)));
  EXPECT_TRUE(claims->take("GPU-2"));
  EXPECT_TRUE(claims->take("GPU-2")) << "its own";
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  EXPECT_TRUE(claims->take("GPU-1"));
}

TEST(machine_claims, what_is_given_back_can_be_taken_by_another_process) {
  const temporary_folder folder;
  auto claims = machine_claims::open(folder.path());
  ASSERT_TRUE(claims);
  ASSERT_TRUE(claims->take("core-1"));
  EXPECT_EQ(spawn_holder(folder.path(), "core-1"), -1);
  claims->give_back("core-1");
  const int holder = spawn_holder(folder.path(), "core-1");
  ASSERT_GT(holder, 0);
  EXPECT_FALSE(claims->take("core-1"));
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
}

TEST(machine_claims, a_link_in_the_folder_is_not_followed) {
  const temporary_folder folder;
  ASSERT_EQ(::symlink("/etc/hostname", (folder / "GPU-1").c_str()), 0);
  auto claims = machine_claims::open(folder.path());
  ASSERT_TRUE(claims);
  const auto refused = claims->take("GPU-1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::io_error);
}

}  // namespace
}  // namespace cudal1
