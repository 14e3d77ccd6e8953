// Draws exemplars, makes the prompt, asks the policy, and lowers and checks what it proposes.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "actors/experiment/delivery_queue.hpp"
#include "actors/experiment/prompt_source.hpp"
#include "actors/experiment/proposal_threads.hpp"
#include "actors/messages/interfaces.hpp"
#include "policy/moves/proof_checks.hpp"
#include "policy/search/policy.hpp"

namespace cudal1 {

// What a proposal is made for.
struct proposal_context {
  shared_task what;
  std::string device;
  std::string policy;  // its name
  int64_t policy_version = 0;
  group_record group;
  std::shared_ptr<proof_checks> proofs;
  std::string analysis = {};  // of the prompt's exemplars, for proposals without one of their own
};

// A proposal as a checked program with its record; or the record of an answer or schedule without a legal program, and
// why. Plain logic.
expected<message::proposed> read_proposal(proposal idea, const proposal_context& c);

struct generator_setup {
  store_actor store;
  std::optional<prompt_source> prompts;
  std::string lineage;  // of the policy
  std::shared_ptr<proposal_threads> workers;
};

// Sends the proposals of one ticket, which several threads read: the last one that is sent says so. Nothing is sent
// once the generator has ended, since the next one numbers its tickets from 1 again. Thread-safe.
class proposal_replies {
 public:
  using ended_flag = std::shared_ptr<std::atomic<bool>>;
  proposal_replies(experiment_actor asker, ended_flag ended) : asker_(std::move(asker)), ended_(std::move(ended)) {}
  // A proposal is being read, and the policy will deliver more.
  void expect_more();
  void send(message::proposed m);

 private:
  std::mutex mutex_;
  experiment_actor asker_;
  ended_flag ended_;
  int64_t open_ = 1;  // proposals that are being read, and the policy while it delivers more
};

struct generator_state : generator_setup {
  static constexpr const char* name = "generator";
  generator_actor::pointer self = nullptr;
  std::shared_ptr<policy> writer;
  std::shared_ptr<delivery_queue> delivered;

  // A ticket of the policy that has not ended.
  struct asked {
    std::shared_ptr<proposal_replies> replies;
    int64_t count = 1;  // of proposals
    proposal_context context;
  };
  std::map<ticket, asked> open;
  std::shared_ptr<proof_checks> proofs = std::make_shared<proof_checks>();
  proposal_replies::ended_flag ended = std::make_shared<std::atomic<bool>>(false);
  // A ticket of an opinion.
  struct asked_opinion {
    opinion_record opinion;
    caf::typed_response_promise<answer_cost> promise;
  };
  std::map<ticket, asked_opinion> opinions;

  generator_state() = default;
  ~generator_state() { *ended = true; }
  generator_state(const generator_state&) = delete;
  generator_state& operator=(const generator_state&) = delete;

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
  // A worker reads, lowers and checks the proposal, and sends it.
  void pass_on(ticket number, delivery d);
  void keep_opinion(asked_opinion a, const delivery& d);
};

// To be spawned detached.
generator_actor::behavior_type run_generator(generator_actor::stateful_pointer<generator_state> self,
                                             const std::shared_ptr<std::unique_ptr<policy>>& writer,
                                             generator_setup setup);

}  // namespace cudal1
