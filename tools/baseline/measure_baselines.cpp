#include "tools/baseline/measure_baselines.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "tools/baseline/host_pace.hpp"
#include "tools/baseline/thread_pool.hpp"

namespace cudal1::cli {

namespace {

using clock = std::chrono::steady_clock;

// Merges newer results of a task: other kinds of it, or the same ones measured again.
void add_newer(measured_task newer, measured_task& m) {
  m.fresh = m.fresh && newer.fresh;
  m.skipped = std::move(newer.skipped);
  if (newer.records.empty()) return;
  m.variant_problem = std::move(newer.variant_problem);
  for (auto& b : newer.records) {
    std::erase_if(m.records, [&](const auto& old) { return old.kind == b.kind; });
    m.records.push_back(std::move(b));
  }
}

class baseline_rounds {
 public:
  baseline_rounds(const baseline_plan& plan, const baseline_observer& observer,
                  const std::vector<std::unique_ptr<device_baselines>>& devices)
      : plan_(plan), observer_(observer), devices_(devices), threads_(devices.size()), found_(plan.tasks.size()) {}

  expected<void> go() {
    std::vector<std::string> compiled, cheap;
    for (const auto& kind : plan_.kinds)
      (is_cheap(kind) ? cheap : compiled).push_back(kind);
    const auto what = plan_.again ? what_to_measure::all : what_to_measure::missing;
    for (std::size_t i = 0; i < plan_.tasks.size(); ++i)
      left_.insert(i);
    if (!compiled.empty())
      CUDAL1_CHECK(measure(compiled, what, cheap.empty() ? follow_up::nothing : follow_up::more_kinds));
    if (cheap.empty()) return {};
    CUDAL1_CHECK(measure(cheap, what, follow_up::nothing));
    if (is_over()) return {};
    for (std::size_t i = 0; i < found_.size(); ++i)
      if (found_[i] && !found_[i]->records.empty()) left_.insert(i);
    return measure(cheap, what_to_measure::slow, follow_up::nothing);
  }

  measured_baselines result() && {
    measured_baselines all;
    all.left = static_cast<int64_t>(left_.size());
    all.interrupted = interrupted_;
    for (auto& m : found_)
      if (m) all.tasks.push_back(std::move(*m));
    return all;
  }

 private:
  bool is_over() const {
    const bool out_of_time =
        plan_.time_limit_s > 0 && clock::now() - begun_ >= std::chrono::duration<double>(plan_.time_limit_s);
    return out_of_time || interrupted_;
  }

  // Whether other kinds of the same tasks are measured afterwards.
  enum class follow_up { more_kinds, nothing };

  // Measures these kinds of all tasks that are left.
  expected<void> measure(const std::vector<std::string>& kinds, what_to_measure what, follow_up left) {
    const std::vector<std::size_t> tasks(left_.begin(), left_.end());
    return threads_.for_each(
        tasks.size(), [&] { return is_over(); },
        [&](std::size_t device, std::size_t i) { return measure_one(device, tasks[i], kinds, what, left); });
  }

  expected<void> measure_one(std::size_t device, std::size_t i, const std::vector<std::string>& kinds,
                             what_to_measure what, follow_up left) {
    const auto doing = [&](const std::string& text) {
      const std::lock_guard lock(mutex_);
      if (observer_.doing) observer_.doing(text);
    };
    auto m = devices_[device]->measure(plan_.tasks[i], kinds, what, doing);
    if (!m && m.error().code == errc::cancelled) {
      interrupted_ = true;
      return {};
    }
    if (!m) return tl::unexpected<error>(std::move(m).error());
    const std::lock_guard lock(mutex_);
    if (left == follow_up::nothing) left_.erase(i);
    const bool measured = !m->records.empty();
    if (measured && observer_.finished) observer_.finished(*m);
    if (found_[i]) {
      add_newer(std::move(*m), *found_[i]);
    } else {
      found_[i] = std::move(*m);
    }
    // Nothing was measured: everything was stored, or the task was skipped.
    if (left == follow_up::nothing && found_[i]->records.empty() && observer_.finished) observer_.finished(*found_[i]);
    return {};
  }

  const baseline_plan& plan_;
  const baseline_observer& observer_;
  const std::vector<std::unique_ptr<device_baselines>>& devices_;
  const clock::time_point begun_ = clock::now();
  thread_pool threads_;
  std::mutex mutex_;
  std::vector<std::optional<measured_task>> found_;  // by task
  std::set<std::size_t> left_;                       // tasks
  std::atomic<bool> interrupted_ = false;
};

}  // namespace

expected<measured_baselines> measure_baselines(const std::string& data, const baseline_plan& plan,
                                               const baseline_observer& observer, int wake_fd) {
  std::vector<std::unique_ptr<device_baselines>> devices;
  for (const auto& name : plan.devices) {
    CUDAL1_TRY(devices.emplace_back(), device_baselines::hold(data, plan, name, wake_fd));
  }
  baseline_rounds rounds(plan, observer, devices);
  const auto done = rounds.go();
  measured_baselines all = std::move(rounds).result();
  if (!done) all.fault = done.error();
  for (const auto& d : devices) {
    all.where.push_back(d->where());
    if (all.torch.empty()) all.torch = d->torch();
  }
  return all;
}

}  // namespace cudal1::cli
