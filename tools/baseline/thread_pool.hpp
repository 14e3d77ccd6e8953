// Threads that share work.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1::cli {

// The threads stay until this goes: a process that one of them has started may end with it (PR_SET_PDEATHSIG).
class thread_pool {
 public:
  explicit thread_pool(std::size_t workers);
  ~thread_pool();
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;

  // Does the items in their order, each worker the next one that nobody has had, and waits. None is begun after an
  // error, which is the result (the first of them), or once `is_over`, which any of the threads may ask.
  expected<void> for_each(std::size_t items, const std::function<bool()>& is_over,
                          const std::function<expected<void>(std::size_t worker, std::size_t item)>& work);

 private:
  using round = std::function<void(std::size_t worker)>;
  void serve(std::size_t worker);
  void go(const round& all_do);

  std::mutex mutex_;
  std::condition_variable changed_;
  const round* round_ = nullptr;
  uint64_t number_ = 0;   // of rounds begun
  std::size_t busy_ = 0;  // workers that have not ended this one
  bool ending_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace cudal1::cli
