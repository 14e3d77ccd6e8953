#include "policy/model/batching_engine.hpp"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "config/base/stopwatch.hpp"
#include "policy/model/page_pool.hpp"

namespace cudal1 {

expected<void> check_text(std::span<const token> tokens, const model_shape& shape) {
  if (tokens.empty()) return fail(errc::invalid_argument, "the text for the model has no token");
  if (static_cast<int64_t>(tokens.size()) > shape.context)
    return fail(errc::invalid_argument, "the text has {} tokens, and the model's context {}", tokens.size(),
                shape.context);
  for (const token t : tokens)
    if (t < 0 || t >= shape.vocabulary)
      return fail(errc::invalid_argument, "the token {} is not in the model's vocabulary of {}", t, shape.vocabulary);
  return {};
}

expected<void> check_engine_options(const engine_options& o) {
  if (o.page_tokens < 1 || o.page_tokens > 1024 || o.cache_bytes < 1 || o.answers_at_once < 1 ||
      o.answers_at_once > 1024 || o.chunk_tokens < 1)
    return fail(errc::invalid_argument,
                "page_tokens {} (1 to 1024), cache_bytes {} (1 or more), answers_at_once {} (1 to 1024) or "
                "chunk_tokens {} (1 or more) is out of range",
                o.page_tokens, o.cache_bytes, o.answers_at_once, o.chunk_tokens);
  return {};
}

namespace {

expected<void> check_options(const generation_options& o) {
  if (!(o.temperature >= 0) || !std::isfinite(o.temperature) || !(o.top_p > 0) || o.top_p > 1 || o.top_k < 0 ||
      o.most_tokens < 1)
    return fail(errc::invalid_argument,
                "temperature {} (0 or more), top_p {} (above 0, up to 1), top_k {} (0 or more) or most_tokens {} (1 or "
                "more) is out of range",
                o.temperature, o.top_p, o.top_k, o.most_tokens);
  return {};
}

struct active_answer {
  text_engine::request_id id = 0;
  text_request request;
  int64_t limit = 0;  // tokens that it may have
  page_pool::text text;
  int32_t slot = -1;
  int64_t chosen = 0;    // tokens that were chosen, or that the device is choosing
  int64_t advanced = 0;  // of these, those that the device has read, or is reading
  generated_tokens out;
  bool is_over = false;

  int64_t prompt_size() const { return static_cast<int64_t>(request.prompt.size()); }
  bool has_prompt() const { return text.read() >= prompt_size(); }
};
using answer_ptr = std::shared_ptr<active_answer>;

class batching_engine final : public text_engine {
 public:
  batching_engine(std::unique_ptr<token_decoder> decoder, const model_shape& shape, const engine_options& options,
                  int64_t pages, int32_t first_page)
      : decoder_(std::move(decoder)), shape_(shape), options_(options), pool_(pages, options.page_tokens, first_page) {
    for (int64_t i = options.answers_at_once; i-- > 0;)
      free_slots_.push_back(static_cast<int32_t>(i));
    note_sizes();
  }

  ~batching_engine() override {
    if (thread_.joinable()) {
      {
        const std::lock_guard guard(mutex_);
        ends_ = true;
      }
      changed_.notify_all();
      thread_.join();
    }
    take_submitted();
    fail_all(fail(errc::cancelled, "the engine of the language model was ended before this answer").value());
  }

  expected<request_id> submit(text_request request) override {
    CUDAL1_CHECK(check_options(request.options));
    CUDAL1_CHECK(check_text(request.prompt, shape_));
    auto made = std::make_shared<active_answer>();
    made->request = std::move(request);
    made->limit = std::min(made->request.options.most_tokens, shape_.context - made->prompt_size() + 1);
    const int64_t places = most_places(*made), page_bytes = sizes_.cache_bytes / std::max<int64_t>(1, pool_.pages());
    if (pool_.pages_of(places) > pool_.pages())
      return fail(
          errc::out_of_memory,
          "a prompt of {} tokens and an answer of up to {} need {} pages of {} tokens ({} MB), and the cache of "
          "keys and values has {} ({} MB): make it larger, or the answer shorter",
          made->prompt_size(), made->limit, pool_.pages_of(places), pool_.page_tokens(),
          pool_.pages_of(places) * page_bytes / 1'000'000, pool_.pages(), sizes_.cache_bytes / 1'000'000);
    request_id id = 0;
    {
      const std::lock_guard guard(mutex_);
      id = made->id = ++last_id_;
      submitted_.push_back(std::move(made));
    }
    changed_.notify_all();
    return id;
  }

  void cancel(request_id id) override {
    {
      const std::lock_guard guard(mutex_);
      cancelled_.push_back(id);
    }
    changed_.notify_all();
  }

  bool step() override {
    const stopwatch watch;
    take_submitted();
    admit();
    if (waiting_.empty() && active_.empty() && pending_.empty()) return false;
    const bool reads = std::ranges::any_of(active_, [](const answer_ptr& a) { return !a->has_prompt(); });
    if (const auto done = do_step(); !done) {
      fail_all(done.error());
      pending_.clear();
      while (decoder_->collect()) {  // what was chosen before it failed
      }
    }
    const std::lock_guard guard(report_mutex_);
    (reads ? report_.prompt_seconds : report_.answer_seconds) += watch.ms() / 1000;
    return true;
  }

