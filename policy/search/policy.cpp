#include "policy/search/policy.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "policy/search/evolutionary_policy.hpp"
#include "policy/search/learned_policy.hpp"
#include "policy/search/random_policy.hpp"

namespace cudal1 {

namespace {

struct policy_kind {
  std::string_view name;
  std::unique_ptr<policy> (*make)(uint64_t seed);
};

template <class Policy>
std::unique_ptr<policy> made(uint64_t seed) {
  return std::make_unique<Policy>(seed);
}

constexpr std::array<policy_kind, 3> k_policies{
    {{"random", made<random_policy>}, {"evolutionary", made<evolutionary_policy>}, {"learned", made<learned_policy>}}};

}  // namespace

std::vector<std::string> policy_names() {
  std::vector<std::string> out;
  for (const auto& each : k_policies)
    out.emplace_back(each.name);
  return out;
}

expected<std::unique_ptr<policy>> make_policy(const std::string& name, uint64_t seed) {
  const auto found = std::ranges::find(k_policies, name, &policy_kind::name);
  if (found != k_policies.end()) return found->make(seed);
  auto names = policy_names();
  const std::string last = std::move(names.back());
  names.pop_back();
  return fail(errc::invalid_argument, "there is no policy \"{}\"; there are {} and {}", name, fmt::join(names, ", "),
              last);
}

}  // namespace cudal1
