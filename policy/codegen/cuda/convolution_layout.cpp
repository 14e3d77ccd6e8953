#include "policy/codegen/cuda/convolution_layout.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "policy/codegen/pass_plan.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_threads = 128;
constexpr int64_t k_widest_tile = 64;         // places along the last dimension
constexpr int64_t k_channels = 16;            // of a thread at a time, at most
constexpr int64_t k_most_channels = 32;       // that a thread reduces
constexpr int64_t k_places = 2;               // of a thread
constexpr int64_t k_enough_blocks = 2048;     // that keep a large GPU busy
constexpr int64_t k_registers = 136;          // of a thread, for sums and what it reads for them
constexpr int64_t k_warp = 32;                // threads
constexpr int64_t k_most_down = 8;            // places of a thread that are one window of a pool
constexpr int64_t k_vector = 4;               // weights that a thread reads at once
constexpr int64_t k_shared_bytes = 48 << 10;  // of a block

const body_access& access_of(const kernel_body& body, int node) {
  return body.accesses[static_cast<std::size_t>(body.nodes[static_cast<std::size_t>(node)].access)];
}

const body_node& node_at(const kernel_body& body, int node) {
  return body.nodes[static_cast<std::size_t>(node)];
}

int contraction_of(const kernel_body& body) {
  return static_cast<int>(std::ranges::find(body.nodes, node_kind::contraction, &body_node::kind) - body.nodes.begin());
}

// What is read of the input must be the same for all results of a place: only then it is staged once for all channels.
expected<void> check_input(const kernel_body& body, const convolution_parts& l) {
  for (const int n : body.made_of({l.input})) {
    const body_node& each = node_at(body, n);
    if (each.kind == node_kind::constant || each.kind == node_kind::pointwise) continue;
    const bool is_slid = each.kind == node_kind::load && each.operands.empty() && access_of(body, n).bounded;
    const bool differs =
        std::ranges::any_of(l.out_axes, [&](int axis) { return is_slid && access_of(body, n).stride(axis) != 0; });
    if (!is_slid || differs)
      return fail(errc::unsupported, "what the convolution reads is made of more than elements of its windows");
  }
  return {};
}

// A pool's windows lie within the block's tile, or are made in passes: then they are all phases, or all places.
expected<void> check_pool(const kernel_body& body, const convolution_parts& l) {
  const pass_plan plan(body);
  for (std::size_t i = 0; i < l.dimensions.size(); ++i)
    if (const auto& d = l.dimensions[i];
        d.phases() > 1 && (d.pool % d.phases() != 0 || (i > 0 && d.pool != d.phases())))
      return fail(errc::unsupported, "the phases of the transposed convolution are no windows of the pool");
  if (body.has_scan() || plan.passes() > 2 ||
      !std::ranges::all_of(body.results, [&](const auto& r) { return plan.is_row_result(r); }))
    return fail(errc::unsupported, "the kernel of a convolution makes nothing but what follows its pool");
  return {};
}

// A thread has all channels of its places, and nothing of others: it reduces over channels only. What reduces places,
// too, is cut.
expected<void> check_columns(const kernel_body& body, const convolution_parts& l) {
  if (body.is_elementwise() && body.has_reduction())
    return fail(errc::unsupported, "the kernel of a convolution reduces no single elements");
  if (reduces_places(body)) return check_reduced_places(body);
  if (l.pools()) return check_pool(body, l);
  if (!l.has_rows(body)) return {};
  if (body.has_scan() || body.dims() - body.row_dims() != 1 || l.out_axes != std::vector{body.row_dims()} ||
      l.groups > 1)
    return fail(errc::unsupported, "the kernel of a convolution reduces its channels only");
  return pass_plan(body).check_row_kernel("");
}

int64_t rounded_up(int64_t number, int64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

// Tiles of about this size that cover the extent with little left over.
int64_t even_tile(int64_t extent, int64_t most) {
  const int64_t tiles = (extent + most - 1) / most;
  return (extent + tiles - 1) / tiles;
}

// As many places of a thread as are wanted, and as its registers hold.
void choose_places(convolution_layout& l, int64_t wanted) {
  if (!l.is_stacked()) return;
  const auto& d = l.dimensions[1];
  const int64_t around = (d.walk.kernel - 1) * d.walk.dilation + 1, window = l.pool_down();
  l.places = rounded_up(std::min(wanted, d.results()), window);
  while (l.places > window && l.places * l.channels + (l.places - 1) * d.walk.stride + around > k_registers)
    l.places = rounded_up(l.places / 2, window);
}

void choose_rows(convolution_layout& l, int64_t threads) {
  l.rows = 1;
  if (!l.is_stacked()) return;
  const int64_t rows = std::max<int64_t>(threads / l.lane().tile, 1);
  const int64_t tile = even_tile(l.dimensions[1].results(), rows * l.places);
  l.rows = (tile + l.places - 1) / l.places;
  l.dimensions[1].tile = l.rows * l.places;
}

// A block that makes several groups of channels stages its input once for them.
void choose_turns(convolution_layout& l, const kernel_body& body) {
  while (l.blocks_of_channels() > 1 && !l.pools()) {
    convolution_layout more = l;
    more.turns *= 2;
    if (more.shared_bytes() > k_shared_bytes || more.blocks(body) < k_enough_blocks) return;
    l = more;
  }
}

}  // namespace

