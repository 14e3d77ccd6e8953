// Threads for work that would keep an actor from its messages: proposals are made, lowered and checked on them.
#pragma once

#include <cstddef>
#include <functional>

#include <boost/asio/thread_pool.hpp>

namespace cudal1 {

// Thread-safe. The destructor drops what has not begun, and waits for the rest.
class proposal_threads {
 public:
  explicit proposal_threads(std::size_t threads) : threads_(threads) {}
  ~proposal_threads();
  proposal_threads(const proposal_threads&) = delete;
  proposal_threads& operator=(const proposal_threads&) = delete;

  // In the order of the calls, on any of the threads. `work` must not throw.
  void post(std::function<void()> work);

 private:
  boost::asio::thread_pool threads_;
};

}  // namespace cudal1
