#include "store/group_commit.hpp"

#include <iterator>

#include "config/base/describe.hpp"
#include "store/encoding.hpp"
#include "store/keys.hpp"

namespace cudal1 {

std::string event_key(int64_t sequence) {
  return keys::writer().number(static_cast<uint64_t>(sequence)).take();
}

expected<std::vector<int64_t>> group_commit::write(batch b) {
  request mine{std::move(b), {}, {}, false};
  std::unique_lock lock(mutex_);
  queue_.push_back(&mine);
  while (!mine.done) {
    if (leading_) {
      finished_.wait(lock);
    } else {
      lead(lock);
    }
  }
  if (!mine.result) return tl::unexpected(std::move(mine.result).error());
  return std::move(mine.numbers);
}

void group_commit::lead(std::unique_lock<std::mutex>& lock) {
  leading_ = true;
  const std::vector<request*> group = std::exchange(queue_, {});
  int64_t number = next_event_;
  lock.unlock();

  std::vector<put> all;
  for (auto* r : group) {
    std::move(r->work.puts.begin(), r->work.puts.end(), std::back_inserter(all));
    for (auto& e : r->work.events) {
      e.sequence = number++;
      r->numbers.push_back(e.sequence);
      all.push_back({family::events, event_key(e.sequence), encode(e)});
    }
  }
  const expected<void> result = database_.write(all);

  lock.lock();
  if (result) {
    next_event_ = number;
    statistics_.batches += static_cast<int64_t>(group.size());
    ++statistics_.synced_groups;
  }
  for (auto* r : group) {
    r->result = result;
    r->done = true;
  }
  leading_ = false;
  finished_.notify_all();
}

store_statistics group_commit::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace cudal1
