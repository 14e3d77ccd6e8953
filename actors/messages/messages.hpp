// The messages between the actors. A message about an evaluation names its attempt (experiment, task, variant, number)
// and may arrive twice. interfaces.hpp shows which actor answers which message. No CAF: inspect.hpp is how they are
// sent.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "actors/messages/protocol.hpp"
#include "actors/messages/shared_value.hpp"
#include "config/configuration.hpp"
#include "policy/search/policy.hpp"
#include "sandbox/evaluation.hpp"
#include "sandbox/verify/rewards.hpp"
#include "store/store.hpp"

namespace cudal1 {

// Of the messages between machines. Agents of another version are refused.
inline constexpr int64_t cluster_protocol_version = 4;

}  // namespace cudal1

namespace cudal1::message {

// The answer to a request that returns nothing.
struct done {
  bool yes = true;
};
BOOST_DESCRIBE_STRUCT(done, (), (yes))

// A timer: sent by an actor to itself, with a delay.
struct tick {
  int64_t number = 0;
};
BOOST_DESCRIBE_STRUCT(tick, (), (number))

// ---- store --------------------------------------------------------------------------------------------------------

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
};
BOOST_DESCRIBE_STRUCT(best_score, (), (task, experiment))

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

// ---- generator, compiler, learner ---------------------------------------------------------------------------------

// Asks for variants of a task: new ones; the repair of one that failed; or what a group that is stored was asked for.
struct propose {
  shared_task what;
  std::string experiment, device;
  uint64_t seed = 0;
  int64_t count = 1;   // of proposals
  int64_t turn = 0;    // prompts for this task before: policies with several models take them in turns
  std::string repair;  // id of a failed variant
  int64_t round = 0;   // of repairs
  std::string group;   // id
};
BOOST_DESCRIBE_STRUCT(propose, (), (what, experiment, device, seed, count, turn, repair, round, group))

// The proposals follow, each a `proposed`.
struct ticket {
  int64_t number = 0;
  group_record group;  // without an id if the policy's groups are not stored
};
BOOST_DESCRIBE_STRUCT(ticket, (), (number, group))

// From the generator to the experiment that asked: one proposal, or (`none`) why it will not come.
struct proposed {
  int64_t ticket = 0;
  bool last = false;  // no more will come
  variant_record variant;
  shared_program program;  // empty if the proposal is not a legal program; then `problem` says why
  std::string problem;
  answer_cost cost;
  std::string none;  // why there is no proposal; "" if there is one
  errc code = errc::not_found;
};
BOOST_DESCRIBE_STRUCT(proposed, (), (ticket, last, variant, program, problem, cost, none, code))

struct cancel_ticket {
  int64_t number = 0;
};
BOOST_DESCRIBE_STRUCT(cancel_ticket, (), (number))

// Asks the policy for an opinion of a suspicious variant.
struct give_opinion {
  shared_task what;
  variant_record variant;
  verdict result;
};
BOOST_DESCRIBE_STRUCT(give_opinion, (), (what, variant, result))

struct put_opinion {
  opinion_record opinion;
};
BOOST_DESCRIBE_STRUCT(put_opinion, (), (opinion))

// To itself: the policy has delivered.
struct policy_delivered {
  bool all = true;
};
BOOST_DESCRIBE_STRUCT(policy_delivered, (), (all))

struct compile {
  std::string target;  // what it is compiled for, as compile_target() says
  shared_program program;
  double seconds = 0;  // how long it may take; 0: as long as any. The front sets it for its workers.
};
BOOST_DESCRIBE_STRUCT(compile, (), (target, program, seconds))

// A proposal of a group with its verdict.
struct learned_member {
  variant_record variant;
  verdict result;
};
BOOST_DESCRIBE_STRUCT(learned_member, (), (variant, result))

