#include "sandbox/isolation/core_choice.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "config/base/lowest_tenth.hpp"
#include "config/base/thread_cores.hpp"

namespace cudal1 {

namespace {

constexpr double fast_enough_factor = 1.1;
constexpr int runs_per_measurement = 3;  // the shortest counts: the first runs with cold caches
constexpr std::size_t measurements_kept = 64;
constexpr int measure_all_every = 16;

}  // namespace

double core_choice::benchmark_us() {
  constexpr int rounds = 1200;
  std::array<uint32_t, 1024> values;
  std::array<uint32_t, 8> states;
  const auto begin = std::chrono::steady_clock::now();
  uint32_t state = 12345;
  for (auto& v : values)
    v = state = state * 1664525U + 1013904223U;
  std::copy_n(values.begin(), states.size(), states.begin());
  for (int i = 0; i < rounds; ++i)
    for (auto& s : states)
      s = s * 1664525U + values[s >> 22];
  // Keeps the compiler from removing the computation.
  asm volatile("" : : "r"(states.data()) : "memory");
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

double core_choice::look() {
  double us = work_us_();
  for (int i = 1; i < runs_per_measurement; ++i)
    us = std::min(us, work_us_());
  measured_us_.push_back(us);
  if (measured_us_.size() > measurements_kept) measured_us_.pop_front();
  return us;
}

expected<void> core_choice::choose() {
  if (cores_.empty()) return {};
  if (cores_.size() == 1) return move_this_thread(cores_);
  const bool all = measured_us_.empty() || ++choices_ >= measure_all_every;
  if (all) choices_ = 0;
  std::optional<std::pair<double, int>> fastest;
  std::optional<error> problem;
  for (const int core : std::vector<int>(cores_)) {
    if (auto moved = move_this_thread({core}); !moved) {
      problem = std::move(moved).error();
      std::erase(cores_, core);
      continue;
    }
    const double us = look();
    if (!fastest || us < fastest->first) fastest = {us, core};
    if (!all && us <= fast_enough_factor * lowest_tenth({measured_us_.begin(), measured_us_.end()})) break;
  }
  if (!fastest) return tl::unexpected<error>(std::move(*problem));
  std::rotate(cores_.begin(), std::find(cores_.begin(), cores_.end(), fastest->second), cores_.end());
  return move_this_thread({fastest->second});
}

}  // namespace cudal1
