#include "policy/model/local/answer_batch.hpp"

#include <algorithm>

#include "config/base/utf8.hpp"
#include "policy/chat/request_text.hpp"

namespace cudal1 {

namespace {

generation_options options_of(const std::vector<batched_request>& batch, const std::vector<token>& ends) {
  generation_options o;
  o.temperature = batch.front().request.temperature.value_or(1);
  o.top_p = batch.front().request.top_p.value_or(1);
  o.most_tokens = 1;
  o.end = ends;
  for (const auto& b : batch) {
    o.most_tokens = std::max(o.most_tokens, b.request.max_tokens);
    o.seeds.push_back(static_cast<uint64_t>(seed_of(b.request)));
  }
  return o;
}

}  // namespace

int64_t cache_bytes_of_token(const model_shape& s, const std::string& precision) {
  return s.cached_elements() * (precision == "bfloat16" ? 2 : 4);
}

expected<std::vector<chat_answer>> answer_together(const language_model& with, const local_checkpoint& files,
                                                   const std::vector<batched_request>& batch,
                                                   const std::function<bool(std::size_t request)>& goes_on) {
  std::vector<std::vector<token>> prompts;
  std::vector<constrained_answer> shapes;
  for (const auto& b : batch) {
    prompts.push_back(b.prompt);
    shapes.push_back({b.masks, b.request.max_tokens});
  }
  auto options = options_of(batch, files.chat().ends());
  if (std::ranges::any_of(batch, [](const auto& b) { return b.masks != nullptr; })) {
    CUDAL1_TRY(options.constraint, constraint_of(std::move(shapes), options.end));
  }
  std::vector<int64_t> written(batch.size());
  CUDAL1_TRY(const auto made, with.generate(prompts, options, 1, [&](std::size_t i, token) {
    return ++written[i] < batch[i].request.max_tokens && goes_on(i);
  }));
  std::vector<chat_answer> answers(batch.size());
  const double share = 1 / static_cast<double>(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    auto& a = answers[i];
    const auto& g = made.answers[i];
    a.text = replace_invalid_utf8(files.chat().words().decode(g.tokens));
    a.finish_reason = g.end == generation_end::end_token ? "stop" : "length";
    a.prompt_tokens = static_cast<int64_t>(batch[i].prompt.size());
    a.answer_tokens = static_cast<int64_t>(g.tokens.size());
    a.seconds = (made.report.prompt_seconds + made.report.answer_seconds) * share;
    a.prompt_seconds = made.report.prompt_seconds * share;
    a.cache_bytes = made.report.cache_bytes;
  }
  return answers;
}

}  // namespace cudal1
