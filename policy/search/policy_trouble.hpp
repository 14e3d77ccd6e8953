// What keeps a policy from proposing, for the progress of its experiment: a server that cannot be reached, say.
#pragma once

#include <map>
#include <mutex>
#include <string>

namespace cudal1 {

// Written by the policy's threads, read by the experiment's. Thread-safe.
class policy_trouble {
 public:
  // The trouble with one of the things that the policy depends on (a model, by its name); "": it works.
  void set(const std::string& with, std::string what) {
    const std::lock_guard lock(mutex_);
    if (what.empty())
      now_.erase(with);
    else
      now_[with] = std::move(what);
  }
  // "" if all works.
  std::string text() const {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (const auto& [with, what] : now_)
      all += (all.empty() ? "" : "; ") + what;
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> now_;
};

}  // namespace cudal1
