#include "policy/chat/chat_budget.hpp"

#include <utility>
#include <vector>

namespace cudal1 {

chat_spending& chat_spending::operator+=(const chat_spending& other) {
  prompt_tokens += other.prompt_tokens;
  answer_tokens += other.answer_tokens;
  money += other.money;
  return *this;
}

chat_spending& chat_spending::operator-=(const chat_spending& other) {
  prompt_tokens -= other.prompt_tokens;
  answer_tokens -= other.answer_tokens;
  money -= other.money;
  return *this;
}

std::shared_ptr<chat_budget> chat_budget::make(int64_t limit_tokens, double limit_money, chat_spending before) {
  return std::shared_ptr<chat_budget>(new chat_budget(limit_tokens, limit_money, before));
}

chat_budget::reservation::~reservation() {
  if (of_) of_->release(most_, {});
}

expected<void> chat_budget::reservation::charge(const chat_spending& lost) {
  const std::lock_guard lock(of_->mutex_);
  of_->spent_ += lost;
  chat_spending others = of_->spent_;
  others += of_->reserved_;
  others -= most_;
  return of_->fits(others, most_);
}

void chat_budget::reservation::settle(const chat_spending& used) {
  if (const auto of = std::exchange(of_, nullptr)) of->release(most_, used);
}

// Whether `most` fits beside `sum`. Under the lock.
expected<void> chat_budget::fits(const chat_spending& sum, const chat_spending& most) const {
  if (limit_tokens_ > 0 && sum.tokens() + most.tokens() > limit_tokens_)
    return fail(errc::out_of_budget,
                "the budget of tokens is reached: {} of {} tokens are spent, and the next request may need {}; raise "
                "llm.budget_tokens to go on",
                spent_.tokens(), limit_tokens_, most.tokens());
  // Sums of prices are not exact in the last bits.
  if (limit_money_ > 0 && sum.money + most.money > limit_money_ * (1 + 1e-9))
    return fail(errc::out_of_budget,
                "the budget of money is reached: {:.4f} of {:.4f} are spent, and the next request may cost {:.4f}; "
                "raise llm.budget_money to go on",
                spent_.money, limit_money_, most.money);
  return {};
}

expected<std::optional<chat_budget::reservation>> chat_budget::reserve(const chat_spending& most) {
  const std::lock_guard lock(mutex_);
  CUDAL1_CHECK(fits(spent_, most));
  chat_spending with_others = spent_;
  with_others += reserved_;
  if (!fits(with_others, most)) return std::optional<reservation>();
  reserved_ += most;
  return std::optional<reservation>(reservation(shared_from_this(), most));
}

void chat_budget::release(const chat_spending& reserved, const chat_spending& used) {
  std::vector<std::function<void()>> to_tell;
  {
    const std::lock_guard lock(mutex_);
    reserved_ -= reserved;
    spent_ += used;
    for (const auto& [id, listener] : listeners_)
      to_tell.push_back(listener);
  }
  for (const auto& listener : to_tell)
    listener();
}

uint64_t chat_budget::on_room(std::function<void()> then) {
  const std::lock_guard lock(mutex_);
  listeners_.emplace(++last_listener_, std::move(then));
  return last_listener_;
}

void chat_budget::forget(uint64_t listener) {
  const std::lock_guard lock(mutex_);
  listeners_.erase(listener);
}

chat_spending chat_budget::spent() const {
  const std::lock_guard lock(mutex_);
  return spent_;
}

}  // namespace cudal1
