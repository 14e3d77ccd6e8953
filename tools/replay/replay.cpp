#include "tools/replay/replay.hpp"

#include <vector>

#include <ATen/ops/empty_strided.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>

#include "sandbox/cuda/referee/without_exceptions.hpp"
#include "sandbox/interpreter/boxed_values.hpp"
#include "sandbox/interpreter/interpreter.hpp"
#include "sandbox/program/safetensors.hpp"
#include "sandbox/referee/weight_contents.hpp"

namespace cudal1 {

namespace {

// A copy on the device, with the declared strides.
at::Tensor tensor_of(const tensor_type& type, const std::byte* elements, at::Device device) {
  const auto source = wrap({contiguous(type.type, type.shape), const_cast<std::byte*>(elements)}, at::kCPU);
  auto target = at::empty_strided(type.shape, type.strides, source.options().device(device));
  auto written = target;
  auto seen = source;
  for (int64_t d = 0; d < type.dim(); ++d)  // a broadcast element is written once
    if (written.stride(d) == 0 && written.size(d) > 1) {
      written = written.narrow(d, 0, 1);
      seen = seen.narrow(d, 0, 1);
    }
  written.copy_(seen);
  return target;
}

expected<at::Tensor> given(const safetensors_file& file, const tensor_declaration& wanted, at::Device device) {
  CUDAL1_TRY(const stored_tensor* const found, file.find(wanted.name));
  const tensor_type have = contiguous(found->type, found->shape);
  if (have != contiguous(wanted.type.type, wanted.type.shape))
    return fail(errc::invalid_argument, "{} is {}, and is declared as {}", wanted.name, have.text(),
                wanted.type.text());
  return tensor_of(wanted.type, found->bytes.data(), device);
}

std::vector<tensor_view> views_of(const std::vector<tensor_declaration>& declared,
                                  const std::vector<at::Tensor>& tensors) {
  std::vector<tensor_view> views;
  for (std::size_t i = 0; i < declared.size(); ++i)
    views.push_back({declared[i].type, tensors[i].mutable_data_ptr()});
  return views;
}

expected<void> write_outputs(const task& t, const interpreter& run, at::Device device, const std::string& path) {
  const auto& names = t.reference.text.outputs;
  std::vector<at::Tensor> kept;
  stored_tensors tensors;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& output = run.outputs()[i];
    kept.push_back(wrap({output.type, output.data}, device).to(at::kCPU).contiguous());
    tensors[names[i]] = {output.type.type,
                         output.type.shape,
                         {static_cast<const std::byte*>(kept.back().const_data_ptr()), kept.back().nbytes()}};
  }
  return write_safetensors(path, tensors);
}

expected<void> replay_on(const replay_request& request, const replay_options& options, at::Device device) {
  CUDAL1_TRY(const task t, load_task(request.task, c10::DeviceTypeName(device.type(), true)));
  CUDAL1_TRY(const auto contents, weight_contents::open(t, t.folder + "/blobs"));
  CUDAL1_TRY(const auto file, safetensors_file::open(request.tensors));
  const program& p = t.reference.text;
  std::vector<at::Tensor> inputs, weights;
  for (const auto& d : p.inputs) {
    CUDAL1_TRY(inputs.emplace_back(), given(file, d, device));
  }
  for (std::size_t i = 0; i < p.weights.size(); ++i) {
    if (contents.of(i) != nullptr) {
      weights.push_back(tensor_of(p.weights[i].type, contents.of(i), device));
    } else {
      CUDAL1_TRY(weights.emplace_back(), given(file, p.weights[i], device));
    }
  }
  CUDAL1_TRY(const auto run,
             interpreter::load(t.reference, nullptr,
                               {.threads = options.threads, .cuda_device = device.is_cpu() ? -1 : device.index()}));
  CUDAL1_CHECK(run->set_weights(views_of(p.weights, weights)));
  CUDAL1_CHECK(run->call(views_of(p.inputs, inputs)));
  return write_outputs(t, *run, device, request.out);
}

}  // namespace

bool is_replay_device(const std::string& name) try {
  const at::Device device(name);
  return device.is_cpu() ? !device.has_index() : device.is_cuda() && device.has_index();
} catch (const c10::Error&) {
  return false;
}

expected<void> replay(const replay_request& request, const replay_options& options) {
  const at::Device device(options.device);
  const c10::OptionalDeviceGuard on(device.is_cpu() ? std::nullopt : std::optional(device));
  auto done = without_exceptions("the replay", [&] { return replay_on(request, options, device); });
  if (!device.is_cpu()) at::getDeviceAllocator(at::kCUDA)->emptyCache();
  return done;
}

}  // namespace cudal1
