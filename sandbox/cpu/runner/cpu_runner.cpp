// The runner: holds and calls one program in a confined process.
#include "sandbox/cpu/runner/cpu_runner.hpp"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config/base/stopwatch.hpp"
#include "config/base/thread_cores.hpp"
#include "sandbox/cpu/runner/cpu_runner_messages.hpp"
#include "sandbox/cpu/runner/fault_handler.hpp"
#include "sandbox/cpu/runtime/launch_threads.hpp"
#include "sandbox/cpu/runtime/memory_lock.hpp"
#include "sandbox/cpu/runtime/object_library.hpp"
#include "sandbox/interpreter/interpreter.hpp"
#include "sandbox/isolation/frame.hpp"
#include "sandbox/isolation/machine_info.hpp"
#include "sandbox/isolation/zygote.hpp"

namespace cudal1 {
namespace {

constexpr std::chrono::hours idle_timeout{24};  // the referee closes the channel when it no longer needs this runner

class runner {
 public:
  runner(const worker_settings& settings, int channel, control_block& control)
      : settings_(settings), channel_(channel), control_(control) {}

  // Takes the first frame. Opens all files and starts all threads, and installs the system call filter last.
  expected<void> load(frame& f, int arena, int zygote);
  // Answers frames until the referee closes the channel.
  int serve();

 private:
  expected<runner_reply> answer(frame& f);
  expected<runner_reply> set_weights(frame& f);
  expected<runner_reply> prepare(frame& f);
  expected<void> map_arena(int arena, int64_t bytes, uint64_t seed);
  expected<void> start_threads();
  void forget(const draw_message& message);
  void take_call();
  void list_outputs();
  output_place place_of(const tensor_view& output) const;
  expected<void> guarded(auto&& work);

