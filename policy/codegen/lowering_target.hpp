// What programs are lowered for: how a kernel's body becomes text there, which values its options may have, and what
// else such a device can do. Targets are found by name; kinds of devices name theirs. ("cpu" and "cuda" are built in.)
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/codegen/emit_kernel.hpp"

namespace cudal1 {

// The numbers of group_options that moves choose.
enum class tuning_option { threads, items, accumulators, row_threads };

class lowering_target {
 public:
  virtual ~lowering_target() = default;
  virtual std::string_view name() const = 0;
  // The body as a kernel, with the target's own choice for every option that is open. errc::unsupported with the
  // reason where it has no sensible form of the body. Pure: called from many threads at once.
  virtual expected<emitted_kernel> emit(const emit_request& request) const = 0;
  // The values that moves may choose, in the order in which they are tried; none where there is no such option.
  virtual std::span<const int64_t> values(tuning_option option) const = 0;
  // Whether one of them can do any good for a kernel of this body with the options that it has now.
  virtual bool is_useful(tuning_option option, int64_t value, const kernel_body& body,
                         const group_options& now) const = 0;
  // What the device can do beside kernels.
  virtual bool replays_graphs() const { return false; }     // a whole program as one CUDA graph
  virtual bool has_tf32_products() const { return false; }  // library products of precision "tf32"
};

// errc::invalid_argument with the names that there are.
expected<const lowering_target*> find_lowering_target(std::string_view name);
// Adds one that find_lowering_target gives from then on, for the life of the process; errc::invalid_argument where the
// name is taken. Thread-safe.
expected<void> add_lowering_target(std::unique_ptr<const lowering_target> target);
std::vector<std::string> lowering_target_names();

}  // namespace cudal1
