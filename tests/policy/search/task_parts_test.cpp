// Tasks are cut into parts, and schedules of the parts are put together.
#include "policy/search/task_parts.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/search/assembly.hpp"
#include "policy/search/schedule_space.hpp"
#include "policy/search/starting_schedules.hpp"
#include "tests/policy/known_parts_of_tests.hpp"
#include "tests/policy/task_texts.hpp"
#include "tests/store/store_fixture.hpp"

namespace cudal1::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

task read(const std::string& text) {
  auto t = read_task(text, "cpu");
  if (!t) throw std::runtime_error(t.error().message);
  return std::move(*t);
}

std::vector<std::string> ids_of(const partition& way) {
  std::vector<std::string> out;
  for (const auto& part : way.parts)
    out.push_back(part.what.id);
  return out;
}

std::vector<std::vector<int>> covers_of(const partition& way) {
  std::vector<std::vector<int>> out;
  for (const auto& part : way.parts)
    out.push_back(part.covers);
  return out;
}

std::vector<task> all_tasks() {
  std::vector<task> out = shrunk_builtin_tasks();
  for (const auto* more : {&small_tasks(), &row_tasks()})
    out.insert(out.end(), more->begin(), more->end());
  out.push_back(residual_network(3));
  out.push_back(chained_network(4));
  return out;
}

int kernels_of(const task& t, const schedule& plan, const lowering_target& target) {
  const auto made = lower(t, plan, target);
  if (!made) throw std::runtime_error(t.name + ": " + made.error().message);
  return static_cast<int>(std::ranges::count_if(made->checked.text.steps,
                                                [](const auto& s) { return std::holds_alternative<launch_step>(s); }));
}

TEST(TaskParts, EqualLayersAreOnePart) {
  const task t = residual_network(3);
  const auto parts = partitions_of(t, for_cuda());
  ASSERT_FALSE(parts.ways.empty());
  const auto ids = ids_of(parts.ways.front());
  EXPECT_THAT(covers_of(parts.ways.front()),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7), ElementsAre(8, 9, 10, 11)));
  EXPECT_THAT(std::set<std::string>(ids.begin(), ids.end()), SizeIs(1));
}

TEST(TaskParts, EveryStepOfWorkIsInOnePartOfEachPartitionOrSaidToBeApart) {
  for (const auto& t : all_tasks())
    for (const auto* target : {&for_cpu(), &for_cuda()}) {
      const auto parts = partitions_of(t, *target);
      graph g(t);
      for (const auto& m : parts.proofs.moves)
        ASSERT_TRUE(apply_move(g, m, *target)) << t.name;
      for (const auto& way : parts.ways) {
        std::multiset<int> covered;
        for (const auto& part : way.parts)
          covered.insert(part.covers.begin(), part.covers.end());
        for (const auto& [step, why] : way.apart)
          covered.insert(step);
        for (const auto& s : g.steps()) {
          const bool view = std::ranges::all_of(
              s.text->results, [&](const auto& v) { return v.empty() || t.reference.view_of.contains(v); });
          if (view) continue;
          const std::size_t wanted = s.dropped || s.is_replaced() ? 0 : 1;
          EXPECT_EQ(covered.count(s.number), wanted) << t.name << ", " << way.name << ", step " << s.number;
        }
      }
    }
}

TEST(TaskParts, AreTasksWhoseTextGivesTheSameTask) {
  for (const auto& t : all_tasks()) {
    const auto parts = partitions_of(t, for_cuda());
    for (const task* part : distinct_tasks(parts)) {
      const auto again = read_task(canonical_text(*part), part->profile);
      ASSERT_TRUE(again) << part->name << ": " << again.error().message;
      EXPECT_EQ(again->id, part->id);
      EXPECT_EQ(part->family, part_family);
    }
  }
}

