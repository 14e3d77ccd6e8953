// Policies write variants. All have one interface, so that learning can be compared with search without learning, and
// so that one that thinks for minutes (a language model) is used like one that answers at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/base/json.hpp"
#include "policy/moves/lowering.hpp"
#include "policy/prompt/prompt.hpp"

namespace cudal1 {

// A schedule or a whole program; or an answer that is neither, which is a verdict (`invalid`) with its reason.
struct proposal {
  schedule plan;
  std::string program;                    // canonical text; "" for a schedule; with a problem, what there is of it
  std::string problem;                    // why the answer is neither; "" if it is one of them
  std::vector<std::string> parents;       // ids of the exemplars that it was made from
  std::string analysis;                   // the performance analysis that it was written from; "" if there is none
  std::optional<double> log_probability;  // of this proposal, given the prompt
  std::optional<answer_cost> cost;        // of a language model
  json trace;                             // stored with the variant and returned in its experience
  // The schedule's program, if the policy has it already. None: it is lowered when the proposal is read.
  std::optional<unchecked_lowering> lowering = {};
};

// A proposal with its outcome and score.
struct experience {
  std::shared_ptr<const task> what;
  const lowering_target* target = nullptr;
  std::string group;             // group_record::id; "" if it was not stored
  std::string variant;           // id
  std::optional<schedule> plan;  // none: it was written as a program
  std::string program;           // canonical text; "" if there is none
  json trace;
  int64_t policy_version = 0;             // that proposed it
  std::optional<double> log_probability;  // by that version
  outcome result = outcome::correct;
  double score = 0;
  interval score_interval;  // 95%
  double reward = 0;        // within its group, from the reward auditor
};

using ticket = int64_t;

// One of the proposals.
struct delivery {
  ticket to = 0;
  // Reads the proposal from what the policy answered, or says why it will not come: errc::not_found if the policy has
  // nothing to propose. To be called once, in any thread, also while other proposals are read and the policy is used:
  // the thread that delivers only sends. The policy must live until it returns.
  std::function<expected<proposal>()> read;
  bool last = false;  // no more will come
};
// May be called within propose(), before the ticket is returned, or by a thread of the policy. Must only pass it on.
using delivery_sink = std::function<void(delivery)>;

// What an experiment must know to use a policy.
struct policy_traits {
  int64_t group = 1;      // proposals that it wants to be asked for with one prompt
  int64_t in_flight = 0;  // proposals asked for at the same time; 0: only as many as keep the devices supplied
  std::chrono::milliseconds patience = std::chrono::minutes(2);  // from a prompt to its last proposal
  exemplar_wish exemplars;
  int64_t repair_rounds = 0;        // how often it may be asked to repair a failed variant of its own
  std::vector<std::string> models;  // that take turns, if it has several
  int64_t island_reset = 0;         // evaluations of a task between two resets of its islands; 0: none
  bool gives_opinions = false;      // it is asked about suspicious variants
  bool keeps_groups = false;        // its prompts and groups are stored: it is asked again after a kill -9
};

class policy {
 public:
  virtual ~policy() = default;
  virtual std::string name() const = 0;
  virtual policy_traits traits() const { return {}; }
  virtual int64_t version() const = 0;  // grows with each learn() that changed it

  // Called once, before the first propose(). No delivery comes after the policy's destructor.
  virtual void connect(delivery_sink sink) = 0;
  // The prompt as it is stored with its group; "" if the policy is not shown a document. A prompt with its `document`
  // set is asked again as it was.
  virtual expected<std::string> document_of(const prompt&) { return std::string(); }
  // Asks for `n` proposals to one prompt. Answers at once; the proposals are delivered later, in any order.
  virtual ticket propose(prompt p, int64_t n) = 0;
  // Nothing is delivered to the ticket from then on, but for what is on its way already.
  virtual void cancel(ticket t) = 0;

  // Asks for an opinion of a suspicious variant, if the traits say that it gives any. One proposal is delivered to the
  // ticket: its analysis is the opinion's text, and it has a cost.
  virtual ticket give_opinion(const std::shared_ptr<const task>&, const stored_exemplar&) { return 0; }

  // Experiences of one group (one task), with their rewards. Returns whether the policy changed.
  virtual expected<bool> learn(const std::vector<experience>& group) = 0;
  virtual std::string save() const = 0;
  virtual expected<void> load(const std::string& blob, int64_t version) = 0;
};

}  // namespace cudal1
