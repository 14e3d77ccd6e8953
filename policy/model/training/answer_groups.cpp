#include "policy/model/training/answer_groups.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "config/base/split_mix.hpp"
#include "config/base/stopwatch.hpp"
#include "config/base/utf8.hpp"
#include "policy/model/constraint/token_masks.hpp"

namespace cudal1 {

namespace {

// An episode that goes on.
struct open_episode {
  std::size_t number = 0;
  training_prompt prompt;
};

// Answers of one round, by open episode.
struct written_answers {
  std::vector<std::string> texts;
  std::vector<text_episode> turns;
};

// Notes for each answer what was allowed in each place.
token_constraint noted(token_constraint given, std::vector<std::vector<std::vector<uint32_t>>>& allowed) {
  return [given = std::move(given), &allowed](std::size_t answer, std::span<const token> so_far,
                                              std::span<uint32_t> bits) {
    const bool is_limited = given(answer, so_far, bits);
    auto& of = allowed[answer];
    of.resize(so_far.size());  // a place is asked for once; a step that is repeated asks again
    of.push_back(is_limited ? std::vector<uint32_t>(bits.begin(), bits.end()) : std::vector<uint32_t>());
    return is_limited;
  };
}

// The turn of an answer. A token that alone was allowed was not chosen: it is given.
text_episode turn_of(const std::vector<token>& prompt, const generated_tokens& made,
                     const std::vector<std::vector<uint32_t>>* allowed) {
  text_episode out{prompt, {}};
  for (std::size_t i = 0; i < made.tokens.size(); ++i) {
    const auto* bits = allowed != nullptr && i < allowed->size() ? &(*allowed)[i] : nullptr;
    const auto choices = bits == nullptr || bits->empty()
                             ? 2
                             : std::accumulate(bits->begin(), bits->end(), 0,
                                               [](int sum, uint32_t word) { return sum + std::popcount(word); });
    if (choices > 1) {
      out.written.push_back(std::ssize(out.tokens));
      out.sampled.push_back(made.log_probability[i]);
      if (allowed != nullptr) out.allowed.push_back(bits != nullptr ? *bits : std::vector<uint32_t>());
    }
    out.tokens.push_back(made.tokens[i]);
  }
  return out;
}

expected<written_answers> write(const language_model& by, const local_checkpoint& files,
                                const std::vector<open_episode>& open, const group_options& how, uint64_t seed,
                                generation_report& sum) {
  std::vector<std::vector<token>> prompts;
  std::vector<token_constraint> constraints;  // by answer; none: everything is allowed
  std::map<const byte_automaton*, std::shared_ptr<const token_masks>> masks;
  for (const auto& each : open) {
    CUDAL1_TRY(prompts.emplace_back(), files.chat().prompt_of(each.prompt.messages));
    const auto count = std::ssize(prompts.back());
    if (count + how.answer_tokens > files.shape().context)
      return fail(errc::invalid_argument,
                  "the prompt of {} has {} tokens and the answer may have {}, but the model's context is {}; take "
                  "shorter answers or fewer exemplars",
                  each.prompt.task, count, how.answer_tokens, files.shape().context);
    auto& constraint = constraints.emplace_back();
    if (!each.prompt.shape) continue;
    auto& known = masks[each.prompt.shape.get()];
    if (!known) {
      CUDAL1_TRY(auto words, files.trie());
      known = std::make_shared<const token_masks>(std::move(words), each.prompt.shape);
    }
    CUDAL1_TRY(constraint, constraint_of(known, how.answer_tokens, files.chat().ends()));
  }
  generation_options options{.temperature = how.temperature,
                             .top_p = how.top_p,
                             .most_tokens = how.answer_tokens,
                             .end = files.chat().ends(),
                             .seed = seed};
  std::vector<std::vector<std::vector<uint32_t>>> allowed(open.size());
  if (!masks.empty())
    options.constraint = noted(
        [&constraints](std::size_t answer, std::span<const token> so_far, std::span<uint32_t> bits) {
          return constraints[answer] && constraints[answer](answer, so_far, bits);
        },
        allowed);
  CUDAL1_TRY(auto made, by.generate(prompts, options, 1));
  sum.prompt_tokens += made.report.prompt_tokens;
  sum.answer_tokens += made.report.answer_tokens;
  sum.prompt_seconds += made.report.prompt_seconds;
  sum.answer_seconds += made.report.answer_seconds;
  written_answers out;
  for (std::size_t i = 0; i < open.size(); ++i) {
    out.texts.push_back(replace_invalid_utf8(files.chat().words().decode(made.answers[i].tokens)));
    out.turns.push_back(turn_of(prompts[i], made.answers[i], masks.empty() ? nullptr : &allowed[i]));
  }
  return out;
}

}  // namespace

expected<answer_groups> answered(const language_model& by, const local_checkpoint& files, answer_judge& judge,
                                 training_stage stage, const group_options& how, uint64_t seed) {
  if (how.prompts < 1 || how.group < 1 || how.answer_tokens < 1 || how.repair_rounds < 0)
    return fail(errc::invalid_argument, "{} prompts, {} answers, {} tokens or {} rounds of repairs do not fit",
                how.prompts, how.group, how.answer_tokens, how.repair_rounds);
  answer_groups out;
  std::vector<open_episode> open;
  for (int64_t p = 0; p < how.prompts; ++p) {
    CUDAL1_TRY(const auto prompt, judge.next_prompt(stage, split_mix(seed + static_cast<uint64_t>(p))));
    out.tasks.push_back(prompt.task);
    for (int64_t i = 0; i < how.group; ++i) {
      open.push_back({out.episodes.size(), prompt});
      out.episodes.emplace_back().prompt = static_cast<std::size_t>(p);
    }
  }
  for (int64_t round = 0; !open.empty(); ++round) {
    const stopwatch generating;
    CUDAL1_TRY(auto written, write(by, files, open, how, split_mix(seed ^ split_mix(static_cast<uint64_t>(round) + 1)),
                                   out.generated));
    out.generate_s += generating.ms() / 1000;
    const stopwatch judging;
    std::vector<open_episode> next;
    for (std::size_t first = 0; first < open.size();) {
      // Those to one prompt are judged together; a repair's prompt is its own.
      std::size_t end = first + 1;
      while (round == 0 && end < open.size() &&
             out.episodes[open[end].number].prompt == out.episodes[open[first].number].prompt)
        ++end;
      CUDAL1_TRY(auto judged,
                 judge.judge(open[first].prompt, std::span(written.texts).subspan(first, end - first), round));
      if (judged.size() != end - first)
        return fail(errc::infrastructure, "{} of {} answers were judged", judged.size(), end - first);
      for (std::size_t i = first; i < end; ++i) {
        auto& e = out.episodes[open[i].number];
        e.turns.push_back(std::move(written.turns[i]));
        e.claim = std::move(judged[i - first].claim);
        e.problem = std::move(judged[i - first].problem);
        if (auto& repair = judged[i - first].repair; repair && round < how.repair_rounds)
          next.push_back({open[i].number, std::move(*repair)});
      }
      first = end;
    }
    out.judge_s += judging.ms() / 1000;
    open = std::move(next);
  }
  for (std::size_t p = 0; p < out.tasks.size(); ++p) {
    std::vector<reward_member> claims;
    const auto first = p * static_cast<std::size_t>(how.group);
    for (std::size_t i = 0; i < static_cast<std::size_t>(how.group); ++i)
      claims.push_back(out.episodes[first + i].claim);
    CUDAL1_TRY(const auto paid, judge.pay(claims));
    const auto advantages = advantages_of(paid, how.advantage);
    for (std::size_t i = 0; i < claims.size(); ++i) {
      auto& e = out.episodes[first + i];
      e.score = paid.members[i].score;
      e.is_paid = paid.members[i].counts;
      for (auto& turn : e.turns)
        turn.weight = advantages[i];
    }
  }
  return out;
}

}  // namespace cudal1