TEST(TaskParts, AValueFromOutsideIsDrawnWithinItsProvedRange) {
  const task t = read(R"({"format": 1, "name": "t", "family": "test", "inputs": [
      {"name": "x", "dtype": "float32", "shape": [8, 16]}, {"name": "w", "dtype": "float32", "shape": [16, 16]}],
      "steps": [{"aten": "aten::sigmoid", "args": {"self": "x"}, "out": ["a"]},
                {"aten": "aten::mm", "args": {"self": "a", "mat2": "w"}, "out": ["b"]},
                {"aten": "aten::relu", "args": {"self": "b"}, "out": ["c"]},
                {"aten": "aten::mm", "args": {"self": "c", "mat2": "w"}, "out": ["d"]}], "outputs": ["d"]})");
  const auto parts = partitions_of(t, for_cpu());
  const auto& way = parts.ways.front();
  ASSERT_THAT(covers_of(way), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre(3)));
  const auto& after_sigmoid = way.parts[1].what.inputs[0].draw;
  EXPECT_EQ(after_sigmoid.kind, distribution::uniform);
  EXPECT_EQ(after_sigmoid.low, 0);
  EXPECT_EQ(after_sigmoid.high, 1);
  const auto& after_relu = way.parts[3].what.inputs[0].draw;
  EXPECT_EQ(after_relu.kind, distribution::normal);
  EXPECT_EQ(after_relu.min, 0);
  EXPECT_FALSE(after_relu.max);
}

// Two layers with a ReLU behind each, as an import records them.
std::string recorded_layers(const char* values) {
  return fmt::format(R"({{"format": 1, "name": "t", "family": "test",
      "origin": {{"kind": "python", "source": "{}.py", "values": {}}},
      "inputs": [{{"name": "x", "dtype": "float32", "shape": [16, 16]}}],
      "weights": [{{"name": "w", "dtype": "float32", "shape": [16, 16]}}],
      "steps": [{{"aten": "aten::relu", "args": {{"self": "x"}}, "out": ["a"]}},
                {{"aten": "aten::mm", "args": {{"self": "a", "mat2": "w"}}, "out": ["b"]}},
                {{"aten": "aten::relu", "args": {{"self": "b"}}, "out": ["c"]}},
                {{"aten": "aten::mm", "args": {{"self": "c", "mat2": "w"}}, "out": ["d"]}}], "outputs": ["d"]}})",
                     std::string(64, 'a'), values);
}

TEST(TaskParts, AValueFromOutsideIsDrawnAsItWasRecordedAndSharedAllTheSame) {
  const auto parts = partitions_of(read(recorded_layers(R"({"a": [0, 0, 1, 2], "c": [0, 0, 5, 9]})")), for_cpu());
  const auto& way = parts.ways.front();
  ASSERT_THAT(covers_of(way), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre(3)));
  const task &first = way.parts[1].what, second = way.parts[3].what;
  EXPECT_THAT(first.inputs[0].quantiles, ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(second.inputs[0].quantiles, ElementsAre(0, 0, 5, 9));
  EXPECT_EQ(first.id, second.id);
  EXPECT_EQ(first.name, second.name);
  EXPECT_EQ(first.inputs[0].draw, second.inputs[0].draw);
  EXPECT_EQ(first.inputs[0].draw.min, 0) << "for other kinds of draws";
  EXPECT_THAT(way.parts[2].what.inputs[0].quantiles, IsEmpty()) << "b was not recorded";
  const auto constant = partitions_of(read(recorded_layers(R"({"a": [3, 3]})")), for_cpu());
  EXPECT_THAT(constant.ways.front().parts[1].what.inputs[0].quantiles, IsEmpty());
}

TEST(TaskParts, ACopyOfARecordedValueIsDrawnLikeIt) {
  const task t = read(fmt::format(R"({{"format": 1, "name": "t", "family": "test",
      "origin": {{"kind": "python", "source": "{}.py", "values": {{"a": [0, 0, 1, 2]}}}},
      "inputs": [{{"name": "x", "dtype": "float32", "shape": [16, 16]}}],
      "weights": [{{"name": "w", "dtype": "float32", "shape": [16, 16]}}],
      "steps": [{{"aten": "aten::relu", "args": {{"self": "x"}}, "out": ["a"]}},
                {{"aten": "aten::t", "args": {{"self": "a"}}, "out": ["b"]}},
                {{"aten": "aten::contiguous", "args": {{"self": "b"}}, "out": ["c"]}},
                {{"aten": "aten::mm", "args": {{"self": "c", "mat2": "w"}}, "out": ["d"]}},
                {{"aten": "aten::sigmoid", "args": {{"self": "d"}}, "out": ["e"]}},
                {{"aten": "aten::mm", "args": {{"self": "e", "mat2": "w"}}, "out": ["f"]}}], "outputs": ["f"]}})",
                                  std::string(64, 'a')));
  const auto parts = partitions_of(t, for_cpu());
  const auto input_of = [&](int step) {
    const auto& single = parts.ways.front().parts;
    const auto found = std::ranges::find_if(single, [&](const auto& p) { return p.covers == std::vector{step}; });
    return found == single.end() ? input_spec() : found->what.inputs.at(0);
  };
  EXPECT_THAT(input_of(3).quantiles, ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(input_of(5).quantiles, IsEmpty()) << "a sigmoid is no copy";
}

