// The store: tasks, variants, verdicts with all raw samples and their environment, experiments, events, attempts and
// the policies' state, in RocksDB. One writer (a node); any number of readers in other processes while it runs.
//
// Durability: a write that was acknowledged survives kill -9 and power loss. Changes that are made together are one
// synced batch. Records are JSON; the schema's version is in the column family "meta".
//
// Threads: one at a time may change a store (in a node, the store actor). Any may read it, and sees what is on disk.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"
#include "config/base/json.hpp"
#include "sandbox/evaluation_records.hpp"
#include "store/baseline_record.hpp"
#include "store/exemplars.hpp"
#include "store/group_record.hpp"
#include "store/hack_case.hpp"
#include "store/judged_file.hpp"
#include "store/maintenance.hpp"
#include "store/opinion_record.hpp"
#include "store/pruning.hpp"
#include "store/search_priority.hpp"

namespace cudal1 {

struct task;

inline constexpr int store_schema_version = 5;
// The oldest one that is read as it is.
inline constexpr int oldest_readable_schema = 4;

struct task_record {
  std::string id, name, summary, family, profile;
  std::string text;  // canonical_text
};
BOOST_DESCRIBE_STRUCT(task_record, (), (id, name, summary, family, profile, text))
// The stored form of a task.
task_record record_of(const task& t);

struct variant_record {
  std::string id;                        // program id
  std::string task;                      // task id
  std::string program;                   // canonical text
  std::string schedule;                  // "" for a hand-written one
  std::string origin;                    // "policy random", "policy evolutionary", "hand: row_scale.cu1"
  std::vector<std::string> explanation;  // one line per move, with its certificate
  int64_t policy_version = 0;
  std::vector<std::string> parents;
  std::string experiment;
  json trace;  // the policy's own data, returned to it with the score
  int64_t time_unix_ms = 0;
  int64_t island = no_island;             // whose exemplars it was made from
  std::string group;                      // group_record::id of the proposals that it is one of; "" if of none
  std::string model;                      // the language model that wrote it; "" if none did
  std::string analysis;                   // the performance analysis that it was written from; "" if there is none
  std::string repairs;                    // id of the failed variant that it is to repair; "" if of none
  std::optional<double> log_probability;  // of its proposal, by the policy; none if that is not known
};
BOOST_DESCRIBE_STRUCT(variant_record, (),
                      (id, task, program, schedule, origin, explanation, policy_version, parents, experiment, trace,
                       time_unix_ms, island, group, model, analysis, repairs, log_probability))

// An earlier variant as a policy is shown it.
struct stored_exemplar {
  variant_record variant;
  verdict result;         // with details
  double similarity = 1;  // of the task that it is a variant of; 1 unless it is borrowed from another
};

struct exemplar_sample {
  std::vector<stored_exemplar> correct;  // best first
  std::vector<stored_exemplar> failed;   // newest first
  int64_t island = no_island;            // that they were drawn from
};

BOOST_DEFINE_ENUM_CLASS(experiment_state, running, finished, cancelled)

// The policy of an experiment that is one hand-written variant.
inline constexpr const char* hand_policy = "hand";

struct experiment_record {
  std::string id;                  // "e1", "e2", ... in order of creation
  std::string device;              // "cpu"
  std::string policy;              // "random", "evolutionary", "learned", or hand_policy
  std::vector<std::string> tasks;  // ids
  int64_t evaluations_per_task = 0;
  double time_limit_s = 0;       // of active time, across restarts; 0: none
  double device_s_per_task = 0;  // that a task's evaluations may hold devices; 0: no limit
  double active_s = 0;           // time that it has run so far
  uint64_t seed = 0;
  experiment_state state = experiment_state::running;
  int64_t created_unix_ms = 0, finished_unix_ms = 0;
  double policy_wait_s = 0;                  // of the active time: only the policy's answers were missing
  bool fresh_policy = false;                 // the policy starts without what it learned in other experiments
  std::vector<std::string> models;           // of a policy that has several
  std::string replays;                       // experiment whose prompts are given again, in their order; "" for none
  std::map<std::string, std::string> ended;  // tasks that got no more evaluations before the limits: why
  search_priority priority = search_priority::normal;
  std::string model;  // of the devices that it uses, since scores of two models are not comparable
  std::string lead;   // the experiment that leads, if this is one of a search over several models; else ""
  std::map<std::string, int64_t> imported;  // verdicts from another store: evaluations of each task there
  bool uses_parts = false;                  // schedules put together from the parts of its tasks are proposed first
  int64_t pruned_unix_ms = 0;  // when its records were pruned: what is left is what was worth keeping; 0: never
  std::string accuracy;        // that its variants are held to (sandbox/device/accuracy.hpp); "" in older records
};
BOOST_DESCRIBE_STRUCT(experiment_record, (),
                      (id, device, policy, tasks, evaluations_per_task, time_limit_s, device_s_per_task, active_s, seed,
                       state, created_unix_ms, finished_unix_ms, policy_wait_s, fresh_policy, models, replays, ended,
                       priority, model, lead, imported, uses_parts, pruned_unix_ms, accuracy))

BOOST_DEFINE_ENUM_CLASS(attempt_state, leased, finished, lost,
                        unrecorded,  // the device replays stored verdicts, and there is none of the variant
                        withdrawn)   // the experiment ended before it was on a device
// How an attempt ends without a verdict: lost to a fault, while the variant was resident on a device or elsewhere; or
// as the states of these names.
BOOST_DEFINE_ENUM_CLASS(attempt_loss, elsewhere, on_device, unrecorded, withdrawn)

// One try at an evaluation. Its key is (experiment, task, variant, number).
struct attempt_record {
  std::string experiment, task, variant;
  int number = 1;
  attempt_state state = attempt_state::leased;
  std::string
      note;  // why it was lost (an infrastructure fault, never a variant's) or withdrawn, or what is not recorded
  int64_t time_unix_ms = 0;
  bool on_device = true;  // if lost: while the variant was resident on a device, so it may be the cause
};
BOOST_DESCRIBE_STRUCT(attempt_record, (), (experiment, task, variant, number, state, note, time_unix_ms, on_device))
// Whether two records have the same key.
bool same_attempt(const attempt_record& a, const attempt_record& b);
// Its key with short ids, for logs: "e3/8d969eef6eca/0f3a11b2c4d5/1".
std::string attempt_name(const attempt_record& a);

// The verdicts of one task in one experiment, summed up with each commit.
struct tally_record {
  std::string experiment, task;
  int64_t evaluations = 0, correct = 0;
  int64_t reused = 0;        // of the evaluations: verdicts of other experiments
  int64_t lost = 0;          // attempts
  int64_t unrecorded = 0;    // attempts
  double best = 0;           // highest confirmed score; 0 if there is none
  std::string best_variant;  // that has it
  std::map<std::string, int64_t> outcomes;
  std::map<std::string, double> stage_ms;  // sums
  void add(const verdict& v);
};
BOOST_DESCRIBE_STRUCT(tally_record, (),
                      (experiment, task, evaluations, correct, reused, lost, unrecorded, best, best_variant, outcomes,
                       stage_ms))

struct event_record {
  int64_t sequence = 0;  // assigned by the store, ascending
  int64_t time_unix_ms = 0;
  std::string kind;  // "experiment", "verdict", "best", "fault", "unrecorded", "withdrawn", "node"
  std::string experiment, task, variant;
  std::string text;  // one line
};
BOOST_DESCRIBE_STRUCT(event_record, (), (sequence, time_unix_ms, kind, experiment, task, variant, text))

struct store_statistics {
  int64_t changes = 0, synced_batches = 0;  // of this writer
};

// The attempts at variants.
class attempt_store {
 public:
  virtual ~attempt_store() = default;

