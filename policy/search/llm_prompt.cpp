#include "policy/search/llm_prompt.hpp"

#include <algorithm>
#include <filesystem>

#include "config/base/describe.hpp"
#include "policy/prompt/prompt_document.hpp"
#include "policy/prompt/prompt_text.hpp"

namespace cudal1 {

prompt_detail detail_of(const std::string& setting, bool is_local) {
  if (setting == "auto") return is_local ? prompt_detail::fitting : prompt_detail::full;
  return setting == "compact" ? prompt_detail::compact : prompt_detail::full;
}

exemplar_query exemplars_of(const language_model_options& o) {
  return {.task = "",
          .environment_class = "",
          .correct = static_cast<std::size_t>(o.exemplars),
          .failed = static_cast<std::size_t>(o.failed_exemplars),
          .scheme = enum_value<sampling_scheme>(o.scheme).value_or(sampling_scheme::buckets),
          .temperature = o.sample_temperature};
}

expected<llm_request> llm_request_writer::write(const prompt& p, const std::optional<prompt_room>& room) {
  auto& library = libraries_[p.what->profile];
  if (!library) {
    CUDAL1_TRY(library, load_example_library(p.what->profile));
    if (!hidden_.empty()) {
      auto shown = *library;
      std::erase_if(shown, [&](const library_entry& e) { return hidden_.contains(e.task); });
      library = std::make_shared<const example_library>(std::move(shown));
    }
  }
  const auto form = enum_value<answer_form>(options_.form).value_or(answer_form::program);
  CUDAL1_TRY(auto sources, gather_sources(p, form, blobs_folder_, library));
  sources.verification = gates_;
  CUDAL1_TRY(sources.counters,
             counters_of(p, profile_folder(std::filesystem::path(blobs_folder_).parent_path().string())));
  CUDAL1_TRY(auto document, build_document(p, sources));
  const int64_t most = room ? std::min(options_.prompt_tokens, room->most_tokens) : options_.prompt_tokens;
  CUDAL1_TRY(auto text, render(std::move(document), most, detail_of(options_.prompt, room.has_value()),
                               room ? room->count : token_counter()));
  return llm_request{{{"system", std::move(text.system)}, {"user", std::move(text.user)}},
                     options_.form,
                     std::move(text.dropped),
                     text.compact,
                     text.tokens,
                     {}};
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
