// All elements of a tensor of which an operand has another contiguous dimension: blocks take square tiles, read such
// operands along their own dimension into shared memory, and go on along that of the result.
#include <algorithm>
#include <functional>
#include <numeric>

#include "policy/codegen/cuda/cuda_kernels.hpp"
#include "policy/codegen/kernel_writer.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_side = 32;  // of a tile: a warp's lanes
constexpr int64_t k_threads = 256;
constexpr int64_t k_most_tiles = 5;   // of up to 8 bytes an element, in static shared memory
constexpr int64_t k_least_size = 16;  // of both dimensions; where one is smaller, neighbouring threads share sectors

// Whether it is read from memory once for each element of the kernel, and is contiguous along dimension `d`.
bool is_side_by_side(const kernel_body& body, const body_access& o, std::size_t d) {
  int64_t elements = 1;
  for (const auto size : body.extents())
    elements *= size;
  return 2 * o.type.numel() >= elements && o.gather_count == 0 && o.strides[d] == 1 && o.division_of(d) == nullptr;
}

class cuda_transposed_writer {
 public:
  cuda_transposed_writer(const emit_request& request, std::size_t dimension)
      : w_(request),
        across_(dimension),
        along_(static_cast<std::size_t>(w_.body().dims()) - 1),
        threads_(request.options[kernel_tunable::block] > 0 ? request.options[kernel_tunable::block] : k_threads),
        grid_(grid()),
        b_(threads_, std::accumulate(grid_.begin(), grid_.end(), int64_t{1}, std::multiplies<>())) {}

  expected<emitted_kernel> write() {
    w_.open_kernel(threads_);
    at_ = w_.add_tensors(b_);
    for (std::size_t n = 0; n < w_.body().nodes.size(); ++n)
      if (is_tiled(static_cast<int>(n)))
        tiles_[static_cast<int>(n)] =
            b_.array(w_.variable(static_cast<int>(n)) + "_tile", w_.node(static_cast<int>(n)).type, tile::space::shared,
                     {k_side, k_side + 1});
    const index_expr thread = index_expr::variable("threadIdx.x", threads_);
    const auto own = b_.let("int", {{"lane", thread % 32}, {"part", thread / 32}});
    const int64_t blocks = std::accumulate(grid_.begin(), grid_.end(), int64_t{1}, std::multiplies<>());
    auto at = split(index_expr::variable("blockIdx.x", blocks), grid_);
    for (auto& each : at)
      each = each.as("int");
    const auto start = b_.let("int", {{"along", at.back() * k_side}, {"across", at[at.size() - 2] * k_side}});
    for (std::size_t d = 0, each = 0; d < along_; ++d)
      if (d != across_) b_.let("int", fmt::format("i{}", d), at[each++]);
    write_rounds(across_, own, start, [&](const index_expr& row) {
      for (const auto& [n, tile] : tiles_)
        b_.store({tile, {row, own[0]}},
                 tile::value::element(w_.place_of(n, at_, offset(operand_of(n))), w_.node(n).type));
    });
    b_.barrier();
    write_rounds(along_, own, start, [&](const index_expr& row) { write_elements(own[0], row); });
    return w_.finished(std::move(b_).finish());
  }

 private:
  // The extents of the grid of blocks: the other dimensions, then tiles across and along.
  std::vector<int64_t> grid() const {
    std::vector<int64_t> out;
    for (std::size_t d = 0; d < along_; ++d)
      if (d != across_) out.push_back(w_.body().extent(d));
    out.insert(out.end(), {tiles(across_), tiles(along_)});
    return out;
  }
  int64_t tiles(std::size_t d) const { return (w_.body().extent(d) + k_side - 1) / k_side; }
  const body_access& operand_of(int n) const { return w_.body().accesses[static_cast<std::size_t>(w_.node(n).access)]; }
  bool is_tiled(int n) const {
    return w_.is_needed(n) && w_.node(n).kind == node_kind::load && w_.node(n).operands.empty() &&
           is_side_by_side(w_.body(), operand_of(n), across_);
  }

  index_expr offset(const body_access& o) const {
    auto at = named_coordinates("i", w_.body().extents());
    for (std::size_t d = 0; d < at.size(); ++d)
      if (o.strides[d] != 1) at[d] = at[d].as("long long");
    return offset_in(o, at);
  }

  // A loop over the tile, its lanes along dimension `lanes`, and the rounds of its warps along the other one, of which
  // the body gets the place in the tile.
  void write_rounds(std::size_t lanes, const std::vector<index_expr>& own, const std::vector<index_expr>& start,
                    const std::function<void(const index_expr&)>& body) {
    const std::size_t other = lanes == along_ ? across_ : along_;
    const auto from = [&](std::size_t d) { return d == along_ ? start[0] : start[1]; };
    b_.loop("k", k_side * 32 / threads_, tile::unrolling::whole, [&](const index_expr& k) {
      const index_expr row = own[1] + k * (threads_ / 32);
      const auto at = b_.let(
          "int", {{fmt::format("i{}", lanes), from(lanes) + own[0]}, {fmt::format("i{}", other), from(other) + row}});
      std::vector<tile::condition> inside;
      for (const std::size_t d : {lanes, other})
        if (w_.body().extent(d) % k_side != 0)
          inside.push_back({at[d == lanes ? 0 : 1], tile::condition::how::below, w_.body().extent(d)});
      b_.guard(std::move(inside), [&] { body(row); });
    });
  }

  void write_elements(const index_expr& lane, const index_expr& row) {
    std::vector<int> nodes(w_.body().nodes.size());
    std::iota(nodes.begin(), nodes.end(), 0);
    w_.define_nodes(b_, nodes, [&](int n) {
      const auto tiled = tiles_.find(n);
      return tile::value::element(
          tiled != tiles_.end() ? tile::access{tiled->second, {lane, row}} : w_.place_of(n, at_, offset(operand_of(n))),
          w_.node(n).type);
    });
    for (const auto& [r, target] : at_.results) {
      const auto& result = w_.body().results[static_cast<std::size_t>(r)];
      b_.store({target, {offset(result.target)}}, w_.named(result.node));
    }
  }

  kernel_writer w_;
  std::size_t across_, along_;
  int64_t threads_;
  std::vector<int64_t> grid_;
  tile::kernel_builder b_;
  kernel_writer::tensors at_;
  std::map<int, tile::buffer_id> tiles_;  // by the load of each
};

}  // namespace

std::optional<std::size_t> transposed_dimension(const kernel_body& body) {
  if (!body.is_elementwise() || body.dims() < 2 || body.axes.back().extent < k_least_size) return std::nullopt;
  const std::size_t along = static_cast<std::size_t>(body.dims()) - 1;
  for (const auto& r : body.results)
    if (r.target.strides[along] != 1) return std::nullopt;
  for (std::size_t d = along; d-- > 0;) {
    if (body.extent(d) < k_least_size) continue;
    const auto tiles =
        std::ranges::count_if(body.accesses, [&](const body_access& o) { return is_side_by_side(body, o, d); });
    if (tiles > 0) return tiles <= k_most_tiles ? std::optional(d) : std::nullopt;
  }
  return std::nullopt;
}

expected<emitted_kernel> emit_cuda_transposed(const emit_request& request, std::size_t dimension) {
  return cuda_transposed_writer(request, dimension).write();
}

}  // namespace cudal1
