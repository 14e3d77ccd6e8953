#include "sandbox/cuda/runner/cuda_runner.hpp"

#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "sandbox/cuda/runner/gpu_messages.hpp"
#include "sandbox/cuda/runner/resident.hpp"
#include "sandbox/cuda/runner/runner_device.hpp"
#include "sandbox/isolation/core_choice.hpp"
#include "sandbox/isolation/frame.hpp"
#include "sandbox/isolation/shared_memory.hpp"
#include "sandbox/isolation/zygote.hpp"
#include "sandbox/referee/draw_recipe.hpp"

namespace cudal1 {
namespace {

constexpr std::chrono::hours idle_timeout{24 * 365};  // the referee closes the channel when it is done
constexpr std::chrono::seconds answer_limit{10};
constexpr double longest_rehearsed_us = 10'000;
constexpr double share_of_hosts = 0.05;  // a call is host-bound if enqueuing takes more of its time

using clock = std::chrono::steady_clock;

double milliseconds_since(clock::time_point start) {
  return std::chrono::duration<double, std::milli>(clock::now() - start).count();
}

// A draw's tensors, in the referee's memory, which is mapped for reading.
struct given_tensors {
  unique_fd memory;
  tensor_role role = tensor_role::input;
  device_mapping mapped;
  device_mapping
      second;  // the same memory at other addresses; mapped on first use, because mapping waits for the device
};

class cuda_runner {
 public:
  explicit cuda_runner(const worker_settings& settings) : settings_(settings), core_(cores_of(settings)) {}
  expected<void> start(frame& f);
  // Call it after start(): CUDA's own threads exist by then and keep all cores that the process may use.
  expected<void> choose_core() { return core_.choose(); }
  expected<gpu_reply> answer(frame& f);
  bool is_broken() const { return device_->is_broken(); }

 private:
  struct slot {
    std::unique_ptr<resident> program;
    int64_t weights = 0, generation = 0;  // of the weights that are set
    bool weights_are_set = false;
    bool host_bound = false;  // the host takes a good part of its calls' time
    int64_t last_inputs = 0;  // of its last call in this frame, whose draws are all there; 0 where there was none
    std::vector<tensor_view> constants;  // of the program with these weights, and their fingerprint under that key
    uint64_t constants_key = 0;
    fingerprint constants_content;
  };

  expected<gpu_reply> load(frame& f);
  expected<void> wipe(uint64_t seed);
  expected<gpu_reply> unload(frame& f);
  expected<gpu_reply> take_tensors(frame& f);
  expected<gpu_reply> drop(frame& f);
  expected<gpu_reply> calls(frame& f);
  expected<void> call(const gpu_call& m, gpu_reply& reply);
  // Waits for the device and records the findings about the last call. Call it before other device code runs, which
  // could overwrite them.
  expected<void> finish(gpu_reply& reply);

  slot& slot_of(resident_program which) { return slots_[which == resident_program::variant ? 1 : 0]; }
  expected<void> begin(uint64_t seed, call_need need);
  static bool has_weights(const slot& s, const gpu_call& m) {
    return s.weights_are_set && s.weights == m.weights && s.generation == m.generation;
  }
  expected<void> set_weights(slot& s, const gpu_call& m, gpu_call_record& record);
  expected<void> capture(slot& s, const gpu_call& m, std::span<const tensor_view> inputs);
  // Runs the program untimed on the inputs of its call before, before a timed call that is host-bound: a host that has
  // just done the same work is fastest, as in a loop, and varies least. Poison and flush follow, and the program has
  // not met the inputs that it is timed on, so the device's state is of no use to it.
  expected<void> rehearse(slot& s, const gpu_call& m);
  static bool can_rehearse(const slot& s, const gpu_call& m) {
    return m.inputs == 0 || (s.last_inputs != 0 && s.last_inputs != m.inputs);
  }
  expected<given_tensors*> tensors_of(int64_t id, tensor_role role);
  expected<const device_mapping*> second_of(given_tensors& given);
  expected<void> copy_outputs(const gpu_call& m, std::span<const tensor_view> outputs, gpu_call_record& record);
  expected<std::vector<tensor_view>> views_of(const device_mapping* memory, const std::vector<tensor_type>& types);
  gpu_output_place place_of(const tensor_view& output, std::span<const tensor_view> inputs,
                            std::span<const tensor_view> weights) const;

  static std::vector<int> cores_of(const worker_settings& settings) {
    std::vector<int> cores{settings.timing_core};
    cores.insert(cores.end(), settings.other_cores.begin(), settings.other_cores.end());
    return cores;
  }

