#include "policy/chat/chat_client.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <deque>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <spdlog/spdlog.h>

#include "policy/chat/chat_call.hpp"
#include "policy/chat/tls_settings.hpp"

namespace cudal1 {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::seconds longest_wait{60};  // between two looks at a rate limit

// Signals are for the other threads.
std::thread thread_without_signals(std::function<void()> work) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread made(std::move(work));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return made;
}

}  // namespace

// What the network thread works with. All but ask(), cancel(), begin() and end() is called in that thread.
class chat_client::core : public std::enable_shared_from_this<core> {
 public:
  core(chat_model model, endpoint to, std::shared_ptr<tls_settings> tls, std::shared_ptr<chat_budget> budget,
       std::shared_ptr<answer_cache> cache, trouble notice)
      : budget_(std::move(budget)), work_(line_.io.get_executor()), pause_(line_.io) {
    line_.model = std::move(model);
    line_.to = std::move(to);
    line_.tls = std::move(tls);
    line_.cache = std::move(cache);
    line_.notice = std::move(notice);
  }

  void begin() {
    // Other clients settle in threads of theirs, perhaps after the end of this one.
    listener_ = budget_->on_room([weak = weak_from_this()] {
      if (const auto self = weak.lock())
        asio::post(self->line_.io, [weak] {
          if (const auto alive = weak.lock()) alive->pump();
        });
    });
    thread_ = thread_without_signals([this] { line_.io.run(); });
  }

  void end() {
    budget_->forget(listener_);
    asio::post(line_.io, [this] { close(); });
    thread_.join();
  }

  uint64_t ask(chat_request r, done then) {
    const uint64_t id = ++last_id_;
    asio::post(line_.io, [this, id, r = std::move(r), then = std::move(then)]() mutable {
      enter(id, std::move(r), std::move(then));
    });
    return id;
  }

  void cancel(uint64_t id) {
    asio::post(line_.io, [this, id] { stop(id); });
  }

 private:
  struct waiting {
    uint64_t id;
    chat_request request;
    std::string key;
    done then;
  };

  static error stopped() { return {errc::cancelled, "the request was cancelled"}; }

  tl::unexpected<error> refusal(error e) const {
    return fail_in(fmt::format("model {} at {}", line_.model.name, line_.to.url()), std::move(e));
  }

  void enter(uint64_t id, chat_request r, done then) {
    if (is_closing_) return then(tl::unexpected<error>(stopped()));
    if (r.messages.empty()) return then(refusal({errc::invalid_argument, "the request has no messages"}));
    const auto& m = line_.model;
    if (r.max_tokens <= 0) r.max_tokens = m.max_answer_tokens;
    if (!r.temperature) r.temperature = m.temperature;
    if (!r.top_p) r.top_p = m.top_p;
    for (auto& message : r.messages)
      message.content = m.key.value.masked(std::move(message.content));
    std::string key = answer_key(line_.to.url(), m.model, r);
    if (line_.cache)
      if (auto known = line_.cache->find(key)) return then(std::move(*known));
    queue_.push_back({id, std::move(r), std::move(key), std::move(then)});
    pump();
  }

  // Starts what may start.
  void pump() {
    while (!is_closing_ && !queue_.empty() && running_.size() < static_cast<std::size_t>(line_.model.parallel)) {
      if (wait_for_rate_limit()) return;
      auto room = budget_->reserve(most_of(queue_.front().request));
      if (room && !*room) return;  // on_room calls again
      waiting next = std::move(queue_.front());
      queue_.pop_front();
      if (!room) {
        next.then(refusal(room.error()));
        continue;
      }
      // The same request may have been answered since.
      if (line_.cache)
        if (auto known = line_.cache->find(next.key)) {
          next.then(std::move(*known));
          continue;
        }
      start(std::move(next), std::move(**room));
    }
  }

  void start(waiting next, chat_budget::reservation room) {
    auto call =
        std::make_shared<chat_call>(line_, std::move(next.request), std::move(next.key), std::move(room),
                                    [this, id = next.id, then = std::move(next.then)](expected<chat_answer> result) {
                                      running_.erase(id);
                                      then(std::move(result));
                                      asio::post(line_.io, [this] { pump(); });
                                    });
    running_.emplace(next.id, call);
    call->start();
  }

  // True if nothing may start yet.
  bool wait_for_rate_limit() {
    const auto now = std::chrono::steady_clock::now();
    if (now >= line_.not_before) return false;
    pause_.expires_at(std::min(line_.not_before, now + longest_wait));
    pause_.async_wait([this](const boost::system::error_code& cancelled) {
      if (!cancelled) pump();
    });
    return true;
  }

  chat_spending most_of(const chat_request& r) const {
    const auto& m = line_.model;
    const int64_t prompt = estimated_prompt_tokens(r);
    return {prompt, r.max_tokens,
            (static_cast<double>(prompt) * m.price_prompt + static_cast<double>(r.max_tokens) * m.price_answer) * 1e-6};
  }

  void stop(uint64_t id) {
    if (const auto found = running_.find(id); found != running_.end()) {
      const auto call = found->second;
      return call->stop(stopped());
    }
    const auto queued = std::ranges::find_if(queue_, [&](const waiting& w) { return w.id == id; });
    if (queued == queue_.end()) return;
    const auto then = std::move(queued->then);
    queue_.erase(queued);
    then(tl::unexpected<error>(stopped()));
  }

  void close() {
    is_closing_ = true;
    pause_.cancel();
    for (auto& w : std::exchange(queue_, {}))
      w.then(tl::unexpected<error>(stopped()));
    const auto calls = running_;
    for (const auto& [id, call] : calls)
      call->stop(stopped());
    work_.reset();
  }

  chat_line line_;
  std::shared_ptr<chat_budget> budget_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::steady_timer pause_;
  std::deque<waiting> queue_;
  std::unordered_map<uint64_t, std::shared_ptr<chat_call>> running_;
  bool is_closing_ = false;
  std::atomic<uint64_t> last_id_ = 0;
  uint64_t listener_ = 0;
  std::thread thread_;
};

expected<std::unique_ptr<chat_client>> chat_client::start(chat_model model, std::shared_ptr<chat_budget> budget,
                                                          std::shared_ptr<answer_cache> cache, trouble notice) {
  auto to = parse_endpoint(model.url);
  if (!to) return fail_in("model " + model.name, to.error());
  std::shared_ptr<tls_settings> tls;
  if (to->tls) {
    auto made = make_tls_settings(model.ca_file);
    if (!made) return fail_in("model " + model.name, made.error());
    tls = std::move(*made);
  } else if (!model.key.value.is_empty() && !to->is_local()) {
    spdlog::warn("model {}: the key of {} is sent to {} without encryption; use https where the network is not yours",
                 model.name, model.key.origin, to->host_header());
  }
  if (model.proxy)
    spdlog::info("model {}: requests to {} go through {}", model.name, to->host_header(), model.proxy->name());
  auto made = std::make_shared<core>(std::move(model), std::move(*to), std::move(tls), std::move(budget),
                                     std::move(cache), std::move(notice));
  made->begin();
  return std::unique_ptr<chat_client>(new chat_client(std::move(made)));
}

chat_client::chat_client(std::shared_ptr<core> c) : core_(std::move(c)) {}

chat_client::~chat_client() {
  core_->end();
}

uint64_t chat_client::ask(chat_request r, done then) {
  return core_->ask(std::move(r), std::move(then));
}

void chat_client::cancel(uint64_t id) {
  core_->cancel(id);
}

}  // namespace cudal1