// A group that is complete: its proposals have verdicts, or will not come.
struct learn {
  shared_task what;
  std::string device;
  group_record group;
  std::vector<learned_member> members;
};
BOOST_DESCRIBE_STRUCT(learn, (), (what, device, group, members))

// ---- agent --------------------------------------------------------------------------------------------------------

// A device of a machine, as its agent reports it.
struct offered_device {
  std::string name;  // on that machine: "cuda:0"
  std::string architecture, model;
  std::string problem;  // why it cannot be used at all; "" if it can
  device_role role = device_role::measure;
};
BOOST_DESCRIBE_STRUCT(offered_device, (), (name, architecture, model, problem, role))

// From an agent to the coordinator, which answers with `joined`. The sender is the agent. Sent again, with the same
// incarnation, after their connection broke: the leases that are named then go on.
struct join {
  int64_t protocol = cluster_protocol_version;
  std::string version;       // of the program, for messages
  std::string name;          // of the machine; "": the coordinator's own
  uint64_t incarnation = 0;  // random: of this agent process
  std::vector<offered_device> devices;
  int64_t compile_slots = 0;                 // programs that it should be given to compile at a time
  std::vector<std::string> compile_targets;  // what it can compile for
  std::vector<uint64_t> leases;              // that it has not reported yet
};
BOOST_DESCRIBE_STRUCT(join, (), (protocol, version, name, incarnation, devices, compile_slots, compile_targets, leases))

// The coordinator's settings by which evaluations on devices of a kind are judged, on every machine alike.
struct judging_settings {
  std::string kind;
  verification_options verification;
  profiling_options timing;
  reward_options reward;
};
BOOST_DESCRIBE_STRUCT(judging_settings, (), (kind, verification, timing, reward))

struct joined {
  uint64_t epoch = 0;  // of this membership: names it in what follows
  double heartbeat_s = 1, failure_s = 5;
  std::vector<judging_settings> settings;
  std::vector<uint64_t> dropped;  // of the leases named: those that have ended meanwhile
};
BOOST_DESCRIBE_STRUCT(joined, (), (epoch, heartbeat_s, failure_s, settings, dropped))

// From an agent, every heartbeat_s. errc::not_found: the membership has ended, join again.
struct heartbeat {
  std::string name;
  uint64_t epoch = 0;
};
BOOST_DESCRIBE_STRUCT(heartbeat, (), (name, epoch))

// From an agent: its devices take no more work, or (`left`) it is gone.
struct leave {
  std::string name;
  uint64_t epoch = 0;
  bool left = false;
};
BOOST_DESCRIBE_STRUCT(leave, (), (name, epoch, left))

// From the coordinator, once a membership: evaluations of this task will follow.
struct know_task {
  shared_task what;
};
BOOST_DESCRIBE_STRUCT(know_task, (), (what))

// A part of a blob: of the coordinator's, for an agent that lacks it.
struct read_blob {
  std::string name;
  int64_t offset = 0;
};
BOOST_DESCRIBE_STRUCT(read_blob, (), (name, offset))

struct blob_part {
  int64_t size = 0;            // of the whole blob
  std::vector<uint8_t> bytes;  // from the offset, at most most_bytes
  static constexpr int64_t most_bytes = 4 << 20;
};
BOOST_DESCRIBE_STRUCT(blob_part, (), (size, bytes))

// From the coordinator: measures PyTorch on a device that a client holds. With the task itself, since tasks of one id
// may have been imported from several files.
struct measure_baseline {
  std::string device;
  shared_task what;
  baseline_request wanted;
};
BOOST_DESCRIBE_STRUCT(measure_baseline, (), (device, what, wanted))

// Cancels the call in which a device is blocked.
struct cancel_call {
  std::string device;
};
BOOST_DESCRIBE_STRUCT(cancel_call, (), (device))

// The actor of a device died: its lease has ended.
struct device_died {
  std::string device, why;
};
BOOST_DESCRIBE_STRUCT(device_died, (), (device, why))

