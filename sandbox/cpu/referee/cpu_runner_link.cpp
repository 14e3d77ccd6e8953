#include "sandbox/cpu/referee/cpu_runner_link.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/base/stopwatch.hpp"
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

// Of a descriptor of this process.
expected<pid_t> pid_of(int pidfd) {
  std::ifstream info(fmt::format("/proc/self/fdinfo/{}", pidfd));
  for (std::string word; info >> word;)
    if (pid_t pid = 0; word == "Pid:" && info >> pid && pid > 0) return pid;
  return fail(errc::infrastructure, "/proc does not name the process of a runner (is /proc there?)");
}

}  // namespace

expected<cpu_runner_link> cpu_runner_link::attach(std::span<unique_fd> descriptors, const cpu_link_options& options,
                                                  input_window& window) {
  if (descriptors.size() != descriptors_of_runner) return fail(errc::corrupt, "a runner needs four descriptors");
  cpu_runner_link link;
  link.channel_ = std::move(descriptors[0]);
  link.arena_file_ = std::move(descriptors[2]);
  link.pidfd_ = std::move(descriptors[3]);
  CUDAL1_TRY(link.page_, map_shared(descriptors[1].get(), control_block::bytes, memory_access::read_write));
  CUDAL1_TRY(link.arena_, map_shared(link.arena_file_.get(), options.memory_bytes, memory_access::read_only));
  link.limits_ = options;
  link.window_ = &window;
  CUDAL1_TRY(const pid_t pid, pid_of(link.pidfd_.get()));
  link.status_.reset(::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (!link.status_) return fail(errc::infrastructure, "/proc/{}/stat: {}", pid, std::strerror(errno));
  if (const int e = ::clock_getcpuclockid(pid, &link.processor_clock_); e != 0)
    return fail(errc::infrastructure, "the processor time of a runner: {}", std::strerror(e));
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
    const output_place& place = places_[i];
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
  std::vector<tensor_type> inputs;
  for (const auto& input : p.text.inputs)
    inputs.push_back(input.type);
  CUDAL1_CHECK(window_->clear(layout_of(inputs).file_bytes));
  const stopwatch took;
  const load_request request{
      .program = print_program(p.text), .arena_bytes = limits_.memory_bytes, .seed = system_seed()};
  const bool with_object = object >= 0;
  CUDAL1_CHECK(ask(frame_type::load, to_json(request), std::span(&object, with_object ? 1 : 0), load_limit_ms));
  load_ms_ = took.ms();
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

expected<void> cpu_runner_link::prepare(bool is_timed) {
  const uint64_t seed = system_seed();
  const draw_message message{
      .seed = seed, .shift_pages = static_cast<int64_t>(seed >> 32) % 64, .closes_memory = !is_timed};
  const int file = window_->file();
  control().state.store(static_cast<uint32_t>(call_state::idle), std::memory_order_release);
  CUDAL1_TRY(const double before_us, processor_time_us());
  preparation_us_ = -before_us;
  return ask(frame_type::prepare, to_json(message), {&file, 1}, load_limit_ms).map([](const auto&) {});
}

// Of all its threads.
expected<double> cpu_runner_link::processor_time_us() const {
  timespec now{};
  if (::clock_gettime(processor_clock_, &now) == 0)
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
  if (wait_for_end(std::chrono::milliseconds(0))) return -preparation_us_;  // the next step says how it ended
  return fail(errc::infrastructure, "the processor time of a runner: {}", std::strerror(errno));
}

// A stop takes effect a little after the signal.
expected<void> cpu_runner_link::hold() {
  CUDAL1_CHECK(stop());
  const deadline until = deadline_in(milliseconds_of(load_limit_ms));
  for (;;) {
    char text[256] = {};
    const ssize_t n = ::pread(status_.get(), text, sizeof text - 1, 0);
    // "123 (name) T ..."; a name may hold a parenthesis.
    const char* const name_end = n > 0 ? std::strrchr(text, ')') : nullptr;
    if (name_end == nullptr || wait_for_end(std::chrono::milliseconds(0))) return ended();
    if (name_end[1] == ' ' && name_end[2] == 'T') break;
    if (std::chrono::steady_clock::now() > until)
      return fail(errc::infrastructure, "a runner does not stop within {:.0f} ms", load_limit_ms);
    ::sched_yield();
  }
  CUDAL1_TRY(const double now_us, processor_time_us());
  preparation_us_ += now_us;
  return {};
}

int64_t cpu_runner_link::memory_in_use() const {
  struct stat status {};
  return ::fstat(arena_file_.get(), &status) == 0 ? int64_t{512} * status.st_blocks : 0;
}

expected<void> cpu_runner_link::give(const cpu_tensors& inputs) {
  return window_->put(inputs.file.get());
}

// Nobody waits on the state's futex: the runner is stopped, and reads the state when it goes on.
void cpu_runner_link::begin() {
  stopped_ = false;
  begun_ = std::chrono::steady_clock::now();
  control().state.store(static_cast<uint32_t>(call_state::go), std::memory_order_release);
  signal(SIGCONT);
}

expected<void> cpu_runner_link::finish(call_state state) {
  switch (state) {
    case call_state::done:
      // A copy that cannot change any more: what it names later does not count.
      places_.resize(program_->text.outputs.size());
      std::memcpy(places_.data(), control().outputs, places_.size() * sizeof(output_place));
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

expected<void> cpu_runner_link::finish_call() {
  const deadline until = deadline_in(milliseconds_of(limits_.call_ms));
  return finish(wait_while(control(), call_state::go, until, {.watched = pidfd_.get()}));
}

expected<double> cpu_runner_link::finish_timed_call() {
  const wait_options options{.spin = std::chrono::milliseconds(limits_.sleeps ? 0 : 20), .watched = pidfd_.get()};
  const deadline until = deadline_in(milliseconds_of(limits_.call_ms));
  call_state state = wait_while(control(), call_state::idle, until, options);
  if (state == call_state::go) state = wait_while(control(), call_state::go, until, options);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begun_;
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
    const output_place& place = places_.at(i);
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
