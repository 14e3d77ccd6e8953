#include "store/variant_cache.hpp"

#include "tests/store/store_fixture.hpp"

namespace cudal1 {
namespace {

TEST(variant_cache, loads_each_variant_once_while_it_is_kept) {
  variant_cache cache(2);
  int loads = 0;
  const auto get = [&](const std::string& name) {
    const auto v = cache.get(name, [&]() -> expected<variant_record> {
      ++loads;
      return make_variant(name);
    });
    EXPECT_TRUE(holds(v));
    EXPECT_EQ(v->id, make_variant(name).id);
  };
  get("a");
  get("b");
  get("a");
  EXPECT_EQ(loads, 2);
  get("c");  // "b" was used the longest ago
  get("a");
  EXPECT_EQ(loads, 3);
  get("b");
  EXPECT_EQ(loads, 4);
}

TEST(variant_cache, keeps_no_error) {
  variant_cache cache(2);
  EXPECT_FALSE(cache.get("a", []() -> expected<variant_record> { return fail(errc::io_error, "unreadable"); }));
  EXPECT_TRUE(holds(cache.get("a", []() -> expected<variant_record> { return make_variant("a"); })));
}

}  // namespace
}  // namespace cudal1
