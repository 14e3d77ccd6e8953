// Messages between an experiment, its policy (generator and learner) and the compiler.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "actors/messages/shared_value.hpp"
#include "policy/search/policy.hpp"
#include "sandbox/evaluation_records.hpp"
#include "store/store.hpp"

namespace cudal1::message {

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

}  // namespace cudal1::message
