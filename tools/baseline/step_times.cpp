#include "tools/baseline/step_times.hpp"

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "sandbox/isolation/shared_memory.hpp"
#include "tools/cli/python_process.hpp"

namespace cudal1::cli {

expected<step_times> measure_steps(const task& t, const std::string& device, int threads, int wake_fd) {
  CUDAL1_TRY(const auto python, find_python());
  CUDAL1_TRY(const auto script, python_script("step_times.py"));
  const std::string text = canonical_text(t);
  CUDAL1_TRY(const auto file, make_sealed_file("cudal1-task", text));
  const std::string path = fmt::format("/proc/{}/fd/{}", ::getpid(), file.get());
  CUDAL1_TRY(const auto ended,
             run_python(python, script, {path, "--device", device, "--threads", std::to_string(threads)}, wake_fd));
  if (ended.code != 0)
    return fail(errc::infrastructure, "{} {} ended with exit code {}; see its messages", python, script, ended.code);
  CUDAL1_TRY(const json document, json::parse(ended.out));
  step_times times;
  CUDAL1_CHECK(from_json(document, times, script));
  if (times.step_us.size() != t.reference.text.steps.size())
    return fail(errc::infrastructure, "{} gave {} times for {} steps", script, times.step_us.size(),
                t.reference.text.steps.size());
  return times;
}

}  // namespace cudal1::cli
