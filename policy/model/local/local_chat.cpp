#include "policy/model/local/local_chat.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <spdlog/spdlog.h>

#include "config/base/deadline.hpp"
#include "config/base/stopwatch.hpp"
#include "policy/chat/request_text.hpp"
#include "policy/model/local/answer_batch.hpp"

namespace cudal1 {

namespace {

constexpr double bytes_per_megabyte = 1 << 20;
constexpr std::chrono::milliseconds time_to_gather{100};

error stopped() {
  return {errc::cancelled, "the request was cancelled"};
}

// Signals are for the other threads.
template <class Work>
std::thread thread_without_signals(Work work) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread made(std::move(work));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return made;
}

}  // namespace

// All but ask(), cancel(), begin() and end() is called in the model's thread.
class local_chat::core {
 public:
  core(chat_model model, std::shared_ptr<const local_checkpoint> files, std::shared_ptr<chat_budget> budget,
       std::shared_ptr<answer_cache> cache, trouble notice)
      : model_(std::move(model)),
        files_(std::move(files)),
        budget_(std::move(budget)),
        cache_(std::move(cache)),
        notice_(std::move(notice)) {}

  void begin() {
    // It may still be called while, and after, this is destroyed: so what it needs is shared.
    listener_ = budget_->on_room([signal = signal_] {
      const std::lock_guard lock(signal->mutex);
      signal->changed = true;
      signal->wake.notify_one();
    });
    thread_ = thread_without_signals([this] { run(); });
  }

  void end() {
    budget_->forget(listener_);
    {
      const std::lock_guard lock(signal_->mutex);
      is_closing_ = true;
      signal_->changed = true;
    }
    signal_->wake.notify_one();
    thread_.join();
  }

  uint64_t ask(chat_request r, done then) {
    const std::lock_guard lock(signal_->mutex);
    const uint64_t id = ++last_id_;
    new_.push_back({id, std::move(r), "", std::move(then), {}, {}, {}});
    signal_->changed = true;
    signal_->wake.notify_one();
    return id;
  }

  void cancel(uint64_t id) {
    const std::lock_guard lock(signal_->mutex);
    cancelled_.insert(id);
    signal_->changed = true;
    signal_->wake.notify_one();
  }

 private:
  struct waiting {
    uint64_t id;
    chat_request request;
    std::string key;
    done then;
    std::vector<token> prompt;
    std::shared_ptr<const token_masks> masks;
    std::optional<chat_budget::reservation> room;
  };
  struct signals {
    std::mutex mutex;
    std::condition_variable wake;
    bool changed = false;
  };

  void run() {
    while (true) {
      {
        std::unique_lock lock(signal_->mutex);
        signal_->wake.wait(lock, [&] { return signal_->changed; });
        signal_->changed = false;
      }
      // What is asked together comes one by one, and would wait for the first to be answered.
      if (!is_closing_) std::this_thread::sleep_for(time_to_gather);
      take_new();
      if (is_closing_) break;
      while (answer_some() && !is_closing_)
        take_new();
    }
    take_new();
    for (auto& w : std::exchange(queue_, {}))
      w.then(tl::unexpected<error>(stopped()));
  }

  // What was asked and cancelled meanwhile.
  void take_new() {
    std::set<uint64_t> ids;
    {
      const std::lock_guard lock(signal_->mutex);
      for (auto& w : std::exchange(new_, {}))
        queue_.push_back(std::move(w));
      ids = std::exchange(cancelled_, {});
    }
    std::deque<waiting> kept;
    for (auto& w : std::exchange(queue_, {}))
      if (ids.contains(w.id))
        w.then(tl::unexpected<error>(stopped()));
      else
        kept.push_back(std::move(w));
    queue_ = std::move(kept);
  }

  bool is_cancelled(uint64_t id) {
    const std::lock_guard lock(signal_->mutex);
    return is_closing_ || cancelled_.contains(id);
  }

  tl::unexpected<error> refusal(error e) const {
    return fail_in(fmt::format("model {} on {}", model_.name, model_.device), std::move(e));
  }
  void say(const std::string& what) const {
    if (notice_) notice_(what.empty() ? "" : fmt::format("model {} on {}: {}", model_.name, model_.device, what));
  }

  int64_t cache_limit() const { return model_.cache_mb << 20; }
  int64_t cache_bytes_of(const waiting& w) const {
    return (static_cast<int64_t>(w.prompt.size()) + w.request.max_tokens) *
           cache_bytes_of_token(files_->shape(), model_.precision);
  }

