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
#include "policy/model/language_model.hpp"
#include "policy/model/local/local_answer.hpp"

namespace cudal1 {

namespace {

constexpr double bytes_per_megabyte = 1 << 20;
// After this long a turn ends where others wait for the device.
constexpr std::chrono::milliseconds longest_turn{500};

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
       std::shared_ptr<answer_cache> cache, std::shared_ptr<device_turns> turns, trouble notice)
      : model_(std::move(model)),
        files_(std::move(files)),
        budget_(std::move(budget)),
        cache_(std::move(cache)),
        turns_(std::move(turns)),
        notice_(std::move(notice)) {}

  void begin() {
    // It may still be called while, and after, this is destroyed: so what it needs is shared.
    listener_ = budget_->on_room([signal = signal_] { signal->set(); });
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
    new_.push_back({.id = id, .request = std::move(r), .then = std::move(then)});
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
    uint64_t id = 0;
    chat_request request = {};
    done then = {};
    std::string key = {};
    std::vector<token> prompt = {};
    std::shared_ptr<const token_masks> masks = {};
    std::optional<chat_budget::reservation> room = {};
    // While it is generated.
    deadline gives_up = {};
    text_engine::request_id number = 0;      // 0: not yet
    double seconds = 0, prompt_seconds = 0;  // its share of the steps
    bool has_token = false;
    std::optional<error> ended = {};  // before it was complete
  };
  struct signals {
    std::mutex mutex;
    std::condition_variable wake;
    bool changed = false;
    device_turns::turn turn;  // that the thread has asked for, once it has begun

    void set() {
      const std::lock_guard lock(mutex);
      changed = true;
      wake.notify_one();
    }
  };

  void run() {
    while (true) {
      if (active_.empty() || is_asked_) {
        std::unique_lock lock(signal_->mutex);
        signal_->wake.wait(lock, [&] { return signal_->changed; });
        signal_->changed = false;
      }
      take_new();
      take_turn();
      if (is_closing_) break;
      start_some();
      if (active_.empty())
        turn_.end();
      else if (has_turn())
        step();
    }
    engine_.reset();
    for (auto& w : std::exchange(active_, {}))
      finish(*w, tl::unexpected<error>(stopped()));
    for (auto& w : std::exchange(queue_, {}))
      finish(w, tl::unexpected<error>(stopped()));
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
        finish(w, tl::unexpected<error>(stopped()));
      else
        kept.push_back(std::move(w));
    queue_ = std::move(kept);
    for (auto& w : active_)
      if (ids.contains(w->id)) end_early(*w, stopped());
    // Those that still wait for a turn need none.
    std::erase_if(active_, [this](const auto& w) {
      if (!w->ended || w->number != 0) return false;
      finish(*w, tl::unexpected<error>(*w->ended));
      return true;
    });
  }

  void end_early(waiting& w, error why) {
    if (w.ended) return;
    w.ended = std::move(why);
    if (w.number != 0) engine_->cancel(w.number);
  }

  // ---- turns on a device that measures --------------------------------------------------------------------------

  // Asks for it where there is none; the thread is woken when it begins.
  bool has_turn() {
    if (!turns_ || turn_) return true;
    if (std::exchange(is_asked_, true)) return false;
    in_turn_ = {};
    turns_->ask(model_.device, [signal = signal_](device_turns::turn t) {
      const std::lock_guard lock(signal->mutex);
      signal->turn = std::move(t);
      signal->changed = true;
      signal->wake.notify_one();
    });
    return false;
  }

  void take_turn() {
    const std::lock_guard lock(signal_->mutex);
    if (!signal_->turn) return;
    turn_ = std::move(signal_->turn);
    is_asked_ = false;
    waited_ms_ += in_turn_.ms();
    in_turn_ = {};
  }