TEST(TaskParts, IntegersOfUnknownRangeAreNoBorder) {
  const task t = read(R"({"format": 1, "name": "t", "family": "test", "inputs": [
      {"name": "x", "dtype": "float32", "shape": [8, 16]}, {"name": "w", "dtype": "float32", "shape": [16, 4]}],
      "steps": [{"aten": "aten::argmax", "args": {"self": "x", "dim": 1}, "out": ["a"]},
                {"aten": "aten::index_select", "args": {"self": "w", "dim": 0, "index": "a"}, "out": ["b"]}],
      "outputs": ["b"]})");
  const auto parts = partitions_of(t, for_cpu());
  const auto& way = parts.ways.front();
  ASSERT_EQ(way.apart.size(), 1u) << way.parts.size();
  EXPECT_EQ(way.apart.begin()->first, 1);
  EXPECT_THAT(way.apart.begin()->second, HasSubstr("no bounds are proved"));
}

// A sigmoid, a product with a diagonal matrix, which a proof replaces, and what reads both.
const char* const around_a_proof = R"({"format": 1, "name": "t", "family": "test", "inputs": [
    {"name": "x", "dtype": "float32", "shape": [16, 16]},
    {"name": "d", "dtype": "float32", "shape": [16, 16], "facts": ["diagonal"]}],
    "steps": [{"aten": "aten::sigmoid", "args": {"self": "x"}, "out": ["a"]},
              {"aten": "aten::mm", "args": {"self": "d", "mat2": "a"}, "out": ["b"]},
              {"aten": "aten::tanh", "args": {"self": "b"}, "out": ["c"]},
              {"aten": "aten::add.Tensor", "args": {"self": "a", "other": "c"}, "out": ["e"]}], "outputs": ["e"]})";

TEST(TaskParts, WhatIsInOneKernelWithAProofsStepIsInNoPart) {
  const task t = read(around_a_proof);
  const auto parts = partitions_of(t, for_cpu());
  EXPECT_THAT(parts.replaced, ElementsAre(1));
  const auto& largest = parts.ways.front();
  EXPECT_THAT(largest.parts, IsEmpty());
  EXPECT_THAT(largest.apart, SizeIs(3));
}

TEST(TaskParts, WeightsOfTheSameKindAreAlike) {
  const auto with_weight = [](const char* draw) {
    const task t = read(fmt::format(R"({{"format": 1, "name": "t", "family": "test", "inputs": [
        {{"name": "x", "dtype": "float32", "shape": [8, 16]}}],
        "weights": [{{"name": "w", "dtype": "float32", "shape": [16, 16], "draw": {}}}],
        "steps": [{{"aten": "aten::mm", "args": {{"self": "x", "mat2": "w"}}, "out": ["y"]}}], "outputs": ["y"]}})",
                                    draw));
    const auto parts = partitions_of(t, for_cpu());
    return parts.ways.front().parts.empty() ? "" : parts.ways.front().parts.front().what.id;
  };
  const auto normal = [&](double mean, double deviation) {
    return with_weight(fmt::format(R"({{"distribution": "normal", "mean": {}, "std": {}}})", mean, deviation).c_str());
  };
  for (const int64_t n : {64, 96, 128, 160, 192, 224, 256, 288, 512, 1024})
    for (const double usual : {1 / std::sqrt(static_cast<double>(n)), 1 / std::sqrt(3.0 * static_cast<double>(n))}) {
      EXPECT_EQ(normal(1e-4, 0.98 * usual), normal(-2e-4, usual)) << n;
      EXPECT_EQ(normal(0, 1.02 * usual), normal(0, usual)) << n;
    }
  EXPECT_NE(normal(0, 0.01), normal(0, 0.04));
  EXPECT_NE(normal(0, 0.01), normal(1, 0.01));
  const auto narrow = with_weight(R"({"distribution": "uniform", "low": 0.9, "high": 1.1})");
  EXPECT_NE(narrow, "") << "a part that can be drawn";
}

