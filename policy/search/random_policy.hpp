// Random legal schedules: the lowest baseline.
#pragma once

#include "policy/search/known_variants.hpp"

namespace cudal1 {

class random_policy final : public search_policy {
 public:
  using search_policy::search_policy;
  std::string name() const override { return "random"; }
  policy_traits traits() const override { return {}; }  // no exemplars: they would change nothing
  expected<proposal> propose_one(const prompt& p) override;
};

}  // namespace cudal1