  // Answers the requests that can be answered now. False if none is left that could be.
  bool answer_some() {
    std::vector<waiting> batch;
    int64_t bytes = 0;
    std::deque<waiting> later;
    bool has_room = true;
    for (auto& w : std::exchange(queue_, {})) {
      if (!has_room || static_cast<int64_t>(batch.size()) >= model_.parallel) {
        later.push_back(std::move(w));
        continue;
      }
      if (auto ready = prepare(w); !ready) {
        finish(w, tl::unexpected<error>(std::move(ready).error()));
        continue;
      } else if (*ready) {
        w.then(std::move(**ready));  // kept before
        continue;
      }
      const bool fits = batch.empty() || (bytes + cache_bytes_of(w) <= cache_limit() &&
                                          w.request.temperature == batch.front().request.temperature &&
                                          w.request.top_p == batch.front().request.top_p);
      if (!fits || !reserve(w, has_room)) {
        if (w.then) later.push_back(std::move(w));
        continue;
      }
      bytes += cache_bytes_of(w);
      batch.push_back(std::move(w));
    }
    for (auto& w : std::exchange(queue_, std::move(later)))
      queue_.push_back(std::move(w));
    if (batch.empty()) return false;
    generate(batch);
    return true;
  }

  // Sets what a request leaves open. An answer that was kept, or nothing.
  expected<std::optional<chat_answer>> prepare(waiting& w) {
    auto& r = w.request;
    if (w.key.empty()) {
      if (r.messages.empty()) return fail(errc::invalid_argument, "the request has no messages");
      if (r.max_tokens <= 0) r.max_tokens = files_->longest_answer(model_);
      if (!r.temperature) r.temperature = model_.temperature;
      if (!r.top_p) r.top_p = model_.top_p;
      w.key = answer_key(model_.url, model_.model, r);
    }
    if (cache_)
      if (auto known = cache_->find(w.key)) return std::optional(std::move(*known));
    if (!w.prompt.empty()) return std::optional<chat_answer>();
    CUDAL1_TRY(w.prompt, files_->chat().prompt_of(r.messages));
    const auto prompt = static_cast<int64_t>(w.prompt.size());
    if (prompt + r.max_tokens > files_->shape().context)
      return fail(errc::invalid_argument,
                  "the prompt has {} tokens and the answer may have {}, but the model's context is {}; set "
                  "llm.prompt=compact, fewer llm.exemplars, or a smaller llm.prompt_tokens or llm.max_answer_tokens",
                  prompt, r.max_tokens, files_->shape().context);
    if (cache_bytes_of(w) > cache_limit())
      return fail(errc::invalid_argument,
                  "the keys and values of the prompt ({} tokens) and its answer ({}) need {:.0f} MiB; set "
                  "llm.cache_mb to this or more, or a smaller llm.max_answer_tokens",
                  prompt, r.max_tokens, static_cast<double>(cache_bytes_of(w)) / bytes_per_megabyte);
    if (r.shape && model_.constrained) {
      CUDAL1_TRY(w.masks, masks_of(r.shape));
    }
    return std::optional<chat_answer>();
  }

  // The newest are kept: the answers of a task have one shape.
  expected<std::shared_ptr<const token_masks>> masks_of(const std::shared_ptr<const byte_automaton>& shape) {
    constexpr std::size_t most_kept = 4;
    for (const auto& known : masks_)
      if (&known->shape() == shape.get()) return known;
    CUDAL1_TRY(auto words, files_->trie());
    if (masks_.size() >= most_kept) masks_.pop_front();
    return masks_.emplace_back(std::make_shared<const token_masks>(std::move(words), shape));
  }

  // False if the budget has no room now, or never: then the request has ended.
  bool reserve(waiting& w, bool& has_room) {
    const auto prompt = static_cast<int64_t>(w.prompt.size());
    auto room = budget_->reserve({prompt, w.request.max_tokens, cost_of(prompt, w.request.max_tokens)});
    if (!room) {
      finish(w, tl::unexpected<error>(std::move(room).error()));
      return false;
    }
    has_room = room->has_value();  // on_room wakes the thread
    if (has_room) w.room.emplace(std::move(**room));
    return has_room;
  }

  double cost_of(int64_t prompt, int64_t answer) const {
    return (static_cast<double>(prompt) * model_.price_prompt + static_cast<double>(answer) * model_.price_answer) *
           1e-6;
  }

  void finish(waiting& w, expected<chat_answer> result) {
    w.room.reset();
    if (!result) {
      const auto code = result.error().code;
      if (code != errc::cancelled && code != errc::out_of_budget) say(result.error().message);
      result = refusal(std::move(result).error());
    }
    std::exchange(w.then, nullptr)(std::move(result));
  }

  expected<const language_model*> loaded() {
    if (weights_) return weights_.get();
    const stopwatch watch;
    say("the weights are being read");
    // A GPU's model is fed by one thread. On the CPU one core is left to what is measured beside it.
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    CUDAL1_CHECK(language_model::use_threads(model_.device == "cpu" ? std::max(1, cores - 1) : 1));
    const auto precision = model_.precision == "bfloat16" ? model_precision::bfloat16 : model_precision::float32;
    CUDAL1_TRY(weights_, language_model::open(model_.path, precision, model_.device));
    weights_->set_engine_options({.cache_bytes = cache_limit(), .answers_at_once = model_.parallel});
    say("");
    spdlog::info("model {} on {}: {} parameters in {}, {:.0f} MiB, read in {:.1f} s", model_.name, model_.device,
                 files_->shape().parameters(), model_.precision, static_cast<double>(bytes()) / bytes_per_megabyte,
                 watch.ms() / 1000);
    return weights_.get();
  }