TEST(TaskParts, AViewBelongsToThePartThatReadsIt) {
  const task t = read(R"({"format": 1, "name": "t", "family": "test", "inputs": [
      {"name": "x", "dtype": "float32", "shape": [8, 16]}, {"name": "w", "dtype": "float32", "shape": [4, 16]}],
      "steps": [{"aten": "aten::t", "args": {"self": "w"}, "out": ["a"]},
                {"aten": "aten::mm", "args": {"self": "x", "mat2": "a"}, "out": ["b"]}], "outputs": ["b"]})");
  const auto parts = partitions_of(t, for_cuda());
  ASSERT_THAT(parts.ways, SizeIs(1));
  const auto& part = parts.ways[0].parts.at(0);
  EXPECT_THAT(part.covers, ElementsAre(1));
  EXPECT_THAT(part.steps, ElementsAre(0, 1));
  EXPECT_EQ(part.what.reference.text.inputs.at(0).type.shape, std::vector<int64_t>({4, 16}));
}

TEST(Assembly, LosesNothingOfThePartsSchedules) {
  for (const auto& t : all_tasks())
    for (const auto* target : {&for_cpu(), &for_cuda()}) {
      const auto parts = partitions_of(t, *target);
      const auto known = all_known(parts, *target);
      const auto wholes = assemble(t, *target, parts, known);
      if (parts.ways.front().parts.empty()) continue;
      for (const auto& whole : wholes) {
        const auto way = std::ranges::find(parts.ways, whole.name, &partition::name);
        if (way == parts.ways.end()) continue;  // of the cheapest
        int wanted = kernels_of(t, parts.proofs, *target);
        double us = 0;
        for (const auto& part : way->parts) {
          const auto& k = known.at(part.what.id);
          us += k.best_us();
          if (k.is_improved()) wanted += kernels_of(part.what, k.plan, *target);
        }
        EXPECT_EQ(kernels_of(t, whole.plan, *target), wanted) << t.name << ": " << print_schedule(whole.plan);
        EXPECT_EQ(whole.predicted_us, us) << t.name;
        EXPECT_LE(whole.measured, whole.parts) << t.name;
        EXPECT_EQ(whole.left_out, 0) << t.name;
      }
    }
}

TEST(Assembly, ChoosesTheCheapestCutOfEachStretch) {
  const task t = chained_network(2);  // a product, a bias and a sigmoid; a product, a bias and a softmax
  const auto parts = partitions_of(t, for_cuda());
  const auto& largest = parts.ways.at(0);
  const auto apart = std::ranges::find(parts.ways, "without product kernels", &partition::name);
  ASSERT_NE(apart, parts.ways.end());
  ASSERT_THAT(largest.parts, SizeIs(2));
  ASSERT_THAT(apart->parts, SizeIs(4));
  known_parts known;
  const auto know = [&](const task_part& part, double us) {
    known[part.what.id] = {whole_schedules(part.what, for_cuda()).front(), us, 100};
  };
  know(largest.parts[0], 5);  // better than its pieces
  know(apart->parts[0], 4), know(apart->parts[1], 3);
  know(largest.parts[1], 20);  // worse than its pieces
  know(apart->parts[2], 6), know(apart->parts[3], 2);
  const auto wholes = assemble(t, for_cuda(), parts, known);
  ASSERT_FALSE(wholes.empty());
  EXPECT_EQ(wholes.front().predicted_us, 5 + 6 + 2);
  EXPECT_EQ(wholes.front().parts, 3);
  EXPECT_EQ(wholes.front().measured, 3);
}

TEST(Assembly, StepsThatAreInNoPartBecomeKernelsToo) {
  const task t = read(around_a_proof);
  const auto parts = partitions_of(t, for_cpu());
  ASSERT_GE(parts.ways.size(), 2u);
  const auto& single = parts.ways.back();
  ASSERT_THAT(single.parts, SizeIs(3));
  known_parts known;
  for (const auto& part : single.parts)
    known[part.what.id] = {{}, 10, 10};
  const auto wholes = assemble(t, for_cpu(), parts, known);
  ASSERT_FALSE(wholes.empty());
  EXPECT_EQ(wholes.front().parts, 4) << "the step that a proof replaces is not in the prediction";
  EXPECT_EQ(wholes.front().measured, 3);
  EXPECT_EQ(wholes.front().left_out, 0);
}

