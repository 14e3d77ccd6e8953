// Threads that carry out calls in the order in which they come, of which a limited number may wait.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace cudal1::serve {

class thread_line {
 public:
  thread_line(int threads, std::size_t most_waiting) : most_(most_waiting) {
    for (int i = 0; i < threads; ++i)
      threads_.emplace_back([this] { run(); });
  }
  // Calls that wait are dropped.
  ~thread_line() {
    {
      const std::lock_guard guard(mutex_);
      ended_ = true;
      waiting_.clear();
    }
    changed_.notify_all();
    for (auto& thread : threads_)
      thread.join();
  }
  thread_line(const thread_line&) = delete;
  thread_line& operator=(const thread_line&) = delete;

  // False if too many wait.
  bool add(std::function<void()> call) {
    {
      const std::lock_guard guard(mutex_);
      if (ended_ || waiting_.size() >= most_) return false;
      waiting_.push_back(std::move(call));
    }
    changed_.notify_one();
    return true;
  }

 private:
  void run() {
    for (;;) {
      std::function<void()> call;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
        if (ended_) return;
        call = std::move(waiting_.front());
        waiting_.pop_front();
      }
      call();
    }
  }

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace cudal1::serve