  int64_t bytes() const { return files_->shape().parameters() * (model_.precision == "bfloat16" ? 2 : 4); }

  void generate(std::vector<waiting>& batch) {
    std::vector<batched_request> requests;
    for (auto& w : batch)
      requests.push_back({w.request, w.prompt, w.masks});
    const auto gives_up = deadline_in(std::chrono::milliseconds(static_cast<int64_t>(model_.patience_s * 1000)));
    std::vector<std::optional<error>> ended(batch.size());  // before they were complete
    const auto goes_on = [&](std::size_t i) {
      if (is_cancelled(batch[i].id)) {
        ended[i] = stopped();
      } else if (std::chrono::steady_clock::now() >= gives_up) {
        ended[i] = error{errc::timeout, fmt::format("no complete answer within {} s, beside {} others; llm.patience_s "
                                                    "is the limit, llm.parallel how many are written at a time",
                                                    model_.patience_s, batch.size() - 1)};
      }
      return !ended[i];
    };
    const auto model = loaded();
    auto answers = model ? answer_together(**model, *files_, requests, goes_on)
                         : expected<std::vector<chat_answer>>(tl::unexpected<error>(model.error()));
    if (!answers) {
      for (auto& w : batch)
        finish(w, tl::unexpected<error>(answers.error()));
      return;
    }
    log(*answers);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      auto& a = (*answers)[i];
      const double cost = cost_of(a.prompt_tokens, a.answer_tokens);
      if (ended[i]) {
        static_cast<void>(batch[i].room->charge({a.prompt_tokens, a.answer_tokens, cost}));
        finish(batch[i], tl::unexpected<error>(*ended[i]));
      } else {
        deliver(batch[i], std::move(a), cost);
        say("");
      }
    }
  }

  void deliver(waiting& w, chat_answer a, double cost) {
    a.model = model_.model;
    a.cost = cost;
    a.tries = 1;
    a.model_bytes = bytes();
    // First on disk: whoever sees the answer may rely on it.
    if (cache_) cache_->keep(w.key, a);
    w.room->settle({a.prompt_tokens, a.answer_tokens, cost});
    finish(w, std::move(a));
  }

  void log(const std::vector<chat_answer>& answers) const {
    int64_t prompt = 0, written = 0;
    double seconds = 0, prompt_seconds = 0;
    for (const auto& a : answers) {
      prompt += a.prompt_tokens;
      written += a.answer_tokens;
      seconds += a.seconds;
      prompt_seconds += a.prompt_seconds;
    }
    spdlog::info(
        "model {} on {}: {} answers; prompts of {} tokens in {:.1f} s, {} tokens of answers in {:.1f} s ({:.1f} a "
        "second); keys and values {:.0f} MiB",
        model_.name, model_.device, answers.size(), prompt, prompt_seconds, written, seconds - prompt_seconds,
        static_cast<double>(written) / std::max(seconds - prompt_seconds, 1e-9),
        static_cast<double>(answers.front().cache_bytes) / bytes_per_megabyte);
  }

  chat_model model_;
  std::shared_ptr<const local_checkpoint> files_;
  std::shared_ptr<chat_budget> budget_;
  std::shared_ptr<answer_cache> cache_;
  trouble notice_;
  std::shared_ptr<signals> signal_ = std::make_shared<signals>();
  // Under signal_->mutex.
  std::vector<waiting> new_;
  std::set<uint64_t> cancelled_;
  uint64_t last_id_ = 0;
  std::atomic<bool> is_closing_ = false;
  // Of the thread.
  std::deque<waiting> queue_;
  std::deque<std::shared_ptr<const token_masks>> masks_;
  std::unique_ptr<language_model> weights_;
  uint64_t listener_ = 0;
  std::thread thread_;
};

std::unique_ptr<local_chat> local_chat::start(chat_model model, std::shared_ptr<const local_checkpoint> files,
                                              std::shared_ptr<chat_budget> budget, std::shared_ptr<answer_cache> cache,
                                              trouble notice) {
  auto made = std::make_unique<core>(std::move(model), std::move(files), std::move(budget), std::move(cache),
                                     std::move(notice));
  made->begin();
  return std::unique_ptr<local_chat>(new local_chat(std::move(made)));
}

local_chat::local_chat(std::unique_ptr<core> c) : core_(std::move(c)) {}

local_chat::~local_chat() {
  core_->end();
}

uint64_t local_chat::ask(chat_request r, done then) {
  return core_->ask(std::move(r), std::move(then));
}

void local_chat::cancel(uint64_t id) {
  core_->cancel(id);
}

}  // namespace cudal1