struct processes_query {
  bool all = true;
};
BOOST_DESCRIBE_STRUCT(processes_query, (), (all))

// Ids of the processes of a machine's devices: "zygote", "referee", "runner".
struct machine_processes {
  std::map<std::string, std::vector<int>> ids;
};
BOOST_DESCRIBE_STRUCT(machine_processes, (), (ids))

// From the coordinator's process to its agent: the machine leaves its cluster. Answered when nothing is on a device and
// every result is acknowledged.
struct retire {
  bool all = true;
};
BOOST_DESCRIBE_STRUCT(retire, (), (all))

// From a client: a machine's devices take no more work, or take work again.
struct drain_machine {
  std::string name;
  bool draining = true;
};
BOOST_DESCRIBE_STRUCT(drain_machine, (), (name, draining))

// ---- coordinator, device, experiment ------------------------------------------------------------------------------

// A prepared evaluation, waiting for a device.
struct work_item {
  uint64_t lease = 0;  // assigned by the coordinator when a device pulls it
  std::string device;  // that may pull it: the experiment's (names_device); then the one that has
  attempt_record attempt;
  shared_task what;  // to an agent: empty, since it has the task by its id (know_task)
  shared_program program;
  shared_code code;
  bool second_look = false;  // at a possible best that was not confirmed
};
BOOST_DESCRIBE_STRUCT(work_item, (), (lease, device, attempt, what, program, code, second_look))

// A device that has nothing to do. Sent repeatedly, and harmless if late.
struct device_idle {
  std::string device;
};
BOOST_DESCRIBE_STRUCT(device_idle, (), (device))

// The evaluation takes the device longer than others: the task's own program is slow.
struct long_evaluation {
  uint64_t lease = 0;
  int64_t limit_ms = 0;  // from its beginning
};
BOOST_DESCRIBE_STRUCT(long_evaluation, (), (lease, limit_ms))

// A device is ready, or cannot be used: `code` and `problem` say why; `given_up` and `away`, what becomes of it.
struct device_state_changed {
  std::string device;
  device_report report;
  errc code = errc::infrastructure;
  std::string problem;
  bool given_up = false;  // it failed repeatedly
  bool away = false;      // until it is ready again
};
BOOST_DESCRIBE_STRUCT(device_state_changed, (), (device, report, code, problem, given_up, away))

// The result of a lease: a verdict, or an infrastructure fault, or that a replay device has no verdict of the variant.
struct work_done {
  uint64_t lease = 0;
  attempt_record attempt;
  bool has_verdict = false;
  verdict result;
  environment where;
  std::string fault;
  bool task_refused = false;  // the device cannot run the task at all
  bool on_device = false;     // the fault came while the variant was resident on the device
  bool unrecorded = false;    // no fault: no verdict of the variant is recorded; `fault` says where it was looked for
};
BOOST_DESCRIBE_STRUCT(work_done, (),
                      (lease, attempt, has_verdict, result, where, fault, task_refused, on_device, unrecorded))

// From an experiment that should end: its evaluations that no device has pulled are not to be measured.
struct withdraw {
  std::string experiment;
};
BOOST_DESCRIBE_STRUCT(withdraw, (), (experiment))

struct withdrawn {
  std::vector<attempt_record> attempts;
};
BOOST_DESCRIBE_STRUCT(withdrawn, (), (attempts))

struct progress_query {
  std::string experiment;
};
BOOST_DESCRIBE_STRUCT(progress_query, (), (experiment))

// Stops an experiment after what is in flight. `keep_running` leaves its state `running`, so that the next node resumes
// it.
struct stop_experiment {
  std::string experiment;
  bool keep_running = false;
};
BOOST_DESCRIBE_STRUCT(stop_experiment, (), (experiment, keep_running))

struct device_given_up {
  std::string problem;
};
BOOST_DESCRIBE_STRUCT(device_given_up, (), (problem))

