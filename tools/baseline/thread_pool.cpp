#include "tools/baseline/thread_pool.hpp"

#include <optional>
#include <utility>

namespace cudal1::cli {

thread_pool::thread_pool(std::size_t workers) {
  for (std::size_t i = 0; i < workers; ++i)
    threads_.emplace_back([this, i] { serve(i); });
}

thread_pool::~thread_pool() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
}

void thread_pool::serve(std::size_t worker) {
  for (uint64_t done = 0;;) {
    const round* round_work = nullptr;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ending_ || number_ > done; });
      if (ending_) return;
      done = number_;
      round_work = round_;
    }
    (*round_work)(worker);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) changed_.notify_all();
  }
}

void thread_pool::go(const round& round_work) {
  std::unique_lock lock(mutex_);
  round_ = &round_work;
  busy_ = threads_.size();
  ++number_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return busy_ == 0; });
}

expected<void> thread_pool::for_each(std::size_t items, const std::function<bool()>& is_over,
                                     const std::function<expected<void>(std::size_t worker, std::size_t item)>& work) {
  std::mutex mutex;
  std::size_t next = 0;
  expected<void> result;
  const auto take = [&]() -> std::optional<std::size_t> {
    const std::lock_guard lock(mutex);
    if (!result || next == items || is_over()) return std::nullopt;
    return next++;
  };
  go([&](std::size_t worker) {
    while (const auto item = take()) {
      auto done = work(worker, *item);
      if (done) continue;
      const std::lock_guard lock(mutex);
      if (result) result = std::move(done);
    }
  });
  return result;
}

}  // namespace cudal1::cli
