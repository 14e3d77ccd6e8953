// The local models of the policy llm: which device each is computed on, what its answers are named by, how long its
// prompts may be, and what its answers may be.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policy/model/local/local_checkpoint.hpp"
#include "policy/search/llm_prompt.hpp"
#include "policy/search/policy_registry.hpp"

namespace cudal1 {

// Of prompts to a local model with these files, which the result keeps.
prompt_room room_of(const std::shared_ptr<const local_checkpoint>& files, const chat_model& m);

// Thread-safe, but for shape_of().
class local_models {
 public:
  // Opens the files of the local ones among the models, and sets their device, precision and url. Errors of
  // local_checkpoint::open; errc::invalid_argument for a device that measures, errc::not_found for one that is not
  // there.
  static expected<local_models> open(std::vector<chat_model>& models, const policy_setup& setup);

  // Of a model that is local.
  const std::shared_ptr<const local_checkpoint>& files_of(const chat_model& m) const { return files_.at(m.path); }
  // What a constrained answer may be. The last few are kept.
  expected<std::shared_ptr<const byte_automaton>> shape_of(const answer_context& c);

 private:
  std::map<std::string, std::shared_ptr<const local_checkpoint>> files_;  // by path
  std::vector<std::pair<std::string, std::shared_ptr<const byte_automaton>>> shapes_;
};

}  // namespace cudal1
