// For exported_module_test.py: each task of a folder as the Python file that an export writes, with the task's own
// program; no search and no store is needed.
//
//   write_model_files TASKS OUT [error|eager [graph]]     what it does where gradients are needed; on a GPU as one
//   graph
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "config/base/describe.hpp"
#include "tools/kernelbench/model_file.hpp"

namespace cudal1::kernelbench {
namespace {

expected<void> write_files(const std::string& tasks, const std::string& out, gradients needed, bool graph) {
  const auto blobs = tasks + "/blobs";
  CUDAL1_TRY(const auto all, load_tasks(tasks, "cpu"));
  for (const auto& t : all) {
    exported_variant v;
    v.id = t.reference.id;
    auto program = t.reference.text;
    if (graph) program.how = {.graph = true, .lanes = 2};
    v.program = print_program(program);
    v.needed_gradients = needed;
    CUDAL1_TRY(v.source, problem_source(t, blobs));
    CUDAL1_TRY(const auto text, model_file(t, v, blobs));
    std::ofstream file(std::filesystem::path(out) / (t.name + ".py"), std::ios::binary);
    file << text << std::flush;
    if (!file) return fail(errc::io_error, "cannot write to {}", out);
  }
  return {};
}

}  // namespace
}  // namespace cudal1::kernelbench

int main(int argc, char** argv) {
  namespace kb = cudal1::kernelbench;
  const auto needed = cudal1::enum_value<kb::gradients>(argc > 3 ? argv[3] : "error");
  if (argc < 3 || !needed) return 2;
  const auto done = kb::write_files(argv[1], argv[2], *needed, argc > 4 && std::string_view(argv[4]) == "graph");
  if (!done) std::fprintf(stderr, "%s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
