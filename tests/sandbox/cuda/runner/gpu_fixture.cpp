#include "tests/sandbox/cuda/runner/gpu_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <ATen/Context.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "sandbox/cuda/compiler/nvrtc_call.hpp"

namespace cudal1 {

std::unique_ptr<runner_device> gpu_test::device_;

void gpu_test::SetUp() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "this machine has no GPU";
  if (device_) return;
  const std::vector<int64_t> arena_bytes{int64_t{1} << 30, int64_t{1} << 30, int64_t{14} << 30};
  std::vector<unique_fd> arena;
  for (const int64_t bytes : arena_bytes) {
    auto part = make_device_memory(bytes, 0);
    ASSERT_TRUE(part) << part.error().message;
    arena.push_back(std::move(*part));
  }
  auto made = runner_device::create(0, std::move(arena), arena_bytes, 0);
  ASSERT_TRUE(made) << made.error().message;
  device_ = std::move(*made);
}

namespace {

at::ScalarType type_of(dtype t) {
  switch (t) {
    case dtype::float64:
      return at::kDouble;
    case dtype::float32:
      return at::kFloat;
    case dtype::float16:
      return at::kHalf;
    case dtype::bfloat16:
      return at::kBFloat16;
    case dtype::int64:
      return at::kLong;
    case dtype::int32:
      return at::kInt;
    case dtype::bool_:
      return at::kBool;
    default:
      return at::kByte;
  }
}

void fill(const tensor_view& view, const input_spec& spec) {
  const auto target =
      at::from_blob(view.data, {view.type.numel()}, at::TensorOptions(type_of(view.type.type)).device(at::kCUDA));
  const auto options = at::TensorOptions(at::kFloat).device(at::kCUDA);
  if (spec.draw.kind == distribution::integer)
    target.copy_(at::randint(static_cast<int64_t>(spec.draw.low), static_cast<int64_t>(spec.draw.high),
                             {view.type.numel()}, options));
  else if (std::ranges::count(spec.facts, fact::one_hot) + (spec.draw.kind == distribution::bernoulli) > 0)
    target.copy_(at::randint(0, 2, {view.type.numel()}, options));
  else
    target.copy_(at::randn({view.type.numel()}, options));
}

}  // namespace

given_memory gpu_test::draw(const std::vector<tensor_declaration>& declared, const std::vector<input_spec>& specs,
                            uint64_t seed) {
  const c10::InferenceMode no_autograd;
  given_memory g;
  std::vector<tensor_type> types;
  for (const auto& d : declared)
    types.push_back(d.type);
  const auto layout = device_layout_of(types);
  g.file = std::move(*make_device_memory(layout.bytes, 0));
  const auto writable = *map_device_memory(g.file.get(), layout.bytes, 0, memory_access::read_write);
  at::Generator generator = at::globalContext().defaultGenerator(at::Device(at::kCUDA, 0));
  generator.set_current_seed(seed);
  for (std::size_t i = 0; i < types.size(); ++i)
    fill({types[i], writable.data() + layout.offsets[i]}, specs[i]);
  EXPECT_TRUE(device().finish());
  g.mapped = std::move(*map_device_memory(g.file.get(), layout.bytes, 0, memory_access::read_only));
  for (std::size_t i = 0; i < types.size(); ++i)
    g.views.push_back({types[i], g.mapped.data() + layout.offsets[i]});
  return g;
}

std::vector<tensor_view> gpu_test::at_other_addresses(const given_memory& g, device_mapping& keeper) {
  keeper = std::move(*map_device_memory(g.file.get(), g.mapped.size(), 0, memory_access::read_only));
  auto views = g.views;
  for (auto& view : views)
    view.data = keeper.data() + (static_cast<std::byte*>(view.data) - g.mapped.data());
  return views;
}

