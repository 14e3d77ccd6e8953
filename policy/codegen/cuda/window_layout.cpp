#include "policy/codegen/cuda/window_layout.hpp"

#include <algorithm>
#include <cstdlib>

namespace cudal1 {

namespace {

constexpr int64_t k_shared_results = 4;                  // of a thread, where windows overlap
constexpr int64_t k_bytes_in_flight = 32;                // that a thread should read at once, where they do not
constexpr int64_t k_most_registers = 16;                 // of accumulators
constexpr int64_t k_enough_threads = 1 << 17;            // that keep a large GPU busy, approximately
constexpr int64_t k_bytes_of_vector = 16, k_widest = 8;  // that a thread reads at once; elements of half types

int last_row(const kernel_body& body) {
  return body.row_dims() - 1;
}

// The loads whose elements differ within a window.
std::vector<const body_access*> operands_within(const kernel_body& body) {
  std::vector<const body_access*> out;
  for (const auto& n : body.nodes) {
    if (n.kind != node_kind::load || n.per_row) continue;
    const auto& o = body.accesses[static_cast<std::size_t>(n.access)];
    out.push_back(&o);
  }
  return out;
}

// The loads whose elements differ within a window, and which windows slide over.
std::vector<const body_access*> pooled_operands(const kernel_body& body) {
  auto out = operands_within(body);
  std::erase_if(out, [](const auto* o) { return !o->bounded; });
  return out;
}

// Whether an element counts otherwise in each of the windows that it is in.
bool has_weights(const kernel_body& body) {
  return !std::ranges::all_of(operands_within(body), [](const auto* o) { return o->bounded; });
}

// Whether vectors of `width` elements along the dimension are aligned wherever a window's element is.
bool is_vector_along(const kernel_body& body, const body_access& o, int dimension, int64_t width) {
  if (o.strides[static_cast<std::size_t>(dimension)] != 1 || !o.aligned || o.offset % width != 0) return false;
  if (elements_before(body, o) % width != 0 || width * size_of(o.type.type) > k_bytes_of_vector) return false;
  for (int d = 0; d < static_cast<int>(o.strides.size()); ++d)
    if (d != dimension && o.strides[static_cast<std::size_t>(d)] % width != 0) return false;
  return true;
}

// The elements of a vector of neighbouring channels, where these are contiguous.
int64_t width_of(const kernel_body& body) {
  const int lane = last_row(body);
  if (lane < 0 || window_along(body, lane) != nullptr) return 1;
  const auto pooled = pooled_operands(body);
  const auto along = [&](const body_access& o) { return o.strides[static_cast<std::size_t>(lane)]; };
  if (std::ranges::none_of(pooled, [&](const auto* o) { return along(*o) == 1; })) return 1;
  int64_t width = k_widest;
  const auto fits = [&](const body_access& o) { return along(o) == 0 || is_vector_along(body, o, lane, width); };
  for (; width > 1; width /= 2)
    if (body.extent(static_cast<std::size_t>(lane)) % width == 0 && std::ranges::all_of(body.accesses, fits) &&
        std::ranges::all_of(body.results, [&](const auto& r) { return fits(r.target); }))
      break;
  return width;
}

// The elements of a vector of neighbouring elements of a window.
int64_t piece_of(const kernel_body& body) {
  const int column = body.dims() - 1;
  const auto window = std::ranges::find(body.windows, column, &body_window::column);
  const auto pooled = pooled_operands(body);
  if (column < body.row_dims() || has_weights(body) || window == body.windows.end() || window->walk.dilation != 1 ||
      pooled.empty())
    return 1;
  const auto& walk = window->walk;
  int64_t piece = k_widest;
  for (; piece > 1; piece /= 2)
    if (walk.kernel % piece == 0 && walk.size % piece == 0 && walk.padding % piece == 0 &&
        std::ranges::all_of(pooled, [&](const auto* o) { return is_vector_along(body, *o, column, piece); }))
      break;
  return piece;
}

int stacked_of(const kernel_body& body) {
  for (int d = last_row(body) - 1; d >= 0; --d)
    if (window_along(body, d) != nullptr) return d;
  return last_row(body) - 1;
}

// Whether consecutive windows along the dimension have elements in common.
bool overlaps(const kernel_body& body, int row) {
  const body_window* w = row < 0 ? nullptr : window_along(body, row);
  return w != nullptr && w->column >= 0 && w->walk.dilation == 1 && w->walk.stride < w->walk.kernel;
}

int64_t wanted_results(const kernel_body& body, const window_layout& l) {
  int64_t bytes = 0;
  for (const auto* o : pooled_operands(body))
    bytes += body.columns() * l.width * size_of(o->type.type);
  int64_t wanted = overlaps(body, l.stacked) ? k_shared_results : k_bytes_in_flight / std::max<int64_t>(bytes, 1);
  wanted = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(k_most_registers / l.width, 1));
  while (wanted > 1 && body.rows() / l.width / wanted < k_enough_threads)
    wanted /= 2;
  return wanted;
}

}  // namespace

