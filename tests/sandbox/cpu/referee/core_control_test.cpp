#include "sandbox/cpu/referee/core_control.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/thread_cores.hpp"

namespace cudal1 {
namespace {

using testing::ElementsAre;

class core_control_on_this_machine : public testing::Test {
 protected:
  void TearDown() override { (void)move_this_thread(before_); }

  const std::vector<int> before_ = cores_of_this_thread();
};

TEST_F(core_control_on_this_machine, waits_on_another_core) {
  if (before_.size() < 2) GTEST_SKIP() << "there is one core only";
  const auto cores = core_control::create({.timing_core = before_.back(), .other_cores = {before_.front()}});
  ASSERT_TRUE(cores) << cores.error().message;
  EXPECT_FALSE(cores->is_shared()) << "it can busy-wait on one other core";
  EXPECT_THAT(cores_of_this_thread(), ElementsAre(before_.front()));
}

TEST_F(core_control_on_this_machine, shares_the_timing_core_if_there_is_no_other) {
  ASSERT_FALSE(before_.empty());
  const auto cores = core_control::create({.timing_core = before_.back(), .other_cores = {}});
  ASSERT_TRUE(cores) << cores.error().message;
  EXPECT_TRUE(cores->is_shared());
  EXPECT_THAT(cores_of_this_thread(), ElementsAre(before_.back()));
}

}  // namespace
}  // namespace cudal1
