#include "policy/search/immediate_policy.hpp"

#include <memory>

#include "config/base/split_mix.hpp"
#include "policy/search/known_variants.hpp"

namespace cudal1 {

ticket immediate_policy::propose(prompt p, int64_t n) {
  const ticket t = ++last_ticket_;
  if (auto possible = check_prompt(p); !possible) {
    sink_({t, [why = possible.error()]() -> expected<proposal> { return tl::unexpected<error>(why); }, true});
    return t;
  }
  const uint64_t first_seed = p.seed;
  for (int64_t i = 0; i < n; ++i) {
    auto one = std::make_shared<prompt>(p);
    if (i > 0) one->seed = split_mix(first_seed + static_cast<uint64_t>(i) * split_mix_step);
    sink_({t, [this, one = std::move(one)] { return propose_one(*one); }, i + 1 == n});
  }
  return t;
}

}  // namespace cudal1
