#include "sandbox/cuda/referee/gpu_runner_link.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/base/stopwatch.hpp"
#include "sandbox/cuda/referee/compare_on_device.hpp"
#include "sandbox/cuda/referee/fault_of_gpu.hpp"
#include "sandbox/cuda/runner_memory.hpp"
#include "sandbox/program/memory_need.hpp"
#include "sandbox/program/slow_first_call.hpp"

namespace cudal1 {
namespace {

constexpr double start_limit_ms = 120'000;  // for a context, the runner's kernels, LibTorch's libraries, confinement
constexpr double load_limit_ms = 30'000;
constexpr double frame_limit_ms = 10'000;  // for messages that take almost no time
constexpr double setup_factor =
    2;  // setup steps, or the calls before a capture, may take this many times a call's limit
constexpr double overhead_ms = 500;        // per call, for poison, flush and guards
constexpr int64_t progress_slice_ms = 50;  // how often to check which call is in progress
constexpr std::size_t most_notes = 16, most_note = 400;
constexpr int64_t least_part = int64_t{1} << 30;  // of a runner's memory
constexpr std::size_t most_parts = 8;             // as many descriptors

std::chrono::milliseconds milliseconds_of(double ms) {
  return std::chrono::milliseconds(static_cast<int64_t>(ms));
}

std::string said(const std::string& text) {
  return printable(text.c_str(), text.size());
}

// True for errors of the runner itself; all others are errors of its program.
bool is_ours(errc code) {
  return code == errc::infrastructure || code == errc::io_error || code == errc::corrupt ||
         code == errc::invalid_argument || code == errc::cancelled || code == errc::already_exists;
}

// Small ones first: the runner maps no more of them than a program needs, and wipes what it maps.
std::vector<int64_t> arena_parts(int64_t bytes) {
  std::vector<int64_t> parts;
  for (int64_t part = least_part; bytes > 0; part = parts.size() < 2 ? part : 2 * part) {
    const bool is_last = bytes - part < part || parts.size() + 1 == most_parts;
    parts.push_back(is_last ? bytes : part);
    bytes -= parts.back();
  }
  return parts;
}

bool is_time(double value) {
  return std::isfinite(value) && value >= 0;
}

}  // namespace

void gpu_runner_link::begin_request(const call_limits& limits) {
  limits_ = limits;
  problem_.reset();
  lost_ = false;
  load_ms_ = setup_ms_ = 0;
  notes_.clear();
}

bool gpu_runner_link::wait_for_end(std::chrono::milliseconds limit) const {
  pollfd entry{pidfd_.get(), POLLIN, 0};
  int r = 0;
  do
    r = ::poll(&entry, 1, static_cast<int>(limit.count()));
  while (r < 0 && errno == EINTR);
  return r > 0;
}

// The driver needs a moment to stop work on the device.
void gpu_runner_link::end() {
  if (ended_) return;
  ended_ = true;
  ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
  (void)wait_for_end(std::chrono::seconds(10));
  channel_.reset();
  given_.clear();
}

tl::unexpected<error> gpu_runner_link::note_fault(resident_program which, fault f) {
  side(which).key.clear();
  return program_runners::note_fault(which, std::move(f));
}

// Errors are those of the link: timeout, not_found (the runner is gone), corrupt (not a reply), infrastructure.
expected<frame> gpu_runner_link::exchange(frame_type type, const json& body, std::span<const int> descriptors,
                                          double limit_ms) {
  if (ended_) return fail(errc::infrastructure, "the runner has ended: attach another one");
  const deadline until = deadline_in(milliseconds_of(limit_ms));
  if (const auto sent = send_frame(channel_.get(), type, body, descriptors, until); !sent)
    return fail(sent.error().code == errc::timeout ? errc::timeout : errc::not_found, "{}", sent.error().message);
  spin_until_readable(channel_.get(), spin_time);
  CUDAL1_TRY(frame reply, receive_frame(channel_.get(), until, runner_frame_limits));
  if (reply.type != frame_type::done && reply.type != frame_type::failed)
    return fail(errc::corrupt, "a {} frame is not a reply", enum_name(reply.type));
  return reply;
}

expected<void> gpu_runner_link::tell(frame_type type, const json& body, std::span<const int> descriptors,
                                     double limit_ms) {
  CUDAL1_TRY(const frame reply, exchange(type, body, descriptors, limit_ms));
  CUDAL1_CHECK(record_of<gpu_reply>(reply));
  return {};
}

expected<gpu_reply> gpu_runner_link::ask(resident_program which, frame_type type, const json& body,
                                         std::span<const int> descriptors, double limit_ms) {
  return answer_of(which, exchange(type, body, descriptors, limit_ms), limit_ms);
}

expected<gpu_reply> gpu_runner_link::answer_of(resident_program which, const expected<frame>& answer, double limit_ms) {
  if (!answer) return unanswered(which, answer.error(), limit_ms);
  auto reply = record_of<gpu_reply>(*answer);
  if (reply) return reply;
  if (answer->type != frame_type::failed) return unanswered(which, reply.error(), limit_ms);
  if (is_ours(reply.error().code)) {
    end();
    return fail(errc::infrastructure, "a runner of the GPU: {}", said(reply.error().message));
  }
  settle(which);
  return note_fault(which, fault_of_gpu(reply.error()));
}

tl::unexpected<error> gpu_runner_link::unanswered(resident_program which, const error& e, double limit_ms) {
  end();
  switch (e.code) {
    case errc::timeout:
      return note_fault(which, {outcome::hang, fmt::format("no answer within {:.0f} ms", limit_ms)});
    case errc::not_found:
      // The program or something outside may have killed it; the session knows how it ended.
      return note_loss(which);
    default:
      return fail(errc::infrastructure, "a runner of the GPU: {}", said(e.message));
  }
}

void gpu_runner_link::settle(resident_program which) {
  side(which) = {};
  // A runner whose context is broken exits right after its reply; then this message fails.
  if (!tell(frame_type::unload, to_json(gpu_unload_message{which}), {}, frame_limit_ms)) end();
}

expected<void> gpu_runner_link::give_arena() {
  if (!arena_.empty()) return {};
  device_.give_back();
  CUDAL1_TRY(const device_room room, device_.room());
  const int64_t bytes = std::min<int64_t>(runner_tensor_bytes(limits_.memory_bytes, room.total), room.free / 4 * 3);
  gpu_arena_message message;
  std::vector<device_memory> parts;
  for (const int64_t part : arena_parts(bytes)) {
    CUDAL1_TRY(device_memory memory, device_.make_memory(part, memory_access::read_only));
    message.bytes.push_back(memory.bytes);
    parts.push_back(std::move(memory));
  }
  CUDAL1_TRY(const unique_fd page, make_shared_memory("cudal1-progress", gpu_progress::bytes));
  CUDAL1_TRY(progress_, map_shared(page.get(), gpu_progress::bytes, memory_access::read_only));
  std::vector<int> files{page.get()};
  for (const auto& part : parts)
    files.push_back(part.file.get());
  CUDAL1_CHECK(tell(frame_type::arena, to_json(message), files, start_limit_ms));
  arena_ = std::move(parts);
  return {};
}

expected<int64_t> gpu_runner_link::tensor_bytes_beside(const checked_program& other) {
  if (const auto given = give_arena(); !given) {
    end();
    return fail(errc::infrastructure, "the runner of the GPU does not start: {}", given.error().message);
  }
  return std::max<int64_t>(arena_bytes() - memory_need_of(other).bytes, 1);
}

int64_t gpu_runner_link::arena_bytes() const {
  int64_t bytes = 0;
  for (const auto& part : arena_)
    bytes += part.bytes;
  return bytes;
}

std::byte* gpu_runner_link::in_arena(int64_t offset, int64_t bytes) const {
  for (const auto& part : arena_) {
    if (offset >= 0 && bytes <= part.bytes && offset <= part.bytes - bytes) return part.data + offset;
    offset -= part.bytes;
  }
  return nullptr;
}

expected<void> gpu_runner_link::load(resident_program which, const checked_program& p, int object,
                                     const std::string& key) {
  if (const auto given = give_arena(); !given) {
    end();
    return fail(errc::infrastructure, "the runner of the GPU does not start: {}", given.error().message);
  }
  resident_side& resident = side(which);
  const bool again = resident.program && resident.program->id == p.id;
  resident = {};
  const stopwatch took;
  const gpu_load_message message{which, again ? "" : print_program(p.text), system_seed()};
  CUDAL1_CHECK(device_.synchronise());
  CUDAL1_CHECK(ask(which, frame_type::load, to_json(message), std::span(&object, object >= 0 ? 1 : 0), load_limit_ms));
  resident.program = p;
  resident.key = key;
  load_ms_ += took.ms();
  return {};
}

expected<void> gpu_runner_link::drop_unused() {
  gpu_drop_message message;
  for (const auto& [id, tensors] : given_)
    if (tensors.expired()) message.ids.push_back(id);
  if (message.ids.empty()) return {};
  CUDAL1_CHECK(tell(frame_type::drop, to_json(message), {}, frame_limit_ms));
  for (const int64_t id : message.ids)
    given_.erase(id);
  return {};
}

void gpu_runner_link::drop_unused_tensors() {
  if (!ended_ && !drop_unused()) end();
}

expected<void> gpu_runner_link::give(const std::shared_ptr<const shared_tensors>& tensors) {
  if (!tensors || given_.contains(tensors->id)) return {};
  const int file = tensors->memory.file.get();
  const gpu_tensors_message message{tensors->id, tensors->role == tensor_role::weight, tensors->memory.bytes};
  CUDAL1_CHECK(tell(frame_type::tensors, to_json(message), {&file, 1}, frame_limit_ms));
  given_.emplace(tensors->id, tensors);
  return {};
}

expected<void> gpu_runner_link::give_all(const std::vector<planned_call>& calls) {
  auto given = drop_unused();
  for (const auto& planned : calls) {
    if (given) given = give(shared_tensors::of(planned.draw->inputs));
    if (given) given = give(shared_tensors::of(planned.draw->weights));
  }
  if (given) return {};
  end();
  return fail(errc::infrastructure, "a runner of the GPU does not accept its tensors: {}", given.error().message);
}

gpu_call gpu_runner_link::message_of(const planned_call& planned) const {
  const auto inputs = shared_tensors::of(planned.draw->inputs), weights = shared_tensors::of(planned.draw->weights);
  return {.which = planned.which,
          .inputs = inputs ? inputs->id : 0,
          .weights = weights ? weights->id : 0,
          .generation = weights ? weights->generation : 0,
          .seed = system_seed(),
          .key = planned.key,
          .mode = planned.mode,
          .elsewhere = planned.elsewhere,
          .keep = planned.keep};
}

double gpu_runner_link::limit_of(const planned_call& planned) {
  resident_side& resident = side(planned.which);
  const program& text = resident.program->text;
  const auto given = shared_tensors::of(planned.draw->weights);
  const std::pair<int64_t, int64_t> weights =
      given ? std::pair(given->id, given->generation) : std::pair<int64_t, int64_t>();
  double limit_ms = limits_.call_ms + overhead_ms;
  const bool sets_weights = !resident.called || resident.weights != weights;
  if (sets_weights && (!text.setup.empty() || text.how.graph)) limit_ms += setup_factor * limits_.call_ms;
  if (!resident.called)
    limit_ms += limits_.first_call_ms +
                static_cast<double>((steps_compiled_at_first(*resident.program) * compiling_limit).count());
  resident.called = true;
  resident.weights = weights;
  return limit_ms;
}

uint32_t gpu_runner_link::calls_begun() const {
  return reinterpret_cast<const gpu_progress*>(progress_.data())->calls.load(std::memory_order_relaxed);
}

// Errors as those of exchange().
expected<frame> gpu_runner_link::exchange_calls(const gpu_calls_message& message, const std::vector<double>& limits_ms,
                                                std::size_t& in_progress) {
  if (ended_) return fail(errc::infrastructure, "the runner has ended: attach another one");
  const uint32_t before = calls_begun();
  deadline until = deadline_in(milliseconds_of(limits_ms[0]));
  if (const auto sent = send_frame(channel_.get(), frame_type::call, to_json(message), {}, until); !sent)
    return fail(sent.error().code == errc::timeout ? errc::timeout : errc::not_found, "{}", sent.error().message);
  for (pollfd entry{channel_.get(), POLLIN, 0};;) {
    const auto slice = std::min<int64_t>(milliseconds_until(until), progress_slice_ms);
    const int r = ::poll(&entry, 1, static_cast<int>(slice));
    if (r < 0 && errno != EINTR) return fail(errc::infrastructure, "poll: {}", std::strerror(errno));
    const std::size_t begun = std::min<std::size_t>(calls_begun() - before, message.calls.size());
    if (begun > in_progress + 1) {
      in_progress = begun - 1;
      until = deadline_in(milliseconds_of(limits_ms[in_progress]));
    }
    if (r > 0) break;
    if (std::chrono::steady_clock::now() >= until) return fail(errc::timeout, "no answer in time");
  }
  return receive_frame(channel_.get(), deadline_in(milliseconds_of(frame_limit_ms)), runner_frame_limits);
}

std::size_t gpu_runner_link::max_calls() const {
  const checked_program& variant = running(resident_program::variant);
  int64_t bytes = 1;
  for (const auto& name : variant.text.outputs)
    bytes += variant.types.at(name).storage_bytes();
  // Each output takes two records, one of a fingerprint and one of a comparison.
  const std::size_t of_records =
      output_comparer::max_started / (2 * std::max<std::size_t>(variant.text.outputs.size(), 1));
  return std::min(static_cast<std::size_t>(keepable_bytes() / bytes), of_records);
}

void gpu_runner_link::note(const std::vector<std::string>& notes) {
  for (const auto& text : notes)
    if (notes_.size() < most_notes && std::ranges::count(notes_, said(text).substr(0, most_note)) == 0)
      notes_.push_back(said(text).substr(0, most_note));
}

expected<call_record> gpu_runner_link::result_of(const planned_call& planned, const gpu_call_record& record) {
  if (!is_time(record.microseconds) || !is_time(record.setup_ms) || !is_time(record.flush_ms))
    return fail(errc::infrastructure, "a runner of the GPU measured {} us, {} ms, {} ms", record.microseconds,
                record.setup_ms, record.flush_ms);
  if (record.microseconds > 1000 * limits_.call_ms)
    return note_fault(planned.which, {outcome::hang, fmt::format("a call took {:.0f} ms; the limit is {:.0f} ms",
                                                                 record.microseconds / 1000, limits_.call_ms)});
  setup_ms_ = std::max(setup_ms_, record.setup_ms);
  if (!record.guard_problem.empty())
    return note_fault(planned.which, {outcome::out_of_bounds, said(record.guard_problem)});
  call_record result{record.microseconds, record.flush_ms, {record.hash_low, record.hash_high}, {}};
  if (planned.keep) {
    CUDAL1_TRY(result.outputs, outputs_of(planned.which, record, *planned.draw));
  }
  return result;
}

expected<std::vector<call_record>> gpu_runner_link::run(const std::vector<planned_call>& calls) {
  if (calls.empty()) return std::vector<call_record>();
  for (const auto& planned : calls)
    if (!side(planned.which).program) return fail(errc::invalid_argument, "a call of a program that is not loaded");
  CUDAL1_CHECK(give_all(calls));
  gpu_calls_message message;
  std::vector<double> limits_ms;
  for (const auto& planned : calls) {
    message.calls.push_back(message_of(planned));
    limits_ms.push_back(limit_of(planned));
  }
  // No work of this process may be on the device during a timed call.
  CUDAL1_CHECK(device_.synchronise());
  std::size_t in_progress = 0;
  const auto answer = exchange_calls(message, limits_ms, in_progress);
  CUDAL1_TRY(const gpu_reply reply, answer_of(calls[in_progress].which, answer, limits_ms[in_progress]));
  if (reply.calls.size() != calls.size())
    return fail(errc::infrastructure, "a runner of the GPU reported {} of {} calls", reply.calls.size(), calls.size());
  note(reply.notes);
  std::vector<call_record> results;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    CUDAL1_TRY(auto result, result_of(calls[i], reply.calls[i]));
    results.push_back(std::move(result));
  }
  if (!reply.problem.empty())
    return note_fault(resident_program::variant, {outcome::out_of_bounds, said(reply.problem)});
  return results;
}

