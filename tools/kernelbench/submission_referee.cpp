#include "tools/kernelbench/submission_referee.hpp"

#include <chrono>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>

#include "config/base/describe.hpp"
#include "config/base/json.hpp"
#include "sandbox/device/device_type.hpp"
#include "sandbox/isolation/shared_memory.hpp"
#include "tools/cli/line_process.hpp"
#include "tools/cli/python_process.hpp"
#include "tools/kernelbench/model_file.hpp"

namespace cudal1::kernelbench {

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto longest_start = 3min;
constexpr auto longest_judgement = 60min;  // the referee has limits of its own, of each step

struct answer_line {
  bool ready = false;
  std::string error, code;
  std::optional<submission_verdict> verdict;
};
BOOST_DESCRIBE_STRUCT(answer_line, (), (ready, error, code, verdict))

bool has_python_source(const task& t) {
  return t.is_whole_model() && !t.origin->source.empty();
}

errc code_of(const answer_line& a) {
  return a.code == "unsupported" ? errc::unsupported : errc::infrastructure;
}

}  // namespace

expected<std::string> python_problem(const task& t, const std::string& blobs) {
  if (has_python_source(t)) return problem_source(t, blobs);
  CUDAL1_TRY(const auto python, cli::find_python());
  CUDAL1_TRY(const auto script, cli::python_script("task_problem.py"));
  CUDAL1_TRY(const auto file, make_sealed_file("cudal1-task", canonical_text(t)));
  CUDAL1_TRY(auto printed, cli::run_python(python, script, {fmt::format("/proc/{}/fd/{}", ::getpid(), file.get())}));
  if (printed.code == 0) return std::move(printed.out);
  return fail(errc::unsupported, "{} cannot be written as a Python model; what {} printed says why", t.name, script);
}

submission_referee::submission_referee(std::string log) : log_(std::move(log)) {}
submission_referee::~submission_referee() = default;

expected<void> submission_referee::start(int wake_fd) {
  CUDAL1_TRY(const auto python, cli::find_python());
  CUDAL1_TRY(const auto script, cli::python_script("judge_submissions.py"));
  process_ = std::make_unique<cli::line_process>(
      cli::line_process_options{.name = "the referee of Python files", .words = {python, "-u", script}, .log = log_});
  CUDAL1_CHECK(process_->start());
  CUDAL1_TRY(const auto line, process_->receive(clock::now() + longest_start, wake_fd));
  if (!line)
    return fail(errc::infrastructure, "the referee of Python files did not start: {}", process_->how_it_ended());
  CUDAL1_TRY(const auto said, from_text<answer_line>(*line));
  if (!said.ready) return fail(code_of(said), "{}", said.error);
  return {};
}

expected<submission_verdict> submission_referee::judge(const std::string& name, const std::string& source,
                                                       const task& t, const std::string& blobs,
                                                       const std::string& device, int wake_fd) {
  if (traits_of(device).is_accelerator)
    return fail(errc::unsupported,
                "Python files with ModelNew are judged on the device cpu; {} is not supported for them yet", device);
  json request = json::make_object({{"name", name}, {"source", source}});
  if (has_python_source(t)) {
    CUDAL1_TRY(auto problem, problem_source(t, blobs));
    request.set("problem", std::move(problem));
  } else {
    CUDAL1_TRY(auto text, json::parse(canonical_text(t)));
    request.set("task", std::move(text));
  }
  auto judged = [&]() -> expected<answer_line> {
    if (!process_) CUDAL1_CHECK(start(wake_fd));
    CUDAL1_CHECK(process_->send(request.text()));
    CUDAL1_TRY(const auto line, process_->receive(clock::now() + longest_judgement, wake_fd));
    if (!line) return fail(errc::infrastructure, "the referee of Python files ended: {}", process_->how_it_ended());
    return from_text<answer_line>(*line);
  }();
  if (!judged) {
    process_.reset();
    return tl::unexpected<error>(judged.error());
  }
  if (!judged->verdict) return fail(code_of(*judged), "{}", judged->error);
  return std::move(*judged->verdict);
}

}  // namespace cudal1::kernelbench
