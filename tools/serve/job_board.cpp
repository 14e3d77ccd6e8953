#include "tools/serve/job_board.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "config/base/describe.hpp"
#include "config/base/wall_clock.hpp"

namespace cudal1::serve {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t most_waiting_bytes = std::size_t{256} << 20;  // of programs, of all clients
constexpr std::chrono::milliseconds tick_interval = 100ms, progress_interval = 2s, heartbeat_interval = 10s;
constexpr double memory = 0.9;  // of the mean time between evaluations

std::size_t bytes_of(const job& j) {
  std::size_t bytes = 0;
  for (const auto& item : j.items)
    bytes += item.bytes();
  return bytes;
}

json error_document(const job_item& item) {
  if (item.error.empty()) return {};
  return json::make_object(
      {{"code", item.error_code},
       {"message", item.error},
       {"hint", "an infrastructure fault is no verdict: repeat the evaluation, and do not score it"}});
}

void wake(const unique_fd& fd) {
  const uint64_t one = 1;
  if (fd && ::write(fd.get(), &one, sizeof one) != sizeof one) spdlog::error("an evaluation could not be cancelled");
}

}  // namespace

expected<std::shared_ptr<job_board>> job_board::open(const std::string& data, const serving_options& limits) {
  std::shared_ptr<job_board> board(new job_board(data, limits));
  CUDAL1_CHECK(board->recover());
  board->ticker_ = std::jthread([b = board.get()](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(tick_interval);
      b->tick();
    }
  });
  return board;
}

job_board::~job_board() {
  end();
}

expected<void> job_board::recover() {
  CUDAL1_TRY(auto all, folder_.read_all());
  for (auto& j : all) {
    for (auto& item : j.items)
      if (item.state == job_state::running) item.state = job_state::waiting;
    j.update_state();
    auto& kept = jobs_[j.id] = std::move(j);
    if (kept.has_ended()) continue;
    spdlog::info("job {} of {} was accepted by an earlier node, and goes on", kept.id, kept.client);
    waiting_bytes_ += bytes_of(kept);
    enqueue(kept);
  }
  return {};
}

void job_board::enqueue(const job& j) {
  for (std::size_t i = 0; i < j.items.size(); ++i)
    if (j.items[i].state == job_state::waiting) queue_of(j.items[i].kind()).add(j.client, {j.id, i});
}

// ---- clients --------------------------------------------------------------------------------------------------------

double job_board::count_request(const std::string& client) {
  const std::lock_guard guard(mutex_);
  return limits_.request(client, clock::now());
}

std::optional<submitted_job> job_board::same_key(const job& j, api_result<submitted_job>& refused) const {
  if (j.key.empty()) return std::nullopt;
  for (const auto& [id, other] : jobs_) {
    if (other.key != j.key || other.client != j.client) continue;
    if (other.request == j.request) return submitted_job{id, false};
    refused = refuse({422, "idempotency_conflict",
                      fmt::format("the Idempotency-Key is that of job {}, whose request was another one", id),
                      "use a new key for each request, and the same one only to repeat it"});
    return std::nullopt;
  }
  return std::nullopt;
}

api_result<void> job_board::check_limits(const job& j) {
  int64_t waiting = 0;
  for (const auto& queue : queues_)
    waiting += static_cast<int64_t>(queue.waiting_of(j.client));
  const double soon = std::max(1.0, expected_wait_s(j.items.front().kind(), 1));
  if (waiting + std::ssize(j.items) > options_.waiting)
    return refuse(
        {429, "too_many_waiting",
         fmt::format("{} of your evaluations wait; at most {} may (--serve-waiting)", waiting, options_.waiting),
         "wait for the first of them", soon});
  if (waiting_bytes_ + bytes_of(j) > most_waiting_bytes)
    return refuse({429, "queue_full", "the programs that wait fill the memory that is meant for them",
                   "repeat the request later", soon});
  if (const double wait = limits_.device_wait(j.client, clock::now()); wait > 0)
    return refuse(
        {429, "device_time_used",
         fmt::format("your {:.0f} s of device time an hour are used (--serve-device-time)", options_.device_s_per_hour),
         "wait, or ask whoever runs this node for more", wait});
  return {};
}

