// Group commit: threads that write at the same time share one synced batch. The first to come leads: it takes all that
// is queued, writes it, and tells the others; those that come meanwhile form the next group. Events get their numbers
// here, so that they are seen in the order of their numbers and a reader that follows them misses none.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "store/database.hpp"
#include "store/store.hpp"

namespace cudal1 {

class group_commit {
 public:
  // `next_event`: the number of the first event to be written.
  group_commit(database& where, int64_t next_event) : database_(where), next_event_(next_event) {}

  struct batch {
    std::vector<put> puts;
    std::vector<event_record> events;
  };
  // All or nothing, with the events' numbers once it is on disk. Blocks; any thread may call it.
  expected<std::vector<int64_t>> write(batch b);

  store_statistics statistics() const;

 private:
  struct request {
    batch work;
    std::vector<int64_t> numbers;
    expected<void> result;
    bool done = false;
  };
  void lead(std::unique_lock<std::mutex>& lock);

  database& database_;
  mutable std::mutex mutex_;
  std::condition_variable finished_;
  std::vector<request*> queue_;  // on their callers' stacks until done
  bool leading_ = false;
  int64_t next_event_;
  store_statistics statistics_;
};

// The key of an event: its number.
std::string event_key(int64_t sequence);

}  // namespace cudal1
