#include "sandbox/interpreter/interpreter.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <set>

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>

#include "sandbox/interpreter/recurrent_weights.hpp"
#include "sandbox/interpreter/step_plan.hpp"
#include "sandbox/interpreter/tensor_arena.hpp"
#include "sandbox/program/operators/convolution_chain.hpp"

namespace cudal1 {

namespace {

// Sets the precision of LibTorch's matrix products and convolutions on a GPU while a step runs.
class product_precision {
 public:
  explicit product_precision(const std::string& wanted) : asked_(!wanted.empty()) {
    if (!asked_) return;
    before_ = {at::globalContext().allowTF32CuBLAS(), at::globalContext().allowTF32CuDNN()};
    set({wanted == "tf32", wanted == "tf32"});
  }
  ~product_precision() {
    if (asked_) set(before_);
  }
  product_precision(const product_precision&) = delete;
  product_precision& operator=(const product_precision&) = delete;

 private:
  struct tf32_use {
    bool matmul = false, convolution = false;
  };
  static void set(tf32_use use) {
    at::globalContext().setAllowTF32CuBLAS(use.matmul);
    at::globalContext().setAllowTF32CuDNN(use.convolution);
  }
  bool asked_;
  tf32_use before_;
};

// Surrounds a step. Null: there is no listener, or the step makes no output.
class output_scope {
 public:
  explicit output_scope(output_memory_listener* listener) : listener_(listener) {
    if (listener_ != nullptr) listener_->begin_output();
  }
  ~output_scope() {
    if (listener_ != nullptr) listener_->end_output();
  }
  output_scope(const output_scope&) = delete;
  output_scope& operator=(const output_scope&) = delete;

 private:
  output_memory_listener* listener_;
};

class program_interpreter final : public interpreter {
 public:
  program_interpreter(checked_program p, program_plan plan, const kernel_library* kernels, interpreter_options options)
      : program_(std::move(p)),
        plan_(std::move(plan)),
        kernels_(kernels),
        options_(options),
        device_(options.cuda_device < 0 ? at::Device(at::kCPU)
                                        : at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(options.cuda_device))),
        values_(plan_.slots.size()) {
    if (!device_.is_cpu()) at::globalContext().lazyInitDevice(device_.type());
    for (const auto& name : program_.text.outputs)
      outputs_.push_back({program_.types.at(name), nullptr});
  }

  void rehearse() override {
    if (!device_.is_cpu()) return;
    rehearsing_ = true;
    (void)rehearse_all();
    rehearsing_ = false;
    for (auto& v : values_)
      v.reset();
  }

  expected<void> set_weights(std::span<const tensor_view> weights) override {
    release();
    CUDAL1_CHECK(bind(program_.text.weights, plan_.weights, weights, "weight"));
    CUDAL1_CHECK(run(plan_.setup, nullptr));
    if (!device_.is_cpu()) CUDAL1_CHECK(guarded([&] { return pack_weights(); }));
    weights_are_set_ = true;
    return {};
  }

  expected<void> call(std::span<const tensor_view> inputs) override {
    if (!weights_are_set_ && !(program_.text.weights.empty() && plan_.setup.empty()))
      return fail(errc::invalid_argument, "{}: set_weights must precede the first call", program_.text.name);
    release();
    CUDAL1_CHECK(bind(program_.text.inputs, plan_.inputs, inputs, "input"));
    CUDAL1_CHECK(run(plan_.steps, plan_.lanes > 1 ? options_.lanes : nullptr));
    has_run_ = true;
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      outputs_[i].data = const_cast<void*>(value(plan_.outputs[i]).const_data_ptr());
    return {};
  }

  std::span<const tensor_view> outputs() const override { return outputs_; }