  worker_settings settings_;
  core_choice core_;
  std::unique_ptr<runner_device> device_;
  slot slots_[2];
  std::map<int64_t, given_tensors> given_;
  mapping progress_page_;
  gpu_progress* progress_ = nullptr;
  const slot* last_ = nullptr;  // of the last call, while what it left is on its way from the device
  int64_t frame_bytes_ = 0;     // the largest frame of the variants' kernels since all was wiped
  bool is_wiped_ = false;       // and no calls were answered since
};

expected<void> cuda_runner::start(frame& f) {
  if (f.type != frame_type::arena || f.descriptors.size() < 2)
    return fail(errc::corrupt, "a GPU runner's first frame must be arena, with a page for its progress and its memory");
  CUDAL1_TRY(auto message, record_of<gpu_arena_message>(f));
  CUDAL1_TRY(progress_page_, map_shared(f.descriptors[0].get(), gpu_progress::bytes, memory_access::read_write));
  progress_ = new (progress_page_.data()) gpu_progress;
  f.descriptors.erase(f.descriptors.begin());
  CUDAL1_TRY(device_, runner_device::create(settings_.cuda_device, std::exchange(f.descriptors, {}),
                                            std::move(message.bytes), settings_.flush_bytes));
  return {};
}

expected<void> cuda_runner::begin(uint64_t seed, call_need need) {
  for (auto& s : slots_)
    if (s.program) s.program->release();
  return device_->arena().begin_call(seed, need);
}

expected<gpu_reply> cuda_runner::load(frame& f) {
  CUDAL1_TRY(const auto message, record_of<gpu_load_message>(f));
  slot& s = slot_of(message.which);
  CUDAL1_CHECK(device_->finish());
  auto known = s.program ? s.program->known() : std::shared_ptr<known_program>();
  s = {};
  device_->arena().forget_needs();
  if (!message.program.empty()) {
    CUDAL1_TRY(auto checked, check_program_text(message.program));
    known = std::make_shared<known_program>(std::move(checked));
  }
  if (!known) return fail(errc::corrupt, "a {} cannot be loaded again: it was never loaded", enum_name(message.which));
  if (message.which == resident_program::variant) CUDAL1_CHECK(wipe(message.seed));
  mapping object;
  if (!f.descriptors.empty()) {
    CUDAL1_TRY(const int64_t bytes, sealed_size(f.descriptors[0].get()));
    CUDAL1_TRY(object, map_shared(f.descriptors[0].get(), bytes, memory_access::read_only));
  }
  CUDAL1_TRY(s.program, resident::load(std::move(known), {reinterpret_cast<const char*>(object.data()), object.size()},
                                       device_->index(), device_->arena(), device_->stream()));
  frame_bytes_ = std::max(frame_bytes_, s.program->frame_bytes());
  if (frame_bytes_ <= runner_device::most_frame_bytes) return gpu_reply{};
  s = {};
  return fail(errc::variant_fault, "a kernel needs {} bytes of local memory a thread, and {} are granted",
              std::exchange(frame_bytes_, 0), runner_device::most_frame_bytes);
}

// What any variant could have left on the device is gone before the next one runs, or the same again. The task's own
// program sets its weights again, since its tensors are overwritten too.
expected<void> cuda_runner::wipe(uint64_t seed) {
  CUDAL1_CHECK(device_->wipe(seed, std::exchange(frame_bytes_, 0)));
  slot_of(resident_program::reference).weights_are_set = false;
  is_wiped_ = true;
  return {};
}

expected<gpu_reply> cuda_runner::unload(frame& f) {
  CUDAL1_TRY(const auto message, record_of<gpu_unload_message>(f));
  slot_of(message.which) = {};
  CUDAL1_CHECK(device_->finish());
  return gpu_reply{};
}

expected<gpu_reply> cuda_runner::take_tensors(frame& f) {
  CUDAL1_TRY(const auto message, record_of<gpu_tensors_message>(f));
  if (f.descriptors.size() != 1) return fail(errc::corrupt, "a tensors frame carries one descriptor");
  given_tensors tensors;
  tensors.memory = std::move(f.descriptors[0]);
  tensors.role = message.weights ? tensor_role::weight : tensor_role::input;
  CUDAL1_TRY(tensors.mapped,
             map_device_memory(tensors.memory.get(), message.bytes, device_->index(), memory_access::read_only));
  given_.insert_or_assign(message.id, std::move(tensors));
  return gpu_reply{};
}

expected<gpu_reply> cuda_runner::drop(frame& f) {
  CUDAL1_TRY(const auto message, record_of<gpu_drop_message>(f));
  CUDAL1_CHECK(device_->finish());
  for (const int64_t id : message.ids) {
    given_.erase(id);
    for (auto& s : slots_)
      if (s.weights == id) s.weights_are_set = false;
  }
  return gpu_reply{};
}

expected<given_tensors*> cuda_runner::tensors_of(int64_t id, tensor_role role) {
  const auto found = given_.find(id);
  if (found == given_.end() || found->second.role != role)
    return fail(errc::corrupt, "there are no {} with id {}", role == tensor_role::weight ? "weights" : "inputs", id);
  return &found->second;
}

expected<const device_mapping*> cuda_runner::second_of(given_tensors& given) {
  if (!given.second) {
    CUDAL1_TRY(given.second,
               map_device_memory(given.memory.get(), given.mapped.size(), device_->index(), memory_access::read_only));
  }
  return &given.second;
}

expected<std::vector<tensor_view>> cuda_runner::views_of(const device_mapping* memory,
                                                         const std::vector<tensor_type>& types) {
  const device_layout layout = device_layout_of(types);
  std::vector<tensor_view> views;
  if (!types.empty() && (memory == nullptr || memory->size() < layout.bytes))
    return fail(errc::corrupt, "the given tensors have {} bytes, and {} are needed", memory ? memory->size() : 0,
                layout.bytes);
  for (std::size_t i = 0; i < types.size(); ++i)
    views.push_back({types[i], memory->data() + layout.offsets[i]});
  return views;
}

expected<void> cuda_runner::set_weights(slot& s, const gpu_call& m, gpu_call_record& record) {
  if (has_weights(s, m)) return {};
  s.weights_are_set = false;
  s.weights = m.weights;
  s.generation = m.generation;
  if (s.program->needs_weights()) {
    const device_mapping* memory = nullptr;
    if (m.weights != 0) {
      CUDAL1_TRY(const auto* const given, tensors_of(m.weights, tensor_role::weight));
      memory = &given->mapped;
    }
    CUDAL1_TRY(const auto views, views_of(memory, s.program->weight_types()));
    CUDAL1_CHECK(begin(m.seed ^ 1, call_need::not_counted));
    const auto start = clock::now();
    CUDAL1_CHECK(s.program->set_weights(views));
    CUDAL1_CHECK(device_->finish());
    record.setup_ms = milliseconds_since(start);
  }
  s.constants = s.program->constants();
  s.constants_key = m.seed;
  s.constants_content = {};
  if (!s.constants.empty()) {
    CUDAL1_TRY(s.constants_content, device_->fingerprint_of({s.constants, s.constants_key}));
  }
  s.weights_are_set = true;
  return {};
}

expected<void> cuda_runner::capture(slot& s, const gpu_call& m, std::span<const tensor_view> inputs) {
  if (!s.program->needs_capture()) return {};
  std::vector<tensor_view> moved(inputs.begin(), inputs.end());
  if (m.inputs != 0) {
    auto& given = given_.at(m.inputs);
    CUDAL1_TRY(const auto* const second, second_of(given));
    // For a call at the second addresses, the first ones are the other addresses.
    CUDAL1_TRY(moved, views_of(m.elsewhere ? &given.mapped : second, s.program->input_types()));
  }
  CUDAL1_CHECK(begin(m.seed ^ 2, call_need::not_counted));
  CUDAL1_CHECK(s.program->capture(inputs, moved));
  return device_->finish();
}

expected<void> cuda_runner::rehearse(slot& s, const gpu_call& m) {
  const device_mapping* memory = nullptr;
  if (m.inputs != 0) {
    CUDAL1_TRY(const auto* const given, tensors_of(s.last_inputs, tensor_role::input));
    memory = &given->mapped;
  }
  CUDAL1_TRY(const auto inputs, views_of(memory, s.program->input_types()));
  CUDAL1_CHECK(begin(m.seed ^ 3, call_need::not_counted));
  s.program->prepare();
  return s.program->call(inputs);
}

gpu_output_place cuda_runner::place_of(const tensor_view& output, std::span<const tensor_view> inputs,
                                       std::span<const tensor_view> weights) const {
  const auto* at = static_cast<const std::byte*>(output.data);
  const auto in = [&](std::span<const tensor_view> views, output_home home, gpu_output_place& place) {
    for (std::size_t i = 0; i < views.size(); ++i) {
      const auto* base = static_cast<const std::byte*>(views[i].data);
      if (at < base || at >= base + views[i].type.storage_bytes()) continue;
      place = {static_cast<uint32_t>(home), static_cast<uint32_t>(i), at - base};
      return true;
    }
    return false;
  };
  gpu_output_place place{static_cast<uint32_t>(output_home::elsewhere), 0, 0};
  if (output.type.numel() == 0) return {static_cast<uint32_t>(output_home::arena), 0, 0};
  if (in(inputs, output_home::input, place) || in(weights, output_home::weight, place)) return place;
  if (device_->arena().owns(at)) return {static_cast<uint32_t>(output_home::arena), 0, device_->arena().offset_of(at)};
  return place;
}

// The outputs of every timed call are copied, even if the copy is not kept, so that the same work is done between two
// calls of either side. The next call's poison overwrites a copy that is not kept.
expected<void> cuda_runner::copy_outputs(const gpu_call& m, std::span<const tensor_view> outputs,
                                         gpu_call_record& record) {
  auto& arena = device_->arena();
  const std::size_t mark = arena.kept_mark();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!arena.owns(outputs[i].data)) continue;  // an input's or a weight's memory, or none
    const auto bytes = static_cast<std::size_t>(outputs[i].type.storage_bytes());
    void* const copy = arena.keep(bytes);
    if (copy == nullptr)
      return fail(errc::out_of_memory, "out of memory: no room for a copy of an output of {} bytes", bytes);
    CUDAL1_CHECK(device_->copy(copy, outputs[i].data, bytes));
    if (m.keep) record.outputs[i].offset = arena.offset_of(copy);
  }
  if (!m.keep) arena.drop_kept_to(mark);
  return {};
}

