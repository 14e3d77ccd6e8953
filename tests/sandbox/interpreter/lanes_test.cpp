#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "sandbox/interpreter/interpreter.hpp"
#include "sandbox/interpreter/lane_plan.hpp"

namespace cudal1 {
namespace {

std::string text_of(const std::vector<std::string>& steps, const std::string& output, int lanes,
                    const std::string& source = "", const std::string& setup = "[]") {
  return fmt::format(R"({{"format":1,"name":"p",
    "inputs":[{{"name":"x","dtype":"float32","shape":[4,4]}}],"weights":[{{"name":"w","dtype":"float32","shape":[4,4]}}],
    "setup":{},"steps":[{}],"outputs":["{}"],"execution":{{"graph":false,"lanes":{}}}}})",
                     setup, fmt::join(steps, ","), output, lanes) +
         (source.empty() ? "" : "\n---\n" + source);
}

checked_program checked(const std::string& text) {
  auto p = check_program_text(text);
  EXPECT_TRUE(p) << (p ? "" : p.error().message);
  return p ? std::move(*p) : checked_program{};
}

std::string relu(const std::string& from, const std::string& to) {
  return fmt::format(R"({{"aten":"aten::relu","args":{{"self":"{}"}},"out":["{}"]}})", from, to);
}
std::string add(const std::string& a, const std::string& b, const std::string& to) {
  return fmt::format(R"({{"aten":"aten::add.Tensor","args":{{"self":"{}","other":"{}"}},"out":["{}"]}})", a, b, to);
}
std::string transposed(const std::string& from, const std::string& to) {
  return fmt::format(R"({{"aten":"aten::t","args":{{"self":"{}"}},"out":["{}"]}})", from, to);
}
std::string alloc(const std::string& name) {
  return fmt::format(R"({{"alloc":"{}","dtype":"float32","shape":[4,4]}})", name);
}
std::string launch(const std::string& kernel, const std::vector<std::pair<std::string, std::string>>& args) {
  std::vector<std::string> texts;
  for (const auto& [kind, name] : args)
    texts.push_back(fmt::format(R"({{"{}":"{}"}})", kind, name));
  return fmt::format(R"({{"launch":"{}","grid":[1,1,1],"block":[1,1,1],"shared_bytes":0,"args":[{}]}})", kernel,
                     fmt::join(texts, ","));
}
const char* const kernels = R"(__global__ void one(float* a) { a[0] = 1; }
__global__ void two(float* a, float* b) { a[0] = b[0]; }
__global__ void three(float* a, float* b, float* c) { a[0] = b[0] + c[0]; }
)";

std::vector<int> lanes_of(const lane_plan& plan) {
  std::vector<int> lanes;
  for (const auto& s : plan.steps)
    lanes.push_back(s.lane);
  return lanes;
}

// For each step, the steps that must end before it begins, from the plan's lanes and waits.
std::vector<std::set<std::size_t>> order_of(const lane_plan& plan) {
  std::vector<std::set<std::size_t>> before(plan.steps.size());
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const auto follow = [&](std::size_t j) {
      before[i].insert(j);
      before[i].insert(before[j].begin(), before[j].end());
    };
    for (std::size_t j = 0; j < i; ++j)
      if (plan.steps[i].lane != no_lane && plan.steps[j].lane == plan.steps[i].lane) follow(j);
    for (const int event : plan.steps[i].waits) {
      const auto waited = std::ranges::find(plan.steps, event, &laned_step::event);
      EXPECT_LT(waited, plan.steps.begin() + static_cast<std::ptrdiff_t>(i)) << "step " << i << " waits for later work";
      if (waited != plan.steps.end()) follow(static_cast<std::size_t>(waited - plan.steps.begin()));
    }
  }
  return before;
}

TEST(lanes, two_chains_have_a_lane_each_and_meet_at_the_end) {
  const auto plan = plan_lanes(checked(
      text_of({relu("x", "a1"), relu("w", "b1"), relu("a1", "a2"), relu("b1", "b2"), add("a2", "b2", "y")}, "y", 4)));
  EXPECT_EQ(lanes_of(plan), (std::vector<int>{0, 1, 0, 1, 1}));
  EXPECT_EQ(plan.lanes, 2);
  EXPECT_EQ(plan.events, 1);
  EXPECT_EQ(plan.steps[2].event, 0);
  EXPECT_EQ(plan.steps[4].waits, std::vector<int>{0});
  for (const std::size_t i : {0u, 1u, 2u, 3u})
    EXPECT_TRUE(plan.steps[i].waits.empty()) << i;
}

