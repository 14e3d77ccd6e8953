#include "actors/clients/client_connection.hpp"

#include <cerrno>
#include <tuple>

#include <poll.h>
#include <sys/socket.h>

#include "config/base/deadline.hpp"

namespace cudal1 {

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto progress_interval = 500ms, evaluation_interval = 25ms;
constexpr auto write_limit = 10s;   // a client that reads nothing for this long is disconnected
constexpr auto request_limit = 1h;  // between requests
// Of clients on other machines: until the first request, and for one that is turned away to leave.
constexpr auto first_request_limit = 10s, leaving_limit = 2s;
constexpr auto drain_limit = 5min;

}  // namespace

client_answer client_connection::last_answer() {
  client_answer a;
  a.last = true;
  return a;
}

client_connection::client_connection(client_server& server, unique_fd fd, std::optional<peer> remote)
    : server_(server), fd_(std::move(fd)), remote_(std::move(remote)), self_(server.system_) {
  if (remote_) records_.emplace(server.setup_.data);
}

// Closing the connection before the client's request is read could take the answer away from it.
void client_connection::turn_away(const error& why) {
  if (wait(first_request_limit) == wake::line) refuse(why);
  wait(leaving_limit);
}

void client_connection::run() {
  serve();
  if (hold_ == 0) return;
  if (auto released = ask_node<message::done>(message::release_device{hold_}); !released)
    spdlog::error("the device that a client held was not released: {}", released.error().message);
}

void client_connection::serve() {
  for (bool first = true;; first = false) {
    switch (wait(first && remote_ ? first_request_limit : request_limit)) {
      case wake::line:
        break;
      case wake::stop:
      case wake::time:
        return;
      case wake::gone:
        if (broken_) refuse(*broken_);
        return;
    }
    if (!handle_line()) return;
  }
}

bool client_connection::handle_line() {
  if (records_ && is_record_request(line_)) return send_line(encode(records_->answer(line_)));
  auto request = decode_request(line_);
  if (!request) {
    spdlog::warn("a client was refused: {}", request.error().message);
    refuse(request.error());
    return false;
  }
  if (auto problem = forbidden(*request)) return refuse(*problem);
  return handle(*request);
}

// What writes to a path of this machine, or executes the Python of a model without a sandbox.
std::optional<error> client_connection::forbidden(const client_request& r) const {
  if (!remote_) return std::nullopt;
  if (r.verb == client_verb::checkpoint)
    return error{errc::invalid_argument, "a copy of the store is made on the coordinator's machine only"};
  if (r.verb == client_verb::keep_judged_file)
    return error{errc::invalid_argument, "files are judged by commands on the coordinator's machine only"};
  if (r.verb == client_verb::hold || r.verb == client_verb::measure_baseline || r.verb == client_verb::keep_baseline)
    return error{errc::invalid_argument, "PyTorch is measured by commands on the coordinator's machine only"};
  return std::nullopt;
}

client_connection::wake client_connection::wait(std::chrono::milliseconds at_most) {
  const auto end = clock::now() + at_most;
  for (;;) {
    if (auto line = lines_.next()) {
      line_ = std::move(*line);
      return wake::line;
    }
    pollfd waiting[2] = {{fd_.get(), POLLIN, 0}, {server_.stop_.get(), POLLIN, 0}};
    const int ready = ::poll(waiting, 2, milliseconds_until(end));
    if (ready < 0 && errno != EINTR) return wake::gone;
    if (ready == 0) return wake::time;
    if (ready < 0) continue;
    if (waiting[0].revents != 0) {
      char buffer[1 << 16];
      const auto got = ::recv(fd_.get(), buffer, sizeof buffer, 0);
      if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) return wake::gone;
      if (got < 0) continue;
      if (auto added = lines_.add(std::string_view(buffer, static_cast<std::size_t>(got))); !added) {
        broken_ = added.error();
        return wake::gone;
      }
    } else if (waiting[1].revents != 0) {
      return wake::stop;
    }
  }
}

bool client_connection::send_line(const std::string& line) {
  std::string_view rest = line;
  const auto end = clock::now() + write_limit;
  while (!rest.empty()) {
    const auto sent = ::send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    pollfd writable{fd_.get(), POLLOUT, 0};
    if (::poll(&writable, 1, milliseconds_until(end)) == 0) return false;
  }
  return true;
}

// ---- verbs --------------------------------------------------------------------------------------------------------

