// What disturbed a core, in words.
#include "sandbox/verify/disturbance.hpp"

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

core_sharing shared_core(double others_ms, std::vector<core_user> users) {
  core_sharing s;
  s.core = 3;
  s.watched_ms = 1000;
  s.others_ms = others_ms;
  s.users = std::move(users);
  return s;
}

core_user user(int pid, const char* name, double ms) {
  core_user u;
  u.pid = pid;
  u.name = name;
  u.ms = ms;
  return u;
}

TEST(disturbance, names_processes_by_their_share_and_says_what_is_not_known) {
  EXPECT_EQ(describe(shared_core(970, {user(7, "cc1plus", 80), user(9, "ld", 4)})),
            "core 3, on which it was timed, was used by other processes for 97% of the time (cc1plus, process 7: 8%; "
            "and processes that have ended or moved to other cores: 89%)");
  EXPECT_EQ(describe(shared_core(500, {user(7, "cc1plus", 480)})),
            "core 3, on which it was timed, was used by other processes for 50% of the time (cc1plus, process 7: 48%)");
  EXPECT_EQ(describe(shared_core(500, {})),
            "core 3, on which it was timed, was used by other processes for 50% of the time (processes that have "
            "ended or moved to other cores: 50%)");
  EXPECT_EQ(describe(shared_core(20, {user(7, "cc1plus", 20)})), "") << "as good as nothing";
}

TEST(disturbance, is_added_up_by_process) {
  core_sharing all = shared_core(100, {user(7, "a", 60), user(8, "b", 30)});
  add(all, shared_core(200, {user(8, "b", 90), user(9, "c", 20), user(10, "d", 10)}));
  EXPECT_EQ(all.watched_ms, 2000);
  EXPECT_EQ(all.others_ms, 300);
  ASSERT_EQ(all.users.size(), 3U);
  EXPECT_EQ(all.users[0].pid, 8);
  EXPECT_EQ(all.users[0].ms, 120);
  EXPECT_EQ(all.users[2].pid, 9);
}

}  // namespace
}  // namespace cudal1
