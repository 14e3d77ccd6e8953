#include "actors/experiment/evaluation.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "config/base/wall_clock.hpp"
#include "policy/graph/part_family.hpp"
#include "sandbox/program/memory_need.hpp"

namespace cudal1 {

namespace {

constexpr std::chrono::milliseconds first_delay_after_loss{500}, longest_delay_after_loss{30'000};
constexpr std::chrono::milliseconds delay_without_store{500};
constexpr const char* allowed_by = " by verification.memory_limit_mb, on a GPU by device.gpu_memory_limit_mb";
constexpr const char* withdrawn_early = "the experiment ended before it was on a device";

// Errors of a commit that trying again does not fix: the attempt does not exist or is lost.
bool is_permanent_refusal(errc code) {
  return code == errc::cancelled || code == errc::not_found || code == errc::invalid_argument;
}

double ms_between(evaluation::time_point from, evaluation::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

}  // namespace

void evaluation::end_stage(const char* name, time_point now) {
  stage_ms_[name] += ms_between(since_.value_or(now), now);
  since_ = now;
}

evaluation::effects evaluation::over(effect last) {
  now_ = stage::ended;
  return {std::move(last)};
}

// ---- the attempt --------------------------------------------------------------------------------------------------

evaluation::effects evaluation::begin(const surroundings& s) {
  if (s.is_ending || (!what_.second_look && !s.no_attempts.empty())) return over(drop{});
  now_ = stage::reserving;
  return {reserve{}};
}

evaluation::effects evaluation::not_reserved(const error& e, const surroundings& s) {
  if (e.code == errc::variant_fault && what_.second_look) return over(drop{});  // its verdict stays
  if (e.code == errc::variant_fault) {
    attempt_ = {what_.experiment, what_.variant.task, what_.variant.id, 3, attempt_state::leased, "", unix_ms()};
    return judge_without_device(outcome::quarantined, e.message, s);
  }
  if (e.code == errc::already_exists) return s.is_ending || what_.is_given ? over(drop{}) : over(repeat{});
  if (e.code == errc::invalid_argument) {
    now_ = stage::ended;
    return {refuse_task{e.message}, drop{e.message}};
  }
  is_waiting_ = true;
  return {wait{delay_without_store, "no attempt could be reserved, trying again: " + e.message}};
}

evaluation::effects evaluation::reserved(const message::reserved& r, const surroundings& s) {
  attempt_ = r.attempt;
  has_attempt_ = true;
  if (since_) end_stage("propose", s.now);
  since_ = s.now;
  if (s.is_withdrawing) return end(withdrawn_early, attempt_loss::withdrawn, sequel::drop);
  if (!r.known.empty() && is_reusable(r.known.front(), s)) {
    verdict known = r.known.front();
    known.attempt = attempt_.number;
    known.confirmed = false;  // as a best of this experiment
    known.stage_ms.clear();
    return store(std::move(known), s.where, s.now);
  }
  if (!what_.program) return judge_without_device(outcome::invalid, what_.problem, s);
  if (const auto why = why_too_large(*what_.program, s.tensor_bytes); !why.empty())
    return judge_without_device(outcome::out_of_memory, why + allowed_by, s);
  now_ = stage::compiling;
  return {compile{}};
}

// One that would be the best is measured again.
bool evaluation::is_reusable(const verdict& known, const surroundings& s) const {
  if (is_outdated_score(*what_.task, known)) return false;
  return known.result != outcome::correct || known.score <= s.best;
}

// ---- compilation --------------------------------------------------------------------------------------------------

evaluation::effects evaluation::compiled(shared_code code, const surroundings& s) {
  if (now_ != stage::compiling) return {};
  code_ = std::move(code);
  end_stage("compile", s.now);
  return offer_to_devices(s);
}

evaluation::effects evaluation::not_compiled(const error& e, const surroundings& s) {
  if (now_ != stage::compiling) return {};
  end_stage("compile", s.now);
  switch (e.code) {
    case errc::compile_failed:
      return judge_without_device(outcome::compile_error, "the compiler refused the source", s, e.message);
    case errc::unsupported:
    case errc::invalid_program:
      return judge_without_device(outcome::compile_error, e.message, s);
    case errc::refused:
      return judge_without_device(outcome::refused, e.message, s);
    case errc::timeout:
      return judge_without_device(outcome::compile_timeout, e.message, s);
    case errc::corrupt:  // what it made cannot be read, which may well be due to the program
      return lose("compiler: " + e.message, attempt_loss::on_device);
    default:
      return lose("compiler: " + e.message, attempt_loss::elsewhere);
  }
}

evaluation::effects evaluation::offer_to_devices(const surroundings& s) {
  if (s.is_withdrawing) return withdraw();
  if (!s.no_device.empty()) return lose(s.no_device, attempt_loss::elsewhere);
  now_ = stage::measuring;
  return {offer{}};
}

// ---- the verdict --------------------------------------------------------------------------------------------------

evaluation::effects evaluation::judge_without_device(outcome result, std::string reason, const surroundings& s,
                                                     std::string log) {
  verdict v;
  v.task = what_.variant.task;
  v.variant = what_.variant.id;
  v.attempt = attempt_.number;
  v.result = result;
  v.reason = std::move(reason);
  v.compiler_log = std::move(log);
  v.environment_id = s.where.id;
  v.time_unix_ms = unix_ms();
  return store(std::move(v), s.where, s.now);
}

evaluation::effects evaluation::reported(message::work_done m, const surroundings& s) {
  if (now_ == stage::storing && is_from_device_) return {};  // twice: answered once it is stored
  if (now_ != stage::measuring) return {acknowledge{}};      // late
  effects first;
  if (m.task_refused) first.push_back(refuse_task{m.fault});
  effects rest;
  if (m.has_verdict) {
    verdict v = std::move(m.result);
    if (code_ && v.compiler_log.empty()) v.compiler_log = code_->log;
    is_from_device_ = true;
    rest = store(std::move(v), m.where, s.now);
  } else {
    first.push_back(acknowledge{});
    rest = m.unrecorded ? end(m.fault, attempt_loss::unrecorded, sequel::unrecorded)
                        : lose(m.fault, m.on_device ? attempt_loss::on_device : attempt_loss::elsewhere);
  }
  std::ranges::move(rest, std::back_inserter(first));
  return first;
}

evaluation::effects evaluation::store(verdict v, const environment& where, time_point now) {
  now_ = stage::storing;
  const double device_ms = device_ms_of(v.stage_ms);
  for (const auto& [name, ms] : stage_ms_)
    v.stage_ms[name] = ms;
  if (is_from_device_) v.stage_ms["wait"] = std::max(0.0, ms_between(since_.value_or(now), now) - device_ms);
  verdict_ = std::make_shared<message::commit_verdict>(message::commit_verdict{attempt_, std::move(v), where});
  return {commit{verdict_}};
}

evaluation::effects evaluation::committed() {
  now_ = stage::ended;
  has_attempt_ = false;
  return {acknowledge{}, settle{verdict_}};
}

evaluation::effects evaluation::not_committed(const error& e) {
  if (is_permanent_refusal(e.code)) {
    now_ = stage::ended;
    has_attempt_ = false;
    return {acknowledge{}, drop{"a verdict cannot be stored: " + e.message}};
  }
  if (std::exchange(is_from_device_, false)) {  // the device keeps its lease
    now_ = stage::measuring;
    return {refuse{e}};
  }
  is_waiting_ = true;
  return {wait{{}, "a verdict is not stored yet: " + e.message}};
}

// ---- without a verdict --------------------------------------------------------------------------------------------

evaluation::effects evaluation::end(std::string why, attempt_loss how, sequel next) {
  now_ = stage::ending;  // another report of this attempt comes too late
  ending_ = {std::move(why), how};
  next_ = next;
  return {ending_};
}

// An infrastructure fault ended the attempt: the variant is tried again, after a while if it cannot be the cause.
evaluation::effects evaluation::lose(std::string why, attempt_loss how) {
  return end(std::move(why), how, how == attempt_loss::on_device ? sequel::retry : sequel::retry_later);
}

evaluation::effects evaluation::attempt_ended(const surroundings& s) {
  has_attempt_ = false;
  if (next_ == sequel::drop) return over(drop{});
  if (next_ == sequel::unrecorded) return over(unrecorded{ending_.why});
  effects all{count_fault{}};
  if (next_ == sequel::retry) {
    std::ranges::move(begin(s), std::back_inserter(all));
    return all;
  }
  now_ = stage::reserving;
  is_waiting_ = true;
  all.push_back(wait{std::min(first_delay_after_loss * (1 << std::min(losses_++, 10)), longest_delay_after_loss), ""});
  return all;
}

evaluation::effects evaluation::attempt_not_ended(const error& e) {
  is_waiting_ = true;
  return {wait{{}, fmt::format("the end of an attempt ({}) is not stored yet: {}", enum_name(ending_.how), e.message)}};
}

evaluation::effects evaluation::waited(const surroundings& s) {
  if (!std::exchange(is_waiting_, false)) return {};
  if (now_ == stage::reserving) return begin(s);
  if (now_ == stage::storing) return {commit{verdict_}};
  return {ending_};
}

evaluation::effects evaluation::withdraw() {
  if (now_ == stage::reserving && is_waiting_) return over(drop{});
  if (now_ != stage::compiling && now_ != stage::measuring) return {};
  return end(withdrawn_early, attempt_loss::withdrawn, sequel::drop);
}

evaluation::effects evaluation::no_device(const std::string& why) {
  return now_ == stage::measuring ? lose(why, attempt_loss::elsewhere) : effects{};
}

}  // namespace cudal1
