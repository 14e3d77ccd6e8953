#include "store/judged_file.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "config/base/hash.hpp"

namespace cudal1 {

judged_file with_id(judged_file f) {
  f.id = sha256_hex(f.task + '\n' + f.model + '\n' + f.source);
  return f;
}

bool is_hack(const judged_file& f) {
  static constexpr std::array<std::string_view, 7> hacks{"drift", "stale",    "memo",     "unsteady",
                                                         "late",  "evidence", "tampering"};
  return !f.correct && std::ranges::count(hacks, f.kind) > 0;
}

}  // namespace cudal1
