#include "policy/chat/chat_call.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <spdlog/spdlog.h>

#include "config/base/split_mix.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t refusal_limit = 64 << 10;
// Of a reply whose text has ended: what may follow is the count of its tokens.
constexpr std::chrono::milliseconds time_at_end{5000};
// A limit that is reset later than this is better found out by trying.
constexpr double longest_pause_s = 60;

std::chrono::milliseconds span_of(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * 1e3));
}

bool is_success(int status) {
  return status >= 200 && status < 300;
}

// Clients must not agree on their delays, so these bits are not seeded.
uint64_t random_bits(const void* of) {
  return split_mix(static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
                   split_mix(reinterpret_cast<uintptr_t>(of)));
}

}  // namespace

std::string chat_line::masked(std::string text) const {
  text = model.key.value.masked(std::move(text));
  return model.proxy ? model.proxy->masked(std::move(text)) : text;
}

chat_call::chat_call(chat_line& line, chat_request request, std::string key, chat_budget::reservation room, done then)
    : line_(line),
      request_(std::move(request)),
      key_(std::move(key)),
      room_(std::move(room)),
      then_(std::move(then)),
      patience_(line.io),
      pause_(line.io) {}

void chat_call::start() {
  began_ = std::chrono::steady_clock::now();
  gives_up_ = began_ + span_of(line_.model.patience_s);
  patience_.expires_at(gives_up_);
  patience_.async_wait([self = shared_from_this()](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    self->stop(
        {errc::timeout, fmt::format("no answer within {} s, in {} tries{}{}; llm.patience_s is the limit",
                                    self->line_.model.patience_s, self->tries_,
                                    self->last_problem_.empty() ? "" : "; the last problem: ", self->last_problem_)});
  });
  attempt();
}

void chat_call::stop(error why) {
  if (!then_) return;
  // A budget that this exceeds shows with the next request.
  if (exchange_) static_cast<void>(charge_lost());
  finish(tl::unexpected<error>(std::move(why)));
}

void chat_call::attempt() {
  if (!then_) return;
  ++tries_;
  sent_ = line_.dialect;
  sent_.stream = streams_;
  status_ = 0;
  headers_.clear();
  reader_.emplace();
  state_ = reply_state::more;
  refusal_.clear();
  const auto& m = line_.model;
  const http_timeouts timeouts{.connect = span_of(m.connect_timeout_s),
                               .first_byte = span_of(m.first_token_timeout_s),
                               .between = span_of(m.token_timeout_s),
                               .at_end = std::min(time_at_end, span_of(m.token_timeout_s))};
  const auto self = shared_from_this();
  exchange_ = start_exchange(line_.io, line_.tls,
                             {line_.to, m.key.value, request_body(request_, m.model, sent_), m.proxy}, timeouts,
                             {.on_head =
                                  [self](int status, http_headers headers) {
                                    self->status_ = status;
                                    self->headers_ = std::move(headers);
                                  },
                              .on_body = [self](std::string_view part) { return self->take_body(part); },
                              .on_end = [self](http_end end, const std::string& why) { self->end_try(end, why); }});
}

http_listener::wish chat_call::take_body(std::string_view part) {
  using wish = http_listener::wish;
  if (!is_success(status_)) {
    refusal_ += part.substr(0, refusal_limit - refusal_.size());
    return refusal_.size() < refusal_limit ? wish::more : wish::enough;
  }
  state_ = reader_->add(part);
  if (state_ == reply_state::more) return wish::more;
  return state_ == reply_state::finished ? wish::nearly_over : wish::enough;
}