api_result<submitted_job> job_board::submit(job j) {
  const std::lock_guard guard(mutex_);
  api_result<submitted_job> refused = submitted_job{};
  if (const auto same = same_key(j, refused)) return *same;
  if (!refused) return refused;
  if (no_more_) return refuse({503, "ending", "the node is ending", "repeat the request when the next one runs", 5});
  if (auto within = check_limits(j); !within) return refuse(within.error());
  auto id = new_job_id();
  if (!id) return refuse(problem_of(id.error()));
  j.id = *id;
  j.accepted_unix_ms = unix_ms();
  if (auto kept = folder_.write(j); !kept) return refuse(problem_of(kept.error()));
  waiting_bytes_ += bytes_of(j);
  enqueue(j);
  jobs_[*id] = std::move(j);
  forget_old();
  has_work_.notify_all();
  return submitted_job{*id, true};
}

void job_board::forget_old() {
  std::vector<const job*> ended;
  for (const auto& [id, j] : jobs_)
    if (j.has_ended()) ended.push_back(&j);
  const auto most = static_cast<std::size_t>(options_.kept_jobs);
  if (ended.size() <= most + most / 10) return;
  std::ranges::sort(ended, {}, &job::ended_unix_ms);
  ended.resize(ended.size() - most);
  std::vector<std::string> ids;
  for (const auto* j : ended)
    ids.push_back(j->id);
  for (const auto& id : ids) {
    if (auto removed = folder_.remove(id); !removed) spdlog::warn("{}", removed.error().message);
    jobs_.erase(id);
  }
}

job* job_board::find(const std::string& id) {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}
const job* job_board::find(const std::string& id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}

api_result<const job*> job_board::visible(const api_client& client, const std::string& id) const {
  const job* j = find(id);
  if (j == nullptr || (j->client != client.name && !client.is_allowed("stop")))
    return refuse(
        {404, "not_found", fmt::format("you have no job {}", id),
         fmt::format("GET /v1/jobs lists your jobs; of those that ended, the last {} are kept", options_.kept_jobs)});
  return j;
}

double job_board::expected_wait_s(work_kind kind, int64_t position) const {
  return spacing_s_[static_cast<std::size_t>(kind)] * static_cast<double>(position + 1);
}

json job_board::document_of(const job& j) const {
  json::array results;
  int64_t finished = 0;
  std::optional<int64_t> position;
  double expected_wait = 0;
  for (std::size_t i = 0; i < j.items.size(); ++i) {
    const auto& item = j.items[i];
    if (item.state != job_state::waiting && item.state != job_state::running) ++finished;
    if (item.state == job_state::waiting && !position) {
      position = queue_of(item.kind()).position(j.client, {j.id, i});
      expected_wait = expected_wait_s(item.kind(), position.value_or(0));
    }
    results.push_back(json::make_object({{"index", static_cast<int64_t>(i)},
                                         {"label", item.label},
                                         {"state", enum_name(item.state)},
                                         {"verdict", item.verdict},
                                         {"error", error_document(item)}}));
  }
  return json::make_object({{"id", j.id},
                            {"state", enum_name(j.state)},
                            {"client", j.client},
                            {"task", j.task},
                            {"device", j.device},
                            {"accepted_unix_ms", j.accepted_unix_ms},
                            {"ended_unix_ms", j.ended_unix_ms},
                            {"position", position ? json(*position) : json()},
                            {"expected_wait_s", position ? json(expected_wait) : json()},
                            {"evaluations", std::ssize(j.items)},
                            {"finished", finished},
                            {"results", json(std::move(results))}});
}

api_result<json> job_board::document(const api_client& client, const std::string& id) const {
  const std::lock_guard guard(mutex_);
  const auto j = visible(client, id);
  if (!j) return refuse(j.error());
  return document_of(**j);
}

json job_board::list(const api_client& client) const {
  const std::lock_guard guard(mutex_);
  std::vector<const job*> own;
  for (const auto& [id, j] : jobs_)
    if (j.client == client.name) own.push_back(&j);
  std::ranges::sort(own, std::greater(), &job::accepted_unix_ms);
  json::array all;
  for (const auto* j : own)
    all.push_back(json::make_object({{"id", j->id},
                                     {"state", enum_name(j->state)},
                                     {"task", j->task},
                                     {"evaluations", std::ssize(j->items)},
                                     {"accepted_unix_ms", j->accepted_unix_ms}}));
  return json::make_object({{"jobs", json(std::move(all))}});
}

void job_board::cancel(job& j) {
  for (auto& queue : queues_)
    queue.remove(j.id);
  for (auto& item : j.items)
    if (item.state == job_state::waiting) item.state = job_state::cancelled;
  for (auto& [index, item] : running_[j.id]) {
    item.was_cancelled = true;
    wake(item.cancelled);
  }
  changed(j);
}

