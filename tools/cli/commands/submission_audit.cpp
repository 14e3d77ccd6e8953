#include "tools/cli/commands/submission_audit.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "config/base/describe.hpp"
#include "config/base/hash.hpp"
#include "sandbox/device/device_names.hpp"
#include "sandbox/device/device_type.hpp"
#include "tools/cli/python_process.hpp"
#include "tools/kernelbench/kept_files.hpp"

namespace cudal1::cli {

namespace {

// What the script writes of a submission that it has judged.
struct judged_submission {
  kernelbench::submission_verdict verdict;
  std::string source, problem;
};
BOOST_DESCRIBE_STRUCT(judged_submission, (), (verdict, source, problem))

// A file that goes with it.
class record_file {
 public:
  explicit record_file(const context& c) : path_(fmt::format("{}/judged-{}.jsonl", c.data, ::getpid())) {}
  ~record_file() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  record_file(const record_file&) = delete;
  record_file& operator=(const record_file&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The tasks of the store that are whole models of one file, by the name of its blob.
expected<std::map<std::string, task>> tasks_by_source(const context& c) {
  std::map<std::string, task> found;
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  CUDAL1_TRY(const auto records, reader->tasks());
  for (const auto& record : records) {
    const auto t = read_task(record.text, record.profile);
    if (t && t->is_whole_model()) found.emplace(t->origin->source, *t);
  }
  return found;
}

// Keeps the verdicts on submissions whose problem is a task of the store: how many.
expected<int64_t> keep_judged(const std::string& file, const std::string& device, const context& c) {
  int64_t count = 0;
  std::ifstream lines(file);
  CUDAL1_TRY(const auto tasks, tasks_by_source(c));
  CUDAL1_TRY(const auto devices, find_devices(device));
  for (std::string line; std::getline(lines, line);) {
    CUDAL1_TRY(const auto judged, from_text<judged_submission>(line));
    const auto what = tasks.find(sha256_hex(judged.problem) + ".py");
    if (what == tasks.end()) continue;
    const auto record =
        kernelbench::as_judged_file(judged.verdict, judged.source, what->second, device, devices.front().model);
    CUDAL1_CHECK(kernelbench::keep_file(c, record, what->second));
    ++count;
  }
  return count;
}

}  // namespace

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
  const record_file records(c);
  if (store_exists(c)) words.insert(words.end(), {"--records", records.path()});
  CUDAL1_TRY(const auto ended, run_python(python, script, words));
  c.out.print(ended.out);
  if (std::filesystem::exists(records.path())) {
    const auto kept = keep_judged(records.path(), o.device, c);
    if (!kept)
      note(c, "the verdicts are not kept in the store: " + kept.error().message);
    else if (*kept > 0)
      note(c, fmt::format("{} of tasks of the store {} kept there: `cudal1 best TASK` shows them.",
                          *kept == 1 ? "One verdict" : fmt::format("{} verdicts", *kept), *kept == 1 ? "is" : "are"));
  }
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
