// Which settings of a command line a running node has.
#include "tools/cli/node_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/tools/tools_fixture.hpp"

namespace cudal1 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class node_settings : public testing::Test {
 protected:
  std::vector<std::string> missing(const std::vector<std::string>& settings, int pid = ::getpid()) const {
    const auto found = settings_not_in_force(folder_.path(), pid, settings);
    EXPECT_TRUE(cli::holds(found));
    return found.value_or(std::vector<std::string>{"an error"});
  }
  temporary_folder folder_;
};

TEST_F(node_settings, are_in_force_if_all_kinds_of_the_nodes_devices_have_them) {
  configuration cpu, gpu = gpu_configuration();
  cpu.timing.max_seconds = gpu.timing.max_seconds = 7;
  ASSERT_TRUE(cli::holds(write_node_settings(folder_.path(), {cpu, gpu})));
  EXPECT_THAT(missing({"timing.max_seconds=7", "llm.url=\"\""}), IsEmpty());
  EXPECT_THAT(missing({"timing.max_seconds=7", "timing.max_seconds=8"}), ElementsAre("timing.max_seconds=8"));
  const auto default_of_cpu = "timing.max_forks=" + std::to_string(cpu.timing.max_forks);
  EXPECT_THAT(missing({default_of_cpu}), ElementsAre(default_of_cpu)) << "a GPU has another default";
}

TEST_F(node_settings, of_another_node_are_unknown) {
  EXPECT_THAT(missing({"timing.max_seconds=3"}), ElementsAre("timing.max_seconds=3")) << "there is no file";
  ASSERT_TRUE(cli::holds(write_node_settings(folder_.path(), {configuration()})));
  EXPECT_THAT(missing({"timing.max_seconds=3"}), IsEmpty());
  EXPECT_THAT(missing({"timing.max_seconds=3"}, 1), ElementsAre("timing.max_seconds=3"));
}

TEST_F(node_settings, that_do_not_exist_are_errors) {
  EXPECT_FALSE(settings_not_in_force(folder_.path(), ::getpid(), {"timing.no_such_key=1"}));
  EXPECT_FALSE(settings_not_in_force(folder_.path(), ::getpid(), {"timing.max_forks=0"}));
}

}  // namespace
}  // namespace cudal1