  void end_turn_for_others() {
    if (turn_ && in_turn_.ms() >= static_cast<double>(longest_turn.count()) && turns_->is_awaited(model_.device))
      turn_.end();
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

  // Begins those that can be answered now; the others wait.
  void start_some() {
    std::deque<waiting> later;
    bool has_room = true;
    for (auto& w : std::exchange(queue_, {})) {
      if (!has_room || static_cast<int64_t>(active_.size()) >= model_.parallel) {
        later.push_back(std::move(w));
        continue;
      }
      if (auto ready = prepare(w); !ready) {
        finish(w, tl::unexpected<error>(std::move(ready).error()));
      } else if (*ready) {
        w.then(std::move(**ready));  // kept before
      } else if (!reserve(w, has_room)) {
        if (w.then) later.push_back(std::move(w));
      } else {
        active_.push_back(std::make_unique<waiting>(std::move(w)));
        active_.back()->gives_up =
            deadline_in(std::chrono::milliseconds(static_cast<int64_t>(model_.patience_s * 1000)));
      }
    }
    for (auto& w : std::exchange(queue_, std::move(later)))
      queue_.push_back(std::move(w));
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

  expected<void> load() {
    if (engine_) return {};
    const stopwatch watch;
    say("the weights are being read");
    // A GPU's model is fed by one thread. On the CPU one core is left to what is measured beside it.
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    CUDAL1_CHECK(language_model::use_threads(model_.device == "cpu" ? std::max(1, cores - 1) : 1));
    const auto precision = model_.precision == "bfloat16" ? model_precision::bfloat16 : model_precision::float32;
    CUDAL1_TRY(weights_, language_model::open(model_.path, precision, model_.device));
    CUDAL1_TRY(engine_, weights_->make_engine({.cache_bytes = cache_limit(), .answers_at_once = model_.parallel}));
    say("");
    spdlog::info("model {} on {}: {} parameters in {}, {:.0f} MiB, read in {:.1f} s", model_.name, model_.device,
                 files_->shape().parameters(), model_.precision, static_cast<double>(bytes()) / bytes_per_megabyte,
                 watch.ms() / 1000);
    return {};
  }

  int64_t bytes() const { return files_->shape().parameters() * (model_.precision == "bfloat16" ? 2 : 4); }

  // One step of all answers; those that have begun since the last one join.
  void step() {
    if (const auto ready = load(); !ready) {
      for (auto& w : std::exchange(active_, {}))
        finish(*w, tl::unexpected<error>(ready.error()));
      return;
    }
    for (const auto& w : active_)
      if (w->number == 0) submit(*w);
    const stopwatch watch;
    engine_->step();
    const double share = watch.ms() / 1000 / static_cast<double>(std::max<std::size_t>(active_.size(), 1));
    for (auto& w : active_) {
      w->seconds += share;
      if (!w->has_token) w->prompt_seconds += share;
      if (std::chrono::steady_clock::now() >= w->gives_up)
        end_early(*w, {errc::timeout, fmt::format("no complete answer within {} s, beside {} others; llm.patience_s is "
                                                  "the limit, llm.parallel how many are written at a time",
                                                  model_.patience_s, active_.size() - 1)});
    }
    for (auto& [w, made] : std::exchange(made_, {}))
      take(*w, std::move(made));
    std::erase_if(active_, [](const auto& w) { return !w->then; });
    if (active_.empty()) {
      log();
      turn_.end();     // before the thread waits for something to do
      signal_->set();  // for those that waited for a place
    }
    end_turn_for_others();
  }

  void submit(waiting& w) {
    auto request = generation_of(w.request, w.prompt, w.masks, files_->chat().ends());
    if (!request || w.ended) {
      made_.emplace_back(&w, tl::unexpected<error>(w.ended ? *w.ended : std::move(request).error()));
      return;
    }
    request->listener = [&w](std::size_t, token) {
      w.has_token = true;
      return true;
    };
    request->done = [this, &w](expected<generated_tokens> made) { made_.emplace_back(&w, std::move(made)); };
    if (const auto number = engine_->submit(std::move(*request)); number)
      w.number = *number;
    else
      made_.emplace_back(&w, tl::unexpected<error>(number.error()));
  }

  void take(waiting& w, expected<generated_tokens> made) {
    if (!made) {
      finish(w, tl::unexpected<error>(w.ended ? *w.ended : std::move(made).error()));
      return;
    }
    auto a = answer_of(*made, static_cast<int64_t>(w.prompt.size()), *files_);
    a.seconds = w.seconds;
    a.prompt_seconds = w.prompt_seconds;
    a.cache_bytes = engine_->report().cache_bytes;
    const double cost = cost_of(a.prompt_tokens, a.answer_tokens);
    log_.add(a);
    if (w.ended) {
      static_cast<void>(w.room->charge({a.prompt_tokens, a.answer_tokens, cost}));
      finish(w, tl::unexpected<error>(*w.ended));
    } else {
      deliver(w, std::move(a), cost);
      say("");
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

  // Of what was generated since there was nothing to do.
  struct totals {
    int64_t answers = 0, prompt = 0, written = 0, cache_bytes = 0;
    double seconds = 0, prompt_seconds = 0;

    void add(const chat_answer& a) {
      ++answers;
      prompt += a.prompt_tokens;
      written += a.answer_tokens;
      seconds += a.seconds;
      prompt_seconds += a.prompt_seconds;
      cache_bytes = std::max(cache_bytes, a.cache_bytes);
    }
  };

  void log() {
    const auto of = std::exchange(log_, {});
    const double waited_ms = std::exchange(waited_ms_, 0);
    if (of.answers == 0) return;
    spdlog::info(
        "model {} on {}: {} answers; prompts of {} tokens in {:.1f} s, {} tokens of answers in {:.1f} s ({:.1f} a "
        "second); keys and values {:.0f} MiB{}",
        model_.name, model_.device, of.answers, of.prompt, of.prompt_seconds, of.written,
        of.seconds - of.prompt_seconds,
        static_cast<double>(of.written) / std::max(of.seconds - of.prompt_seconds, 1e-9),
        static_cast<double>(of.cache_bytes) / bytes_per_megabyte,
        turns_ ? fmt::format("; {:.1f} s waited for turns on the device, which measures", waited_ms / 1000) : "");
  }

  chat_model model_;
  std::shared_ptr<const local_checkpoint> files_;
  std::shared_ptr<chat_budget> budget_;
  std::shared_ptr<answer_cache> cache_;
  std::shared_ptr<device_turns> turns_;  // null: nothing measures on the device
  trouble notice_;
  std::shared_ptr<signals> signal_ = std::make_shared<signals>();
  // Under signal_->mutex.
  std::vector<waiting> new_;
  std::set<uint64_t> cancelled_;
  uint64_t last_id_ = 0;
  std::atomic<bool> is_closing_ = false;
  // Of the thread.
  std::deque<waiting> queue_;
  std::vector<std::unique_ptr<waiting>> active_;  // that are generated, or about to be
  std::vector<std::pair<waiting*, expected<generated_tokens>>> made_;
  std::deque<std::shared_ptr<const token_masks>> masks_;
  std::unique_ptr<language_model> weights_;
  std::unique_ptr<text_engine> engine_;
  device_turns::turn turn_;
  bool is_asked_ = false;
  stopwatch in_turn_;  // since it began, or was asked for
  double waited_ms_ = 0;
  totals log_;
  uint64_t listener_ = 0;
  std::thread thread_;
};

std::unique_ptr<local_chat> local_chat::start(chat_model model, std::shared_ptr<const local_checkpoint> files,
                                              std::shared_ptr<chat_budget> budget, std::shared_ptr<answer_cache> cache,
                                              std::shared_ptr<device_turns> turns, trouble notice) {
  auto made = std::make_unique<core>(std::move(model), std::move(files), std::move(budget), std::move(cache),
                                     std::move(turns), std::move(notice));
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
