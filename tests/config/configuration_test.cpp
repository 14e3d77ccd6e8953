#include "config/configuration.hpp"

#include <sstream>
#include <type_traits>

#include <boost/mp11.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cudal1 {
namespace {

using testing::HasSubstr;

std::string problem_of(std::string_view text) {
  configuration c;
  const auto applied = apply_toml(c, text, "cudal1.toml");
  return applied ? "" : applied.error().message;
}

TEST(configuration, what_is_printed_reads_back_and_every_number_has_a_range) {
  configuration c;
  c.timing.max_forks = 7;
  c.compiler.command = "g++ \"12\"";
  c.device.allow_weak_confinement = true;
  configuration back;
  const auto applied = apply_toml(back, print_configuration(c), "printed");
  ASSERT_TRUE(applied) << applied.error().message;
  EXPECT_EQ(print_configuration(back), print_configuration(c));
  EXPECT_EQ(back.timing.max_forks, 7);
}

// The printed text with the # of every key removed: each line is then a setting.
std::string with_keys_active(const std::string& printed) {
  std::string out;
  std::istringstream in(printed);
  for (std::string line; std::getline(in, line);)
    out += (line.starts_with("#") && !line.starts_with("# ") ? line.substr(1) : line) + "\n";
  return out;
}

template <class F>
void for_each_key(F visit) {
  boost::mp11::mp_for_each<boost::describe::describe_members<configuration, boost::describe::mod_public>>([&](auto s) {
    using section = std::remove_cvref_t<decltype(configuration().*s.pointer)>;
    boost::mp11::mp_for_each<boost::describe::describe_members<section, boost::describe::mod_public>>(
        [&](auto k) { visit(std::string(s.name), std::string(k.name), configuration().*s.pointer.*k.pointer); });
  });
}

TEST(configuration, every_key_is_printed_with_its_meaning_range_and_default) {
  const std::string printed = print_configuration({});
  EXPECT_EQ(printed.find("[verification]"), printed.rfind("[verification]"));
  std::size_t from = 0, keys = 0;
  for_each_key([&](const std::string& section, const std::string& key, const auto& value) {
    if (const auto begins = printed.find("[" + section + "]"); begins > from && begins != std::string::npos)
      from = begins;
    const auto at = printed.find("\n#" + key + " = ", from);
    ASSERT_NE(at, std::string::npos) << section << "." << key;
    const auto paragraph = printed.rfind("\n\n", at) + 2;
    std::string comment = printed.substr(paragraph, at - paragraph);
    for (std::size_t end = 0; (end = comment.find("\n# ")) != std::string::npos;)
      comment.replace(end, 3, " ");
    EXPECT_GT(comment.size(), 30u) << comment;
    EXPECT_THAT(comment, HasSubstr("default ")) << section << "." << key;
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>> &&
                  !std::is_same_v<std::remove_cvref_t<decltype(value)>, bool>) {
      EXPECT_THAT(comment, testing::ContainsRegex("[0-9] to [0-9]")) << section << "." << key;
    }
    from = at;
    ++keys;
  });
  EXPECT_EQ(keys, 112u) << "a key was added (count it here) or lost";
  EXPECT_THAT(printed, HasSubstr("\n# 1 to 64 draws; default 5, on a GPU 6\n#declared_draws = 5\n")) << printed;
}

TEST(configuration, the_printed_defaults_change_nothing_and_read_back_once_they_are_active) {
  const std::string printed = print_configuration({});
  for (const auto& defaults : {configuration(), gpu_configuration()}) {
    auto c = defaults;
    ASSERT_TRUE(apply_toml(c, printed, "printed"));
    EXPECT_EQ(print_configuration(c), print_configuration(defaults));
  }
  auto c = gpu_configuration();
  ASSERT_TRUE(apply_toml(c, with_keys_active(printed), "printed"));
  EXPECT_EQ(print_configuration(c), printed) << "every default of cpu was set";
}

TEST(configuration, every_default_is_within_its_range_on_every_kind_of_device) {
  for (const auto& defaults : {configuration(), gpu_configuration()}) {
    // Keys that differ from cpu's defaults are printed as active; with_keys_active() activates the others.
    configuration back;
    const auto applied = apply_toml(back, with_keys_active(print_configuration(defaults)), "printed");
    EXPECT_TRUE(applied) << applied.error().message;
    EXPECT_EQ(print_configuration(back), print_configuration(defaults));
  }
}

