#include "tests/sandbox/honest/surprises.hpp"

#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "policy/moves/lowering.hpp"

namespace cudal1::testing_honest {
namespace {

std::string tensor(const char* name, const std::vector<int64_t>& shape, const char* more = "") {
  return fmt::format(R"({{"name":"{}","dtype":"float32","shape":[{}]{}}})", name, fmt::join(shape, ","), more);
}
std::string alloc(const char* name, const std::vector<int64_t>& shape) {
  return fmt::format(R"({{"alloc":"{}","dtype":"float32","shape":[{}]}},)", name, fmt::join(shape, ","));
}
std::string launch(const char* kernel, int64_t grid, int64_t block, const char* args, bool last = true) {
  return fmt::format(R"({{"launch":"{}","grid":[{},1,1],"block":[{},1,1],"args":[{}]}}{})", kernel, grid, block, args,
                     last ? "" : ",");
}

// All of one task.
class corpus {
 public:
  explicit corpus(std::string profile) : profile_(std::move(profile)) {}

  // `inputs`: with facts and draws for the task; without them for the program.
  corpus& on(const std::string& inputs, const std::string& declared, const std::string& steps) {
    inputs_ = declared;
    const std::string text = R"({"format":1,"name":"t","family":"test","inputs":[)" + inputs + R"(],"steps":[)" +
                             steps + R"(],"outputs":["y"]})";
    auto t = read_task(text, profile_);
    if (!t) throw std::runtime_error(t.error().message + ": " + text);
    task_ = std::move(*t);
    return *this;
  }
  corpus& add(const char* name, const std::string& steps, const std::string& source, const char* more = "") {
    all.push_back({name, task_,
                   R"({"format":1,"name":"v","inputs":[)" + inputs_ + R"(],"steps":[)" + steps +
                       R"(],"outputs":["y"])" + more + "}" + (source.empty() ? "" : "\n---\n" + source + "\n")});
    return *this;
  }

  std::vector<surprise> all;

