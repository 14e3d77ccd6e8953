#include "policy/codegen/cuda/cuda_target.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "policy/codegen/cuda/convolution_layout.hpp"
#include "policy/codegen/cuda/cuda_kernels.hpp"
#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/cuda/gemm/mainloop.hpp"
#include "policy/codegen/cuda/gemm/split_k.hpp"
#include "policy/codegen/cuda/split_rows.hpp"
#include "policy/codegen/cuda/warpgroup_convolution.hpp"
#include "policy/codegen/cuda/window_layout.hpp"
#include "policy/codegen/pass_plan.hpp"
#include "sandbox/device/compute_capability.hpp"

namespace cudal1 {

namespace {

expected<emitted_kernel> emit_one(const emit_request& request) {
  if (const auto rows = with_one_column(*request.body)) {
    emit_request again = request;
    again.body = &*rows;
    return emit_cuda_rows(again);
  }
  if (const auto dimension = transposed_dimension(*request.body)) return emit_cuda_transposed(request, *dimension);
  return request.body->is_elementwise() ? emit_cuda_elements(request) : emit_cuda_rows(request);
}

// Only the last phase may overwrite an operand: no other phase reads it later.
bool may_end_in_place(const std::vector<kernel_body>& phases, const std::string& operand) {
  return phases.back().results.size() == 1 &&
         std::ranges::count(phases.back().accesses, operand, &body_access::value) == 1;
}

// Whether the body has rows and columns, so that the options of row kernels apply.
bool has_rows(const kernel_body& body) {
  return body.has_reduction() && !body.is_elementwise() && body.windows.empty();
}

// One kernel, or several phases where one kernel would have too few blocks.
expected<emitted_kernel> emit_without_product(const emit_request& request) {
  if (!request.body->windows.empty()) return emit_cuda_windows(request);
  const std::string& in_place = request.options.in_place;
  std::vector<kernel_body> phases;
  if (has_rows(*request.body) && request.options[kernel_tunable::row_blocks] == 0)
    phases = split_rows(*request.body, request.values);
  if (phases.empty() || (!in_place.empty() && !may_end_in_place(phases, in_place))) return emit_one(request);
  emitted_kernel out;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    emit_request phase = request;
    phase.body = &phases[i];
    phase.name = i + 1 == phases.size() ? request.name : fmt::format("{}_phase{}", request.name, i);
    phase.comment = fmt::format("{}: phase {} of {}", request.comment, i + 1, phases.size());
    if (i > 0) phase.options = {};  // the options are for the kernel that reads all elements
    phase.options.in_place = i + 1 == phases.size() ? in_place : "";
    CUDAL1_TRY(emitted_kernel kernel, emit_one(phase));
    out.append(std::move(kernel));
  }
  return out;
}

expected<emitted_kernel> emit_kernel_of_convolution(const emit_request& request, const cut_convolution* cut) {
  return request.options.product_way.empty() ? emit_cuda_convolutions(request, cut)
                                             : emit_cuda_warpgroup_convolutions(request, cut);
}

// The parts of a channel's places that the convolution's kernel reduces.
expected<int64_t> parts_of_places(const kernel_body& body, const kernel_options& options) {
  if (!options.product_way.empty()) {
    CUDAL1_TRY(const auto layout, warpgroup_convolution_of(body, options));
    return layout.parts_of_places();
  }
  CUDAL1_TRY(const auto layout, convolution_layout_of(body, options));
  return layout.parts_of_places() * layout.warps();
}

// One kernel, or two or three where places are reduced.
expected<emitted_kernel> emit_convolution(const emit_request& request) {
  if (!reduces_places(*request.body)) return emit_kernel_of_convolution(request, nullptr);
  if (!request.options.in_place.empty())
    return fail(errc::unsupported, "several kernels of the convolution read {}", request.options.in_place);
  CUDAL1_TRY(const int64_t parts, parts_of_places(*request.body, request.options));
  const cut_convolution cut = cut_at_sums(*request.body, parts, request.values);
  emit_request next = request;
  next.body = &cut.convolution;
  CUDAL1_TRY(emitted_kernel out, emit_kernel_of_convolution(next, &cut));
  next.options = {};
  const auto append = [&](const kernel_body& body, const char* suffix, const char* what) -> expected<void> {
    next.body = &body;
    next.name = request.name + suffix;
    next.values = request.values + suffix;
    next.comment = request.comment + what;
    CUDAL1_TRY(emitted_kernel kernel, emit_without_product(next));
    out.append(std::move(kernel));
    return {};
  };
  CUDAL1_CHECK(append(cut.totals, "_totals", ": sums of the parts that the convolution's kernel has reduced"));
  if (cut.rest) CUDAL1_CHECK(append(*cut.rest, "_rest", ": the rest"));
  return out;
}

expected<emitted_kernel> emit_product(const emit_request& request) {
  const kernel_body& body = *request.body;
  const std::string& in_place = request.options.in_place;
  CUDAL1_TRY(const product_tiling whole, tiling_of(body, request.options));
  std::vector<int> operands = whole.of.accesses_of_a(body);
  std::ranges::copy(whole.of.bs, std::back_inserter(operands));
  for (const int operand : operands)
    if (!in_place.empty() && body.accesses[static_cast<std::size_t>(operand)].value == in_place)
      return fail(errc::unsupported, "blocks of the product read {} after others would have overwritten it", in_place);
  if (is_one_kernel(body, whole)) {
    CUDAL1_CHECK(pass_plan(body).check_row_kernel(in_place));
    return whole.loop->emit(request, whole);
  }
  const auto [product, rest] = split_k(body, whole.parts, request.values);
  emit_request first = request, second = request;
  first.body = &product;
  first.name = request.name + "_product";
  first.comment = request.comment + ": the product";
  first.options = {};
  first.options.choose(kernel_tunable::tile_rows, whole.rows);
  first.options.choose(kernel_tunable::tile_columns, whole.columns);
  first.options.choose(kernel_tunable::depth_parts, whole.parts);
  first.options.product_way = whole.loop->value;
  CUDAL1_TRY(const product_tiling tiling, tiling_of(product, first.options));
  CUDAL1_TRY(emitted_kernel out, tiling.loop->emit(first, tiling));
  second.body = &rest;
  second.comment = request.comment + ": the rest";
  CUDAL1_TRY(emitted_kernel last, emit_without_product(second));
  out.append(std::move(last));
  return out;
}

// The tunables of the body's kernel; for a body with a product, those of the kernel of its epilogue.
std::span<const kernel_tunable> tunables_without_products(const kernel_body& body) {
  if (!body.windows.empty()) return tunables_of_windows();
  return has_rows(body) ? tunables_of_rows() : tunables_of_elements();
}

const kernel_tunable* find_tunable(std::span<const kernel_tunable> among, std::string_view name) {
  const auto found = std::ranges::find(among, name, &kernel_tunable::name);
  return found == among.end() ? nullptr : &*found;
}

// What the devices' compute capability allows, and what error is accepted. Other devices than those of 9.0 lack the
// instructions of warpgroups.
struct cuda_capability {
  bool tensor_cores = true, warpgroups = true;
  accuracy accepted = accuracy::own;
  bool operator==(const cuda_capability&) const = default;
};

// The capability in an environment's details; everything where there are none.
cuda_capability capability_of(std::string_view details) {
  const std::string number = compute_capability_of(details);
  const accuracy accepted = accuracy_in(details);
  if (number.empty()) return {.accepted = accepted};
  return {std::strtol(number.c_str(), nullptr, 10) >= 8, number == "9.0", accepted};
}

class cuda_target final : public lowering_target {
 public:
  explicit cuda_target(cuda_capability can = {}) : can_(can) {}
  std::string_view name() const override { return "cuda"; }