std::vector<int> window_layout::order(const kernel_body& body) const {
  const auto place = [&](int d) { return d == lane ? 0 : d == stacked ? 2 : window_along(body, d) != nullptr ? 1 : 3; };
  std::vector<int> out;
  for (int d = lane; d >= 0; --d)
    out.push_back(d);
  std::ranges::stable_sort(out, {}, place);
  return out;
}

int64_t window_layout::groups(const kernel_body& body) const {
  return stacked < 0 ? 1 : (body.extent(static_cast<std::size_t>(stacked)) + results - 1) / results;
}

int64_t window_layout::threads(const kernel_body& body) const {
  const int64_t size = stacked < 0 ? 1 : body.extent(static_cast<std::size_t>(stacked));
  return body.rows() / size / width * groups(body);
}

bool window_layout::is_shared(const kernel_body& body, int column) const {
  return shares && column == window_along(body, stacked)->column;
}

int64_t window_layout::shared_extent(const kernel_body& body) const {
  const auto& walk = window_along(body, stacked)->walk;
  return (results - 1) * walk.stride + walk.kernel;
}

int64_t window_layout::own_columns(const kernel_body& body) const {
  return shares ? body.columns() / window_along(body, stacked)->walk.kernel : body.columns();
}

window_layout window_layout_of(const kernel_body& body, const kernel_options& options) {
  window_layout l;
  l.lane = last_row(body);
  l.width = width_of(body);
  l.piece = l.width > 1 ? 1 : piece_of(body);
  l.stacked = stacked_of(body);
  if (l.stacked < 0) return l;
  const bool overlapping = overlaps(body, l.stacked);
  const int64_t items = options[kernel_tunable::items];
  l.results = items > 0 ? std::clamp<int64_t>(items / l.width, 1, k_most_registers / l.width) : wanted_results(body, l);
  while (l.results > body.extent(static_cast<std::size_t>(l.stacked)))
    l.results /= 2;
  l.shares = overlapping && l.results > 1 && !has_weights(body);
  // What windows share is taken element by element.
  if (l.shares && l.is_shared(body, body.dims() - 1)) l.piece = 1;
  return l;
}

const body_window* window_along(const kernel_body& body, int row) {
  const auto found = std::ranges::find(body.windows, row, &body_window::row);
  return row < 0 || found == body.windows.end() ? nullptr : &*found;
}

bool reaches_beyond(const kernel_body& body, const window_layout& l, const body_window& w) {
  const auto& walk = w.walk;
  int64_t windows = w.row < 0 ? 1 : body.extent(static_cast<std::size_t>(w.row));
  // The last of the windows that share elements may not exist, but their elements are read.
  if (l.shares && w.row == l.stacked) windows = l.groups(body) * l.results;
  return walk.padding > 0 || (windows - 1) * walk.stride + (walk.kernel - 1) * walk.dilation >= walk.size;
}

int64_t place_stride(const body_access& o, const body_window& w) {
  if (w.column >= 0) return o.strides[static_cast<std::size_t>(w.column)] / w.walk.dilation;
  return w.row < 0 ? 0 : o.strides[static_cast<std::size_t>(w.row)] / w.walk.stride;
}

int64_t elements_before(const kernel_body& body, const body_access& o) {
  int64_t out = 0;
  for (const auto& w : body.windows)
    if (o.bounded) out += w.walk.padding * place_stride(o, w);
  return out;
}

bool has_coalesced_windows(const kernel_body& body) {
  const int lane = last_row(body);
  if (lane < 0) return true;
  const body_window* window = window_along(body, lane);
  const int64_t step = window == nullptr ? 1 : window->walk.stride;
  const auto within = [&](const body_access& o, int64_t most) {
    return std::abs(o.strides[static_cast<std::size_t>(lane)]) <= most;
  };
  return std::ranges::all_of(pooled_operands(body), [&](const auto* o) { return within(*o, step); }) &&
         std::ranges::all_of(body.results, [&](const auto& r) { return within(r.target, 1); });
}

}  // namespace cudal1
