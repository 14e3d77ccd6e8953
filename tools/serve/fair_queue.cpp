#include "tools/serve/fair_queue.hpp"

#include <algorithm>

namespace cudal1::serve {

namespace {
constexpr double memory = 0.9;                 // of the mean
constexpr std::size_t most_idle_lines = 4096;  // clients that wait for nothing
}  // namespace

void fair_queue::add(const std::string& client, queued_item item) {
  if (lines_.size() > most_idle_lines) std::erase_if(lines_, [](const auto& l) { return l.second.items.empty(); });
  auto& line = lines_[client];
  if (line.items.empty()) line.clock = std::max(line.clock, now_);
  line.items.push_back(std::move(item));
}

std::optional<queued_item> fair_queue::take() {
  line* next = nullptr;
  for (auto& [client, line] : lines_)
    if (!line.items.empty() && (next == nullptr || line.clock < next->clock)) next = &line;
  if (next == nullptr) return std::nullopt;
  now_ = next->clock;
  next->clock += expected_s_;
  auto item = std::move(next->items.front());
  next->items.pop_front();
  return item;
}

void fair_queue::put_back(const std::string& client, queued_item item) {
  auto& line = lines_[client];
  line.items.push_front(std::move(item));
  line.clock -= expected_s_;
}

void fair_queue::charge(const std::string& client, double seconds) {
  if (const auto found = lines_.find(client); found != lines_.end()) found->second.clock += seconds - expected_s_;
  expected_s_ = memory * expected_s_ + (1 - memory) * seconds;
}

std::size_t fair_queue::remove(const std::string& job) {
  std::size_t removed = 0;
  for (auto& [client, line] : lines_)
    removed += std::erase_if(line.items, [&](const auto& item) { return item.job == job; });
  return removed;
}

std::size_t fair_queue::waiting() const {
  std::size_t all = 0;
  for (const auto& [client, line] : lines_)
    all += line.items.size();
  return all;
}

std::size_t fair_queue::waiting_of(const std::string& client) const {
  const auto found = lines_.find(client);
  return found == lines_.end() ? 0 : found->second.items.size();
}

std::optional<int64_t> fair_queue::position(const std::string& client, const queued_item& item) const {
  const auto own = lines_.find(client);
  if (own == lines_.end()) return std::nullopt;
  const auto at = std::ranges::find(own->second.items, item);
  if (at == own->second.items.end()) return std::nullopt;
  const auto before = at - own->second.items.begin();
  // When its turn comes, by the clocks; others are served until theirs is later.
  const double turn = own->second.clock + static_cast<double>(before) * expected_s_;
  int64_t position = before;
  for (const auto& [name, line] : lines_) {
    if (name == client || line.items.empty() || line.clock > turn) continue;
    const auto turns = expected_s_ > 0 ? static_cast<int64_t>((turn - line.clock) / expected_s_) : 0;
    // At the same clock the names decide.
    const bool is_first = line.clock + static_cast<double>(turns) * expected_s_ < turn || name < client;
    position += std::min<int64_t>(std::ssize(line.items), turns + (is_first ? 1 : 0));
  }
  return position;
}

}  // namespace cudal1::serve