 private:
  std::string profile_, inputs_;
  task task_;
};

constexpr const char* mm = R"({"aten":"aten::mm","args":{"self":"a","mat2":"b"},"out":["y"]})";
constexpr const char* args_aby = R"({"in":"a"},{"in":"b"},{"out":"y"})";
constexpr const char* args_ay = R"({"in":"a"},{"out":"y"})";

void add_structure(corpus& c) {
  const std::string b = tensor("b", {64, 48});
  c.on(tensor("a", {64, 64}, R"(,"facts":["diagonal"])") + "," + b, tensor("a", {64, 64}) + "," + b, mm)
      .add("diagonal product as row scaling", alloc("y", {64, 48}) + launch("k", 64, 48, args_aby),
           "__global__ void k(const float* a, const float* b, float* y) {\n"
           "  int i = blockIdx.x * 48 + threadIdx.x; y[i] = a[blockIdx.x * 65] * b[i]; }");
  c.on(tensor("a", {64, 64}, R"(,"facts":["upper_triangular"])") + "," + b, tensor("a", {64, 64}) + "," + b, mm)
      .add("zero half of a triangle skipped", alloc("y", {64, 48}) + launch("k", 64, 48, args_aby),
           "__global__ void k(const float* a, const float* b, float* y) {\n"
           "  float s = 0; for (unsigned i = blockIdx.x; i < 64; ++i) s += a[blockIdx.x * 64 + i] * b[i * 48 + "
           "threadIdx.x];\n"
           "  y[blockIdx.x * 48 + threadIdx.x] = s; }");
  const std::string column = tensor("a", {64, 1});
  c.on(column, column, R"({"aten":"aten::softmax.int","args":{"self":"a","dim":1},"out":["y"]})")
      .add("provably constant result", alloc("y", {64, 1}) + launch("k", 1, 64, args_ay),
           "__global__ void k(const float* a, float* y) { y[threadIdx.x] = 1; }");
  const std::string thin = tensor("a", {64, 1, 48});
  c.on(thin, thin,
       R"({"aten":"aten::sum.dim_IntList","args":{"self":"a","dim":[1]},"out":["s"]},)"
       R"({"aten":"aten::relu","args":{"self":"s"},"out":["y"]})")
      .add("sum over a dimension of size one dropped", alloc("y", {64, 48}) + launch("k", 64, 48, args_ay),
           "__global__ void k(const float* a, float* y) {\n"
           "  int i = blockIdx.x * 48 + threadIdx.x; y[i] = a[i] > 0 ? a[i] : 0; }");
}

void add_algebra(corpus& c) {
  const std::string ab = tensor("a", {64, 96}) + "," + tensor("b", {96, 80});
  c.on(ab, ab,
       R"({"aten":"aten::mm","args":{"self":"a","mat2":"b"},"out":["p"]},)"
       R"({"aten":"aten::sum.dim_IntList","args":{"self":"p","dim":[1]},"out":["y"]})")
      .add("product and row sum as a matrix-vector product",
           alloc("w", {96}) + alloc("y", {64}) + launch("sums", 1, 96, R"({"in":"b"},{"out":"w"})", false) +
               launch("dot", 1, 64, R"({"in":"a"},{"in":"w"},{"out":"y"})"),
           "__global__ void sums(const float* b, float* w) {\n"
           "  float s = 0; for (int j = 0; j < 80; ++j) s += b[threadIdx.x * 80 + j]; w[threadIdx.x] = s; }\n"
           "__global__ void dot(const float* a, const float* w, float* y) {\n"
           "  float s = 0; for (int k = 0; k < 96; ++k) s += a[threadIdx.x * 96 + k] * w[k]; y[threadIdx.x] = s; }");
  const std::string abx = tensor("a", {64, 96}) + "," + tensor("b", {96, 80}) + "," + tensor("x", {80, 1});
  c.on(abx, abx,
       R"({"aten":"aten::mm","args":{"self":"a","mat2":"b"},"out":["p"]},)"
       R"({"aten":"aten::mm","args":{"self":"p","mat2":"x"},"out":["y"]})")
      .add("products in another order",
           R"({"aten":"aten::mm","args":{"self":"b","mat2":"x"},"out":["p"]},)"
           R"({"aten":"aten::mm","args":{"self":"a","mat2":"p"},"out":["y"]})",
           "");
  const std::string rows = tensor("a", {64, 256});
  c.on(rows, rows, R"({"aten":"aten::softmax.int","args":{"self":"a","dim":-1},"out":["y"]})")
      .add(
          "softmax in one pass", alloc("y", {64, 256}) + launch("k", 1, 64, args_ay),
          "__global__ void k(const float* a, float* y) {\n"
          "  const float* r = a + threadIdx.x * 256; float m = r[0], s = 1;\n"
          "  for (int i = 1; i < 256; ++i) { float n = fmaxf(m, r[i]); s = s * expf(m - n) + expf(r[i] - n); m = n; }\n"
          "  for (int i = 0; i < 256; ++i) y[threadIdx.x * 256 + i] = expf(r[i] - m) / s; }");
}

// U = G g G', V = B' d B, Y = A' (U V) A for tiles of 2 x 2 (Lavin and Gray 2016).
constexpr const char* winograd = R"(
__device__ void filter(const float* g, float* u) {
  float t[12];
  for (int j = 0; j < 3; ++j) {
    t[j] = g[j]; t[3 + j] = (g[j] + g[3 + j] + g[6 + j]) * 0.5f;
    t[6 + j] = (g[j] - g[3 + j] + g[6 + j]) * 0.5f; t[9 + j] = g[6 + j];
  }
  for (int i = 0; i < 4; ++i) {
    const float x = t[3 * i], y = t[3 * i + 1], z = t[3 * i + 2];
    u[4 * i] = x; u[4 * i + 1] = (x + y + z) * 0.5f; u[4 * i + 2] = (x - y + z) * 0.5f; u[4 * i + 3] = z;
  }
}
__device__ void data(const float* d, float* v) {
  float t[16];
  for (int j = 0; j < 4; ++j) {
    t[j] = d[j] - d[8 + j]; t[4 + j] = d[4 + j] + d[8 + j]; t[8 + j] = d[8 + j] - d[4 + j]; t[12 + j] = d[4 + j] - d[12 + j];
  }
  for (int i = 0; i < 4; ++i) {
    const float* r = t + 4 * i;
    v[4 * i] = r[0] - r[2]; v[4 * i + 1] = r[1] + r[2]; v[4 * i + 2] = r[2] - r[1]; v[4 * i + 3] = r[1] - r[3];
  }
}
__global__ void k(const float* a, const float* b, float* y) {
  const int n = blockIdx.x / 8, k = blockIdx.x % 8, ty = threadIdx.x / 8, tx = threadIdx.x % 8;
  float m[16];
  for (int i = 0; i < 16; ++i) m[i] = 0;
  for (int c = 0; c < 4; ++c) {
    float d[16], u[16], v[16];
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) {
        const int row = 2 * ty + i - 1, column = 2 * tx + j - 1;
        d[4 * i + j] = row >= 0 && row < 16 && column >= 0 && column < 16 ? a[((n * 4 + c) * 16 + row) * 16 + column] : 0;
      }
    filter(b + (k * 4 + c) * 9, u);
    data(d, v);
    for (int i = 0; i < 16; ++i) m[i] += u[i] * v[i];
  }
  for (int j = 0; j < 2; ++j)
    for (int i = 0; i < 2; ++i) {
      float sum = 0;
      for (int q = 0; q < 4; ++q) {
        const float r = i == 0 ? m[q] + m[4 + q] + m[8 + q] : m[4 + q] - m[8 + q] - m[12 + q];
        if (j == 0 && q < 3) sum += r;
        if (j == 1 && q == 1) sum += r;
        if (j == 1 && q > 1) sum -= r;
      }
      y[((n * 8 + k) * 16 + 2 * ty + i) * 16 + 2 * tx + j] = sum;
    }
})";