  // Reserves the next attempt at a variant for an experiment, and keeps the variant, also in its group if that is of
  // this experiment (errc::not_found if there is no such group). errc::already_exists if the
  // experiment has a verdict of it, or an attempt in flight; errc::variant_fault if two attempts were lost while it was
  // resident on a device, or twenty in all (the caller commits a `quarantined` verdict).
  virtual expected<attempt_record> reserve(const variant_record& v, const std::string& experiment) = 0;
  // Reserves another attempt at a variant that has a verdict in the experiment, to measure it again. Its errors are
  // reserve()'s, but for errc::already_exists because of a verdict.
  virtual expected<attempt_record> reserve_again(const variant_record& v, const std::string& experiment) = 0;
  // Ends an attempt without a verdict. A lost or withdrawn one is repeated when the experiment is resumed, an
  // unrecorded one is not; only lost ones count.
  using loss = attempt_loss;
  virtual expected<void> lose(const attempt_record& a, const std::string& note, loss where) = 0;
  // The verdict, its raw samples, its place in the score index, the attempt's end and the event: one synced batch, and
  // on disk when this returns. A second commit of the same attempt changes nothing.
  virtual expected<void> commit(const attempt_record& a, const verdict& v, const environment& where) = 0;
};

class store : public attempt_store {
 public:
  // The only writer. errc::already_exists if another process has it open; errc::corrupt if the schema is newer than
  // ours. Creates the folder, and converts a store of an older schema. Attempts that were leased when the last writer
  // died are marked lost.
  static expected<std::unique_ptr<store>> open(const std::string& folder);
  // A reader (a RocksDB secondary), with or without a running writer. refresh() catches up with the writer.
  static expected<std::unique_ptr<store>> open_reader(const std::string& folder);
  virtual expected<void> refresh() = 0;

