#include "sandbox/program/launch_rules.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sandbox/program/near_miss.hpp"

namespace cudal1 {

namespace {

constexpr const char* kind_names[] = {"in", "out", "inout", "i32", "i64", "f32", "f64"};

struct scalar_type {
  std::string_view name;
  std::optional<argument_kind> passed_as;  // none: no launch can pass it
};
// With the sizes of 64-bit Linux.
constexpr scalar_type scalar_types[] = {{"int", argument_kind::i32},
                                        {"unsigned", argument_kind::i32},
                                        {"unsigned int", argument_kind::i32},
                                        {"signed", argument_kind::i32},
                                        {"int32_t", argument_kind::i32},
                                        {"uint32_t", argument_kind::i32},
                                        {"uint", argument_kind::i32},
                                        {"long", argument_kind::i64},
                                        {"unsigned long", argument_kind::i64},
                                        {"long int", argument_kind::i64},
                                        {"long long", argument_kind::i64},
                                        {"long long int", argument_kind::i64},
                                        {"unsigned long long", argument_kind::i64},
                                        {"int64_t", argument_kind::i64},
                                        {"uint64_t", argument_kind::i64},
                                        {"size_t", argument_kind::i64},
                                        {"float", argument_kind::f32},
                                        {"double", argument_kind::f64},
                                        {"bool", {}},
                                        {"char", {}},
                                        {"signed char", {}},
                                        {"unsigned char", {}},
                                        {"short", {}},
                                        {"unsigned short", {}},
                                        {"int8_t", {}},
                                        {"uint8_t", {}},
                                        {"int16_t", {}},
                                        {"uint16_t", {}},
                                        {"half", {}},
                                        {"__half", {}},
                                        {"__nv_bfloat16", {}}};

std::string without_const(std::string_view type) {
  for (const std::string_view word : {"const ", "volatile "})
    while (type.starts_with(word))
      type.remove_prefix(word.size());
  while (type.ends_with(" const"))
    type.remove_suffix(6);
  return std::string(type);
}

// The scalar with another tag, as a program has it.
std::string written_as(argument_kind kind, const launch_argument& a) {
  const bool from_integer = a.kind == argument_kind::i32 || a.kind == argument_kind::i64;
  json value;
  if (kind == argument_kind::f32 || kind == argument_kind::f64)
    value = from_integer ? static_cast<double>(a.integer) : a.real;
  else if (from_integer || std::abs(a.real) < 1e9)
    value = from_integer ? a.integer : static_cast<int64_t>(a.real);
  return fmt::format("{{\"{}\": {}}}", kind_names[static_cast<int>(kind)], value.is_null() ? "..." : value.text());
}

constexpr std::string_view map_parameter = "const __grid_constant__ tensor_map";

std::string problem_of(const launch_argument& a, const kernel_parameter& p) {
  const auto* kind = kind_names[static_cast<int>(a.kind)];
  const bool takes_map = p.text.find("tensor_map") != std::string::npos;
  if (a.map || takes_map) {
    if (a.map && p.type == map_parameter) return "";
    return a.map ? fmt::format("it passes a tensor map, but the parameter is \"{}\"; declare it as {} {}", p.text,
                               map_parameter, a.tensor)
                 : fmt::format(
                       "the parameter \"{}\" takes a tensor map; write {{\"{}\": ..., \"map\": {{\"box\": "
                       "[...]}}}}",
                       p.text, a.is_tensor() ? kind : "in");
  }
  if (a.is_tensor() != p.is_pointer)
    return fmt::format("{} passes a {}, but the parameter \"{}\" is a {}; {}", kind,
                       a.is_tensor() ? "tensor" : "scalar", p.text, p.is_pointer ? "pointer" : "scalar",
                       a.is_tensor() ? "tensors are passed to pointers, such as const float*"
                                     : "tensors are passed by name, as in, out or inout");
  if (a.is_tensor() || p.type.empty()) return "";
  const auto type = without_const(p.type);
  for (const auto& known : scalar_types) {
    if (known.name != type) continue;
    if (!known.passed_as)
      return fmt::format("the parameter \"{}\" cannot be passed; scalars are int, long long, float or double", p.text);
    if (*known.passed_as != a.kind)
      return fmt::format("the parameter \"{}\" takes {}, but {} is passed; write {}", p.text,
                         kind_names[static_cast<int>(*known.passed_as)], kind, written_as(*known.passed_as, a));
  }
  return "";
}

// "k(const float* x, int n)", shortened.
std::string declaration_of(const kernel_signature& kernel) {
  constexpr std::size_t longest = 400;
  auto text = fmt::format("{}({})", kernel.name,
                          fmt::join(kernel.parameters | std::views::transform(&kernel_parameter::text), ", "));
  if (text.size() > longest) text.replace(longest, std::string::npos, "...");
  return text;
}

expected<void> check_signature(const kernel_signature& kernel, const launch_step& launch, const std::string& where) {
  if (kernel.parameters.size() != launch.args.size())
    return fail(
        errc::invalid_program,
        "{}, args: the kernel has {} parameters, but {} arguments are passed; write one entry for each parameter, "
        "in its order: it is {}",
        where, kernel.parameters.size(), launch.args.size(), declaration_of(kernel));
  if (!kernel.dynamic_shared.empty() && launch.shared_bytes == 0)
    return fail(
        errc::invalid_program,
        "{}: the kernel has dynamic shared memory (extern __shared__ {}[]), but the launch gives it none; write "
        "\"shared_bytes\": and the number of bytes that a block uses",
        where, kernel.dynamic_shared);
  if (kernel.calls_grid_sync && !launch.cooperative)
    return fail(errc::invalid_program,
                "{}: the kernel calls grid_sync(), for which all blocks must run at the same time; write "
                "\"cooperative\": true",
                where);
  for (std::size_t i = 0; i < launch.args.size(); ++i)
    if (const auto problem = problem_of(launch.args[i], kernel.parameters[i]); !problem.empty())
      return fail(errc::invalid_program, "{}, args[{}]: {}", where, i, problem);
  return {};
}

}  // namespace

expected<kernel_table> kernel_table::read(std::string_view source) {
  kernel_table table;
  if (source.empty()) return table;
  CUDAL1_TRY(auto kernels, find_kernels(source));
  for (auto& kernel : kernels)
    table.kernels_[kernel.name].push_back(std::move(kernel));
  table.waits_for_previous_ = calls(source, "wait_for_previous_kernel");
  return table;
}

expected<void> kernel_table::check(const launch_step& launch, const std::string& where) const {
  const auto found = kernels_.find(launch.kernel);
  if (found == kernels_.end()) {
    constexpr std::size_t most_names = 10;
    return fail(
        errc::invalid_program, "{}, launch: the source has no \"__global__ void {}(\"{}", where, launch.kernel,
        kernels_.empty()
            ? "; it has no kernel at all: kernels follow the head after a line ---, and return void"
            : did_you_mean(launch.kernel, kernels_, [](const auto& k) -> const std::string& { return k.first; }) +
                  fmt::format("; launch one of its kernels: {}",
                              fmt::join(kernels_ | std::views::keys | std::views::take(most_names), ", ")));
  }
  if (launch.programmatic && !waits_for_previous_)
    return fail(errc::invalid_program,
                "{}: a programmatic launch may begin before the kernel ahead of it has ended, but nothing calls "
                "wait_for_previous_kernel(); call it in the kernel before it reads or writes memory",
                where);
  expected<void> outcome;
  for (const auto& signature : found->second)
    if (outcome = check_signature(signature, launch, where); outcome) return {};
  return outcome;
}

expected<void> check_tensor_map(const tensor_map& map, const tensor_type& type, const std::string& where) {
  constexpr int64_t most_dimensions = 5, most_box = 256, unit_bytes = 16;
  const auto wrong = [&where]<class... Args>(fmt::format_string<Args...> format, Args&&... args) {
    return fail(errc::invalid_program, "{}, map: {}", where, fmt::format(format, std::forward<Args>(args)...));
  };
  if (type.type == dtype::bool_ || type.type == dtype::int8 || type.type == dtype::int16)
    return wrong("there are none of {}", name_of(type.type));
  if (type.dim() < 1 || type.dim() > most_dimensions)
    return wrong("the tensor has {} dimensions; a map has 1 to {} (view it as another shape in a step before)",
                 type.dim(), most_dimensions);
  if (map.box.size() != type.shape.size())
    return wrong("box has {} sizes, but the tensor has {} dimensions", map.box.size(), type.dim());
  for (std::size_t d = 0; d < map.box.size(); ++d) {
    if (map.box[d] < 1 || map.box[d] > most_box) return wrong("box[{}]: {} is not in 1 to {}", d, map.box[d], most_box);
    const bool last = d + 1 == map.box.size();
    const int64_t bytes = type.strides[d] * size_of(type.type);
    if (type.shape[d] < 1) return wrong("the tensor is empty");
    if (last ? type.strides[d] != 1 : bytes < unit_bytes || bytes % unit_bytes != 0)
      return wrong("the tensor's stride in dimension {} is {} bytes; {}", d, bytes,
                   last ? "the elements of the last one must lie side by side" : "it must be a multiple of 16");
  }
  const int64_t row = map.box.back() * size_of(type.type);
  if (row % unit_bytes != 0) return wrong("a row of the box has {} bytes, which is no multiple of 16", row);
  if (map.swizzle != 0 && map.swizzle != 32 && map.swizzle != 64 && map.swizzle != 128)
    return wrong("swizzle: {} is not 0, 32, 64 or 128", map.swizzle);
  if (map.swizzle != 0 && row != map.swizzle)
    return wrong("with swizzle {0} a row of the box has {0} bytes, but this one has {1}", map.swizzle, row);
  return {};
}

expected<void> check_compiled_kernels(const program& p, const std::set<std::string>& compiled) {
  for (const auto* steps : {&p.setup, &p.steps})
    for (const auto& s : *steps)
      if (const auto* launch = std::get_if<launch_step>(&s); launch != nullptr && !compiled.contains(launch->kernel))
        return fail(errc::compile_failed,
                    "the source has no kernel \"{0}\" that can be launched by name (a template has none: write "
                    "`__global__ void {0}(...)` and call a __device__ template from it)",
                    launch->kernel);
  return {};
}

}  // namespace cudal1
