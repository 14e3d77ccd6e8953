// Variants as files from which Python makes a package (tools/python/torch_package/staged.py), or which it measures
// (tools/python/profile_variant.py): a folder for each, 000, 001, ..., with its task, program, plan and compiled
// kernels.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policy/moves/batch_family.hpp"
#include "sandbox/device/compiler.hpp"
#include "sandbox/program/task.hpp"
#include "store/store.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/commands/export_folder.hpp"

namespace cudal1::cli {

struct staged_variant {
  std::string task, name;   // id, name
  std::string id, program;  // of the variant
  environment where;        // in which it was measured
  std::vector<std::string> explanation;
  double speedup = 1, reference_us = 0, variant_us = 0;
  interval speedup_interval{1, 1};
  std::string schedule = {};  // "": it was written by hand
};

// Store and context must outlive it.
class package_staging {
 public:
  // `others`: architectures (architecture_named) that kernels of GPUs are compiled for beside the measured one.
  // `batch`: with a variant goes one for all batch sizes of this range, in its folder batch/, where its moves allow it.
  package_staging(store& s, const context& c, std::string folder, std::vector<std::string> others = {},
                  std::optional<batch_range> batch = {})
      : store_(s),
        c_(c),
        others_(std::move(others)),
        batch_(batch),
        folder_(std::move(folder), existing_files::refused) {}

  // Compiles it with the compiler of the device that measured it. Errors: unsupported (no such compiler here), of the
  // compiler, of the store.
  expected<void> add(const staged_variant& v);
  int64_t count() const { return count_; }
  // Why a variant is not compiled for one of the other architectures: "softmax for sm_80: ...".
  const std::vector<std::string>& not_built() const { return not_built_; }
  // Why a variant has none for the range of batch sizes: "softmax: move 2 (fuse(steps=1..3)): ...".
  const std::vector<std::string>& without_range() const { return without_range_; }
  bool has_gpu_kernels() const { return has_gpu_kernels_; }

 private:
  using existing_files = export_folder::existing_files;

  expected<kernel_compiler*> compiler_of(const environment& e, const std::string& architecture);
  expected<void> add_kernels(const checked_program& p, const staged_variant& v, const std::string& place,
                             json& document);
  expected<json> add_others(const checked_program& p, const staged_variant& v, const std::string& measured,
                            const std::string& place);
  expected<void> add_blobs(const task& t);
  expected<void> add_range(const task& t, const staged_variant& v, const std::string& place);

  store& store_;
  const context& c_;
  std::vector<std::string> others_, not_built_, without_range_;
  std::optional<batch_range> batch_;
  std::map<std::string, std::shared_ptr<kernel_compiler>> compilers_;  // by architecture
  export_folder folder_;
  int64_t count_ = 0;
  bool has_gpu_kernels_ = false;
};

// "sm_90a" of "sm_90" or "sm_90a", as cudal1 compiles for it. errc::invalid_argument for what is no architecture.
expected<std::string> architecture_named(const std::string& name);

// The paths of the libraries that packages contain: in ../lib of an installed program, else where they were built.
struct package_libraries {
  std::string cpu_kernels, runtime, in_cpp;
};
expected<package_libraries> find_package_libraries();

}  // namespace cudal1::cli