  virtual expected<void> put_task(const task_record& t) = 0;
  virtual expected<task_record> get_task(const std::string& id) = 0;
  virtual expected<std::vector<task_record>> tasks() = 0;

  // Assigns the id.
  virtual expected<experiment_record> create_experiment(experiment_record e) = 0;
  virtual expected<void> update_experiment(const experiment_record& e) = 0;
  virtual expected<experiment_record> get_experiment(const std::string& id) = 0;
  virtual expected<std::vector<experiment_record>> experiments() = 0;

  virtual expected<variant_record> get_variant(const std::string& id) = 0;
  // The variant with a unique prefix of an id, at least 4 characters.
  virtual expected<variant_record> find_variant(const std::string& prefix) = 0;
  // Its record for each task and experiment that used it, oldest first.
  virtual expected<std::vector<variant_record>> uses_of_variant(const std::string& id) = 0;
  // A verdict's details are what may be large: checks, samples, gates, resources, notes and the compiler's log. A
  // summary has none of them.
  enum class verdict_parts { summary, all };
  // With details, oldest first.
  virtual expected<std::vector<verdict>> verdicts_of_variant(const std::string& variant) = 0;
  struct recorded_verdict {
    std::string experiment;
    verdict result;
  };
  // The variant's verdicts with their experiments; `task` "" is any.
  virtual expected<std::vector<recorded_verdict>> recorded_verdicts(const std::string& task,
                                                                    const std::string& variant) = 0;
  // Oldest first. `experiment` "" is any.
  virtual expected<std::vector<verdict>> verdicts_of_task(const std::string& task, const std::string& experiment = "",
                                                          verdict_parts parts = verdict_parts::summary) = 0;
  // The tallies of an experiment, or of all (""): one record per task. The time does not depend on the number of
  // verdicts.
  virtual expected<std::vector<tally_record>> tallies(const std::string& experiment = "") = 0;
  // Whether the experiment has an attempt at the variant, in any state: what a proposal is checked against.
  virtual expected<bool> has_attempt(const std::string& experiment, const std::string& task,
                                     const std::string& variant) = 0;
  virtual expected<std::vector<attempt_record>> attempts(const std::string& experiment) = 0;  // all states
  // The last attempts at variants that have no verdict: leased, or lost.
  virtual expected<std::vector<attempt_record>> unfinished_attempts(const std::string& experiment) = 0;

