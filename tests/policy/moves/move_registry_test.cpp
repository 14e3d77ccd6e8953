// The registry: every kind of move is complete and has one phase.
#include <set>

#include "tests/policy/moves/moves_under_test.hpp"

namespace cudal1::test {
namespace {

TEST(Moves, EveryKindIsInOnePhaseAndIsComplete) {
  std::set<std::string> names;
  for (const move_phase phase : move_phases) {
    const auto kinds = moves_of(phase);
    EXPECT_FALSE(kinds.empty()) << "phase " << static_cast<int>(phase);
    for (const move_kind* kind : kinds) {
      EXPECT_EQ(kind->phase, phase);
      EXPECT_TRUE(names.insert(kind->name).second) << kind->name << " is in two phases";
      EXPECT_FALSE(kind->summary.empty()) << kind->name;
      EXPECT_TRUE(kind->candidates && kind->apply) << kind->name;
      EXPECT_EQ(find_move(kind->name), kind);
    }
    EXPECT_TRUE(std::ranges::is_sorted(kinds, {}, &move_kind::order));
  }
  EXPECT_EQ(names.size(), move_kinds().size());
}

// The order of moves matters: without distinct orders it would depend on the order of registration.
TEST(Moves, TheKindsInWholeSchedulesHaveDistinctOrders) {
  for (const move_phase phase : {move_phase::always, move_phase::grouping, move_phase::execution}) {
    const auto kinds = moves_of(phase);
    for (std::size_t i = 1; i < kinds.size(); ++i)
      EXPECT_LT(kinds[i - 1]->order, kinds[i]->order) << kinds[i]->name;
  }
}

TEST(Moves, EveryStartingPartHasMovesInPhaseOrder) {
  using enum starting_part;
  for (const auto part :
       {plain_kernels, unchanged_program, elementwise_kernels, row_kernels, proofs, other_implementations}) {
    const auto kinds = moves_of(part);
    EXPECT_FALSE(kinds.empty()) << "part " << static_cast<int>(part);
    EXPECT_TRUE(std::ranges::is_sorted(kinds, {}, &move_kind::phase));
  }
}

TEST(Moves, OnlyTuningMovesChooseValues) {
  for (const auto& kind : move_kinds()) {
    if (kind.chooses_a_value()) {
      EXPECT_EQ(kind.phase, move_phase::tuning) << kind.name;
    }
  }
  EXPECT_TRUE(find_move("block")->chooses_a_value());
  EXPECT_FALSE(find_move("recompute")->chooses_a_value());
}

TEST(Moves, TheCatalogueDescribesEachMove) {
  const auto catalogue = move_catalogue();
  for (const char* name : {"fuse", "fuse_into_reduction", "row_kernel", "diagonal_matmul", "drop", "block", "items",
                           "unroll", "row_threads", "in_place", "precision", "graph"}) {
    const auto entry = std::find_if(catalogue.begin(), catalogue.end(), [&](const auto& e) { return e.first == name; });
    ASSERT_NE(entry, catalogue.end()) << name;
    EXPECT_GT(entry->second.size(), 20u);
  }
}

}  // namespace
}  // namespace cudal1::test
