// Each task with a program for it that uses what hand-written kernels for Hopper use.
#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/sandbox/honest/surprises.hpp"

namespace cudal1::testing_honest {
namespace {

struct parts {
  const char* name;
  std::string inputs, reference;  // of the task; its result is y
  std::string steps, source;
  std::string more = {};  // of the program's head
};

surprise made(const parts& p, const std::string& profile) {
  const std::string head = R"({"format":1,"name":"t","inputs":[)" + p.inputs + "],";
  const std::string text = head + R"("family":"test","steps":[)" + p.reference + R"(],"outputs":["y"]})";
  const auto t = read_task(text, profile);
  if (!t) throw std::runtime_error(t.error().message + ": " + text);
  return {p.name, *t, head + R"("steps":[)" + p.steps + R"(],"outputs":["y"])" + p.more + "}\n---\n" + p.source + "\n"};
}

std::string tensor(const char* key, const char* name, const std::vector<int64_t>& shape, const char* type = "float32") {
  return fmt::format(R"({{"{}":"{}","dtype":"{}","shape":[{}]}})", key, name, type, fmt::join(shape, ","));
}

// Rows of a box have 4 WIDTH bytes, as many as are swizzled; both sizes of the tensor are no multiples of the box's.
parts transposition(const char* name, int width) {
  const std::string kernel = R"(
constexpr int height = 32, bytes = 4 * width;
__global__ void transpose(const __grid_constant__ tensor_map a, const __grid_constant__ tensor_map y) {
  __shared__ __align__(1024) float from[height * width];
  __shared__ __align__(128) float to[width * height];
  __shared__ unsigned long long ready;
  const int row = blockIdx.y * height, column = blockIdx.x * width, t = threadIdx.x;
  if (t == 0) transfer_init(&ready, 1);
  __syncthreads();
  if (t == 0) {
    transfer_expect(&ready, sizeof from);
    load_tile(from, a, &ready, row, column);
  }
  transfer_wait(&ready, 0);
  for (int i = t; i < height * width; i += blockDim.x) {
    const int at = i / width * bytes + i % width * 4;
    to[i % width * height + i / width] = from[(at ^ (at >> 7 & (bytes / 16 - 1)) << 4) / 4];
  }
  fence_shared_async();
  __syncthreads();
  if (t == 0) {
    store_tile(y, to, column, row);
    store_tile_commit();
    store_tile_wait<0>();
  }
})";
  return {name, tensor("name", "a", {100, 76}),
          R"({"aten":"aten::t","args":{"self":"a"},"out":["v"]},)"
          R"({"aten":"aten::clone","args":{"self":"v","memory_format":"contiguous_format"},"out":["y"]})",
          tensor("alloc", "y", {76, 100}) +
              fmt::format(R"(,{{"launch":"transpose","grid":[{},4],"block":[128],"args":[{{"in":"a","map":{{"box":[32,)"
                          R"({}],"swizzle":{}}}}},{{"out":"y","map":{{"box":[{},32]}}}}]}})",
                          (76 + width - 1) / width, width, 4 * width, width),
          fmt::format("constexpr int width = {};{}", width, kernel)};
}

// Boxes of 2 elements in each dimension but the last, of 8: all sizes are odd but the last, which is 12.
parts copy_of_dimensions(const char* name, std::size_t dimensions) {
  constexpr std::array<int64_t, 5> shape{3, 5, 3, 3, 12}, box{2, 2, 2, 2, 8};
  const std::vector<int64_t> sizes(shape.end() - static_cast<std::ptrdiff_t>(dimensions), shape.end());
  const std::vector<int64_t> boxes(box.end() - static_cast<std::ptrdiff_t>(dimensions), box.end());
  int64_t blocks = 1, elements = 1;
  std::string places;
  std::string index = "blockIdx.x";
  for (std::size_t d = 0; d < dimensions; ++d) {
    const int64_t here = (sizes[d] + boxes[d] - 1) / boxes[d];
    places += fmt::format("{}(int)({} % {} * {})", d == 0 ? "" : ", ", index, here, boxes[d]);
    index += fmt::format(" / {}", here);
    blocks *= here;
    elements *= boxes[d];
  }
  const auto map = fmt::format(R"("map":{{"box":[{}]}})", fmt::join(boxes, ","));
  return {name, tensor("name", "a", sizes), R"({"aten":"aten::neg","args":{"self":"a"},"out":["y"]})",
          tensor("alloc", "y", sizes) +
              fmt::format(R"(,{{"launch":"k","grid":[{}],"block":[32],"args":[{{"in":"a",{}}},{{"out":"y",{}}}]}})",
                          blocks, map, map),
          fmt::format("constexpr int elements = {};\n#define PLACE {}\n", elements, places) + R"(
__global__ void k(const __grid_constant__ tensor_map a, const __grid_constant__ tensor_map y) {
  __shared__ __align__(128) float box[elements];
  __shared__ unsigned long long ready;
  if (threadIdx.x == 0) {
    transfer_init(&ready, 1);
    transfer_expect(&ready, sizeof box);
    load_tile(box, a, &ready, PLACE);
  }
  __syncthreads();
  transfer_wait(&ready, 0);
  for (int i = threadIdx.x; i < elements; i += 32) box[i] = -box[i];
  fence_shared_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    store_tile(y, box, PLACE);
    store_tile_commit();
    store_tile_wait<0>();
  }
})"};
}

