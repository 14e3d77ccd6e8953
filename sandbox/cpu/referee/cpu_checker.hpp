// Checks a variant in one runner, and remembers what its outputs were on the timing pool's draws.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/cpu/referee/cpu_pool.hpp"
#include "sandbox/cpu/referee/cpu_runner_link.hpp"
#include "sandbox/referee/known_outputs.hpp"
#include "sandbox/referee/referee_messages.hpp"

namespace cudal1 {

// The outputs of a runner's last call, flat.
struct call_outputs {
  std::vector<const std::byte*> flat;          // one for each output
  std::vector<std::vector<std::byte>> copies;  // those that had to be gathered
  std::vector<std::string> aliases;            // "" or what an output shares memory with
  fingerprint bits;                            // of all of them
};

class checker {
 public:
  // `secret` seeds the fingerprints: nobody who does not know it can aim at a collision.
  checker(draw_pool& pool, known_outputs& known, uint64_t secret) : pool_(pool), known_(known), secret_(secret) {}

  // The plan's draws, then the first again. A fault of the variant is in the report; runner.lost() says that it went
  // without a record.
  expected<check_report> check(runner_link& runner, const std::string& variant, const check_plan& plan);
  // Those draws of the timing pool that this variant has not been checked on.
  expected<check_report> check_pool(runner_link& runner, const check_pool_request& request);
  int unchecked(const std::string& variant);

  // After a call on that draw: reads the outputs and compares them.
  expected<call_outputs> read(runner_link& runner, const draw& d);
  std::vector<output_check> compare(const checked_program& variant, const call_outputs& outputs, const draw& d,
                                    const tolerance& close, const tolerance& loose) const;

 private:
  expected<call_outputs> call_on(runner_link& runner, const draw& d);
  expected<void> check_draw(runner_link& runner, const std::string& variant, const draw& d, const check_plan& plan,
                            check_report& report);
  expected<void> run(runner_link& runner, const std::string& variant, const check_plan& plan, check_report& report);

  draw_pool& pool_;
  known_outputs& known_;
  uint64_t secret_;
  std::optional<fingerprint> first_;
};

}  // namespace cudal1
