#include "sandbox/cpu/runtime/launch_threads.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include <unistd.h>

namespace cudal1 {
namespace {

class thread_pool {
 public:
  // Leaked on purpose: its threads end with the process, and a forked child must not join its parent's.
  static thread_pool& instance() {
    static auto* pool = new thread_pool;
    return *pool;
  }

  expected<void> grow(int threads) {
    if (owner_ != 0 && owner_ != ::getpid())
      return fail(errc::infrastructure, "launch threads were made before a fork; prepare them in the child only");
    const auto wanted = static_cast<std::size_t>(std::max(threads, 1) - 1);
    try {
      while (threads_.size() < wanted) {
        const int worker = static_cast<int>(threads_.size()) + 1;
        threads_.emplace_back([this, worker] { serve(worker); }).detach();
        owner_ = ::getpid();
      }
    } catch (const std::exception& e) {
      return fail(errc::infrastructure, "cannot make {} launch threads: {}", threads, e.what());
    }
    return {};
  }

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  void run(int64_t count, int threads, const std::function<void(int64_t, int64_t, int)>& work) {
    {
      const std::lock_guard lock(mutex_);
      work_ = &work;
      count_ = count;
      shares_ = threads;
      running_ = threads - 1;
      ++round_;
    }
    start_.notify_all();
    share(0, count, threads, work);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return running_ == 0; });
  }

 private:
  static void share(int worker, int64_t count, int shares, const std::function<void(int64_t, int64_t, int)>& work) {
    const int64_t first = count * worker / shares, last = count * (worker + 1) / shares;
    if (first < last) work(first, last, worker);
  }

  void serve(int worker) {
    uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      start_.wait(lock, [&] { return round_ != seen; });
      seen = round_;
      if (worker >= shares_) continue;
      const auto* work = work_;
      const auto count = count_;
      const int shares = shares_;
      lock.unlock();
      share(worker, count, shares, *work);
      lock.lock();
      if (--running_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable start_, done_;
  const std::function<void(int64_t, int64_t, int)>* work_ = nullptr;
  int64_t count_ = 0;
  int shares_ = 0, running_ = 0;
  uint64_t round_ = 0;
  pid_t owner_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace

expected<void> prepare_launch_threads(int threads) {
  return thread_pool::instance().grow(threads);
}
int prepared_launch_threads() {
  return thread_pool::instance().size();
}

void run_on_launch_threads(int64_t count, int threads, const std::function<void(int64_t, int64_t, int)>& run) {
  const int64_t shares = std::min<int64_t>({threads, prepared_launch_threads(), count});
  if (shares <= 1) {
    if (count > 0) run(0, count, 0);
  } else {
    thread_pool::instance().run(count, static_cast<int>(shares), run);
  }
}

}  // namespace cudal1
