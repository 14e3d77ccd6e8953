#include "policy/codegen/cuda/cuda_target.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <tuple>

#include "policy/codegen/cuda/cuda_kernels.hpp"
#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/cuda/split_depth.hpp"
#include "policy/codegen/cuda/split_rows.hpp"
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
         std::ranges::count(phases.back().operands, operand, &body_operand::value) == 1;
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
  if (has_rows(*request.body)) phases = split_rows(*request.body, request.values);
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

emitted_kernel emit_tiles(const emit_request& request, const product_tiling& t) {
  switch (t.form) {
    case product_form::depth_of_warps:
      return emit_depth_of_warps(request, t);
    case product_form::scaled_halves:
      return emit_scaled_halves(request, t);
    case product_form::warpgroup_tiles:
      return emit_warpgroup_tiles(request, t);
    case product_form::thread_sums:
      return emit_thread_sums(request, t);
    case product_form::tiles:
      break;
  }
  return emit_cuda_product(request, t);
}

expected<emitted_kernel> emit_product(const emit_request& request) {
  const kernel_body& body = *request.body;
  const std::string& in_place = request.options.in_place;
  CUDAL1_TRY(const product_tiling whole, tiling_of(body, request.options));
  std::vector<int> factors = body.product->operands_of_left();
  std::ranges::copy(body.product->rights, std::back_inserter(factors));
  for (const int factor : factors)
    if (!in_place.empty() && body.operands[static_cast<std::size_t>(factor)].value == in_place)
      return fail(errc::unsupported, "blocks of the product read {} after others would have overwritten it", in_place);
  if (is_one_kernel(body, whole)) {
    CUDAL1_CHECK(pass_plan(body).check_row_kernel(!in_place.empty()));
    return emit_tiles(request, whole);
  }
  const auto [product, rest] = split_depth(body, whole.parts, request.values);
  emit_request first = request, second = request;
  first.body = &product;
  first.name = request.name + "_product";
  first.comment = request.comment + ": the product";
  first.options = {};
  first.options.tile_rows = whole.rows;
  first.options.tile_columns = whole.columns;
  first.options.depth_parts = whole.parts;
  first.options.form = whole.form;
  CUDAL1_TRY(const product_tiling tiling, tiling_of(product, first.options));
  emitted_kernel out = emit_tiles(first, tiling);
  second.body = &rest;
  second.comment = request.comment + ": the rest";
  CUDAL1_TRY(emitted_kernel last, emit_without_product(second));
  out.append(std::move(last));
  return out;
}

bool divides_product(tuning_option option) {
  return option == tuning_option::tile_rows || option == tuning_option::tile_columns ||
         option == tuning_option::depth_parts;
}

bool is_useful_to_product(tuning_option option, int64_t value, const kernel_body& body, const group_options& now) {
  const auto before = tiling_of(body, now);
  group_options chosen = now;
  (option == tuning_option::tile_rows      ? chosen.tile_rows
   : option == tuning_option::tile_columns ? chosen.tile_columns
                                           : chosen.depth_parts) = value;
  const auto after = tiling_of(body, chosen);
  return before && after &&
         std::tie(before->rows, before->columns, before->parts) != std::tie(after->rows, after->columns, after->parts);
}

// What the devices' compute capability allows. Other devices than those of 9.0 lack the instructions of warpgroups.
struct cuda_capability {
  bool tensor_cores = true, warpgroups = true;
  bool operator==(const cuda_capability&) const = default;
};

// Of an environment's details; of none, everything.
cuda_capability capability_of(std::string_view details) {
  const std::string number = compute_capability_of(details);
  if (number.empty()) return {};
  return {std::strtol(number.c_str(), nullptr, 10) >= 8, number == "9.0"};
}

class cuda_target final : public lowering_target {
 public:
  explicit cuda_target(cuda_capability can = {}) : can_(can) {}
  std::string_view name() const override { return "cuda"; }

  expected<emitted_kernel> emit(const emit_request& request) const override {
    return request.body->product ? emit_product(request) : emit_without_product(request);
  }

  std::span<const int64_t> values(tuning_option option) const override {
    static constexpr std::array<int64_t, 5> threads{64, 128, 256, 512, 1024}, vectors{1, 2, 4, 8, 16};
    static constexpr std::array<int64_t, 6> items{1, 2, 4, 8, 16, 32};
    static constexpr std::array<int64_t, 10> row_threads{1, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
    switch (option) {
      case tuning_option::threads:
        return threads;
      case tuning_option::items:
        return items;
      case tuning_option::accumulators:
        return vectors;
      case tuning_option::row_threads:
        return row_threads;
      case tuning_option::tile_rows:
        return product_tile_rows;
      case tuning_option::tile_columns:
        return product_tile_columns;
      case tuning_option::depth_parts:
        return product_depth_parts;
    }
    return {};
  }

  bool is_useful(tuning_option option, int64_t value, const kernel_body& body,
                 const group_options& now) const override {
    if (divides_product(option)) return body.product && is_useful_to_product(option, value, body, now);
    if (body.product) {
      const auto tiling = tiling_of(body, now);
      return tiling && !is_one_kernel(body, *tiling) &&
             is_useful(option, value, split_depth(body, tiling->parts, "").second, now);
    }
    group_options chosen = now;
    switch (option) {
      case tuning_option::threads:
        return true;
      case tuning_option::items:
        if (body.windows.empty()) return body.is_elementwise() && !transposed_dimension(body);
        chosen.items = value;
        return window_layout_of(body, chosen).results != window_layout_of(body, now).results;
      case tuning_option::accumulators:
        chosen.accumulators = value;
        return has_rows(body) && row_layout_of(body, chosen).unrolled != row_layout_of(body, now).unrolled;
      case tuning_option::row_threads:
        if (!has_rows(body)) return false;
        // Less than a warp per row is for short rows: accesses to long ones would not coalesce.
        if (value < 32 && !has_adjacent_rows(body) && row_layout_of(body, now).vectors > 64 * value) return false;
        chosen.row_threads = value;
        return row_layout_of(body, chosen).row_threads == value && row_layout_of(body, now).row_threads != value;
      default:
        break;
    }
    return false;
  }

  bool replays_graphs() const override { return true; }
  bool has_tf32_products() const override { return true; }
  bool library_applies_activations() const override { return true; }
  bool describes_work() const override { return true; }
  bool writes_templates() const override { return true; }

  bool is_coalesced(const kernel_body& body) const override {
    if (!body.windows.empty()) return has_coalesced_windows(body);
    return body.product || !has_rows(body) || cudal1::is_coalesced(body);
  }

  std::vector<product_choice> product_choices(const kernel_body& body) const override {
    if (!body.product) return {};
    auto out = choices_by_estimate(body);
    std::erase_if(out, [&](const product_choice& c) {
      if (!can_.tensor_cores) return c.form != product_form::thread_sums;
      return !can_.warpgroups && (c.clusters || is_of_warpgroups(c.form));
    });
    return out;
  }

  const lowering_target& limited_to(std::string_view details) const override {
    static const cuda_target with_tensor_cores({true, false}), without_tensor_cores({false, false});
    const cuda_capability can = capability_of(details);
    if (can == can_) return *this;
    return can.tensor_cores ? with_tensor_cores : without_tensor_cores;
  }

 private:
  cuda_capability can_;
};

}  // namespace

std::unique_ptr<const lowering_target> make_cuda_target() {
  return std::make_unique<cuda_target>();
}

}  // namespace cudal1
