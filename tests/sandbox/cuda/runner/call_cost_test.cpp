#include "sandbox/cuda/runtime/cubin_library.hpp"
#include "tests/sandbox/cuda/runner/gpu_fixture.hpp"

namespace cudal1 {
namespace {

constexpr std::string_view add_one = R"(__global__ void add_one(const float* x, float* y) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  y[i] = x[i] + 1.0f;
})";

// `count` steps from x to the last value, each computed from the one before.
program chain(int count, std::string_view source, std::string (*step)(const std::string& from, const std::string& to)) {
  std::string steps;
  for (int i = 0; i < count; ++i)
    steps += (i == 0 ? "" : ",") + step(i == 0 ? "x" : fmt::format("v{}", i - 1), fmt::format("v{}", i));
  auto text = fmt::format(R"({{"format":1,"name":"chain","inputs":[{{"name":"x","dtype":"float32","shape":[1024]}}],)"
                          R"("steps":[{}],"outputs":["v{}"]}})",
                          steps, count - 1);
  if (!source.empty()) text += "\n---\n" + std::string(source) + "\n";
  return read_program(text).value();
}

std::string operator_step(const std::string& from, const std::string& to) {
  return fmt::format(R"({{"aten":"aten::add.Scalar","args":{{"self":"{}","other":1}},"out":["{}"]}})", from, to);
}

std::string kernel_step(const std::string& from, const std::string& to) {
  return fmt::format(R"({{"alloc":"{1}","dtype":"float32","shape":[1024]}},{{"launch":"add_one","grid":[4,1,1],)"
                     R"("block":[256,1,1],"args":[{{"in":"{0}"}},{{"out":"{1}"}}]}})",
                     from, to);
}

class call_cost : public gpu_test {
 protected:
  // `count` launches and nothing else, as in any program on this host: microseconds with synchronisation, median.
  static double bare_launches(const kernel_library& library, int count) {
    const given_memory x = draw({{"x", contiguous(dtype::float32, {1024})}}, {input_spec{}}, 1);
    const kernel_handle* const kernel = library.find("add_one").value();
    void *from = x.views[0].data, *to = device().arena().allocate(4096);
    void* arguments[] = {&from, &to};
    std::vector<double> times;
    for (int i = 0; i < 1000; ++i)
      times.push_back(device()
                          .time_call([&]() -> expected<void> {
                            for (int k = 0; k < count; ++k)
                              library.launch({kernel, {4, 1, 1}, {256, 1, 1}}, arguments, 1);
                            return {};
                          })
                          .value());
    device().arena().release(to);
    return median(times);
  }
};

TEST_F(call_cost, a_rebound_graph_is_cheaper_than_launches_from_three_kernels_on) {
  std::printf("us per synchronised call of `count` operators or kernels, step by step or as a re-bound graph\n");
  std::printf("count  operators   kernels  bare launches  graph of operators  graph of kernels\n");
  const std::string object = cubin_of(add_one);
  const auto library = load_cubin(object, device().index()).value();
  for (const int count : {1, 3, 5, 20}) {
    const program operators = chain(count, "", operator_step), kernels = chain(count, add_one, kernel_step);
    std::vector<given_memory> draws;
    for (uint64_t seed = 1; seed <= 4; ++seed)
      draws.push_back(draw(kernels.inputs, {input_spec{}}, seed));
    const given_memory none = draw({}, {}, 0);
    const auto cost_of = [&](const program& p, std::string_view code) { return cost(*load(p, none, code), draws); };
    const double launched = cost_of(kernels, object), replayed = cost_of(with_graph(kernels), object);
    std::printf("%5d  %9.1f  %8.1f  %13.1f  %18.1f  %16.1f\n", count, cost_of(operators, ""), launched,
                bare_launches(*library, count), cost_of(with_graph(operators), ""), replayed);
    if (count >= 3) {
      EXPECT_LT(replayed, launched) << count << " kernels";
    }
  }
}

TEST_F(call_cost, both_clocks_agree_on_a_long_kernel) {
  // A copy of 1 GiB: host and device must agree within the cost of a call.
  const auto p =
      read_program(R"({"format":1,"name":"copy","inputs":[{"name":"x","dtype":"float32","shape":[268435456]}],)"
                   R"("steps":[{"aten":"aten::neg","args":{"self":"x"},"out":["y"]}],"outputs":["y"]})")
          .value();
  const given_memory inputs = draw(p.inputs, {input_spec{}}, 1), none = draw({}, {}, 0);
  const auto r = load(p, none);
  std::vector<double> host, on_device;
  for (int i = 0; i < 20; ++i) {
    r->release();
    host.push_back(device().time_call([&] { return r->call(inputs.views); }).value());
    r->release();
    on_device.push_back(device().time_on_device([&] { return r->call(inputs.views); }).value());
  }
  r->release();
  std::printf("2 GiB moved: host clock %.1f us, device clock %.1f us, %.0f GB/s\n", median(host), median(on_device),
              2.147483648e6 / median(on_device));
  EXPECT_GT(median(host), median(on_device));
  EXPECT_LT(median(host), median(on_device) + 40);
}

}  // namespace
}  // namespace cudal1
