// The compilers of a node with hostile sources among honest ones: the real host compiler, limited to a few seconds.
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "actors/agent/compiler_actor.hpp"
#include "sandbox/cpu/compiler/host_compiler.hpp"

namespace cudal1 {
namespace {

// `extra`: so that each has a key of its own in the cache.
shared_program program_of(const std::string& body, int extra) {
  const std::string text =
      R"({"format":1,"name":"v","inputs":[{"name":"a","dtype":"float32","shape":[64]}],"steps":[)"
      R"({"alloc":"y","dtype":"float32","shape":[64]},)"
      R"({"launch":"k","grid":[1,1,1],"block":[64,1,1],"args":[{"in":"a"},{"out":"y"}]}],"outputs":["y"]})"
      "\n---\n" +
      body + fmt::format("\n// {}\n", extra);
  auto checked = check_program_text(text);
  EXPECT_TRUE(checked) << checked.error().message;
  return shared_program(std::move(*checked));
}

constexpr const char* honest = "__global__ void k(const float* a, float* y) { y[threadIdx.x] = a[threadIdx.x]; }";
// 2^60 instantiations, none deeper than the compiler's limit.
constexpr const char* endless =
    "template <int D, long N> struct t { static constexpr long v = t<D - 1, 2 * N>::v + t<D - 1, 2 * N + 1>::v; };\n"
    "template <long N> struct t<0, N> { static constexpr long v = 1; };\n"
    "__global__ void k(const float* a, float* y) { y[threadIdx.x] = t<60, 0>::v; }";

TEST(compilers, hostile_sources_hold_one_worker_at_a_time_after_their_first_second) {
  host_compiler_options options;
  options.time_limit_s = 8;
  options.processes = 2;
  const std::shared_ptr<kernel_compiler> compiler = std::move(*host_compiler::create(options));
  caf::actor_system_config config;
  register_messages(config);
  caf::actor_system system(config);
  const auto front = system.spawn(run_compiler, compiler, 2, compiler_limits{1, std::chrono::minutes(5)});
  {
    caf::scoped_actor self(system);
    const auto ask = [&](const char* body, int number) {
      return self->request(front, caf::infinite, message::compile{"cpu", program_of(body, number), 0});
    };
    std::vector<decltype(ask(honest, 0))> hostile, others;
    for (int i = 0; i < 2; ++i)
      hostile.push_back(ask(endless, i));
    for (int i = 0; i < 4; ++i)
      others.push_back(ask(honest, i));
    for (auto& one : others)
      one.receive([](shared_code& code) { EXPECT_FALSE(code.value->object.empty()); },
                  [](caf::error& e) { ADD_FAILURE() << from_caf(e).message; });
    // With one limit for all, both would have been answered before any other was compiled.
    EXPECT_LE(self->mailbox().size(), 1u);
    for (auto& one : hostile)
      one.receive([](shared_code&) { ADD_FAILURE() << "2^60 instantiations were compiled"; },
                  [](caf::error& e) { EXPECT_EQ(from_caf(e).code, errc::timeout) << from_caf(e).message; });
  }
  caf::anon_send_exit(front, caf::exit_reason::user_shutdown);
}

}  // namespace
}  // namespace cudal1
