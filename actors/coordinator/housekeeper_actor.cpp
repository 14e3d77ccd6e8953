#include "actors/coordinator/housekeeper_actor.hpp"

#include "config/base/wall_clock.hpp"

namespace cudal1 {

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds pulse_with_quota{2s}, pulse{30s};
constexpr auto between_compactions = 1h, between_prunings = 24h;
constexpr duration prune_timeout{10min};
constexpr double freed_to = 0.9;  // of the quota, so that not each new file causes a deletion
constexpr int64_t ms_per_day = 86'400'000;

}  // namespace

void housekeeper_state::begin(housekeeper_actor::pointer self, housekeeper_setup setup) {
  self_ = self;
  setup_ = std::move(setup);
  usage_.emplace(setup_.data, setup_.options.disk_quota_gb);
  self_->send(housekeeper_actor(self_), message::tick{});
}

void housekeeper_state::tick() {
  self_->delayed_send(housekeeper_actor(self_), setup_.options.disk_quota_gb > 0 ? pulse_with_quota : pulse,
                      message::tick{});
  watch_space();
  const auto now = clock::now();
  if (setup_.options.keep_days > 0 && (!pruned_ || now - *pruned_ > between_prunings)) {
    pruned_ = now;
    prune();
  }
}

void housekeeper_state::watch_space() {
  auto now = usage_->measure();
  if (!usage_->problem_of(now).empty()) make_room(now);
  now.problem = problem_.empty() ? usage_->problem_of(now) : usage_->lasting_problem_of(now);
  if (now.problem.empty() != problem_.empty())
    now.problem.empty() ? spdlog::info("the data folder has room again") : spdlog::error("{}", now.problem);
  problem_ = now.problem;
  self_->send(setup_.records, std::move(now));
}

void housekeeper_state::make_room(message::disk_usage& now) {
  const auto wanted = static_cast<int64_t>(freed_to * static_cast<double>(now.quota_bytes));
  if (const auto freed = usage_->free_down_to(wanted); freed > 0)
    spdlog::info("the data folder reached its quota: {:.3g} MB of compiled code and older logs were deleted",
                 static_cast<double>(freed) / 1e6);
  now = usage_->measure();
  if (usage_->problem_of(now).empty() || (compacted_ && clock::now() - *compacted_ < between_compactions)) return;
  compact();
  now = usage_->measure();
}

void housekeeper_state::compact() {
  compacted_ = clock::now();
  if (const auto done = setup_.db->compact(); !done)
    spdlog::warn("the store was not compacted: {}", done.error().message);
}

void housekeeper_state::prune() {
  message::prune_store first;
  first.rule.ended_before_unix_ms = unix_ms() - setup_.options.keep_days * ms_per_day;
  prune_step(first, {});
}

void housekeeper_state::prune_step(const message::prune_store& step, prune_report so_far) {
  ask<prune_report>(
      self_, setup_.node, prune_timeout, step,
      [this, step, so_far](const prune_report& done) mutable {
        so_far.add(done);
        if (!done.next.empty()) return prune_step({step.rule, done.next}, std::move(so_far));
        if (so_far.bytes == 0) return;
        spdlog::info("pruned what {} experiments left that ended more than {} days ago: {} variants, {:.3g} MB",
                     so_far.experiments.size(), setup_.options.keep_days, so_far.variants,
                     static_cast<double>(so_far.bytes) / 1e6);
        compact();
      },
      [](const error& e) { spdlog::error("old records were not pruned: {}", e.message); });
}

housekeeper_actor::behavior_type run_housekeeper(housekeeper_actor::stateful_pointer<housekeeper_state> self,
                                                 const housekeeper_setup& setup) {
  prepare(self);
  auto& s = self->state;
  s.begin(self, setup);
  return {[&s](const message::tick&) { log_exceptions(s.name, [&] { s.tick(); }); }};
}

}  // namespace cudal1