TEST(Assembly, NothingIsPutTogetherFromNothing) {
  const task t = chained_network(2);
  EXPECT_THAT(assemble(t, for_cuda(), partitions_of(t, for_cuda()), {}), IsEmpty());
}

TEST(Assembly, ASlowerVariantOfAPartIsNotUsed) {
  const task& t = builtin("softmax");
  const auto parts = partitions_of(t, for_cpu());
  known_parts known;
  for (const task* part : distinct_tasks(parts))
    known[part->id] = {whole_schedules(*part, for_cpu()).front(), 12, 10};
  const auto wholes = assemble(t, for_cpu(), parts, known);
  ASSERT_FALSE(wholes.empty());
  EXPECT_EQ(wholes.front().predicted_us, 10 * static_cast<double>(parts.ways.front().parts.size()));
  EXPECT_EQ(kernels_of(t, wholes.front().plan, for_cpu()), 0);
}

// A store that knows both parts of a network: each halves its time, with an error this many times the reference's.
class known_network : public testing::Test {
 protected:
  const task t = chained_network(2);
  const task_partitions parts = partitions_of(t, for_cuda());
  store_folder folder;
  std::unique_ptr<store> records = [this] {
    auto opened = store::open(folder.store());
    if (!opened) throw std::runtime_error(opened.error().message);
    return std::move(*opened);
  }();
  const environment where = make_environment();
  const std::string experiment = [this] {
    experiment_record e;
    e.tasks = {t.id};
    return records->create_experiment(e)->id;
  }();

  void commit(const task& of, const schedule& plan, const std::function<void(verdict&)>& set) {
    auto v = make_variant("v", of.id);
    const auto made = lower(of, plan, for_cuda());
    ASSERT_TRUE(made) << made.error().message;
    v.id = made->checked.id;
    v.schedule = print_schedule(plan);
    const auto attempt = records->reserve(v, experiment);
    ASSERT_TRUE(holds(attempt));
    verdict result = make_verdict(*attempt, 2, true);
    result.reference_us = 100;
    result.variant_us = 50;
    set(result);
    ASSERT_TRUE(holds(records->commit(*attempt, result, where)));
  }
  void know(const task& part, double error) {
    const auto all = whole_schedules(part, for_cuda());
    const auto with_product = std::ranges::find_if(all, [&](const schedule& s) { return product_kernels(s) == 1; });
    ASSERT_NE(with_product, all.end());
    commit(part, *with_product, [&](verdict& v) {
      output_check o;
      o.error = error;
      o.reference_error = 1;
      v.checks = {draw_check{{}, {o}}};
    });
  }
  task_assembly assembly() {
    auto made = task_assembly::make(t, for_cuda(), *records, environment_class(where));
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(*made);
  }
  static int product_kernels(const schedule& s) {
    return static_cast<int>(std::ranges::count(s.moves, "product_kernel", &move::name));
  }
};

TEST_F(known_network, IsPutTogetherFromWhatTheStoreKnows) {
  const auto& largest = parts.ways.front().parts;
  ASSERT_THAT(largest, SizeIs(2));
  know(largest[0].what, 1);
  know(largest[1].what, 1);
  const auto made = assembly();
  ASSERT_FALSE(made.schedules().empty());
  const auto& first = made.schedules().front();
  EXPECT_EQ(first.predicted_us, 100);
  EXPECT_EQ(first.measured, 2);
  EXPECT_EQ(first.program, lower(t, first.plan, for_cuda())->checked.id);
}

TEST_F(known_network, TakesTheVariantWithTheLeastDeviceTime) {
  const task& part = parts.ways.front().parts[0].what;
  const auto all = whole_schedules(part, for_cuda());
  ASSERT_GE(all.size(), 2u);
  commit(part, all[0], [](verdict& v) {
    v.score = 1.5;
    v.reference_device_us = 10;
    v.variant_device_us = 4;
  });
  commit(part, all[1], [](verdict& v) {  // better by its call time
    v.score = 1.6;
    v.reference_device_us = 10;
    v.variant_device_us = 5;
    v.confirmed = false;
  });
  const auto known = known_parts_of(*records, parts, environment_class(where));
  ASSERT_TRUE(holds(known));
  EXPECT_EQ(known->at(part.id).plan, all[0]);
  EXPECT_EQ(known->at(part.id).best_us(), 4);
}

