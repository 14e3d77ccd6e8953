// Frames of kernels that compute rows.
#include <algorithm>
#include <array>
#include <cstdlib>

#include <fmt/format.h>

#include "policy/prompt/tile_frame.hpp"
#include "policy/tile/c_text.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

constexpr int64_t longest_row = 16384, longest_elementwise_row = 8192, most_of_thread = 64;

std::vector<int64_t> integers_of(const json* value) {
  if (value == nullptr) return {};
  if (value->is_int()) return {value->as_int()};
  std::vector<int64_t> out;
  if (value->is_array())
    for (const auto& item : value->as_array())
      if (item.is_int()) out.push_back(item.as_int());
  return out;
}

// Of the step's first operand.
const tensor_type* operand_type(const task& t, const aten_step& s) {
  for (const auto& [name, value] : s.args)
    if (value.is_string())
      if (const auto found = t.reference.types.find(value.as_string()); found != t.reference.types.end())
        return &found->second;
  return nullptr;
}

// Whether these are the last dimensions of `rank`.
bool are_last(std::vector<int64_t> dims, int64_t rank) {
  for (auto& d : dims)
    d = d < 0 ? d + rank : d;
  std::ranges::sort(dims);
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != rank - std::ssize(dims) + static_cast<int64_t>(i)) return false;
  return !dims.empty();
}

// How many of the operand's last dimensions the step reduces to one value or normalizes; 0: another extent.
std::size_t reduced_dims(const row_kernel& rows, const aten_step& s, const tensor_type& operand) {
  switch (rows.form) {
    case row_form::running_sum:
    case row_form::loss:
    case row_form::pairwise_distance:
    case row_form::cosine_similarity:
    case row_form::triplet_margin:
    case row_form::cosine_embedding:
    case row_form::maximum_value:
    case row_form::minimum_value:
      return 0;
    default:
      break;
  }
  switch (rows.extent) {
    case row_extent::dim:
    case row_extent::dim_list: {
      const auto dims = integers_of(step_argument(s, "dim"));
      return are_last(dims, operand.dim()) ? dims.size() : 0;
    }
    case row_extent::normalized_shape:
      return integers_of(step_argument(s, "normalized_shape")).size();
    case row_extent::channels:
      return operand.dim() > 2 ? static_cast<std::size_t>(operand.dim() - 2) : 0;
    default:
      return 0;
  }
}

// What the steps say about rows.
struct row_facts {
  bool has_rows = true;               // nothing else is computed
  std::size_t dims = 0;               // of a row; 0: all steps are elementwise
  std::vector<int64_t> domain;        // the operand of the first reduction
  std::vector<std::string> channels;  // tensors with one element for each channel, dimension 1
};

bool is_channel_affine(const aten_step& s, const operator_record& r) {
  if (!r.traits.kernel || r.traits.kernel->form != kernel_form::channel_affine) return false;
  const auto* training = step_argument(s, "training");
  return training == nullptr || (training->is_bool() && !training->as_bool());
}

void note_channels(const aten_step& s, row_facts& to) {
  for (const char* name : {"weight", "bias", "running_mean", "running_var"})
    if (const auto* value = step_argument(s, name); value != nullptr && value->is_string())
      to.channels.push_back(value->as_string());
}

row_facts facts_of(const task& t) {
  row_facts out;
  const auto& steps = t.reference.text.steps;
  for (std::size_t i = 0; i < steps.size() && out.has_rows; ++i) {
    const auto& s = std::get<aten_step>(steps[i]);
    const auto* op = find_operator(s.op);
    const auto* record = op == nullptr ? nullptr : op->record;
    const auto* operand = operand_type(t, s);
    out.has_rows = record != nullptr && operand != nullptr;
    if (!out.has_rows) break;
    if (is_channel_affine(s, *record)) {
      note_channels(s, out);
    } else if (record->traits.rows) {
      const std::size_t dims = reduced_dims(*record->traits.rows, s, *operand);
      const bool is_first = out.dims == 0;
      out.has_rows = dims > 0 && (is_first || (dims == out.dims && operand->shape == out.domain));
      if (is_first) out.domain = operand->shape;
      out.dims = dims;
      if (record->traits.rows->extent == row_extent::channels) note_channels(s, out);
    } else {
      out.has_rows = record->kind == operator_kind::pointwise;
    }
  }
  return out;
}

int64_t product_of(const std::vector<int64_t>& shape, std::size_t from, std::size_t to) {
  int64_t out = 1;
  for (std::size_t d = from; d < to; ++d)
    out *= shape[d];
  return out;
}

