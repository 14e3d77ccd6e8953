#include "tools/serve/job.hpp"

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/text_file.hpp"
#include "tools/serve/access.hpp"

namespace cudal1::serve {

namespace fs = std::filesystem;

void job::update_state() {
  const auto count = [this](job_state s) { return std::ranges::count(items, s, &job_item::state); };
  const auto all = std::ssize(items);
  if (count(job_state::waiting) == all)
    state = job_state::waiting;
  else if (count(job_state::waiting) + count(job_state::running) > 0)
    state = job_state::running;
  else if (count(job_state::cancelled) > 0)
    state = job_state::cancelled;
  else
    state = count(job_state::failed) > 0 ? job_state::failed : job_state::done;
}

expected<std::vector<job>> job_folder::read_all() const {
  std::vector<job> jobs;
  std::error_code problem;
  for (fs::directory_iterator entry(path_, problem), end; !problem && entry != end; entry.increment(problem)) {
    if (entry->path().extension() != ".json") continue;
    CUDAL1_TRY(const std::string text, read_text_file(entry->path().string()));
    auto read = from_text<job>(text);
    if (!read) return fail_in(entry->path().string() + ": delete this file to go on without its job", read.error());
    jobs.push_back(std::move(*read));
  }
  std::ranges::sort(jobs, {}, [](const job& j) { return std::tuple(j.accepted_unix_ms, j.id); });
  return jobs;
}

expected<void> job_folder::write(const job& j) const {
  std::error_code problem;
  fs::create_directories(path_, problem);
  return write_durably({.path = path_ + "/" + j.id + ".json"}, to_text(j));
}

expected<void> job_folder::remove(const std::string& id) const {
  std::error_code problem;
  fs::remove(path_ + "/" + id + ".json", problem);
  if (problem) return fail(errc::io_error, "cannot delete {}/{}.json: {}", path_, id, problem.message());
  return {};
}

expected<std::string> new_job_id() {
  CUDAL1_TRY(const std::string number, random_hex(8));
  return "j" + number;
}

}  // namespace cudal1::serve
