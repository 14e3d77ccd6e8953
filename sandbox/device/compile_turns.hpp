// Turns for the processes of a compiler, which runs so many at the same time, for one program or for several.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>

#include "config/base/error.hpp"

namespace cudal1 {

// Thread-safe.
class compile_turns {
 public:
  explicit compile_turns(int at_once) : at_once_(at_once) {}

  // Calls work(i) for each i below `count`, each in a turn: in the calling thread, and in further threads while there
  // are turns for which no other caller waits. So each program is compiled at any time, and one of many parts takes
  // what the others leave. After an error no further work begins. Returns the error of the lowest i that has one.
  expected<void> run(std::size_t count, const std::function<expected<void>(std::size_t)>& work);
  int waiting() const;  // callers that have no turn yet

 private:
  enum class asker { caller, helper };
  // False, without a turn, where `is_over` says that there is nothing left to do.
  bool take(asker who, const std::function<bool()>& is_over);
  void give_back();

  const int at_once_;
  mutable std::mutex lock_;  // guards what follows
  std::condition_variable changed_;
  int taken_ = 0, waiting_ = 0;
};

}  // namespace cudal1
