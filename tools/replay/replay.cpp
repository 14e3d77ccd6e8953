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

// A copy of `elements`, which are as `from` declares them, on the device and with the strides and the element type of
// `to`.
at::Tensor tensor_of(const tensor_type& from, const std::byte* elements, const tensor_type& to, at::Device device) {
  const auto source = wrap({contiguous(from.type, from.shape), const_cast<std::byte*>(elements)}, at::kCPU);
  auto target = at::empty_strided(to.shape, to.strides, source.options().dtype(scalar_type_of(to.type)).device(device));
  auto written = target;
  auto seen = source;
  for (int64_t d = 0; d < to.dim(); ++d)  // a broadcast element is written once
    if (written.stride(d) == 0 && written.size(d) > 1) {
      written = written.narrow(d, 0, 1);
      seen = seen.narrow(d, 0, 1);
    }
  written.copy_(seen);
  return target;
}

expected<at::Tensor> given(const safetensors_file& file, const tensor_declaration& wanted, const tensor_type& to,
                           at::Device device) {
  CUDAL1_TRY(const stored_tensor* const found, file.find(wanted.name));
  const tensor_type have = contiguous(found->type, found->shape);
  if (have != contiguous(wanted.type.type, wanted.type.shape))
    return fail(errc::invalid_argument, "{} is {}, and is declared as {}", wanted.name, have.text(),
                wanted.type.text());
  return tensor_of(wanted.type, found->bytes.data(), to, device);
}

std::vector<tensor_view> views_of(const std::vector<tensor_declaration>& declared,
                                  const std::vector<at::Tensor>& tensors) {
  std::vector<tensor_view> views;
  for (std::size_t i = 0; i < declared.size(); ++i)
    views.push_back({declared[i].type, tensors[i].mutable_data_ptr()});
  return views;
}

expected<void> write_outputs(const program& p, const interpreter& run, at::Device device, const std::string& path) {
  std::vector<at::Tensor> kept;
  stored_tensors tensors;
  for (std::size_t i = 0; i < p.outputs.size(); ++i) {
    const auto& output = run.outputs()[i];
    kept.push_back(wrap({output.type, output.data}, device).to(at::kCPU).contiguous());
    tensors[p.outputs[i]] = {output.type.type,
                             output.type.shape,
                             {static_cast<const std::byte*>(kept.back().const_data_ptr()), kept.back().nbytes()}};
  }
  return write_safetensors(path, tensors);
}

// What both programs of a task are given, its own and that in float64.
struct given_data {
  const task& declared;
  weight_contents contents;
  safetensors_file file;
};

expected<void> run_program(const checked_program& checked, const given_data& data, const std::string& out,
                           const replay_options& options, at::Device device) {
  const program &p = checked.text, &declared = data.declared.reference.text;
  std::vector<at::Tensor> inputs, weights;
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    CUDAL1_TRY(inputs.emplace_back(), given(data.file, declared.inputs[i], p.inputs[i].type, device));
  }
  for (std::size_t i = 0; i < p.weights.size(); ++i) {
    const auto &from = declared.weights[i], &to = p.weights[i];
    if (const auto* content = data.contents.of(i)) {
      weights.push_back(tensor_of(from.type, content, to.type, device));
    } else {
      CUDAL1_TRY(weights.emplace_back(), given(data.file, from, to.type, device));
    }
  }
  CUDAL1_TRY(const auto run,
             interpreter::load(checked, nullptr,
                               {.threads = options.threads, .cuda_device = device.is_cpu() ? -1 : device.index()}));
  CUDAL1_CHECK(run->set_weights(views_of(p.weights, weights)));
  CUDAL1_CHECK(run->call(views_of(p.inputs, inputs)));
  return write_outputs(p, *run, device, out);
}

expected<void> replay_on(const replay_request& request, const replay_options& options, at::Device device) {
  CUDAL1_TRY(const task t, load_task(request.task, c10::DeviceTypeName(device.type(), true)));
  CUDAL1_TRY(auto contents, weight_contents::open(t, t.folder + "/blobs"));
  CUDAL1_TRY(auto file, safetensors_file::open(request.tensors));
  const given_data data{t, std::move(contents), std::move(file)};
  CUDAL1_CHECK(run_program(t.reference, data, request.out, options, device));
  if (request.exact.empty()) return {};
  const auto exact = [&]() -> expected<void> {
    CUDAL1_TRY(program wide, to_float64(t.reference.text));
    CUDAL1_TRY(const auto checked, check_program(std::move(wide)));
    return run_program(checked, data, request.exact, options, device);
  }();
  return exact ? expected<void>() : fail_in("in float64", exact.error());
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
