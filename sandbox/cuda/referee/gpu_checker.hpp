// Checks a variant in a GPU's runner, and remembers what its outputs were on the timing pool's draws.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sandbox/cuda/referee/gpu_runner_link.hpp"
#include "sandbox/referee/known_outputs.hpp"
#include "sandbox/referee/referee_messages.hpp"

namespace cudal1 {

// A call of the variant whose outputs were kept.
struct kept_call {
  const planned_call* planned = nullptr;
  const gpu_call_result* result = nullptr;
};

class gpu_checker {
 public:
  gpu_checker(gpu_draw_pool& pool, known_outputs& known, referee_device& device, output_comparer& comparer)
      : pool_(pool), known_(known), device_(device), comparer_(comparer) {}

  // The variant is loaded. The plan's draws, then the first again at other addresses. A fault of the variant is in the
  // report.
  expected<check_report> check(gpu_runner_link& runner, const std::string& variant, const check_plan& plan);
  // Those draws that a fork of the plan is timed on and this variant has not been checked on.
  expected<check_report> check_pool(gpu_runner_link& runner, const check_pool_request& request);
  int unchecked(const check_pool_request& request) { return static_cast<int>(unchecked_draws(request).size()); }

  // Each call's outputs against its draw's answers, before the runner's next frame. A fault of the variant where a copy
  // is not what its call gave: a later call wrote there.
  expected<std::vector<std::vector<output_check>>> compare(gpu_runner_link& runner, std::span<const kept_call> calls);
  // Runs so many calls at a time as there is room for their draws and outputs, and hands each part's results to `look`.
  using onlooker = std::function<expected<void>(std::span<const planned_call>, std::span<const gpu_call_result>)>;
  expected<void> run_in_parts(gpu_runner_link& runner, std::size_t calls,
                              const std::function<expected<planned_call>(std::size_t)>& plan, const onlooker& look);

 private:
  // The outputs of one call, contiguous.
  struct flat_outputs {
    std::vector<const std::byte*> data;
    std::vector<at::Tensor> copies;                // those that had to be gathered
    std::vector<std::string> aliases;              // "" or what an output shares memory with
    std::vector<std::size_t> hashes, comparisons;  // that were started; of those that the reference has, too
  };
  std::vector<draw_request> unchecked_draws(const check_pool_request& request);
  expected<flat_outputs> start(const checked_program& variant, const kept_call& call);
  bool comparable(const checked_program& variant, std::size_t output) const;
  std::vector<output_check> checks_of(const checked_program& variant, const flat_outputs& outputs, const gpu_draw& d);
  expected<void> repeat(gpu_runner_link& runner, std::shared_ptr<const gpu_draw> first, check_report& report);
  expected<void> run(gpu_runner_link& runner, const std::string& variant, const check_plan& plan, check_report& report);

  gpu_draw_pool& pool_;
  known_outputs& known_;
  referee_device& device_;
  output_comparer& comparer_;
  std::optional<known_output> first_;
};

}  // namespace cudal1
