// The names of a cluster's machines.
#include "config/base/machine_name.hpp"

#include <string>

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

TEST(machine_name, has_lower_case_letters_digits_and_inner_hyphens) {
  for (const std::string& name : {std::string("b"), std::string("7"), std::string("gpu-7"), std::string(63, 'b')})
    EXPECT_TRUE(is_machine_name(name)) << name;
  for (const std::string& name :
       {std::string(), std::string("-b"), std::string("b-"), std::string("-"), std::string("B"), std::string("b.c"),
        std::string("b/c"), std::string("b c"), std::string("b\0c", 3), std::string(64, 'b')})
    EXPECT_FALSE(is_machine_name(name)) << name;
}

}  // namespace
}  // namespace cudal1
