#include "policy/codegen/cuda/cuda_layout.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "policy/tile/c_text.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_block = 128;                // threads, where rows are short
constexpr int64_t k_whole_device = 1 << 17;     // threads that keep a large GPU busy, approximately
constexpr int64_t k_vectors_per_thread = 4;     // independent 128-bit reads that hide memory latency
constexpr int64_t k_cached_elements = 1 << 16;  // a tensor with fewer elements stays in the L1 cache
constexpr int64_t k_warp_row = 256;             // maximum vectors of a row that one warp processes alone
constexpr int64_t k_values_in_flight = 16;      // words read before a thread computes, where rows are not resident
// Columns from which on rows are shifted. Half types gain where rows are read again; float32, of which a warp reads 128
// bytes at a time anyhow, where they do not fit in registers.
constexpr int64_t k_shifted_half_row = 4096, k_shifted_row = 24 << 10;
constexpr int64_t k_streamed_bytes = 32 << 20;  // of rows from which on results leave the cache first
constexpr int64_t k_staged_rows = 32;           // of a block whose results are staged
constexpr int64_t k_staged_bytes = 40 << 10;    // at most, of static shared memory, which reductions need too

int64_t power_below(int64_t v) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(v, 1))));
}
int64_t power_above(int64_t v) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(v, 1))));
}

// The number of tensors of which a thread holds elements at once.
int64_t arrays_of(const kernel_body& body) {
  int64_t count = 0;
  for (const auto& n : body.nodes) {
    if (n.kind == node_kind::load && !n.per_row)
      count += streams(body, body.accesses[static_cast<std::size_t>(n.access)]);
  }
  return std::max<int64_t>(count, 1);
}

dtype result_type(const kernel_body& body) {
  return body.results.empty() ? dtype::float32 : body.results.front().target.type.type;
}

// Whether a second pass reads the elements again.
bool reads_again(const kernel_body& body) {
  const pass_plan plan(body);
  const auto is_row = [&](const auto& r) { return plan.is_row_result(r); };
  return plan.passes() > 2 || (plan.passes() == 2 && !std::all_of(body.results.begin(), body.results.end(), is_row));
}

// Registers that a thread may use for a row's values: at most half of those that it has at this block size.
int64_t register_budget(int64_t block_threads) {
  return block_threads > 512 ? 24 : block_threads > 256 ? 48 : 72;
}

// `vectors`: of a row, that a block has.
int64_t default_row_threads(const kernel_body& body, const row_layout& l, int64_t vectors) {
  const int64_t rows = body.rows();
  if (l.lanes_over_rows) {
    if (body.has_scan()) return 1;
    int64_t threads = 1;
    while (threads < 32 && (vectors > 16 * threads || (rows * threads < k_whole_device && vectors > 2 * threads)))
      threads *= 2;
    return threads;
  }
  if (vectors <= 32) return power_above(vectors);
  const bool many = rows * 32 >= k_whole_device;
  if (vectors <= k_warp_row && many) return 32;
  const int64_t wanted = many ? vectors / k_vectors_per_thread : vectors / 2;
  // A row that is read once is streamed; one that is read again should fit into the block's registers.
  if (!reads_again(body)) return std::clamp<int64_t>(power_below(wanted), 32, rows < large_gpu_processors ? 1024 : 256);
  return std::clamp<int64_t>(power_below(wanted), 32, vectors >= 4096 ? 1024 : 512);
}

// At most so many threads of a block, where these blocks form clusters: several small ones on a multiprocessor wait for
// each other's memory, and clusters of large ones leave some multiprocessors without work.
int64_t threads_of_clusters(int64_t blocks) {
  return std::clamp<int64_t>(power_below(k_whole_device / blocks), 256, 1024);
}

// The distance of consecutive rows in memory, where it is the same for all of them; 0 where there is none.
int64_t row_distance(const kernel_body& body, const body_access& o) {
  const auto rows = static_cast<std::size_t>(body.row_dims());
  for (std::size_t d = 1; d < rows; ++d)
    if (o.strides[d - 1] != o.strides[d] * body.extent(d)) return 0;
  return rows == 0 ? 0 : o.strides[rows - 1];
}

// How many elements consecutive rows are further from the beginning of a vector, modulo its elements, where that is the
// same in all tensors whose elements the kernel reads or writes. Nothing where vectors need not be shifted, or cannot.
std::optional<int64_t> shift_of_rows(const kernel_body& body, int64_t width) {
  const int64_t widest = widest_vector(body);
  const bool half = widest == 8;
  if (half ? !reads_again(body) || body.columns() < k_shifted_half_row : body.columns() < k_shifted_row)
    return std::nullopt;
  if (width * 4 > widest || body.has_scan() || body.has_contraction() || body.dims() - body.row_dims() != 1)
    return std::nullopt;
  std::optional<int64_t> shift;
  const auto fits = [&](const body_access& o) {
    if (!o.divided.empty()) return false;
    if (o.strides.back() == 0) return true;
    const int64_t distance = row_distance(body, o), own = distance % widest;
    if (!o.aligned || o.strides.back() != 1 || distance == 0 || shift.value_or(own) != own) return false;
    shift = own;
    return true;
  };
  for (const auto& n : body.nodes) {
    if (n.kind != node_kind::load || n.per_row) continue;
    if (!n.operands.empty() || !fits(body.accesses[static_cast<std::size_t>(n.access)])) return std::nullopt;
  }
  for (const auto& r : body.results)
    if (!fits(r.target)) return std::nullopt;
  return shift;
}

}  // namespace

