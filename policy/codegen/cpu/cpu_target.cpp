#include "policy/codegen/cpu/cpu_target.hpp"

#include <algorithm>
#include <array>

#include "policy/codegen/cpu/cpu_kernels.hpp"
#include "policy/codegen/cpu/split_single_row.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_broadcast_columns = 256;  // minimum, in a broadcasting pointwise kernel
constexpr int64_t k_shortest_loop = 64;       // minimum elements per block of a pointwise kernel

// A broadcasting pointwise body as rows and columns: as many of the last dimensions become columns as make a long
// enough loop.
kernel_body with_columns(kernel_body body) {
  int64_t columns = 1;
  while (body.row_dims() > 1 && columns < k_broadcast_columns) {
    body_axis& last = body.axes[static_cast<std::size_t>(body.row_dims()) - 1];
    last.role = axis_role::reduced;
    columns *= last.extent;
  }
  for (auto& n : body.nodes) {
    if (n.kind == node_kind::load) {
      n.per_row = body.is_one_per_row(body.accesses[static_cast<std::size_t>(n.access)].strides) &&
                  (n.operands.empty() || body.nodes[static_cast<std::size_t>(n.operands[0])].per_row);
    } else if (n.kind == node_kind::pointwise) {
      n.per_row = std::all_of(n.operands.begin(), n.operands.end(),
                              [&](int o) { return body.nodes[static_cast<std::size_t>(o)].per_row; });
    }
  }
  return body;
}

// Whether a thread takes a tile of rows.
bool takes_tiles(const kernel_body& body) {
  return has_adjacent_rows(body) &&
         std::ranges::all_of(body.accesses, [](const body_access& o) { return o.divided.empty(); });
}

expected<emitted_kernel> emit_one(const emit_request& request) {
  emit_request again = request;
  if (const auto rows = with_one_column(*request.body)) {
    again.body = &*rows;
    return emit_one(again);
  }
  if (!request.body->is_elementwise()) return takes_tiles(*request.body) ? emit_tiles(request) : emit_rows(request);
  if (request.body->dims() <= 1) return emit_elements(request);
  const kernel_body rows = with_columns(*request.body);
  again.body = &rows;
  return emit_rows(again);
}

// Whether the kernel is one loop over all elements.
bool is_loop(const kernel_body& body) {
  return body.is_elementwise() && body.dims() <= 1;
}

class cpu_target final : public lowering_target {
 public:
  std::string_view name() const override { return "cpu"; }
  bool convolutions_add_bias() const override { return true; }

  expected<emitted_kernel> emit(const emit_request& request) const override {
    if (request.body->has_contraction()) return fail(errc::unsupported, "products are library calls on the CPU");
    if (!request.body->windows.empty()) return fail(errc::unsupported, "pools are library calls on the CPU");
    if (!request.options.in_place.empty()) return emit_one(request);
    const auto phases = split_single_row(*request.body, request.values);
    if (!phases) return emit_one(request);
    emit_request first = request, second = request;
    first.body = &phases->parts;
    first.name = request.name + "_parts";
    first.comment = request.comment + ": parts";
    second.body = &phases->total;
    second.options.choose(kernel_tunable::block, 1);
    second.comment = request.comment + ": the parts together";
    CUDAL1_TRY(emitted_kernel parts, emit_one(first));
    CUDAL1_TRY(emitted_kernel total, emit_one(second));
    parts.append(std::move(total));
    return parts;
  }

  std::span<const kernel_tunable> tunables() const override {
    static constexpr std::array<int64_t, 6> k_threads{1, 4, 16, 64, 256, 1024}, k_items{1, 16, 64, 256, 1024, 4096};
    static constexpr std::array<int64_t, 3> k_accumulators{16, 32, 64};
    static const std::array all{
        declared(kernel_tunable::block, k_threads,
                 [](int64_t value, const kernel_body& body, const kernel_options& now) {
                   // With one element per thread, the loop over a block's threads is the one that vectorises.
                   return !is_loop(body) || value * std::max<int64_t>(now[kernel_tunable::items], 1) >= k_shortest_loop;
                 }),
        declared(kernel_tunable::items, k_items,
                 [](int64_t, const kernel_body& body, const kernel_options&) {
                   return body.is_elementwise() ? is_loop(body) : takes_tiles(body);
                 }),
        declared(kernel_tunable::unroll, k_accumulators, [](int64_t, const kernel_body& body, const kernel_options&) {
          return body.has(node_kind::reduce) && !takes_tiles(body);
        })};
    return all;
  }

  bool is_useful(std::string_view name, int64_t value, const kernel_body& body,
                 const kernel_options& now) const override {
    const auto found = std::ranges::find(tunables(), name, &kernel_tunable::name);
    return found != tunables().end() && found->is_useful(value, body, now);
  }
};

}  // namespace

tile::buffer_id stack_arrays::declare(tile::kernel_builder& b, std::string name, dtype type, int64_t elements,
                                      std::string remark) {
  bytes_ += bytes_of(type, elements);
  return b.array(std::move(name), type, tile::space::registers, {elements}, {}, std::move(remark));
}

// The host compiler unrolls loops over 16 accumulators before it vectorises, and then a maximum or an exponential stays
// scalar; it does not unroll loops over 32.
kernel_options with_cpu_defaults(const kernel_body& body, kernel_options options) {
  const auto set = [&](std::string_view name, int64_t number) {
    if (options[name] == 0) options.choose(name, number);
  };
  const bool elementwise = body.is_elementwise();
  set(kernel_tunable::block, elementwise ? 256 : std::clamp<int64_t>(body.rows() / 8, 1, 16));
  set(kernel_tunable::items, elementwise ? 1 : 64);
  set(kernel_tunable::unroll, 32);
  return options;
}

std::unique_ptr<const lowering_target> make_cpu_target() {
  return std::make_unique<cpu_target>();
}

}  // namespace cudal1
