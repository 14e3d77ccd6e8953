// Which kernels a program's source defines, and whether a launch fits one of them.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"
#include "sandbox/program/program.hpp"
#include "sandbox/program/source.hpp"

namespace cudal1 {

class kernel_table {
 public:
  static expected<kernel_table> read(std::string_view source);

  // Checks that the kernel exists, has as many parameters as the launch has arguments, pointers where tensors are
  // passed, tensor maps where these are, and scalars of the tagged kind where their type is recognised (a typedef is
  // not); and that the launch is a cooperative or programmatic one as the kernel needs it. Of a kernel that is defined
  // twice, in the branches of an #if, one definition must match.
  expected<void> check(const launch_step& launch, const std::string& where) const;

 private:
  std::map<std::string, std::vector<kernel_signature>> kernels_;
  bool waits_for_previous_ = false;  // some function of the source
};

// What CUDA asks of a tensor map: up to five dimensions, the last one with stride 1 and the other strides multiples of
// 16 bytes; boxes of at most 256 elements in each, whose rows are multiples of 16 bytes, or as long as the swizzle.
expected<void> check_tensor_map(const tensor_map& map, const tensor_type& type, const std::string& where);

// The value of a number among a launch's arguments, in the first bytes of eight.
inline uint64_t scalar_bits(const launch_argument& a) {
  switch (a.kind) {
    case argument_kind::i32:
      return std::bit_cast<uint32_t>(static_cast<int32_t>(a.integer));
    case argument_kind::i64:
      return std::bit_cast<uint64_t>(a.integer);
    case argument_kind::f32:
      return std::bit_cast<uint32_t>(static_cast<float>(a.real));
    case argument_kind::f64:
      return std::bit_cast<uint64_t>(a.real);
    default:
      return 0;
  }
}

// Checks that each kernel that the program launches is among those that its compiled code has: a runner finds them
// there by name. Errors: compile_failed.
expected<void> check_compiled_kernels(const program& p, const std::set<std::string>& compiled);

}  // namespace cudal1
