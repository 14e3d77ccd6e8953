#include "tools/cli/arms/arm_records.hpp"

#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/text_file.hpp"

namespace cudal1::cli {

namespace {

// What was found out about the program, not about the moment.
bool is_conclusive_for_others(outcome o) {
  return o != outcome::unmeasurable && o != outcome::quarantined;
}

}  // namespace

void arm_records::keep(arm_record r) {
  if (r.answer) {
    const answer_key key = *r.answer;
    answers_.insert_or_assign(key, std::move(*r.answer));
  }
  if (r.verdict) {
    const answer_key key = *r.verdict;
    const auto& v = *r.verdict;
    if (!v.program.empty() && v.is_measured && is_conclusive_for_others(v.result))
      known_.try_emplace({v.task, v.program, v.environment_class}, key);
    verdicts_.insert_or_assign(key, std::move(*r.verdict));
  }
  if (r.run) runs_.push_back(std::move(*r.run));
  if (r.phase) phases_.push_back(std::move(*r.phase));
}

// The size of what was whole.
expected<std::size_t> arm_records::take(const std::string& text) {
  std::size_t at = 0;
  for (int64_t number = 1; at < text.size(); ++number) {
    const auto end = text.find('\n', at);
    if (end == std::string::npos) break;
    auto read = from_text<arm_record>(std::string_view(text).substr(at, end - at));
    if (!read) return fail(errc::corrupt, "{}, line {}: {}", path_, number, read.error().message);
    keep(std::move(*read));
    at = end + 1;
  }
  return at;
}

expected<arm_records> arm_records::read(const std::string& folder) {
  arm_records out;
  out.path_ = folder + "/records.jsonl";
  std::error_code problem;
  if (!std::filesystem::exists(out.path_, problem)) return out;
  CUDAL1_TRY(const auto text, read_text_file(out.path_));
  CUDAL1_CHECK(out.take(text));
  return out;
}

expected<arm_records> arm_records::open(const std::string& folder) {
  arm_records out;
  out.path_ = folder + "/records.jsonl";
  out.fd_ = unique_fd(::open(out.path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (out.fd_.get() < 0) return fail(errc::io_error, "{} cannot be opened to write", out.path_);
  CUDAL1_TRY(const auto text, read_text_file(out.path_));
  CUDAL1_TRY(const auto whole, out.take(text));
  if (whole < text.size() && ::ftruncate(out.fd_.get(), static_cast<off_t>(whole)) != 0)
    return fail(errc::io_error, "{}: its last line, which was cut off, cannot be removed", out.path_);
  CUDAL1_CHECK(sync_folder(folder));
  return out;
}

expected<void> arm_records::add(arm_record r) {
  const std::lock_guard lock(*mutex_);
  CUDAL1_CHECK(write_all(fd_.get(), to_text(r) + "\n", path_));
  if (::fdatasync(fd_.get()) != 0) return fail(errc::io_error, "{} cannot be written to disk", path_);
  keep(std::move(r));
  return {};
}

const arm_verdict* arm_records::known(const std::string& task, const std::string& program,
                                      const std::string& environment_class) const {
  const std::lock_guard lock(*mutex_);
  const auto found = known_.find({task, program, environment_class});
  return found == known_.end() ? nullptr : &verdicts_.at(found->second);
}

}  // namespace cudal1::cli
