// Runs the host's compiler in confined child processes: on text, and on object files to link them.
#pragma once

#include <string>
#include <vector>

#include "config/base/error.hpp"
#include "sandbox/cpu/compiler/compiler_process.hpp"
#include "sandbox/cpu/compiler/host_compiler.hpp"

namespace cudal1 {

enum class gcc_product {
  shared_object,
  piece  // an object file, of which several become one shared object
};

struct gcc_output {
  std::string file, log;
};

// Thread-safe. Errors of all calls: compile_failed (with the log), timeout (time or memory), infrastructure. `limit_s`:
// of wall time.
class gcc_call {
 public:
  gcc_call(host_compiler_options options, std::string path);
  const std::string& path() const { return path_; }
  const std::string& architecture() const { return architecture_; }  // "-march=x86-64-v3"
  std::string flags_of(gcc_product product) const;                   // for cache keys

  expected<gcc_output> preprocess(const std::string& text, double limit_s) const;
  expected<gcc_output> compile(gcc_product product, const std::string& text, double limit_s) const;
  // The pieces may come from a cache that others can write: the shared object is checked as any other.
  expected<gcc_output> link(const std::vector<std::string>& pieces, double limit_s) const;

 private:
  expected<gcc_output> run(const private_folder& folder, const std::vector<std::string>& arguments,
                           const std::string& input, double limit_s) const;
  expected<gcc_output> run_on_text(std::vector<std::string> arguments, const std::string& text, double limit_s) const;
  tl::unexpected<error> compile_error(const std::string& log, double limit_s) const;
  std::vector<std::string> compiler_folders() const;

  host_compiler_options options_;
  std::string path_, architecture_;
};

}  // namespace cudal1