  std::vector<tensor_view> constants() const override {
    std::vector<tensor_view> views;
    std::set<const void*> known{nullptr};
    for (const int slot : plan_.weights)
      known.insert(values_[static_cast<std::size_t>(slot)].storage().data());
    const auto add = [&](const at::Tensor& t) {
      if (!t.defined() || !known.insert(t.storage().data()).second) return;
      const auto bytes = static_cast<int64_t>(t.storage().nbytes());
      views.push_back({contiguous(dtype::uint8, {bytes}), const_cast<void*>(t.storage().data())});
    };
    const auto add_slot = [&](int slot) {
      if (slot != no_slot) add(values_[static_cast<std::size_t>(slot)]);
    };
    for (const auto& s : plan_.setup) {
      if (const auto* alloc = std::get_if<alloc_plan>(&s.what)) add_slot(alloc->slot);
      if (const auto* aten = std::get_if<aten_plan>(&s.what)) std::ranges::for_each(aten->results, add_slot);
    }
    for (const auto& s : plan_.steps)
      if (const auto* aten = std::get_if<aten_plan>(&s.what))
        for (const auto& a : aten->arguments)
          std::ranges::for_each(a.packed, add);
    return views;
  }

  void release() override {
    for (const int slot : plan_.temporaries)
      value(slot).reset();
    for (auto& output : outputs_)
      output.data = nullptr;
  }

  const char* current_step() const override { return current_step_.load(std::memory_order_relaxed); }

 private:
  at::Tensor& value(int slot) { return values_[static_cast<std::size_t>(slot)]; }

  expected<void> bind(const std::vector<tensor_declaration>& declared, const std::vector<int>& slots,
                      std::span<const tensor_view> given, std::string_view kind) {
    if (given.size() != declared.size())
      return fail(errc::invalid_argument, "{}: {} {}s were given, but {} are declared", program_.text.name,
                  given.size(), kind, declared.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (!(given[i].type == declared[i].type) || !given[i].data)
        return fail(errc::invalid_argument, "{} {} is {}, and is declared as {}", kind, declared[i].name,
                    given[i].data ? given[i].type.text() : "missing", declared[i].type.text());
      auto& bound = value(slots[i]);
      if (bound.defined()) {
        rebind(bound, given[i].data);
      } else {
        const c10::InferenceMode no_autograd;
        bound = wrap(given[i], device_);
      }
    }
    return {};
  }

  expected<void> rehearse_all() {
    std::vector<at::Tensor> zeros;  // owns the memory of inputs and weights
    const auto views_of = [&](const std::vector<tensor_declaration>& declared) {
      std::vector<tensor_view> views;
      for (const auto& d : declared) {
        const auto bytes = std::max<int64_t>(d.type.storage_bytes(), 1);
        zeros.push_back(zero_filled(at::detail::empty_cpu({bytes}, at::kByte)));
        views.push_back({d.type, zeros.back().mutable_data_ptr()});
      }
      return views;
    };
    CUDAL1_CHECK(bind(program_.text.weights, plan_.weights, views_of(program_.text.weights), "weight"));
    CUDAL1_CHECK(run(plan_.setup, nullptr));
    CUDAL1_CHECK(bind(program_.text.inputs, plan_.inputs, views_of(program_.text.inputs), "input"));
    return run(plan_.steps, nullptr);
  }

  // Bypasses the dispatcher, which would take most of the time.
  at::Tensor empty(at::IntArrayRef shape, at::ScalarType element) const {
    if (device_.is_cpu()) return at::detail::empty_cpu(shape, element);
    return at::detail::empty_generic(shape, c10::GetAllocator(c10::kCUDA), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                     element, std::nullopt);
  }

  static at::Tensor zero_filled(at::Tensor t) {
    std::memset(t.mutable_data_ptr(), 0, t.storage().nbytes());
    return t;
  }

  expected<void> run(std::vector<step_plan>& steps, lane_driver* lanes) {
    if (lanes == nullptr) return run_guarded(steps, nullptr);
    CUDAL1_CHECK(lanes->begin());
    auto result = run_guarded(steps, lanes);
    auto joined = lanes->join();
    return result ? std::move(joined) : std::move(result);
  }

  expected<void> pack_weights() {
    enter("packing the weights of recurrent layers");
    pack_recurrent_weights(plan_, values_);
    return {};
  }

  expected<void> run_guarded(std::vector<step_plan>& steps, lane_driver* lanes) {
    return guarded([&] { return run_steps(steps, lanes); });
  }

