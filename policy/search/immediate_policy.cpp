#include "policy/search/immediate_policy.hpp"

#include <memory>

#include "config/base/split_mix.hpp"
#include "policy/search/assembly.hpp"
#include "policy/search/known_variants.hpp"

namespace cudal1 {

namespace {

constexpr double k_later = 0.4;  // probability of skipping one more: concurrent proposals see the same variants

// The first assembled schedule that was not proposed before.
std::optional<proposal> next_assembled(const prompt& p) {
  if (p.assembled.empty()) return std::nullopt;
  const known_variants known(p);
  random_source random(p.seed);
  const assembled_schedule* chosen = nullptr;
  for (const auto& each : p.assembled) {
    if (known.has_schedule(each.plan) || known.has_program(each.program)) continue;
    chosen = &each;
    if (!random.chance(k_later)) break;
  }
  if (chosen == nullptr) return std::nullopt;
  proposal out;
  out.plan = chosen->plan;
  out.trace = trace_of(*chosen);
  return out;
}

}  // namespace

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
    sink_({t,
           [this, one = std::move(one)]() -> expected<proposal> {
             if (auto assembled = next_assembled(*one)) return std::move(*assembled);
             return propose_one(*one);
           },
           i + 1 == n});
  }
  return t;
}

}  // namespace cudal1