// To an experiment: how many devices it may use now, and why it waits if none is here.
struct devices_changed {
  int64_t count = 0;
  int64_t credit = 0;  // as in experiment_setup
  std::string waits_for;
};
BOOST_DESCRIBE_STRUCT(devices_changed, (), (count, credit, waits_for))

// From the node to an experiment. The actors that take their place are in the experiment's policy_handles.
struct policy_restarted {
  std::string problem;  // why there are none; "" if there are
};
BOOST_DESCRIBE_STRUCT(policy_restarted, (), (problem))

// From an experiment to the node, once.
struct experiment_ended {
  experiment_progress last;
  std::string problem;  // why it ended before its budget was used, unless a client asked for that
};
BOOST_DESCRIBE_STRUCT(experiment_ended, (), (last, problem))

// From a client: only its own experiments may use the device until it is released. Answered with a device_hold.
struct hold_device {
  std::string device;
};
BOOST_DESCRIBE_STRUCT(hold_device, (), (device))

// To a device and its machine: whether a client holds it. If so, the device frees what it keeps for tasks; if not, the
// process that measured PyTorch there ends.
struct device_held {
  std::string device;
  bool held = false;
};
BOOST_DESCRIBE_STRUCT(device_held, (), (device, held))

struct release_device {
  uint64_t hold = 0;
};
BOOST_DESCRIBE_STRUCT(release_device, (), (hold))

// From a client: PyTorch is to be measured on the device that it holds. Answered at once.
struct begin_baseline {
  uint64_t hold = 0;
  std::string task;  // canonical text
  baseline_request wanted;
};
BOOST_DESCRIBE_STRUCT(begin_baseline, (), (hold, task, wanted))

// From a client: whether that has ended. Why it failed is an error.
struct baseline_query {
  uint64_t hold = 0;
};
BOOST_DESCRIBE_STRUCT(baseline_query, (), (hold))

struct baseline_answer {
  bool ended = false;
  baseline_times times;
};
BOOST_DESCRIBE_STRUCT(baseline_answer, (), (ended, times))

// From a client: the record of what was measured on the device that it holds.
struct keep_baseline {
  uint64_t hold = 0;
  std::string task;  // canonical text
  baseline_record record;
};
BOOST_DESCRIBE_STRUCT(keep_baseline, (), (hold, task, record))

// From a client: starts a new experiment, or (with an id) resumes one; with a `program` it evaluates that program only.
struct start_experiment {
  std::string experiment;
  experiment_record record;
  std::vector<std::string> tasks;  // canonical texts
  std::string program, origin;     // of a hand-written variant
  uint64_t hold = 0;               // that the client has; 0: none
  bool may_wait = false;           // one that is resumed starts once its devices are here; else that is an error
};
BOOST_DESCRIBE_STRUCT(start_experiment, (), (experiment, record, tasks, program, origin, hold, may_wait))

struct started {
  std::string experiment;
};
BOOST_DESCRIBE_STRUCT(started, (), (experiment))

// Progress of an experiment that runs, or the last of one that ended.
struct progress_answer {
  experiment_progress progress;
  bool ended = false;
  std::string problem;
};
BOOST_DESCRIBE_STRUCT(progress_answer, (), (progress, ended, problem))

struct status_query {
  bool all = true;
};
BOOST_DESCRIBE_STRUCT(status_query, (), (all))

struct node_metrics_query {
  bool all = true;
};
BOOST_DESCRIBE_STRUCT(node_metrics_query, (), (all))

struct device_metrics {
  std::string device, model;
  bool ready = false, measuring = false, held = false;
  bool reserved = false;  // for the policy's models: it never measures
};
BOOST_DESCRIBE_STRUCT(device_metrics, (), (device, model, ready, measuring, held, reserved))

struct machine_metrics {
  std::string machine;  // "": the coordinator's own
  std::string state;    // "present", "away", ...
  bool draining = false;
};
BOOST_DESCRIBE_STRUCT(machine_metrics, (), (machine, state, draining))