std::string gpu_test::cubin_of(std::string_view source, std::string_view head) {
  int major = 0, minor = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), cudaSuccess);
  const auto compiled = compile_with_nvrtc(std::string(head) + "extern \"C\" " + std::string(source),
                                           fmt::format("sm_{}{}", major, minor), {}, 16 << 10);
  EXPECT_EQ(compiled.status, compile_status::compiled) << compiled.log;
  return compiled.cubin;
}

std::unique_ptr<resident> gpu_test::load(const program& p, const given_memory& weights, std::string_view object) {
  auto known = std::make_shared<known_program>(check_program(p).value());
  auto loaded = resident::load(std::move(known), object, 0, device().arena(), device().stream());
  EXPECT_TRUE(loaded) << loaded.error().message;
  EXPECT_TRUE(device().arena().begin_call(1));
  const auto set = (*loaded)->set_weights(weights.views);
  EXPECT_TRUE(set) << set.error().message;
  EXPECT_TRUE(device().finish());
  return std::move(*loaded);
}

void gpu_test::ready(resident& r, const given_memory& inputs) {
  r.release();
  if (!r.needs_capture()) return;
  device_mapping keeper;
  const auto moved = at_other_addresses(inputs, keeper);
  EXPECT_TRUE(device().arena().begin_call(2));
  const auto captured = r.capture(inputs.views, moved);
  EXPECT_TRUE(captured) << captured.error().message;
}

std::vector<std::string> gpu_test::outputs_of(resident& r, const given_memory& inputs, uint64_t seed) {
  ready(r, inputs);
  EXPECT_TRUE(device().arena().begin_call(seed));
  r.prepare();
  const auto called = r.call(inputs.views);
  EXPECT_TRUE(called) << called.error().message;
  EXPECT_TRUE(device().note_call(r.outputs(), seed));
  EXPECT_TRUE(device().finish());
  EXPECT_EQ(device().found().guards.text(), "");
  std::vector<std::string> bytes;
  for (const auto& output : r.outputs()) {
    std::string text(static_cast<std::size_t>(output.type.storage_bytes()), '\0');
    EXPECT_EQ(cudaMemcpy(text.data(), output.data, text.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    bytes.push_back(std::move(text));
  }
  r.release();
  return bytes;
}

double gpu_test::difference(const std::string& a, const std::string& b) {
  double largest = 0, size = 1e-30;
  for (std::size_t i = 0; i + 4 <= a.size(); i += 4) {
    float x = 0, y = 0;
    std::memcpy(&x, a.data() + i, 4);
    std::memcpy(&y, b.data() + i, 4);
    if (x != x || y != y) return x != x && y != y ? largest / size : 1e30;
    largest = std::max(largest, std::abs(static_cast<double>(x) - y));
    size = std::max(size, std::abs(static_cast<double>(x)));
  }
  return largest / size;
}

std::unique_ptr<resident> gpu_test::expect_the_same_as_a_graph(const program& p, double largest) {
  const auto plain = load(p, {});
  auto graph = load(with_graph(p), {});
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const given_memory inputs = draw(p.inputs, std::vector<input_spec>(p.inputs.size()), seed);
    const auto wanted = outputs_of(*plain, inputs, seed);
    const auto got = outputs_of(*graph, inputs, seed + 100);
    EXPECT_EQ(got.size(), 1u);
    if (got.size() != 1) break;
    EXPECT_LE(difference(wanted[0], got[0]), largest) << "of draw " << seed;
  }
  return graph;
}

double gpu_test::median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double gpu_test::cost(resident& r, const std::vector<given_memory>& draws) {
  std::vector<double> times;
  ready(r, draws[0]);
  for (int i = 0; i < 1100; ++i) {
    const auto& inputs = draws[static_cast<std::size_t>(i) % draws.size()];
    r.release();
    const auto took = device().time_call([&] { return r.call(inputs.views); });
    EXPECT_TRUE(took) << took.error().message;
    if (!took) break;
    if (i >= 100) times.push_back(*took);
  }
  r.release();
  return times.empty() ? 0 : median(times);
}

program with_graph(program p) {
  p.how.graph = true;
  return p;
}

}  // namespace cudal1
