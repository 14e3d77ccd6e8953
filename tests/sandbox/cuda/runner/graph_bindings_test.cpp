// Which memory of two captures changes with each call.
#include "sandbox/cuda/runtime/graph_bindings.hpp"

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

constexpr std::size_t none = graph_bindings::none;

// A tensor alone in its memory, after `from` bytes.
captured_place place(uintptr_t memory, uintptr_t bytes, uintptr_t from = 0) {
  return {memory + from, memory, bytes};
}

TEST(graph_bindings, give_inputs_and_outputs_a_range_each) {
  const graph_bindings b({place(100, 10), place(200, 20)}, {place(1000, 40)}, {place(500, 10), place(600, 20)},
                         {place(2000, 40)});
  ASSERT_EQ(b.ranges().size(), 3u);
  EXPECT_EQ(b.ranges()[1].first, 200u);
  EXPECT_EQ(b.ranges()[1].second, 600u);
  EXPECT_EQ(b.ranges()[2].second, 2000u);
  ASSERT_EQ(b.memories().size(), 1u);
  EXPECT_EQ(b.memories()[0].range, 2u);
  EXPECT_FALSE(b.memories()[0].bound) << "before the graph has found a kernel that points there";
  EXPECT_EQ(b.outputs()[0].memory, 0u);
}

TEST(graph_bindings, of_a_part_of_a_tensor_cover_its_whole_memory) {
  const graph_bindings b({}, {place(1000, 400, 100), place(1000, 400)}, {}, {place(3000, 400, 100), place(3000, 400)});
  ASSERT_EQ(b.memories().size(), 1u) << "both outputs are in it";
  EXPECT_EQ(b.ranges()[0].bytes, 400u);
  EXPECT_EQ(b.outputs()[0].offset, 100u);
  EXPECT_EQ(b.outputs()[1].offset, 0u);
}

TEST(graph_bindings, know_an_output_that_is_an_input) {
  const graph_bindings b({place(100, 50)}, {place(100, 50, 20)}, {place(300, 50)}, {place(300, 50, 20)});
  EXPECT_TRUE(b.memories().empty());
  EXPECT_EQ(b.outputs()[0].input, 0u);
  EXPECT_EQ(b.outputs()[0].offset, 20u);
  EXPECT_EQ(b.ranges().size(), 1u);
}

TEST(graph_bindings, leave_what_does_not_move_where_it_is) {
  const graph_bindings weight({}, {place(1000, 40)}, {}, {place(1000, 40)});
  EXPECT_EQ(weight.memories()[0].range, none);
  const graph_bindings copied({place(100, 10)}, {place(1000, 40), place(100, 10)});
  EXPECT_TRUE(copied.ranges().empty());
  EXPECT_EQ(copied.memories()[0].range, none);
  EXPECT_EQ(copied.outputs()[1].input, 0u);
}

}  // namespace
}  // namespace cudal1
