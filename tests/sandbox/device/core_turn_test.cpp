// Turns on a core that several processes use.
#include "sandbox/device/core_turn.hpp"

#include <csignal>
#include <string>

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/temporary_folder.hpp"

namespace cudal1 {
namespace {

class core_turns : public testing::Test {
 protected:
  core_turns() : machine_(machine_claims::open(folder_.path())), cancel_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  core_turn turn(int core = 1) const { return core_turn::open(*machine_, core).value(); }

  // A process that takes turns, each of which it announces with a letter; it goes on after a letter from here.
  struct other {
    int pid = -1, announces = -1, waits = -1;
    char heard() const {
      char letter = 0;
      return ::read(announces, &letter, 1) == 1 ? letter : '-';
    }
    bool has_announced() const {
      pollfd entry{announces, POLLIN, 0};
      return ::poll(&entry, 1, 0) > 0;
    }
    void go_on() const { EXPECT_EQ(::write(waits, "x", 1), 1); }
    void end() const {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  };
  other start_other(int turns) const {
    int up[2], down[2];
    EXPECT_EQ(::pipe(up) + ::pipe(down), 0);
    const int pid = ::fork();
    if (pid == 0) {
      core_turn mine = turn();
      char letter = 0;
      for (int i = 0; i < turns; ++i) {
        if (!mine.take(cancel_.get()) || ::write(up[1], "t", 1) != 1 || ::read(down[0], &letter, 1) != 1) ::_exit(1);
        mine.give_back();
      }
      for (;;)
        ::pause();
    }
    ::close(up[1]);
    return {pid, up[0], down[1]};
  }

  // Until somebody waits for a turn.
  void wait_for_queue() const {
    const auto queue = machine_->open_file("queue-core-1").value();
    while (::flock(queue.get(), LOCK_EX | LOCK_NB) == 0) {
      ::flock(queue.get(), LOCK_UN);
      ::sched_yield();
    }
  }

  temporary_folder folder_;
  expected<machine_claims> machine_;
  unique_fd cancel_;
};

TEST_F(core_turns, who_waits_goes_before_who_wants_another_turn) {
  const other first = start_other(2);
  EXPECT_EQ(first.heard(), 't');
  const other second = start_other(1);
  wait_for_queue();
  EXPECT_FALSE(second.has_announced());
  first.go_on();  // it gives the turn back, and wants another one at once
  EXPECT_EQ(second.heard(), 't');
  EXPECT_FALSE(first.has_announced());
  second.go_on();
  EXPECT_EQ(first.heard(), 't') << "its second one";
  first.end();
  core_turn mine = turn();
  EXPECT_TRUE(mine.take(cancel_.get())) << "the turn of a process that was killed has ended";
  EXPECT_TRUE(mine.take(cancel_.get())) << "it has it already";
  second.end();
}

TEST_F(core_turns, another_core_is_free) {
  const other theirs = start_other(1);
  EXPECT_EQ(theirs.heard(), 't');
  core_turn elsewhere = turn(0);
  EXPECT_TRUE(elsewhere.take(cancel_.get()));
  theirs.end();
}

TEST_F(core_turns, waiting_ends_with_a_cancellation) {
  const other theirs = start_other(1);
  EXPECT_EQ(theirs.heard(), 't');
  const uint64_t one = 1;
  ASSERT_EQ(::write(cancel_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  core_turn mine = turn();
  const auto taken = mine.take(cancel_.get());
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, errc::cancelled);
  theirs.end();
}

}  // namespace
}  // namespace cudal1
