#include "policy/chat/chat_budget.hpp"

#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cudal1 {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(chat_budget, reserves_the_most_and_settles_what_was_used) {
  const auto budget = chat_budget::make(1000, 0);
  auto one = budget->reserve({100, 600, 0});
  ASSERT_TRUE(one && *one);
  const auto two = budget->reserve({100, 600, 0});
  ASSERT_TRUE(two);
  EXPECT_FALSE(*two) << "it fits once the first has settled";
  int told = 0;
  const auto listener = budget->on_room([&] { ++told; });
  (*one)->settle({50, 20, 0});
  EXPECT_EQ(told, 1);
  EXPECT_EQ(budget->spent().tokens(), 70);
  EXPECT_TRUE(*budget->reserve({100, 600, 0}));
  budget->forget(listener);
}

TEST(chat_budget, what_cannot_fit_any_more_is_an_error_with_the_limit_and_what_was_spent) {
  const auto tokens = chat_budget::make(1000, 0, {.prompt_tokens = 300, .answer_tokens = 400, .money = 1});
  const auto a = tokens->reserve({100, 300, 0});
  ASSERT_FALSE(a);
  EXPECT_EQ(a.error().code, errc::out_of_budget);
  EXPECT_THAT(a.error().message,
              AllOf(HasSubstr("700 of 1000 tokens"), HasSubstr("may need 400"), HasSubstr("llm.budget_tokens")));
  EXPECT_TRUE(tokens->reserve({100, 200, 0}));
  const auto money = chat_budget::make(0, 1.5, {.prompt_tokens = 0, .answer_tokens = 0, .money = 1});
  const auto b = money->reserve({1, 1, 0.6});
  ASSERT_FALSE(b);
  EXPECT_THAT(b.error().message, AllOf(HasSubstr("1.0000 of 1.5000"), HasSubstr("llm.budget_money")));
  EXPECT_TRUE(money->reserve({1, 1, 0.5}));
}

TEST(chat_budget, a_lost_try_is_charged_and_the_next_one_must_still_fit) {
  const auto budget = chat_budget::make(1000, 0);
  {
    auto room = budget->reserve({100, 400, 0});
    EXPECT_TRUE((*room)->charge({100, 300, 0}));
    const auto again = (*room)->charge({100, 100, 0});
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, errc::out_of_budget);
  }
  EXPECT_EQ(budget->spent().tokens(), 600) << "an unsettled reservation costs nothing more";
  EXPECT_TRUE(*budget->reserve({0, 400, 0}));
}

TEST(chat_budget, is_never_exceeded_by_many_threads) {
  const auto budget = chat_budget::make(0, 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i)
        if (auto room = budget->reserve({1, 1, 0.003}); room && *room) (*room)->settle({1, 1, 0.003});
    });
  for (auto& t : threads)
    t.join();
  EXPECT_LE(budget->spent().money, 1 + 1e-6);
  EXPECT_GE(budget->spent().money, 0.99);
}

}  // namespace
}  // namespace cudal1
