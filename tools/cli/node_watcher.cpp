#include "tools/cli/node_watcher.hpp"

#include <algorithm>
#include <chrono>

#include "tools/cli/node_process.hpp"

namespace cudal1::cli {

top_state node_watcher::look() {
  top_state s;
  s.place = place_of(context_);
  auto node = connect_to_node(context_);
  if (node)
    s.node = std::move(node->status);
  else if (node.error().code != errc::not_found)
    s.problem = node.error().message;
  if (!s.node) {
    followed_.clear();
    return s;
  }
  for (const auto& id : s.node->experiments)
    if (const auto started = follow(id); !started) s.problem = started.error().message;
  std::erase_if(followed_, [&](const auto& one) {
    return std::ranges::find(s.node->experiments, one.first) == s.node->experiments.end();
  });
  for (auto& [id, one] : followed_) {
    read(one);
    if (const auto counted = count_in_flight(one, id); !counted) s.problem = counted.error().message;
    if (!one.ended && !one.shown.progress.experiment.empty()) s.experiments.push_back(one.shown);
  }
  return s;
}

expected<void> node_watcher::follow(const std::string& id) {
  if (followed_.contains(id)) return {};
  CUDAL1_CHECK(read_store());
  CUDAL1_TRY(const auto record, store_->get_experiment(id));
  CUDAL1_TRY(auto client, connect_client(context_));
  client_request r;
  r.verb = client_verb::follow;
  r.experiment = id;
  CUDAL1_CHECK(client.send(r));
  top_experiment shown;
  shown.limits = {record.device, record.policy, record.time_limit_s};
  followed_.emplace(id, followed{std::move(client), std::move(shown), false});
  return {};
}

// Takes all answers that have arrived.
void node_watcher::read(followed& one) {
  while (!one.ended) {
    const auto answer = one.client.receive(std::chrono::milliseconds(1));
    if (!answer) {
      one.ended = answer.error().code != errc::timeout;
      return;
    }
    one.ended = answer->last || error_of(*answer).has_value();
    if (!answer->progress) continue;
    std::map<std::string, double> since;
    for (const auto& [stage, ms] : answer->progress->stage_ms)
      since[stage] = ms - one.shown.progress.stage_ms[stage];
    if (device_ms_of(since) > 0) one.shown.recent_ms = std::move(since);
    one.shown.progress = *answer->progress;
  }
}

expected<void> node_watcher::count_in_flight(followed& one, const std::string& id) {
  CUDAL1_CHECK(read_store());
  CUDAL1_TRY(const auto open, store_->unfinished_attempts(id));
  one.shown.in_flight =
      std::ranges::count_if(open, [](const attempt_record& a) { return a.state == attempt_state::leased; });
  return {};
}

// Opened once, and up to date.
expected<void> node_watcher::read_store() {
  if (store_) return store_->refresh();
  CUDAL1_TRY(store_, open_for_reading(context_));
  return {};
}

}  // namespace cudal1::cli
