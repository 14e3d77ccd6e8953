#include "policy/model/local/local_answer.hpp"

#include <utility>

#include "config/base/utf8.hpp"
#include "policy/chat/request_text.hpp"

namespace cudal1 {

expected<text_request> generation_of(const chat_request& r, std::vector<token> prompt,
                                     const std::shared_ptr<const token_masks>& masks, std::vector<token> ends) {
  text_request out;
  out.prompt = std::move(prompt);
  auto& o = out.options;
  o.temperature = r.temperature.value_or(1);
  o.top_p = r.top_p.value_or(1);
  o.most_tokens = r.max_tokens;
  o.seed = static_cast<uint64_t>(seed_of(r));
  if (masks) {
    CUDAL1_TRY(o.constraint, constraint_of(masks, r.max_tokens, ends));
  }
  o.end = std::move(ends);
  return out;
}

chat_answer answer_of(const generated_tokens& made, int64_t prompt_tokens, const local_checkpoint& files) {
  chat_answer a;
  a.text = replace_invalid_utf8(files.chat().words().decode(made.tokens));
  a.finish_reason = made.end == generation_end::end_token ? "stop" : "length";
  a.prompt_tokens = prompt_tokens;
  a.answer_tokens = static_cast<int64_t>(made.tokens.size());
  return a;
}

int64_t cache_bytes_of_token(const model_shape& s, const std::string& precision) {
  return s.cached_elements() * (precision == "bfloat16" ? 2 : 4);
}

}  // namespace cudal1
