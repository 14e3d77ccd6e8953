// The link to a runner that fails, lies, hangs or dies: the outcome of each, and whether the link can still be used.
#include <cmath>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>

#include "sandbox/cuda/referee/gpu_backend.hpp"
#include "sandbox/referee/draw_pool.hpp"
#include "tests/sandbox/cuda/referee/cpu_device.hpp"
#include "tests/sandbox/cuda/referee/cpu_runner.hpp"

namespace cudal1::test {
namespace {

using answers = std::function<expected<gpu_call_record>(const frame&)>;

gpu_call_record place(int64_t offset, output_home home = output_home::arena, uint32_t index = 0) {
  gpu_call_record record;
  record.microseconds = 1;
  record.outputs = {{static_cast<uint32_t>(home), index, offset}};
  return record;
}

expected<gpu_reply> answer_calls(const frame& f, const answers& of_call, gpu_progress& progress) {
  gpu_reply reply;
  CUDAL1_TRY(const auto message, record_of<gpu_calls_message>(f));
  for (std::size_t i = 0; i < message.calls.size(); ++i) {
    ++progress.calls;
    CUDAL1_TRY(auto record, of_call(f));
    reply.calls.push_back(std::move(record));
  }
  return reply;
}

// Answers calls by `of_call`, and everything else with `done`; with `stop` it ends at the first failure.
int serve_calls(int channel, const answers& of_call, bool stop) {
  mapping page;
  for (;;) {
    const auto f = receive_frame(channel, deadline_in(std::chrono::minutes(1)));
    if (!f) return 0;
    if (f->type == frame_type::arena)
      page = *map_shared(f->descriptors.at(0).get(), gpu_progress::bytes, memory_access::read_write);
    const auto reply = f->type == frame_type::call
                           ? answer_calls(*f, of_call, *reinterpret_cast<gpu_progress*>(page.data()))
                           : expected<gpu_reply>(gpu_reply{});
    const auto until = deadline_in(std::chrono::seconds(10));
    if (reply)
      (void)send_record(channel, frame_type::done, *reply, until);
    else
      (void)send_failure(channel, reply.error(), until);
    if (!reply && stop) return 0;
  }
}

struct linking : testing::Test {
  gpu_backend backend{make_cpu_device()};
  std::unique_ptr<draw_pool> pool;
  forked_process process;
  std::unique_ptr<gpu_runner_link> link;

  void SetUp() override {
    auto opened = draw_pool::open(add_relu_task(1000), {}, backend, int64_t{1} << 28);
    ASSERT_TRUE(opened) << opened.error().message;
    pool = std::move(*opened);
  }

  void start(const std::function<int(int)>& body, int64_t memory_bytes = 1 << 20) {
    process = fork_process(body);
    link = std::make_unique<gpu_runner_link>(backend.device(), std::move(process.channel), std::move(process.pidfd));
    link->begin_request({.call_ms = 100, .memory_bytes = memory_bytes, .first_call_ms = 0});
    const auto loaded = link->load(resident_program::variant, pool->of().reference, -1, "own");
    ASSERT_TRUE(loaded) << loaded.error().message;
  }

