// What waits and runs on the board, for people.
#include <algorithm>

#include "tools/serve/job_board.hpp"

namespace cudal1::serve {

std::vector<job_board::open_job> job_board::open_jobs(const api_client& client) const {
  const std::lock_guard guard(mutex_);
  std::vector<open_job> all;
  for (const auto& [id, j] : jobs_) {
    if (j.has_ended() || (j.client != client.name && !client.is_allowed("stop"))) continue;
    open_job one{id, j.client, j.task, j.device, j.state, j.accepted_unix_ms, std::ssize(j.items), 0, std::nullopt};
    for (std::size_t i = 0; i < j.items.size(); ++i) {
      const auto state = j.items[i].state;
      if (state != job_state::waiting && state != job_state::running) ++one.finished;
      if (state == job_state::waiting && !one.position)
        one.position = queue_of(j.items[i].kind()).position(j.client, {id, i});
    }
    all.push_back(std::move(one));
  }
  std::ranges::sort(all, {}, &open_job::accepted_unix_ms);
  return all;
}

}  // namespace cudal1::serve
