// The assembler has the last word on what a program declares: its variables are read off the cubin as well.
#include <algorithm>

#include "sandbox/cuda/compiler/ptx_rules.hpp"
#include "sandbox/cuda/runtime/cubin_variables.hpp"

namespace cudal1 {

expected<void> check_cubin(std::string_view cubin, const ptx_module& module) {
  CUDAL1_TRY(const auto variables, variables_of_cubin(cubin));
  const auto known = device_variables_of(module);
  for (const auto& v : variables) {
    if (v.name.empty())
      return fail(errc::refused, "the compiled code has {} bytes of variables without a name ({})", v.bytes, v.section);
    if (std::find(known.begin(), known.end(), v.name) == known.end())
      return fail(errc::refused, "the compiled code has the variable \"{}\" ({}), which its PTX does not declare",
                  v.name, v.section);
  }
  return {};
}

}  // namespace cudal1