bool client_connection::handle(const client_request& r) {
  switch (r.verb) {
    case client_verb::hello:
      return hello();
    case client_verb::run:
      return run_experiment(r);
    case client_verb::evaluate:
      return evaluate(r);
    case client_verb::follow:
      return follow(r.experiment, r);
    case client_verb::stop:
      return stop(r);
    case client_verb::hold:
      return hold(r);
    case client_verb::compare:
      return compare(r);
    case client_verb::measure_baseline:
      return measure_baseline(r);
    case client_verb::keep_baseline:
      return keep_baseline(r);
    case client_verb::keep_judged_file:
      return keep_judged_file(r);
    case client_verb::checkpoint:
      return finished(server_.setup_.db->checkpoint(r.folder));
    case client_verb::compact:
      return finished(server_.setup_.db->compact());
    case client_verb::prune:
      return prune(r);
    case client_verb::drain_machine:
      return finished(ask_node<message::done>(message::drain_machine{r.machine, r.draining}));
    case client_verb::shutdown:
      return shutdown();
  }
  return refuse({errc::invalid_argument, "there is no such verb"});
}

bool client_connection::hello() {
  auto status = ask_node<node_status>(message::status_query{});
  if (!status) return refuse(status.error());
  auto a = last_answer();
  a.status = std::move(*status);
  return send(a);
}

bool client_connection::run_experiment(const client_request& r) {
  message::start_experiment m;
  m.experiment = r.experiment;
  m.tasks = r.tasks;
  m.record.device = r.device;
  m.record.policy = r.policy.empty() ? server_.setup_.search.policy : r.policy;
  m.record.evaluations_per_task = r.evaluations_per_task;
  m.record.time_limit_s = r.time_limit_s;
  m.record.device_s_per_task = r.device_s_per_task;
  m.record.seed = r.seed;
  m.record.fresh_policy = r.fresh_policy;
  m.record.models = r.models;
  m.record.replays = r.replays;
  m.record.uses_parts = r.uses_parts;
  m.record.priority = r.priority;
  if (r.evaluations_per_task <= 0 && r.time_limit_s <= 0 && r.device_s_per_task <= 0) {
    m.record.evaluations_per_task = server_.setup_.search.evaluations_per_task;
    m.record.time_limit_s = server_.setup_.search.time_limit_s;
  }
  auto started = ask_node<message::started>(std::move(m), 2min);
  if (!started) return refuse(started.error());
  if (!r.experiment.empty()) {
    const auto search = search_of(r.experiment);
    if (!search) return refuse(search.error());
    for (std::size_t i = 1; i < search->size(); ++i) {
      message::start_experiment other;
      other.experiment = search->at(i);
      other.may_wait = true;
      if (auto resumed = ask_node<message::started>(std::move(other), 2min); !resumed) return refuse(resumed.error());
    }
  }
  return follow(started->experiment, r);
}

client_answer client_connection::answer_of(message::progress_answer p) const {
  client_answer a;
  a.last = p.ended;
  if (p.ended && !p.problem.empty()) {
    a.error_code = enum_name(server_.ending_ ? errc::cancelled : errc::infrastructure);
    a.error = std::move(p.problem);
  }
  a.progress = std::move(p.progress);
  return a;
}

expected<std::vector<std::string>> client_connection::search_of(const std::string& experiment) const {
  std::vector<std::string> search{experiment};
  CUDAL1_TRY(const auto all, server_.setup_.db->experiments());
  for (const auto& e : all)
    if (!e.lead.empty() && e.lead == experiment) search.push_back(e.id);
  return search;
}

// The answer is the last one once all have ended.
expected<client_answer> client_connection::progress_of(const std::vector<std::string>& search) {
  client_answer all;
  all.last = true;
  for (const auto& id : search) {
    auto now = ask_node<message::progress_answer>(message::progress_query{id});
    const bool unknown = !now && now.error().code == errc::not_found;  // it ended before this node started
    if (!now && (search.size() == 1 || (unknown && !all.progress)))
      return tl::unexpected<error>(std::move(now).error());
    if (unknown) continue;
    if (!now) {  // it waits for its devices
      message::progress_answer waiting;
      waiting.progress.experiment = id;
      waiting.progress.problem = now.error().message;
      now = std::move(waiting);
    }
    auto its = answer_of(std::move(*now));
    all.last = all.last && its.last;
    if (all.error.empty()) std::tie(all.error_code, all.error) = std::tie(its.error_code, its.error);
    if (all.progress)
      all.others.push_back(std::move(*its.progress));
    else
      all.progress = std::move(its.progress);
  }
  if (!all.last) all.error_code = all.error = "";
  return all;
}

expected<message::done> client_connection::stop_all(const std::vector<std::string>& search) {
  expected<message::done> stopped;
  for (const auto& id : search) {
    auto one = ask_node<message::done>(message::stop_experiment{id, false});
    if (!one && (id == search.front() || one.error().code != errc::not_found)) stopped = std::move(one);
  }
  return stopped;
}