void chat_call::end_try(http_end end, const std::string& why) {
  if (!then_) return;
  failure f;
  if (end == http_end::refused_by_proxy) {
    f = {.code = errc::invalid_argument, .what = why};
  } else if (end == http_end::not_connected || end == http_end::not_trusted) {
    f = {.code = errc::infrastructure, .what = why, .is_temporary = end == http_end::not_connected};
    if (end == http_end::not_trusted)
      f = {.code = errc::invalid_argument,
           .what = why + "; if the server has a certificate of its own, ca_file should name the file with its CA"};
  } else if (is_success(status_)) {
    if (state_ == reply_state::more || state_ == reply_state::finished) state_ = reader_->end();
    if (state_ == reply_state::complete) return succeed();
    f = failure_of_answer(end, why);
    if (end == http_end::whole && reader_->is_empty()) streams_ = false;
  } else if (status_ == 0) {
    f = {.code = end == http_end::silent ? errc::timeout : errc::infrastructure, .what = why, .is_temporary = true};
  } else {
    f = failure_of_status();
    if (f.what.empty()) return;  // it is asked again, in another dialect
  }
  auto charged = charge_lost();
  exchange_ = nullptr;
  if (!f.is_temporary) return finish(fail(f.code, "{}", f.what));
  if (!charged) return finish(tl::unexpected<error>(std::move(charged).error()));
  try_again_after(f);
}

// Of a reply that began as an answer.
chat_call::failure chat_call::failure_of_answer(http_end end, const std::string& why) const {
  const auto& problem = reader_->problem();
  if (end == http_end::silent)
    return {.code = errc::timeout,
            .what = fmt::format("{}, after {} bytes of the answer", why, reader_->answer_bytes()),
            .is_temporary = true};
  if (end == http_end::cut)
    return {.code = errc::infrastructure,
            .what = fmt::format("{}, after {} bytes of the answer", why, reader_->answer_bytes()),
            .is_temporary = true};
  if (problem.status >= 400 && !is_temporary(problem)) return refusal_of(problem);
  return {.code = errc::infrastructure, .what = problem.message, .is_temporary = true};
}

// Without text if the request is under way again.
chat_call::failure chat_call::failure_of_status() {
  const auto refusal = read_server_body(status_, refusal_);
  if (adapt(refusal)) return {};
  if (is_temporary(refusal))
    return {.code = errc::infrastructure,
            .what = fmt::format("status {}: {}", status_, refusal.message),
            .is_temporary = true,
            .wait_s = wait_asked_for(headers_, std::chrono::system_clock::now())};
  return refusal_of(refusal);
}

bool chat_call::adapt(const server_error& refusal) {
  const auto better = adapted(sent_, refusal);
  if (better == sent_) return false;
  const auto merged = both(line_.dialect, better);
  if (merged != line_.dialect)
    spdlog::info("model {}: requests go without what the server refuses: {}", line_.model.name,
                 line_.masked(refusal.message));
  line_.dialect = merged;
  exchange_ = nullptr;
  --tries_;  // the request was not a failure, and each field is dropped once
  attempt();
  return true;
}

// What to do about a refusal that would be repeated.
chat_call::failure chat_call::refusal_of(const server_error& e) const {
  const auto& m = line_.model;
  const std::string said = fmt::format("status {}: {}", e.status, e.message);
  std::string what;
  if (e.status == 401 || e.status == 403) {
    what = m.key.value.is_empty()
               ? fmt::format(
                     "the server wants a key, and there is none in {} ({}); set it before the node starts, or "
                     "name a file by key_file",
                     m.key.origin, said)
               : fmt::format(
                     "the server refuses the key of {} ({}); replace it by one that is valid for this endpoint "
                     "and model",
                     m.key.origin, said);
  } else if (e.status == 404) {
    what = fmt::format(
        "there is no model \"{}\" there, or the URL is not the base of an OpenAI-compatible API, which often ends in "
        "/v1 ({}); correct --model, or url",
        m.model, said);
  } else if (e.status == 402 || e.status == 429) {
    what =
        fmt::format("the account has no credit left ({}); raise its limit at the provider, or use another model", said);
  } else if (e.status >= 300 && e.status < 400) {
    what = fmt::format(
        "the server answers with a redirection to {} (status {}), which is not followed with a key; set "
        "url to where the API is",
        header_value(headers_, "location"), e.status);
  } else {
    what = fmt::format("the server refuses the request ({})", said);
  }
  return {.code = errc::invalid_argument, .what = std::move(what)};
}

