// How many tokens prompts have for SmolLM2, whose context is 8,192: with two programs of the library as exemplars.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "policy/model/local/local_checkpoint.hpp"
#include "policy/prompt/prompt_text.hpp"
#include "tests/policy/model/references.hpp"
#include "tests/policy/prompt/prompt_fixture.hpp"

namespace cudal1 {
namespace {

class compact_prompt : public with_references {};

prompt with_library_exemplars(const std::string& name) {
  auto p = prompt_for(name, "cuda");
  for (const auto& entry : *shared_library("cuda"))
    if (entry.task == name && p.exemplars.size() < 2)
      p.exemplars.push_back(
          written(*p.what, print_program(entry.program.program.text), outcome::correct, "", {900, 300, 880, 280}));
  return p;
}

TEST_F(compact_prompt, leaves_smollm2_room_for_an_answer) {
  const auto files = value_of(local_checkpoint::open(reference("smollm2/model.gguf")));
  chat_model m;
  m.max_answer_tokens = 8192;
  EXPECT_EQ(files->shape().context, 8192);
  EXPECT_EQ(files->longest_prompt(m), 4096);
  const token_counter count = [&](const prompt_text& text) {
    return files->tokens_of(std::vector<chat_message>{{"system", text.system}, {"user", text.user}});
  };
  for (const char* name : {"softmax", "matmul_epilogue", "attention"}) {
    const auto p = with_library_exemplars(name);
    ASSERT_EQ(p.exemplars.size(), 2u) << name;
    const auto d = value_of(build_document(p, sources_for(p, answer_form::program)));
    const auto full = value_of(render(d, 1 << 20, prompt_detail::full, count));
    const auto compact = value_of(render(d, 1 << 20, prompt_detail::compact, count));
    const auto chosen = value_of(render(d, files->longest_prompt(m), prompt_detail::fitting, count));
    fmt::print("{}: {} tokens in full, {} compact; chosen: {}{}\n", name, full.tokens, compact.tokens, chosen.tokens,
               chosen.dropped.empty() ? "" : fmt::format(", without {} parts", chosen.dropped.size()));
    EXPECT_TRUE(chosen.compact);
    EXPECT_LT(2 * compact.tokens, full.tokens) << name;
    EXPECT_LE(chosen.tokens, files->longest_prompt(m));
    if (std::string_view(name) == "softmax") {
      EXPECT_LE(compact.tokens, 2500);
    }
  }
}

// The tile vocabulary is explained within the same room, beside whole kernels as earlier variants and examples.
TEST_F(compact_prompt, of_the_form_tile_fits_too) {
  const auto files = value_of(local_checkpoint::open(reference("smollm2/model.gguf")));
  chat_model m;
  m.max_answer_tokens = 8192;
  const token_counter count = [&](const prompt_text& text) {
    return files->tokens_of(std::vector<chat_message>{{"system", text.system}, {"user", text.user}});
  };
  for (const char* name : {"softmax", "linear_gelu", "conv2d_epilogue"}) {
    const auto p = with_library_exemplars(name);
    const auto d = value_of(build_document(p, sources_for(p, answer_form::tile)));
    const auto compact = value_of(render(d, 1 << 20, prompt_detail::compact, count));
    const auto chosen = value_of(render(d, files->longest_prompt(m), prompt_detail::fitting, count));
    fmt::print("{}: {} tokens compact; chosen: {}\n", name, compact.tokens, chosen.tokens);
    EXPECT_TRUE(chosen.compact);
    EXPECT_LE(chosen.tokens, files->longest_prompt(m));
    // Programs of the library that call the vocabulary are shown in the form.
    EXPECT_THAT(chosen.user,
                testing::HasSubstr(std::string_view(name) == "linear_gelu" ? "frame `product" : "\nlaunch "));
  }
}

}  // namespace
}  // namespace cudal1