vector_access access_of(const body_access& o, int64_t width) {
  if (o.strides.empty() || o.strides.back() == 0) return vector_access::uniform;
  if (width == 1 || o.strides.back() != 1 || !o.aligned) return vector_access::scalar;
  if (std::ranges::any_of(o.divided, [&](const divided_axis& d) { return d.outer_stride % width != 0; }))
    return vector_access::scalar;
  const bool stays_aligned = o.gather_stride % width == 0 && std::all_of(o.strides.begin(), o.strides.end() - 1,
                                                                         [&](int64_t s) { return s % width == 0; });
  return stays_aligned ? vector_access::vector : vector_access::scalar;
}

int64_t widest_vector(const kernel_body& body) {
  const auto is_wide = [](const body_access& o) {
    return is_half(o.type.type) && !o.strides.empty() && o.strides.back() == 1;
  };
  const bool wide = std::ranges::any_of(body.accesses, is_wide) ||
                    std::ranges::any_of(body.results, [&](const auto& r) { return is_wide(r.target); });
  return wide ? 8 : 4;
}

int64_t vector_width(const kernel_body& body, int64_t limit) {
  if (body.axes.empty()) return 1;
  const std::size_t last = body.axes.size() - 1;
  if (std::ranges::any_of(body.accesses, [&](const body_access& o) { return o.division_of(last) != nullptr; }))
    return 1;
  int64_t width = limit;
  for (const auto& n : body.nodes) {
    // All elements of a vector are in one row.
    if (n.kind != node_kind::load || n.operands.empty()) continue;
    const auto& index = body.nodes[static_cast<std::size_t>(n.operands[0])];
    if (body.accesses[static_cast<std::size_t>(index.access)].strides.back() != 0) return 1;
  }
  const auto fits = [&](const body_access& o) {
    return o.strides.back() != 1 || access_of(o, width) == vector_access::vector;
  };
  for (; width > 1; width /= 2) {
    // A single axis has a scalar tail; otherwise the last one must be a multiple of the width.
    if (body.dims() > 1 && body.axes.back().extent % width != 0) continue;
    if (body.axes.back().extent < width) continue;
    if (std::all_of(body.accesses.begin(), body.accesses.end(), fits) &&
        std::all_of(body.results.begin(), body.results.end(), [&](const auto& r) { return fits(r.target); }))
      break;
  }
  return width;
}

std::string index_type(const kernel_body& body, int64_t numbered) {
  int64_t elements = numbered;
  for (const auto& o : body.accesses)
    elements = std::max(elements, o.type.storage_bytes() / size_of(o.type.type));
  // Threads of the last block compute indices beyond the last element.
  return elements < std::numeric_limits<int>::max() - (1 << 20) ? "int" : "long long";
}

bool streams(const kernel_body& body, const body_access& o) {
  const bool differs = body.row_dims() == 0 || std::any_of(o.strides.begin(), o.strides.begin() + body.row_dims(),
                                                           [](int64_t s) { return s != 0; });
  return differs && (o.type.numel() >= k_cached_elements || 4 * o.type.numel() >= body.rows() * body.columns());
}

bool has_contiguous_columns(const kernel_body& body, const body_access& o) {
  return !body.is_one_per_row(o.strides) && o.strides.back() == 1;
}

bool has_contiguous_rows(const kernel_body& body, const body_access& o) {
  return body.row_dims() > 0 && !body.is_one_per_row(o.strides) &&
         o.strides[static_cast<std::size_t>(body.row_dims()) - 1] == 1;
}

namespace {

// Whether results have contiguous rows, and those of a block fit in shared memory.
bool stages_results(const kernel_body& body) {
  if (body.has_scan() || body.has_contraction() || body.dims() - body.row_dims() != 1) return false;
  int64_t bytes = 0;
  for (const auto& r : body.results)
    if (has_contiguous_rows(body, r.target))
      bytes += k_staged_rows * body.columns() * size_of(body.nodes[static_cast<std::size_t>(r.node)].type);
  return bytes > 0 && bytes <= k_staged_bytes;
}

}  // namespace

// Elements that lie in so many parts of a tensor in turn, each contiguous, share lines of memory with their neighbours.
constexpr int64_t k_most_turns = 4;