  expected<call_record> call() {
    CUDAL1_TRY(auto results, run(1));
    return std::move(results.at(0));
  }
  expected<std::vector<call_record>> run(std::size_t calls) {
    const planned_call planned{.draw = *pool->get({}, 0), .mode = call_mode::timed, .keep = true};
    return link->run(std::vector<planned_call>(calls, planned));
  }
  expected<call_record> call_of(const answers& of_call, bool stop = false) {
    start([&](int channel) { return serve_calls(channel, of_call, stop); });
    return call();
  }
  std::optional<outcome> kind() const { return link->problem() ? std::optional(link->problem()->kind) : std::nullopt; }
};

TEST_F(linking, accepts_a_valid_reply) {
  const auto called = call_of([](const frame&) { return place(512); });
  ASSERT_TRUE(called) << called.error().message;
  EXPECT_EQ(called->microseconds, 1);
  EXPECT_EQ(called->outputs.at(0).home, output_home::arena);
}

TEST_F(linking, without_a_limit_a_runner_gets_most_of_a_small_device) {
  start(
      [&](int channel) {
        return serve_calls(
            channel, [](const frame&) { return place(512); }, false);
      },
      0);
  EXPECT_GT(link->keepable_bytes(), int64_t{64} << 20);
  EXPECT_LT(link->keepable_bytes(), int64_t{1} << 30) << "which has 1 GiB";
}

TEST_F(linking, a_failed_call_is_a_fault_and_the_runner_continues_if_it_responds) {
  const auto called =
      call_of([](const frame&) { return fail(errc::out_of_memory, "out of memory: step 1 (alloc y)"); });
  ASSERT_FALSE(called);
  EXPECT_EQ(called.error().code, errc::variant_fault);
  EXPECT_EQ(kind(), outcome::out_of_memory);
  EXPECT_FALSE(link->ended());
  EXPECT_FALSE(link->lost());
}

TEST_F(linking, a_runner_that_exits_after_its_reply_has_ended) {
  const auto called =
      call_of([](const frame&) { return fail(errc::variant_fault, "step 1: cudaErrorIllegalAddress"); }, true);
  ASSERT_FALSE(called);
  EXPECT_EQ(kind(), outcome::out_of_bounds);
  EXPECT_TRUE(link->ended());
  EXPECT_FALSE(link->lost()) << "it reported what happened";
  EXPECT_EQ(call().error().code, errc::invalid_argument) << "nothing is loaded any more";
}

TEST_F(linking, a_runner_that_dies_is_lost) {
  const auto called = call_of([](const frame&) -> expected<gpu_call_record> { ::_exit(7); });
  ASSERT_FALSE(called);
  EXPECT_EQ(called.error().code, errc::variant_fault);
  EXPECT_TRUE(link->lost());
  EXPECT_TRUE(link->ended());
  EXPECT_FALSE(link->problem());
}

TEST_F(linking, a_hang_is_killed) {
  const auto called = call_of([](const frame&) -> expected<gpu_call_record> {
    for (;;)
      ::pause();
  });
  ASSERT_FALSE(called);
  EXPECT_EQ(kind(), outcome::hang);
  EXPECT_TRUE(link->ended());
  EXPECT_EQ(process.wait(), SIGKILL);
}

TEST_F(linking, a_guard_that_was_overwritten_is_out_of_bounds) {
  gpu_call_record reply = place(0);
  reply.guard_problem = "12 bytes after y were written";
  ASSERT_FALSE(call_of([&](const frame&) { return reply; }));
  EXPECT_EQ(kind(), outcome::out_of_bounds);
  EXPECT_EQ(link->problem()->reason, "12 bytes after y were written");
}

TEST_F(linking, outputs_must_lie_in_memory_of_the_call) {
  for (const auto& lie :
       {place(-4), place(int64_t{1} << 40), place((int64_t{2} << 20) - 8), place(2), place(0, output_home::elsewhere),
        place(0, output_home::input, 9), place(8, output_home::input, 0)}) {
    ASSERT_FALSE(call_of([&](const frame&) { return lie; })) << lie.outputs[0].offset;
    EXPECT_EQ(kind(), outcome::crash);
  }
  EXPECT_TRUE(call_of([](const frame&) { return place(0, output_home::weight, 0); }));
}

TEST_F(linking, an_invalid_reply_is_not_a_fault_of_the_variant) {
  gpu_call_record backwards = place(0), no_outputs = place(0);
  backwards.microseconds = -1;
  no_outputs.outputs.clear();
  for (const auto& reply : {backwards, no_outputs}) {
    const auto called = call_of([&](const frame&) { return reply; });
    ASSERT_FALSE(called);
    EXPECT_EQ(called.error().code, errc::infrastructure);
    EXPECT_FALSE(link->problem());
  }
  start([](int channel) {
    return serve_calls(
        channel,
        [&](const frame&) -> expected<gpu_call_record> {
          (void)!::write(channel, "this is no frame at all", 23);
          ::_exit(0);
        },
        false);
  });
  EXPECT_EQ(call().error().code, errc::infrastructure);
  EXPECT_TRUE(link->ended());
}

TEST_F(linking, a_call_that_took_longer_than_it_may_is_a_hang) {
  gpu_call_record slow = place(0);
  slow.microseconds = 150'000;
  ASSERT_FALSE(call_of([&](const frame&) { return slow; }));
  EXPECT_EQ(kind(), outcome::hang);
}

TEST_F(linking, memory_is_given_once_reused_by_renewed_draws_and_dropped_when_it_is_freed) {
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  start([&](int channel) {
    for (;;) {
      const auto f = receive_frame(channel, deadline_in(std::chrono::minutes(1)));
      if (!f) return 0;
      std::string mark = f->type == frame_type::tensors ? "t" : f->type == frame_type::drop ? "d" : "c";
      if (f->type == frame_type::call) {
        const auto m = record_of<gpu_calls_message>(*f)->calls.at(0);
        mark = fmt::format("[{} {} {}]", m.inputs, m.weights, m.generation);
      }
      (void)!::write(pipe_ends[1], mark.data(), mark.size());
      gpu_reply reply;
      if (f->type == frame_type::call) reply.calls = {place(0)};
      (void)send_record(channel, frame_type::done, reply, deadline_in(std::chrono::seconds(10)));
    }
  });
  ASSERT_TRUE(call());
  const auto said = [](const draw& of) {
    const auto inputs = shared_tensors::of(of.inputs), weights = shared_tensors::of(of.weights);
    return fmt::format("[{} {} {}]", inputs->id, weights->id, weights->generation);
  };
  const std::string first = said(**pool->get({}, 0));
  ASSERT_TRUE(call());
  pool->renew();
  ASSERT_TRUE(call());
  const std::string renewed = said(**pool->get({}, 0));
  EXPECT_NE(renewed, first);
  EXPECT_EQ(renewed.substr(0, renewed.rfind(' ')), first.substr(0, first.rfind(' '))) << "only the generation is new";
  pool.reset();
  backend.memory().trim(0);
  SetUp();  // another pool
  ASSERT_TRUE(call());
  const std::string other = said(**pool->get({}, 0));
  char marks[256] = {};
  const auto got = ::read(pipe_ends[0], marks, sizeof marks - 1);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  // arena and load; inputs, weights, a call; a call; the same memory; both gone at once, both new, a call.
  EXPECT_EQ(std::string(marks, static_cast<std::size_t>(std::max<ssize_t>(got, 0))),
            "cctt" + first + first + renewed + "dtt" + other);
}

// Each call has its own limit, and the one in progress is the one that is blamed.
TEST_F(linking, many_calls_may_take_longer_than_one) {
  const auto slow = [](const frame&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return place(0);
  };
  start([&](int channel) { return serve_calls(channel, slow, false); });
  link->begin_request({.call_ms = 20, .memory_bytes = 1 << 20, .first_call_ms = 0});
  const auto results = run(10);  // of 520 ms each
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ(results->size(), 10U);
}

TEST_F(linking, the_call_in_progress_is_the_one_that_hangs) {
  int calls = 0;
  start([&](int channel) {
    return serve_calls(
        channel,
        [&](const frame&) -> expected<gpu_call_record> {
          for (; calls++ == 2;)
            ::pause();
          return place(0);
        },
        false);
  });
  ASSERT_TRUE(link->load(resident_program::reference, pool->of().reference, -1, "own"));
  const auto d = *pool->get({}, 0);
  const auto of = [&](resident_program which) { return planned_call{.which = which, .draw = d, .keep = true}; };
  const auto from = std::chrono::steady_clock::now();
  ASSERT_FALSE(link->run({of(resident_program::variant), of(resident_program::variant), of(resident_program::reference),
                          of(resident_program::variant)}));
  EXPECT_EQ(kind(), outcome::hang);
  EXPECT_EQ(link->faulty(), resident_program::reference);
  EXPECT_LT(std::chrono::steady_clock::now() - from, std::chrono::milliseconds(1200)) << "600 ms is one call's limit";
}

TEST_F(linking, fewer_results_than_calls_are_an_error) {
  start([](int channel) {
    for (;;) {
      const auto f = receive_frame(channel, deadline_in(std::chrono::minutes(1)));
      if (!f) return 0;
      gpu_reply reply;
      if (f->type == frame_type::call) reply.calls = {place(0)};
      (void)send_record(channel, frame_type::done, reply, deadline_in(std::chrono::seconds(10)));
    }
  });
  EXPECT_TRUE(run(1));
  const auto results = run(2);
  ASSERT_FALSE(results);
  EXPECT_EQ(results.error().code, errc::infrastructure);
}

// A call's limit is its own plus half a second, and more for a first call and for setup steps.
TEST_F(linking, only_a_first_call_and_setup_steps_get_more_time) {
  const auto silent = [](const frame&) -> expected<gpu_call_record> {
    for (;;)
      ::pause();
  };
  const auto took = [&](double first_call_ms) {
    start([&](int channel) { return serve_calls(channel, silent, false); });
    link->begin_request({.call_ms = 50, .memory_bytes = 1 << 20, .first_call_ms = first_call_ms});
    const auto from = std::chrono::steady_clock::now();
    EXPECT_FALSE(call());
    EXPECT_EQ(kind(), outcome::hang);
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - from).count();
  };
  EXPECT_NEAR(took(0), 550, 200);
  EXPECT_NEAR(took(300), 850, 200);
  EXPECT_EQ(call_limits{}.first_call_ms, 2000);
}

}  // namespace
}  // namespace cudal1::test