void chat_call::try_again_after(const failure& f) {
  const auto& m = line_.model;
  last_problem_ = line_.masked(f.what);
  if (tries_ >= m.tries)
    return finish(fail(f.code, "no answer in {} tries (llm.tries); the last one: {}", tries_, f.what));
  const auto now = std::chrono::steady_clock::now();
  const double jitter = backoff_s(m.retry_delay_s, f.wait_s ? 1 : tries_, random_bits(this));
  const double delay = f.wait_s.value_or(0) + jitter;
  // Compared in seconds: a server may ask for more than a time point holds.
  if (delay >= std::chrono::duration<double>(gives_up_ - now).count())
    return finish(fail(errc::timeout,
                       "the next try should begin in {:.0f} s, after the end of llm.patience_s = {} s; the last "
                       "problem: {}",
                       delay, m.patience_s, f.what));
  if (f.wait_s) line_.not_before = std::max(line_.not_before, now + span_of(*f.wait_s));
  spdlog::info("model {}, try {} of {}: {}; the next in {:.1f} s", m.name, tries_, m.tries, last_problem_, delay);
  note_trouble(fmt::format("{} (try {} of {})", last_problem_, tries_, m.tries));
  pause_.expires_after(span_of(delay));
  pause_.async_wait([self = shared_from_this()](const boost::system::error_code& cancelled) {
    if (!cancelled) self->attempt();
  });
}

void chat_call::succeed() {
  const auto& m = line_.model;
  const int64_t bytes = reader_->answer_bytes();
  chat_answer a = reader_->take();
  if (a.tokens_estimated) {
    a.prompt_tokens = estimated_prompt_tokens(request_);
    a.answer_tokens = estimated_tokens(bytes);
  }
  // A model may repeat what a gateway has put into its prompt.
  a.text = m.key.value.masked(std::move(a.text));
  a.reasoning = m.key.value.masked(std::move(a.reasoning));
  if (a.model.empty()) a.model = m.model;
  a.lost_tokens = lost_.tokens();
  a.tries = tries_;
  a.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  const double cost = cost_of(a.prompt_tokens, a.answer_tokens);
  a.cost = cost + lost_.money;
  if (const auto wait = wait_after_last(headers_, std::chrono::system_clock::now()); wait && *wait <= longest_pause_s)
    line_.not_before = std::max(line_.not_before, deadline_in(span_of(*wait)));
  // First on disk: whoever sees the answer may rely on it.
  if (line_.cache) line_.cache->keep(key_, a);
  room_->settle({a.prompt_tokens, a.answer_tokens, cost});
  finish(std::move(a));
}

// A stream that was cut is paid for as far as it came. A reply that is no answer costs nothing.
expected<void> chat_call::charge_lost() {
  if (!is_success(status_)) return {};
  const int64_t prompt = estimated_prompt_tokens(request_), answer = estimated_tokens(reader_->answer_bytes());
  const chat_spending tokens{prompt, answer, cost_of(prompt, answer)};
  lost_ += tokens;
  return room_->charge(tokens);
}

double chat_call::cost_of(int64_t prompt_tokens, int64_t answer_tokens) const {
  return (static_cast<double>(prompt_tokens) * line_.model.price_prompt +
          static_cast<double>(answer_tokens) * line_.model.price_answer) *
         1e-6;
}

std::string chat_call::described(const std::string& what) const {
  const auto& m = line_.model;
  // Whose replies cannot be told from those of the server.
  const std::string by = m.proxy && !line_.to.tls ? " through " + m.proxy->name() : "";
  return line_.masked(fmt::format("model {} at {}{}: {}", m.name, line_.to.url(), by, what));
}

void chat_call::note_trouble(const std::string& what) const {
  if (line_.notice) line_.notice(what.empty() ? "" : described(what));
}

void chat_call::finish(expected<chat_answer> result) {
  const auto self = shared_from_this();
  patience_.cancel();
  pause_.cancel();
  if (const auto running = std::exchange(exchange_, nullptr)) running->abort();
  room_.reset();
  if (result) {
    note_trouble("");
  } else {
    auto& e = result.error();
    if (e.code != errc::cancelled && e.code != errc::out_of_budget) note_trouble(e.message);
    e.message = described(e.message);
  }
  if (const auto then = std::exchange(then_, nullptr)) then(std::move(result));
}

}  // namespace cudal1
