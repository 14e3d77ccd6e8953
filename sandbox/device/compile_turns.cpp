#include "sandbox/device/compile_turns.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <optional>
#include <vector>

namespace cudal1 {

bool compile_turns::take(asker who, const std::function<bool()>& is_over) {
  std::unique_lock hold(lock_);
  const int counted = who == asker::caller ? 1 : 0;
  waiting_ += counted;
  changed_.wait(hold, [&] { return is_over() || (taken_ < at_once_ && (who == asker::caller || waiting_ == 0)); });
  waiting_ -= counted;
  const bool is_taken = !is_over();
  if (is_taken) ++taken_;
  changed_.notify_all();  // helpers, if this was the last caller that waited
  return is_taken;
}

void compile_turns::give_back() {
  const std::lock_guard hold(lock_);
  --taken_;
  changed_.notify_all();
}

int compile_turns::waiting() const {
  const std::lock_guard hold(lock_);
  return waiting_;
}

expected<void> compile_turns::run(std::size_t count, const std::function<expected<void>(std::size_t)>& work) {
  std::vector<std::optional<error>> errors(count);
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  const auto is_over = [&] { return failed || next >= count; };
  const auto work_on = [&](asker who) {
    while (take(who, is_over)) {
      if (const std::size_t i = next++; i < count) {
        if (const auto done = work(i); !done) {
          errors[i] = done.error();
          failed = true;
        }
      }
      give_back();
    }
  };
  const std::size_t threads = std::min(count, static_cast<std::size_t>(at_once_));
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < threads; ++i)
    others.push_back(std::async(std::launch::async, [&] { work_on(asker::helper); }));
  work_on(asker::caller);
  for (auto& other : others)
    other.get();
  for (const auto& e : errors)
    if (e) return tl::unexpected<error>(*e);
  return {};
}

}  // namespace cudal1
