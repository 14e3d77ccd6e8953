// Whose evaluation comes next: each client gets the same share of the devices' time, whoever asks for how much.
// Start-time fair queueing: a client's clock goes on by what its evaluations take, the smallest clock is next, and one
// that was idle starts at the clock of those that were not. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

namespace cudal1::serve {

struct queued_item {
  std::string job;
  std::size_t index = 0;
  bool operator==(const queued_item&) const = default;
};

class fair_queue {
 public:
  void add(const std::string& client, queued_item item);
  // The next one. Its expected cost is charged at once; charge() corrects it.
  std::optional<queued_item> take();
  // Puts back what was taken, as the client's first.
  void put_back(const std::string& client, queued_item item);
  // What an evaluation of the client took, in place of the expected cost.
  void charge(const std::string& client, double seconds);
  // All that wait of one job.
  std::size_t remove(const std::string& job);

  std::size_t waiting() const;
  std::size_t waiting_of(const std::string& client) const;
  // How many are taken before it, if nothing is added; nullopt if it does not wait.
  std::optional<int64_t> position(const std::string& client, const queued_item& item) const;
  // Mean seconds of recent evaluations.
  double expected_s() const { return expected_s_; }

 private:
  struct line {
    std::deque<queued_item> items;
    double clock = 0;
  };
  std::map<std::string, line> lines_;
  double now_ = 0;         // the clock of the client that was served last
  double expected_s_ = 1;  // an exponential mean
};

}  // namespace cudal1::serve
