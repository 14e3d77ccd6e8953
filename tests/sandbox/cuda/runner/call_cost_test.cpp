#include "tests/sandbox/cuda/runner/gpu_fixture.hpp"

namespace cudal1 {
namespace {

program chain(int kernels) {
  std::string steps;
  for (int i = 0; i < kernels; ++i)
    steps += fmt::format(R"({}{{"aten":"aten::add.Scalar","args":{{"self":"{}","other":1}},"out":["v{}"]}})",
                         i == 0 ? "" : ",", i == 0 ? "x" : fmt::format("v{}", i - 1), i);
  const auto text =
      fmt::format(R"({{"format":1,"name":"chain","inputs":[{{"name":"x","dtype":"float32","shape":[1024]}}],)"
                  R"("steps":[{}],"outputs":["v{}"]}})",
                  steps, kernels - 1);
  return read_program(text).value();
}

using call_cost = gpu_test;

TEST_F(call_cost, a_rebound_graph_is_cheaper_than_launches_from_three_kernels_on) {
  std::printf("kernels  launched one by one  re-bound graph (us a synchronised call)\n");
  for (const int kernels : {1, 3, 5, 20}) {
    const program p = chain(kernels);
    std::vector<given_memory> draws;
    for (uint64_t seed = 1; seed <= 4; ++seed)
      draws.push_back(draw(p.inputs, {input_spec{}}, seed));
    const given_memory none = draw({}, {}, 0);
    const auto plain = load(p, none);
    const auto graph = load(with_graph(p), none);
    const double launched = cost(*plain, draws), replayed = cost(*graph, draws);
    std::printf("%7d  %19.1f  %14.1f\n", kernels, launched, replayed);
    if (kernels >= 3) {
      EXPECT_LT(replayed, launched) << kernels << " kernels";
    }
  }
}

TEST_F(call_cost, both_clocks_tell_the_time_of_a_long_kernel) {
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