expected<void> cuda_runner::finish(gpu_reply& reply) {
  CUDAL1_CHECK(device_->finish());
  if (reply.problem.empty()) reply.problem = device_->flush_problem();
  const slot* const last = std::exchange(last_, nullptr);
  if (last == nullptr) return {};
  const auto found = device_->found();
  auto& record = reply.calls.back();
  record.guard_problem = found.guards.text();
  if (record.guard_problem.empty() && found.constants != last->constants_content)
    record.guard_problem =
        "a tensor that setup made, or a device variable, was written by a call: steps may only read it";
  record.hash_low = found.outputs.low;
  record.hash_high = found.outputs.high;
  return {};
}

expected<void> cuda_runner::call(const gpu_call& m, gpu_reply& reply) {
  slot& s = slot_of(m.which);
  if (!s.program) return fail(errc::corrupt, "a call of a program that is not loaded");
  gpu_call_record record;
  const device_mapping *memory = nullptr, *weights_memory = nullptr;
  if (m.inputs != 0) {
    CUDAL1_TRY(auto* const given, tensors_of(m.inputs, tensor_role::input));
    memory = &given->mapped;
    if (m.elsewhere) {
      CUDAL1_TRY(memory, second_of(*given));
    }
  }
  CUDAL1_TRY(const auto inputs, views_of(memory, s.program->input_types()));
  const bool rehearsed = m.mode == call_mode::timed && s.host_bound && can_rehearse(s, m);
  if (!has_weights(s, m) || s.program->needs_capture() || rehearsed) CUDAL1_CHECK(finish(reply));
  CUDAL1_CHECK(set_weights(s, m, record));
  CUDAL1_CHECK(capture(s, m, inputs));
  if (m.weights != 0) weights_memory = &given_.at(m.weights).mapped;
  CUDAL1_TRY(const auto weights, views_of(weights_memory, s.program->weight_types()));
  const bool timed = m.mode != call_mode::untimed;
  const auto start = clock::now();
  if (rehearsed) CUDAL1_CHECK(rehearse(s, m));
  CUDAL1_CHECK(begin(m.seed, call_need::counted));
  s.program->prepare();
  if (timed) {
    if (memory != nullptr) CUDAL1_CHECK(device_->touch(*memory));
    if (weights_memory != nullptr) CUDAL1_CHECK(device_->touch(*weights_memory));
    CUDAL1_CHECK(device_->flush());
    if (m.mode == call_mode::warm_timed && memory != nullptr) CUDAL1_CHECK(device_->read(*memory));
  }
  CUDAL1_CHECK(finish(reply));
  record.flush_ms = milliseconds_since(start);
  clock::time_point enqueued;
  const auto enqueue = [&] {
    auto called = s.program->call(inputs);
    enqueued = clock::now();
    return called;
  };
  const auto begun = clock::now();
  CUDAL1_TRY(record.microseconds,
             is_on_device(m.mode) ? device_->time_on_device(enqueue) : device_->time_call(enqueue));
  const double host_us = std::chrono::duration<double, std::micro>(enqueued - begun).count();
  if (!is_on_device(m.mode) && record.microseconds < longest_rehearsed_us &&
      host_us > share_of_hosts * record.microseconds)
    s.host_bound = true;
  if (timed && device_->arena().late_blocks() > 0)
    reply.notes.push_back(
        fmt::format("a timed call of the {} poisoned memory while its clock ran", enum_name(m.which)));
  CUDAL1_CHECK(device_->note_call(s.program->outputs(), m.key, {s.constants, s.constants_key}));
  last_ = &s;
  s.last_inputs = m.inputs;
  if (m.keep)
    for (const auto& output : s.program->outputs())
      record.outputs.push_back(place_of(output, inputs, weights));
  if (timed || m.keep) CUDAL1_CHECK(copy_outputs(m, s.program->outputs(), record));
  reply.calls.push_back(std::move(record));
  return {};
}