  // Converts ATen's exceptions to errors.
  expected<void> guarded(auto&& work) {
    if (at::get_num_threads() != options_.threads) at::set_num_threads(options_.threads);
    const c10::InferenceMode no_autograd;
    const c10::OptionalDeviceGuard there(device_.is_cpu() ? std::nullopt : std::optional(device_));
    expected<void> result;
    try {
      result = work();
    } catch (const c10::OutOfMemoryError& e) {
      result = fail(errc::out_of_memory, "out of memory: {}: {}", current_step(), e.what_without_backtrace());
    } catch (const c10::Error& e) {
      result = fail(errc::variant_fault, "{}: {}", current_step(), e.what_without_backtrace());
    } catch (const engine_missing& e) {
      result = fail(errc::unsupported, "{}: {}", current_step(), e.what());
    } catch (const std::bad_alloc&) {
      result = fail(errc::out_of_memory, "out of memory: {}", current_step());
    } catch (const std::exception& e) {
      result = fail(errc::variant_fault, "{}: {}", current_step(), e.what());
    }
    stack_.clear();
    enter("");
    set_allocation_label(nullptr);
    return result;
  }

  expected<void> run_steps(std::vector<step_plan>& steps, lane_driver* lanes) {
    for (auto& s : steps) {
      enter(s.label.c_str());
      if (lanes != nullptr) CUDAL1_CHECK(go_to(*lanes, s.lane));
      CUDAL1_CHECK(run_step(s));
      if (lanes != nullptr && s.lane.event != no_event) CUDAL1_CHECK(lanes->record(s.lane.event));
      for (const int slot : s.last_used)
        value(slot).reset();
    }
    return {};
  }

  expected<void> run_step(step_plan& s) {
    const output_scope scope(s.makes_output ? options_.output_memory : nullptr);
    if (auto* aten = std::get_if<aten_plan>(&s.what)) return run_aten(*aten, s.label);
    if (auto* launch = std::get_if<launch_plan>(&s.what)) {
      if (!rehearsing_) run_launch(*launch);
      return {};
    }
    const auto& alloc = std::get<alloc_plan>(s.what);
    auto memory = empty(alloc.type.shape, alloc.element);
    value(alloc.slot) = rehearsing_ ? zero_filled(std::move(memory)) : std::move(memory);
    return {};
  }

  static expected<void> go_to(lane_driver& lanes, const laned_step& step) {
    if (step.lane == no_lane) return {};
    CUDAL1_CHECK(lanes.enter(step.lane));
    for (const int event : step.waits)
      CUDAL1_CHECK(lanes.wait(event));
    return {};
  }

  void enter(const char* label) {
    current_step_.store(label, std::memory_order_relaxed);
    set_allocation_label(label);
  }

  void run_launch(launch_plan& launch) {
    for (const auto& [parameter, slot] : launch.tensors)
      launch.values[parameter] = reinterpret_cast<uintptr_t>(value(slot).const_data_ptr());
    for (auto& m : launch.maps) {
      const void* const data = value(m.slot).const_data_ptr();
      if (data == m.of) continue;
      const auto value_there = kernels_->map_tensor(m.map, m.type, data);
      if (!value_there) throw std::runtime_error(value_there.error().message);
      m.value = *value_there;
      m.of = data;
    }
    kernels_->launch(launch.what, launch.pointers.data(), options_.threads);
  }