  worker_settings settings_;
  int channel_;
  control_block& control_;
  fault_context faults_;
  mapping arena_;
  std::unique_ptr<memory_lock> lock_;  // only with one thread: the stacks of others cannot be closed
  std::unique_ptr<kernel_library> kernels_;
  std::unique_ptr<interpreter> program_;
  std::vector<tensor_type> input_types_, weight_types_;
  mapped_tensors inputs_, weights_;
  std::vector<tensor_view> constants_;
  bool prepared_ = false;
};

std::vector<tensor_view> views_of(const mapped_tensors& memory, const std::vector<tensor_type>& types) {
  std::vector<tensor_view> views;
  for (std::size_t i = 0; i < types.size(); ++i)
    views.push_back({types[i], memory.data(i)});
  return views;
}

expected<mapped_tensors> map_tensors(const frame& f, const std::vector<tensor_type>& types, int64_t shift_pages) {
  if (f.descriptors.size() != 1) return fail(errc::corrupt, "a {} frame carries one descriptor", enum_name(f.type));
  return mapped_tensors::map(f.descriptors[0].get(), layout_of(types), shift_pages);
}

expected<void> bind_to_core(const worker_settings& settings) {
  if (settings.threads > 1) return {};  // its threads spread over the cores that are allowed
  return move_this_thread({settings.timing_core});
}

expected<void> runner::map_arena(int arena, int64_t bytes, uint64_t seed) {
  CUDAL1_TRY(arena_, map_shared(arena, bytes, memory_access::read_write));
  faults_.arena = arena_.data();
  faults_.arena_bytes = bytes;
  return install_arena({.base = arena_.data(), .bytes = bytes, .poison_seed = seed});
}

// LibTorch starts its threads with the first large operator; the system call filter would forbid that.
expected<void> runner::start_threads() {
  if (settings_.threads <= 1) return {};
  CUDAL1_CHECK(prepare_launch_threads(settings_.threads));
  static constexpr std::string_view text =
      R"({"format":1,"name":"threads","inputs":[{"name":"x","dtype":"float32","shape":[1048576]}],)"
      R"("steps":[{"aten":"aten::relu","args":{"self":"x"},"out":["y"]}],"outputs":["y"]})";
  CUDAL1_TRY(auto checked, check_program_text(text));
  const tensor_type type = checked.text.inputs[0].type;
  CUDAL1_TRY(const auto memory, map_private(type.bytes()));
  CUDAL1_TRY(const auto warm, interpreter::load(std::move(checked), nullptr, {.threads = settings_.threads}));
  const tensor_view input{type, memory.data()};
  CUDAL1_CHECK(warm->call({&input, 1}));
  warm->release();
  return {};
}

expected<void> runner::load(frame& f, int arena, int zygote) {
  CUDAL1_TRY(const auto request, record_of<load_request>(f));
  if (f.type != frame_type::load) return fail(errc::corrupt, "a runner's first frame must be load");
  CUDAL1_CHECK(bind_to_core(settings_));
  faults_.control = &control_;
  CUDAL1_CHECK(map_arena(arena, request.arena_bytes, request.seed));
  if (!f.descriptors.empty()) {
    CUDAL1_CHECK(sealed_size(f.descriptors[0].get()));
    if (settings_.threads <= 1) {
      if (std::getenv("LD_BIND_NOW") == nullptr)
        return fail(errc::infrastructure,
                    "a runner needs LD_BIND_NOW=1: functions that are bound later write to memory "
                    "that is closed while kernels run");
      const auto arena_range = memory_range::of(arena_.data(), arena_.size());
      CUDAL1_TRY(lock_, memory_lock::create({&arena_range, 1}));
    }
    CUDAL1_TRY(kernels_, load_object(f.descriptors[0].get(), lock_.get()));
    f.descriptors.clear();
  }
  confinement_options limits{.role = confined_role::runner, .channel = channel_, .expected_parent = zygote};
  limits.limits.open_files = 64;
  limits.limits.file_bytes = request.arena_bytes;
  limits.limits.data_bytes = private_memory_bytes() + (int64_t{1} << 30);
  CUDAL1_TRY(const auto prepared, confinement::prepare(limits));
  enter_empty_root();  // optional: the zygote's report says whether the kernel allows it
  confinement_result confined;
  prepared.restrict_resources(confined);
  CUDAL1_TRY(auto checked, check_program_text(request.program));
  input_types_ = types_of(checked.text.inputs);
  weight_types_ = types_of(checked.text.weights);
  if (checked.text.outputs.size() > control_block::max_outputs)
    return fail(errc::unsupported, "more than {} outputs", control_block::max_outputs);
  CUDAL1_CHECK(start_threads());
  CUDAL1_TRY(program_, interpreter::load(std::move(checked), kernels_.get(), {.threads = settings_.threads}));
  program_->rehearse();
  if (lock_) CUDAL1_CHECK(lock_->make_code_read_only());
  faults_.running = program_.get();
  faults_.inputs = &inputs_;
  faults_.weights = &weights_;
  faults_.constants = &constants_;
  CUDAL1_CHECK(install_fault_handler(&faults_, lock_ ? lock_->signal_stack() : std::span<std::byte>()));
  prepared.filter_calls(confined);
  if (const auto* step = confined.failed(); step != nullptr && !settings_.allow_weak_confinement)
    return fail(errc::infrastructure, "confinement of the runner: {}: {}", step->name,
                std::strerror(step->error_number));
  return {};
}

// Native code may throw, or exceed the heap's limit.
expected<void> runner::guarded(auto&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return fail(errc::out_of_memory, "out of memory (of the heap), in {}", program_->current_step());
  } catch (const std::exception& e) {
    return fail(errc::variant_fault, "{}, in {}", e.what(), program_->current_step());
  }
}

// Erases what earlier calls left on the stack below this frame, so that native code cannot find it. The nearest part is
// poisoned; the rest, which few calls reach, is dropped.
[[gnu::noinline]] void wipe_stack(uint64_t seed) {
  constexpr std::size_t near_bytes = std::size_t{512} << 10, all_bytes = std::size_t{8} << 20, page = 4096;
  void* const low = __builtin_alloca(near_bytes);
  const int bytes[] = {0xff, 0x7e, static_cast<int>(seed >> 8 & 0xff)};
  std::memset(low, bytes[seed % 3], near_bytes);
  asm volatile("" : : "r"(low) : "memory");
  auto* const end = static_cast<std::byte*>(low) - reinterpret_cast<uintptr_t>(low) % page - 2 * page;
  // Fails at the end of the stack, after it has dropped the part that exists.
  (void)::madvise(end - all_bytes, all_bytes, MADV_DONTNEED);
}

void runner::forget(const draw_message& message) {
  program_->release();
  arena_begin_call(message.seed);
  wipe_stack(message.seed);
  if (kernels_) kernels_->forget();
  if (lock_) lock_->set_wanted(message.closes_memory, message.seed);
}

expected<runner_reply> runner::set_weights(frame& f) {
  CUDAL1_TRY(const auto message, record_of<draw_message>(f));
  forget(message);
  CUDAL1_TRY(mapped_tensors fresh, map_tensors(f, weight_types_, message.shift_pages));
  f.descriptors.clear();
  // The old weights stay mapped until the program has released them.
  std::swap(weights_, fresh);
  const stopwatch took;
  arena_begin_lasting();
  const auto set = guarded([&] { return program_->set_weights(views_of(weights_, weight_types_)); });
  CUDAL1_CHECK(arena_end_lasting());
  constants_.clear();
  CUDAL1_CHECK(set);
  constants_ = program_->constants();
  return runner_reply{.setup_ms = took.ms()};
}

expected<runner_reply> runner::prepare(frame& f) {
  CUDAL1_TRY(const auto message, record_of<draw_message>(f));
  forget(message);
  CUDAL1_TRY(inputs_, map_tensors(f, input_types_, message.shift_pages));
  f.descriptors.clear();
  prepared_ = true;
  return runner_reply{};
}

expected<runner_reply> runner::answer(frame& f) {
  switch (f.type) {
    case frame_type::weights:
      return set_weights(f);
    case frame_type::prepare:
      return prepare(f);
    case frame_type::guards: {
      const guard_report guards = arena_check_guards();
      return runner_reply{.guards_intact = guards.intact, .guard_problem = guards.problem};
    }
    default:
      return fail(errc::corrupt, "a runner does not take a {} frame", enum_name(f.type));
  }
}

output_place runner::place_of(const tensor_view& output) const {
  const auto* at = static_cast<const std::byte*>(output.data);
  if (output.type.numel() == 0) return {output_home::arena, 0, 0};
  if (at >= arena_.data() && at < arena_.data() + arena_.size()) return {output_home::arena, 0, at - arena_.data()};
  if (const int i = inputs_.find(at); i >= 0)
    return {output_home::input, static_cast<uint32_t>(i), at - inputs_.data(static_cast<std::size_t>(i))};
  if (const int i = weights_.find(at); i >= 0)
    return {output_home::weight, static_cast<uint32_t>(i), at - weights_.data(static_cast<std::size_t>(i))};
  return {};
}

void runner::list_outputs() {
  const auto outputs = program_->outputs();
  control_.output_count = static_cast<uint32_t>(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i)
    control_.outputs[i] = place_of(outputs[i]);
}

// The call itself, between the referee's `go` and `done`.
void runner::take_call() {
  const auto views = views_of(inputs_, input_types_);
  const wait_options asleep{.spin = std::chrono::microseconds(0), .watched = channel_};
  // Stopped meanwhile, until the inputs are there.
  if (wait_while(control_, call_state::idle, deadline_in(idle_timeout), asleep) != call_state::go)
    return;  // the channel closed: serve() sees it
  const auto outcome_of_call = guarded([&] { return program_->call(views); });
  if (outcome_of_call) {
    // The timed call includes this, so it does no more than necessary.
    list_outputs();
    set_state(control_, call_state::done);
  } else {
    control_.error_code = static_cast<int32_t>(outcome_of_call.error().code);
    std::strncpy(control_.text, outcome_of_call.error().message.c_str(), sizeof control_.text - 1);
    set_state(control_, call_state::failed);
  }
  inputs_ = {};
}

int runner::serve() {
  for (;;) {
    auto f = receive_frame(channel_, deadline_in(idle_timeout));
    if (!f) return f.error().code == errc::not_found ? exit_orderly : exit_broken;
    const auto reply = answer(*f);
    const auto sent = reply ? send_record(channel_, frame_type::done, *reply, deadline_in(std::chrono::seconds(10)))
                            : send_failure(channel_, reply.error(), deadline_in(std::chrono::seconds(10)));
    if (!sent) return exit_broken;
    if (std::exchange(prepared_, false)) take_call();
  }
}

}  // namespace

int run_cpu_runner(const worker_settings& settings, int channel, int control, int arena, int zygote) {
  auto page = map_shared(control, control_block::bytes, memory_access::read_write);
  if (!page) return exit_broken;
  // Never destroyed: a fault handler may read it until the process ends.
  auto& self = *new runner(settings, channel, *reinterpret_cast<control_block*>(page->data()));
  // Standard error goes into the page, as much as fits behind the control block, for the message about a fault.
  ::lseek(control, control_block::stderr_offset, SEEK_SET);
  ::dup2(control, 2);
  auto first = receive_frame(channel, deadline_in(std::chrono::minutes(1)));
  if (!first) return exit_broken;
  const auto loaded = self.load(*first, arena, zygote);
  ::close(arena);
  ::close(control);
  if (!loaded) {
    // After a failed confinement sending may be refused as well; then only the exit code reports it.
    (void)send_failure(channel, loaded.error(), deadline_in(std::chrono::seconds(10)));
    return exit_confinement;
  }
  if (!send_record(channel, frame_type::done, runner_reply{}, deadline_in(std::chrono::seconds(10))))
    return exit_broken;
  return self.serve();
}

}  // namespace cudal1