TEST(lanes, a_diamond_opens_a_lane_that_waits_for_its_root) {
  const auto plan = plan_lanes(
      checked(text_of({relu("x", "a"), relu("a", "b"), relu("a", "c"), add("b", "c", "y"), relu("y", "z")}, "z", 4)));
  EXPECT_EQ(lanes_of(plan), (std::vector<int>{0, 0, 1, 1, 1}));
  EXPECT_EQ(plan.steps[2].waits, std::vector<int>{plan.steps[0].event});
  EXPECT_EQ(plan.steps[3].waits, std::vector<int>{plan.steps[1].event});
  EXPECT_EQ(plan.events, 2);
}

TEST(lanes, a_chain_stays_on_one_lane) {
  const auto plan = plan_lanes(checked(text_of({relu("x", "a"), relu("a", "b"), add("a", "b", "y")}, "y", 16)));
  EXPECT_EQ(plan.lanes, 1);
  EXPECT_EQ(plan.events, 0);
}

TEST(lanes, a_lane_whose_steps_have_ended_is_reused) {
  // d needs b and c; the steps after d need two lanes, not four.
  const auto plan = plan_lanes(checked(text_of({relu("x", "a"), relu("a", "b"), relu("a", "c"), add("b", "c", "d"),
                                                relu("d", "e"), relu("d", "f"), add("e", "f", "y")},
                                               "y", 16)));
  EXPECT_EQ(plan.lanes, 2);
  EXPECT_NE(plan.steps[4].lane, plan.steps[5].lane);
}

TEST(lanes, more_chains_than_lanes_share_them_evenly) {
  std::vector<std::string> steps;
  for (int depth = 1; depth <= 3; ++depth)
    for (int chain = 0; chain < 6; ++chain)
      steps.push_back(
          relu(depth == 1 ? "x" : fmt::format("v{}_{}", chain, depth - 1), fmt::format("v{}_{}", chain, depth)));
  const auto plan = plan_lanes(checked(text_of(steps, "v0_3", 3)));
  EXPECT_EQ(plan.lanes, 3);
  for (int l = 0; l < 3; ++l)
    EXPECT_EQ(std::ranges::count(lanes_of(plan), l), 6) << l;
  EXPECT_EQ(plan.events, 0);  // each chain stays on its lane
}

TEST(lanes, an_update_waits_for_readers_and_readers_wait_for_the_update) {
  const auto plan =
      plan_lanes(checked(text_of({alloc("a"), launch("one", {{"out", "a"}}), relu("a", "b"), relu("a", "c"),
                                  launch("one", {{"inout", "a"}}), relu("a", "d"), relu("b", "e")},
                                 "d", 8, kernels)));
  const auto before = order_of(plan);
  EXPECT_NE(plan.steps[2].lane, plan.steps[3].lane);
  EXPECT_EQ(before[4], (std::set<std::size_t>{0, 1, 2, 3}));
  EXPECT_TRUE(before[5].contains(4));
  EXPECT_FALSE(before[6].contains(4));  // it does not depend on the update
  EXPECT_EQ(plan.steps[0].lane, plan.steps[1].lane);
}

TEST(lanes, two_kernels_that_write_the_same_memory_keep_their_order) {
  const auto plan = plan_lanes(checked(text_of({alloc("a"), alloc("b"), launch("two", {{"out", "a"}, {"in", "x"}}),
                                                launch("three", {{"out", "a"}, {"out", "b"}, {"in", "w"}})},
                                               "b", 2, kernels)));
  EXPECT_TRUE(order_of(plan)[3].contains(2));
}

TEST(lanes, a_view_has_no_lane_and_its_reader_waits_for_the_writer_of_the_memory) {
  const auto plan = plan_lanes(checked(
      text_of({relu("x", "a"), relu("a", "b"), transposed("a", "v"), transposed("v", "u"), relu("u", "c")}, "c", 4)));
  EXPECT_EQ(lanes_of(plan), (std::vector<int>{0, 0, no_lane, no_lane, 1}));
  EXPECT_EQ(plan.steps[4].waits, std::vector<int>{plan.steps[0].event});
}

