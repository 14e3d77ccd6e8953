#include "tools/node_baselines.hpp"

#include "tools/baseline/baseline_process.hpp"
#include "tools/cli/python_process.hpp"

namespace cudal1 {

expected<std::unique_ptr<baseline_measurer>> make_baseline_process(const baseline_place& place) {
  const auto python = cli::find_python();
  if (!python)
    return fail(python.error().code, "{}, and start that machine's cudal1-node again with it", python.error().message);
  CUDAL1_TRY(const auto script, cli::python_script("baseline.py"));
  return std::make_unique<cli::baseline_process>(cli::baseline_process_options{*python, script, place});
}

}  // namespace cudal1
