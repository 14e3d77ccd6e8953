#include "tools/cli/commands/submission_audit.hpp"

#include <vector>

#include "tools/cli/python_process.hpp"

namespace cudal1::cli {

expected<int> audit_submissions(const submission_audit_options& o, const context& c) {
  CUDAL1_TRY(const auto python, find_python());
  CUDAL1_TRY(const auto script, python_script("audit_submissions.py"));
  std::vector<std::string> words{
      o.submissions, "--device", o.device, "--pools", std::to_string(o.pools), "--width", std::to_string(c.out.width)};
  if (!o.problems.empty()) words.insert(words.end(), {"--problems", o.problems});
  if (!o.out.empty()) words.insert(words.end(), {"--out", o.out});
  if (!o.eval_results.empty()) words.insert(words.end(), {"--eval-results", o.eval_results});
  if (o.json) words.emplace_back("--json");
  if (o.unconfined) words.emplace_back("--unconfined");
  CUDAL1_TRY(const auto ended, run_python(python, script, words));
  c.out.print(ended.out);
  switch (ended.code) {
    case exit_code::success:
    case exit_code::negative:
    case exit_code::usage:
    case exit_code::infrastructure:
    case exit_code::interrupted:
      return ended.code;
    default:
      return fail(errc::infrastructure, "{} ended with exit code {}; what it printed says why", script, ended.code);
  }
}

}  // namespace cudal1::cli
