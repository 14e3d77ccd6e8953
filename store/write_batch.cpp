#include "store/write_batch.hpp"

#include <algorithm>

namespace cudal1 {

std::vector<put> write_batch::take() {
  std::vector<put> puts;
  puts.reserve(puts_.size());
  while (!puts_.empty()) {
    auto entry = puts_.extract(puts_.begin());
    puts.push_back({entry.key().first, std::move(entry.key().second), std::move(entry.mapped())});
  }
  return puts;
}

expected<void> write_batch::write() {
  auto written = write_copy();
  clear();
  return written;
}

expected<void> write_batch::write_copy() const {
  return puts_.empty() ? expected<void>() : database_.write(puts_);
}

expected<std::optional<std::string>> write_batch::get(family f, std::string_view key) const {
  if (const auto here = puts_.find({f, std::string(key)}); here != puts_.end()) return here->second;
  return below_.get(f, key);
}

// Merges two ordered ranges; if both have a key, the batch's value is used.
expected<void> write_batch::scan(family f, std::string_view prefix, const visitor& visit,
                                 std::string_view start) const {
  auto here = puts_.lower_bound({f, std::string(std::max(prefix, start))});
  bool go_on = true;
  const auto visit_one = [&](std::string_view key, std::optional<std::string_view> value) -> expected<bool> {
    if (value) {
      CUDAL1_TRY(go_on, visit(key, *value));
    }
    return go_on;
  };
  // Visits the batch's entries before `key`, or, without a key, the rest of the prefix.
  const auto visit_batch = [&](std::optional<std::string_view> key) -> expected<bool> {
    while (go_on && here != puts_.end() && here->first.first == f &&
           (key ? here->first.second < *key : here->first.second.starts_with(prefix))) {
      CUDAL1_CHECK(visit_one(here->first.second, here->second));
      ++here;
    }
    return go_on;
  };
  CUDAL1_CHECK(below_.scan(
      f, prefix,
      [&](std::string_view key, std::string_view on_disk) -> expected<bool> {
        if (auto visited = visit_batch(key); !visited || !go_on) return visited;
        std::optional<std::string_view> value = on_disk;
        if (here != puts_.end() && here->first == place{f, std::string(key)}) value = (here++)->second;
        return visit_one(key, value);
      },
      start));
  if (go_on) CUDAL1_CHECK(visit_batch(std::nullopt));
  return {};
}

}  // namespace cudal1
