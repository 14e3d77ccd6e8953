// The stages of a training on text, with a judge that needs no node: chats, own answers, groups with repairs; stopped
// and resumed.
#include "policy/model/training/text_stages.hpp"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>

#include "tests/policy/model/tiny_model.hpp"
#include "tests/temporary_folder.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

template <class T>
T value_of(expected<T> made) {
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

// Answers are two letters and a point. One of them is paid more than the others, some are wrong, and one is doubted.
class letter_judge final : public answer_judge {
 public:
  letter_judge() {
    const auto letter = byte_pattern::any_of("abc");
    shape_ = std::make_shared<const byte_automaton>(
        value_of(byte_automaton::make(byte_pattern::sequence({letter, letter, byte_pattern::text(".")}))));
  }
  expected<training_prompt> next_prompt(training_stage stage, uint64_t) override {
    ++prompts[stage];
    return training_prompt{"letters", {{"user", "write"}}, shape_};
  }
  expected<std::vector<judged_answer>> judge(const training_prompt& to, std::span<const std::string> answers,
                                             int64_t round) override {
    std::vector<judged_answer> out;
    for (const auto& a : answers) {
      texts.push_back(a);
      judged_answer& j = out.emplace_back();
      j.claim.result = a.front() == 'c' ? outcome::wrong_answer : outcome::correct;
      j.claim.score = j.claim.result == outcome::correct ? (a == "ba." ? 2.0 : 1.0) : 0.0;
      if (a == "ac.") j.claim.score = 50, j.claim.doubt = "too fast to be true";
      if (j.claim.result != outcome::correct && round < repair_rounds) {
        j.repair = to;
        j.repair->messages.push_back({"user", "repair"});
      }
    }
    return out;
  }
  expected<paid_group> pay(std::span<const reward_member> group) override {
    paid_group g;
    for (const auto& m : group) {
      paid_member p;
      p.counts = m.doubt.empty();
      p.score = p.value = p.counts ? m.score : 0;
      g.members.push_back(p);
    }
    pay_values(g);
    return g;
  }

  int64_t repair_rounds = 0;
  std::map<training_stage, int> prompts;
  std::vector<std::string> texts;

 private:
  std::shared_ptr<const byte_automaton> shape_;
};

class stages_of_text : public testing::Test {
 protected:
  stages_of_text() : model(folder.path() + "/model") {
    write_tiny_model(model, 1, 2048, 12);
    files = value_of(local_checkpoint::open(model));
    sampler = value_of(language_model::open(model, model_precision::float32));
  }
  std::unique_ptr<text_trainer> new_trainer() const {
    return value_of(text_trainer::open(model, {.adapter = adapter_options{.rank = 8, .alpha = 16}}));
  }
  text_stages made(text_trainer& trainer, const stages_options& how) {
    return value_of(text_stages::make({&trainer, sampler.get(), files.get(), &judge}, chats, how));
  }

  temporary_folder folder;
  std::string model;
  std::shared_ptr<const local_checkpoint> files;
  std::unique_ptr<language_model> sampler;
  letter_judge judge;
  std::vector<training_chat> chats = {{{{"user", "write"}, {"assistant", "ab."}}},
                                      {{{"system", "be short"}, {"user", "write"}, {"assistant", "ba."}}}};
};

stages_options some_stages() {
  stages_options how;
  how.steps = {6, 2, 30};
  how.batch = 2;
  how.rate = 3e-3;
  how.warm_up = 0;
  how.kl_weight = 0;
  how.groups.group = 16;
  how.groups.answer_tokens = 8;
  return how;
}

TEST_F(stages_of_text, the_best_answer_is_what_the_model_writes_in_the_end) {
  const auto trainer = new_trainer();
  auto stages = made(*trainer, some_stages());
  std::vector<stage_progress> steps;
  ASSERT_TRUE(stages.run([&](const stage_progress& p) {
    steps.push_back(p);
    return true;
  }));
  ASSERT_EQ(steps.size(), 38u);
  EXPECT_TRUE(stages.finished());
  EXPECT_LT(steps[5].report.loss, steps[0].report.loss) << "chats were learned";
  EXPECT_EQ(steps[5].answers, 0);
  EXPECT_EQ(steps[6].stage, training_stage::self_supervised);
  EXPECT_EQ(judge.prompts[training_stage::self_supervised], 2);
  EXPECT_EQ(judge.prompts[training_stage::contrastive], 30);
  EXPECT_EQ(steps.back().answers, 16);
  EXPECT_GT(steps.back().mean, 1.7);
  EXPECT_EQ(steps.back().best, 2) << "what is doubted is no best";
  EXPECT_LT(steps.back().report.sampler_gap, 1e-4);
  EXPECT_NEAR(steps.back().generating + steps.back().training + steps.back().waiting, 1, 0.2);
}

TEST_F(stages_of_text, repairs_and_their_answer_are_one_episode) {
  judge.repair_rounds = 2;
  group_options how{.group = 12, .repair_rounds = 2, .answer_tokens = 8};
  const auto groups = value_of(answered(*sampler, *files, judge, training_stage::contrastive, how, 3));
  ASSERT_EQ(groups.episodes.size(), 12u);
  std::size_t turns = 0, repaired = 0;
  double sum = 0;
  for (const auto& e : groups.episodes) {
    turns += e.turns.size();
    ASSERT_GE(e.turns.size(), 1u);
    ASSERT_LE(e.turns.size(), 3u);
    for (const auto& t : e.turns) {
      EXPECT_EQ(t.weight, e.turns.front().weight) << "one reward for all turns";
      EXPECT_EQ(t.written.size(), t.sampled.size());
      EXPECT_EQ(t.written.size(), t.allowed.size());
    }
    if (e.turns.size() > 1) {
      ++repaired;
      EXPECT_GT(e.turns[1].tokens.size(), e.turns[0].tokens.size()) << "the prompt says what to repair";
    }
    if (e.is_paid)
      sum += e.turns.front().weight;
    else
      EXPECT_EQ(e.turns.front().weight, 0);
  }
  EXPECT_EQ(turns, judge.texts.size());
  EXPECT_GT(repaired, 0u);
  EXPECT_NEAR(sum, 0, 1.6) << "normalised within the group, but for clipping";
}

TEST_F(stages_of_text, a_stopped_training_goes_on_bit_for_bit) {
  auto how = some_stages();
  how.steps = {3, 2, 4};
  how.groups.advantage = advantage_rule::leave_one_out;
  const auto whole = new_trainer(), first = new_trainer(), second = new_trainer();
  std::vector<double> losses, resumed;
  auto all = made(*whole, how);
  ASSERT_TRUE(all.run([&](const stage_progress& p) {
    losses.push_back(p.report.loss);
    return true;
  }));
  const std::string kept = folder.path() + "/kept";
  auto begun = made(*first, how);
  ASSERT_TRUE(begun.run([&](const stage_progress& p) {
    resumed.push_back(p.report.loss);
    return resumed.size() < 6;
  }));
  ASSERT_TRUE(begun.save(kept));
  auto rest = made(*second, how);
  ASSERT_TRUE(rest.load(kept));
  EXPECT_EQ(rest.steps_done(), 6);
  ASSERT_TRUE(rest.run([&](const stage_progress& p) {
    resumed.push_back(p.report.loss);
    return true;
  }));
  EXPECT_EQ(losses, resumed);
  const auto a = value_of(whole->adapter()), b = value_of(second->adapter());
  for (const auto& [name, pair] : a.pairs)
    EXPECT_TRUE(pair.a == b.pairs.at(name).a && pair.b == b.pairs.at(name).b) << name;
  how.rate = 1;
  const auto third = new_trainer();
  auto other = made(*third, how);
  EXPECT_THAT(other.load(kept).error().message, HasSubstr("other options"));
}

TEST_F(stages_of_text, only_answers_of_a_chat_are_written) {
  const training_chat line{{{"user", "x"}, {"assistant", "in"}, {"user", "y"}, {"assistant", "void"}}};
  const auto texts = value_of(texts_of(line, files->chat()));
  ASSERT_EQ(texts.size(), 2u);
  const auto& words = files->chat().words();
  for (std::size_t i = 0; i < 2; ++i) {
    std::vector<token> written;
    for (const int64_t place : texts[i].written)
      written.push_back(texts[i].tokens[static_cast<std::size_t>(place)]);
    EXPECT_EQ(words.decode(written), i == 0 ? "in" : "void");
    EXPECT_EQ(written.back(), files->chat().ends().front()) << "it learns to end";
    EXPECT_EQ(texts[i].written.back(), std::ssize(texts[i].tokens) - 1);
  }
}

TEST_F(stages_of_text, what_does_not_fit_is_refused_with_its_reason) {
  const std::string file = folder.path() + "/chats.jsonl";
  const auto message = [&](const std::string& text) {
    write_file(file, text);
    const auto read = read_chat_lines(file);
    return read ? std::string() : read.error().message;
  };
  EXPECT_THAT(message("{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n"), HasSubstr("line 1"));
  EXPECT_THAT(message("\n{"), HasSubstr("line 2"));
  EXPECT_THAT(message(""), HasSubstr("no chats"));
  EXPECT_EQ(message("{\"messages\": [{\"role\": \"assistant\", \"content\": \"x\"}], \"task\": \"t\"}\n"), "");
  const auto trainer = new_trainer();
  const auto refused = [&](const stages_options& how) {
    return text_stages::make({trainer.get(), sampler.get(), files.get(), &judge}, chats, how).error().message;
  };
  auto how = some_stages();
  how.groups.group = 1;
  EXPECT_THAT(refused(how), HasSubstr("group of 1"));
  how = some_stages();
  how.steps.pop_back();
  EXPECT_THAT(refused(how), HasSubstr("3 stages"));
  chats.clear();
  EXPECT_THAT(refused(some_stages()), HasSubstr("no chat"));
}

}  // namespace
}  // namespace cudal1
