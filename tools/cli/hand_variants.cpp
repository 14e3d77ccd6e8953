#include "tools/cli/hand_variants.hpp"

#include "policy/codegen/lowering_target.hpp"
#include "policy/moves/lowering.hpp"
#include "policy/moves/proof_checks.hpp"

namespace cudal1::cli {

expected<std::string> lower_schedule_text(const std::string& moves, const task& what, std::string_view target) {
  CUDAL1_TRY(const lowering_target* t, find_lowering_target(target));
  CUDAL1_TRY(const schedule parsed, parse_schedule(moves));
  auto made = lower(what, parsed, *t);
  if (!made) return fail(errc::invalid_argument, "the schedule {}: {}", moves, made.error().message);
  proof_checks checks;
  CUDAL1_CHECK(refuse_wrong_proofs(checks.of(what, parsed, *t, made->certificates)));
  return print_program(made->checked.text);
}

}  // namespace cudal1::cli