void add_arithmetic(corpus& c) {
  const std::string ab = tensor("a", {64, 512}) + "," + tensor("b", {512, 64});
  c.on(ab, ab, mm)
      .add("three TF32 products", alloc("y", {64, 64}) + launch("k", 64, 64, args_aby), R"(
__device__ float high(float x) { return __int_as_float((__float_as_int(x) + 0x1000) & ~0x1fff); }
__global__ void k(const float* a, const float* b, float* y) {
  float s = 0, t = 0;
  for (int i = 0; i < 512; ++i) {
    const float u = a[blockIdx.x * 512 + i], v = b[i * 64 + threadIdx.x];
    const float uh = high(u), vh = high(v), ul = high(u - uh), vl = high(v - vh);
    s += uh * vh; t += uh * vl + ul * vh;
  }
  y[blockIdx.x * 64 + threadIdx.x] = s + t; })")
      .add("sums truncated after every eight products", alloc("y", {64, 64}) + launch("k", 64, 64, args_aby), R"(
__global__ void k(const float* a, const float* b, float* y) {
  const float* row = a + blockIdx.x * 512; float s = 0;
  for (int i = 0; i < 512; i += 8) {
    double part = s;
    for (int j = i; j < i + 8; ++j) part += (double)row[j] * b[j * 64 + threadIdx.x];
    s = __int_as_float(__float_as_int((float)part) & ~1);
  }
  y[blockIdx.x * 64 + threadIdx.x] = s; })")
      .add("tiles of the task's shape", alloc("y", {64, 64}) + launch("k", 16, 256, args_aby), R"(
__global__ void k(const float* a, const float* b, float* y) {
  __shared__ float s[16][16], t[16][16];
  const int row = threadIdx.x / 16, column = threadIdx.x % 16, first = blockIdx.x / 4 * 16, left = blockIdx.x % 4 * 16;
  float sum = 0;
  for (int tile = 0; tile < 512; tile += 16) {
    s[row][column] = a[(first + row) * 512 + tile + column];
    t[row][column] = b[(tile + row) * 64 + left + column];
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += s[row][i] * t[i][column];
    __syncthreads();
  }
  y[(first + row) * 64 + left + column] = sum; })");
  const std::string images = tensor("a", {2, 4, 16, 16}) + "," + tensor("b", {8, 4, 3, 3});
  c.on(images, images, R"({"aten":"aten::conv2d","args":{"input":"a","weight":"b","padding":[1,1]},"out":["y"]})")
      .add("Winograd's algorithm", alloc("y", {2, 8, 16, 16}) + launch("k", 16, 64, args_aby), winograd);
}

