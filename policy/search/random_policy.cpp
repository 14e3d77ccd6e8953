#include "policy/search/random_policy.hpp"

namespace cudal1 {

namespace {

constexpr int k_attempts = 16;  // to find a program that was not proposed before

}  // namespace

expected<proposal> random_policy::propose_one(const prompt& p) {
  CUDAL1_CHECK(check_prompt(p));
  random_source random = random_for(seed_, p);
  const known_variants known(p);
  schedule_builder chosen = random_schedule(*p.what, *p.target, random);
  for (int i = 1; i < k_attempts && known.rules_out(chosen); ++i)
    chosen = random_schedule(*p.what, *p.target, random);
  proposal out;
  propose_schedule(std::move(chosen), out);
  return out;
}

}  // namespace cudal1
