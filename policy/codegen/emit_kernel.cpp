#include "policy/codegen/emit_kernel.hpp"

#include <algorithm>
#include <optional>

#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/kernel_writer.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_split_from = 1 << 15;     // elements of a single row, before it is cut into parts
constexpr int64_t k_part_elements = 1 << 14;  // of a part, about
constexpr int64_t k_broadcast_columns = 256;  // of a row of a broadcasting pointwise kernel, at least

bool is_elementwise(const kernel_body& body) {
  return body.row_dims == static_cast<int>(body.domain.size());
}

bool has_scan(const kernel_body& body) {
  return std::any_of(body.nodes.begin(), body.nodes.end(), [](const auto& n) { return n.kind == node_kind::scan; });
}

// A broadcasting pointwise body as rows and columns: enough of the last dimensions to loop over.
kernel_body with_columns(kernel_body body) {
  int64_t columns = 1;
  while (body.row_dims > 1 && columns < k_broadcast_columns) {
    --body.row_dims;
    columns *= body.domain[static_cast<std::size_t>(body.row_dims)];
  }
  for (auto& n : body.nodes) {
    if (n.kind == node_kind::load) {
      n.per_row = is_one_a_row(body.operands[static_cast<std::size_t>(n.operand)].strides, body.row_dims);
    } else if (n.kind == node_kind::pointwise) {
      n.per_row = std::all_of(n.operands.begin(), n.operands.end(),
                              [&](int o) { return body.nodes[static_cast<std::size_t>(o)].per_row; });
    }
  }
  return body;
}

struct two_phases {
  kernel_body parts, total;
};

// One row of very many columns with one round of reductions: parts of it, then the parts. So the work spreads, and the
// additions stay few.
std::optional<two_phases> split_single_row(const kernel_body& whole, const std::string& prefix) {
  if (whole.rows() != 1 || whole.row_dims != 0 || whole.columns() < k_split_from || has_scan(whole))
    return std::nullopt;
  for (const auto& r : whole.results) {
    if (std::any_of(r.target.strides.begin(), r.target.strides.end(), [](int64_t s) { return s != 0; }))
      return std::nullopt;
  }
  std::vector<bool> behind(whole.nodes.size(), false);  // a reduction
  for (std::size_t i = 0; i < whole.nodes.size(); ++i) {
    const auto& n = whole.nodes[i];
    for (const int o : n.operands)
      behind[i] = behind[i] || behind[static_cast<std::size_t>(o)];
    if (n.kind == node_kind::reduce && behind[i]) return std::nullopt;
    if (behind[i] && !n.per_row) return std::nullopt;
    if (n.kind == node_kind::reduce) behind[i] = true;
  }
  two_phases out{whole, whole};
  // The parts are rows of their own.
  if (whole.domain.size() == 1) {
    int64_t part = 0;
    for (int64_t size = k_part_elements; size <= 4 * k_part_elements && part == 0; ++size)
      if (whole.domain[0] % size == 0) part = size;
    for (int64_t size = k_part_elements; size >= k_part_elements / 8 && part == 0; --size)
      if (whole.domain[0] % size == 0) part = size;
    if (part == 0) return std::nullopt;
    out.parts.domain = {whole.domain[0] / part, part};
    for (auto& o : out.parts.operands)
      o.strides = {o.strides[0] * part, o.strides[0]};
  }
  out.parts.row_dims = 1;
  const int64_t count = out.parts.domain[0];
  if (count < 2) return std::nullopt;
  out.parts.results.clear();
  out.total.domain = {count};
  out.total.operands.clear();
  for (auto& r : out.total.results)
    r.target.strides = {0};
  std::vector<body_node> nodes;
  for (std::size_t i = 0; i < whole.nodes.size(); ++i) {
    if (whole.nodes[i].kind != node_kind::reduce) continue;
    body_operand partial;
    partial.value = fmt::format("{}_part{}", prefix, out.parts.results.size());
    partial.type = contiguous(dtype::float32, {count});
    partial.strides.assign(out.parts.domain.size(), 0);
    partial.strides[0] = 1;
    out.parts.results.push_back({static_cast<int>(i), partial});
    // In the second phase the parts take the place of the elements: the node they came from becomes their load.
    const auto from = static_cast<std::size_t>(whole.nodes[i].operands[0]);
    body_node load;
    load.kind = node_kind::load;
    load.value = partial.value;
    load.operand = static_cast<int>(out.total.operands.size());
    partial.strides = {1};
    out.total.operands.push_back(std::move(partial));
    // Two reductions of one value need a load each.
    const bool shared = std::count_if(whole.nodes.begin(), whole.nodes.end(), [&](const auto& n) {
                          return n.kind == node_kind::reduce && n.operands[0] == static_cast<int>(from);
                        }) > 1;
    if (shared) return std::nullopt;
    out.total.nodes[from] = std::move(load);
  }
  // Values a row that were read in the first phase only would be loads without an operand now.
  for (std::size_t i = 0; i < out.total.nodes.size(); ++i) {
    const auto& n = out.total.nodes[i];
    if (n.kind == node_kind::load && n.value.rfind(prefix + "_part", 0) != 0) out.total.nodes[i].operand = -1;
  }
  const auto reads_parts_only = [&](int root) {
    std::vector<int> reach{root};
    while (!reach.empty()) {
      const auto& n = out.total.nodes[static_cast<std::size_t>(reach.back())];
      reach.pop_back();
      if (n.kind == node_kind::load && n.operand < 0) return false;
      reach.insert(reach.end(), n.operands.begin(), n.operands.end());
    }
    return true;
  };
  for (const auto& r : out.total.results) {
    if (!reads_parts_only(r.node)) return std::nullopt;
  }
  return out;
}

