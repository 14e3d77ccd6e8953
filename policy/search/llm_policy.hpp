// Large language models as a policy: the contrastive prompt without training. Each model answers at an
// OpenAI-compatible endpoint, or is computed here; several take turns. What it is shown and how answers are read is in
// policy/prompt.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "policy/chat/chat_client.hpp"
#include "policy/search/llm_prompt.hpp"
#include "policy/search/local_models.hpp"
#include "policy/search/policy_registry.hpp"

namespace cudal1 {

class llm_policy final : public policy {
 public:
  // errc::invalid_argument without a model, and the errors of read_chat_models and local_models::open. Nothing is sent
  // before propose(), and no weights are read. With policy_setup::only_kept_answers neither endpoint nor files are
  // needed, and no model is ever asked.
  static expected<std::unique_ptr<policy>> make(const policy_setup& setup);
  ~llm_policy() override;

  std::string name() const override { return "llm"; }
  policy_traits traits() const override;
  int64_t version() const override { return 0; }
  void connect(delivery_sink sink) override { sink_ = std::move(sink); }
  // The messages and limits of the request, as JSON.
  expected<std::string> document_of(const prompt& p) override;
  ticket propose(prompt p, int64_t n) override;
  void cancel(ticket t) override;
  // Of the first model.
  ticket give_opinion(const std::shared_ptr<const task>& what, const stored_exemplar& suspicious) override;
  // It cannot be trained: the exemplars of its prompts do the work.
  expected<bool> learn(const std::vector<experience>&) override { return false; }
  std::string save() const override { return ""; }
  expected<void> load(const std::string&, int64_t) override { return {}; }

 private:
  // The requests of a ticket that have not been answered: their numbers at the model's client.
  struct open_ticket {
    std::size_t model = 0;
    std::vector<uint64_t> requests;
    int64_t left = 0;
  };
  llm_policy(const policy_setup& setup, std::vector<chat_model> models, local_models local);
  expected<model_client*> client_of(std::size_t model);
  std::size_t place_of(const std::string& model) const;
  // Sends the requests of a ticket; `read` makes a proposal of each answer.
  using answer_reading = std::function<proposal(const chat_answer&)>;
  struct asked_of {
    std::size_t model = 0;
    bool resumed = false;  // the group of proposals goes on after a restart
  };
  ticket ask(asked_of of, std::vector<chat_request> requests, const answer_reading& read);
  // The answers that were kept, or errc::not_found.
  ticket replay(std::size_t model, const asked_model& asked, std::vector<chat_request> requests,
                const answer_reading& read);
  ticket open(std::size_t model, std::size_t requests);
  std::function<expected<proposal>()> proposal_reader(asked_of of, answer_reading read, expected<chat_answer> a) const;
  ticket refuse(const error& why);
  void deliver(ticket t, std::function<expected<proposal>()> read);

  policy_setup setup_;
  std::vector<chat_model> models_;
  local_models local_;
  delivery_sink sink_;
  std::shared_ptr<chat_budget> budget_;
  std::shared_ptr<answer_cache> cache_;
  llm_request_writer requests_;
  std::mutex mutex_;  // of the tickets: answers come on the clients' threads
  std::map<ticket, open_ticket> open_;
  ticket last_ticket_ = 0;
  // Started when they are first asked; destroyed first, so that no answer comes later.
  std::vector<std::unique_ptr<model_client>> clients_;
};

}  // namespace cudal1