expected<gpu_reply> cuda_runner::calls(frame& f) {
  CUDAL1_TRY(const auto message, record_of<gpu_calls_message>(f));
  gpu_reply reply;
  last_ = nullptr;  // in case the last frame's calls ended with a fault
  for (auto& s : slots_)
    s.last_inputs = 0;
  device_->arena().drop_kept();
  // Timed calls follow untimed ones, perhaps in several frames. Calls that are compared must run on one core.
  if (!message.calls.empty() && message.calls.front().mode == call_mode::untimed) CUDAL1_CHECK(choose_core());
  for (const auto& m : message.calls) {
    progress_->calls.fetch_add(1, std::memory_order_relaxed);
    CUDAL1_CHECK(call(m, reply));
  }
  CUDAL1_CHECK(finish(reply));
  // Once a load: what is written beside that is of no use to a later call of it, and gone before the next load.
  if (std::exchange(is_wiped_, false) && reply.problem.empty()) {
    CUDAL1_TRY(reply.problem, device_->untouched_problem());
  }
  if (const auto& variant = slot_of(resident_program::variant); variant.program) reply.notes = variant.program->notes();
  return reply;
}

expected<gpu_reply> cuda_runner::answer(frame& f) {
  switch (f.type) {
    case frame_type::load:
      return load(f);
    case frame_type::unload:
      return unload(f);
    case frame_type::tensors:
      return take_tensors(f);
    case frame_type::drop:
      return drop(f);
    case frame_type::call:
      return calls(f);
    default:
      return fail(errc::corrupt, "a GPU runner does not take a {} frame", enum_name(f.type));
  }
}

