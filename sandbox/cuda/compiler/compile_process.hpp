// The compiler's side of its zygote: one confined process per compilation, killed when it is done or too slow.
#pragma once

#include <limits>
#include <memory>
#include <mutex>
#include <string>

#include "config/base/unique_fd.hpp"
#include "sandbox/cuda/compiler/compile_messages.hpp"

namespace cudal1 {

struct compile_output {
  compile_status status = compile_status::internal_error;
  std::string cubin, ptx, log;
};

// Thread-safe: forks are serialised, compilations run concurrently.
class compile_processes {
 public:
  // Starts the zygote and waits until it is warm. Errors: infrastructure, unsupported (the architecture).
  static expected<std::unique_ptr<compile_processes>> start(const std::string& worker, compile_settings settings);
  ~compile_processes();
  compile_processes(const compile_processes&) = delete;
  compile_processes& operator=(const compile_processes&) = delete;

  const compile_zygote_report& report() const { return report_; }
  int zygote() const;  // its process id

  // Restarts a lost zygote, at most once per call. Errors: timeout (time or memory), compile_failed (the compiler
  // crashed on this source), unsupported (headers that are not installed), infrastructure.
  // `seconds`: at most so long, and at most the settings' limit.
  expected<compile_output> run(const compile_request& request,
                               double seconds = std::numeric_limits<double>::infinity());

 private:
  compile_processes(std::string worker, compile_settings settings)
      : worker_(std::move(worker)), settings_(std::move(settings)) {}
  struct child;
  expected<void> start_zygote();
  void end_zygote();
  expected<child> spawn(const compile_request& request);
  expected<child> spawn_once(const compile_request& request);
  expected<compile_output> finish(child& c, double limit_s) const;
  tl::unexpected<error> ended_badly(const compile_ending& ending) const;

  std::string worker_;
  compile_settings settings_;
  compile_zygote_report report_;
  mutable std::mutex lock_;  // guards what follows
  unique_fd socket_;
  pid_t pid_ = 0;
};

}  // namespace cudal1
