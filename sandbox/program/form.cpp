#include "sandbox/program/form.hpp"

#include <algorithm>
#include <cmath>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/utf8.hpp"
#include "sandbox/program/canonical.hpp"
#include "sandbox/program/near_miss.hpp"
#include "sandbox/program/source.hpp"

namespace cudal1 {

namespace {

expected<void> check_name(const std::string& name, const std::string& where) {
  if (is_identifier(name)) return {};
  if (name.size() > max_name_bytes)
    return fail(errc::invalid_program, "{}: a name has at most {} characters, but this one has {}", where,
                max_name_bytes, name.size());
  return fail(
      errc::invalid_program,
      "{}: {} is not a valid name; names consist of letters, digits and underscores and do not start with a digit",
      where, json(name).text());
}

expected<void> check_sizes(const tensor_type& type, const std::string& where) {
  if (type.dim() > max_dimensions)
    return fail(errc::invalid_program, "{}, shape: {} dimensions are above the limit of {}", where, type.dim(),
                max_dimensions);
  for (std::size_t d = 0; d < type.shape.size(); ++d)
    if (type.shape[d] < 0) return fail(errc::invalid_program, "{}, shape[{}]: {} is negative", where, d, type.shape[d]);
  if (type.strides.size() != type.shape.size())
    return fail(errc::invalid_program, "{}, strides: should have {} numbers, one for each dimension, but has {}", where,
                type.shape.size(), type.strides.size());
  for (std::size_t d = 0; d < type.strides.size(); ++d)
    if (type.strides[d] < 0)
      return fail(errc::invalid_program, "{}, strides[{}]: {} is negative", where, d, type.strides[d]);
  return {};
}

expected<void> check_declarations(const std::vector<tensor_declaration>& declarations, std::string_view list) {
  for (std::size_t i = 0; i < declarations.size(); ++i) {
    CUDAL1_CHECK(check_name(declarations[i].name, declaration_label(list, i, "") + ", name"));
    CUDAL1_CHECK(check_sizes(declarations[i].type, declaration_label(list, i, declarations[i].name)));
  }
  return {};
}

expected<void> check_alloc(const alloc_step& alloc, const std::string& where) {
  CUDAL1_CHECK(check_name(alloc.name, where + ", alloc"));
  CUDAL1_CHECK(check_sizes(alloc.type, where));
  if (alloc.type.strides != contiguous_strides(alloc.type.shape))
    return fail(errc::invalid_program, "{}, strides: an allocation is contiguous", where);
  return {};
}

expected<void> check_extent(const std::array<int64_t, 3>& extent, const std::array<int64_t, 3>& limits,
                            std::string_view field, const std::string& where) {
  for (std::size_t d = 0; d < 3; ++d) {
    if (extent[d] < 1) return fail(errc::invalid_program, "{}, {}[{}]: {} is below 1", where, field, d, extent[d]);
    if (extent[d] > limits[d])
      return fail(errc::invalid_program, "{}, {}[{}]: {} is above CUDA's limit of {}; {}", where, field, d, extent[d],
                  limits[d],
                  field == "block" ? "use smaller blocks, and more blocks in the grid"
                                   : "put the largest size into grid[0], or give each thread more elements");
  }
  return {};
}

expected<void> check_launch(const launch_step& launch, const std::string& where) {
  CUDAL1_CHECK(check_name(launch.kernel, where + ", launch"));
  CUDAL1_CHECK(check_extent(launch.grid, max_grid, "grid", where));
  CUDAL1_CHECK(check_extent(launch.block, max_block, "block", where));
  if (const auto threads = launch.block[0] * launch.block[1] * launch.block[2]; threads > max_block_threads)
    return fail(
        errc::invalid_program,
        "{}, block: {} threads are above CUDA's limit of {} a block; use smaller blocks, and more blocks in the "
        "grid",
        where, threads, max_block_threads);
  if (launch.shared_bytes < 0 || launch.shared_bytes > max_shared_bytes)
    return fail(errc::invalid_program, "{}, shared_bytes: {} is not in 0 to {} (227 KiB, CUDA's limit)", where,
                launch.shared_bytes, max_shared_bytes);
  const auto maps = std::ranges::count_if(launch.args, [](const auto& a) { return a.map.has_value(); });
  const auto size = launch.args.size() + static_cast<std::size_t>(maps * (tensor_map_arguments - 1));
  if (size > max_launch_arguments)
    return fail(errc::invalid_program, "{}, args: {} are above the limit of {}{}", where, size, max_launch_arguments,
                maps > 0 ? fmt::format(" (a tensor map counts as {})", tensor_map_arguments) : "");
  for (std::size_t i = 0; i < launch.args.size(); ++i) {
    const auto& a = launch.args[i];
    const auto field = fmt::format("{}, args[{}]", where, i);
    if (a.is_tensor()) CUDAL1_CHECK(check_name(a.tensor, field));
    if (a.kind == argument_kind::i32 && a.integer != static_cast<int32_t>(a.integer))
      return fail(errc::invalid_program, "{}.i32: {} does not fit 32 bits; use i64", field, a.integer);
    if (a.kind == argument_kind::f32 && std::isfinite(a.real) && !fits_float(a.real))
      return fail(errc::invalid_program, "{}.f32: {} does not fit a float", field, a.real);
  }
  return {};
}

// Flat: null, a boolean, a number, a string, or an array of those.
bool is_flat_value(const json& v) {
  const auto is_one_value = [](const json& item) { return !item.is_array() && !item.is_object(); };
  return v.is_array() ? std::ranges::all_of(v.as_array(), is_one_value) : is_one_value(v);
}

expected<void> check_aten(const aten_step& call, const std::string& where) {
  if (call.op.size() > max_name_bytes || printable(call.op) != call.op)
    return fail(errc::invalid_program, "{}, aten: should be an operator's name, such as aten::add.Tensor", where);
  if (call.args.size() > max_aten_arguments)
    return fail(errc::invalid_program, "{}, args: {} are above the limit of {}", where, call.args.size(),
                max_aten_arguments);
  for (std::size_t i = 0; i < call.args.size(); ++i) {
    const auto& [name, value] = call.args[i];
    CUDAL1_CHECK(check_name(name, where + ", args"));
    for (std::size_t j = 0; j < i; ++j)
      if (call.args[j].first == name) return fail(errc::invalid_program, "{}, args.{}: appears twice", where, name);
    if (!is_flat_value(value))
      return fail(errc::invalid_program,
                  "{}, args.{}: should be null, a boolean, a number, a string or an array of those", where, name);
  }
  for (std::size_t i = 0; i < call.results.size(); ++i)
    if (!call.results[i].empty()) CUDAL1_CHECK(check_name(call.results[i], fmt::format("{}, out[{}]", where, i)));
  if (!call.precision.empty() && call.precision != "float32" && call.precision != "tf32")
    return fail(errc::invalid_program, "{}, precision: there is no {}; there are float32 and tf32", where,
                json(call.precision).text());
  return {};
}

expected<void> check_steps(const std::vector<step>& steps, program_section section) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto where = step_label(i, steps[i], section);
    if (const auto* alloc = std::get_if<alloc_step>(&steps[i])) {
      CUDAL1_CHECK(check_alloc(*alloc, where));
    } else if (const auto* launch = std::get_if<launch_step>(&steps[i])) {
      CUDAL1_CHECK(check_launch(*launch, where));
    } else {
      CUDAL1_CHECK(check_aten(std::get<aten_step>(steps[i]), where));
    }
  }
  return {};
}