api_result<json> job_board::cancel(const api_client& client, const std::string& id) {
  const std::lock_guard guard(mutex_);
  if (auto j = visible(client, id); !j) return refuse(j.error());
  job& j = *find(id);
  if (!j.has_ended()) cancel(j);
  return document_of(j);
}

// ---- followers ------------------------------------------------------------------------------------------------------

void job_board::answer_at_end(const std::string& id, double limit_s, const std::shared_ptr<http_reply>& reply) {
  {
    const std::lock_guard guard(mutex_);
    const job* j = find(id);
    if (j == nullptr) return;
    const auto limit = std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(limit_s));
    followers_[id].push_back({reply, clock::now() + limit, "", {}, {}});
    tell_followers(*j, false);
  }
  // The client's connection keeps the call, and must not keep the board.
  reply->when_gone([this, id] {
    const std::lock_guard guard(mutex_);
    job* j = find(id);
    if (j == nullptr || j->has_ended() || ended_) return;
    spdlog::info("job {}: its client left, so it is cancelled", id);
    cancel(*j);
  });
}

void job_board::follow(const std::string& id, const std::shared_ptr<http_reply>& reply) {
  const std::lock_guard guard(mutex_);
  const job* j = find(id);
  if (j == nullptr) return;
  reply->begin_events();
  followers_[id].push_back({reply, std::nullopt, "", {}, {}});
  tell_followers(*j, false);
}

void job_board::watch(const std::string& id, double limit_s, watcher call) {
  const std::lock_guard guard(mutex_);
  const job* j = find(id);
  if (j == nullptr) return call({}, true);
  const auto limit = std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(limit_s));
  followers_[id].push_back({nullptr, clock::now() + limit, "", {}, std::move(call)});
  tell_followers(*j, false);
}

// `only_late`: those whose time has come, of a job that did not change.
void job_board::tell_followers(const job& j, bool only_late) {
  const auto found = followers_.find(j.id);
  if (found == followers_.end()) return;
  const auto now = clock::now();
  const bool has_ended = j.has_ended();
  std::erase_if(found->second, [&](follower& f) {
    if (f.call) {
      const bool is_last = has_ended || ended_ || now >= *f.answer_by;
      if (!is_last && only_late && now - f.sent < progress_interval) return false;
      f.sent = now;
      f.call(document_of(j), is_last);
      return is_last;
    }
    if (f.answer_by) {
      if (!has_ended && now < *f.answer_by && !ended_) return false;
      f.reply->answer({has_ended ? 200 : 202, document_of(j).text()});
      return true;
    }
    if (only_late && now - f.sent < progress_interval) return false;
    auto text = document_of(j).text();
    if (!has_ended && text == f.last) {
      if (now - f.sent < heartbeat_interval) return false;
      f.reply->send_events(": still there\n\n");
    } else {
      f.reply->send_events(fmt::format("event: {}\ndata: {}\n\n", has_ended ? "end" : "progress", text));
    }
    f.sent = now;
    f.last = std::move(text);
    if (has_ended || ended_) f.reply->end();
    return has_ended || ended_;
  });
  if (found->second.empty()) followers_.erase(found);
}

void job_board::tick() {
  const std::lock_guard guard(mutex_);
  std::vector<std::string> ids;
  for (const auto& [id, all] : followers_)
    ids.push_back(id);
  for (const auto& id : ids)
    if (const job* j = find(id)) tell_followers(*j, true);
}

// Stores it and tells those who follow it.
void job_board::changed(job& j) {
  const bool had_ended = j.ended_unix_ms > 0;
  j.update_state();
  if (j.has_ended() && !had_ended) {
    j.ended_unix_ms = unix_ms();
    waiting_bytes_ -= std::min(waiting_bytes_, bytes_of(j));
    for (auto& item : j.items)  // the store has programs that were evaluated, and clients their files
      item.program = item.answer = item.python = "";
  }
  if (auto kept = folder_.write(j); !kept)
    spdlog::error("job {}: its state could not be stored: {}", j.id, kept.error().message);
  tell_followers(j, false);
}

// ---- workers --------------------------------------------------------------------------------------------------------

std::optional<work_item> job_board::take(work_kind kind) {
  std::unique_lock lock(mutex_);
  auto& queue = queue_of(kind);
  for (;;) {
    has_work_.wait(lock, [&] { return no_more_ || queue.waiting() > 0; });
    if (no_more_) return std::nullopt;
    const auto place = queue.take();
    job* j = place ? find(place->job) : nullptr;
    if (j == nullptr) continue;
    auto& item = j->items.at(place->index);
    running_item now{unique_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), clock::now(), false};
    const int fd = now.cancelled.get();
    running_[j->id][place->index] = std::move(now);
    item.state = job_state::running;
    j->update_state();
    tell_followers(*j, false);
    return work_item{j->client, j->task, j->device, *place, item, fd};
  }
}

