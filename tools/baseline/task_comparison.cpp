#include "tools/baseline/task_comparison.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "config/base/describe.hpp"
#include "sandbox/isolation/shared_memory.hpp"
#include "sandbox/program/operators/work_parts.hpp"
#include "tools/cli/line_process.hpp"
#include "tools/cli/python_process.hpp"

namespace cudal1::cli {

namespace {

// The model may sum a product's terms with another kernel than its recorded step.
bool sums_terms(const task& t) {
  return std::ranges::any_of(t.reference.calls, [](const operator_call& call) {
    const operator_kind kind = work_parts::record_of(call).kind;
    return kind == operator_kind::product || kind == operator_kind::convolution || kind == operator_kind::attention ||
           kind == operator_kind::recurrent;
  });
}

}  // namespace

expected<task_comparison> compare_with_model(const task& t, const std::string& blobs, const baseline_place& where) {
  CUDAL1_TRY(const auto python, find_python());
  CUDAL1_TRY(const auto script, python_script("compare_task.py"));
  const std::string text = canonical_text(t);
  CUDAL1_TRY(const auto file, make_sealed_file("cudal1-task", text));
  std::vector<std::string> words = {python,      script, fmt::format("/proc/{}/fd/{}", ::getpid(), file.get()),
                                    "--blobs",   blobs,  "--device",
                                    where.device};
  if (sums_terms(t)) words.emplace_back("--sums");
  line_process process({"the comparison of " + t.name + " with its model", std::move(words), where.log});
  CUDAL1_CHECK(process.start());
  CUDAL1_TRY(const auto line, process.receive(std::chrono::steady_clock::now() + longest_comparison, where.wake_fd));
  if (!line)
    return fail(errc::infrastructure, "{} gave no result: {}; see {}", script, process.how_it_ended(),
                where.log.empty() ? "its messages" : where.log);
  return from_text<task_comparison>(*line);
}

}  // namespace cudal1::cli
