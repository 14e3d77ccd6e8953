#include "policy/model/tokenizer/text_splitter.hpp"

#include <array>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace cudal1 {

namespace {

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

struct free_match {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

}  // namespace

void text_splitter::free_code::operator()(void* code) const {
  pcre2_code_free(static_cast<pcre2_code*>(code));
}

expected<text_splitter> text_splitter::make(const split_rule& rule) {
  int problem = 0;
  PCRE2_SIZE at = 0;
  text_splitter out;
  out.rule_ = rule;
  out.code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rule.pattern.data()), rule.pattern.size(),
                                PCRE2_UTF | PCRE2_UCP, &problem, &at, nullptr));
  if (!out.code_)
    return fail(errc::unsupported, "the tokenizer's expression cannot be compiled, at its character {}: {}; it is {}",
                at, message_of(problem), rule.pattern);
  // Without it matching is slower and gives the same.
  pcre2_jit_compile(static_cast<pcre2_code*>(out.code_.get()), PCRE2_JIT_COMPLETE);
  return out;
}

expected<void> text_splitter::split(std::string_view text, std::vector<std::string_view>& out) const {
  auto* const code = static_cast<pcre2_code*>(code_.get());
  const std::unique_ptr<pcre2_match_data, free_match> data(pcre2_match_data_create_from_pattern(code, nullptr));
  std::size_t done = 0;    // what has been put into pieces
  bool was_match = false;  // the last piece is one
  const auto put = [&](std::size_t end, bool matches) {
    if (end == done) return;
    const bool meant = matches != rule_.is_inverted;
    if (meant && rule_.behaviour == split_behaviour::contiguous && was_match)
      out.back() = std::string_view(out.back().data(), out.back().size() + end - done);
    else if (!meant || rule_.behaviour != split_behaviour::removed)
      out.push_back(text.substr(done, end - done));
    was_match = meant;
    done = end;
  };
  const auto match = [&](std::size_t from, uint32_t how) {
    return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, how | PCRE2_NO_UTF_CHECK,
                       data.get(), nullptr);
  };
  for (std::size_t from = 0; from < text.size();) {
    int found = match(from, PCRE2_NOTEMPTY);
    // The compiled code has a small stack of its own, the interpreter the heap.
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(from, PCRE2_NOTEMPTY | PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0)
      return fail(errc::invalid_argument, "the tokenizer's expression fails on this text: {}", message_of(found));
    const PCRE2_SIZE* places = pcre2_get_ovector_pointer(data.get());
    put(places[0], false);
    put(places[1], true);
    from = places[1];
  }
  put(text.size(), false);
  return {};
}

}  // namespace cudal1
