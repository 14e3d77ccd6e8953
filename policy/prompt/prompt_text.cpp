#include "policy/prompt/prompt_text.hpp"

#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "config/base/hash.hpp"
#include "policy/prompt/compact_text.hpp"
#include "policy/prompt/document_text.hpp"
#include "policy/prompt/format_guide.hpp"
#include "policy/prompt/tile_guide.hpp"
#include "policy/prompt/variant_text.hpp"

namespace cudal1 {

namespace {

std::string system_text(const prompt_document& d, const device_guide& guide) {
  auto text = introduction(d.form) + answer_guide(d.form);
  if (d.form == answer_form::schedule) return text + schedule_guide() + requirements_text(guide, d.what, d.form);
  return text + (d.form == answer_form::tile ? tile_guide() : format_guide()) + dialect_text(guide, d.form) +
         requirements_text(guide, d.what, d.form) + performance_text(guide);
}

std::string user_text(const prompt_document& d) {
  auto text = task_text(d) + device_text(d) + bounds_text(d) + variants_text(d) + files_text(d) + examples_text(d);
  if (!d.repair.empty()) return text + repair_text(d.repair, d.form);
  const bool has_earlier = !d.exemplars.empty() || !d.failed.empty();
  return text + fmt::format("Now write your answer: a correct {} that is {}.\n", word_for(d.form),
                            has_earlier ? "faster than every variant above" : "as fast as you can make it");
}

// Leaves out one part; what it was, or nothing if there is none of its kind left.
using dropping = std::optional<std::string> (*)(prompt_document&);

std::string name_of(const char* what, const shown_variant& v) {
  return fmt::format("the {} {}", what, v.id.substr(0, 12));
}

std::optional<std::string> drop_failed(prompt_document& d) {
  if (d.failed.empty()) return std::nullopt;
  auto name = name_of("failed variant", d.failed.back());
  d.failed.pop_back();
  return name;
}

std::optional<std::string> drop_second_example(prompt_document& d) {
  if (d.examples.size() < 2) return std::nullopt;
  auto name = "the library's program " + d.examples.back().name;
  d.examples.pop_back();
  return name;
}

std::optional<std::string> drop_operator_names(prompt_document& d) {
  if (d.operators.empty()) return std::nullopt;
  d.operators.clear();
  return "the names of operators";
}

std::optional<std::string> drop_file(prompt_document& d) {
  if (d.files.empty()) return std::nullopt;
  auto name = "the file " + d.files.back().name;
  d.files.pop_back();
  return name;
}

std::optional<std::string> drop_source(prompt_document& d) {
  if (d.what.source.empty()) return std::nullopt;
  d.what.source.clear();
  return "the PyTorch source";
}

std::optional<std::string> drop_analyses(prompt_document& d) {
  bool any = false;
  for (auto* list : {&d.exemplars, &d.failed, &d.repair})
    for (auto& v : *list) {
      any = any || !v.analysis.empty();
      v.analysis.clear();
    }
  return any ? std::optional<std::string>("the analyses of earlier variants") : std::nullopt;
}

std::optional<std::string> drop_slower_exemplar(prompt_document& d) {
  if (d.exemplars.size() < 2) return std::nullopt;
  auto name = name_of("exemplar", d.exemplars.back());
  d.exemplars.pop_back();
  return name;
}

std::optional<std::string> drop_products(prompt_document& d) {
  if (d.products.empty()) return std::nullopt;
  d.products.clear();
  return "the schemas of operators that are not the task's";
}

std::optional<std::string> drop_round(prompt_document& d) {
  if (d.repair.size() < 2) return std::nullopt;
  auto name = name_of("round", d.repair.front());
  d.repair.erase(d.repair.begin());
  return name;
}

std::optional<std::string> drop_best_exemplar(prompt_document& d) {
  const bool format_is_shown = !d.examples.empty() || !d.repair.empty() || d.form != answer_form::program;
  if (d.exemplars.empty() || !format_is_shown) return std::nullopt;
  auto name = name_of("exemplar", d.exemplars.back());
  d.exemplars.pop_back();
  return name;
}

std::optional<std::string> drop_move_examples(prompt_document& d) {
  bool any = false;
  for (auto& m : d.moves) {
    any = any || m.examples.size() > 1;
    if (m.examples.size() > 1) m.examples.resize(1);
  }
  return any ? std::optional<std::string>("further examples of moves") : std::nullopt;
}

// In the order of the header.
constexpr std::array<dropping, 11> droppings{drop_failed, drop_second_example, drop_operator_names,  drop_file,
                                             drop_source, drop_analyses,       drop_slower_exemplar, drop_products,
                                             drop_round,  drop_best_exemplar,  drop_move_examples};

std::optional<std::string> drop_least_useful(prompt_document& d) {
  for (const auto drop : droppings)
    if (auto name = drop(d)) return name;
  return std::nullopt;
}

}  // namespace

int64_t estimated_tokens(std::size_t bytes) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(bytes) / bytes_per_token));
}

std::string prompt_text::id() const {
  return sha256_hex(std::to_string(system.size()) + "\n" + system + user);
}

expected<prompt_text> render(prompt_document d, int64_t most_tokens, prompt_detail detail, const token_counter& count) {
  CUDAL1_TRY(const auto* guide, guide_of(d.where.target));
  prompt_text p;
  p.compact = detail == prompt_detail::compact;
  while (true) {
    p.system = p.compact ? compact_system_text(d, *guide) : system_text(d, *guide);
    p.user = p.compact ? compact_user_text(d) : user_text(d);
    p.tokens = estimated_tokens(p.system.size() + p.user.size());
    if (count) {
      CUDAL1_TRY(p.tokens, count(p));
    }
    if (p.tokens <= most_tokens) return p;
    if (!p.compact && detail == prompt_detail::fitting) {
      p.compact = true;
      continue;
    }
    auto dropped = drop_least_useful(d);
    if (!dropped)
      return fail(
          errc::invalid_argument,
          "the necessary parts of a prompt for task {} have {}{} tokens, but {} are allowed; allow {} or more{}",
          d.what.name, count ? "" : "about ", p.tokens, most_tokens, p.tokens,
          p.compact ? "" : ", or set llm.prompt=compact");
    p.dropped.push_back(std::move(*dropped));
  }
}

}  // namespace cudal1
