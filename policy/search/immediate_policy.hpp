// The base of policies that need no other program: each proposal is delivered within propose(), and made when it is
// read. Schedules that were assembled from parts come before the policy's own.
#pragma once

#include "policy/search/policy.hpp"

namespace cudal1 {

class immediate_policy : public policy {
 public:
  void connect(delivery_sink sink) override { sink_ = std::move(sink); }
  // The proposals of a group differ in their seeds. A prompt without a task or a target ends the ticket.
  ticket propose(prompt p, int64_t n) final;
  void cancel(ticket) final {}
  // One proposal. errc::invalid_argument for prompts without a task or a target. Thread-safe, also beside load().
  virtual expected<proposal> propose_one(const prompt& p) = 0;

 private:
  delivery_sink sink_;
  ticket last_ticket_ = 0;
};

}  // namespace cudal1
