#include "actors/agent/blob_fetcher.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include "config/base/unique_fd.hpp"

namespace cudal1 {

namespace {

constexpr duration part_timeout{std::chrono::seconds(60)};

// Others than these pass when the coordinator is back.
bool is_lasting(errc code) {
  return code == errc::not_found || code == errc::corrupt || code == errc::invalid_argument || code == errc::io_error;
}

}  // namespace

blob_fetcher::blob_fetcher(agent_actor::pointer self, const std::string& data, result ended)
    : self_(self), kept_(data), folder_(data + "/incoming"), ended_(std::move(ended)) {}

void blob_fetcher::want(const std::string& name) {
  if (std::ranges::count(wanted_, name) > 0) return;
  wanted_.push_back(name);
  if (wanted_.size() == 1) next();
}

void blob_fetcher::connected(const coordinator_actor& coordinator) {
  ++connection_;
  from_ = coordinator;
  next();
}

void blob_fetcher::disconnected() {
  ++connection_;
  from_ = nullptr;
}

void blob_fetcher::next() {
  offset_ = 0;
  if (from_ && !wanted_.empty()) ask_for_part();
}

void blob_fetcher::ask_for_part() {
  ask<message::blob_part>(
      self_, from_, part_timeout, message::read_blob{wanted_.front(), offset_},
      [this, asked = connection_](const message::blob_part& part) {
        if (asked != connection_) return;
        if (auto added = add(part); !added) return end(added);
        if (offset_ < part.size) return ask_for_part();
        end(kept_.take(folder_, wanted_.front()));
      },
      [this, asked = connection_](const error& e) {
        if (asked != connection_) return;
        if (is_lasting(e.code)) return end(tl::unexpected<error>(e));
        spdlog::warn("agent: the blob {} is asked for again: {}", wanted_.front(), e.message);
        next();
      });
}

expected<void> blob_fetcher::add(const message::blob_part& part) {
  std::error_code problem;
  std::filesystem::create_directories(folder_, problem);
  std::filesystem::create_directories(kept_.folder(), problem);
  const auto failed = [&](const char* what) {
    return fail(errc::io_error, "the blob {}: {}: {}", unfinished(), what, std::strerror(errno));
  };
  const unique_fd file(
      ::open(unfinished().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (offset_ == 0 ? O_TRUNC : 0), 0600));
  if (!file) return failed("cannot be created");
  if (part.bytes.empty() && part.size > offset_)
    return fail(errc::corrupt, "the blob {} ends before its {} bytes", wanted_.front(), part.size);
  for (std::size_t done = 0; done < part.bytes.size();) {
    const ssize_t n = ::pwrite(file.get(), part.bytes.data() + done, part.bytes.size() - done,
                               static_cast<off_t>(offset_) + static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed("cannot be written");
    done += static_cast<std::size_t>(n);
  }
  offset_ += static_cast<int64_t>(part.bytes.size());
  return {};
}

void blob_fetcher::end(const expected<void>& how) {
  const std::string name = wanted_.front();
  ::unlink(unfinished().c_str());
  wanted_.pop_front();
  if (!how) spdlog::error("agent: the blob {} cannot be had: {}", name, how.error().message);
  ended_(name, how);
  next();
}

}  // namespace cudal1
