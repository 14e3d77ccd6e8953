// The hack cases of a store, for people.
#pragma once

#include <string>
#include <vector>

#include "config/base/json.hpp"
#include "store/store.hpp"
#include "tools/cli/terminal.hpp"

namespace cudal1::cli {

// Cases of a class, newest first.
struct hacks_of_class {
  hack_class kind = hack_class::writes_to_an_input;
  std::vector<hack_case> cases;
};

// At most `limit` of each class; classes without any are left out.
expected<std::vector<hacks_of_class>> hacks_by_class(store& s, std::size_t limit);
// Python files by others that were refused for such evidence, newest first.
expected<std::vector<judged_file>> hacks_in_files(store& s, std::size_t limit);
std::string hacks_text(const std::vector<hacks_of_class>& all, const std::vector<judged_file>& files,
                       const terminal& t);
// Without the signatures.
json hack_json(const hack_case& c);
json hacks_json(const std::vector<hacks_of_class>& all, const std::vector<judged_file>& files);

// A case that a variant's source is like. First those of the variant itself, then the others, most similar first.
struct hack_likeness {
  hack_case of;
  double similarity = 0;
  bool is_own = false;
};
// Among the newest cases (hack_index::most_cases).
expected<std::vector<hack_likeness>> hacks_like(store& s, const variant_record& v);
std::string likeness_text(const std::vector<hack_likeness>& all);
json likeness_json(const std::vector<hack_likeness>& all);

}  // namespace cudal1::cli
