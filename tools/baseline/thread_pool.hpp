// Threads that share the items of a loop.
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

// The threads live as long as the pool.
class thread_pool {
 public:
  explicit thread_pool(std::size_t workers);
  ~thread_pool();
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;

  // Runs `work` for all items in order, each worker taking the next one, and waits. After an error no item is started,
  // and the first error is the result. Also stops when `is_over`, which any of the threads may call, is true.
  expected<void> for_each(std::size_t items, const std::function<bool()>& is_over,
                          const std::function<expected<void>(std::size_t worker, std::size_t item)>& work);

 private:
  using round = std::function<void(std::size_t worker)>;
  void serve(std::size_t worker);
  void go(const round& round_work);

  std::mutex mutex_;
  std::condition_variable changed_;
  const round* round_ = nullptr;
  uint64_t number_ = 0;   // of rounds started
  std::size_t busy_ = 0;  // workers that have not finished the current round
  bool ending_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace cudal1::cli
