// What is closed while kernels run, and that it is as before afterwards.
#include "sandbox/cpu/runtime/memory_lock.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>

#include <gtest/gtest.h>
#include <unistd.h>

#include "sandbox/cpu/runtime/launch_stack.hpp"

namespace cudal1 {
namespace {

int variable_of_this_program = 1;

class memory_lock_test : public testing::Test {
 protected:
  void SetUp() override {
    usable_ = static_cast<int*>(::aligned_alloc(4096, 4096));
    usable_[0] = 3;
    const memory_range range = memory_range::of(usable_, 4096);
    lock_ = std::move(memory_lock::create({&range, 1}).value());
    stack_ = std::move(launch_stack::create().value());
  }
  void TearDown() override { ::free(usable_); }

  // Runs `work` with all else closed.
  template <class Work>
  void closed(const Work& work) {
    const memory_range range = stack_->range();
    ASSERT_TRUE(lock_->prepare({&range, 1}));
    stack_->run([&] {
      const Work mine = work;
      memory_lock::close();
      mine();
      memory_lock::reopen();
    });
    lock_->restore_thread_memory();
  }

  int* usable_ = nullptr;
  std::unique_ptr<memory_lock> lock_;
  std::unique_ptr<launch_stack> stack_;
};

TEST_F(memory_lock_test, what_is_usable_stays_open_and_all_else_opens_again) {
  auto on_heap = std::make_unique<int>(5);
  int* const usable = usable_;
  closed([=] { usable[1] = usable[0] + 1; });
  EXPECT_EQ(usable_[1], 4);
  *on_heap = 6;
  variable_of_this_program = 2;
  EXPECT_EQ(*on_heap + variable_of_this_program, 8);
}

TEST_F(memory_lock_test, the_heap_cannot_be_read_nor_variables_written) {
  const auto on_heap = std::make_unique<volatile int>(5);
  int here = 7;
  for (volatile int* const place : {static_cast<volatile int*>(on_heap.get()), static_cast<volatile int*>(&here)}) {
    int* const usable = usable_;
    EXPECT_EXIT(closed([=] { usable[1] = *place; }), testing::KilledBySignal(SIGSEGV), "");
  }
  EXPECT_EXIT(closed([] { variable_of_this_program = 2; }), testing::KilledBySignal(SIGSEGV), "");
  int* const usable = usable_;
  closed([=] { usable[1] = variable_of_this_program; });
  EXPECT_EQ(usable_[1], variable_of_this_program);
}

TEST_F(memory_lock_test, thread_local_variables_have_their_values_again) {
  errno = EINTR;
  closed([] { errno = ERANGE; });
  EXPECT_EQ(errno, EINTR);
}

TEST_F(memory_lock_test, a_handler_of_a_signal_opens_memory) {
  stack_t stack{};
  stack.ss_sp = lock_->signal_stack().data();
  stack.ss_size = lock_->signal_stack().size();
  ASSERT_EQ(::sigaltstack(&stack, nullptr), 0);
  struct sigaction action {};
  action.sa_handler = [](int) {
    memory_lock::reopen();
    ::_exit(variable_of_this_program = 9);
  };
  action.sa_flags = SA_ONSTACK;
  ASSERT_EQ(::sigaction(SIGSEGV, &action, nullptr), 0);
  EXPECT_EXIT(closed([] { variable_of_this_program = 2; }), testing::ExitedWithCode(9), "");
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace
}  // namespace cudal1
