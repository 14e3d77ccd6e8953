#include "policy/codegen/cuda/cuda_target.hpp"

#include <algorithm>
#include <array>

#include "policy/codegen/cuda/cuda_kernels.hpp"
#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/cuda/split_rows.hpp"

namespace cudal1 {

namespace {

expected<emitted_kernel> emit_one(const emit_request& request) {
  if (const auto rows = with_one_column(*request.body)) {
    emit_request again = request;
    again.body = &*rows;
    return emit_cuda_rows(again);
  }
  return request.body->is_elementwise() ? emit_cuda_elements(request) : emit_cuda_rows(request);
}

// Only the last phase may overwrite an operand: no other phase reads it later.
bool may_end_in_place(const std::vector<kernel_body>& phases, const std::string& operand) {
  return phases.back().results.size() == 1 &&
         std::ranges::count(phases.back().operands, operand, &body_operand::value) == 1;
}

// Whether the body has rows and columns, so that the options of row kernels apply.
bool has_rows(const kernel_body& body) {
  return body.has_reduction() && !body.is_elementwise();
}

class cuda_target final : public lowering_target {
 public:
  std::string_view name() const override { return "cuda"; }

  // One kernel, or several phases where one kernel would have too few blocks.
  expected<emitted_kernel> emit(const emit_request& request) const override {
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
    }
    return {};
  }

  bool is_useful(tuning_option option, int64_t value, const kernel_body& body,
                 const group_options& now) const override {
    group_options chosen = now;
    switch (option) {
      case tuning_option::threads:
        return true;
      case tuning_option::items:
        return body.is_elementwise();
      case tuning_option::accumulators:
        chosen.accumulators = value;
        return has_rows(body) && row_layout_of(body, chosen).unrolled != row_layout_of(body, now).unrolled;
      case tuning_option::row_threads:
        if (!has_rows(body)) return false;
        // Less than a warp per row is for short rows: accesses to long ones would not coalesce.
        if (value < 32 && !has_adjacent_rows(body) && row_layout_of(body, now).vectors > 64 * value) return false;
        chosen.row_threads = value;
        return row_layout_of(body, chosen).row_threads == value && row_layout_of(body, now).row_threads != value;
    }
    return false;
  }

  bool replays_graphs() const override { return true; }
  bool has_tf32_products() const override { return true; }
};

}  // namespace

std::unique_ptr<const lowering_target> make_cuda_target() {
  return std::make_unique<cuda_target>();
}

}  // namespace cudal1
