#include "sandbox/cpu/referee/cpu_backend.hpp"

#include <algorithm>

#include <malloc.h>

#include "config/base/stopwatch.hpp"
#include "sandbox/cpu/referee/cpu_runners.hpp"
#include "sandbox/isolation/machine_info.hpp"
#include "sandbox/referee/compare_on_host.hpp"
#include "sandbox/referee/elements.hpp"
#include "sandbox/referee/referee_messages.hpp"

namespace cudal1 {
namespace {

constexpr int64_t least_arena = int64_t{16} << 20, usual_least_arena = int64_t{1} << 30;

int64_t bytes_of(const flat_tensors& tensors) {
  int64_t bytes = 0;
  for (const auto& tensor : tensors)
    bytes += static_cast<int64_t>(tensor.size());
  return bytes;
}

// The tensors in the types that a side needs; `copies` owns the widened and the moved ones.
std::vector<tensor_view> widened(const mapped_tensors& memory, const std::vector<tensor_type>& have,
                                 const std::vector<tensor_type>& want, const element_move* moved,
                                 flat_tensors& copies) {
  std::vector<tensor_view> views;
  for (std::size_t i = 0; i < have.size(); ++i) {
    const bool moves = moved != nullptr && is_floating(have[i].type);
    if (have[i] == want[i] && !moves) {
      views.push_back({want[i], memory.data(i)});
      continue;
    }
    const int64_t count = have[i].storage_bytes() / size_of(have[i].type);
    auto& copy = copies.emplace_back(static_cast<std::size_t>(want[i].storage_bytes()), boost::container::default_init);
    constexpr int64_t block = 1024;
    double values[block];
    for (int64_t first = 0; first < count; first += block) {
      const int64_t part = std::min(block, count - first);
      load_elements(have[i].type, memory.data(i), first, part, values);
      if (moves) move_elements(have[i].type, *moved, first, {values, static_cast<std::size_t>(part)});
      store_elements(want[i].type, copy.data(), first, part, values);
    }
    views.push_back({want[i], copy.data()});
  }
  return views;
}

expected<flat_tensors> run_side(reference_program::side& s, const cpu_tensors& inputs, const cpu_tensors& weights,
                                const element_move* moved = nullptr) {
  CUDAL1_TRY(const auto input_memory, inputs.map());
  CUDAL1_TRY(const auto weight_memory, weights.map());
  flat_tensors copies;
  const auto weight_views = widened(weight_memory, weights.types, s.weight_types, nullptr, copies);
  const auto input_views = widened(input_memory, inputs.types, s.input_types, moved, copies);
  arena_begin_call(system_seed());
  CUDAL1_CHECK(s.run->set_weights(weight_views));
  CUDAL1_CHECK(s.run->call(input_views));
  flat_tensors result;
  for (const auto& output : s.run->outputs()) {
    auto& flat = result.emplace_back(static_cast<std::size_t>(output.type.bytes()), boost::container::default_init);
    gather(output.type, static_cast<const std::byte*>(output.data), flat.data());
  }
  s.run->release();
  return result;
}

// An output of that type; without a value.
compared_output operands_of(const tensor_type& type, const cpu_expected_outputs& outputs, std::size_t output) {
  if (output >= outputs.shipped.size()) return {};
  return {.type = type.type,
          .exact_type = is_floating(type.type) ? dtype::float64 : type.type,
          .elements = type.numel(),
          .eager = outputs.shipped[output].data(),
          .exact = outputs.exact[output].data()};
}

}  // namespace

int64_t memory_of_referee(const worker_settings& settings) {
  const int64_t all = physical_memory_bytes();
  return settings.memory_bytes > 0 ? std::min(all, settings.memory_bytes) : all;
}

expected<std::unique_ptr<cpu_backend>> cpu_backend::create(const worker_settings& settings) {
  // Memory that one draw frees is kept for the next one; the system would have to zero its pages again.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 28);
  const int64_t least = settings.memory_bytes > 0 ? least_arena : usual_least_arena;
  CUDAL1_TRY(mapping arena, map_private(std::max<int64_t>(memory_of_referee(settings) / 2, least)));
  CUDAL1_CHECK(install_arena({.base = arena.data(),
                              .bytes = static_cast<int64_t>(arena.size()),
                              .poison_seed = system_seed(),
                              .poison = false}));
  CUDAL1_TRY(auto cores, core_control::create(settings));
  std::unique_ptr<cpu_backend> result(new cpu_backend(std::move(cores)));
  result->arena_ = std::move(arena);
  return result;
}

expected<std::shared_ptr<drawn_tensors>> cpu_backend::make_tensors(const std::vector<tensor_type>& types,
                                                                   tensor_role role) {
  auto made = std::make_shared<cpu_tensors>();
  made->types = types;
  const char* const name = role == tensor_role::input ? "cudal1-inputs" : "cudal1-weights";
  const int64_t bytes = layout_of(types).file_bytes;
  CUDAL1_TRY(made->file, make_shared_memory(name, bytes));
  CUDAL1_TRY(made->writable, map_shared(made->file.get(), bytes, memory_access::read_write, paging::at_once));
  for (const auto& type : types)
    made->bytes += type.storage_bytes();
  return std::shared_ptr<drawn_tensors>(std::move(made));
}

expected<void> cpu_backend::fill(drawn_tensors& tensors, std::size_t index, const tensor_draw& how) {
  auto& made = static_cast<cpu_tensors&>(tensors);
  const auto place = layout_of(made.types).places[index];
  std::byte* const target = made.writable.data() + place.file_offset + place.data_offset;
  if (how.type.is_contiguous()) {
    draw_tensor(how, target);
    return {};
  }
  std::vector<std::byte> flat(static_cast<std::size_t>(how.type.bytes()));
  draw_tensor(how, flat.data());
  scatter(how.type, flat.data(), target);
  return {};
}

expected<void> cpu_backend::seal(drawn_tensors& tensors) {
  auto& made = static_cast<cpu_tensors&>(tensors);
  { const mapping gone = std::move(made.writable); }
  return seal_content(made.file.get());
}

expected<std::shared_ptr<const expected_outputs>> cpu_backend::compute(reference_program& program, const draw& d,
                                                                       const tolerances& allowed) {
  const auto &inputs = cpu_tensors::of(d.inputs), &weights = cpu_tensors::of(d.weights);
  auto result = std::make_shared<cpu_expected_outputs>();
  const stopwatch reference;
  auto shipped = run_side(program.shipped(), inputs, weights);
  result->reference_ms = reference.ms();
  if (!shipped) return fail_in("the task's program", shipped.error());
  auto exact = run_side(program.exact(), inputs, weights);
  if (!exact) return fail_in("the task's program in float64", exact.error());
  result->shipped = std::move(*shipped);
  result->exact = std::move(*exact);
  for (std::size_t i = 0; i < result->shipped.size(); ++i)
    result->statistics.push_back(
        expected_statistics_of(operands_of(program.output_types()[i], *result, i), d.request.kind, allowed));
  result->allowed = allowed;
  result->bytes = bytes_of(result->shipped) + bytes_of(result->exact);
  return std::shared_ptr<const expected_outputs>(std::move(result));
}

expected<std::shared_ptr<const rounding_distances>> cpu_backend::find_rounding(reference_program& program,
                                                                               const draw& d) {
  const auto& outputs = static_cast<const cpu_expected_outputs&>(*d.expected);
  const auto& types = program.output_types();
  auto result = std::make_shared<rounding_distances>();
  for (const auto& type : types)
    result->of_outputs.emplace_back(is_floating(type.type) ? static_cast<std::size_t>(type.numel()) : 0);
  for (const int64_t together : moved_together) {
    const element_move how{system_seed(), together};
    CUDAL1_TRY(const auto moved,
               run_side(program.shipped(), cpu_tensors::of(d.inputs), cpu_tensors::of(d.weights), &how));
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (!is_floating(types[i].type)) continue;
      compared_output operands = operands_of(types[i], outputs, i);
      operands.eager = moved[i].data();
      add_moved_output(operands, result->of_outputs[i]);
    }
  }
  return std::shared_ptr<const rounding_distances>(std::move(result));
}

