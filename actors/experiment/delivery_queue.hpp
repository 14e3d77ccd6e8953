// Takes a policy's proposals from whatever thread delivers them, and wakes the generator. Thread-safe.
#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "policy/search/policy.hpp"

namespace cudal1 {

class delivery_queue {
 public:
  explicit delivery_queue(std::function<void()> wake) : wake_(std::move(wake)) {}

  // Wakes the generator once for all that it has not taken yet.
  void add(delivery d) {
    bool first = false;
    {
      const std::lock_guard lock(mutex_);
      first = waiting_.empty();
      waiting_.push_back(std::move(d));
    }
    if (first) wake_();
  }
  std::vector<delivery> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(waiting_, {});
  }

 private:
  std::function<void()> wake_;
  std::mutex mutex_;
  std::vector<delivery> waiting_;
};

}  // namespace cudal1
