// The protocol between the command line and a node on the node's Unix socket (DATA/node.sock, mode 0600): one JSON
// object per line, requests from the client, then answers until one with `last`. Every request has a version; other
// versions are refused with an error. Reading (status, best, show, export) needs no node: the CLI opens the store
// itself.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "actors/messages/baseline_times.hpp"
#include "sandbox/device/session.hpp"
#include "sandbox/evaluation_records.hpp"
#include "store/baseline_record.hpp"
#include "store/group_record.hpp"
#include "store/judged_file.hpp"
#include "store/pruning.hpp"
#include "store/search_priority.hpp"

namespace cudal1 {

inline constexpr int client_protocol_version = 9;

BOOST_DEFINE_ENUM_CLASS(client_verb,
                        hello,     // -> node_status
                        run,       // start (or resume) an experiment; progress until it ends
                        evaluate,  // one hand-written program; the verdict
                        follow,    // progress of an experiment that runs
                        stop,      // cancel an experiment: what is in flight ends, everything is kept
                        hold,      // a device for this client: only its own `evaluate` and `measure_baseline` use it
                                   // until it disconnects
                        compare,   // a task with its model, on a device that the node holds meanwhile
                        measure_baseline,  // PyTorch's times of a task, on the device that the client holds
                        keep_baseline,     // store them
                        keep_judged_file,  // store a Python file that was judged, with its verdict
                        checkpoint,        // a copy of the store in a new folder
                        compact,           // the store
                        prune,             // the records of experiments that ended long ago
                        drain_machine,     // of a cluster: its devices take no more work, or take work again
                        shutdown)          // the node: finish what is in flight, flush, exit 0

struct client_request {
  int version = client_protocol_version;
  client_verb verb = client_verb::hello;
  // run
  std::vector<std::string> tasks;  // canonical texts
  std::string policy = "evolutionary";
  int64_t evaluations_per_task = 0;
  double time_limit_s = 0;
  double device_s_per_task = 0;
  uint64_t seed = 0;
  bool fresh_policy = false;        // the policy starts without what it learned in other experiments
  std::vector<std::string> models;  // language models that take turns
  std::string replays;              // experiment whose prompts are given again
  search_priority priority = search_priority::normal;
  bool uses_parts = false;  // schedules put together from the best known parts of the tasks are proposed first
  std::string device;       // "cpu", "cuda:0", "cuda" (every GPU) or a list of GPUs; "" lets the node choose
  // follow, stop; run with an id resumes
  std::string experiment;
  // run, follow, evaluate (which sends progress first): the experiment stops when this client disconnects
  bool stop_on_disconnect = false;
  // evaluate; compare, whose task is marked as uncompared
  std::string task;     // canonical text
  std::string program;  // text
  std::string origin;
  // measure_baseline and keep_baseline, with the task's text in `task`
  std::optional<baseline_request> wanted;
  std::optional<baseline_record> baseline;
  // keep_judged_file, with the task's text in `task`
  std::optional<judged_file> file;
  // checkpoint: an absolute path
  std::string folder;
  // drain_machine
  std::string machine;
  bool draining = true;
  // prune
  std::optional<prune_rule> pruning;
};
BOOST_DESCRIBE_STRUCT(client_request, (),
                      (version, verb, tasks, policy, evaluations_per_task, time_limit_s, device_s_per_task, seed,
                       fresh_policy, models, replays, priority, uses_parts, device, experiment, stop_on_disconnect,
                       task, program, origin, wanted, baseline, file, folder, machine, draining, pruning))

struct task_progress {
  std::string task, name;
  int64_t evaluations = 0, correct = 0;
  double best = 0;  // confirmed score; 0 before there is one
  std::string best_variant;
};
BOOST_DESCRIBE_STRUCT(task_progress, (), (task, name, evaluations, correct, best, best_variant))

// The stages of an evaluation that hold its device, in order: the task's pool, correctness, what takes no work (once a
// task), timing, and a second check of what is suspicious. The others in
// stage_ms are latencies outside the device, many at the same time: `propose`, `compile`, `wait` for the device, and
// `commit`, the storing of earlier verdicts (its own is not over when the verdict is written).
inline constexpr std::array<std::string_view, 5> device_stages = {"open", "check", "null models", "time",
                                                                  deep_check_gate};
inline double device_ms_of(const std::map<std::string, double>& stage_ms) {
  double sum = 0;
  for (const auto stage : device_stages)
    if (const auto found = stage_ms.find(std::string(stage)); found != stage_ms.end()) sum += found->second;
  return sum;
}

struct experiment_progress {
  std::string experiment, state;  // experiment_state
  double active_s = 0;
  int64_t evaluations = 0, planned = 0;
  double evaluations_per_s = 0;             // over the last ten seconds
  std::map<std::string, int64_t> outcomes;  // by name
  int64_t infrastructure_faults = 0;
  int64_t unrecorded = 0;  // proposals that a replay device has no verdict of; not among the evaluations
  std::vector<task_progress> tasks;
  std::map<std::string, double> stage_ms;  // summed over the evaluations
  double device_busy = 0;                  // share of the active time in which an evaluation held the device
  int64_t reused = 0;                      // of the evaluations: verdicts of other experiments
  double policy_wait = 0;                  // share of the active time in which only the policy's answers were missing
  answer_cost answers;                     // of language models
  std::string problem;                     // why it does not get on: the store cannot be written; "" if it does
  std::string model;                       // of the devices that it uses
};
BOOST_DESCRIBE_STRUCT(experiment_progress, (),
                      (experiment, state, active_s, evaluations, planned, evaluations_per_s, outcomes,
                       infrastructure_faults, unrecorded, tasks, stage_ms, device_busy, reused, policy_wait, answers,
                       problem, model))

// A device that does not work (yet), and why.
struct device_trouble {
  std::string device, problem;
  bool given_up = false;  // else it is tried again
};
BOOST_DESCRIBE_STRUCT(device_trouble, (), (device, problem, given_up))

// What a device is for: to measure variants, or to run the policy's models.
BOOST_DEFINE_ENUM_CLASS(device_role, measure, policy)

// A device that is reserved for another role than to measure.
struct reserved_device {
  std::string device, model;
  device_role role = device_role::policy;
};
BOOST_DESCRIBE_STRUCT(reserved_device, (), (device, model, role))

// A machine of a cluster.
struct machine_status {
  std::string name;   // "": the coordinator's own
  std::string state;  // membership::state: present, away, absent, left
  bool draining = false;
  std::string version;  // of its program
  double since_s = 0;   // how long it has been in that state
  int64_t devices = 0;
};
BOOST_DESCRIBE_STRUCT(machine_status, (), (name, state, draining, version, since_s, devices))

struct node_status {
  int pid = 0;
  std::string data;                    // folder
  std::vector<device_report> devices;  // that work, GPUs first
  std::vector<device_trouble> troubled;
  std::vector<reserved_device> reserved;
  std::vector<std::string> experiments;               // running
  std::map<std::string, std::vector<int>> processes;  // "zygote", "referee", "runner" -> pids, of this machine
  std::vector<machine_status> machines;
  std::string listens;  // where other machines join; "": nowhere
};
BOOST_DESCRIBE_STRUCT(node_status, (),
                      (pid, data, devices, troubled, reserved, experiments, processes, machines, listens))

// A device that a client holds.
struct device_hold {
  uint64_t number = 0;  // of the hold, never 0
  device_report device;
};
BOOST_DESCRIBE_STRUCT(device_hold, (), (number, device))

struct client_answer {
  bool last = false;
  std::string error_code, error;  // "" if there is none
  std::optional<node_status> status;
  std::optional<experiment_progress> progress;
  std::vector<experiment_progress> others;  // of a search over several models: of the experiments that `progress` leads
  std::optional<verdict> result;
  std::optional<device_hold> hold;
  std::optional<baseline_times> times;
  std::optional<task_comparison> comparison;  // none, of `compare`: the store knows that the task agrees
  std::optional<prune_report> pruned;
};
BOOST_DESCRIBE_STRUCT(client_answer, (),
                      (last, error_code, error, status, progress, others, result, hold, times, comparison, pruned))

}  // namespace cudal1
