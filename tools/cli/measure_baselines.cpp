#include "tools/cli/measure_baselines.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "tools/cli/host_pace.hpp"
#include "tools/cli/share_out.hpp"

namespace cudal1::cli {

namespace {

using clock = std::chrono::steady_clock;

// The same task measured again, or other kinds of it.
void add_newer(measured_task newer, measured_task& m) {
  m.fresh = m.fresh && newer.fresh;
  if (newer.records.empty()) return;
  m.variant_problem = std::move(newer.variant_problem);
  for (auto& b : newer.records) {
    std::erase_if(m.records, [&](const auto& old) { return old.kind == b.kind; });
    m.records.push_back(std::move(b));
  }
}

class baseline_rounds {
 public:
  baseline_rounds(const baseline_wish& wish, const baseline_observer& observer,
                  const std::vector<std::unique_ptr<device_baselines>>& devices)
      : wish_(wish), observer_(observer), devices_(devices), found_(wish.tasks.size()), rounds_(wish.tasks.size()) {}

  // Those kinds of all tasks.
  expected<void> measure(const std::vector<std::string>& kinds) {
    if (kinds.empty()) return {};
    ++wanted_rounds_;
    return share_out(
        devices_.size(), wish_.tasks.size(), [&] { return is_over(); },
        [&](std::size_t device, std::size_t i) { return measure_one(device, i, kinds, wish_.again); });
  }

  // Those of what was measured that a slow host is the reason to measure again.
  expected<void> measure_slow_ones(const std::vector<std::string>& kinds) {
    if (kinds.empty()) return {};
    std::vector<std::size_t> measured;
    for (std::size_t i = 0; i < found_.size(); ++i)
      if (found_[i] && !found_[i]->records.empty()) measured.push_back(i);
    return share_out(
        devices_.size(), measured.size(), [&] { return is_over(); },
        [&](std::size_t device, std::size_t i) { return measure_one(device, measured[i], kinds, false); });
  }

  measured_baselines result() && {
    measured_baselines all;
    for (std::size_t i = 0; i < found_.size(); ++i) {
      if (rounds_[i] < wanted_rounds_) ++all.left;
      if (found_[i]) all.tasks.push_back(std::move(*found_[i]));
    }
    all.interrupted = interrupted_;
    return all;
  }

 private:
  bool is_over() const {
    const bool out_of_time =
        wish_.time_limit_s > 0 && clock::now() - begun_ >= std::chrono::duration<double>(wish_.time_limit_s);
    return out_of_time || interrupted_;
  }

  expected<void> measure_one(std::size_t device, std::size_t i, const std::vector<std::string>& kinds, bool again) {
    const auto doing = [&](const std::string& what) {
      const std::lock_guard lock(mutex_);
      if (observer_.doing) observer_.doing(what);
    };
    auto m = devices_[device]->measure(wish_.tasks[i], kinds, again, doing);
    if (!m && m.error().code == errc::cancelled) {
      interrupted_ = true;
      return {};
    }
    if (!m) return tl::unexpected<error>(std::move(m).error());
    const std::lock_guard lock(mutex_);
    const bool first = ++rounds_[i] == 1;
    if (observer_.finished && (first || !m->records.empty())) observer_.finished(*m);
    if (first) {
      found_[i] = std::move(*m);
    } else {
      add_newer(std::move(*m), *found_[i]);
    }
    return {};
  }

  const baseline_wish& wish_;
  const baseline_observer& observer_;
  const std::vector<std::unique_ptr<device_baselines>>& devices_;
  const clock::time_point begun_ = clock::now();
  std::mutex mutex_;
  std::vector<std::optional<measured_task>> found_;  // by task
  std::vector<int> rounds_;                          // that each task has been through
  int wanted_rounds_ = 0;
  std::atomic<bool> interrupted_ = false;
};

}  // namespace

expected<measured_baselines> measure_baselines(const std::string& data, const baseline_wish& wish,
                                               const baseline_observer& observer, int wake_fd) {
  std::vector<std::unique_ptr<device_baselines>> devices;
  for (const auto& name : wish.devices) {
    CUDAL1_TRY(devices.emplace_back(), device_baselines::hold(data, wish, name, wake_fd));
  }
  std::vector<std::string> compiled = wish.kinds;
  const auto cheap_ones =
      std::stable_partition(compiled.begin(), compiled.end(), [](const auto& kind) { return !is_cheap(kind); });
  const std::vector<std::string> cheap(cheap_ones, compiled.end());
  compiled.erase(cheap_ones, compiled.end());
  baseline_rounds rounds(wish, observer, devices);
  CUDAL1_CHECK(rounds.measure(compiled));
  CUDAL1_CHECK(rounds.measure(cheap));
  CUDAL1_CHECK(rounds.measure_slow_ones(cheap));
  measured_baselines all = std::move(rounds).result();
  for (const auto& d : devices) {
    all.where.push_back(d->where());
    if (all.torch.empty()) all.torch = d->torch();
  }
  return all;
}

}  // namespace cudal1::cli
