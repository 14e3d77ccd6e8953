// Messages between clients, the coordinator, devices and experiments: the work of devices, and progress.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "actors/messages/protocol.hpp"
#include "actors/messages/shared_value.hpp"
#include "actors/messages/store_messages.hpp"
#include "sandbox/device/session.hpp"
#include "sandbox/evaluation_records.hpp"
#include "store/store.hpp"

namespace cudal1::message {

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
  // To compare a task with its model: the device may be in use, and only pauses. errc::already_exists if another client
  // holds it: it is asked again.
  bool compares = false;
};
BOOST_DESCRIBE_STRUCT(hold_device, (), (device, compares))

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

// From a client: a Python file that was judged against a task.
struct keep_judged_file {
  std::string task;  // canonical text
  judged_file record;
};
BOOST_DESCRIBE_STRUCT(keep_judged_file, (), (task, record))

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

}  // namespace cudal1::message