// Three stages of tiles, each with a barrier, whose phases alternate; products by warpgroups from the swizzled tiles.
parts pipelined_product() {
  const auto map = R"("map":{"box":[64,64],"swizzle":128})";
  return {"a product of tiles that a pipeline of tensor maps brings",
          tensor("name", "a", {200, 448}, "bfloat16") + "," + tensor("name", "b", {136, 448}, "bfloat16"),
          R"({"aten":"aten::linear","args":{"input":"a","weight":"b"},"out":["y"]})",
          tensor("alloc", "y", {200, 136}, "bfloat16") +
              fmt::format(
                  R"(,{{"launch":"product","grid":[3,4],"block":[128],"shared_bytes":49176,"args":[{{"in":"a",{0}}},)"
                  R"({{"in":"b",{0}}},{{"out":"y"}},{{"i32":200}},{{"i32":136}},{{"i32":448}}]}})",
                  map),
          R"(
constexpr int stages = 3, tile = 64 * 64;
__global__ void __launch_bounds__(128) product(const __grid_constant__ tensor_map a, const __grid_constant__ tensor_map b,
                                               unsigned short* y, int rows, int columns, int depth) {
  extern __shared__ __align__(1024) unsigned short tiles[];
  unsigned long long* const ready = (unsigned long long*)(tiles + stages * 2 * tile);
  const int t = threadIdx.x, row = blockIdx.y * 64, column = blockIdx.x * 64, steps = (depth + 63) / 64;
  if (t == 0)
    for (int s = 0; s < stages; ++s) transfer_init(ready + s, 1);
  __syncthreads();
  const auto fetch = [&](int step) {
    if (t != 0 || step >= steps) return;
    unsigned short* const to = tiles + step % stages * 2 * tile;
    transfer_expect(ready + step % stages, 2 * tile * 2);
    load_tile(to, a, ready + step % stages, row, step * 64);
    load_tile(to + tile, b, ready + step % stages, column, step * 64);
  };
  fetch(0);
  fetch(1);
  float d[8][4] = {};
  for (int step = 0; step < steps; ++step) {
    const unsigned short* const from = tiles + step % stages * 2 * tile;
    transfer_wait(ready + step % stages, step / stages & 1);
    warpgroup_fence();
    for (int k = 0; k < 4; ++k) warpgroup_mma_m64n64k16_bfloat16(d, from + k * 16, from + tile + k * 16, true);
    warpgroup_commit();
    warpgroup_wait<0>(d);
    __syncthreads();
    fetch(step + 2);
  }
  for (int n = 0; n < 8; ++n)
    for (int e = 0; e < 4; ++e) {
      const int r = row + t / 32 * 16 + t % 32 / 4 + e / 2 * 8, c = column + n * 8 + t % 4 * 2 + e % 2;
      if (r < rows && c < columns) y[r * columns + c] = bfloat16_of_float(d[n][e]);
    }
})"};
}

