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

constexpr double about_as_fast = 1.1;
constexpr int times_of_a_look = 3;  // the shortest counts: the first runs with cold caches
constexpr std::size_t looks_kept = 64;
constexpr int look_at_all_every = 16;

}  // namespace

double core_choice::known_work_us() {
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
  for (int i = 1; i < times_of_a_look; ++i)
    us = std::min(us, work_us_());
  looks_us_.push_back(us);
  if (looks_us_.size() > looks_kept) looks_us_.pop_front();
  return us;
}

expected<void> core_choice::choose() {
  if (cores_.empty()) return {};
  if (cores_.size() == 1) return move_this_thread(cores_);
  const bool all = looks_us_.empty() || ++choices_ >= look_at_all_every;
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
    if (!all && us <= about_as_fast * lowest_tenth({looks_us_.begin(), looks_us_.end()})) break;
  }
  if (!fastest) return tl::unexpected<error>(std::move(*problem));
  std::rotate(cores_.begin(), std::find(cores_.begin(), cores_.end(), fastest->second), cores_.end());
  return move_this_thread({fastest->second});
}

}  // namespace cudal1