expected<void> check_headers(const std::vector<std::string>& headers) {
  for (std::size_t i = 0; i < headers.size(); ++i) {
    if (std::find(header_sets.begin(), header_sets.end(), headers[i]) == header_sets.end())
      return fail(errc::invalid_program, "headers[{}]: there is no set {}{}; there are {}", i, json(headers[i]).text(),
                  did_you_mean(headers[i], {header_sets.begin(), header_sets.end()}), fmt::join(header_sets, ", "));
    if (std::find(headers.begin(), headers.begin() + static_cast<std::ptrdiff_t>(i), headers[i]) !=
        headers.begin() + static_cast<std::ptrdiff_t>(i))
      return fail(errc::invalid_program, "headers[{}]: \"{}\" appears twice", i, headers[i]);
  }
  return {};
}

}  // namespace

bool is_identifier(std::string_view name) {
  if (name.empty() || name.size() > max_name_bytes || (name[0] >= '0' && name[0] <= '9')) return false;
  for (const char c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) return false;
  return true;
}

std::string printable(std::string_view name) {
  std::string text(name.substr(0, max_name_bytes));
  for (auto& c : text)
    if (c < 0x20 || c > 0x7e) c = '?';
  return text;
}

std::string declaration_label(std::string_view list, std::size_t index, std::string_view name) {
  return name.empty() ? fmt::format("{}[{}]", list, index) : fmt::format("{}[{}] ({})", list, index, printable(name));
}

expected<void> check_form(const program& p) {
  if (p.name.empty() || p.name.size() > max_name_bytes || !is_valid_utf8(p.name))
    return fail(errc::invalid_program, "name: should have 1 to {} bytes of UTF-8", max_name_bytes);
  for (const char c : p.name)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      return fail(errc::invalid_program, "name: control characters are not allowed");
  CUDAL1_CHECK(check_declarations(p.inputs, "inputs"));
  CUDAL1_CHECK(check_declarations(p.weights, "weights"));
  CUDAL1_CHECK(check_steps(p.setup, program_section::setup));
  CUDAL1_CHECK(check_steps(p.steps, program_section::steps));
  for (std::size_t i = 0; i < p.outputs.size(); ++i)
    CUDAL1_CHECK(check_name(p.outputs[i], fmt::format("outputs[{}]", i)));
  if (p.how.lanes < 1 || p.how.lanes > max_lanes)
    return fail(errc::invalid_program, "execution, lanes: {} is not in 1 to {}", p.how.lanes, max_lanes);
  CUDAL1_CHECK(check_headers(p.headers));
  return check_source(p.source, p.headers);
}

}  // namespace cudal1