// A norm over all elements in one launch: sums of blocks, a barrier of all of them, and what follows.
parts cooperative_norm(const char* name, const char* more) {
  return {
      name,
      tensor("name", "a", {40000}),
      R"({"aten":"aten::mul.Tensor","args":{"self":"a","other":"a"},"out":["squares"]},)"
      R"({"aten":"aten::sum","args":{"self":"squares"},"out":["total"]},)"
      R"({"aten":"aten::sqrt","args":{"self":"total"},"out":["norm"]},)"
      R"({"aten":"aten::div.Tensor","args":{"self":"a","other":"norm"},"out":["y"]})",
      tensor("alloc", "sums", {8}) + "," + tensor("alloc", "y", {40000}) +
          R"(,{"launch":"normalize","grid":[4,2],"block":[128],"cooperative":true,"args":[{"in":"a"},{"out":"sums"},)"
          R"({"out":"y"},{"i32":40000}]})",
      R"(
__global__ void normalize(const float* a, float* sums, float* y, int n) {
  __shared__ float part[128];
  const int t = threadIdx.x, block = blockIdx.y * gridDim.x + blockIdx.x, first = block * 128 + t;
  float s = 0;
  for (int i = first; i < n; i += 8 * 128) s += a[i] * a[i];
  part[t] = s;
  __syncthreads();
  if (t == 0) {
    for (int i = 1; i < 128; ++i) s += part[i];
    sums[block] = s;
  }
  grid_sync();
  float total = 0;
  for (int b = 0; b < 8; ++b) total += sums[b];
  const float scale = 1.0f / sqrtf(total);
  for (int i = first; i < n; i += 8 * 128) y[i] = a[i] * scale;
  grid_sync();
})",
      more};
}

parts programmatic_chain(const char* name, const char* more) {
  return {name,
          tensor("name", "a", {70000}),
          R"({"aten":"aten::exp","args":{"self":"a"},"out":["e"]},)"
          R"({"aten":"aten::neg","args":{"self":"e"},"out":["y"]})",
          tensor("alloc", "e", {70000}) + "," + tensor("alloc", "y", {70000}) +
              R"(,{"launch":"first","grid":[547],"block":[128],"args":[{"in":"a"},{"out":"e"},{"i32":70000}]},)"
              R"({"launch":"second","grid":[547],"block":[128],"programmatic":true,"args":[{"in":"e"},{"out":"y"},)"
              R"({"i32":70000}]})",
          R"(
__global__ void first(const float* a, float* e, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  let_next_kernel_begin();
  if (i < n) e[i] = expf(a[i]);
}
__global__ void second(const float* e, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  wait_for_previous_kernel();
  if (i < n) y[i] = -e[i];
})",
          more};
}

// The sums of a product of half types, which the library does not round; the kernel behind it rounds once.
parts unrounded_sums() {
  return {"sums of a product in float32 by the library",
          tensor("name", "a", {96, 256}, "bfloat16") + "," + tensor("name", "b", {256, 64}, "bfloat16"),
          R"({"aten":"aten::mm","args":{"self":"a","mat2":"b"},"out":["p"]},)"
          R"({"aten":"aten::mul.Scalar","args":{"self":"p","other":0.3},"out":["y"]})",
          R"({"aten":"aten::mm.dtype","args":{"self":"a","mat2":"b","out_dtype":"float32"},"out":["p"]},)" +
              tensor("alloc", "y", {96, 64}, "bfloat16") +
              R"(,{"launch":"k","grid":[48],"block":[128],"args":[{"in":"p"},{"out":"y"}]})",
          "__global__ void k(const float* p, unsigned short* y) {\n"
          "  const int i = blockIdx.x * 128 + threadIdx.x;\n  y[i] = bfloat16_of_float(p[i] * 0.3f);\n}"};
}

}  // namespace

std::vector<surprise> expert_programs(const std::string& profile) {
  constexpr const char* graph = R"(,"execution":{"graph":true})";
  std::vector<parts> all{transposition("tiles of 32 bytes a row, swizzled", 8),
                         transposition("tiles of 64 bytes a row, swizzled", 16),
                         transposition("tiles of 128 bytes a row, swizzled", 32),
                         copy_of_dimensions("boxes of one dimension", 1),
                         copy_of_dimensions("boxes of three dimensions", 3),
                         copy_of_dimensions("boxes of four dimensions", 4),
                         copy_of_dimensions("boxes of five dimensions", 5),
                         pipelined_product(),
                         cooperative_norm("a barrier of all blocks", ""),
                         cooperative_norm("a barrier of all blocks, in a graph", graph),
                         programmatic_chain("a kernel that begins before the one ahead has ended", ""),
                         programmatic_chain("a kernel that begins before the one ahead has ended, in a graph", graph)};
  if (profile == "cuda") all.push_back(unrounded_sums());  // LibTorch has the operator for GPUs
  parts in_graph = transposition("tiles of 128 bytes a row, swizzled, in a graph", 32);
  in_graph.more = graph;
  all.push_back(in_graph);
  std::vector<surprise> programs;
  for (const auto& p : all)
    programs.push_back(made(p, profile));
  return programs;
}

}  // namespace cudal1::testing_honest
