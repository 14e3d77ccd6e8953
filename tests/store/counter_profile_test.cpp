// What Nsight Compute read, as files of a data folder.
#include "store/counter_profile.hpp"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "tests/store/store_fixture.hpp"

namespace cudal1 {
namespace {

struct counter_profiles : testing::Test {
  store_folder data;
  const std::string folder = profile_folder(data.store());
};

counter_profile profile_of(const std::string& variant) {
  counter_profile p{variant, "e1", "NVIDIA H200", "2025.3.1.0", 5, {}};
  kernel_counters k;
  k.kernel = "rows";
  k.us = 12.5;
  k.dram_pct = 82;
  k.limited_by = {"registers"};
  k.stalls = {{"barrier", "a barrier of its block", "smaller blocks", 0.3}};
  p.kernels = {k};
  return p;
}

TEST_F(counter_profiles, are_kept_by_variant_and_environment) {
  ASSERT_TRUE(holds(keep_counters(folder, profile_of("abc"))));
  const auto kept = kept_counters(folder, "abc", "e1");
  ASSERT_TRUE(holds(kept));
  ASSERT_TRUE(kept->has_value());
  const auto& k = (*kept)->kernels.at(0);
  EXPECT_EQ(k.dram_pct, 82);
  EXPECT_EQ(k.l2_pct, std::nullopt) << "it was not read";
  EXPECT_EQ(k.stalls.at(0).words, "a barrier of its block");
  for (const auto& [variant, environment] : {std::pair{"abc", "e2"}, {"abd", "e1"}, {"abc", ""}}) {
    const auto none = kept_counters(folder, variant, environment);
    ASSERT_TRUE(holds(none));
    EXPECT_FALSE(none->has_value());
  }
}

TEST_F(counter_profiles, the_newest_replaces_the_one_before) {
  auto p = profile_of("abc");
  ASSERT_TRUE(holds(keep_counters(folder, p)));
  p.kernels.at(0).us = 7;
  ASSERT_TRUE(holds(keep_counters(folder, p)));
  EXPECT_EQ((*kept_counters(folder, "abc", "e1"))->kernels.at(0).us, 7);
}

TEST_F(counter_profiles, a_damaged_one_says_how_to_make_it_again) {
  ASSERT_TRUE(holds(keep_counters(folder, profile_of("abc"))));
  std::ofstream(folder + "/abc-e1.json") << R"({"kernels": [{"us": "fast"}]})";
  const auto read = kept_counters(folder, "abc", "e1");
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, errc::corrupt);
  EXPECT_THAT(read.error().message, testing::HasSubstr("cudal1 profile abc"));
}

}  // namespace
}  // namespace cudal1
