// Messages to the store, and its answers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/evaluation_records.hpp"
#include "store/store.hpp"

namespace cudal1::message {

struct keep_task {
  task_record record;
};
BOOST_DESCRIBE_STRUCT(keep_task, (), (record))

// Of a search over several models: the first experiment leads, and the records of the others will name it.
struct create_experiments {
  std::vector<experiment_record> records;
};
BOOST_DESCRIBE_STRUCT(create_experiments, (), (records))

struct created_experiments {
  std::vector<experiment_record> records;
};
BOOST_DESCRIBE_STRUCT(created_experiments, (), (records))

struct save_experiment {
  experiment_record record;
};
BOOST_DESCRIBE_STRUCT(save_experiment, (), (record))

// Loads everything that an experiment needs to be resumed.
struct load_experiment {
  std::string experiment;
};
BOOST_DESCRIBE_STRUCT(load_experiment, (), (experiment))

struct loaded_experiment {
  experiment_record record;
  std::vector<task_record> tasks;
  std::vector<tally_record> tallies;
  std::vector<variant_record> unfinished;  // variants with lost or withdrawn attempts and no verdict
  std::vector<group_record> open_groups;   // that the policy is asked for again
  std::map<std::string, int64_t> groups;   // how many each task has, by its id
  answer_cost spent;                       // on the answers of all closed groups
};
BOOST_DESCRIBE_STRUCT(loaded_experiment, (), (record, tasks, tallies, unfinished, open_groups, groups, spent))

struct list_running {
  bool all = true;
};
BOOST_DESCRIBE_STRUCT(list_running, (), (all))

struct running_experiments {
  std::vector<experiment_record> records;
};
BOOST_DESCRIBE_STRUCT(running_experiments, (), (records))

struct reserve_attempt {
  variant_record variant;
  std::string experiment;
  std::string reuse_class;   // of environments, of which a verdict may be reused; "": none may
  bool second_look = false;  // it has a verdict in the experiment, and is measured again
};
BOOST_DESCRIBE_STRUCT(reserve_attempt, (), (variant, experiment, reuse_class, second_look))

struct reserved {
  attempt_record attempt;
  std::vector<verdict> known;  // one of another experiment, if there is one in that class
};
BOOST_DESCRIBE_STRUCT(reserved, (), (attempt, known))

// Ends an attempt without a verdict, as store::lose.
struct lose_attempt {
  attempt_record attempt;
  std::string note;
  attempt_loss how = attempt_loss::elsewhere;
};
BOOST_DESCRIBE_STRUCT(lose_attempt, (), (attempt, note, how))

struct commit_verdict {
  attempt_record attempt;
  verdict result;
  environment where;
};
BOOST_DESCRIBE_STRUCT(commit_verdict, (), (attempt, result, where))

struct put_baseline {
  baseline_record record;
  environment where;
};
BOOST_DESCRIBE_STRUCT(put_baseline, (), (record, where))

struct put_judged_file {
  judged_file record;
};
BOOST_DESCRIBE_STRUCT(put_judged_file, (), (record))

// Assigns the group's id.
struct put_group {
  group_record group;
};
BOOST_DESCRIBE_STRUCT(put_group, (), (group))

// Every proposal of the group has a verdict, or will not come.
struct close_group {
  std::string group;
  answer_cost cost;  // of its answers
};
BOOST_DESCRIBE_STRUCT(close_group, (), (group, cost))

// Empties the worse half of a task's islands, as store::reset_islands.
struct reset_islands {
  std::string task, environment_class;
  uint64_t seed = 0;
};
BOOST_DESCRIBE_STRUCT(reset_islands, (), (task, environment_class, seed))

struct put_rewards {
  reward_record rewards;
};
BOOST_DESCRIBE_STRUCT(put_rewards, (), (rewards))

struct best_score {
  std::string task, experiment;
  bool near_eager = false;  // of such variants alone (verdict::near_eager)
};
BOOST_DESCRIBE_STRUCT(best_score, (), (task, experiment, near_eager))

struct best_result {
  measured_score value;  // a score of 1, the reference's, without times if there is no confirmed variant
};
BOOST_DESCRIBE_STRUCT(best_result, (), (value))

// The state of an experiment's policy. `replaces`: the version that its learner started from or saved last; if another
// one is stored, nothing is saved (errc::already_exists).
struct save_policy {
  std::string name, experiment;
  int64_t version = 0, replaces = 0;
  std::string blob;
};
BOOST_DESCRIBE_STRUCT(save_policy, (), (name, experiment, version, replaces, blob))

// The state of the experiment's policy; before it has one, and unless it is `fresh`, the state that any experiment
// saved last.
struct load_policy {
  std::string name, experiment;
  bool fresh = false;
};
BOOST_DESCRIBE_STRUCT(load_policy, (), (name, experiment, fresh))

// A version of a policy: from the store, or from the learner to the generator.
struct policy_version {
  int64_t version = 0;
  std::string blob;
  int64_t saved_version = 0;  // of the experiment's own state in the store; 0 if it has none
};
BOOST_DESCRIBE_STRUCT(policy_version, (), (version, blob, saved_version))

// The record of a variant's first use.
struct load_variant {
  std::string variant;
};
BOOST_DESCRIBE_STRUCT(load_variant, (), (variant))

// Hack cases with a number above `after`: the newest of them, at most `limit`.
struct load_hack_cases {
  uint64_t after = 0;
  int64_t limit = 0;
};
BOOST_DESCRIBE_STRUCT(load_hack_cases, (), (after, limit))

struct hack_cases {
  std::vector<hack_case> items;  // oldest first
};
BOOST_DESCRIBE_STRUCT(hack_cases, (), (items))

struct note_event {
  event_record event;
};
BOOST_DESCRIBE_STRUCT(note_event, (), (event))

// The data folder. While `problem` says that there is no room, the store takes no new experiments and attempts.
struct disk_usage {
  int64_t used_bytes = 0, free_bytes = 0;
  int64_t quota_bytes = 0;  // 0: none
  std::string problem;      // "" while there is room
};
BOOST_DESCRIBE_STRUCT(disk_usage, (), (used_bytes, free_bytes, quota_bytes, problem))

// What the store has been given since the node started.
struct store_metrics_query {
  bool all = true;
};
BOOST_DESCRIBE_STRUCT(store_metrics_query, (), (all))

struct store_metrics {
  std::map<std::string, int64_t> verdicts;  // by outcome
  std::map<std::string, double> stage_ms;   // of these verdicts, summed
  std::map<std::string, int64_t> ended;     // attempts without a verdict, by attempt_loss
  int64_t changes = 0, batches = 0;         // written
  double write_ms = 0;                      // of all batches
  bool writable = true;
  disk_usage disk;
};
BOOST_DESCRIBE_STRUCT(store_metrics, (), (verdicts, stage_ms, ended, changes, batches, write_ms, writable, disk))

// One step of pruning, as store::prune.
struct prune_store {
  prune_rule rule;
  std::string from;
};
BOOST_DESCRIBE_STRUCT(prune_store, (), (rule, from))

}  // namespace cudal1::message