  struct ranked {
    verdict result;  // a summary
    variant_record variant;
  };
  // All correct variants; those with a confirmed verdict; those of them that are near eager (verdict::near_eager).
  enum class ranking { all, confirmed, near_eager };
  // Correct variants of a task, best first: by score, of which the highest 16 and more are compared at one pace of the
  // host (sandbox/verify/compared_scores.hpp). `experiment` "" is any, but what was accepted in half precision, which
  // has a ranking of its own (ranking_scopes.hpp); replayed verdicts are only in the rankings of their experiments. A
  // variant with several verdicts is ranked by the newest confirmed one, or the newest. The time depends on `limit`
  // only.
  virtual expected<std::vector<ranked>> best(const std::string& task, std::size_t limit, ranking among,
                                             const std::string& experiment = "") = 0;
  virtual expected<environment> get_environment(const std::string& id) = 0;

  // The newest conclusive verdict (is_conclusive) of a variant on a task in a class of environments, with details; its
  // `reused_from` is the experiment that measured it. Nothing if there is none. The time does not depend on the number
  // of verdicts.
  virtual expected<std::optional<verdict>> verdict_in_class(const std::string& task, const std::string& variant,
                                                            const std::string& environment_class) = 0;

  // All verdicts of a variant on a task in an experiment, with details, by attempt.
  virtual expected<std::vector<verdict>> verdicts_in_experiment(const std::string& experiment, const std::string& task,
                                                                const std::string& variant) = 0;

  // An opinion of a suspicious variant; one of the same attempt is replaced.
  virtual expected<void> put_opinion(const opinion_record& o) = 0;
  virtual expected<std::vector<opinion_record>> opinions_of_variant(const std::string& variant) = 0;

  // Keeps a hack case with the next id, unless there is one of its variant and class, which is then the answer.
  virtual expected<hack_case> put_hack_case(hack_case c) = 0;
  // The newest of a class, newest first.
  virtual expected<std::vector<hack_case>> hack_cases(hack_class kind, std::size_t limit) = 0;
  virtual expected<std::vector<hack_case>> hack_cases_of_variant(const std::string& variant) = 0;
  // The newest `limit` cases of those after number `after` ("h12" is 12), oldest first. To find those that are written
  // like a variant, they are put into a hack_index.
  virtual expected<std::vector<hack_case>> newest_hack_cases(uint64_t after, std::size_t limit) = 0;

  // Stores a group; without an id it gets the experiment's next one, "e3/12". One that exists is replaced.
  virtual expected<group_record> put_group(group_record g) = 0;
  virtual expected<void> close_group(const std::string& id, const answer_cost& cost) = 0;
  virtual expected<group_record> get_group(const std::string& id) = 0;
  // Ascending.
  virtual expected<std::vector<group_record>> groups_of_experiment(const std::string& experiment) = 0;
  // Those that are not closed, ascending. The time does not depend on the number of closed ones.
  virtual expected<std::vector<group_record>> open_groups(const std::string& experiment) = 0;
  // Ids, in the order in which they were reserved first.
  virtual expected<std::vector<std::string>> variants_of_group(const std::string& id) = 0;
  // What a group was paid. A second record of a group replaces the first.
  virtual expected<void> put_rewards(const reward_record& r) = 0;
  virtual expected<reward_record> get_rewards(const std::string& group) = 0;  // errc::not_found
  // Ascending by group.
  virtual expected<std::vector<reward_record>> rewards_of_experiment(const std::string& experiment) = 0;