  void start() override {
    if (thread_.joinable()) return;
    thread_ = std::thread([this] {
      while (true) {
        while (step()) {
          const std::lock_guard guard(mutex_);
          if (ends_) return;
        }
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return ends_ || !submitted_.empty(); });
        if (ends_) return;
      }
    });
  }

  generation_report report() const override {
    const std::lock_guard guard(report_mutex_);
    return report_;
  }

  void reset_report() override {
    {
      const std::lock_guard guard(report_mutex_);
      report_ = {};
    }
    first_graph_step_ = decoder_->sizes().graph_steps;
    pool_.begin_count();
    note_sizes();
  }

  void forget_texts() override { pool_.forget(); }

 private:
  struct pending_choice {
    std::vector<answer_ptr> answers;
  };

  // Keys and values of an answer's last token are not needed.
  static int64_t most_places(const active_answer& a) { return a.prompt_size() + a.limit - 1; }

  void note_sizes() {
    sizes_ = decoder_->sizes();
    const std::lock_guard guard(report_mutex_);
    report_.cache_limit = sizes_.cache_bytes;
    report_.model_bytes = sizes_.model_bytes;
    report_.graph_steps = sizes_.graph_steps - first_graph_step_;
    report_.pages = pool_.most_used();
    report_.cache_bytes = pool_.pages() > 0 ? sizes_.cache_bytes / pool_.pages() * pool_.most_used() : 0;
  }

  template <class Change>
  void count(const Change& change) {
    const std::lock_guard guard(report_mutex_);
    change(report_);
  }

  void take_submitted() {
    std::vector<request_id> cancelled;
    {
      const std::lock_guard guard(mutex_);
      for (auto& each : submitted_)
        waiting_.push_back(std::move(each));
      submitted_.clear();
      cancelled.swap(cancelled_);
    }
    for (const request_id id : cancelled) {
      const auto is_meant = [&](const answer_ptr& a) { return a->id == id; };
      if (const auto found = std::ranges::find_if(waiting_, is_meant); found != waiting_.end()) {
        const auto answer = *found;
        waiting_.erase(found);
        finish(*answer, generation_end::stopped);
      } else if (const auto going = std::ranges::find_if(active_, is_meant); going != active_.end()) {
        finish(**going, generation_end::stopped);
      }
    }
    drop_finished();
  }

  // In the order in which they came. One that waits for another's beginning is passed by, one that waits for room not.
  void admit() {
    for (auto at = waiting_.begin(); at != waiting_.end() && !free_slots_.empty();) {
      auto& a = **at;
      page_pool::copy copied;
      const auto became = pool_.begin(a.request.prompt, most_places(a), a.text, copied);
      if (became == page_pool::admission::no_room) return;
      if (became == page_pool::admission::being_read) {
        ++at;
        continue;
      }
      a.slot = free_slots_.back();
      free_slots_.pop_back();
      count([&](generation_report& r) { r.reused_tokens += a.text.read(); });
      active_.push_back(*at);
      at = waiting_.erase(at);
      auto ready = decoder_->set_pages(a.slot, 0, a.text.pages());
      if (ready && copied.to >= 0) ready = decoder_->copy_page(copied.from, copied.to);
      if (!ready) {
        fail_all(ready.error());
        return;
      }
    }
  }

  expected<void> do_step() {
    std::vector<answer_ptr> rows;
    std::vector<decoded_row> decoded;
    for (const auto& a : active_)
      if (a->has_prompt() && a->chosen < a->limit) {
        CUDAL1_CHECK(extend(*a));
        decoded.push_back({a->slot, a->text.size() - 1});
        rows.push_back(a);
      }
    if (!rows.empty()) {
      CUDAL1_CHECK(decoder_->advance(decoded));
      for (const auto& a : rows)
        ++a->advanced;
      count([](generation_report& r) { ++r.steps; });
    }
    // While the device does that, the host looks at what was chosen before.
    while (!pending_.empty())
      CUDAL1_CHECK(collect());
    CUDAL1_CHECK(choose(rows));
    CUDAL1_CHECK(read_prompts());
    drop_finished();
    note_sizes();
    return {};
  }

  expected<void> extend(active_answer& a) {
    if (!pool_.extend(a.text)) return {};
    const std::size_t last = a.text.pages().size() - 1;
    return decoder_->set_pages(a.slot, last, a.text.pages().subspan(last));
  }