TEST(lanes, new_memory_is_allocated_in_the_lane_of_its_first_user) {
  const auto plan =
      plan_lanes(checked(text_of({alloc("a"), alloc("b"), alloc("unused"), launch("two", {{"out", "b"}, {"in", "x"}}),
                                  launch("two", {{"out", "a"}, {"in", "x"}})},
                                 "a", 4, kernels)));
  EXPECT_EQ(lanes_of(plan), (std::vector<int>{1, 0, 0, 0, 1}));
}

// ---- random programs ------------------------------------------------------------------------------------------------

// A random legal program, and the memory that each of its steps reads and writes, recorded independently of the
// planner.
struct random_program {
  struct use {
    std::set<std::string> reads, writes;
    bool has_work = true;
  };
  std::vector<std::string> steps;
  std::vector<use> uses;

  explicit random_program(uint64_t seed) : random_(seed) {
    const int count = 3 + pick(40);
    for (int i = 0; i < count; ++i)
      step(fmt::format("v{}", i));
    steps.push_back(relu("x", "y"));
    uses.push_back({{"x"}, {"y"}});
  }

 private:
  struct value {
    std::string name, base;
  };
  int pick(std::size_t n) { return static_cast<int>(random_() % n); }
  const value& any() { return values_[static_cast<std::size_t>(pick(values_.size()))]; }

  void step(const std::string& name) {
    switch (pick(6)) {
      case 0: {
        const value from = any();
        steps.push_back(transposed(from.name, name));
        uses.push_back({{}, {}, false});
        values_.push_back({name, from.base});
        std::erase(own_, from.base);  // memory with a view is not written again
        return;
      }
      case 1:
        steps.push_back(alloc(name));
        uses.push_back({{}, {}, false});
        fresh_.push_back(name);
        return;
      case 2:
        if (!fresh_.empty()) return fill(own_.emplace_back(taken_from(fresh_)));
        break;
      case 3:
        if (!own_.empty()) return update(own_[static_cast<std::size_t>(pick(own_.size()))]);
        break;
      default:
        break;
    }
    const value a = any(), b = any();
    steps.push_back(add(a.name, b.name, name));
    uses.push_back({{a.base, b.base}, {name}});
    values_.push_back({name, name});
  }

  std::string taken_from(std::vector<std::string>& names) {
    const auto at = names.begin() + pick(names.size());
    std::string name = *at;
    names.erase(at);
    return name;
  }
  void fill(const std::string& name) {
    const value from = any();
    steps.push_back(launch("two", {{"out", name}, {"in", from.name}}));
    uses.push_back({{from.base}, {name}});
    values_.push_back({name, name});
  }
  void update(const std::string& name) {
    value from = any();
    if (from.base == name) from = {"x", "x"};
    steps.push_back(launch("two", {{"inout", name}, {"in", from.name}}));
    uses.push_back({{from.base, name}, {name}});
  }

  std::mt19937_64 random_;
  std::vector<value> values_{{"x", "x"}, {"w", "w"}};
  std::vector<std::string> fresh_, own_;  // allocated but not yet written; written, without views
};

bool meet(const std::set<std::string>& a, const std::set<std::string>& b) {
  return std::ranges::any_of(a, [&](const std::string& name) { return b.contains(name); });
}

TEST(lanes, steps_that_share_memory_are_in_order_in_any_program) {
  std::size_t most_lanes = 0, waits = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const random_program r(seed);
    const int limit = 1 + static_cast<int>(seed % 16);
    const auto plan = plan_lanes(checked(text_of(r.steps, "y", limit, kernels)));
    ASSERT_EQ(plan.steps.size(), r.uses.size());
    const auto before = order_of(plan);
    for (std::size_t i = 0; i < r.uses.size(); ++i) {
      ASSERT_LT(plan.steps[i].lane, limit) << "seed " << seed;
      ASSERT_TRUE(plan.steps[i].lane >= 0 || !r.uses[i].has_work) << "seed " << seed;
      waits += plan.steps[i].waits.size();
      for (std::size_t j = 0; j < i; ++j) {
        const bool hazard = meet(r.uses[i].reads, r.uses[j].writes) || meet(r.uses[i].writes, r.uses[j].writes) ||
                            meet(r.uses[i].writes, r.uses[j].reads);
        ASSERT_TRUE(!hazard || before[i].contains(j)) << "seed " << seed << ": step " << i << " overlaps step " << j;
      }
    }
    most_lanes = std::max(most_lanes, static_cast<std::size_t>(plan.lanes));
  }
  EXPECT_GE(most_lanes, 8u);
  EXPECT_GE(waits, 300u);
}