void job_board::begun(const work_item& w, const std::string& experiment) {
  const std::lock_guard guard(mutex_);
  job* j = find(w.place.job);
  if (j == nullptr) return;
  j->items.at(w.place.index).experiment = experiment;
  // A node that is started after a kill finds the verdict by it.
  if (auto kept = folder_.write(*j); !kept) spdlog::error("job {}: {}", j->id, kept.error().message);
}

// False if the item was cancelled meanwhile.
bool job_board::settle(const work_item& w, job_state state) {
  job* j = find(w.place.job);
  const auto of_job = running_.find(w.place.job);
  if (j == nullptr || of_job == running_.end()) return false;
  const auto found = of_job->second.find(w.place.index);
  if (found == of_job->second.end()) return false;
  const double took = std::chrono::duration<double>(clock::now() - found->second.since).count();
  const bool was_cancelled = found->second.was_cancelled;
  std::size_t at_once = 0;
  for (const auto& [id, items] : running_)
    at_once += items.size();
  of_job->second.erase(found);
  if (of_job->second.empty()) running_.erase(of_job);
  j->items.at(w.place.index).state = was_cancelled && state != job_state::done ? job_state::cancelled : state;
  if (state == job_state::done) {
    ++finished_;
    const double now = took / static_cast<double>(std::max<std::size_t>(1, at_once));
    double& spacing = spacing_s_[static_cast<std::size_t>(w.item.kind())];
    spacing = spacing > 0 ? memory * spacing + (1 - memory) * now : now;
  }
  return !was_cancelled || state == job_state::done;
}

void job_board::finish(const work_item& w, json verdict, double device_s) {
  const std::lock_guard guard(mutex_);
  job* j = find(w.place.job);
  if (j == nullptr) return;
  settle(w, job_state::done);
  auto& item = j->items.at(w.place.index);
  item.verdict = std::move(verdict);
  item.device_s = device_s;
  queue_of(w.item.kind()).charge(w.client, device_s);
  limits_.used_device(w.client, device_s, clock::now());
  changed(*j);
}

void job_board::fail_item(const work_item& w, const error& e) {
  const std::lock_guard guard(mutex_);
  job* j = find(w.place.job);
  if (j == nullptr) return;
  if (settle(w, job_state::failed)) {
    auto& item = j->items.at(w.place.index);
    item.error_code = enum_name(e.code);
    item.error = e.message;
  }
  changed(*j);
}

void job_board::put_back(const work_item& w) {
  const std::lock_guard guard(mutex_);
  job* j = find(w.place.job);
  if (j == nullptr) return;
  if (settle(w, job_state::waiting)) {
    queue_of(w.item.kind()).put_back(w.client, w.place);
    has_work_.notify_all();
  }
  changed(*j);
}

// ---- the end --------------------------------------------------------------------------------------------------------

int64_t job_board::waiting() const {
  int64_t count = 0;
  for (const auto& queue : queues_)
    count += static_cast<int64_t>(queue.waiting());
  return count;
}

bool job_board::is_busy() const {
  const std::lock_guard guard(mutex_);
  return !running_.empty() || waiting() > 0;
}
bool job_board::is_ending() const {
  const std::lock_guard guard(mutex_);
  return no_more_;
}

void job_board::take_no_more() {
  const std::lock_guard guard(mutex_);
  no_more_ = true;
  has_work_.notify_all();
}

void job_board::end() {
  if (ticker_.joinable()) {
    ticker_.request_stop();
    ticker_.join();
  }
  const std::lock_guard guard(mutex_);
  no_more_ = ended_ = true;
  has_work_.notify_all();
  for (auto& [id, items] : running_)
    for (auto& [index, item] : items)
      wake(item.cancelled);
  for (auto& [id, j] : jobs_)
    tell_followers(j, false);
}

job_board::counts job_board::count() const {
  const std::lock_guard guard(mutex_);
  counts c;
  c.waiting = waiting();
  for (const auto& [id, items] : running_)
    c.running += std::ssize(items);
  c.jobs = std::ssize(jobs_);
  c.finished = finished_;
  std::map<std::string, int64_t> clients;
  for (const auto& [id, j] : jobs_)
    ++clients[j.client];
  c.clients = std::ssize(clients);
  return c;
}

}  // namespace cudal1::serve
