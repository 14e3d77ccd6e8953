// Messages between a machine's agent and the coordinator: membership, tasks and blobs, PyTorch's times.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "actors/messages/protocol.hpp"
#include "actors/messages/shared_value.hpp"
#include "config/configuration.hpp"
#include "sandbox/evaluation_records.hpp"
#include "sandbox/verify/rewards.hpp"

namespace cudal1 {

// Of the messages between machines. Agents of another version are refused.
inline constexpr int64_t cluster_protocol_version = 4;

}  // namespace cudal1

namespace cudal1::message {

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

// From the coordinator: measures PyTorch on a device that is held, or compares a task with its model there. With the
// task itself, since tasks of one id may have been imported from several files.
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

}  // namespace cudal1::message
