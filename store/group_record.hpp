// A group: the proposals of one prompt, and what their policy was paid for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "store/exemplars.hpp"

namespace cudal1 {

// What answers of a language model took.
struct answer_cost {
  int64_t answers = 0;
  int64_t prompt_tokens = 0, answer_tokens = 0;
  double money = 0;    // in the currency of the configured prices
  double seconds = 0;  // from the request to the last token, summed up
  int64_t cached = 0;  // of the answers: they were given before, and nothing was paid again
  // Of local models: the part of `seconds` that prompts took, and the most memory of keys and values, and of weights.
  double prompt_seconds = 0;
  int64_t cache_bytes = 0, model_bytes = 0;
  void add(const answer_cost& other);
};
BOOST_DESCRIBE_STRUCT(answer_cost, (),
                      (answers, prompt_tokens, answer_tokens, money, seconds, cached, prompt_seconds, cache_bytes,
                       model_bytes))

// The proposals of one prompt. Stored before the policy is asked.
struct group_record {
  std::string id;  // "e3/12": of the experiment, ascending from 1
  std::string experiment, task;
  std::string prompt;   // blob: the prompt as it was shown; "" if the policy needs none
  std::string policy;   // its name
  std::string lineage;  // what the policy learned from: "" or the name of its stored state, "learned/e3"
  std::string model;    // that was asked, where a policy has several
  int64_t policy_version = 0;
  int64_t asked = 0;  // proposals
  int64_t island = no_island;
  std::vector<std::string> exemplars;  // ids of the variants that the prompt shows
  std::string repairs;                 // id of the variant that it asks to repair; "" if of none
  int64_t round = 0;                   // of repairs, from 1; 0: new variants are asked for
  uint64_t seed = 0;
  int64_t time_unix_ms = 0;
  bool closed = false;  // every proposal has a verdict, or will not come
  answer_cost cost;     // once it is closed
};
BOOST_DESCRIBE_STRUCT(group_record, (),
                      (id, experiment, task, prompt, policy, lineage, model, policy_version, asked, island, exemplars,
                       repairs, round, seed, time_unix_ms, closed, cost))

// What the members of a group were paid, as the learner received it. By variant, in one order.
struct reward_record {
  std::string group;  // group_record::id
  std::string experiment, task;
  std::vector<std::string> variants;    // ids
  std::vector<int64_t> attempts;        // the number of the attempt whose verdict was paid; 0: none
  std::vector<double> scores, rewards;  // the score that the rule made of the samples, and what was paid
  std::string rule;                     // the rules with all constants, as text (reward_rules)
  double mean = 0, deviation = 0;       // of the paid scores
  double floor = 0;                     // under the deviation
  int64_t policy_version = 0;           // that the rewards were for
  int64_t time_unix_ms = 0;
};
BOOST_DESCRIBE_STRUCT(reward_record, (),
                      (group, experiment, task, variants, attempts, scores, rewards, rule, mean, deviation, floor,
                       policy_version, time_unix_ms))

}  // namespace cudal1