expected<void> cpu_backend::allow_rounding(const checked_program& variant, const kept_call& call, std::size_t output,
                                           output_check& check) {
  const draw& d = *call.planned->draw;
  compared_output operands = operands_of(variant.types.at(variant.text.outputs[output]),
                                         static_cast<const cpu_expected_outputs&>(*d.expected), output);
  operands.value = call.record->outputs[output].data;
  cudal1::allow_rounding(operands, d.expected->statistics[output], d.request.kind, d.rounding_of(output), check);
  return {};
}

// `data` of an output is flat here (cpu_runners).
expected<std::vector<compared_call>> cpu_backend::compare(const checked_program& variant,
                                                          std::span<const kept_call> calls,
                                                          const std::vector<bool>& comparable) {
  std::vector<compared_call> result;
  for (const auto& call : calls) {
    const auto& expected_here = static_cast<const cpu_expected_outputs&>(*call.planned->draw->expected);
    compared_call compared{{}, call.record->bits};
    for (std::size_t i = 0; i < comparable.size(); ++i) {
      compared_output operands = operands_of(variant.types.at(variant.text.outputs[i]), expected_here, i);
      operands.value = call.record->outputs[i].data;
      compared.outputs.push_back(comparable[i] ? compare_output(operands, expected_here.statistics[i])
                                               : output_check{});
    }
    result.push_back(std::move(compared));
  }
  return result;
}

expected<request_runners> cpu_backend::runners_of(frame& f, std::span<const resident_program> programs,
                                                  const call_limits& limits) {
  const std::size_t of_runners = programs.size() * descriptors_of_runner;
  if (f.descriptors.size() < of_runners)
    return fail(errc::corrupt, "{} descriptors are too few for {} runners", f.descriptors.size(), programs.size());
  auto runners = std::make_shared<cpu_runners>(cores_, windows_);
  for (std::size_t i = 0; i < programs.size(); ++i)
    CUDAL1_CHECK(runners->attach(
        programs[i], std::span(f.descriptors).subspan(i * descriptors_of_runner, descriptors_of_runner), limits));
  return request_runners{std::move(runners), f.descriptors.size() > of_runners ? f.descriptors[of_runners].get() : -1};
}

int64_t cpu_backend::reference_bytes() {
  return static_cast<int64_t>(arena_.size());
}

void cpu_backend::release_memory() {
  ::malloc_trim(0);
}

}  // namespace cudal1