// The driver's device files stay writable: CUDA opens them again for new mappings.
expected<void> lock_down(const worker_settings& settings, int zygote) {
  confinement_options options{.role = confined_role::referee, .expected_parent = zygote};
  options.writable = gpu_device_files();
  CUDAL1_TRY(const auto prepared, confinement::prepare(options));
  const auto confined = prepared.enter();
  if (const auto* step = confined.failed(); step != nullptr && !settings.allow_weak_confinement)
    return fail(errc::infrastructure, "confinement of the runner: {}: {}", step->name,
                std::strerror(step->error_number));
  return {};
}

}  // namespace

int run_cuda_runner(const worker_settings& settings, int channel, int zygote) {
  // Never destroyed: the driver's state ends with the process.
  auto& self = *new cuda_runner(settings);
  auto first = receive_frame(channel, deadline_in(std::chrono::minutes(1)));
  if (!first) return exit_broken;
  auto started = self.start(*first);
  if (started) started = lock_down(settings, zygote);
  if (started) started = self.choose_core();
  if (!started) {
    (void)send_failure(channel, started.error(), deadline_in(answer_limit));
    return exit_confinement;
  }
  if (!send_record(channel, frame_type::done, gpu_reply{}, deadline_in(answer_limit))) return exit_broken;
  for (;;) {
    spin_until_readable(channel, spin_time);
    auto f = receive_frame(channel, deadline_in(idle_timeout));
    if (!f) return f.error().code == errc::not_found ? exit_orderly : exit_broken;
    const auto reply = self.answer(*f);
    const bool broken = !reply && self.is_broken();
    const auto sent = reply ? send_record(channel, frame_type::done, *reply, deadline_in(answer_limit))
                            : send_failure(channel, reply.error(), deadline_in(answer_limit));
    if (!sent) return exit_broken;
    // Nothing can run in a context after a fault.
    if (broken) return exit_fault;
  }
}

}  // namespace cudal1