struct node_metrics {
  std::vector<device_metrics> devices;
  std::vector<machine_metrics> machines;
  int64_t waiting = 0, leased = 0;  // evaluations
  int64_t experiments = 0;          // that run
  store_metrics store;
};
BOOST_DESCRIBE_STRUCT(node_metrics, (), (devices, machines, waiting, leased, experiments, store))

// Answered when every device has started, or has failed to.
struct await_devices {
  bool all = true;
};
BOOST_DESCRIBE_STRUCT(await_devices, (), (all))

// Resumes the experiments that ran when the last node ended. Answered when all are started, or
// cannot be: from then on a client may ask for them.
struct resume_experiments {
  bool all = true;
};
BOOST_DESCRIBE_STRUCT(resume_experiments, (), (all))

// Ends the node's experiments but leaves their state `running`; answered when nothing is in flight any more.
struct drain {
  bool all = true;
};
BOOST_DESCRIBE_STRUCT(drain, (), (all))

// ---- verifier, profiler, auditor ----------------------------------------------------------------------------------

struct plan_verification {
  shared_task what;
};
BOOST_DESCRIBE_STRUCT(plan_verification, (), (what))

struct judge_report {
  shared_task what;
  check_plan plan;
  check_report report;
};
BOOST_DESCRIBE_STRUCT(judge_report, (), (what, plan, report))

struct judged {
  outcome result = outcome::correct;
  std::string reason;
  std::vector<gate_result> gates;
  std::string ill_conditioned;
};
BOOST_DESCRIBE_STRUCT(judged, (), (result, reason, gates, ill_conditioned))

struct begin_timing {
  uint64_t lease = 0;
  std::string task, experiment;
  score_clock scored_by = score_clock::call;
  bool second_look = false;
};
BOOST_DESCRIBE_STRUCT(begin_timing, (), (lease, task, experiment, scored_by, second_look))

struct add_timing {
  uint64_t lease = 0;
  timing_report report;
};
BOOST_DESCRIBE_STRUCT(add_timing, (), (lease, report))

// The lease ended, with or without a verdict.
struct forget_timing {
  uint64_t lease = 0;
};
BOOST_DESCRIBE_STRUCT(forget_timing, (), (lease))

// What to measure next; if there is nothing to measure, the result.
struct timing_step {
  bool measure = false;
  bool renew = false;  // on a renewed pool
  timing_plan plan;
  int first_fork = 0;
  // If nothing is left to measure. `estimated` is false if no pair could be timed.
  bool estimated = false, confirmed = false;
  timing_estimate estimate;
};
BOOST_DESCRIBE_STRUCT(timing_step, (), (measure, renew, plan, first_fork, estimated, confirmed, estimate))

// The evidence of one evaluation: a verdict that claims a score, and what the referee saw.
struct audit {
  shared_task what;
  verdict claim;
  check_report checked;
  timing_report timed;       // of all plans together
  timing_estimate estimate;  // that the claim was made from
  int64_t asked_pairs = 0;   // in the plans that the estimate is of
  std::string model;         // of the device, as its environment names it
  shared_program program;    // the variant's
};
BOOST_DESCRIBE_STRUCT(audit, (), (what, claim, checked, timed, estimate, asked_pairs, model, program))

// The members of a group, with their verdicts.
struct reward_group {
  std::string group, experiment, task;  // as in reward_record; the group may be "" where the policy has none
  int64_t policy_version = 0;
  std::vector<reward_member> members;
};
BOOST_DESCRIBE_STRUCT(reward_group, (), (group, experiment, task, policy_version, members))

struct rewards {
  paid_group paid;       // with every step
  reward_record record;  // of it, for the store
};
BOOST_DESCRIBE_STRUCT(rewards, (), (paid, record))

}  // namespace cudal1::message