bool client_connection::follow(const std::string& experiment, const client_request& asked) {
  const auto search = search_of(experiment);
  if (!search) return refuse(search.error());
  for (auto next = clock::now();;) {
    auto now = progress_of(*search);
    if (!now) return refuse(now.error());
    bool there = send(*now);
    if (there && now->last) return true;
    next += progress_interval;
    while (there && clock::now() < next) {
      const wake why = wait(std::chrono::milliseconds(milliseconds_until(next)));
      if (why == wake::time) break;
      if (why == wake::line) there = handle_while_following(*search);
      if (why == wake::gone) there = false;
      if (why == wake::stop) {  // the node is drained: the progress is final
        auto last = progress_of(*search);
        if (!last) return false;
        last->last = true;
        return send(*last) && false;
      }
    }
    if (there) continue;
    if (!asked.stop_on_disconnect) return false;
    spdlog::info("experiment {}: its client disconnected, so it is stopped", experiment);
    if (auto stopped = stop_all(*search); !stopped)
      spdlog::warn("experiment {}: it could not be stopped: {}", experiment, stopped.error().message);
    return false;
  }
}

bool client_connection::handle_while_following(const std::vector<std::string>& search) {
  const auto request = decode_request(line_);
  if (!request || request->verb != client_verb::stop) {
    refuse(request
               ? error{errc::invalid_argument, "while an experiment is followed, the only allowed request is `stop`"}
               : request.error());
    return false;
  }
  const bool is_other = !request->experiment.empty() && request->experiment != search.front();
  auto stopped = stop_all(is_other ? std::vector{request->experiment} : search);
  return stopped || refuse(stopped.error());
}

bool client_connection::evaluate(const client_request& r) {
  message::start_experiment m;
  m.tasks = {r.task};
  m.program = r.program;
  m.origin = r.origin;
  m.record.device = r.device;
  m.record.evaluations_per_task = 1;
  m.hold = hold_;
  if (r.program.empty()) return refuse({errc::invalid_argument, "evaluate needs the text of a program"});
  auto started = ask_node<message::started>(std::move(m), 2min);
  if (!started) return refuse(started.error());
  client_answer begun;
  begun.progress.emplace().experiment = started->experiment;
  bool there = !r.stop_on_disconnect || send(begun);
  while (there) {
    auto now = ask_node<message::progress_answer>(message::progress_query{started->experiment});
    if (!now) return refuse(now.error());
    if (now->ended) {
      if (!now->problem.empty()) return refuse({errc::infrastructure, now->problem});
      auto found = server_.setup_.db->verdicts_of_task(now->progress.tasks.front().task, started->experiment,
                                                       store::verdict_parts::all);
      if (!found) return refuse(found.error());
      if (found->empty()) return refuse({errc::cancelled, "the evaluation was stopped before there was a verdict"});
      auto a = last_answer();
      a.result = std::move(found->back());
      return send(a);
    }
    there = wait(evaluation_interval) != wake::gone;
  }
  if (!r.stop_on_disconnect) return false;
  if (auto stopped = stop_all({started->experiment}); !stopped && stopped.error().code != errc::not_found)
    spdlog::warn("experiment {}: its client left, and it could not be stopped: {}", started->experiment,
                 stopped.error().message);
  return false;
}

bool client_connection::stop(const client_request& r) {
  const auto search = search_of(r.experiment);
  if (!search) return refuse(search.error());
  return finished(stop_all(*search));
}

bool client_connection::prune(const client_request& r) {
  if (!r.pruning) return refuse({errc::invalid_argument, "prune needs a rule"});
  prune_report all;
  message::prune_store step{*r.pruning, ""};
  do {
    auto done = ask_node<prune_report>(step, 10min);
    if (!done) return refuse(done.error());
    all.add(*done);
    step.from = done->next;
  } while (!step.from.empty());
  if (auto compacted = server_.setup_.db->compact(); !compacted) return refuse(compacted.error());
  auto a = last_answer();
  a.pruned = std::move(all);
  return send(a);
}

bool client_connection::keep_judged_file(const client_request& r) {
  if (!r.file) return refuse({errc::invalid_argument, "keep_judged_file needs a file"});
  return finished(ask_node<message::done>(message::keep_judged_file{r.task, *r.file}, 2min));
}

bool client_connection::shutdown() {
  server_.ending();
  if (auto drained = ask_node<message::done>(message::drain{}, drain_limit); !drained)
    spdlog::error("the node could not be drained: {}", drained.error().message);
  send(last_answer());
  server_.setup_.shutdown();
  return false;
}

}  // namespace cudal1