// Too few elements for eager's own rounding error on them to say how large one may be.
void add_small_outputs(corpus& c) {
  const std::string rows = tensor("a", {2, 16384});
  const std::string sums = R"({"aten":"aten::sum.dim_IntList","args":{"self":"a","dim":[1]},"out":["s"]},)";
  const std::string source = R"(
__global__ void k(const float* a, float* y) {
  __shared__ float part[128];
  float s = 0;
  for (int i = threadIdx.x; i < 16384; i += 128) s += a[blockIdx.x * 16384 + i];
  part[threadIdx.x] = s;
  __syncthreads();
  if (threadIdx.x != 0) return;
  s = 0;
  for (int i = 0; i < 128; ++i) s += part[i];
  y[blockIdx.x] = )";
  const std::string steps = alloc("y", {2}) + launch("k", 2, 128, args_ay);
  c.on(rows, rows, sums + R"({"aten":"aten::div.Scalar","args":{"self":"s","other":16384},"out":["y"]})")
      .add("two means, of terms that cancel", steps, source + "s / 16384.0f; }");
  c.on(rows, rows, sums + R"({"aten":"aten::sin","args":{"self":"s"},"out":["y"]})")
      .add("two sines of large sums", steps, source + "sinf(s); }");
}

// Few elements of many that rounding takes far: sines of what an outlier made large.
void add_few_sensitive_elements(corpus& c) {
  const std::string ab = tensor("a", {128, 256}) + "," + tensor("b", {256});
  const std::string steps = alloc("y", {128, 256}) + launch("k", 128, 256, args_aby);
  const std::string product = R"({"aten":"aten::mul.Tensor","args":{"self":"a","other":"b"},"out":["p"]},)"
                              R"({"aten":"aten::add.Tensor","args":{"self":"p","other":"b"},"out":["s"]},)";
  c.on(ab, ab, product + R"({"aten":"aten::sin","args":{"self":"s"},"out":["y"]})")
      .add("sines of a fused multiply-add, one of a large number", steps,
           "__global__ void k(const float* a, const float* b, float* y) {\n"
           "  int i = blockIdx.x * 256 + threadIdx.x; y[i] = sinf(fmaf(a[i], b[threadIdx.x], b[threadIdx.x])); }");
}

// Between the steps of a half type eager rounds, and overflows; a kernel computes all of them in float32.
void add_half_types(corpus& c) {
  const auto half = [](const char* name, const char* type) {
    return fmt::format(R"({{"name":"{}","dtype":"{}","shape":[512,512]}})", name, type);
  };
  const auto converted = [](const char* from, const char* type, const char* to) {
    return fmt::format(R"({{"aten":"aten::_to_copy","args":{{"self":"{}","dtype":"{}"}},"out":["{}"]}},)", from, type,
                       to);
  };
  const auto scaled = [](const char* from, double by, const char* to) {
    return fmt::format(R"({{"aten":"aten::mul.Scalar","args":{{"self":"{}","other":{}}},"out":["{}"]}},)", from, by,
                       to);
  };
  const auto last = [](std::string steps) {
    steps.pop_back();  // the comma
    return steps;
  };
  const std::string a = half("a", "float16");
  c.on(a, a, last(scaled("a", 3000, "s") + scaled("s", 1e-3, "y")))
      .add("a product that overflows in float16 alone",
           last(converted("a", "float32", "w") + scaled("w", 3000, "s") + scaled("s", 1e-3, "t") +
                converted("t", "float16", "y")),
           "");
  c.on(a, a, last(scaled("a", 16000, "s") + scaled("s", 3.31, "y")))
      .add("infinity where rounding on the way would leave a finite float16",
           last(converted("a", "float32", "w") + scaled("w", 16000, "s") + scaled("s", 3.31, "t") +
                converted("t", "float16", "y")),
           "");
  const std::string ab = half("a", "bfloat16") + "," + half("b", "bfloat16");
  const auto rotated = [](const char* x, const char* z, const char* y) {
    return fmt::format(R"({{"aten":"aten::mul.Tensor","args":{{"self":"{0}","other":"{1}"}},"out":["p"]}},)"
                       R"({{"aten":"aten::sub.Tensor","args":{{"self":"p","other":"{0}"}},"out":["q"]}},)"
                       R"({{"aten":"aten::add.Tensor","args":{{"self":"q","other":"{1}"}},"out":["{2}"]}},)",
                       x, z, y);
  };
  c.on(ab, ab, last(rotated("a", "b", "y")))
      .add("sums of bfloat16 that are rounded once",
           last(converted("a", "float32", "u") + converted("b", "float32", "v") + rotated("u", "v", "t") +
                converted("t", "bfloat16", "y")),
           "");
}

