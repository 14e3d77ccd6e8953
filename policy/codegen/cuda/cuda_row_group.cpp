#include "policy/codegen/cuda/cuda_row_group.hpp"

#include "policy/tile/c_text.hpp"

namespace cudal1 {

void reduce_lanes(kernel_writer& w, reduction_kind how, const std::string& type, const std::string& variable,
                  int64_t lanes) {
  if (lanes < 2) return;
  w.open_unrolled(fmt::format("for (int d = {}; d > 0; d /= 2)", lanes / 2));
  w.line(fmt::format("const {} other = __shfl_xor_sync(0xffffffffu, {}, d);", type, variable));
  w.line(accumulate(how, variable, "other"));
  w.close();
}

void cuda_row_group::write_row() {
  const int64_t rows = w_->body().rows();
  const std::string in_block = l_->across             ? fmt::format("(int)threadIdx.x % {}", l_->rows)
                               : l_->rows == 1        ? "0"
                               : l_->row_threads == 1 ? "(int)threadIdx.x"
                                                      : fmt::format("(int)threadIdx.x / {}", l_->row_threads);
  if (l_->across) {
    w_->line(fmt::format("const int lane = (int)threadIdx.x / {};", l_->rows));
  } else {
    w_->line(fmt::format("const int lane = (int)threadIdx.x % {};", l_->row_threads));
  }
  const std::string row =
      l_->rows == 1 ? "(int)blockIdx.x" : fmt::format("(int)blockIdx.x * {} + {}", l_->rows, in_block);
  if (guarded()) {
    w_->line(fmt::format("const int wanted = {};", row));
    w_->line(fmt::format("const bool live = wanted < {};", rows));
    w_->line(fmt::format("const int row = live ? wanted : {};", rows - 1));
  } else {
    w_->line(fmt::format("const int row = {};", row));
  }
  write_row_indices();
  w_->write_row_pointers([&](const auto& strides) { return row_offset(strides); });
}

void cuda_row_group::write_row_indices() {
  row_ = w_->write_row_coordinates();
}

// Where consecutive rows have a constant distance, the row number alone gives the offset: simple enough for the
// compiler to see alignment.
index_expr cuda_row_group::row_offset(const std::vector<int64_t>& strides) const {
  const auto rows = static_cast<std::size_t>(w_->body().row_dims);
  bool linear = rows > 0;
  for (std::size_t d = 1; d < rows; ++d)
    linear = linear && strides[d - 1] == strides[d] * w_->body().domain[d];
  if (linear) return index_expr::variable("row", w_->body().rows()).as("long long") * strides[rows - 1];
  return offset_of(row_, strides);
}

void cuda_row_group::open_live() {
  if (guarded()) w_->open("if (live)");
}
void cuda_row_group::close_live() {
  if (guarded()) w_->close();
}

void cuda_row_group::open_first() {
  if (l_->row_threads == 1 && !guarded()) return;
  const std::string first = l_->row_threads == 1 ? "" : "lane == 0";
  const std::string live = guarded() ? "live" : "";
  w_->open(fmt::format("if ({}{}{})", first, first.empty() || live.empty() ? "" : " && ", live));
}
void cuda_row_group::close_first() {
  if (l_->row_threads > 1 || guarded()) w_->close();
}

// Combines the elements of a vector pairwise.
void cuda_row_group::combine_vector(const group_value& v) {
  for (int64_t half = l_->width / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i)
      w_->line(accumulate(v.how, fmt::format("part_{}[{}]", v.name, i), fmt::format("part_{}[{}]", v.name, i + half)));
  }
}

void cuda_row_group::combine_warp(const group_value& v, int64_t lanes) {
  reduce_lanes(*w_, v.how, v.accumulator, "sum_" + v.name, lanes);
}

void cuda_row_group::write_reductions(const std::vector<group_value>& values) {
  for (const auto& v : values) {
    combine_vector(v);
    w_->line(fmt::format("{0} sum_{1} = part_{1}[0];", v.accumulator, v.name));
    if (!l_->across) combine_warp(v, std::min<int64_t>(l_->row_threads, 32));
  }
  if (!values.empty() && l_->row_threads > (l_->across ? 1 : 32)) combine_shared(values);
  for (const auto& v : values)
    w_->line(
        fmt::format("const {0} {1} = {2}sum_{1};", v.type, v.name, v.type == v.accumulator ? "" : "(" + v.type + ")"));
}

