#include "tools/cli/commands/judged_program.hpp"

#include "policy/moves/lowering.hpp"
#include "policy/moves/proof_checks.hpp"

namespace cudal1::cli {

expected<std::string> program_of(const proposal& idea, const task& what, const lowering_target& target) {
  if (!idea.program.empty()) return idea.program;
  CUDAL1_TRY(auto made, lower(what, idea.plan, target));
  proof_checks checks;
  CUDAL1_CHECK(refuse_wrong_proofs(checks.of(what, idea.plan, target, made.certificates)));
  return print_program(made.checked.text);
}

client_request evaluation_of(std::string program, const task& what, const std::string& device,
                             const std::string& origin) {
  client_request r;
  r.verb = client_verb::evaluate;
  r.device = device;
  r.task = canonical_text(what);
  r.program = std::move(program);
  r.origin = origin;
  return r;
}

}  // namespace cudal1::cli