expected<std::vector<output_memory>> gpu_runner_link::outputs_of(resident_program which, const gpu_call_record& record,
                                                                 const draw& d) {
  const checked_program& p = *side(which).program;
  std::vector<output_memory> result;
  if (record.outputs.size() != p.text.outputs.size())
    return fail(errc::infrastructure, "a runner of the GPU lists {} outputs of {}", record.outputs.size(),
                p.text.outputs.size());
  for (std::size_t i = 0; i < record.outputs.size(); ++i) {
    const tensor_type& type = p.types.at(p.text.outputs[i]);
    const gpu_output_place& place = record.outputs[i];
    const int64_t size = type.storage_bytes();
    const bool aligned = place.offset % size_of(type.type) == 0;
    const auto inside = [&](int64_t available) {
      return place.offset >= 0 && size <= available && place.offset <= available - size && aligned;
    };
    auto* const kept =
        place.home == static_cast<uint32_t>(output_home::arena) && aligned ? in_arena(place.offset, size) : nullptr;
    const bool is_weight = place.home == static_cast<uint32_t>(output_home::weight);
    const auto tensors = shared_tensors::of(is_weight ? d.weights : d.inputs);
    if (kept != nullptr) {
      result.push_back({kept, output_home::arena, 0});
    } else if ((is_weight || place.home == static_cast<uint32_t>(output_home::input)) && tensors &&
               place.index < tensors->views.size() && inside(tensors->views[place.index].type.storage_bytes())) {
      auto* const first = static_cast<std::byte*>(tensors->views[place.index].data);
      result.push_back({first + place.offset, is_weight ? output_home::weight : output_home::input, place.index});
    } else {
      return note_fault(which, {outcome::crash, fmt::format("the output \"{}\" lies outside the memory of this call",
                                                            p.text.outputs[i])});
    }
  }
  return result;
}

}  // namespace cudal1
