#include "tools/baseline/task_comparison.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "sandbox/isolation/shared_memory.hpp"
#include "sandbox/program/operators/work_parts.hpp"
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

expected<task_comparison> compare_with_model(const task& t, const std::string& blobs, const std::string& device) {
  CUDAL1_TRY(const auto python, find_python());
  CUDAL1_TRY(const auto script, python_script("compare_task.py"));
  const std::string text = canonical_text(t);
  CUDAL1_TRY(const auto file, make_sealed_file("cudal1-task", text));
  std::vector<std::string> words = {fmt::format("/proc/{}/fd/{}", ::getpid(), file.get()), "--blobs", blobs, "--device",
                                    device};
  if (sums_terms(t)) words.emplace_back("--sums");
  CUDAL1_TRY(const auto ended, run_python(python, script, words));
  if (ended.code != 0)
    return fail(errc::infrastructure, "{} {} ended with exit code {}; see its messages", python, script, ended.code);
  CUDAL1_TRY(const json document, json::parse(ended.out));
  task_comparison found;
  CUDAL1_CHECK(from_json(document, found, script));
  return found;
}

}  // namespace cudal1::cli