  expected<emitted_kernel> emit(const emit_request& request) const override {
    if (is_convolution(*request.body)) return emit_convolution(request);
    return request.body->has_contraction() ? emit_product(request) : emit_without_product(request);
  }

  std::span<const kernel_tunable> tunables() const override {
    static const auto all = [] {
      std::vector<kernel_tunable> out;
      for (const auto& of_template : {tunables_of_elements(), tunables_of_rows(), tunables_of_windows(),
                                      tunables_of_convolutions(), tunables_of_products()})
        for (const auto& each : of_template)
          if (find_tunable(out, each.name) == nullptr) out.push_back(each);
      return out;
    }();
    return all;
  }

  bool is_useful(std::string_view name, int64_t value, const kernel_body& body,
                 const kernel_options& now) const override {
    if (is_convolution(body)) {
      const kernel_tunable* const own = find_tunable(
          now.product_way.empty() ? tunables_of_convolutions() : tunables_of_warpgroup_convolutions(), name);
      return own != nullptr && own->is_useful(value, body, now);
    }
    if (name == kernel_tunable::row_blocks && !can_.warpgroups) return false;  // clusters
    if (const kernel_tunable* const own = find_tunable(tunables_of_products(), name))
      return body.has_contraction() && own->is_useful(value, body, now);
    if (body.has_contraction()) {
      const auto tiling = tiling_of(body, now);
      return tiling && !is_one_kernel(body, *tiling) &&
             is_useful(name, value, split_k(body, tiling->parts, "").second, now);
    }
    const kernel_tunable* const found = find_tunable(tunables_without_products(body), name);
    return found != nullptr && found->is_useful(value, body, now);
  }

