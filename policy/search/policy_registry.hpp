// Finds policies by name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/configuration.hpp"
#include "policy/search/policy.hpp"
#include "policy/search/policy_trouble.hpp"
#include "sandbox/device/device_turns.hpp"

namespace cudal1 {

// What a policy is made from.
struct policy_setup {
  uint64_t seed = 0;
  search_options search;
  // Of language models.
  language_model_options llm = {};
  verification_options gates = {};            // that a prompt describes
  std::vector<std::string> models = {};       // names
  std::string data = {};                      // folder: blobs, answers, models.toml
  std::vector<std::string> environment = {};  // variables, NAME=value
  answer_cost spent = {};                     // by the experiment so far
  bool only_kept_answers = false;             // of a replay: no model is asked
  // Names of this machine's devices: those that measure, and those that are reserved for models.
  std::vector<std::string> measuring_devices = {}, policy_devices = {};
  // For models on a device that measures.
  std::shared_ptr<device_turns> turns = std::make_shared<device_turns>();
  std::shared_ptr<policy_trouble> trouble = std::make_shared<policy_trouble>();
};

// errc::invalid_argument if there is no policy of that name, and the policy's own errors.
expected<std::unique_ptr<policy>> make_policy(const std::string& name, const policy_setup& setup);
// Whether there is a policy of that name; errc::invalid_argument with the names.
expected<void> check_policy_name(const std::string& name);
// "random", "evolutionary", "learned", "contrastive", "exhaustive", "llm".
std::vector<std::string> policy_names();

}  // namespace cudal1
