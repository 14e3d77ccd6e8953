// What a language model is sent for a prompt, and the proposal that its answer is.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/configuration.hpp"
#include "policy/chat/chat_types.hpp"
#include "policy/prompt/answer_reader.hpp"
#include "policy/prompt/example_library.hpp"
#include "policy/prompt/prompt_text.hpp"
#include "policy/search/policy.hpp"

namespace cudal1 {

// Whom a request is sent to, and how. With its messages, sample and seed this is all that its answer depends on
// (answer_key).
struct asked_model {
  std::string url;    // as endpoint::url writes it; "" in prompts of earlier versions, which did not keep it
  std::string model;  // as the server names it
  int64_t max_tokens = 0;
  double temperature = 0, top_p = 1;
};
BOOST_DESCRIBE_STRUCT(asked_model, (), (url, model, max_tokens, temperature, top_p))

// What a prompt may have, if that is not what llm.prompt_tokens says.
struct prompt_room {
  int64_t most_tokens = 0;  // that the model's context leaves
  token_counter count;      // by its tokenizer
};

// How much a prompt explains, by llm.prompt: `auto` is all of it for endpoints, which have room.
prompt_detail detail_of(const std::string& setting, bool is_local);

// The earlier variants that llm.exemplars and the settings beside it ask for; task, class of environments and seed are
// set for each prompt.
exemplar_query exemplars_of(const language_model_options& o);

// The request of a prompt, as it is stored with its group.
struct llm_request {
  std::vector<chat_message> messages;
  std::string form;                  // answer_form, by name
  std::vector<std::string> dropped;  // parts of the document that did not fit into the budget of tokens
  bool compact = false;              // it explains little
  int64_t tokens = 0;                // estimated, or counted for a local model; 0 in prompts of earlier versions
  asked_model asked;                 // when it was written: a replay finds the answers by it, whatever the settings are
};
BOOST_DESCRIBE_STRUCT(llm_request, (), (messages, form, dropped, compact, tokens, asked))

// Writes requests. Not thread-safe.
class llm_request_writer {
 public:
  llm_request_writer(language_model_options options, verification_options gates, std::string blobs_folder)
      : options_(std::move(options)), gates_(std::move(gates)), blobs_folder_(std::move(blobs_folder)) {}
  // Programs of these tasks, by name, are no examples in prompts: they are held out. Before the first prompt.
  void hide_examples_of(std::set<std::string> tasks) { hidden_ = std::move(tasks); }
  // `room`: of a local model. errc::unsupported for a target without a guide; errc::invalid_argument if the budget is
  // too small.
  expected<llm_request> write(const prompt& p, const std::optional<prompt_room>& room = {});

 private:
  language_model_options options_;
  verification_options gates_;
  std::string blobs_folder_;
  std::set<std::string> hidden_;
  std::map<std::string, std::shared_ptr<const example_library>> libraries_;  // by profile
};

// What an answer is read with.
struct answer_context {
  std::shared_ptr<const task> what;
  const lowering_target* target = nullptr;
  answer_form form = answer_form::program;
};

// The program or schedule of an answer, or why there is none.
proposal proposal_of(const std::string& text, const std::string& finish_reason, const answer_context& c);

}  // namespace cudal1
