#include "sandbox/cuda/runner.hpp"

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sandbox/cuda/messages.hpp"
#include "sandbox/cuda/referee/device.hpp"
#include "sandbox/cuda/resident.hpp"
#include "sandbox/cuda/runner_device.hpp"
#include "sandbox/process/frame.hpp"
#include "sandbox/process/roles.hpp"
#include "sandbox/process/shared_memory.hpp"

namespace cudal1 {
namespace {

constexpr std::chrono::hours patience{24 * 365};  // the referee's end closes when nobody needs this runner any more
constexpr std::chrono::seconds answer_limit{10};

using clock = std::chrono::steady_clock;

double milliseconds_since(clock::time_point start) {
  return std::chrono::duration<double, std::milli>(clock::now() - start).count();
}

// A draw's tensors, in the referee's memory, which is mapped for reading.
struct given_tensors {
  unique_fd memory;
  bool weights = false;
  device_mapping mapped;
};

class cuda_runner {
 public:
  explicit cuda_runner(const worker_settings& settings) : settings_(settings) {}
  expected<void> start(frame& f);
  expected<gpu_reply> answer(frame& f);
  bool is_broken() const { return device_->is_broken(); }

 private:
  struct slot {
    std::unique_ptr<resident> program;
    int64_t weights = 0, generation = 0;  // of those that are set
    bool weights_are_set = false;
  };

  expected<gpu_reply> load(frame& f);
  expected<gpu_reply> unload(frame& f);
  expected<gpu_reply> take_tensors(frame& f);
  expected<gpu_reply> drop(frame& f);
  expected<gpu_reply> call(frame& f);

  slot& slot_of(resident_program which) { return slots_[which == resident_program::variant ? 1 : 0]; }
  expected<void> begin(uint64_t seed);
  expected<void> set_weights(slot& s, const gpu_call_message& m, gpu_reply& reply);
  expected<void> capture(slot& s, const gpu_call_message& m, std::span<const tensor_view> inputs);
  expected<const device_mapping*> tensors_of(int64_t id, bool weights);
  expected<std::vector<tensor_view>> views_of(const device_mapping* memory, const std::vector<tensor_type>& types);
  gpu_output_place place_of(const tensor_view& output, std::span<const tensor_view> inputs,
                            std::span<const tensor_view> weights) const;

