// Checks a variant in a GPU's runner, and remembers what its outputs were on the timing pool's draws.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sandbox/cuda/referee/link.hpp"
#include "sandbox/process/messages.hpp"
#include "sandbox/process/referee/known_outputs.hpp"

namespace cudal1 {

// The outputs of a runner's last call, contiguous.
struct gpu_call_outputs {
  std::vector<const std::byte*> flat;  // one for each output
  std::vector<at::Tensor> copies;      // those that had to be gathered
  std::vector<std::string> aliases;    // "" or what an output shares memory with
  fingerprint bits;                    // of all of them
};

class gpu_checker {
 public:
  // `secret` keys the fingerprints.
  gpu_checker(gpu_draw_pool& pool, known_outputs& known, referee_device& device, output_comparer& comparer,
              uint64_t secret)
      : pool_(pool), known_(known), device_(device), comparer_(comparer), secret_(secret) {}

  // The variant is loaded. The plan's draws, then the first again at other addresses. A fault of the variant is in the
  // report.
  expected<check_report> check(gpu_runner_link& runner, const std::string& variant, const check_plan& plan);
  // Those draws that a fork of the plan is timed on and this variant has not been checked on.
  expected<check_report> check_pool(gpu_runner_link& runner, const check_pool_request& request);
  int unchecked(const check_pool_request& request) { return static_cast<int>(unchecked_draws(request).size()); }

  // After a call of the variant on that draw, before the runner's next frame.
  expected<gpu_call_outputs> read(const checked_program& variant, const gpu_call_result& called);
  expected<std::vector<output_check>> compare(const checked_program& variant, const gpu_call_outputs& outputs,
                                              const gpu_draw& d);

 private:
  std::vector<draw_request> unchecked_draws(const check_pool_request& request);
  expected<gpu_call_outputs> call_on(gpu_runner_link& runner, const gpu_draw& d, bool elsewhere);
  expected<void> check_draw(gpu_runner_link& runner, const std::string& variant, const gpu_draw& d,
                            check_report& report);
  expected<void> repeat(gpu_runner_link& runner, const gpu_draw& first, check_report& report);
  expected<void> run(gpu_runner_link& runner, const std::string& variant, const check_plan& plan, check_report& report);

  gpu_draw_pool& pool_;
  known_outputs& known_;
  referee_device& device_;
  output_comparer& comparer_;
  uint64_t secret_;
  std::optional<known_output> first_;
};

}  // namespace cudal1
