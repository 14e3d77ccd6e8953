#include "tools/cli/share_out.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace cudal1::cli {

expected<void> share_out(std::size_t workers, std::size_t items, const std::function<bool()>& is_over,
                         const std::function<expected<void>(std::size_t worker, std::size_t item)>& work) {
  std::mutex mutex;
  std::size_t next = 0;
  expected<void> result;
  const auto take = [&]() -> std::optional<std::size_t> {
    const std::lock_guard lock(mutex);
    if (!result || next == items || is_over()) return std::nullopt;
    return next++;
  };
  const auto do_all = [&](std::size_t worker) {
    while (const auto item = take()) {
      auto done = work(worker, *item);
      if (done) continue;
      const std::lock_guard lock(mutex);
      if (result) result = std::move(done);
    }
  };
  std::vector<std::jthread> others;
  for (std::size_t worker = 1; worker < std::min(workers, items); ++worker)
    others.emplace_back(do_all, worker);
  do_all(0);
  others.clear();  // joins
  return result;
}

}  // namespace cudal1::cli
