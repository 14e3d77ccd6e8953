// Statements: what they print, what a check of them refuses, and what their threads do.
#include "policy/tile/statement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/tile/check.hpp"
#include "policy/tile/print.hpp"
#include "policy/tile/work.hpp"

namespace cudal1::tile {
namespace {

using testing::HasSubstr;

const index_expr thread = index_expr::variable("threadIdx.x", 64);
const index_expr block_number = index_expr::variable("blockIdx.x", 4);

value one() {
  return value::named("1.0f", dtype::float32);
}

// y[i] = x[i] + 1 of `elements`, by 4 blocks of 64 threads, guarded below `limit`.
kernel added(int64_t elements, int64_t limit) {
  kernel_builder b(64, 4);
  const auto x = b.tensor("x", dtype::float16, elements), y = b.tensor("y", dtype::float32, elements);
  const auto i = b.let("int", "i", block_number * 64 + thread);
  b.guard({{i, condition::how::below, limit}}, [&] {
    b.define("v", value::element({x, {i}}, dtype::float32), "x");
    b.store({y, {i}}, value::operation("$0 + $1", {value::named("v", dtype::float32), one()}, dtype::float32, 1));
  });
  return std::move(b).finish();
}

std::string refusal(const kernel& k) {
  const auto checked = check(k);
  return checked ? "" : checked.error().message;
}

TEST(Statements, ArePrintedAsTheDialect) {
  EXPECT_EQ(print(added(200, 200)),
            "  const int i = blockIdx.x * 64 + threadIdx.x;\n"
            "  if (i < 200) {\n"
            "    const float v = float_of_half(x[i]);  // x\n"
            "    y[i] = v + 1.0f;\n"
            "  }\n");
}

TEST(Statements, VectorsAreMovedTogetherOrApart) {
  kernel_builder b(64, 4);
  const auto x = b.tensor("x", dtype::float32, 4096), y = b.tensor("y", dtype::float32, 4096);
  const auto r = b.array("r", dtype::float32, space::registers, {4});
  b.add({load_vector{r, 0, {x, {thread * 4}}, 4, 1, true}});
  b.add({store_vector{{y, {thread}}, r, 4, 64, false}});
  const kernel k = std::move(b).finish();
  EXPECT_EQ(refusal(k), "");
  EXPECT_THAT(print(k), HasSubstr("const float4 r_0 = *(const float4*)(x + threadIdx.x * 4);\n  r[0] = r_0.x;\n"));
  EXPECT_THAT(print(k), HasSubstr("y[threadIdx.x + 64] = r[1];\n"));
  const auto work = work_of(k);
  ASSERT_EQ(work.loops.size(), 1U);
  EXPECT_EQ(work.loops[0].reads, 1);
  EXPECT_EQ(work.loops[0].read_sectors, 16);     // of 32 lanes, 16 bytes each
  EXPECT_EQ(work.loops[0].written_sectors, 16);  // 4 times 32 neighbouring floats
}

TEST(Checks, AcceptWhatStaysInside) {
  EXPECT_EQ(refusal(added(200, 200)), "");
  EXPECT_EQ(refusal(added(256, 256)), "");
}

TEST(Checks, RefuseAccessesBeyondTheLastElement) {
  EXPECT_THAT(refusal(added(200, 201)), HasSubstr("x[i] reaches from 0 to 200, and there are 200"));
  EXPECT_THAT(refusal(added(255, 256)), HasSubstr("there are 255"));
}

TEST(Checks, RefuseRangesThatWereTakenToBeSmaller) {
  kernel_builder b(64, 4);
  const auto y = b.tensor("y", dtype::float32, 1000);
  b.let("int", "i", block_number * 64 + thread);
  b.store({y, {index_expr::variable("i", 100) % 100}}, one());
  EXPECT_THAT(refusal(std::move(b).finish()), HasSubstr("i in i was taken to be from 0 to 99, but is from 0 to 255"));
}

TEST(Checks, RefuseWhatNothingHasWritten) {
  kernel_builder b(64, 4);
  const auto y = b.tensor("y", dtype::float32, 64);
  const auto r = b.array("r", dtype::float32, space::registers, {4});
  b.store({y, {thread}}, value::element({r, {2}}, dtype::float32));
  EXPECT_THAT(refusal(std::move(b).finish()), HasSubstr("r[2] is read, and nothing has written it"));
  kernel_builder c(64, 4);
  const auto z = c.tensor("z", dtype::float32, 64);
  c.guard({{thread, condition::how::below, 8}}, [&] { c.define("v", one()); });
  c.store({z, {thread}}, value::named("v", dtype::float32));
  EXPECT_THAT(refusal(std::move(c).finish()), HasSubstr("v is used, and nothing has defined it"));
}

// A transposition through shared memory, with or without the barriers that it needs.
kernel turned(bool before_reading, bool before_writing) {
  kernel_builder b(64, 4);
  const auto x = b.tensor("x", dtype::float32, 64 * 8), y = b.tensor("y", dtype::float32, 64 * 8);
  const auto t = b.array("t", dtype::float32, space::shared, {64});
  b.loop("k", 8, false, [&](const index_expr& k) {
    b.store({t, {thread}}, value::element({x, {k * 64 + thread}}, dtype::float32));
    if (before_reading) b.barrier();
    b.store({y, {k * 64 + thread}}, value::element({t, {thread % 8 * 8 + thread / 8}}, dtype::float32));
    if (before_writing) b.barrier();
  });
  return std::move(b).finish();
}

TEST(Checks, RefuseSharedMemoryWithoutBarriers) {
  EXPECT_EQ(refusal(turned(true, true)), "");
  EXPECT_THAT(refusal(turned(false, true)), HasSubstr("is read without a barrier after t[threadIdx.x] was written"));
  // Only the second round shows it.
  EXPECT_THAT(refusal(turned(true, false)), HasSubstr("t[threadIdx.x] is written without a barrier after"));
}

TEST(Checks, LetAThreadReadWhatItHasWrittenItself) {
  kernel_builder b(64, 4);
  const auto y = b.tensor("y", dtype::float32, 64);
  const auto t = b.array("t", dtype::float32, space::shared, {64});
  b.store({t, {thread}}, one());
  b.store({y, {thread}}, value::element({t, {thread}}, dtype::float32));
  EXPECT_EQ(refusal(std::move(b).finish()), "");
}

TEST(Checks, RefuseBarriersThatSomeThreadsDoNotReach) {
  kernel_builder b(64, 4);
  b.guard({{thread, condition::how::below, 32}}, [&] { b.barrier(); });
  EXPECT_THAT(refusal(std::move(b).finish()), HasSubstr("only some threads reach a barrier"));
  kernel_builder of_blocks(64, 4);
  of_blocks.guard({{block_number, condition::how::below, 2}}, [&] { of_blocks.barrier(); });
  EXPECT_EQ(refusal(std::move(of_blocks).finish()), "");
}

TEST(Checks, KeepRowsThatDataChooseWithinTheirTensor) {
  const auto looked_up = [](int64_t rows) {
    kernel_builder b(64, 4);
    const auto table = b.tensor("table", dtype::float32, 10 * 64), index = b.tensor("index", dtype::int64, 1),
               y = b.tensor("y", dtype::float32, 64);
    b.define("row", value::element({index, {0}}, dtype::int64));
    const gather chosen{std::make_shared<value>(value::named("row", dtype::int64)), rows, 64};
    b.store({y, {thread}}, value::element({table, {thread}, chosen}, dtype::float32));
    return std::move(b).finish();
  };
  EXPECT_EQ(refusal(looked_up(10)), "");
  EXPECT_THAT(print(looked_up(10)), HasSubstr("table[(min(max((long long)row, 0ll), 9ll) * 64 + threadIdx.x)]"));
  EXPECT_THAT(refusal(looked_up(11)), HasSubstr("there are 640"));
}

TEST(Work, CountsWhatStridesAndGuardsMakeOfSectors) {
  const auto read_by = [](int64_t stride, int64_t lanes) {
    kernel_builder b(64, 4);
    const auto x = b.tensor("x", dtype::float32, 64 * 64), y = b.tensor("y", dtype::float32, 64 * 64);
    b.guard({{thread, condition::how::below, lanes}}, [&] {
      b.store({y, {thread}}, value::element({x, {thread * stride}}, dtype::float32));
    });
    return work_of(std::move(b).finish()).loops.at(0).read_sectors;
  };
  EXPECT_EQ(read_by(1, 64), 4);
  EXPECT_EQ(read_by(8, 64), 32);
  EXPECT_EQ(read_by(2, 64), 8);
  EXPECT_EQ(read_by(1, 8), 1);
}

TEST(Work, HasALoopForWhatIsBetweenBarriersAndForEachRound) {
  const auto work = work_of(turned(true, true));
  ASSERT_EQ(work.loops.size(), 2U);
  EXPECT_EQ(work.loops[0].rounds, 8);
  EXPECT_EQ(work.loops[0].reads, 1);
  EXPECT_GT(work.loops[0].end_cycles, 0);
}

}  // namespace
}  // namespace cudal1::tile
