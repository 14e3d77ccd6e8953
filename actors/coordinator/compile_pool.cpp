#include "actors/coordinator/compile_pool.hpp"

#include "config/base/stopwatch.hpp"

namespace cudal1 {

namespace {

constexpr int failures_allowed = 3;

// Not about the program: another machine may succeed.
bool is_of_machine(errc code) {
  return code == errc::infrastructure || code == errc::io_error || code == errc::cancelled || code == errc::not_found;
}

}  // namespace

void compile_pool::begin(coordinator_actor::pointer self, duration timeout) {
  self_ = self;
  timeout_ = timeout;
}

void compile_pool::add(const std::string& name, const agent_actor& agent, int64_t slots,
                       std::set<std::string> targets) {
  remove(name);
  machines_[name] = {agent, slots, std::move(targets), {}};
  hand_out();
}

void compile_pool::remove(const std::string& name) {
  const auto found = machines_.find(name);
  if (found == machines_.end()) return;
  const auto running = std::move(found->second.running);
  machines_.erase(found);
  for (const auto& j : running)
    waiting_[j->what.target].push_front(j);
  hand_out();
}

// Each has as many slots again for programs that wait there.
int64_t compile_pool::workers() const {
  int64_t all = 0;
  for (const auto& [name, m] : machines_)
    all += m.slots / 2;
  return all;
}

caf::result<shared_code> compile_pool::compile(const message::compile& m) {
  auto promise = self_->make_response_promise<shared_code>();
  waiting_[m.target].push_back(std::make_shared<job>(job{m, promise, ++last_number_}));
  hand_out();
  return promise;
}

compile_pool::machine* compile_pool::best_for(const std::string& target) {
  machine* best = nullptr;
  const auto room = [](const machine& m) { return m.slots - static_cast<int64_t>(m.running.size()); };
  for (auto& [name, m] : machines_)
    if (m.targets.contains(target) && room(m) > 0 && (best == nullptr || room(m) > room(*best))) best = &m;
  return best;
}

// The oldest program first that a machine has room for.
void compile_pool::hand_out() {
  for (;;) {
    std::deque<job_pointer>* oldest = nullptr;
    machine* on = nullptr;
    for (auto& [target, jobs] : waiting_) {
      if (jobs.empty() || (oldest != nullptr && oldest->front()->number < jobs.front()->number)) continue;
      machine* const has_room = best_for(target);
      if (has_room == nullptr) continue;
      oldest = &jobs;
      on = has_room;
    }
    if (oldest == nullptr) return;
    const auto next = std::move(oldest->front());
    oldest->pop_front();
    start(*on, next);
  }
}

void compile_pool::start(machine& on, const job_pointer& j) {
  on.running.insert(j);
  const auto agent = on.agent;
  const auto ended = [this, agent, j] {
    for (const auto& [name, m] : machines_)
      if (m.agent == agent) return end(name, j);
    return false;
  };
  const stopwatch took;
  ask<shared_code>(
      self_, agent, timeout_, j->what,
      [this, j, ended](shared_code& code) {
        if (!ended()) return;
        j->promise.deliver(std::move(code));
        hand_out();
      },
      [this, j, ended, took](error e) {
        if (!ended()) return;
        // The machine's silence is not the program's slowness.
        if (took.ms() >= static_cast<double>(timeout_.count())) e.code = errc::infrastructure;
        failed(j, std::move(e));
        hand_out();
      });
}

bool compile_pool::end(const std::string& machine, const job_pointer& j) {
  return machines_.at(machine).running.erase(j) > 0;
}

void compile_pool::failed(const job_pointer& j, error e) {
  if (is_of_machine(e.code) && ++j->failures < failures_allowed)
    waiting_[j->what.target].push_back(j);
  else
    j->promise.deliver(to_caf(std::move(e)));
}

}  // namespace cudal1
