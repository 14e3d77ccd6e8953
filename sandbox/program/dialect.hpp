// The functions that the dialect has beyond those of CUDA C++ itself, each described once: which text defines them for
// a GPU (sandbox/cuda/compiler/prologue_NAME.cuh), which of them need the other threads of their block, and what
// writers of programs are told. sandbox/README.md explains each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cudal1 {

struct dialect_part {
  std::string_view name;
  // A program that has one of these words, which may be parts of longer ones, needs the part; one that ends in '('
  // stands for a call of that function.
  std::vector<std::string_view> words;
  // What several threads call together, or what waits, so that on `cpu` a kernel with it runs in fibers; and the
  // others.
  std::vector<std::string_view> of_warps = {}, of_threads = {};
  std::vector<std::string_view> needs = {};  // other parts, whose functions this one's text calls
  // Whether the text is in the dialect itself: then it is the same for all devices, and its functions need fibers if
  // what they call does (all are in `of_threads`). Others know the functions.
  bool in_dialect = false;
  // Whether its functions are the tile vocabulary: fragments, tiles of shared memory, copies to them, rows in
  // registers.
  bool of_tiles = false;
  std::vector<std::string> guide = {};  // for prompts, a sentence or more each
};

const std::vector<dialect_part>& dialect_parts();

// Whether the source may call one of the part's functions, or of a part that needs it; errs on the side of yes.
bool needs_part(std::string_view source, const dialect_part& part);

// The functions of the tile vocabulary that the source calls, each once, in the order of the table.
std::vector<std::string_view> tile_functions_in(std::string_view source);

}  // namespace cudal1
