// Lowering targets: how a kernel body becomes text, which values its options may have, and what else the devices can
// do. Targets are found by name; each kind of device names its target. "cpu" and "cuda" are built in.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/codegen/emit_kernel.hpp"
#include "policy/codegen/kernel_tunable.hpp"
#include "sandbox/device/accuracy.hpp"

namespace cudal1 {

// A way to make a product in a kernel: product_kernel(steps=0, PARAMETER=VALUE), both empty for the usual one.
struct product_way {
  std::string_view parameter, value;
  bool tensor_cores = true;
  // What the kernel does, for people, behind the product's name; for float32 operands.
  std::string_view explanation, float32_explanation;
};

struct product_choice {
  std::string_view parameter, value;  // of the way
  bool clusters = false;              // whose blocks hold the rows of the epilogue together
  bool operator==(const product_choice&) const = default;
};

// On tensor cores in TF32 (half types lose nothing), or of a high and a low TF32 part of each operand.
inline constexpr std::string_view convolution_by_tf32 = "tf32", convolution_by_tf32_pairs = "tf32_pairs";

class lowering_target {
 public:
  virtual ~lowering_target() = default;
  virtual std::string_view name() const = 0;
  // The body as a kernel, with the target's default for every option that is not chosen. errc::unsupported with the
  // reason where the target has no suitable form. Pure, and called from many threads at once.
  virtual expected<emitted_kernel> emit(const emit_request& request) const = 0;
  // What moves may choose for its kernels: each name once.
  virtual std::span<const kernel_tunable> tunables() const = 0;
  // Whether the value could help a kernel of this body with its current options.
  virtual bool is_useful(std::string_view name, int64_t value, const kernel_body& body,
                         const kernel_options& now) const = 0;
  // The values of that name; none where the target's kernels have no such choice.
  std::span<const int64_t> values(std::string_view name) const;
  // Other capabilities of the devices.
  virtual bool replays_graphs() const { return false; }     // a whole program as one CUDA graph
  virtual bool has_tf32_products() const { return false; }  // library products of precision "tf32"
  // Whether a library's convolution adds its bias without a pass of its own over the result.
  virtual bool convolutions_add_bias() const { return false; }
  // Whether a library's products of half types, and its convolutions, apply activations without a pass of their own.
  virtual bool library_applies_activations() const { return false; }
  // Whether a library compiles convolutions with chains of functions (convolution_graph).
  virtual bool library_compiles_chains() const { return false; }
  // How kernels that add up channels of a convolution may multiply, as kernel_options::product_way: without tensor
  // cores
  // (""), or convolution_by_*; and whether one suits this body, which does.
  virtual std::span<const std::string_view> convolution_ways() const { return {}; }
  virtual bool suits_convolution(const kernel_body&, std::string_view /*way*/) const { return false; }
  // Whether its kernels describe their work (emitted_kernel::work), so that their times can be estimated.
  virtual bool describes_work() const { return false; }
  // Whether its kernels may be those of templates (kernel_template.hpp), which are CUDA C++.
  virtual bool writes_templates() const { return false; }
  virtual std::span<const product_way> product_ways() const { return {}; }
  // How a kernel can make this product, what is estimated to be the fastest first.
  virtual std::vector<product_choice> product_choices(const kernel_body&) const { return {}; }
  // Whether the threads of a kernel of this body access memory coalesced. Where a copy into another order is in the
  // kernel and they do not, the copy is better in another one.
  virtual bool is_coalesced(const kernel_body&) const { return true; }
  // What error is accepted of its programs: moves propose nothing that is less exact.
  virtual accuracy accepted() const { return accuracy::own; }
  // This target without what the device of this environment (as in environment::details) cannot do, and with what
  // error is accepted there. Schedules for the one are schedules for the other.
  virtual const lowering_target& limited_to(std::string_view /*details*/) const { return *this; }
};

// errc::invalid_argument with the known names where there is none.
expected<const lowering_target*> find_lowering_target(std::string_view name);
// Registers a target for the life of the process; errc::invalid_argument where the
// name is taken. Thread-safe.
expected<void> add_lowering_target(std::unique_ptr<const lowering_target> target);

}  // namespace cudal1
