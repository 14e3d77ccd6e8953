#include "policy/search/immediate_policy.hpp"

#include "config/base/split_mix.hpp"

namespace cudal1 {

ticket immediate_policy::propose(prompt p, int64_t n) {
  const ticket t = ++last_ticket_;
  const uint64_t first_seed = p.seed;
  for (int64_t i = 0; i < n; ++i) {
    if (i > 0) p.seed = split_mix(first_seed + static_cast<uint64_t>(i) * split_mix_step);
    auto made = propose_one(p);
    const bool last = !made || i + 1 == n;
    sink_({t, [made = std::move(made)] { return made; }, last});
    if (last) break;
  }
  return t;
}

}  // namespace cudal1
