// What an experiment may spend on language models, and what it has spent.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include <boost/describe.hpp>

#include "config/base/error.hpp"

namespace cudal1 {

struct chat_spending {
  int64_t prompt_tokens = 0, answer_tokens = 0;
  double money = 0;  // in the currency of the prices

  int64_t tokens() const { return prompt_tokens + answer_tokens; }
  chat_spending& operator+=(const chat_spending& other);
  chat_spending& operator-=(const chat_spending& other);
};
BOOST_DESCRIBE_STRUCT(chat_spending, (), (prompt_tokens, answer_tokens, money))

// Shared by all clients of an experiment. A request first reserves the most that it may cost, and then settles what it
// did cost. Thread-safe.
class chat_budget : public std::enable_shared_from_this<chat_budget> {
 public:
  // 0: no limit. `before` is what the experiment had spent when it was interrupted.
  static std::shared_ptr<chat_budget> make(int64_t limit_tokens, double limit_money, chat_spending before = {});

  // The share of one request. Settles nothing if it ends without settle(). Keeps the budget alive.
  class reservation {
   public:
    reservation(std::shared_ptr<chat_budget> of, chat_spending most) : of_(std::move(of)), most_(most) {}
    reservation(reservation&&) = default;
    reservation& operator=(reservation&&) = delete;
    ~reservation();
    // What a try cost that brought no answer: it is spent, and the rest stays reserved for the next try.
    // errc::out_of_budget if the next try no longer fits.
    expected<void> charge(const chat_spending& lost);
    // What the answer cost.
    void settle(const chat_spending& used);

   private:
    std::shared_ptr<chat_budget> of_;  // null once it is settled
    chat_spending most_;
  };

  // None if it may fit once other requests have settled for less than they reserved: try again on room.
  // errc::out_of_budget, which names the limit and what was spent, if it cannot fit any more.
  expected<std::optional<reservation>> reserve(const chat_spending& most);
  // Calls `then` after each settlement, in the thread that settles, until forget(): it may still be running then.
  uint64_t on_room(std::function<void()> then);
  void forget(uint64_t listener);

  chat_spending spent() const;

 private:
  chat_budget(int64_t limit_tokens, double limit_money, chat_spending before)
      : limit_tokens_(limit_tokens), limit_money_(limit_money), spent_(before) {}
  expected<void> fits(const chat_spending& sum, const chat_spending& most) const;
  void release(const chat_spending& reserved, const chat_spending& used);

  const int64_t limit_tokens_;
  const double limit_money_;
  mutable std::mutex mutex_;
  chat_spending spent_, reserved_;
  std::map<uint64_t, std::function<void()>> listeners_;
  uint64_t last_listener_ = 0;
};

}  // namespace cudal1
