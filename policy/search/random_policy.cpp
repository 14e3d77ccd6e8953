#include "policy/search/random_policy.hpp"

namespace cudal1 {

namespace {

constexpr int k_attempts = 16;  // to find a program that was not proposed before

}  // namespace

expected<proposal> random_policy::propose_one(const prompt& p) {
  CUDAL1_CHECK(check_prompt(p));
  random_source random = random_for(seed_, p);
  const known_variants known(p);
  proposal out;
  for (int i = 0; i < k_attempts; ++i) {
    const schedule_builder b = random_schedule(*p.what, *p.target, random);
    out.plan = b.moves();
    if (!known.contains(b)) break;
  }
  return out;
}

}  // namespace cudal1
