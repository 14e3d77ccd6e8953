#include "actors/transport/connection_table.hpp"

#include <algorithm>

#include <pthread.h>
#include <sys/socket.h>

namespace cudal1 {

using std::chrono::steady_clock;

connection_table::connection_table(std::size_t most_handshakes, std::chrono::seconds limit)
    : most_handshakes_(most_handshakes), limit_(limit), sweeper_([this] { sweep(); }) {
  ::pthread_setname_np(sweeper_.native_handle(), "tls-limits");
}

void connection_table::enter(int fd, stage to) {
  const std::lock_guard guard(mutex_);
  if (stopped_) return shut_down(fd);
  entry& e = entries_.try_emplace(fd, entry{next_id_, stage::open, {}, std::nullopt}).first->second;
  if (e.id == next_id_) ++next_id_;
  e.now = to;
  e.deadline = to == stage::open ? steady_clock::time_point::max() : steady_clock::now() + limit_;
  if (to == stage::handshake) close_oldest_handshake();
  changed_.notify_one();
}

void connection_table::set_peer(int fd, const peer& who) {
  const std::lock_guard guard(mutex_);
  if (const auto at = entries_.find(fd); at != entries_.end()) at->second.who = who;
}

void connection_table::leave(int fd) {
  const std::lock_guard guard(mutex_);
  entries_.erase(fd);
}

void connection_table::close_if(const std::function<bool(const peer&)>& refused) {
  std::map<int, entry> known;
  {
    const std::lock_guard guard(mutex_);
    known = entries_;
  }
  std::erase_if(known, [&](const auto& at) { return !at.second.who || !refused(*at.second.who); });
  const std::lock_guard guard(mutex_);
  for (const auto& [fd, e] : known) {
    if (const auto at = entries_.find(fd); at != entries_.end() && at->second.id == e.id) shut_down(fd);
  }
}

void connection_table::stop() {
  {
    const std::lock_guard guard(mutex_);
    if (!stopped_) {
      for (const auto& [fd, e] : entries_)
        shut_down(fd);
    }
    stopped_ = true;
    changed_.notify_one();
  }
  if (sweeper_.joinable()) sweeper_.join();
}

void connection_table::shut_down(int fd) {
  ::shutdown(fd, SHUT_RDWR);
}

void connection_table::close_oldest_handshake() {
  std::size_t handshakes = 0;
  auto oldest = entries_.end();
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    if (at->second.now != stage::handshake) continue;
    ++handshakes;
    if (oldest == entries_.end() || at->second.id < oldest->second.id) oldest = at;
  }
  if (handshakes > most_handshakes_) end(oldest->first, oldest->second);
}

void connection_table::end(int fd, entry& e) {
  shut_down(fd);
  e.now = stage::open;
  e.deadline = steady_clock::time_point::max();
}

void connection_table::sweep() {
  std::unique_lock guard(mutex_);
  while (!stopped_) {
    const auto now = steady_clock::now();
    auto next = steady_clock::time_point::max();
    for (auto& [fd, e] : entries_) {
      if (e.deadline <= now) end(fd, e);
      next = std::min(next, e.deadline);
    }
    if (next == steady_clock::time_point::max()) {
      changed_.wait(guard);
    } else {
      changed_.wait_until(guard, next);
    }
  }
}

}  // namespace cudal1
