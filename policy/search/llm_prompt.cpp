#include "policy/search/llm_prompt.hpp"

#include "config/base/describe.hpp"
#include "policy/prompt/prompt_document.hpp"
#include "policy/prompt/prompt_text.hpp"

namespace cudal1 {

expected<llm_request> llm_request_writer::write(const prompt& p) {
  auto& library = libraries_[p.what->profile];
  if (!library) {
    CUDAL1_TRY(library, load_example_library(p.what->profile));
  }
  const auto form = enum_value<answer_form>(options_.form).value_or(answer_form::program);
  CUDAL1_TRY(auto sources, gather_sources(p, form, blobs_folder_, library));
  sources.verification = gates_;
  CUDAL1_TRY(auto document, build_document(p, sources));
  CUDAL1_TRY(auto text, render(std::move(document), options_.prompt_tokens));
  return llm_request{
      {{"system", std::move(text.system)}, {"user", std::move(text.user)}}, options_.form, std::move(text.dropped), {}};
}

proposal proposal_of(const std::string& text, const std::string& finish_reason, const answer_context& c) {
  answer a = read_answer(text, {c.what.get(), c.target, c.form, finish_reason});
  proposal p;
  p.analysis = std::move(a.analysis);
  p.trace.set("text", text);
  if (!a.design.empty()) p.trace.set("design", std::move(a.design));
  if (a.problem) {
    p.problem = std::move(a.problem->message);
    p.program = std::move(a.code);
  } else if (a.plan) {
    p.plan = std::move(*a.plan);
  } else {
    p.program = print_program(a.program->text);
  }
  return p;
}

}  // namespace cudal1
