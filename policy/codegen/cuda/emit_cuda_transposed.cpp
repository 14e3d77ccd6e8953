// All elements of a tensor of which an operand has another dimension side by side in memory: blocks take square tiles,
// read such operands along their own dimension into shared memory, and go on along that of the result.
#include <algorithm>
#include <functional>
#include <numeric>

#include "policy/codegen/c_text.hpp"
#include "policy/codegen/cuda/cuda_kernels.hpp"
#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/cuda/warp_access.hpp"
#include "policy/codegen/kernel_writer.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_side = 32;  // of a tile: a warp's lanes
constexpr int64_t k_threads = 256;
constexpr int64_t k_most_tiles = 5;   // of up to 8 bytes an element, in static shared memory
constexpr int64_t k_least_size = 16;  // of both dimensions; where one is smaller, neighbouring threads share sectors
constexpr double k_index = 10;        // instructions of a division by a constant
constexpr double k_exchange = 60;     // cycles that a warp waits for the others

// Whether it is read from memory once for each element of the kernel, along dimension `d` side by side.
bool is_side_by_side(const kernel_body& body, const body_operand& o, std::size_t d) {
  int64_t elements = 1;
  for (const auto size : body.domain)
    elements *= size;
  return 2 * o.type.numel() >= elements && o.lookup_count == 0 && o.strides[d] == 1;
}

class cuda_transposed_writer {
 public:
  cuda_transposed_writer(const emit_request& request, std::size_t dimension)
      : w_(request), across_(dimension), along_(w_.body().domain.size() - 1) {
    threads_ = request.options.threads > 0 ? request.options.threads : k_threads;
  }

  emitted_kernel write() {
    const auto& domain = w_.body().domain;
    w_.open_kernel(threads_);
    for (const int n : tiled())
      w_.line(fmt::format("__shared__ {} {}[{}][{}];", c_type(w_.node(n).type), tile(n), k_side, k_side + 1));
    w_.line("const int lane = threadIdx.x % 32, part = threadIdx.x / 32;");
    std::vector<int64_t> grid;  // of blocks: the other dimensions, then tiles across and along
    for (std::size_t d = 0; d < along_; ++d)
      if (d != across_) grid.push_back(domain[d]);
    grid.insert(grid.end(), {tiles(across_), tiles(along_)});
    const int64_t blocks = std::accumulate(grid.begin(), grid.end(), int64_t{1}, std::multiplies<>());
    auto at = split(index_expr::variable("blockIdx.x", blocks), grid);
    for (auto& each : at)
      each = each.as("int");
    const index_expr along = at.back() * k_side, across = at[at.size() - 2] * k_side;
    w_.line(fmt::format("const int along = {}, across = {};", along.text(), across.text()));
    for (std::size_t d = 0, own = 0; d < along_; ++d)
      if (d != across_) w_.line(fmt::format("const int i{} = {};", d, at[own++].text()));
    write_tiles();
    w_.line("__syncthreads();");
    write_elements();
    w_.close();
    auto out = w_.finished(blocks, threads_);
    out.work[w_.request().name] = work();
    return out;
  }

 private:
  int64_t tiles(std::size_t d) const { return (w_.body().domain[d] + k_side - 1) / k_side; }
  int64_t rounds() const { return k_side * 32 / threads_; }
  std::string tile(int n) const { return w_.variable(n) + "_tile"; }
  const body_operand& operand_of(int n) const {
    return w_.body().operands[static_cast<std::size_t>(w_.node(n).operand)];
  }
  bool is_load(int n) const { return w_.is_needed(n) && w_.node(n).kind == node_kind::load; }
  bool is_tiled(int n) const {
    return is_load(n) && w_.node(n).operands.empty() && is_side_by_side(w_.body(), operand_of(n), across_);
  }
  std::vector<int> tiled() const {
    std::vector<int> out;
    for (std::size_t n = 0; n < w_.body().nodes.size(); ++n)
      if (is_tiled(static_cast<int>(n))) out.push_back(static_cast<int>(n));
    return out;
  }

  std::string offset(const body_operand& o) const {
    auto at = named_coordinates("i", w_.body().domain);
    for (std::size_t d = 0; d < at.size(); ++d)
      if (o.strides[d] != 1) at[d] = at[d].as("long long");
    return offset_of(at, o.strides).text();
  }

