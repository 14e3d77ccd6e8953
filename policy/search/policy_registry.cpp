#include "policy/search/policy_registry.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "policy/search/contrastive_policy.hpp"
#include "policy/search/evolutionary_policy.hpp"
#include "policy/search/exhaustive_policy.hpp"
#include "policy/search/learned_policy.hpp"
#include "policy/search/llm_policy.hpp"
#include "policy/search/random_policy.hpp"

namespace cudal1 {

namespace {

struct policy_kind {
  std::string_view name;
  expected<std::unique_ptr<policy>> (*make)(const policy_setup& setup);
};

template <class Policy>
expected<std::unique_ptr<policy>> made(const policy_setup& setup) {
  return std::make_unique<Policy>(setup);
}

constexpr std::array<policy_kind, 6> k_policies{{{"random", made<random_policy>},
                                                 {"evolutionary", made<evolutionary_policy>},
                                                 {"learned", made<learned_policy>},
                                                 {"contrastive", contrastive_policy::make},
                                                 {"exhaustive", made<exhaustive_policy>},
                                                 {"llm", llm_policy::make}}};

}  // namespace

std::vector<std::string> policy_names() {
  std::vector<std::string> out;
  for (const auto& each : k_policies)
    out.emplace_back(each.name);
  return out;
}

expected<void> check_policy_name(const std::string& name) {
  if (std::ranges::find(k_policies, name, &policy_kind::name) != k_policies.end()) return {};
  auto names = policy_names();
  const std::string last = std::move(names.back());
  names.pop_back();
  return fail(errc::invalid_argument, "there is no policy \"{}\"; there are {} and {}", name, fmt::join(names, ", "),
              last);
}

expected<std::unique_ptr<policy>> make_policy(const std::string& name, const policy_setup& setup) {
  CUDAL1_CHECK(check_policy_name(name));
  return std::ranges::find(k_policies, name, &policy_kind::name)->make(setup);
}

}  // namespace cudal1