TEST_F(known_network, TakesTheVariantThatIsTheFastestAsItsProducerLeavesItsInputs) {
  const task& part = parts.ways.front().parts[0].what;
  const auto all = whole_schedules(part, for_cuda());
  ASSERT_GE(all.size(), 2u);
  for (std::size_t i : {0u, 1u})
    commit(part, all[i], [&](verdict& v) {
      v.score = 1.5;
      v.reference_device_us = 10;
      v.variant_device_us = i == 0 ? 4 : 5;
      v.reference_warm_us = 8;
      v.variant_warm_us = i == 0 ? 4 : 3;
    });
  const auto known = known_parts_of(*records, parts, environment_class(where));
  ASSERT_TRUE(holds(known));
  EXPECT_EQ(known->at(part.id).plan, all[1]);
  EXPECT_EQ(known->at(part.id).best_us(), 3);
  EXPECT_EQ(known->at(part.id).reference_us, 8);
}

TEST_F(known_network, KnowsNothingOfAnotherClassOfEnvironments) {
  know(parts.ways.front().parts[0].what, 1);
  const auto made = task_assembly::make(t, for_cuda(), *records, "another");
  ASSERT_TRUE(made);
  EXPECT_THAT(made->schedules(), IsEmpty());
}

TEST_F(known_network, AWrongAnswerReplacesTheLeastAccuratePartFirst) {
  const auto& largest = parts.ways.front().parts;
  know(largest[0].what, 2);
  know(largest[1].what, 7);
  auto made = assembly();
  const std::size_t before = made.schedules().size();
  ASSERT_TRUE(holds(made.follow_wrong_answers(*records, experiment)));
  EXPECT_THAT(made.schedules(), SizeIs(before)) << "it was not measured yet";
  const auto wrong = [](verdict& v) {
    v.result = outcome::wrong_answer;
    v.score = 0;
    v.confirmed = false;
  };
  commit(t, made.schedules().front().plan, wrong);
  ASSERT_TRUE(holds(made.follow_wrong_answers(*records, experiment)));
  ASSERT_THAT(made.schedules(), SizeIs(before + 1));
  const auto& second = made.schedules().back();
  EXPECT_EQ(second.predicted_us, 50 + 100);
  EXPECT_EQ(product_kernels(made.schedules().front().plan), 2);
  EXPECT_EQ(product_kernels(second.plan), 1);
  EXPECT_EQ(print_schedule(second.plan).find("product_kernel(steps=3"), std::string::npos)
      << "the second one, which is less accurate: " << print_schedule(second.plan);
  commit(t, second.plan, wrong);
  ASSERT_TRUE(holds(made.follow_wrong_answers(*records, experiment)));
  ASSERT_THAT(made.schedules(), SizeIs(before + 2));
  EXPECT_EQ(made.schedules().back().predicted_us, 100 + 100);
  ASSERT_TRUE(holds(made.follow_wrong_answers(*records, experiment)));
  EXPECT_THAT(made.schedules(), SizeIs(before + 2)) << "nothing is left to replace";
}

TEST(ScheduleSpace, HasEveryWholeScheduleAndDifferentProgramsOnly) {
  for (const char* name : {"softmax", "gated_silu", "linear_gelu"})
    for (const auto* target : {&for_cpu(), &for_cuda()}) {
      const task& t = builtin(name);
      const auto space = space_of(t, *target, 4000);
      EXPECT_TRUE(space.is_complete) << name;
      ASSERT_FALSE(space.schedules.empty());
      EXPECT_TRUE(space.schedules.front().moves.empty()) << "its own program";
      std::set<std::string> programs;
      for (const auto& s : space.schedules) {
        const auto made = lower(t, s, *target);
        ASSERT_TRUE(made) << made.error().message;
        EXPECT_TRUE(programs.insert(made->checked.id).second) << print_schedule(s);
      }
      for (const auto& s : whole_schedules(t, *target))
        EXPECT_TRUE(programs.contains(lower(t, s, *target)->checked.id)) << print_schedule(s);
      EXPECT_GT(space.schedules.size(), whole_schedules(t, *target).size() + 1) << "tuning adds some";
      const auto some = space_of(t, *target, 5);
      EXPECT_FALSE(some.is_complete);
      EXPECT_EQ(some.schedules, std::vector<schedule>(space.schedules.begin(), space.schedules.begin() + 5));
    }
}

}  // namespace
}  // namespace cudal1::test
