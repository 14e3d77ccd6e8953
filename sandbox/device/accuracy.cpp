#include "sandbox/device/accuracy.hpp"

#include "config/base/describe.hpp"
#include "config/configuration.hpp"
#include "sandbox/device/environment_id.hpp"

namespace cudal1 {

namespace {

// At the end of an environment's details and libraries. Stored environments have these words.
std::string_view note_of(accuracy a) {
  switch (a) {
    case accuracy::kernelbench:
      return "; held to KernelBench's tolerance";
    case accuracy::strict:
      return "; held to the error of strict float32";
    case accuracy::half:
      return "; products in half precision accepted";
    default:
      return "";
  }
}

}  // namespace

accuracy accuracy_of(const verification_options& options) {
  return enum_value<accuracy>(options.tolerance).value_or(accuracy::own);
}

accuracy accuracy_in(std::string_view details) {
  for (const accuracy a : {accuracy::kernelbench, accuracy::strict, accuracy::half})
    if (details.find(note_of(a)) != std::string_view::npos) return a;
  return accuracy::own;
}

accuracy accuracy_of(const environment& e) {
  return accuracy_in(e.details);
}

environment held_to(environment where, accuracy what) {
  if (what == accuracy::own) return where;
  where.details += note_of(what);
  if (!where.libraries.empty()) where.libraries += note_of(what);
  where.id = environment_id(where);
  return where;
}

}  // namespace cudal1