bool takes_turns(const kernel_body& body, const body_access& o, std::size_t last) {
  if (const divided_axis* d = o.division_of(last)) return d->divisor <= k_most_turns && d->outer_stride == 1;
  return !body.is_one_per_row(o) && last > 0 && body.extent(last) <= k_most_turns && o.strides[last] != 0 &&
         o.strides[last - 1] == 1;
}
bool has_interleaved_rows(const kernel_body& body, const body_access& o) {
  return body.row_dims() > 0 && takes_turns(body, o, static_cast<std::size_t>(body.row_dims()) - 1);
}
bool has_interleaved_columns(const kernel_body& body, const body_access& o) {
  return body.dims() > body.row_dims() && takes_turns(body, o, static_cast<std::size_t>(body.dims()) - 1);
}

bool lanes_go_over_rows(const kernel_body& body) {
  if (has_adjacent_rows(body)) return true;
  if (body.row_dims() < 1 || body.is_elementwise()) return false;
  int64_t interleaved = 0, along = 0;
  for (const auto& o : body.accesses) {
    if (has_interleaved_rows(body, o)) ++interleaved;
    if (has_contiguous_columns(body, o) && o.strides[static_cast<std::size_t>(body.row_dims()) - 1] != 0) ++along;
  }
  return interleaved > along;
}

bool is_coalesced(const kernel_body& body) {
  const bool over_rows = lanes_go_over_rows(body), staged = !over_rows && stages_results(body);
  const auto is_contiguous = [&](const body_access& o) {
    return body.is_one_per_row(o.strides) || !streams(body, o) ||
           (over_rows ? has_contiguous_rows(body, o) || has_interleaved_rows(body, o)
                      : has_contiguous_columns(body, o) || has_interleaved_columns(body, o));
  };
  return std::ranges::all_of(body.accesses, is_contiguous) &&
         std::ranges::all_of(body.results, [&](const body_result& r) {
           return is_contiguous(r.target) || (staged && has_contiguous_rows(body, r.target));
         });
}

bool suits_clusters(const kernel_body& body) {
  return !body.has_scan() && !lanes_go_over_rows(body) && !stages_results(body) &&
         std::ranges::all_of(body.nodes, [](const body_node& n) {
           return n.kind != node_kind::reduce || computed_in(n.type) == dtype::float32;
         });
}

row_layout row_layout_of(const kernel_body& body, const kernel_options& options) {
  row_layout l;
  l.lanes_over_rows = lanes_go_over_rows(body);
  l.width = l.lanes_over_rows ? 1 : vector_width(body, widest_vector(body));
  if (body.axes.back().extent % l.width != 0) l.width = 1;
  l.vectors = body.columns() / l.width;
  if (const auto shift = l.lanes_over_rows ? std::nullopt : shift_of_rows(body, l.width)) {
    l.shifted = true;
    l.shift = *shift;
    l.width = widest_vector(body);
    l.vectors = (body.columns() + 2 * (l.width - 1)) / l.width;
  }
  if (options[kernel_tunable::row_blocks] > 1 && suits_clusters(body)) l.blocks = options[kernel_tunable::row_blocks];
  const int64_t of_block = (l.vectors + l.blocks - 1) / l.blocks;
  l.row_threads = options[kernel_tunable::row_threads] > 0 ? options[kernel_tunable::row_threads]
                                                           : default_row_threads(body, l, of_block);
  l.row_threads = std::min(l.row_threads, power_above(of_block));
  if (l.blocks > 1 && options[kernel_tunable::row_threads] == 0)
    l.row_threads = std::min(l.row_threads, threads_of_clusters(body.rows() * l.blocks));
  if (l.lanes_over_rows && body.has_scan()) l.row_threads = 1;
  l.staged = !l.lanes_over_rows && !l.shifted && stages_results(body);
  const int64_t rows = l.lanes_over_rows ? 32 : l.staged ? k_staged_rows : 1;
  int64_t block =
      options[kernel_tunable::block] > 0 ? options[kernel_tunable::block] : std::max(l.row_threads * rows, k_block);
  block = std::clamp<int64_t>(block, 32, 1024);
  if (l.lanes_over_rows) l.row_threads = std::min(l.row_threads, block / 32);
  if (!l.lanes_over_rows) block = std::max(block, l.row_threads);
  if (l.blocks > 1) block = l.row_threads;
  l.rows = block / l.row_threads;
  l.staged = l.staged && l.rows <= k_staged_rows;
  const int64_t share = (l.vectors + l.lanes() - 1) / l.lanes();
  const int64_t arrays = arrays_of(body);
  const bool keeps = reads_again(body) && options.keep_expensive;
  l.resident = keeps && share * l.width * arrays <= register_budget(block);
  l.streamed = reads_again(body) && !l.resident &&
               body.rows() * body.columns() * (is_half(result_type(body)) ? 2 : 4) >= k_streamed_bytes;
  const int64_t in_flight = options[kernel_tunable::unroll] > 0
                                ? options[kernel_tunable::unroll]
                                : std::max<int64_t>(k_values_in_flight / (std::min<int64_t>(l.width, 4) * arrays), 1);
  l.unrolled = l.resident ? share : std::min(share, in_flight);
  return l;
}

body_access as_accessed(const row_layout& l, body_access o) {
  if (l.shifted) std::fill(o.strides.begin(), o.strides.end() - 1, 0);
  return o;
}

}  // namespace cudal1
