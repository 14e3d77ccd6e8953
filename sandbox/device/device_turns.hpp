// Turns on devices that measure and also compute a language model: while one works there, the other does not. Who asks
// first comes first.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace cudal1 {

// Thread-safe. Of one process; turns may outlive it.
class device_turns {
  struct table;

 public:
  // Ends the turn when it is destroyed.
  class turn {
   public:
    turn() = default;
    turn(turn&& other) noexcept;
    turn& operator=(turn&& other) noexcept;
    ~turn() { end(); }
    void end();
    explicit operator bool() const { return table_ != nullptr; }

   private:
    friend class device_turns;
    turn(std::shared_ptr<table> of, std::string device) : table_(std::move(of)), device_(std::move(device)) {}
    std::shared_ptr<table> table_;
    std::string device_;
  };

  device_turns();
  // Calls `begin` with the turn: at once, or from the thread that ends the turn before. It must not throw.
  void ask(const std::string& device, std::function<void(turn)> begin);
  // Waits for it.
  turn wait_for(const std::string& device);
  // Whether others wait for the turn that somebody has.
  bool is_awaited(const std::string& device) const;

 private:
  using begin_turn = std::function<void(turn)>;
  struct table {
    mutable std::mutex mutex;
    std::map<std::string, std::deque<begin_turn>> taken;  // devices that somebody has, with those who wait
  };
  std::shared_ptr<table> table_;
};

}  // namespace cudal1