TEST(configuration, the_printed_file_passes_the_checks_and_a_wrong_key_does_not) {
  EXPECT_EQ(problem_of(print_configuration({})), "");
  EXPECT_EQ(problem_of(with_keys_active(print_configuration({}))), "");
  EXPECT_THAT(problem_of(print_configuration({}) + "exemplar = 3\n"),
              testing::AllOf(HasSubstr("exemplar"), HasSubstr("rejoin_s")));
}

TEST(configuration, unknown_sections_and_keys_are_errors_that_list_the_known_ones) {
  EXPECT_THAT(problem_of("[timing]\nfoks = 3\n"),
              testing::AllOf(HasSubstr("line 2"), HasSubstr("foks"), HasSubstr("max_forks")));
  EXPECT_THAT(problem_of("[timming]\nmax_forks = 3\n"), HasSubstr("there is no section [timming]"));
  EXPECT_THAT(problem_of("max_forks = 3\n"), HasSubstr("should be a [section]"));
  EXPECT_THAT(problem_of("[timing\n"), HasSubstr("line 1"));
}

TEST(configuration, values_are_checked_for_kind_and_range) {
  EXPECT_THAT(problem_of("[timing]\nmax_forks = 0\n"), HasSubstr("outside 1 to 1000"));
  EXPECT_THAT(problem_of("[timing]\nmax_forks = 3.5\n"), HasSubstr("should be an integer"));
  EXPECT_THAT(problem_of("[timing]\nmax_seconds = \"long\"\n"), HasSubstr("should be a number"));
  EXPECT_THAT(problem_of("[timing]\nmax_seconds = nan\n"), HasSubstr("outside"));
  EXPECT_EQ(problem_of("[timing]\nmax_seconds = 3\n"), "");
  EXPECT_THAT(problem_of("[reward]\nrule = \"cuda-l1\"\n"), HasSubstr("should be one of one_pace, score, cuda_l1"));
  EXPECT_EQ(problem_of("[reward]\nrule = \"cuda_l1\"\n"), "");
  EXPECT_THAT(print_configuration({}), HasSubstr("\n# one of one_pace, score, cuda_l1; default 'one_pace'\n"));
}

TEST(configuration, a_text_of_a_closed_set_is_checked_and_the_set_is_printed) {
  EXPECT_EQ(problem_of("[llm]\nmode = \"best_of_n\"\n"), "");
  EXPECT_THAT(problem_of("[llm]\nmode = \"best_of\"\n"),
              testing::AllOf(HasSubstr("line 2"), HasSubstr("llm.mode = \"best_of\""),
                             HasSubstr("one of one_shot, repair, evolutionary, best_of_n")));
  EXPECT_THAT(print_configuration({}), HasSubstr("# one of buckets, islands; default 'buckets'\n#scheme = "));
}

TEST(configuration, flags_override_the_environment_which_overrides_the_file) {
  const auto c = load_configuration(std::nullopt, "/does/not/exist",
                                    {"CUDAL1_TIMING_MAX_FORKS=5", "CUDAL1_SEARCH_POLICY=random", "PATH=/bin"},
                                    {"timing.max_forks=6", "device.allow_weak_confinement=true"});
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->timing.max_forks, 6);
  EXPECT_EQ(c->search.policy, "random");
  EXPECT_TRUE(c->device.allow_weak_confinement);
  EXPECT_THAT(load_configuration("/does/not/exist", "", {}, {}).error().message, HasSubstr("/does/not/exist"));
  EXPECT_THAT(load_configuration(std::nullopt, "", {"CUDAL1_TIMING_MAX_FORKS=x"}, {}).error().message,
              HasSubstr("CUDAL1_TIMING_MAX_FORKS"));
  EXPECT_THAT(load_configuration(std::nullopt, "", {}, {"max_forks=3"}).error().message,
              HasSubstr("section.key=value"));
}

TEST(configuration, a_misspelt_environment_variable_is_an_error) {
  const auto c = load_configuration(std::nullopt, "", {"CUDAL1_SEARCH_POLCY=random"}, {});
  ASSERT_FALSE(c);
  EXPECT_EQ(c.error().code, errc::invalid_argument);
  EXPECT_THAT(c.error().message, HasSubstr("CUDAL1_SEARCH_POLCY: there is no such setting"));
  EXPECT_TRUE(load_configuration(std::nullopt, "", {"CUDAL1_DATA=/tmp/x", "CUDAL1_TEST_SEED=1", "OTHER=1"}, {}));
}

}  // namespace
}  // namespace cudal1
