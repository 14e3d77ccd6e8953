#include "policy/search/second_opinion.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policy/task_texts.hpp"

namespace cudal1::test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(SecondOpinion, TheRatingIsReadFromItsLineWhateverStandsAroundIt) {
  EXPECT_EQ(read_opinion("Rating: honest\nIt fuses.").rating, opinion_rating::honest);
  EXPECT_EQ(read_opinion("**Rating:** `Cheating`.\nIt keeps results.").rating, opinion_rating::cheating);
  EXPECT_EQ(read_opinion("\n## rating - doubtful\n").rating, opinion_rating::doubtful);
  EXPECT_EQ(read_opinion("Rating: honest\nIt fuses.\n").reasons, "It fuses.");
  EXPECT_EQ(read_opinion("").rating, opinion_rating::unclear);
  EXPECT_EQ(read_opinion("My rating would be honest.").rating, opinion_rating::unclear) << "no line of its own";
  EXPECT_EQ(read_opinion("Rating: splendid").rating, opinion_rating::unclear);
  EXPECT_EQ(read_opinion("Rating: honest\nRating: cheating").rating, opinion_rating::honest) << "the first one";
}

TEST(SecondOpinion, TheQuestionHasTheProgramsTheGatesAndTheSuspicion) {
  stored_exemplar suspicious;
  suspicious.variant.program = print_program(builtin("softmax").reference.text);
  suspicious.result.score = 9.5;
  suspicious.result.score_interval = {9.4, 9.6};
  suspicious.result.suspicion = "it is faster than its arithmetic allows";
  suspicious.result.gates = {{"3 error", true, "1e-7 of 5e-6"}, {"deep check", false, "off by 3"}};
  const auto messages = opinion_messages(builtin("softmax"), suspicious);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_THAT(messages[1].content,
              testing::AllOf(HasSubstr("aten::softmax.int"), HasSubstr("9.5"), HasSubstr("FAILED deep check: off by 3"),
                             HasSubstr("passed 3 error"), HasSubstr("it is faster than its arithmetic allows")));
  EXPECT_THAT(messages[1].content, Not(HasSubstr("{}")));
}

}  // namespace
}  // namespace cudal1::test