  bool replays_graphs() const override { return true; }
  bool has_tf32_products() const override { return true; }
  bool library_applies_activations() const override { return true; }
  std::span<const std::string_view> convolution_ways() const override {
    static constexpr std::array<std::string_view, 3> all{"", convolution_by_tf32, convolution_by_tf32_pairs};
    return std::span(all).first(can_.warpgroups ? all.size() : 1);
  }
  bool suits_convolution(const kernel_body& body, std::string_view way) const override {
    kernel_options options;
    options.product_way = way;
    return way.empty() ? convolution_layout_of(body, options).has_value()
                       : warpgroup_convolution_of(body, options).has_value();
  }
  bool library_compiles_chains() const override { return can_.tensor_cores; }  // cuDNN's engines are for these
  bool describes_work() const override { return true; }
  bool writes_templates() const override { return true; }

  bool is_coalesced(const kernel_body& body) const override {
    if (is_convolution(body)) return true;
    if (!body.windows.empty()) return has_coalesced_windows(body);
    return body.has_contraction() || !has_rows(body) || cudal1::is_coalesced(body);
  }

  std::span<const product_way> product_ways() const override {
    static const auto all = [] {
      std::vector<product_way> out;
      for (const auto* each : mainloops())
        out.push_back({each->parameter, each->value, each->tensor_cores, each->explanation, each->float32_explanation});
      return out;
    }();
    return all;
  }

  std::vector<product_choice> product_choices(const kernel_body& body) const override {
    if (!body.has_contraction() || is_convolution(body)) return {};
    auto out = choices_by_estimate(body);
    std::erase_if(out, [&](const product_choice& c) {
      const mainloop& loop = *find_mainloop(c.value);
      if (!can_.tensor_cores) return loop.tensor_cores;
      return !can_.warpgroups && (c.clusters || loop.warpgroups);
    });
    return out;
  }

  const lowering_target& limited_to(std::string_view details) const override {
    static const auto all = [] {
      std::vector<cuda_target> out;
      for (const accuracy a : {accuracy::own, accuracy::kernelbench, accuracy::strict, accuracy::half})
        for (const auto& [tensor_cores, warpgroups] : {std::pair(true, true), {true, false}, {false, false}})
          out.push_back(cuda_target({tensor_cores, warpgroups, a}));
      return out;
    }();
    const cuda_capability can = capability_of(details);
    return can == can_ ? *this : *std::ranges::find(all, can, &cuda_target::can_);
  }
  accuracy accepted() const override { return can_.accepted; }

 private:
  cuda_capability can_;
};

}  // namespace

std::unique_ptr<const lowering_target> make_cuda_target() {
  return std::make_unique<cuda_target>();
}

}  // namespace cudal1