  expected<void> run_aten(const aten_plan& aten, const std::string& label) {
    stack_.clear();
    for (const auto& a : aten.arguments) {
      if (a.slot != no_slot) {
        stack_.emplace_back(value(a.slot));
      } else if (a.is_list && a.optional_items) {
        c10::List<std::optional<at::Tensor>> list;
        list.reserve(a.slots.size());
        for (const int slot : a.slots)
          list.push_back(slot == no_slot ? std::optional<at::Tensor>() : value(slot));
        stack_.emplace_back(std::move(list));
      } else if (a.is_list) {
        c10::List<at::Tensor> list;
        list.reserve(a.slots.size());
        for (std::size_t i = 0; i < a.slots.size(); ++i)
          list.push_back(a.packed.empty() ? value(a.slots[i]) : a.packed[i]);
        stack_.emplace_back(std::move(list));
      } else {
        stack_.push_back(a.constant);
      }
    }
    {
      const product_precision precision(aten.precision);
      aten.op.callBoxed(&stack_);
    }
    if (aten.gives_list) {
      auto items = stack_.back().toTensorVector();
      stack_.assign(std::make_move_iterator(items.begin()), std::make_move_iterator(items.end()));
    }
    if (stack_.size() != aten.results.size())
      return fail(errc::invalid_program, "{}: gave {} results, but {} are declared", label, stack_.size(),
                  aten.results.size());
    for (std::size_t i = 0; i < stack_.size(); ++i) {
      // What no step reads may have another type on another device: the statistics of a batch norm in evaluation mode
      // are empty on the CPU and in cuDNN, and one for each channel in CUDA's own kernel.
      if (aten.results[i] == no_slot) continue;
      auto result = std::move(stack_[i]).toTensor();
      if (aten.needs_relayout) result = laid_out_by_rule(std::move(result), aten.types[i].type);
      if (!has_type(result, aten.types[i].type))
        return fail(errc::invalid_program, "{}: result {} should be {} by the operator's rule, but is {}", label, i,
                    aten.types[i].type.text(), type_text(result));
      if (!has_run_) CUDAL1_CHECK(check_memory(aten, i, result, label));
      value(aten.results[i]) = std::move(result);
    }
    return {};
  }

  // A result of another type or shape is returned unchanged; the caller reports it.
  static at::Tensor laid_out_by_rule(at::Tensor result, const tensor_type& type) {
    if (has_type(result, type) || !result.sizes().equals(type.shape)) return result;
    return at::empty_strided(type.shape, type.strides, result.options()).copy_(result);
  }

  // Checks that a result shares an operand's memory if and only if the rule says so. Checking the first call suffices.
  expected<void> check_memory(const aten_plan& aten, std::size_t i, const at::Tensor& result,
                              const std::string& label) {
    const auto& view_of = aten.types[i].view_of;
    const auto uses = [&](int slot) { return slot != no_slot && result.storage().is_alias_of(value(slot).storage()); };
    for (std::size_t a = 0; a < aten.arguments.size(); ++a) {
      const auto& listed = aten.arguments[a].slots;
      if (std::any_of(listed.begin(), listed.end(), uses))
        return fail(errc::invalid_program, "{}: result {} should be a copy by the operator's rule, but is a view",
                    label, i);
      if (aten.arguments[a].slot == no_slot) continue;
      const bool shares = uses(aten.arguments[a].slot);
      if (view_of == a && !shares)
        return fail(errc::invalid_program, "{}: result {} should be a view by the operator's rule, but is a copy",
                    label, i);
      if (!view_of && shares)
        return fail(errc::invalid_program, "{}: result {} should be a copy by the operator's rule, but is a view",
                    label, i);
    }
    return {};
  }

  checked_program program_;
  program_plan plan_;
  const kernel_library* kernels_;
  interpreter_options options_;
  at::Device device_;
  std::vector<at::Tensor> values_;
  std::vector<tensor_view> outputs_;
  std::vector<c10::IValue> stack_;
  std::atomic<const char*> current_step_{""};
  bool weights_are_set_ = false, has_run_ = false, rehearsing_ = false;
};

}  // namespace

expected<std::unique_ptr<interpreter>> interpreter::load(checked_program p, const kernel_library* kernels,
                                                         interpreter_options options) {
  if (options.threads < 1)
    return fail(errc::invalid_argument, "threads is {}, but should be positive", options.threads);
  CUDAL1_TRY(auto plan, plan_program(p, kernels, options));
  if (plan.lanes > 1) CUDAL1_CHECK(options.lanes->prepare(plan.lanes, plan.events));
  return std::unique_ptr<interpreter>(
      std::make_unique<program_interpreter>(std::move(p), std::move(plan), kernels, options));
}

}  // namespace cudal1
