// Large sources, divided into pieces that compile on their own.
#include "sandbox/program/source_pieces.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/program/source.hpp"
#include "tests/sandbox/large_source.hpp"

namespace cudal1::test {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

constexpr int count = 24;

std::size_t lines_before(std::string_view text, std::string_view word) {
  const auto at = text.find(word);
  return static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

TEST(source_pieces, small_sources_stay_whole) {
  const auto source = scale_kernels(12);
  EXPECT_THAT(source_pieces(source), ElementsAre(source));
  EXPECT_THAT(source_pieces(""), ElementsAre(""));
}

TEST(source_pieces, each_kernel_is_in_one_piece_on_its_line_beside_what_all_use) {
  const auto source = scale_kernels(count);
  const auto pieces = source_pieces(source);
  ASSERT_EQ(pieces.size(), 4u);
  std::vector<std::string> names;
  for (const auto& piece : pieces) {
    EXPECT_THAT(piece, StartsWith(shared_line));
    const auto kernels = find_kernels(piece).value();
    EXPECT_GE(kernels.size(), 1u);
    for (const auto& k : kernels) {
      names.push_back(k.name);
      EXPECT_EQ(lines_before(piece, k.name + "("), lines_before(source, k.name + "("));
    }
  }
  std::ranges::sort(names);
  EXPECT_EQ(names.size(), static_cast<std::size_t>(count));
  EXPECT_EQ(std::ranges::unique(names).size(), 0u);
}

TEST(source_pieces, a_changed_kernel_and_lines_that_move_change_one_piece) {
  std::string before, after;
  for (int i = 0; i < count; ++i) {
    before += scale_kernel(i);
    after += scale_kernel(i, i == 10 ? "\n * 2.f" : "");
  }
  const auto old_pieces = source_pieces(shared_line + before), pieces = source_pieces(shared_line + after);
  ASSERT_EQ(pieces.size(), old_pieces.size());
  int changed = 0, moved = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    changed += without_lines(pieces[i]) != without_lines(old_pieces[i]) ? 1 : 0;
    moved += pieces[i] != old_pieces[i] ? 1 : 0;
  }
  EXPECT_EQ(changed, 1);
  EXPECT_EQ(moved, 4);
}

TEST(source_pieces, a_new_kernel_changes_one_piece) {
  const auto old_pieces = source_pieces(scale_kernels(count));
  const auto pieces = source_pieces(scale_kernels(count) + scale_kernel(count));
  ASSERT_EQ(pieces.size(), old_pieces.size());
  int changed = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    changed += without_lines(pieces[i]) != without_lines(old_pieces[i]) ? 1 : 0;
  EXPECT_EQ(changed, 1);
}

TEST(source_pieces, sources_whose_kernels_cannot_be_told_apart_stay_whole) {
  const auto large = scale_kernels(count);
  const std::string kernel = "__global__ void k(float* y) { y[0] = 1.f; }\n";
  const std::vector<std::pair<const char*, std::string>> cases{
      {"a macro", "#define STEP 2\n" + kernel},
      {"a branch", "#if 1\n" + kernel + "#endif\n"},
      {"a template", "template <int N> __global__ void k(float* y) { y[0] = N; }\n"},
      {"a declaration before the definition", "__global__ void k(float* y);\n" + kernel},
      {"a block of linkage", "extern \"C\" {\n" + kernel + "}\n"},
      {"a kernel that a function mentions", kernel + "__device__ bool f(void (*g)(float*)) { return g == k; }\n"},
      {"a kernel that depends on its line", "__global__ void k(float* y) { y[0] = __LINE__; }\n"},
      {"two kernels of one name", kernel + kernel},
      {"much that all use", "__constant__ float t[] = {" + std::string(20000, ' ') + "1.f};\n" + kernel},
      {"an open brace", "__global__ void k(float* y) {\n"},
      {"what is no token", "__global__ void k(float* y) { y[0] = u8R\"(x)\"[0]; }\n"}};
  for (const auto& [what, more] : cases) {
    EXPECT_THAT(source_pieces(large + more), ElementsAre(large + more)) << what;
    EXPECT_THAT(source_pieces(more + large), ElementsAre(more + large)) << what;
  }
}

TEST(source_pieces, attributes_linkage_and_unrolled_loops_do_not_matter) {
  const std::string more =
      "extern \"C\" __global__ void __launch_bounds__(256, 2) bounded(float* y) {\n#pragma unroll\n"
      "  for (int i = 0; i < 4; ++i) y[i] = \"}\"[0];\n}\n"
      "struct pair { float a, b; };\n__device__ inline float sum(pair p) { return p.a + p.b; }\n"
      "__global__ void __cluster_dims__(2, 1, 1) paired(float* y) { y[0] = sum({1.f, 2.f}); /* { */ }\n";
  const auto pieces = source_pieces(scale_kernels(count) + more);
  ASSERT_EQ(pieces.size(), 4u);
  int bounded = 0, paired = 0;
  for (const auto& piece : pieces) {
    EXPECT_NE(piece.find("struct pair"), std::string::npos);
    bounded += piece.find("__launch_bounds__") != std::string::npos ? 1 : 0;
    paired += piece.find("__cluster_dims__") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(bounded, 1);
  EXPECT_EQ(paired, 1);
}

}  // namespace
}  // namespace cudal1::test
