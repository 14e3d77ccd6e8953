// Statements: what they print, what a check of them refuses, and what their threads do.
#include "policy/tile/statement.hpp"

#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/tile/statement_check.hpp"
#include "policy/tile/statement_print.hpp"
#include "policy/tile/statement_work.hpp"

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
  b.add({load_vector{r, 0, {x, {thread * 4}}, 4, 1, access_form::vector}});
  b.add({store_vector{{y, {thread}}, r, 4, 64, access_form::scalar}});
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
  b.loop("k", 8, unrolling::none, [&](const index_expr& k) {
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

// What only some threads write, others may not read; nor what a barrier orders on one way only.
TEST(Checks, RefuseRacesThatLookAlike) {
  const auto read_after = [](const std::function<void(kernel_builder&, buffer_id)>& write, const index_expr& at) {
    kernel_builder b(64, 4);
    const auto y = b.tensor("y", dtype::float32, 64);
    const auto t = b.array("t", dtype::float32, space::shared, {64});
    write(b, t);
    b.store({y, {thread}}, value::element({t, {at}}, dtype::float32));
    return refusal(std::move(b).finish());
  };
  const auto of_first = [](kernel_builder& b, buffer_id t) {
    b.guard({{thread, condition::how::equal, 0}}, [&] { b.store({t, {0}}, one()); });
  };
  EXPECT_THAT(read_after(of_first, 0), HasSubstr("t[0] is read without a barrier after t[0] was written"));
  const auto with_some_barriers = [](kernel_builder& b, buffer_id t) {
    b.store({t, {thread}}, one());
    b.guard({{block_number, condition::how::below, 2}}, [&] { b.barrier(); });
  };
  EXPECT_THAT(read_after(with_some_barriers, index_expr(63) - thread), HasSubstr("is read without a barrier"));
  // The same memory in each round.
  kernel_builder b(64, 4);
  const auto y = b.tensor("y", dtype::float32, 64);
  b.loop("k", 3, unrolling::none, [&](const index_expr&) {
    const auto t = b.array("t", dtype::float32, space::shared, {64});
    b.store({t, {thread}}, one());
    b.barrier();
    b.store({y, {thread}}, value::element({t, {index_expr(63) - thread}}, dtype::float32));
  });
  EXPECT_THAT(refusal(std::move(b).finish()), HasSubstr("is written without a barrier"));
}

TEST(Checks, RefuseBarriersInLoopsOfOtherRounds) {
  kernel_builder b(64, 1);
  b.loop(loop{"i", 100, unrolling::none, {}, thread, 64}, [&] { b.barrier(); });
  EXPECT_THAT(refusal(std::move(b).finish()), HasSubstr("only some threads reach a barrier"));
}

TEST(Checks, RefuseIndicesOf32BitsThatReachBeyond) {
  kernel_builder b(64, 4);
  const auto y = b.tensor("y", dtype::float32, int64_t{1} << 40);
  b.store({y, {block_number * (int64_t{1} << 30) + thread}}, one());
  EXPECT_THAT(refusal(std::move(b).finish()), HasSubstr("is computed in 32 bits"));
  kernel_builder c(64, 4);
  c.let("int", "i", block_number.as("long long") * (int64_t{1} << 30) + thread);
  EXPECT_THAT(refusal(std::move(c).finish()), HasSubstr("i is an int, and reaches"));
  kernel_builder d(64, 4);
  const auto z = d.tensor("z", dtype::float32, int64_t{1} << 40);
  d.store({z, {block_number.as("long long") * (int64_t{1} << 31) + thread}}, one());
  EXPECT_EQ(refusal(std::move(d).finish()), "");
}

// Another variable of the name is not the one that was tested, or that a pointer was made with.
TEST(Checks, KnowVariablesThatHideOthers) {
  kernel_builder b(64, 4);
  const auto x = b.tensor("x", dtype::float32, 64), y = b.tensor("y", dtype::float32, 64);
  b.let("int", "i", thread % 8);
  b.add({test{"small", {{index_expr::unknown("i"), condition::how::below, 8}}}});
  const auto from = b.pointer("x_i", x, index_expr::unknown("i") * 8, pointee::read);
  b.scope([&] {
    b.let("int", "i", thread);
    b.guard({}, {"small"}, [&] {
      b.store({y, {index_expr::unknown("i")}}, value::element({from, {index_expr::unknown("i") % 8}}, dtype::float32));
    });
  });
  EXPECT_EQ(refusal(std::move(b).finish()), "");
  kernel_builder c(64, 4);
  const auto z = c.tensor("z", dtype::float32, 8);
  c.let("int", "i", thread);
  c.add({test{"small", {{index_expr::unknown("i"), condition::how::below, 8}}}});
  c.scope([&] {
    c.let("int", "i", thread + 1);
    c.guard({}, {"small"}, [&] { c.store({z, {index_expr::unknown("i")}}, one()); });
  });
  EXPECT_THAT(refusal(std::move(c).finish()), HasSubstr("z[i] reaches from 1 to 64"));
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

// Rows of 61 elements, read in vectors of 4 that begin `shift` elements before the row.
kernel shifted(int64_t columns, bool is_bounded) {
  using how = condition::how;
  kernel_builder b(16, 4);
  const auto x = b.tensor("x", dtype::float32, 4 * 61), y = b.tensor("y", dtype::float32, 4 * 61);
  const auto row = b.let("int", "row", block_number);
  const auto from = b.pointer("x_r", x, row * 61, pointee::read), to = b.pointer("y_r", y, row * 61, pointee::written);
  const auto shift = b.let("int", "shift", row % 4);
  const auto c0 = b.let("int", "c0", index_expr::variable("threadIdx.x", 16) * 4 - shift);
  b.add({test{"whole", {{c0, how::least, 0}, {c0, how::at_most, columns - 4}}}});
  const auto r = b.array("r", dtype::float32, space::registers, {4});
  const auto at = index_expr::variable("c0", 61);
  b.guard(
      {}, {"whole"},
      [&] {
        b.load(r, 0, {from, {at}}, 4, 1, access_form::scalar);
      },
      [&] {
        b.loop("l", 4, unrolling::whole, [&](const index_expr& l) {
          const index_expr place = index_expr::unknown("c0") + l;
          access element{from, {place}};
          if (is_bounded) element.within = bounds{place, 61};
          b.store({r, {l}}, value::element(element, dtype::float32));
        });
      });
  b.guard({}, {"whole"}, [&] { b.store(access{to, {at}}, r, 4, 1, access_form::scalar); });
  return std::move(b).finish();
}

TEST(Statements, PointersTestsAndBoundsArePrintedAsTheDialect) {
  const std::string text = print(shifted(61, true));
  EXPECT_THAT(text, HasSubstr("  const float* x_r = x + row * 61;\n  float* y_r = y + row * 61;\n"));
  EXPECT_THAT(text, HasSubstr("const int c0 = threadIdx.x * 4 - shift;\n"));
  EXPECT_THAT(text, HasSubstr("const bool whole = c0 >= 0 && c0 <= 57;\n"));
  EXPECT_THAT(text, HasSubstr("  if (whole) {\n    r[0] = x_r[c0];\n"));
  EXPECT_THAT(text, HasSubstr("  }\n  else {\n    #pragma unroll\n    for (int l = 0; l < 4; ++l) {\n"));
  EXPECT_THAT(text, HasSubstr("      r[l] = (unsigned)(c0 + l) < 61u ? x_r[c0 + l] : 0;\n"));
}

TEST(Checks, TakeWhatATestSaysInsideItsGuardOnly) {
  EXPECT_EQ(refusal(shifted(61, true)), "");
  EXPECT_THAT(refusal(shifted(62, true)), HasSubstr("x_r[c0] reaches from 0 to 244, and there are 244"));
  EXPECT_THAT(refusal(shifted(61, false)), HasSubstr("x_r[c0 + l] reaches from -3"));
}

// Windows of three elements that slide over rows of `columns`, one element of padding before the first, which begin
// `before` elements before their rows in memory.
kernel of_windows(int64_t before, int64_t bounded, const std::string& asked = "inside") {
  kernel_builder b(64, 4);
  const auto x = b.tensor("x", dtype::float32, 16 * 12);
  const auto i = b.let("int", "i", block_number * 64 + thread);
  b.guard({{i, condition::how::below, 16 * 12}}, [&] {
    const auto row = b.let("int", "row", index_expr::variable("i", 16 * 12) / 12);
    const auto column = b.let("int", "column", index_expr::variable("i", 16 * 12) % 12);
    b.let("int", "at", row * 12 + column + -before);
    b.let("int", "p", column + -1);
    b.loop("k", 3, unrolling::whole, [&](const index_expr& k) {
      b.add({test{"inside", {{index_expr::unknown("p") + k, condition::how::within, bounded}}}});
      access from{x, {index_expr::unknown("at") + k}};
      from.masked = mask{asked, {1}};
      b.define("v", value::element(from, dtype::float32));
    });
  });
  return std::move(b).finish();
}

TEST(Checks, KnowThatAMaskedPlaceIsWithinItsRow) {
  EXPECT_EQ(refusal(of_windows(1, 12)), "");
  EXPECT_THAT(print(of_windows(1, 12)),
              HasSubstr("const bool inside = (unsigned)(p + k) < 12u;\n      const float v = inside ? x[at + k] : 0;"));
  EXPECT_THAT(refusal(of_windows(0, 12)), HasSubstr("x[at + k] reaches from 1 to 192, and there are 192"));
  EXPECT_THAT(refusal(of_windows(1, 13)), HasSubstr("reaches from 0 to 192"));
  EXPECT_THAT(refusal(of_windows(1, 12, "outside")), HasSubstr("nothing has tested it"));
}

TEST(Checks, AskWhetherAMaskedVectorIsLoaded) {
  const auto loaded = [](bool asked) {
    kernel_builder b(64, 1);
    const auto x = b.tensor("x", dtype::float32, 60);
    const auto r = b.array("r", dtype::float32, space::registers, {4}, "");
    b.let("int", "p", thread * 4 + -2);
    b.let("int", "at", thread * 4 + -2);
    b.add({test{"inside", {{index_expr::unknown("p"), condition::how::within, 57}}}});
    access from{x, {index_expr::unknown("at")}};
    from.masked = mask{"inside", {1}};
    b.guard({}, asked ? std::vector<std::string>{"inside"} : std::vector<std::string>(),
            [&] { b.load(r, 0, from, 4, 1, access_form::scalar); });
    return refusal(std::move(b).finish());
  };
  EXPECT_EQ(loaded(true), "");
  EXPECT_THAT(loaded(false), HasSubstr("a vector of x is loaded, and nothing asks whether inside"));
}

TEST(Checks, KnowWhichSumsAreOf64Bits) {
  const auto refused = [](const char* type, int64_t factor) {
    kernel_builder b(64, 4);
    const auto x = b.tensor("x", dtype::float32, int64_t{1} << 40);
    const auto first = b.let(type, "first", block_number * (int64_t{1} << 24));
    const auto lane = b.let("int", "lane", thread * 1);
    b.define("v", value::element({x, {first * 64 + lane * factor}}, dtype::float32));
    return refusal(std::move(b).finish());
  };
  EXPECT_EQ(refused("long long", 4), "");
  EXPECT_THAT(refused("int", 4), HasSubstr("computed in 32 bits"));
  EXPECT_THAT(refused("long long", int64_t{1} << 30), HasSubstr("computed in 32 bits"));
}

// y[at] = 1 by a kernel with `l`, an int up to 63, and `w`, which is of 64 bits.
std::string stored_at(const std::function<index_expr(const index_expr& l, const index_expr& w)>& at) {
  kernel_builder b(64, 4);
  const auto y = b.tensor("y", dtype::float32, int64_t{1} << 40);
  const auto l = b.let("int", "l", thread),
             w = b.let("long long", "w", block_number.as("long long") * (int64_t{3} << 30));
  b.store({y, {at(l, w)}}, one());
  return refusal(std::move(b).finish());
}

TEST(Checks, ComputeEveryPartOfAnIndexAsCDoes) {
  const int64_t large = int64_t{1} << 30;
  EXPECT_EQ(stored_at([&](auto l, auto w) { return w + l.as("long long") * large; }), "");
  EXPECT_EQ(stored_at([&](auto l, auto w) { return w + l * 1000; }), "");
  for (const auto& at : std::vector<std::function<index_expr(const index_expr&, const index_expr&)>>{
           [&](auto l, auto w) { return w + l * large; }, [&](auto l, auto) { return (l * large).as("long long"); },
           [&](auto l, auto) { return l * large % 1000; }, [&](auto, auto w) { return w.as("int") % 8; }})
    EXPECT_THAT(stored_at(at), HasSubstr("is computed in 32 bits"));
}

TEST(Checks, RefuseVectorsThatAreNotAligned) {
  const auto loaded = [](const std::function<index_expr(const index_expr&)>& at) {
    kernel_builder b(64, 4);
    const auto x = b.tensor("x", dtype::float32, 4096);
    const auto r = b.array("r", dtype::float32, space::registers, {4});
    const auto shift = b.let("int", "shift", thread % 4 * 3 % 4);
    b.load(r, 0, {x, {at(shift)}}, 4, 1, access_form::vector);
    return refusal(std::move(b).finish());
  };
  EXPECT_EQ(loaded([](auto) { return thread * 4 + 8; }), "");
  EXPECT_EQ(loaded([](auto shift) { return thread * 7 + 4 - shift; }), "");  // 7 t - 3 t
  EXPECT_THAT(loaded([](auto) { return thread * 4 + 2; }), HasSubstr("need not begin at a multiple of 4"));
  EXPECT_THAT(loaded([](auto) { return thread * 7; }), HasSubstr("need not begin at a multiple of 4"));
  EXPECT_THAT(loaded([](auto shift) { return thread * 8 + 4 - shift; }), HasSubstr("need not begin"));
}

TEST(Checks, RefuseWhatSharedMemoryDoesNotOrder) {
  const auto refused = [](const std::function<void(kernel_builder&, buffer_id, buffer_id)>& body) {
    kernel_builder b(64, 4);
    const auto y = b.tensor("y", dtype::float32, 256);
    const auto t = b.array("t", dtype::float32, space::shared, {256});
    b.store({t, {thread}}, one());
    body(b, t, y);
    return refusal(std::move(b).finish());
  };
  const auto turned_back = [](kernel_builder& b, buffer_id t, buffer_id y) {
    b.store({y, {thread}}, value::element({t, {index_expr(63) - thread}}, dtype::float32));
  };
  // Of a block that has no round, nothing waits.
  const auto in_rounds_from = [&](const index_expr& first) {
    return refused([&, first](kernel_builder& b, buffer_id t, buffer_id y) {
      b.add({loop{"k", 2, unrolling::none, {{barrier{}}}, first}});
      turned_back(b, t, y);
    });
  };
  EXPECT_EQ(in_rounds_from(0), "");
  EXPECT_THAT(in_rounds_from(block_number), HasSubstr("is read without a barrier"));
  // A vector reaches beyond the thread's own place.
  EXPECT_THAT(refused([](kernel_builder& b, buffer_id t, buffer_id) {
                const auto r = b.array("r", dtype::float32, space::registers, {4});
                b.load(r, 0, {t, {thread}}, 4, 1, access_form::scalar);
              }),
              HasSubstr("is read without a barrier"));
  EXPECT_THAT(refused([](kernel_builder& b, buffer_id t, buffer_id) {
                b.add({combine{"", access{t, {thread}}, reduction_kind::sum, one()}});
              }),
              HasSubstr("is reduced where other threads may see it"));
  EXPECT_THAT(refused([](kernel_builder& b, buffer_id, buffer_id) {
                b.pointer("p", b.array("r", dtype::float32, space::registers, {4}), 0, pointee::written);
              }),
              HasSubstr("p points into registers"));
}

TEST(Checks, AskForPlacesIn32BitsAndForEachElement) {
  kernel_builder b(64, 4);
  const auto y = b.tensor("y", dtype::float32, 64);
  const auto i = b.let("long long", "i", block_number.as("long long") * (int64_t{1} << 32) + thread);
  b.guard({{i, condition::how::within, 64}}, [&] { b.store({y, {i}}, one()); });
  EXPECT_THAT(refusal(std::move(b).finish()), HasSubstr("is tested in 32 bits"));

  kernel_builder c(64, 1);
  const auto z = c.tensor("z", dtype::float32, 64);
  const auto p = c.let("int", "p", thread - 32);
  c.add({test{"in", {{p, condition::how::within, 64}}}});
  access masked{z, {p}};
  masked.masked = mask{"in", {1}};
  c.store(masked, one());
  EXPECT_THAT(refusal(std::move(c).finish()), HasSubstr("nothing asks whether in"));
}

TEST(Checks, KnowTheLastRoundOfALoopWithSteps) {
  const auto looped = [](int64_t count) {
    kernel_builder b(32, 1);
    const auto y = b.tensor("y", dtype::float32, 192);
    b.loop(loop{"base", count, unrolling::none, {}, 0, 64}, [&] {
      b.store({y, {index_expr::variable("base", 192) + index_expr::variable("threadIdx.x", 32) * 2}}, one());
    });
    return std::move(b).finish();
  };
  EXPECT_THAT(print(looped(129)), HasSubstr("for (int base = 0; base < 129; base += 64) {"));
  EXPECT_EQ(refusal(looped(129)), "");
  EXPECT_THAT(refusal(looped(193)), HasSubstr("but is from 0 to 192"));
}

TEST(Checks, KnowThatLoopsOfWholeStepsEndBeforeTheRest) {
  const auto looped = [](int64_t elements, bool whole_steps) {
    kernel_builder b(32, 1);
    const auto y = b.tensor("y", dtype::float32, elements);
    const auto tile_end = index_expr::min(index_expr::variable("tile", 201) + 64, 201);
    b.loop(loop{"tile", 201, unrolling::none, {}, 0, 64}, [&] {
      b.loop(loop{"j", tile_end, unrolling::some, {}, index_expr::variable("tile", 201), 8, whole_steps, 4}, [&] {
        b.loop("l", 8, unrolling::none, [&](const index_expr& l) {
          b.store({y, {index_expr::variable("j", 201) + l}}, one());
        });
      });
    });
    return std::move(b).finish();
  };
  EXPECT_THAT(print(looped(201, true)),
              HasSubstr("#pragma unroll 4\n    for (int j = tile; j + 8 <= min(tile + 64, 201); j += 8) {"));
  EXPECT_EQ(refusal(looped(201, true)), "");
  EXPECT_THAT(refusal(looped(200, true)), HasSubstr("y[j + l] reaches from 0 to 200, and there are 200"));
  EXPECT_THAT(refusal(looped(201, false)), HasSubstr("y[j + l] reaches from 0 to 207, and there are 201"));
}

TEST(Checks, AskNothingOfLoopsWithoutARound) {
  const auto looped = [](int64_t count) {
    kernel_builder b(32, 1);
    const auto y = b.tensor("y", dtype::float32, 16);
    b.loop(loop{"s", count, unrolling::whole, {}, 1}, [&] { b.store({y, {index_expr::unknown("s") * 16}}, one()); });
    return std::move(b).finish();
  };
  EXPECT_EQ(refusal(looped(1)), "");
  EXPECT_THAT(refusal(looped(2)), HasSubstr("y[s * 16] reaches from 16 to 16, and there are 16"));
}

// The last tile is narrower: how far the loop goes depends on where it begins.
TEST(Checks, KnowThatNarrowTilesEndWithTheirRow) {
  const auto tiled = [](int64_t columns) {
    kernel_builder b(32, 1);
    const auto y = b.tensor("y", dtype::float32, 100);
    const auto first = b.let("int", "first", index_expr::variable("threadIdx.x", 32) % 2 * 64);
    const auto width = b.let("int", "width", index_expr::min(index_expr(columns) - first, 64));
    const auto row = b.pointer("row", y, first, pointee::written);
    b.loop(loop{"t", width, unrolling::none, {}}, [&] { b.store({row, {index_expr::variable("t", 64)}}, one()); });
    return std::move(b).finish();
  };
  EXPECT_THAT(print(tiled(100)), HasSubstr("const int width = min(100 - first, 64);\n"));
  EXPECT_EQ(refusal(tiled(100)), "");
  EXPECT_THAT(refusal(tiled(101)), HasSubstr("row[t] reaches from 0 to 100, and there are 100"));
}

// Stages of 64 floats in the launch's memory, copied two rounds ahead; what a round copied, all threads read.
enum class left_out { nothing, the_wait, the_barrier, the_last_wait };
kernel staged(left_out which, int64_t stages_in_memory = 3) {
  kernel_builder b(64, 4);
  const auto x = b.tensor("x", dtype::float32, 64 * 16), y = b.tensor("y", dtype::float32, 64);
  const auto stages = b.launched("stages", dtype::float32, 64 * stages_in_memory, 0);
  b.let("int", "block", block_number);
  const auto sum = b.array("sum", dtype::float32, space::registers, {}, "0.0f");
  const auto copied = [&](const index_expr& number) {
    const auto stage = b.view("stage", stages, dtype::float32, number % 3 * 64, pointee::written);
    b.guard({{thread, condition::how::below, 16}}, [&] {
      b.add({copy{{stage, {thread * 4}}, {x, {number * 64 + thread * 4}}, 4, "true"}});
    });
    b.add({commit_copies{}});
  };
  b.scope([&] { copied(0); });
  b.scope([&] { copied(1); });
  b.loop("k", 14, unrolling::none, [&](const index_expr& k) {
    if (which != left_out::the_wait) b.add({wait_for_copies{1}});
    if (which != left_out::the_barrier) b.barrier();
    copied(k + 2);
    const auto own = b.view("own", stages, dtype::float32, k % 3 * 64, pointee::read);
    b.add({combine{"", access{sum, {}}, reduction_kind::sum, value::element({own, {thread}}, dtype::float32)}});
  });
  if (which != left_out::the_last_wait) b.add({wait_for_copies{0}});
  b.barrier();
  b.store({stages, {thread}}, value::element({sum, {}}, dtype::float32));
  b.barrier();
  b.store({y, {thread}}, value::element({stages, {thread}}, dtype::float32));
  return std::move(b).finish();
}

TEST(Checks, WaitForAsynchronousCopies) {
  EXPECT_EQ(refusal(staged(left_out::nothing)), "");
  EXPECT_THAT(refusal(staged(left_out::the_wait)),
              HasSubstr("own[threadIdx.x] is read, and no wait and barrier are behind its copies"));
  EXPECT_THAT(refusal(staged(left_out::the_barrier)),
              HasSubstr("own[threadIdx.x] is read, and no wait and barrier are behind its copies"));
  EXPECT_THAT(refusal(staged(left_out::the_last_wait)),
              HasSubstr("stages[threadIdx.x] is written while copies are on their way to it"));
  EXPECT_THAT(refusal(staged(left_out::nothing, 2)), HasSubstr("reaches from 0 to 191, and there are 128"));
}

TEST(Statements, CopiesAreGroupsOfTheDialect) {
  const kernel k = staged(left_out::nothing);
  EXPECT_EQ(dynamic_bytes(k), 3 * 64 * 4);
  EXPECT_THAT(print(k), HasSubstr("  extern __shared__ float stages[];\n"));
  EXPECT_THAT(print(k), HasSubstr("  float sum = 0.0f;\n"));
  EXPECT_THAT(print(k),
              HasSubstr("    float* const stage = stages + ((k + 2) % 3) * 64;\n"
                        "    if (threadIdx.x < 16) {\n"
                        "      copy_async<16>(&stage[threadIdx.x * 4], x + (k + 2) * 64 + threadIdx.x * 4, true);\n"
                        "    }\n"
                        "    copy_async_commit();\n"));
}

// Two pointers into the same shared memory, of which one takes it as another type.
TEST(Checks, KnowThatViewsAreOfOneMemory) {
  const auto viewed = [](bool with_barrier, int64_t last) {
    kernel_builder b(64, 4);
    const auto y = b.tensor("y", dtype::float32, 64);
    const auto halves = b.launched("halves", dtype::float16, 128, 1024);
    const auto floats = b.view("floats", halves, dtype::float32, 0, pointee::written);
    const auto behind = b.view("behind", floats, dtype::float32, last, pointee::read);
    b.store({floats, {thread}}, one());
    if (with_barrier) b.barrier();
    b.store({y, {thread}}, value::element({behind, {thread % 32}}, dtype::float32));
    return std::move(b).finish();
  };
  EXPECT_THAT(print(viewed(true, 32)), HasSubstr("  extern __shared__ __align__(1024) unsigned short halves[];\n"
                                                 "  float* const floats = (float*)halves;\n"
                                                 "  const float* const behind = floats + 32;\n"));
  EXPECT_EQ(refusal(viewed(true, 32)), "");
  EXPECT_THAT(refusal(viewed(false, 32)), HasSubstr("is read without a barrier after"));
  EXPECT_THAT(refusal(viewed(true, 33)), HasSubstr("reaches from 33 to 64, and there are 64"));
}

TEST(Checks, RefuseWordsThatReachBeyondOrAreNotAligned) {
  const auto moved = [](int64_t elements, int64_t apart) {
    kernel_builder b(64, 1);
    const auto x = b.tensor("x", dtype::float32, elements), y = b.tensor("y", dtype::float32, 256);
    access from{x, {thread * apart}}, to{y, {thread * 4}};
    from.words = to.words = words{"float4", 4};
    b.store(to, value::element(from, dtype::float32));
    return std::move(b).finish();
  };
  EXPECT_THAT(print(moved(256, 4)),
              HasSubstr("*(float4*)(y + threadIdx.x * 4) = *(const float4*)(x + threadIdx.x * 4);"));
  EXPECT_EQ(refusal(moved(256, 4)), "");
  EXPECT_THAT(refusal(moved(252, 4)), HasSubstr("reaches from 0 to 255, and there are 252"));
  EXPECT_THAT(refusal(moved(256, 3)), HasSubstr("need not begin at a multiple of 4"));
}

// The second of two neighbours exists where the first one does, if both numbers are even.
TEST(Checks, KnowNeighboursByMultiples) {
  const auto paired = [](int64_t columns) {
    kernel_builder b(64, 1);
    const auto y = b.tensor("y", dtype::float32, columns);
    const auto first = b.let("int", "first", thread / 2 * 4 + thread % 2 * 2);
    b.guard({{first, condition::how::below, columns}}, [&] {
      const auto column = b.let("int", "column", index_expr::unknown("first") + 1);
      b.store({y, {column}}, one());
    });
    return std::move(b).finish();
  };
  EXPECT_EQ(refusal(paired(100)), "");
  EXPECT_THAT(refusal(paired(101)), HasSubstr("reaches from 1 to 101, and there are 101"));
}

TEST(Checks, RefuseBarriersWhenSomeThreadsHaveLeft) {
  const auto left = [](const index_expr& number) {
    kernel_builder b(64, 4);
    b.let("int", "number", number);
    b.add({leave{{index_expr::unknown("number"), condition::how::least, 3}}});
    const auto y = b.tensor("y", dtype::float32, 3);
    b.store({y, {index_expr::unknown("number")}}, one());
    b.barrier();
    return std::move(b).finish();
  };
  EXPECT_THAT(print(left(block_number)), HasSubstr("  if (number >= 3) return;\n"));
  EXPECT_EQ(refusal(left(block_number)), "");
  EXPECT_THAT(refusal(left(thread)), HasSubstr("only some threads reach a barrier"));
}

// A number that is taken apart step by step, and what is said of variables without being shown.
TEST(Checks, FollowVariablesThatAreDivided) {
  const auto divided = [](int64_t elements) {
    kernel_builder b(64, 12);
    const auto y = b.tensor("y", dtype::float32, elements);
    b.add({let{"int", {{"block", index_expr::unknown("blockIdx.x").as("int")}}, true}});
    b.let("int", "row", index_expr::unknown("block") % 4);
    b.add({divide{"block", 4}});
    b.store({y, {index_expr::unknown("row") * 3 + index_expr::unknown("block")}}, one());
    return std::move(b).finish();
  };
  EXPECT_THAT(print(divided(12)),
              HasSubstr("  int block = (int)blockIdx.x;\n  const int row = block % 4;\n  block /= 4;\n"));
  EXPECT_EQ(refusal(divided(12)), "");
  EXPECT_THAT(refusal(divided(11)), HasSubstr("reaches from 0 to 11, and there are 11"));
  kernel_builder b(64, 1);
  const auto y = b.tensor("y", dtype::float32, 8);
  b.let("int", "i", thread);
  b.add({assume{"i", 8}});
  b.store({y, {index_expr::unknown("i")}}, one());
  EXPECT_EQ(refusal(std::move(b).finish()), "");
}

TEST(Statements, ReductionsAreWrittenInOnePlace) {
  kernel_builder b(64, 4);
  const auto y = b.tensor("y", dtype::float32, 4);
  b.change("sum", value::named("0.0f", dtype::float32));
  b.add({combine{"sum", {}, reduction_kind::sum, one()}});
  b.add({reduce_lanes{"sum", dtype::float32, reduction_kind::max, 8}});
  b.add({store{{y, {block_number}}, value::named("sum", dtype::float32), {{thread, condition::how::equal, 0}}}});
  const kernel k = std::move(b).finish();
  EXPECT_EQ(refusal(k), "");
  EXPECT_EQ(print(k),
            "  float sum = 0.0f;\n"
            "  sum += 1.0f;\n"
            "  #pragma unroll\n"
            "  for (int d = 4; d > 0; d /= 2) {\n"
            "    const float other = __shfl_xor_sync(0xffffffffu, sum, d);\n"
            "    sum = (other > sum) | (other != other) ? other : sum;\n"
            "  }\n"
            "  if (threadIdx.x == 0) y[blockIdx.x] = sum;\n");
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
  ASSERT_EQ(work.loops.size(), 1U);
  EXPECT_EQ(work.loops[0].rounds, 8);
  EXPECT_EQ(work.loops[0].reads, 1);
  EXPECT_EQ(work.loops[0].written_sectors, 4);
  EXPECT_GT(work.loops[0].serial_cycles, 0);  // two barriers a round
}

}  // namespace
}  // namespace cudal1::tile