  // Exemplars of a task in a class of environments, from all experiments; where it has no correct one of its own, they
  // are borrowed from the most similar tasks (task_similarity.hpp). The time depends on the numbers asked for and the
  // number of tasks, not on the number of verdicts.
  virtual expected<exemplar_sample> sample_exemplars(const exemplar_query& q) = 0;
  // Islands are populations of variants that evolve apart: a variant joins the one that it was made from. Empties the
  // worse half of them and puts the best variant of one of the others, drawn by `seed`, into each. errc::not_found
  // while fewer than two have a correct variant.
  virtual expected<void> reset_islands(const std::string& task, const std::string& environment_class,
                                       uint64_t seed) = 0;

  // A baseline with the environment it was measured in; the current time is added if it has none. Each measurement is a
  // record of its own.
  virtual expected<void> put_baseline(const baseline_record& b, const environment& where) = 0;
  // The baselines of a task, oldest first.
  virtual expected<std::vector<baseline_record>> baselines_of_task(const std::string& task) = 0;

  // A Python file that was judged, with its id (with_id); one of the same id is replaced. The current time is added if
  // it has none.
  virtual expected<void> put_judged_file(judged_file f) = 0;
  // Those of a task, or of all (""): correct ones first, by speedup, then refused ones, newest first.
  virtual expected<std::vector<judged_file>> judged_files(const std::string& task) = 0;

  virtual expected<event_record> add_event(event_record e) = 0;
  virtual expected<std::vector<event_record>> events_after(int64_t sequence, std::size_t limit) = 0;

  // A policy's state, by name: its version and an opaque blob.
  struct policy_state {
    int64_t version = 0;
    std::string blob;
  };
  virtual expected<void> put_policy(const std::string& name, const policy_state& s) = 0;
  virtual expected<policy_state> get_policy(const std::string& name) = 0;  // errc::not_found
  // Whether any policy's state has this blob.
  virtual expected<bool> has_policy_state(const std::string& blob) = 0;

  // Runs `changes`, which calls this store, and writes all changes as one synced batch: on disk when this returns; on
  // an error none of them is, whatever the calls returned. Each call sees those before it. `changes` must not throw.
  virtual expected<void> write_together(const std::function<void()>& changes) = 0;

  // write_together() in steps, so that changes are made while others are written. Makes changes: later ones see them,
  // reads only once they are on disk. An error if the store cannot be written; then `changes` is not called.
  virtual expected<void> make_together(const std::function<void()>& changes) = 0;
  // Makes changes that are of the attempts at one task's variants alone: the changes of one task are made in their
  // order, those of different tasks at the same time, on several threads. They see what was made before this call.
  // What `make` calls must be of that task; it must not throw.
  struct task_change {
    std::string task;
    std::function<void(attempt_store&)> make;
  };
  virtual expected<void> make_of_tasks(const std::vector<task_change>& changes) = 0;
  // Writes what was made, as one synced batch, on a thread of the store's own, which calls `done` at its end. Nothing
  // but make_together() and make_of_tasks() may change the store before end_write().
  virtual void start_write(std::function<void()> done) = 0;
  // Waits for the write that was started. On an error its changes are dropped, and those that were made since.
  virtual expected<void> end_write() = 0;

  // After a failed write (a full disk): makes the store writable again; an error while that is not possible. Without a
  // failed write it does nothing. write_together(), make_together() and make_of_tasks() call it.
  virtual expected<void> recover() = 0;

  // A consistent copy of the store in a new folder, while it is written; errc::already_exists. On disk when it returns.
  virtual expected<void> checkpoint(const std::string& folder) = 0;
  // Rewrites all of it without what was replaced or removed. Others may read and write meanwhile.
  virtual expected<void> compact() = 0;
  // Reads every record. An error only where the store cannot be read at all; else what is damaged or missing.
  virtual expected<store_check> verify() = 0;

  // One step of pruning (pruning.hpp): as much as can be removed without delaying other writers for long. `from`: the
  // last step's `next`. A reader can do a dry run, which is one step.
  virtual expected<prune_report> prune(const prune_rule& rule, const std::string& from) = 0;

  virtual store_statistics statistics() const = 0;
};

}  // namespace cudal1