// ---- the interpreter and a driver -----------------------------------------------------------------------------------

// Logs its calls, and checks the rules of the interface.
class lane_log final : public lane_driver {
 public:
  expected<void> prepare(int lanes, int events) override {
    lines.push_back(fmt::format("prepare {} {}", lanes, events));
    return {};
  }
  expected<void> begin() override {
    EXPECT_FALSE(running_);
    running_ = true;
    recorded_.clear();
    lines.push_back("begin");
    return {};
  }
  expected<void> enter(int lane) override {
    EXPECT_TRUE(running_);
    lines.push_back(fmt::format("enter {}", lane));
    return {};
  }
  expected<void> wait(int event) override {
    EXPECT_TRUE(recorded_.contains(event)) << event;
    lines.push_back(fmt::format("wait {}", event));
    return fails_to_wait ? expected<void>(fail(errc::variant_fault, "an illegal access")) : expected<void>{};
  }
  expected<void> record(int event) override {
    EXPECT_TRUE(recorded_.insert(event).second) << event;
    lines.push_back(fmt::format("record {}", event));
    return {};
  }
  expected<void> join() override {
    EXPECT_TRUE(running_);
    running_ = false;
    lines.push_back("join");
    return {};
  }

  std::vector<std::string> lines;
  bool fails_to_wait = false;

 private:
  bool running_ = false;
  std::set<int> recorded_;
};

class laned_interpreter : public ::testing::Test {
 protected:
  std::unique_ptr<interpreter> load(const std::string& text) {
    auto made = interpreter::load(checked(text), nullptr, {.threads = 1, .cuda_device = -1, .lanes = &log_});
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    EXPECT_TRUE((*made)->set_weights(std::span(&weight_, 1)));
    return std::move(*made);
  }

  lane_log log_;
  std::vector<float> x_ = std::vector<float>(16, -1), w_ = std::vector<float>(16, 3);
  tensor_view input_{contiguous(dtype::float32, {4, 4}), x_.data()},
      weight_{contiguous(dtype::float32, {4, 4}), w_.data()};
};

TEST_F(laned_interpreter, calls_the_driver_for_every_step_but_not_for_setup) {
  const auto run = load(text_of({relu("x", "a"), relu("w2", "b"), transposed("a", "v"), add("v", "b", "y")}, "y", 2, "",
                                "[" + relu("w", "w1") + "," + add("w1", "w", "w2") + "]"));
  EXPECT_EQ(log_.lines, std::vector<std::string>{"prepare 2 1"});
  for (int call = 0; call < 2; ++call) {
    log_.lines.clear();
    ASSERT_TRUE(run->call(std::span(&input_, 1)));
    EXPECT_EQ(log_.lines,
              (std::vector<std::string>{"begin", "enter 0", "record 0", "enter 1", "enter 1", "wait 0", "join"}));
    EXPECT_EQ(static_cast<const float*>(run->outputs()[0].data)[5], 6);
  }
}

TEST_F(laned_interpreter, joins_after_a_step_that_fails) {
  log_.fails_to_wait = true;
  const auto run = load(text_of({relu("x", "a"), relu("w", "b"), add("a", "b", "y")}, "y", 2));
  const auto called = run->call(std::span(&input_, 1));
  ASSERT_FALSE(called);
  EXPECT_EQ(called.error().message, "an illegal access");
  EXPECT_EQ(log_.lines.back(), "join");
  log_.fails_to_wait = false;
  EXPECT_TRUE(run->call(std::span(&input_, 1)));
}

TEST_F(laned_interpreter, does_not_call_the_driver_if_one_lane_is_enough) {
  const auto chain = load(text_of({relu("x", "a"), relu("a", "y")}, "y", 4));
  const auto alone = load(text_of({relu("x", "a"), relu("w", "b"), add("a", "b", "y")}, "y", 1));
  EXPECT_TRUE(chain->call(std::span(&input_, 1)));
  EXPECT_TRUE(alone->call(std::span(&input_, 1)));
  EXPECT_TRUE(log_.lines.empty());
}

}  // namespace
}  // namespace cudal1