// A reduction over dimensions of size one, which are gone: a row of one column.
kernel_body with_one_column(kernel_body body) {
  body.domain.push_back(1);
  for (auto& o : body.operands)
    o.strides.push_back(0);
  for (auto& r : body.results)
    r.target.strides.push_back(0);
  return body;
}

expected<emitted_kernel> emit_one(const emit_request& request) {
  if (is_elementwise(*request.body) && request.body->has_reduction()) {
    const kernel_body rows = with_one_column(*request.body);
    emit_request again = request;
    again.body = &rows;
    return emit_one(again);
  }
  if (request.kind == device_kind::cuda)
    return is_elementwise(*request.body) ? emit_cuda_elements(request) : emit_cuda_rows(request);
  if (is_elementwise(*request.body)) {
    if (request.body->domain.size() <= 1) return emit_elements(request);
    const kernel_body rows = with_columns(*request.body);
    emit_request again = request;
    again.body = &rows;
    return emit_rows(again);
  }
  if (wants_tiles(*request.body)) return emit_tiles(request);
  return emit_rows(request);
}

// The last phase alone may write over what it reads: the others are done with it by then.
bool may_end_in_place(const std::vector<kernel_body>& phases, const std::string& operand) {
  return phases.back().results.size() == 1 &&
         std::ranges::count(phases.back().operands, operand, &body_operand::value) == 1;
}

// One kernel, or the phases of one that few blocks would have to do.
expected<emitted_kernel> emit_for_cuda(const emit_request& request) {
  const std::string& in_place = request.options.in_place;
  std::vector<kernel_body> phases;
  if (request.body->has_reduction() && !is_elementwise(*request.body)) phases = split_rows(*request.body, request.name);
  if (phases.empty() || (!in_place.empty() && !may_end_in_place(phases, in_place))) return emit_one(request);
  emitted_kernel out;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    emit_request phase = request;
    phase.body = &phases[i];
    phase.name = i + 1 == phases.size() ? request.name : fmt::format("{}_phase{}", request.name, i);
    phase.comment = fmt::format("{}: phase {} of {}", request.comment, i + 1, phases.size());
    if (i > 0) phase.options = {};  // choices are for the kernel that reads everything
    phase.options.in_place = i + 1 == phases.size() ? in_place : "";
    CUDAL1_TRY(emitted_kernel kernel, emit_one(phase));
    out.source += (i > 0 ? "\n" : "") + kernel.source;
    out.steps.insert(out.steps.end(), std::make_move_iterator(kernel.steps.begin()),
                     std::make_move_iterator(kernel.steps.end()));
  }
  return out;
}

}  // namespace

bool wants_tiles(const kernel_body& body) {
  if (body.row_dims == 0 || is_elementwise(body)) return false;
  const auto row = static_cast<std::size_t>(body.row_dims) - 1;
  const auto column = body.domain.size() - 1;
  int64_t beside = 0, along = 0;
  for (const auto& o : body.operands) {
    // One value a row is read once, however it lies.
    if (is_one_a_row(o.strides, body.row_dims)) continue;
    if (o.strides[row] == 1) ++beside;
    if (o.strides[column] == 1) ++along;
  }
  return beside > along && body.domain[row] >= 8;
}

int64_t default_threads(const kernel_body& body, device_kind kind) {
  if (kind == device_kind::cuda) return 256;
  if (is_elementwise(body)) return 256;
  return std::clamp<int64_t>(body.rows() / 8, 1, 16);
}

int64_t default_items(const kernel_body& body, device_kind kind) {
  if (kind == device_kind::cuda || is_elementwise(body)) return 1;
  return 64;
}

// Loops of 16 are taken apart before the host compiler vectorises, and then a maximum or an exponential stays scalar;
// loops of 32 are not.
int64_t default_accumulators() {
  return 32;
}

expected<emitted_kernel> emit_kernel(const emit_request& request) {
  if (request.kind == device_kind::cuda) return emit_for_cuda(request);
  if (request.options.in_place.empty()) {
    if (const auto phases = split_single_row(*request.body, request.name)) {
      emit_request first = request, second = request;
      first.body = &phases->parts;
      first.name = request.name + "_parts";
      first.comment = request.comment + ": parts";
      second.body = &phases->total;
      second.options.threads = 1;
      second.comment = request.comment + ": the parts together";
      CUDAL1_TRY(emitted_kernel parts, emit_one(first));
      CUDAL1_TRY(emitted_kernel total, emit_one(second));
      parts.source += "\n" + total.source;
      parts.steps.insert(parts.steps.end(), total.steps.begin(), total.steps.end());
      return parts;
    }
  }
  return emit_one(request);
}

}  // namespace cudal1
