// The grammar of answers: what it allows is what can be answered, and nothing else.
#include "policy/contrastive/answer_grammar.hpp"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/moves/lowering.hpp"
#include "policy/search/random_source.hpp"
#include "tests/policy/contrastive/synthetic_space.hpp"

namespace cudal1::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<std::string> some_tasks = {"softmax", "mlp", "gated_silu", "huber_loss", "linear_gelu"};

candidate_set candidates_of(const std::string& name) {
  const auto space = space_of(builtin(name), for_cuda(), 128);
  return candidate_set(space.schedules, space.programs);
}

candidate_bits all_of(const candidate_set& of) {
  candidate_bits out;
  for (std::size_t c = 0; c < of.size(); ++c)
    out.set(c);
  return out;
}

TEST(CandidateSet, KeepsEverySchedule) {
  for (const auto& name : some_tasks) {
    const auto space = space_of(builtin(name), for_cuda(), 128);
    const candidate_set all(space.schedules, space.programs);
    EXPECT_EQ(all.size(), space.schedules.size() - 1) << name << ": all but the task's own program";
    std::size_t with_decisions = 0;
    for (std::size_t c = 0; c < all.size(); ++c) {
      EXPECT_EQ(all.find(all.program(c)), c);
      with_decisions += all.decisions_of(c).empty() ? 0 : 1;
      for (const std::size_t d : all.decisions_of(c))
        EXPECT_TRUE(all.with_decision(d).test(c));
    }
    EXPECT_GT(with_decisions, all.size() / 2) << name;
    EXPECT_EQ(all.find("none"), all.size());
  }
}

// Every candidate as a supervised answer: written, read back word by word, each word legal.
TEST(AnswerGrammar, EveryCandidateCanBeAnsweredAfterAnyExemplars) {
  random_source random(1);
  for (const auto& name : some_tasks) {
    const candidate_set all = candidates_of(name);
    const answer_words words(all, vocabulary::standard());
    for (std::size_t wanted = 0; wanted < all.size(); ++wanted) {
      std::vector<std::size_t> exemplars;
      std::vector<double> scores;
      candidate_bits open = all_of(all);
      for (std::size_t i = 0; i < wanted % 5; ++i) {
        const std::size_t e = random.below(all.size());
        if (e == wanted || !open.test(e)) continue;
        open.reset(e);
        exemplars.push_back(e);
        scores.push_back(random.unit());
      }
      written_answer a{std::nullopt, wanted};
      if (!exemplars.empty()) a.analysis = analysis_of(all, exemplars, scores, wanted);
      auto decisions = all.decisions_of(wanted);
      std::ranges::reverse(decisions);
      answer_reader_state state(words, exemplars, open);
      for (const token t : words.write(a, decisions)) {
        ASSERT_TRUE(std::ranges::binary_search(state.legal().tokens, t)) << name << ", candidate " << wanted;
        ASSERT_TRUE(state.add(t));
      }
      ASSERT_TRUE(state.complete());
      EXPECT_EQ(state.answer().candidate, wanted);
      EXPECT_THAT(state.legal().tokens, IsEmpty());
      if (a.analysis) {
        EXPECT_EQ(state.answer().analysis->fastest, a.analysis->fastest);
        EXPECT_EQ(state.answer().analysis->keep, a.analysis->keep);
        EXPECT_EQ(state.answer().analysis->change, a.analysis->change);
      }
    }
  }
}

// Random walks through what is legal: each ends in a candidate that is open and follows its own analysis.
TEST(AnswerGrammar, WhateverIsLegalEndsInAnOpenCandidateThatFollowsTheAnalysis) {
  random_source random(2);
  for (const auto& name : some_tasks) {
    const candidate_set all = candidates_of(name);
    const answer_words words(all, vocabulary::standard());
    for (int walk = 0; walk < 4000; ++walk) {
      candidate_bits open;
      for (int i = 0; i < 1 + walk % 9; ++i)
        open.set(random.below(all.size()));
      std::vector<std::size_t> exemplars;
      for (int i = 0; i < walk % 4; ++i)
        if (const std::size_t e = random.below(all.size()); !open.test(e)) exemplars.push_back(e);
      answer_reader_state state(words, exemplars, open);
      for (int i = 0; !state.complete(); ++i) {
        ASSERT_LT(i, 90);
        const auto legal = state.legal().tokens;
        ASSERT_FALSE(legal.empty());
        ASSERT_TRUE(state.add(random.pick(legal)));
      }
      const auto& a = state.answer();
      ASSERT_TRUE(open.test(a.candidate)) << name;
      ASSERT_EQ(a.analysis.has_value(), !exemplars.empty());
      if (!a.analysis) continue;
      const std::size_t fastest = exemplars[a.analysis->fastest];
      for (const int d : a.analysis->keep)
        ASSERT_TRUE(d < 0 ? all.implementation_of(a.candidate) == all.implementation_of(fastest)
                          : all.with_decision(static_cast<std::size_t>(d)).test(a.candidate));
      for (const int n : a.analysis->change)
        if (n < 0) {
          ASSERT_NE(all.implementation_of(a.candidate), all.implementation_of(fastest));
        }
    }
  }
}