int64_t convolved_dimension::tap_step() const {
  return is_transposed ? walk.stride / std::gcd(walk.stride, walk.dilation) : 1;
}

int64_t convolved_dimension::input_step() const {
  return is_transposed ? walk.dilation / std::gcd(walk.stride, walk.dilation) : walk.dilation;
}

convolved_dimension::phase convolved_dimension::phase_of(int64_t number) const {
  if (!is_transposed) return {walk.kernel, 0, -walk.padding};
  phase out;
  for (int64_t tap = 0; tap < walk.kernel; ++tap) {
    const int64_t at = number + walk.padding - tap * walk.dilation;
    if (at % walk.stride != 0) continue;
    if (out.taps == 0) out.first = tap;
    ++out.taps;
    out.before = at / walk.stride;
  }
  return out;
}

index_expr convolved_dimension::of_phase(const std::string& variable, int64_t phase::*number) const {
  std::vector<int64_t> values;
  for (int64_t n = 0; n < phases(); ++n)
    values.push_back(phase_of(n).*number);
  const auto [least, most] = std::ranges::minmax(values);
  if (least == most) return least;
  std::string text;
  for (std::size_t n = 0; n + 1 < values.size(); ++n)
    text += fmt::format("{} == {} ? {} : ", variable, n, values[n] - least);
  return index_expr::variable(fmt::format("({}{})", text, values.back() - least), most - least + 1) + least;
}

int64_t convolved_dimension::most_taps() const {
  int64_t out = 1;
  for (int64_t i = 0; i < phases(); ++i)
    out = std::max(out, phase_of(i).taps);
  return out;
}

int64_t convolution_parts::weights() const {
  int64_t out = in_channels;
  for (const auto& d : dimensions)
    out *= d.walk.kernel;
  return out;
}

int64_t convolution_parts::blocks_of(const kernel_body& body, int64_t channels) const {
  int64_t out = groups * parts_of_channels(channels) * parts_of_places();
  for (const int axis : batch)
    out *= body.extent(static_cast<std::size_t>(axis));
  return out;
}

int64_t convolution_parts::parts_of_places() const {
  int64_t out = 1;
  for (std::size_t i = 0; i < dimensions.size(); ++i)
    out *= dimensions[i].tiles() * phases_of_blocks(i);
  return out;
}

int64_t convolution_parts::stride_of_channels(const kernel_body& body) const {
  return out_axes.empty() ? 0 : access_of(body, weight).stride(out_axes.back());
}

index_expr convolution_parts::place_of_weight(const kernel_body& body, const index_expr& number) const {
  const body_access& o = access_of(body, weight);
  std::vector<int64_t> extents = {in_channels}, strides = {o.stride(in_channel)};
  for (std::size_t i = dimensions.size(); i-- > 0;) {
    extents.push_back(dimensions[i].walk.kernel);
    strides.push_back(dimensions[i].column < 0 ? 0 : o.stride(dimensions[i].column));
  }
  // They mostly are contiguous for a channel.
  int64_t below = 1;
  bool contiguous = true;
  for (std::size_t i = extents.size(); i-- > 0; below *= extents[i])
    contiguous = contiguous && (extents[i] == 1 || strides[i] == below);
  return contiguous ? number : offset_of(split(number, extents), strides);
}

int64_t convolution_parts::passes() const {
  int64_t out = 1;
  for (std::size_t i = 0; i < dimensions.size(); ++i)
    if (is_in_passes(i)) out *= dimensions[i].pool;
  return out;
}

void set_tiles_of_passes(convolution_parts& l) {
  for (std::size_t i = convolution_parts::first_outer; i < l.dimensions.size(); ++i)
    if (auto& d = l.dimensions[i]; l.is_in_passes(i) && d.phases() == 1) d.tile = d.pool;
}

int64_t convolution_layout::shared_bytes() const {
  int64_t input = in_channels * lane().reach();
  if (is_stacked()) input *= dimensions[1].reach();
  for (std::size_t i = first_outer; i < dimensions.size(); ++i)
    input *= dimensions[i].walk.kernel;
  return 4 * (input + weights() * row_of_weights());
}

bool is_convolution(const kernel_body& body) {
  return body.has_contraction() && !body.windows.empty();
}

