// What moves have chosen for the kernel of a group of steps. The target's templates declare what there is to choose
// (policy/codegen/kernel_tunable.hpp); here it has names only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace cudal1 {

class kernel_options {
 public:
  // The number that was chosen under this name; 0 where none was: then the template's default is meant.
  int64_t operator[](std::string_view name) const {
    const auto found = chosen_.find(name);
    return found == chosen_.end() ? 0 : found->second;
  }
  void choose(std::string_view name, int64_t number) { chosen_.insert_or_assign(std::string(name), number); }

  std::string product_way;     // how the kernel makes a product (lowering_target::product_ways); "": the usual one
  std::string in_place;        // the operand that the (only) result overwrites; "" for none
  bool keep_expensive = true;  // keep expensive values for later passes, or recompute them

 private:
  std::map<std::string, int64_t, std::less<>> chosen_;
};

}  // namespace cudal1
