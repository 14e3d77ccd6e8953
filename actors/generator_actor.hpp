// Draws exemplars, makes the prompt, asks the policy, and lowers and checks what it proposes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "actors/delivery_queue.hpp"
#include "actors/interfaces.hpp"
#include "actors/prompt_source.hpp"
#include "policy/search/policy.hpp"

namespace cudal1 {

// What a proposal is made for.
struct proposal_context {
  shared_task what;
  std::string device;
  std::string policy;  // its name
  int64_t policy_version = 0;
  group_record group;
  std::string analysis = {};  // of the prompt's exemplars, for proposals without one of their own
};

// A proposal as a checked program with its record; or the record of an answer or schedule without a legal program, and
// why. Plain logic.
expected<message::proposed> read_proposal(proposal idea, const proposal_context& c);

struct generator_setup {
  store_actor store;
  std::optional<prompt_source> prompts;
  std::string lineage;  // of the policy
};

struct generator_state : generator_setup {
  static constexpr const char* name = "generator";
  generator_actor::pointer self = nullptr;
  std::unique_ptr<policy> writer;
  std::shared_ptr<delivery_queue> delivered;

  // A ticket of the policy that has not ended.
  struct asked {
    experiment_actor asker;
    int64_t count = 1;  // of proposals
    proposal_context context;
  };
  std::map<ticket, asked> open;
  // A ticket of an opinion.
  struct asked_opinion {
    opinion_record opinion;
    caf::typed_response_promise<answer_cost> promise;
  };
  std::map<ticket, asked_opinion> opinions;

  caf::result<message::ticket> propose(const message::propose& m);
  caf::result<answer_cost> give_opinion(const message::give_opinion& m);
  void cancel(const message::cancel_ticket& m);
  void send_delivered();
  void take_version(const message::policy_version& m);

 private:
  using ticket_promise = caf::typed_response_promise<message::ticket>;
  // Stores the group, unless it is stored already or the policy's are not; then asks.
  void store_group(prompt p, asked a, ticket_promise promise);
  void ask_policy(prompt p, asked a, ticket_promise& promise);
  void send_proposal(ticket number, const delivery& d);
  void keep_opinion(asked_opinion a, const delivery& d);
  static expected<message::proposed> read(const asked& a, const delivery& d);
};

// To be spawned detached.
generator_actor::behavior_type run_generator(generator_actor::stateful_pointer<generator_state> self,
                                             const std::shared_ptr<std::unique_ptr<policy>>& writer,
                                             generator_setup setup);

}  // namespace cudal1