void cuda_row_group::combine_shared(const std::vector<group_value>& values) {
  for (const auto& v : values) {
    w_->line(fmt::format("__shared__ {} shared_{}[{}];", v.accumulator, v.name,
                         l_->across ? l_->threads() : l_->threads() / 32));
    if (l_->across) {
      w_->line(fmt::format("shared_{0}[threadIdx.x] = sum_{0};", v.name));
    } else {
      w_->line(fmt::format("if (threadIdx.x % 32 == 0) shared_{0}[threadIdx.x / 32] = sum_{0};", v.name));
    }
  }
  w_->line("__syncthreads();");
  for (const auto& v : values) {
    if (l_->across) {
      w_->line(fmt::format("sum_{0} = shared_{0}[threadIdx.x % {1}];", v.name, l_->rows));
      w_->open_unrolled(fmt::format("for (int k = 1; k < {}; ++k)", l_->row_threads));
      w_->line(
          fmt::format("const {0} other = shared_{1}[k * {2} + threadIdx.x % {2}];", v.accumulator, v.name, l_->rows));
      w_->line(accumulate(v.how, "sum_" + v.name, "other"));
      w_->close();
    } else {
      const std::string first = l_->rows == 1 ? "" : fmt::format("threadIdx.x / {} * {} + ", l_->row_threads, warps());
      w_->line(fmt::format("sum_{0} = shared_{0}[{1}threadIdx.x % {2}];", v.name, first, warps()));
      combine_warp(v, warps());
    }
  }
}

void cuda_row_group::declare_scan(int node) {
  const std::string& name = w_->variable(node);
  w_->line(fmt::format("double before_{} = 0.0;", name));
  if (!l_->across && warps() > 1) {
    // Double-buffered: a warp may write the next round's totals while another still reads this round's.
    w_->line(fmt::format("__shared__ float totals_{}[2][{}];", name, l_->threads() / 32));
    w_->line(fmt::format("int turn_{} = 0;", name));
  }
}

void cuda_row_group::open_scan(int node) {
  const std::string& name = w_->variable(node);
  w_->line(fmt::format("float run_{}[{}];", name, l_->width));
  for (int64_t l = 0; l < l_->width; ++l)
    w_->line(fmt::format("run_{}[{}] = 0.0f;", name, l));
}

void cuda_row_group::close_scan(int node) {
  const std::string& name = w_->variable(node);
  for (int64_t l = 1; l < l_->width; ++l)
    w_->line(fmt::format("run_{0}[{1}] = run_{0}[{2}] + run_{0}[{1}];", name, l, l - 1));
  const std::string own = fmt::format("run_{}[{}]", name, l_->width - 1);
  if (l_->row_threads == 1) {
    w_->line(fmt::format("const float ahead_{0} = (float)before_{0};", name));
    w_->line(fmt::format("before_{} += (double){};", name, own));
    return;
  }
  const int64_t lanes = std::min<int64_t>(l_->row_threads, 32);
  w_->line(fmt::format("const int at_{} = lane % {};", name, lanes));
  w_->line(fmt::format("float up_{} = {};", name, own));
  w_->open_unrolled(fmt::format("for (int d = 1; d < {}; d *= 2)", lanes));
  w_->line(fmt::format("const float other = __shfl_up_sync(0xffffffffu, up_{}, d, {});", name, lanes));
  w_->line(fmt::format("if (at_{0} >= d) up_{0} = other + up_{0};", name));
  w_->close();
  w_->line(fmt::format("float left_{0} = __shfl_up_sync(0xffffffffu, up_{0}, 1, {1});", name, lanes));
  w_->line(fmt::format("if (at_{0} == 0) left_{0} = 0.0f;", name));
  if (l_->row_threads <= 32) {
    w_->line(
        fmt::format("const float total_{0} = __shfl_sync(0xffffffffu, up_{0}, {1}, {2});", name, lanes - 1, lanes));
    w_->line(fmt::format("const float warp_{} = 0.0f;", name));
  } else {
    const std::string first = l_->rows == 1 ? "" : fmt::format("threadIdx.x / {} * {} + ", l_->row_threads, warps());
    w_->line(fmt::format("if (at_{0} == 31) totals_{0}[turn_{0}][threadIdx.x / 32] = up_{0};", name));
    w_->line("__syncthreads();");
    w_->line(fmt::format("float total_{0} = 0.0f, warp_{0} = 0.0f;", name));
    w_->open_unrolled(fmt::format("for (int k = 0; k < {}; ++k)", warps()));
    w_->line(fmt::format("if (k == lane / 32) warp_{0} = total_{0};", name));
    w_->line(fmt::format("total_{0} += totals_{0}[turn_{0}][{1}k];", name, first));
    w_->close();
    w_->line(fmt::format("turn_{0} ^= 1;", name));
  }
  w_->line(fmt::format("const float ahead_{0} = (float)(before_{0} + (double)(warp_{0} + left_{0}));", name));
  w_->line(fmt::format("before_{0} += (double)total_{0};", name));
}

}  // namespace cudal1
