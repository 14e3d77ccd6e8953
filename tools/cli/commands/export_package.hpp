// `cudal1 export --format torch` and `--format cpp`: the best variants as a pip-installable package
// (tools/python/torch_package).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policy/moves/batch_family.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/commands/export_folder.hpp"
#include "tools/cli/report/report.hpp"

namespace cudal1::cli {

struct package_request {
  std::string name;  // of the package, as Python imports it; "": the folder's
  bool check = true;
  bool in_cpp = false;    // C++ calls it, too
  bool confined = false;  // Python executes the models' sources without network, and writes to the folder alone
  std::vector<std::string> architectures;  // that kernels of GPUs are compiled for beside the measured one
  std::optional<batch_range> batch = {};   // of one variant for all these batch sizes, beside each
};

// Compiles each variant with the compiler that measured it, and lets Python put the package together and check it.
// Errors: of the store, of the compiler, no Python; each task that cannot be exported is a line of the output.
expected<int> export_package(store& s, const search_report& report, const package_request& request,
                             const export_folder& folder, shown_as form, const context& c);

}  // namespace cudal1::cli