  worker_settings settings_;
  std::unique_ptr<runner_device> device_;
  slot slots_[2];
  std::map<int64_t, given_tensors> given_;
};

expected<void> cuda_runner::start(frame& f) {
  if (f.type != frame_type::arena || f.descriptors.size() != 1)
    return fail(errc::corrupt, "a GPU runner's first frame is arena, with its memory");
  CUDAL1_TRY(const auto message, record_of<gpu_arena_message>(f));
  CUDAL1_TRY(device_, runner_device::create(settings_.cuda_device, f.descriptors[0].get(), message.bytes,
                                            settings_.flush_bytes));
  f.descriptors.clear();
  return {};
}

expected<void> cuda_runner::begin(uint64_t seed) {
  for (auto& s : slots_)
    if (s.program) s.program->release();
  return device_->arena().begin_call(seed);
}

expected<gpu_reply> cuda_runner::load(frame& f) {
  CUDAL1_TRY(const auto message, record_of<gpu_load_message>(f));
  const auto start = clock::now();
  slot& s = slot_of(message.which);
  s = {};
  mapping object;
  if (!f.descriptors.empty()) {
    CUDAL1_TRY(const int64_t bytes, sealed_size(f.descriptors[0].get()));
    CUDAL1_TRY(object, map_shared(f.descriptors[0].get(), bytes, false));
  }
  CUDAL1_TRY(s.program, resident::load(message.program, {reinterpret_cast<const char*>(object.data()), object.size()},
                                       device_->index(), device_->arena(), device_->stream()));
  gpu_reply reply;
  reply.load_ms = milliseconds_since(start);
  return reply;
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
  tensors.weights = message.weights;
  CUDAL1_TRY(tensors.mapped, map_device_memory(tensors.memory.get(), message.bytes, device_->index(), false));
  given_.insert_or_assign(message.id, std::move(tensors));
  return gpu_reply{};
}

expected<gpu_reply> cuda_runner::drop(frame& f) {
  CUDAL1_TRY(const auto message, record_of<gpu_drop_message>(f));
  CUDAL1_CHECK(device_->finish());
  given_.erase(message.id);
  for (auto& s : slots_)
    if (s.weights == message.id) s.weights_are_set = false;
  return gpu_reply{};
}

expected<const device_mapping*> cuda_runner::tensors_of(int64_t id, bool weights) {
  const auto found = given_.find(id);
  if (found == given_.end() || found->second.weights != weights)
    return fail(errc::corrupt, "there are no {} with id {}", weights ? "weights" : "inputs", id);
  return &found->second.mapped;
}

expected<std::vector<tensor_view>> cuda_runner::views_of(const device_mapping* memory,
                                                         const std::vector<tensor_type>& types) {
  const device_layout layout = device_layout_of(types);
  std::vector<tensor_view> views;
  if (!types.empty() && (memory == nullptr || memory->size() < layout.bytes))
    return fail(errc::corrupt, "the tensors given are {} bytes, and {} are wanted", memory ? memory->size() : 0,
                layout.bytes);
  for (std::size_t i = 0; i < types.size(); ++i)
    views.push_back({types[i], memory->data() + layout.offsets[i]});
  return views;
}

expected<void> cuda_runner::set_weights(slot& s, const gpu_call_message& m, gpu_reply& reply) {
  if (s.weights_are_set && s.weights == m.weights && s.generation == m.generation) return {};
  const device_mapping* memory = nullptr;
  if (m.weights != 0) {
    CUDAL1_TRY(memory, tensors_of(m.weights, true));
  }
  CUDAL1_TRY(const auto views, views_of(memory, s.program->weight_types()));
  s.weights_are_set = false;
  CUDAL1_CHECK(begin(m.seed ^ 1));
  const auto start = clock::now();
  CUDAL1_CHECK(s.program->set_weights(views));
  CUDAL1_CHECK(device_->finish());
  reply.setup_ms = milliseconds_since(start);
  s.weights = m.weights;
  s.generation = m.generation;
  s.weights_are_set = true;
  return {};
}

expected<void> cuda_runner::capture(slot& s, const gpu_call_message& m, std::span<const tensor_view> inputs) {
  if (!s.program->wants_capture()) return {};
  device_mapping second;
  std::vector<tensor_view> moved(inputs.begin(), inputs.end());
  if (m.inputs != 0) {
    const auto& given = given_.at(m.inputs);
    CUDAL1_TRY(second, map_device_memory(given.memory.get(), given.mapped.size(), device_->index(), false));
    CUDAL1_TRY(moved, views_of(&second, s.program->input_types()));
  }
  CUDAL1_CHECK(begin(m.seed ^ 2));
  CUDAL1_CHECK(s.program->capture(inputs, moved));
  return device_->finish();
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

expected<gpu_reply> cuda_runner::call(frame& f) {
  CUDAL1_TRY(const auto m, record_of<gpu_call_message>(f));
  slot& s = slot_of(m.which);
  if (!s.program) return fail(errc::corrupt, "a call of a program that is not loaded");
  gpu_reply reply;
  const device_mapping* memory = nullptr;
  device_mapping moved;
  if (m.inputs != 0) {
    CUDAL1_TRY(memory, tensors_of(m.inputs, false));
  }
  if (m.inputs != 0 && m.elsewhere) {
    const auto& given = given_.at(m.inputs);
    CUDAL1_TRY(moved, map_device_memory(given.memory.get(), given.mapped.size(), device_->index(), false));
    memory = &moved;
  }
  CUDAL1_TRY(const auto inputs, views_of(memory, s.program->input_types()));
  CUDAL1_CHECK(set_weights(s, m, reply));
  CUDAL1_CHECK(capture(s, m, inputs));
  const auto start = clock::now();
  CUDAL1_CHECK(begin(m.seed));
  s.program->prepare();
  if (m.mode != call_mode::untimed) {
    if (memory != nullptr) CUDAL1_CHECK(device_->touch(*memory));
    if (m.weights != 0) CUDAL1_CHECK(device_->touch(given_.at(m.weights).mapped));
    CUDAL1_CHECK(device_->flush());
  }
  CUDAL1_CHECK(device_->finish());
  reply.flush_ms = milliseconds_since(start);
  const auto enqueue = [&] { return s.program->call(inputs); };
  CUDAL1_TRY(reply.microseconds,
             m.mode == call_mode::device_timed ? device_->time_on_device(enqueue) : device_->time_call(enqueue));
  CUDAL1_TRY(reply.guard_problem, device_->arena().check());
  reply.notes = s.program->notes();
  const device_mapping* const weights_memory = m.weights != 0 ? &given_.at(m.weights).mapped : nullptr;
  CUDAL1_TRY(const auto weights, views_of(weights_memory, s.program->weight_types()));
  for (const auto& output : s.program->outputs())
    reply.outputs.push_back(place_of(output, inputs, weights));
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
      return call(f);
    default:
      return fail(errc::corrupt, "a GPU runner does not take a {} frame", enum_name(f.type));
  }
}

// CUDA's own threads are there already and keep every core that the process was given.
expected<void> bind_to_core(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(core), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0)
    return fail(errc::infrastructure, "core {}: {}", core, std::strerror(errno));
  return {};
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
  return bind_to_core(settings.timing_core);
}

}  // namespace

int run_cuda_runner(const worker_settings& settings, int channel, int zygote) {
  // Never destroyed: the driver's state ends with the process.
  auto& self = *new cuda_runner(settings);
  auto first = receive_frame(channel, deadline_in(std::chrono::minutes(1)));
  if (!first) return exit_broken;
  auto started = self.start(*first);
  if (started) started = lock_down(settings, zygote);
  if (!started) {
    (void)send_failure(channel, started.error(), deadline_in(answer_limit));
    return exit_confinement;
  }
  if (!send_record(channel, frame_type::done, gpu_reply{}, deadline_in(answer_limit))) return exit_broken;
  for (;;) {
    auto f = receive_frame(channel, deadline_in(patience));
    if (!f) return f.error().code == errc::not_found ? exit_orderly : exit_broken;
    const auto reply = self.answer(*f);
    const bool broken = !reply && self.is_broken();
    const auto sent = reply ? send_record(channel, frame_type::done, *reply, deadline_in(answer_limit))
                            : send_failure(channel, reply.error(), deadline_in(answer_limit));
    if (!sent) return exit_broken;
    // Nothing runs in a context that a fault has ended.
    if (broken) return exit_fault;
  }
}

}  // namespace cudal1
