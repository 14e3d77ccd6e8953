#include "policy/search/policy.hpp"

#include "policy/search/learned_policy.hpp"
#include "policy/search/search_policies.hpp"

namespace cudal1 {

std::vector<std::string> policy_names() {
  return {"random", "evolutionary", "learned"};
}

expected<std::unique_ptr<policy>> make_policy(const std::string& name, uint64_t seed) {
  if (name == "random") return std::make_unique<random_policy>(seed);
  if (name == "evolutionary") return std::make_unique<evolutionary_policy>(seed);
  if (name == "learned") return std::make_unique<learned_policy>(seed);
  return fail(errc::invalid_argument, "there is no policy \"{}\"; there are random, evolutionary and learned", name);
}

}  // namespace cudal1
