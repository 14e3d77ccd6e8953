#include "sandbox/cpu/referee/cpu_runner_link.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/cpu/runner/cpu_runner_messages.hpp"
#include "sandbox/isolation/fault_text.hpp"
#include "sandbox/referee/draws.hpp"
#include "sandbox/referee/referee_messages.hpp"

namespace cudal1 {
namespace {

constexpr double load_limit_ms = 20'000;  // includes confinement and LibTorch's threads, on a loaded machine
constexpr double setup_factor = 5;        // setup steps may take this many times a call's limit

std::chrono::milliseconds milliseconds_of(double ms) {
  return std::chrono::milliseconds(static_cast<int64_t>(ms));
}

outcome outcome_of(errc code) {
  switch (code) {
    case errc::invalid_program:
    case errc::parse_error:
    case errc::not_found:
    case errc::unsupported:
      return outcome::invalid;
    case errc::refused:
      return outcome::refused;
    case errc::out_of_memory:
      return outcome::out_of_memory;
    default:
      return outcome::crash;
  }
}

}  // namespace

expected<cpu_runner_link> cpu_runner_link::attach(std::span<unique_fd> descriptors, const cpu_link_options& options) {
  if (descriptors.size() != descriptors_of_runner) return fail(errc::corrupt, "a runner needs four descriptors");
  cpu_runner_link link;
  link.channel_ = std::move(descriptors[0]);
  link.pidfd_ = std::move(descriptors[3]);
  CUDAL1_TRY(link.page_, map_shared(descriptors[1].get(), control_block::bytes, memory_access::read_write));
  CUDAL1_TRY(link.arena_, map_shared(descriptors[2].get(), options.memory_bytes, memory_access::read_only));
  link.limits_ = options;
  return link;
}

tl::unexpected<error> cpu_runner_link::note_fault(fault f) {
  problem_ = std::move(f);
  return fail(errc::variant_fault, "{}", problem_->reason);
}

bool cpu_runner_link::signal(int number) const {
  return ::syscall(SYS_pidfd_send_signal, pidfd_.get(), number, nullptr, 0) == 0 || errno == ESRCH;
}

expected<void> cpu_runner_link::stop() {
  if (!signal(SIGSTOP)) return fail(errc::infrastructure, "a runner cannot be stopped: {}", std::strerror(errno));
  stopped_ = true;
  return {};
}

void cpu_runner_link::sample_outputs() {
  constexpr int words_of_output = 64;
  constexpr std::size_t most = 512;
  seen_.clear();
  uint64_t random = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  for (std::size_t i = 0; i < program_->text.outputs.size() && seen_.size() < most; ++i) {
    output_place place;
    std::memcpy(&place, &control().outputs[i], sizeof place);
    const int64_t words = program_->types.at(program_->text.outputs[i]).storage_bytes() / 8;
    if (place.home != output_home::arena || words == 0 || place.offset < 0 ||
        place.offset > limits_.memory_bytes - 8 * words)
      continue;
    for (int k = 0; k < words_of_output; ++k) {
      random = random * 6364136223846793005 + 1442695040888963407;
      // Always the last word: most kernels write it last.
      const int64_t word = k == 0 ? words - 1 : static_cast<int64_t>((random >> 20) % static_cast<uint64_t>(words));
      seen_word seen{place.offset + 8 * word, 0};
      std::memcpy(&seen.value, arena_.data() + seen.offset, sizeof seen.value);
      seen_.push_back(seen);
    }
  }
}

expected<void> cpu_runner_link::confirm_outputs() {
  for (const auto& seen : seen_)
    if (std::memcmp(&seen.value, arena_.data() + seen.offset, sizeof seen.value) != 0)
      return note_fault(
          {outcome::inconsistent, "an output changed after the runner had reported that the call was done"});
  return {};
}

void cpu_runner_link::go_on() {
  if (std::exchange(stopped_, false)) signal(SIGCONT);
}

bool cpu_runner_link::wait_for_end(std::chrono::milliseconds limit) const {
  pollfd entry{pidfd_.get(), POLLIN, 0};
  int r = 0;
  do
    r = ::poll(&entry, 1, static_cast<int>(limit.count()));
  while (r < 0 && errno == EINTR);
  return r > 0;
}

// What the runner wrote to its standard error.
std::string cpu_runner_link::words() const {
  const char* text = reinterpret_cast<const char*>(page_.data()) + control_block::stderr_offset;
  return {text, ::strnlen(text, control_block::bytes - control_block::stderr_offset)};
}

// The channel closed or the process ended.
tl::unexpected<error> cpu_runner_link::ended() {
  // The fault handler sets the state before it exits, so the record is complete once the process has ended.
  if (!wait_for_end(std::chrono::seconds(2))) {
    signal(SIGKILL);
    return note_fault({outcome::crash, "the runner closed its channel"});
  }
  if (static_cast<call_state>(control().state.load(std::memory_order_acquire)) == call_state::faulted) {
    const fault_record copy = control().fault;
    return note_fault(describe_fault(copy, words(), program_->text));
  }
  lost_ = true;
  return fail(errc::variant_fault, "the runner ended and left no record");
}

// Sends a signal whose handler records the current step, then kills the runner.
tl::unexpected<error> cpu_runner_link::overdue(double limit_ms) {
  signal(SIGXCPU);
  const bool answered = wait_for_end(std::chrono::milliseconds(200));
  signal(SIGKILL);
  std::string where;
  if (answered && static_cast<call_state>(control().state.load(std::memory_order_acquire)) == call_state::faulted) {
    const fault_record copy = control().fault;
    const std::string step = printable(copy.step, sizeof copy.step);
    if (!step.empty()) where = ", in " + step;
  }
  return note_fault({outcome::hang, fmt::format("no answer within {:.0f} ms{}", limit_ms, where)});
}

expected<runner_reply> cpu_runner_link::ask(frame_type type, const json& body, std::span<const int> descriptors,
                                            double limit_ms) {
  const deadline until = deadline_in(milliseconds_of(limit_ms));
  go_on();
  if (const auto sent = send_frame(channel_.get(), type, body, descriptors, until); !sent) return ended();
  auto reply = receive_frame(channel_.get(), until, runner_frame_limits);
  if (!reply && reply.error().code == errc::timeout) return overdue(limit_ms);
  if (!reply && reply.error().code == errc::not_found) return ended();
  if (!reply)
    return note_fault({outcome::crash, "the runner sent something that is not a frame: " + reply.error().message});
  auto record = record_of<runner_reply>(*reply);
  if (!record) {
    // Until the runner has run code of the variant, its report that the error is ours is trusted.
    const bool ours = record.error().code == errc::infrastructure || record.error().code == errc::io_error;
    if (ours && type == frame_type::load) return fail_in("a runner", record.error());
    const std::string text = printable(record.error().message.c_str(), record.error().message.size());
    return note_fault({outcome_of(record.error().code), text});
  }
  return record;
}

expected<void> cpu_runner_link::load(const checked_program& p, int object) {
  program_ = &p;
  const auto start = std::chrono::steady_clock::now();
  const load_request request{
      .program = print_program(p.text), .arena_bytes = limits_.memory_bytes, .seed = system_seed()};
  const bool with_object = object >= 0;
  CUDAL1_CHECK(ask(frame_type::load, to_json(request), std::span(&object, with_object ? 1 : 0), load_limit_ms));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  load_ms_ = took.count();
  return {};
}

expected<void> cpu_runner_link::set_weights(const std::shared_ptr<const drawn_tensors>& weights) {
  if (weights_ == weights) return {};
  const uint64_t seed = system_seed();
  const draw_message message{.seed = seed, .shift_pages = static_cast<int64_t>(seed >> 32) % 64};
  const int file = cpu_tensors::of(weights).file.get();
  CUDAL1_TRY(const auto reply, ask(frame_type::weights, to_json(message), {&file, 1}, setup_factor * limits_.call_ms));
  weights_ = weights;
  setup_ms_ = reply.setup_ms;
  return {};
}

expected<void> cpu_runner_link::prepare(const cpu_tensors& inputs) {
  const uint64_t seed = system_seed();
  const draw_message message{.seed = seed, .shift_pages = static_cast<int64_t>(seed >> 32) % 64};
  const int file = inputs.file.get();
  control().state.store(static_cast<uint32_t>(call_state::idle), std::memory_order_release);
  CUDAL1_CHECK(ask(frame_type::prepare, to_json(message), {&file, 1}, load_limit_ms));
  return {};
}

expected<void> cpu_runner_link::finish(call_state state) {
  switch (state) {
    case call_state::done:
      sample_outputs();
      return stop();
    case call_state::faulted:
      return ended();
    case call_state::failed: {
      const bool memory = control().error_code == static_cast<int32_t>(errc::out_of_memory);
      return note_fault(
          {memory ? outcome::out_of_memory : outcome::crash, printable(control().text, sizeof control_block::text)});
    }
    default:
      break;
  }
  if (wait_for_end(std::chrono::milliseconds(0))) return ended();
  return overdue(limits_.call_ms);
}

expected<void> cpu_runner_link::call() {
  const deadline until = deadline_in(milliseconds_of(limits_.call_ms));
  set_state(control(), call_state::go);
  return finish(wait_while(control(), call_state::go, until, {.watched = pidfd_.get()}));
}

expected<void> cpu_runner_link::arm() {
  const deadline until = deadline_in(milliseconds_of(limits_.call_ms));
  set_state(control(), call_state::arm);
  const auto state = wait_while(control(), call_state::arm, until, {.watched = pidfd_.get()});
  if (state == call_state::armed) return {};
  return finish(state);
}

expected<double> cpu_runner_link::timed_call() {
  const wait_options options{.spin = std::chrono::milliseconds(limits_.sleeps ? 0 : 20), .watched = pidfd_.get()};
  const deadline until = deadline_in(milliseconds_of(limits_.call_ms));
  const auto start = std::chrono::steady_clock::now();
  set_state(control(), call_state::go);
  const call_state state = wait_while(control(), call_state::go, until, options);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  CUDAL1_CHECK(finish(state));
  return took.count();
}

expected<void> cpu_runner_link::check_guards() {
  CUDAL1_TRY(const auto reply, ask(frame_type::guards, json(), {}, load_limit_ms));
  if (reply.guards_intact) return {};
  return note_fault({outcome::out_of_bounds, printable(reply.guard_problem.c_str(), reply.guard_problem.size())});
}

expected<std::vector<output_memory>> cpu_runner_link::outputs(const given_tensors& given) {
  std::vector<output_memory> result;
  for (std::size_t i = 0; i < program_->text.outputs.size(); ++i) {
    const tensor_type& type = program_->types.at(program_->text.outputs[i]);
    output_place place;
    std::memcpy(&place, &control().outputs[i], sizeof place);  // a copy, which the runner cannot change
    const int64_t size = type.storage_bytes();
    const auto inside = [&](int64_t available) {
      return place.offset >= 0 && size <= available && place.offset <= available - size;
    };
    const auto& declared = place.home == output_home::weight ? program_->text.weights : program_->text.inputs;
    if (place.home == output_home::arena && inside(limits_.memory_bytes)) {
      result.push_back({arena_.data() + place.offset, place.home, 0});
    } else if ((place.home == output_home::input || place.home == output_home::weight) &&
               place.index < declared.size() && inside(declared[place.index].type.storage_bytes())) {
      CUDAL1_TRY(const mapped_tensors* const mapped, given(place.home));
      result.push_back({mapped->data(place.index) + place.offset, place.home, place.index});
    } else {
      return note_fault({outcome::crash, fmt::format("the output \"{}\" lies outside the memory of this call",
                                                     program_->text.outputs[i])});
    }
  }
  return result;
}

}  // namespace cudal1