// Estimates of the tasks of a space: the candidates' times in an order that has nothing to do with their numbers.
candidate_prior any_prior(const candidate_set& of) {
  std::vector<float> logits;
  for (std::size_t c = 0; c < of.size(); ++c)
    logits.push_back(-static_cast<float>(c * 7919 % of.size()));
  return candidate_prior(std::move(logits));
}

TEST(AnswerGrammar, AWordHasThePriorOfTheBestCandidateThatItLeaves) {
  random_source random(3);
  for (const auto& name : some_tasks) {
    const candidate_set all = candidates_of(name);
    const answer_words words(all, vocabulary::standard());
    const candidate_prior prior = any_prior(all);
    for (int walk = 0; walk < 50; ++walk) {
      candidate_bits open;
      for (int i = 0; i < 1 + walk % 20; ++i)
        open.set(random.below(all.size()));
      // Without an analysis, which may ask for something else than the best, the most probable words lead to the best.
      answer_reader_state state(words, {}, open, &prior);
      while (!state.complete()) {
        const auto [tokens, priors] = state.legal();
        ASSERT_EQ(tokens.size(), priors.size());
        const auto best = std::ranges::max_element(priors);
        ASSERT_EQ(*best, prior.best_of(open));
        ASSERT_TRUE(state.add(tokens[static_cast<std::size_t>(best - priors.begin())]));
      }
      EXPECT_EQ(state.answer().candidate, prior.best_candidate_of(open)) << name;
    }
    EXPECT_THAT(answer_reader_state(words, {}, all_of(all)).legal().prior, IsEmpty());
  }
}

TEST(AnswerGrammar, RefusesWhatIsNotLegal) {
  const candidate_set all = candidates_of("softmax");
  const answer_words words(all, vocabulary::standard());
  answer_reader_state state(words, {}, all_of(all));
  const auto refused = state.add(vocabulary::standard().of(frame::keep));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("<keep> is not legal here"));
  EXPECT_THAT(state.legal().tokens, ElementsAre(vocabulary::standard().of(frame::candidate))) << "it is as before";
  EXPECT_THAT(answer_reader_state(words, {}, {}).legal().tokens, IsEmpty()) << "no candidate is open";
}

TEST(AnswerGrammar, AnAnalysisIsReadAsSentences) {
  const candidate_set all = candidates_of("softmax");
  const auto holding = [&](const std::string& text) {
    for (std::size_t c = 0; c < all.size(); ++c)
      if (print_schedule(all.plan(c)) == text) return c;
    throw std::runtime_error("the space has no schedule " + text);
  };
  const std::size_t plain = holding("row_kernel(steps=0); graph()");
  const std::size_t tuned = holding("row_kernel(steps=0); graph(); block(group=0, threads=512)");
  const std::vector<std::size_t> exemplars = {plain, tuned};
  const std::vector<double> scores = {1.2, 1.5};
  const std::size_t next = holding("row_kernel(steps=0); graph(); block(group=0, threads=1024)");
  const auto a = analysis_of(all, exemplars, scores, next);
  EXPECT_EQ(a.fastest, 1u);
  EXPECT_THAT(a.keep, ElementsAre(whole_implementation));
  EXPECT_EQ(analysis_text(all, exemplars, scores, a),
            "Of 2 exemplars, B is taken as the fastest (1.50x); it alone has block 512. Kept: its implementation. "
            "Changed: block.");
}

TEST(Vocabulary, SpellsWhatItDoesNotKnow) {
  const vocabulary& words = vocabulary::standard();
  std::vector<token> spelled;
  words.append("softmax_w", spelled);
  EXPECT_EQ(spelled.size(), 11u);
  EXPECT_EQ(spelled.front(), words.of(frame::spell));
  spelled.clear();
  words.append("graph", spelled);
  EXPECT_EQ(spelled.size(), 1u);
  EXPECT_FALSE(vocabulary::of(std::vector<std::string>{"graph"}));
  auto again = words.words();
  again.push_back("graph");
  EXPECT_FALSE(vocabulary::of(again));
  EXPECT_TRUE(vocabulary::of(words.words()));
}

}  // namespace
}  // namespace cudal1::test
