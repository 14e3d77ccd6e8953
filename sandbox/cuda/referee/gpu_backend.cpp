#include "sandbox/cuda/referee/gpu_backend.hpp"

#include "sandbox/cuda/referee/gpu_draws.hpp"
#include "sandbox/cuda/referee/gpu_expected_outputs.hpp"
#include "sandbox/cuda/referee/without_exceptions.hpp"
#include "sandbox/interpreter/boxed_values.hpp"
#include "sandbox/referee/compare_on_host.hpp"

namespace cudal1 {
namespace {

constexpr int64_t least_share_free = 8;  // keep 1/8 of the device's memory free

std::span<const tensor_view> views_of(const std::shared_ptr<const drawn_tensors>& tensors) {
  const auto shared = shared_tensors::of(tensors);
  return shared ? std::span<const tensor_view>(shared->views) : std::span<const tensor_view>();
}

compared_tensors operands_of(const tensor_type& type, const void* value, const draw& d, std::size_t output) {
  const auto& expected_here = gpu_expected_outputs::of(d);
  return {type.type, type.numel(), value, expected_here.shipped[output].const_data_ptr(),
          expected_here.exact[output].const_data_ptr()};
}

}  // namespace

// ---- draws ----------------------------------------------------------------------------------------------------------

expected<std::shared_ptr<drawn_tensors>> gpu_backend::make_tensors(const std::vector<tensor_type>& types,
                                                                   tensor_role role) {
  if (types.empty()) return std::shared_ptr<drawn_tensors>();
  CUDAL1_TRY(auto made, memory_.take(types, role));
  return std::shared_ptr<drawn_tensors>(std::move(made));
}

expected<void> gpu_backend::fill(drawn_tensors& tensors, std::size_t index, const tensor_draw& how) {
  const auto& view = static_cast<shared_tensors&>(tensors).views[index];
  return fill_draw(wrap(view, device_->where()), how);
}

int gpu_backend::interpreter_device() const {
  const at::Device where = device_->where();
  return where.is_cpu() ? -1 : where.index();
}

expected<std::shared_ptr<const expected_outputs>> gpu_backend::compute(reference_program& program, const draw& d,
                                                                       const tolerances& allowed) {
  CUDAL1_TRY(auto computed, compute_expected_outputs(program, views_of(d.inputs), views_of(d.weights), d.request.kind,
                                                     allowed, *device_, comparer_));
  // The runner's libraries and other tasks need memory as well.
  CUDAL1_TRY(const device_room room, device_->room());
  if (room.free < room.total / least_share_free) device_->give_back();
  return std::shared_ptr<const expected_outputs>(std::move(computed));
}

// ---- comparison -----------------------------------------------------------------------------------------------------

struct gpu_backend::started_call {
  std::vector<const void*> flat;
  std::vector<at::Tensor> copies;                // those that had to be gathered
  std::vector<std::size_t> hashes, comparisons;  // their numbers; 0 if an output is not compared
};

expected<gpu_backend::started_call> gpu_backend::start(const checked_program& variant, const kept_call& call,
                                                       const std::vector<bool>& comparable) {
  started_call result;
  const std::size_t outputs = call.record->outputs.size();
  result.flat.resize(outputs, nullptr);
  result.comparisons.resize(outputs, 0);
  for (std::size_t i = 0; i < outputs; ++i) {
    const tensor_type& type = variant.types.at(variant.text.outputs[i]);
    const std::byte* const data = call.record->outputs[i].data;
    CUDAL1_TRY(const std::size_t hash, comparer_.start_hash(type, data, call.planned->key, i));
    result.hashes.push_back(hash);
    if (!comparable[i]) continue;
    result.flat[i] = data;
    if (!type.is_contiguous()) {
      CUDAL1_TRY(auto copy, without_exceptions("gathering an output", [&]() -> expected<at::Tensor> {
                   return wrap({type, const_cast<std::byte*>(data)}, device_->where()).contiguous();
                 }));
      result.flat[i] = copy.const_data_ptr();
      result.copies.push_back(std::move(copy));
    }
    CUDAL1_TRY(result.comparisons[i], comparer_.start_compare(operands_of(type, result.flat[i], *call.planned->draw, i),
                                                              call.planned->draw->expected->statistics[i]));
  }
  return result;
}

// Enqueues all comparisons, then collects them together.
expected<std::vector<compared_call>> gpu_backend::compare(const checked_program& variant,
                                                          std::span<const kept_call> calls,
                                                          const std::vector<bool>& comparable) {
  std::vector<started_call> started;
  for (const auto& call : calls) {
    CUDAL1_TRY(auto one, start(variant, call, comparable));
    started.push_back(std::move(one));
  }
  CUDAL1_CHECK(comparer_.collect());
  std::vector<compared_call> result;
  for (std::size_t c = 0; c < calls.size(); ++c) {
    const draw& d = *calls[c].planned->draw;
    compared_call compared;
    for (const std::size_t hash : started[c].hashes)
      compared.bits += comparer_.hashed(hash);
    for (std::size_t i = 0; i < comparable.size(); ++i) {
      const tensor_type& type = variant.types.at(variant.text.outputs[i]);
      compared.outputs.push_back(!comparable[i] ? output_check{}
                                                : comparer_.compared(started[c].comparisons[i],
                                                                     operands_of(type, started[c].flat[i], d, i),
                                                                     d.expected->statistics[i]));
    }
    result.push_back(std::move(compared));
  }
  return result;
}

expected<std::shared_ptr<const rounding_distances>> gpu_backend::find_rounding(reference_program& program,
                                                                               const draw& d) {
  CUDAL1_TRY(auto found, find_rounding_distances(program, views_of(d.inputs), views_of(d.weights),
                                                 gpu_expected_outputs::of(d), *device_));
  return std::shared_ptr<const rounding_distances>(std::move(found));
}

// On the host: it is rare, and has one definition there.
expected<void> gpu_backend::allow_rounding(const checked_program& variant, const kept_call& call, std::size_t output,
                                           output_check& check) {
  const draw& d = *call.planned->draw;
  const tensor_type& type = variant.types.at(variant.text.outputs[output]);
  const auto& expected_here = gpu_expected_outputs::of(d);
  return without_exceptions("fetching an output", [&]() -> expected<void> {
    auto* const data = const_cast<std::byte*>(call.record->outputs[output].data);
    const auto value = wrap({type, data}, device_->where()).contiguous().cpu();
    const auto eager = expected_here.shipped[output].cpu(), exact = expected_here.exact[output].cpu();
    const auto bytes = [](const at::Tensor& t) { return static_cast<const std::byte*>(t.const_data_ptr()); };
    cudal1::allow_rounding({.type = type.type,
                            .exact_type = dtype::float64,
                            .elements = type.numel(),
                            .value = bytes(value),
                            .eager = bytes(eager),
                            .exact = bytes(exact)},
                           d.expected->statistics[output], d.request.kind, d.rounding_of(output), check);
    return {};
  });
}

// ---- runners --------------------------------------------------------------------------------------------------------

expected<void> gpu_backend::attach(frame& f) {
  if (f.descriptors.size() != 2) return fail(errc::corrupt, "an attach frame carries a runner's channel and its pidfd");
  runner_ = std::make_shared<gpu_runner_link>(*device_, std::move(f.descriptors[0]), std::move(f.descriptors[1]));
  return {};
}

expected<request_runners> gpu_backend::runners_of(frame& f, std::span<const resident_program>,
                                                  const call_limits& limits) {
  if (!runner_ || runner_->ended()) return fail(errc::infrastructure, "no runner is attached to the GPU's referee");
  runner_->begin_request(limits);
  return request_runners{runner_, f.descriptors.empty() ? -1 : f.descriptors.front().get()};
}

// The runner, draws and copies of inputs and outputs need the rest.
int64_t gpu_backend::reference_bytes() {
  const auto room = device_->room();
  return room ? room->total / 2 : 0;
}

void gpu_backend::release_memory() {
  memory_.trim(0);
  if (runner_) runner_->drop_unused_tensors();
  device_->give_back();
}

}  // namespace cudal1