void add_memory(corpus& c) {
  const std::string rows = tensor("a", {16, 8192});
  const std::string sum = R"({"aten":"aten::sum.dim_IntList","args":{"self":"a","dim":[1]},"out":["y"]})";
  c.on(rows, rows, sum)
      .add("float atomics",
           alloc("y", {16}) + launch("clear", 1, 16, R"({"out":"y"})", false) +
               launch("k", 128, 64, R"({"in":"a"},{"inout":"y"})"),
           "__global__ void clear(float* y) { y[threadIdx.x] = 0; }\n"
           "__global__ void k(const float* a, float* y) {\n"
           "  float s = 0; for (int i = threadIdx.x; i < 1024; i += 64) s += a[blockIdx.x * 1024 + i];\n"
           "  atomicAdd(y + blockIdx.x / 8, s); }")
      .add("a workspace that is rewritten in every call",
           alloc("w", {16, 64}) + alloc("y", {16}) + launch("part", 16, 64, R"({"in":"a"},{"out":"w"})", false) +
               launch("whole", 1, 16, R"({"in":"w"},{"out":"y"})"),
           "__global__ void part(const float* a, float* w) {\n"
           "  float s = 0; for (int i = threadIdx.x; i < 8192; i += 64) s += a[blockIdx.x * 8192 + i];\n"
           "  w[blockIdx.x * 64 + threadIdx.x] = s; }\n"
           "__global__ void whole(const float* w, float* y) {\n"
           "  float s = 0; for (int i = 0; i < 64; ++i) s += w[threadIdx.x * 64 + i]; y[threadIdx.x] = s; }");
  const std::string values = tensor("a", {64, 256});
  c.on(values, values,
       R"({"aten":"aten::relu","args":{"self":"a"},"out":["r"]},)"
       R"({"aten":"aten::softmax.int","args":{"self":"r","dim":-1},"out":["y"]})")
      .add("a graph that copies its inputs in",
           R"({"aten":"aten::relu","args":{"self":"a"},"out":["r"]},)"
           R"({"aten":"aten::softmax.int","args":{"self":"r","dim":-1},"out":["y"]})",
           "", R"(,"execution":{"graph":true})");
}

// Three TF32 products by the library, as the move writes them: on tensor cores, and of many terms near one.
void add_library_products(std::vector<surprise>& all) {
  for (const int64_t terms : {1024, 131072}) {
    const char* near_one = R"(,"draw":{"distribution":"uniform","low":0.9,"high":1.1})";
    const auto t = read_task(R"({"format":1,"name":"t","inputs":[)" + tensor("a", {256, terms}, near_one) + "," +
                                 tensor("b", {terms, 256}, near_one) + R"(],"steps":[)" + mm + R"(],"outputs":["y"]})",
                             "cuda");
    const auto moves = parse_schedule("precision(step=0, as=tf32x3)");
    const auto target = find_lowering_target("cuda");
    if (!t || !moves || !target) throw std::runtime_error("the task, the schedule or the target of a long product");
    const auto program = lower(*t, *moves, **target);
    if (!program) throw std::runtime_error(program.error().message);
    all.push_back({terms == 1024 ? "3xTF32 by the library" : "3xTF32 by the library, 131,072 terms near one", *t,
                   print_program(program->checked.text)});
  }
}

}  // namespace

std::vector<surprise> surprises(const std::string& profile) {
  corpus c(profile);
  add_structure(c);
  add_algebra(c);
  add_arithmetic(c);
  add_small_outputs(c);
  add_few_sensitive_elements(c);
  add_half_types(c);
  add_memory(c);
  if (profile == "cuda") add_library_products(c.all);
  return c.all;
}

}  // namespace cudal1::testing_honest