namespace {

// The axes of the results along which the weights differ, from the outermost channels to the innermost, so that
// together they number the channels.
expected<void> order_channels(const kernel_body& body, convolution_parts& l) {
  const body_access& weight = access_of(body, l.weight);
  std::ranges::sort(l.out_axes, std::greater<>(), [&](int axis) { return weight.stride(axis); });
  int64_t below = l.out_axes.empty() ? 0 : weight.stride(l.out_axes.back());
  for (std::size_t i = l.out_axes.size(); i-- > 0;) {
    const int64_t extent = body.extent(static_cast<std::size_t>(l.out_axes[i]));
    if (weight.stride(l.out_axes[i]) != below)
      return fail(errc::unsupported, "the weights differ along several dimensions of the results");
    below *= extent;
    l.out_channels *= extent;
  }
  return {};
}

// Of the convolution's windows, which come last, and of the pool's where there are such.
void add_dimensions(const kernel_body& body, convolution_parts& l) {
  const auto count = body.axes.size() - static_cast<std::size_t>(body.dims()) - 1;  // axes of the windows' elements
  const bool pools = body.windows.size() > count;
  for (std::size_t i = count; i-- > 0;) {
    const body_window& w = body.windows[pools ? count + i : i];
    auto& d = l.dimensions.emplace_back(convolved_dimension{w.walk, w.row, w.column, w.is_transposed});
    if (!pools) continue;
    d.pool = body.windows[i].walk.kernel;
    d.pooled = body.windows[i].walk.positions;
    d.pool_axis = body.windows[i].column;
  }
}

}  // namespace

expected<convolution_parts> convolution_parts_of(const kernel_body& body) {
  convolution_parts l;
  l.sum = contraction_of(body);
  const body_node& sum = node_at(body, l.sum);
  l.input = sum.operands[0];
  l.weight = sum.operands[1];
  if (node_at(body, l.weight).kind != node_kind::load)
    return fail(errc::unsupported, "the weights of the convolution are not in memory");
  l.in_channel = sum.axis;
  l.in_channels = body.extent(static_cast<std::size_t>(l.in_channel));
  add_dimensions(body, l);
  for (int d = 0; d < body.dims(); ++d) {
    const auto is_along = [&](const body_window& w) { return w.row == d || w.column == d; };
    if (std::ranges::any_of(body.windows, is_along)) continue;
    if (access_of(body, l.weight).stride(d) == 0) {
      l.batch.push_back(d);
      continue;
    }
    l.out_axes.push_back(d);
  }
  CUDAL1_CHECK(order_channels(body, l));
  CUDAL1_CHECK(check_input(body, l));
  for (const int n : body.made_of({l.input}))
    if (node_at(body, n).kind == node_kind::load)
      for (const auto& d : access_of(body, n).divided)
        l.groups = l.out_channels / d.divisor;
  l.out_channels /= l.groups;
  CUDAL1_CHECK(check_columns(body, l));
  return l;
}

expected<convolution_layout> convolution_layout_of(const kernel_body& body, const kernel_options& options) {
  CUDAL1_TRY(const convolution_parts parts, convolution_parts_of(body));
  convolution_layout l{parts};
  if (l.lane().is_transposed)
    return fail(errc::unsupported, "only kernels on tensor cores make transposed convolutions");
  if (l.has_rows(body) && l.out_channels > k_most_channels)
    return fail(errc::unsupported, "{} channels are more than the {} that a thread reduces", l.out_channels,
                k_most_channels);
  if (l.pools() && (l.lane().pool > k_warp || !std::has_single_bit(static_cast<uint64_t>(l.lane().pool)) ||
                    l.pool_down() > k_most_down))
    return fail(errc::unsupported, "neighbouring threads have no whole window of the pool");
  set_tiles_of_passes(l);
  const auto chosen = [&](std::string_view name, int64_t otherwise) {
    return options[name] > 0 ? options[name] : otherwise;
  };
  l.channels = rounded_up(l.out_channels, k_vector);
  if (!l.has_rows(body)) l.channels = std::min(l.channels, chosen(kernel_tunable::channels, k_channels));
  choose_places(l, chosen(kernel_tunable::items, k_places));
  const int64_t threads = chosen(kernel_tunable::block, k_threads);
  l.dimensions[0].tile = rounded_up(even_tile(l.lane().results(), std::min(k_widest_tile, threads)), l.lane().pool);
  choose_rows(l, threads);
  while (l.shared_bytes() > k_shared_bytes && l.rows > 1)
    choose_rows(l, (l.rows - 1) * l.lane().tile);
  choose_turns(l, body);
  if (l.shared_bytes() > k_shared_bytes)
    return fail(errc::unsupported, "a tile of the convolution's input and its weights take {} bytes of shared memory",
                l.shared_bytes());
  return l;
}

}  // namespace cudal1