  // The parts of prompts that are read in this step, those that came first first.
  expected<void> read_prompts() {
    std::vector<prompt_part> parts;
    std::vector<answer_ptr> read, whole;
    int64_t left = options_.chunk_tokens;
    for (const auto& a : active_) {
      if (left == 0) break;
      if (a->is_over || a->has_prompt()) continue;
      const int64_t first = a->text.read(), size = std::min(left, a->prompt_size() - first);
      const auto tokens = std::span(a->request.prompt).subspan(static_cast<std::size_t>(first));
      parts.push_back({a->slot, first, tokens.first(static_cast<std::size_t>(size)), first + size == a->prompt_size()});
      read.push_back(a);
      if (parts.back().is_last) whole.push_back(a);
      left -= size;
    }
    if (parts.empty()) return {};
    CUDAL1_CHECK(decoder_->read(parts));
    for (std::size_t i = 0; i < parts.size(); ++i)
      pool_.mark_read(read[i]->text, static_cast<int64_t>(parts[i].tokens.size()));
    count([&](generation_report& r) { r.prompt_tokens += options_.chunk_tokens - left; });
    return choose(whole);
  }

  // `rows`: of the logits, in order. Those that are over are left out.
  expected<void> choose(const std::vector<answer_ptr>& rows) {
    std::vector<wanted_choice> wanted;
    pending_choice pending;
    std::deque<std::vector<uint32_t>> masks;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      auto& a = *rows[i];
      if (a.is_over) continue;
      const auto& o = a.request.options;
      std::span<const uint32_t> allowed;
      if (o.constraint) {
        auto& mask = masks.emplace_back(static_cast<std::size_t>((shape_.vocabulary + 31) / 32));
        if (o.constraint(a.request.answer, a.out.tokens, mask)) {
          if (std::ranges::all_of(mask, [](uint32_t word) { return word == 0; })) {
            finish(a, fail(errc::invalid_argument, "the constraint of an answer allows no token after {} tokens",
                           a.out.tokens.size())
                          .value());
            continue;
          }
          allowed = mask;
        }
      }
      const uint64_t random = random_of(o.seed, a.request.answer, a.chosen);
      wanted.push_back({i, a.slot, {o.temperature, o.top_p, o.top_k, random}, allowed});
      ++a.chosen;
      pending.answers.push_back(rows[i]);
    }
    if (wanted.empty()) return {};
    CUDAL1_CHECK(decoder_->choose(wanted));
    pending_.push_back(std::move(pending));
    return {};
  }

  expected<void> collect() {
    CUDAL1_TRY(const auto chosen, decoder_->collect());
    const auto pending = std::move(pending_.front());
    pending_.pop_front();
    for (std::size_t i = 0; i < chosen.size(); ++i)
      if (auto& a = *pending.answers[i]; !a.is_over) take(a, chosen[i]);
    return {};
  }

  void take(active_answer& a, const chosen_token& next) {
    a.out.tokens.push_back(next.chosen);
    a.out.log_probability.push_back(next.log_probability);
    count([](generation_report& r) { ++r.answer_tokens; });
    const auto& o = a.request.options;
    const auto known = static_cast<int64_t>(a.out.tokens.size());
    if (known <= a.advanced) {
      pool_.set_token(a.text, next.chosen);
      pool_.mark_read(a.text, 1);
    }
    const bool goes_on = !a.request.listener || a.request.listener(a.request.answer, next.chosen);
    if (std::ranges::find(o.end, next.chosen) != o.end.end())
      finish(a, generation_end::end_token);
    else if (!goes_on)
      finish(a, generation_end::stopped);
    else if (known == a.limit)
      finish(a, generation_end::length);
  }

  void finish(active_answer& a, generation_end end) {
    a.out.end = end;
    finish(a, expected<generated_tokens>(std::move(a.out)));
  }
  void finish(active_answer& a, const error& why) { finish(a, expected<generated_tokens>(tl::unexpected(why))); }
  void finish(active_answer& a, expected<generated_tokens> result) {
    if (std::exchange(a.is_over, true)) return;
    if (a.request.done) a.request.done(std::move(result));
  }

  // What the device still does for them it does before all later work, so slots and pages are free at once.
  void drop_finished() {
    std::erase_if(active_, [&](const answer_ptr& a) {
      if (!a->is_over) return false;
      pool_.end(a->text);
      free_slots_.push_back(a->slot);
      return true;
    });
  }

  void fail_all(const error& why) {
    for (const auto& a : active_)
      finish(*a, why);
    drop_finished();
    for (const auto& a : std::exchange(waiting_, {}))
      finish(*a, why);
    pool_.forget();
  }

  const std::unique_ptr<token_decoder> decoder_;
  const model_shape shape_;
  const engine_options options_;
  page_pool pool_;
  decoder_sizes sizes_;
  int64_t first_graph_step_ = 0;
  std::deque<answer_ptr> waiting_;
  std::vector<answer_ptr> active_;  // in the order in which they came
  std::vector<int32_t> free_slots_;
  std::deque<pending_choice> pending_;  // as the decoder has not collected them

  std::mutex mutex_;  // of what other threads set
  std::condition_variable changed_;
  std::vector<answer_ptr> submitted_;
  std::vector<request_id> cancelled_;
  request_id last_id_ = 0;
  bool ends_ = false;
  mutable std::mutex report_mutex_;
  generation_report report_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<text_engine> make_batching_engine(std::unique_ptr<token_decoder> decoder, const model_shape& shape,
                                                  const engine_options& options, int64_t pages, int32_t first_page) {
  return std::make_unique<batching_engine>(std::move(decoder), shape, options, pages, first_page);
}

}  // namespace cudal1