// By rows of the last `dims` dimensions; none if a tensor does not lie so.
std::optional<tile_frame> frame_by(const task& t, const row_facts& facts, const std::vector<int64_t>& domain,
                                   std::size_t dims) {
  tile_frame out;
  out.kind = "rows";
  const std::size_t lead = domain.size() - dims;
  out.rows = product_of(domain, 0, lead);
  out.columns = product_of(domain, lead, domain.size());
  constexpr int64_t piece = 4;
  if (out.columns % piece != 0 || out.columns > longest_row || out.columns < piece) return std::nullopt;
  for (const auto* list : {&t.reference.text.inputs, &t.reference.text.weights})
    for (const auto& d : *list) {
      auto type = d.type;
      if (std::ranges::count(facts.channels, d.name) > 0 && type.dim() == 1 && domain.size() > 1) {
        std::vector<int64_t> shape(domain.size() - 1, 1);
        shape[0] = type.shape[0];
        type = contiguous(type.type, shape);
      }
      auto placed = placed_in(d.name, type, domain, dims);
      if (!placed) return std::nullopt;
      out.read.push_back(std::move(*placed));
    }
  for (const auto& name : t.reference.text.outputs) {
    auto type = t.reference.types.at(name);
    const auto lead_shape = std::vector<int64_t>(domain.begin(), domain.begin() + static_cast<std::ptrdiff_t>(lead));
    if (facts.dims > 0 && type.shape == lead_shape) {
      type.shape.resize(domain.size(), 1);
      type = contiguous(type.type, type.shape);
    }
    auto placed = placed_in(name, type, domain, dims);
    // Every row has its own.
    if (!placed || placed->row != (out.rows == 1 ? "0" : "row")) return std::nullopt;
    out.written.push_back(std::move(*placed));
  }
  return out;
}

// Threads of a block: with as many elements for each, if the row can be divided so.
std::vector<std::string> thread_choices(int64_t columns) {
  constexpr int64_t warp = 32, usual = 256, most_threads = 1024;
  constexpr std::size_t most_choices = 6;
  std::vector<int64_t> even, uneven;
  for (int64_t threads = warp; threads <= most_threads; threads += warp) {
    const int64_t each = elements_of_thread(columns, threads);
    if (each > most_of_thread || threads * 2 > columns) continue;
    (each * threads == columns ? even : uneven).push_back(threads);
  }
  auto& chosen = even.empty() ? uneven : even;
  std::ranges::stable_sort(chosen, {}, [](int64_t threads) { return std::abs(threads - usual); });
  chosen.resize(std::min(chosen.size(), most_choices));
  std::vector<std::string> out;
  for (const int64_t threads : chosen)
    out.push_back(fmt::format("threads={}", threads));
  if (out.empty()) out.emplace_back("threads=32");
  return out;
}

}  // namespace

std::optional<tile_frame> rows_frame(const task& t) {
  const auto facts = facts_of(t);
  if (!facts.has_rows) return std::nullopt;
  std::optional<tile_frame> out;
  if (facts.dims > 0) {
    out = frame_by(t, facts, facts.domain, facts.dims);
  } else {
    // As long rows as lie in one piece in all tensors.
    const auto& domain = t.reference.types.at(t.reference.text.outputs.front()).shape;
    for (std::size_t dims = domain.size(); dims > 0 && !out; --dims)
      if (product_of(domain, domain.size() - dims, domain.size()) <= longest_elementwise_row)
        out = frame_by(t, facts, domain, dims);
  }
  if (out) out->choices = thread_choices(out->columns);
  return out;
}

framed_kernel rows_kernel(const tile_frame& f, const std::string& choice) {
  const int64_t threads = number_in(choice, "threads");
  framed_kernel out;
  out.launch.kernel = "kernel";
  out.launch.grid = {f.rows, 1, 1};
  out.launch.block = {threads, 1, 1};
  out.launch.args = arguments_of(f);
  out.begin = fmt::format(
      "// rows {}\n#define THREADS {}\n#define COLUMNS {}\n#define N {}\n__global__ void __launch_bounds__({}) "
      "kernel({}) {{\n  __shared__ float scratch[32];\n  const int row = blockIdx.x;\n",
      choice, threads, f.columns, elements_of_thread(f.columns, threads), threads, parameters_of(f));
  for (const auto& t : f.read)
    out.begin += t.is_one_per_row ? fmt::format("  const float {} = {};\n", t.name,
                                                loaded(t.type, fmt::format("{}_in[{}]", t.name, t.row)))
                                  : fmt::format("  const {}* const {}_row = {}_in{};\n", memory_type(t.type), t.name,
                                                t.name, row_offset(t, "COLUMNS"));
  for (const auto& t : f.written)
    if (!t.is_one_per_row)
      out.begin +=
          fmt::format("  {}* const {}_row = {}_out + (long long)row * COLUMNS;\n", memory_type(t.type), t.name, t.name);
  out.end = "}\n";
  return out;
}

}  // namespace cudal1
