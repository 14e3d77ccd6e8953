// Programs and graphs of packages by the numbers that Python has for them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "tools/package_runtime/packaged_program.hpp"

namespace cudal1::package {

// Things of one kind by their numbers, from 1 on. Thread-safe; what is dropped lives until its last call has ended.
template <class T>
class numbered {
 public:
  int64_t add(std::shared_ptr<T> what) {
    const std::unique_lock lock(mutex_);
    all_[++last_] = std::move(what);
    return last_;
  }
  std::shared_ptr<T> at(int64_t number) const {
    const std::shared_lock lock(mutex_);
    const auto found = all_.find(number);
    if (found == all_.end())
      throw std::invalid_argument("there is no program " + std::to_string(number) + " of a package any more");
    return found->second;
  }
  void drop(int64_t number) {
    std::shared_ptr<T> last;  // ends behind the lock
    const std::unique_lock lock(mutex_);
    if (const auto found = all_.find(number); found != all_.end()) {
      last = std::move(found->second);
      all_.erase(found);
    }
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<int64_t, std::shared_ptr<T>> all_;
  int64_t last_ = 0;
};

// Of the process; not destroyed, since PyTorch, whose memory they hold, may end before.
numbered<packaged_program>& programs();
numbered<packaged_graph>& graphs();

}  // namespace cudal1::package