  // A loop over the tile, its lanes along dimension `lanes`, and the rounds of its warps along the other one.
  void open_rounds(std::size_t lanes) {
    const std::size_t other = lanes == along_ ? across_ : along_;
    const auto start = [&](std::size_t d) { return d == along_ ? "along" : "across"; };
    w_.open_unrolled(fmt::format("for (int k = 0; k < {}; ++k)", rounds()));
    w_.line(fmt::format("const int i{} = {} + lane, i{} = {} + part + k * {};", lanes, start(lanes), other,
                        start(other), threads_ / 32));
    std::string inside;
    for (const std::size_t d : {lanes, other})
      if (w_.body().domain[d] % k_side != 0)
        inside += fmt::format("{}i{} < {}", inside.empty() ? "" : " && ", d, w_.body().domain[d]);
    is_guarded_ = !inside.empty();
    if (is_guarded_) w_.open(fmt::format("if ({})", inside));
  }
  void close_rounds() {
    if (is_guarded_) w_.close();
    w_.close();
  }

  void write_tiles() {
    open_rounds(across_);
    for (const int n : tiled())
      w_.line(fmt::format("{}[part + k * {}][lane] = {};", tile(n), threads_ / 32,
                          loaded(operand_of(n).type.type,
                                 fmt::format("{}[{}]", w_.pointer(w_.node(n).operand), offset(operand_of(n))))));
    close_rounds();
  }

  void write_elements() {
    open_rounds(along_);
    for (std::size_t each = 0; each < w_.body().nodes.size(); ++each) {
      const int n = static_cast<int>(each);
      const body_node& from = w_.node(n);
      if (!w_.is_needed(n) || from.kind == node_kind::constant) continue;
      const std::string value = is_tiled(n)  ? fmt::format("{}[lane][part + k * {}]", tile(n), threads_ / 32)
                                : is_load(n) ? w_.element(n, w_.pointer(from.operand), offset(operand_of(n)))
                                             : w_.expression(n);
      w_.define(n, value);
    }
    for (std::size_t r = 0; r < w_.body().results.size(); ++r) {
      const auto& result = w_.body().results[r];
      w_.line(fmt::format("{}[{}] = {};", w_.target(static_cast<int>(r)), offset(result.target),
                          stored(result.target.type.type, w_.spelled(result.node))));
    }
    close_rounds();
  }

  kernel_work work() const {
    const auto& body = w_.body();
    const auto along = [&](std::size_t d) {
      return [&body, d](int64_t lane) {
        std::vector<int64_t> index(body.domain.size());
        index[d] = std::min(lane, body.domain[d] - 1);
        return index;
      };
    };
    warp_access tiles, others, written;
    std::vector<int> nodes;
    for (std::size_t each = 0; each < body.nodes.size(); ++each) {
      const int n = static_cast<int>(each);
      if (w_.is_needed(n)) nodes.push_back(n);
      if (!is_load(n)) continue;
      (is_tiled(n) ? tiles : others) += access_of_warp(operand_of(n), 1, along(is_tiled(n) ? across_ : along_));
    }
    for (const auto& r : body.results)
      written += access_of_warp(r.target, 1, along(along_));
    const auto count = static_cast<double>(rounds());
    kernel_work out;
    out.loops.push_back({.reads = count * tiles.instructions,
                         .read_sectors = count * tiles.sectors,
                         .operations = k_index * static_cast<double>(body.domain.size()) + 2 * count,
                         .end_cycles = k_exchange});
    out.loops.push_back({.reads = count * others.instructions,
                         .read_sectors = count * others.sectors,
                         .written_sectors = count * written.sectors,
                         .operations = count * (operations_of(body, nodes) + 4)});
    return out;
  }

  kernel_writer w_;
  std::size_t across_, along_;
  int64_t threads_ = 0;
  bool is_guarded_ = false;
};

}  // namespace

std::optional<std::size_t> transposed_dimension(const kernel_body& body) {
  if (!body.is_elementwise() || body.domain.size() < 2 || body.domain.back() < k_least_size) return std::nullopt;
  const std::size_t along = body.domain.size() - 1;
  for (const auto& r : body.results)
    if (r.target.strides[along] != 1) return std::nullopt;
  for (std::size_t d = along; d-- > 0;) {
    if (body.domain[d] < k_least_size) continue;
    const auto tiles =
        std::ranges::count_if(body.operands, [&](const body_operand& o) { return is_side_by_side(body, o, d); });
    if (tiles > 0) return tiles <= k_most_tiles ? std::optional(d) : std::nullopt;
  }
  return std::nullopt;
}

emitted_kernel emit_cuda_transposed(const emit_request& request, std::size_t dimension) {
  return cuda_transposed_writer(request, dimension).write();
}

}  // namespace cudal1
