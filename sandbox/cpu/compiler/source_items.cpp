#include "sandbox/cpu/compiler/source_items.hpp"

#include <algorithm>

#include "sandbox/program/dialect.hpp"

namespace cudal1 {
namespace {

const std::unordered_set<std::string_view> thread_words{"threadIdx", "blockIdx", "blockDim", "gridDim"};

bool is_cooperative(std::string_view word) {
  static const auto words = [] {
    std::unordered_set<std::string_view> all{
        "__shared__",        "__syncthreads",     "__syncthreads_count", "__syncthreads_and", "__syncthreads_or",
        "__syncwarp",        "__shfl_sync",       "__shfl_up_sync",      "__shfl_down_sync",  "__shfl_xor_sync",
        "__ballot_sync",     "__any_sync",        "__all_sync",          "__activemask",      "__match_any_sync",
        "__reduce_add_sync", "__reduce_min_sync", "__reduce_max_sync",   "__reduce_and_sync", "__reduce_or_sync",
        "__reduce_xor_sync"};
    for (const auto& part : dialect_parts())
      all.insert(part.of_warps.begin(), part.of_warps.end());
    return all;
  }();
  return words.contains(word);
}

// Whether it is a function of a part in the dialect, which a program that defines it may not have at the same time.
bool is_in_dialect(std::string_view name) {
  static const auto words = [] {
    std::unordered_set<std::string_view> all;
    for (const auto& part : dialect_parts())
      if (part.in_dialect) all.insert(part.of_threads.begin(), part.of_threads.end());
    return all;
  }();
  return words.contains(name);
}

class splitter {
 public:
  explicit splitter(const std::vector<token>& tokens) : tokens_(tokens) {}

  expected<std::vector<source_item>> run() {
    while (at_ < tokens_.size()) {
      if (is(at_, ";")) {
        ++at_;
      } else if (tokens_[at_].kind == token_kind::directive) {
        ++at_;  // an unroll pragma between functions has no effect
      } else {
        CUDAL1_CHECK(item());
      }
    }
    return std::move(items_);
  }

 private:
  bool is(std::size_t i, std::string_view text) const { return i < tokens_.size() && tokens_[i].is(text); }

  expected<void> item() {
    if (is(at_, "extern") && is(at_ + 1, "\"C\"")) {
      if (is(at_ + 2, "{"))
        return fail(errc::unsupported,
                    "line {} of the source: the cpu device does not support extern \"C\" blocks; remove "
                    "`extern \"C\" {{` and its closing brace",
                    tokens_[at_].line);
      at_ += 2;
    }
    source_item found;
    found.begin = at_;
    const bool is_template = is(at_, "template");
    while (is(at_, "template"))
      skip_angles();
    CUDAL1_CHECK(finish(found));
    if (is_cooperative(found.name) || (tokens_[found.begin].line != 0 && is_in_dialect(found.name)))
      return fail(errc::compile_failed, "line {} of the source: \"{}\" is a function of the dialect; use another name",
                  tokens_[found.name_at].line, found.name);
    for (std::size_t i = found.begin; i < found.end; ++i)
      if (tokens_[i].is_name()) found.words.insert(tokens_[i].text);
    found.is_kernel = found.kind == item_kind::function && !is_template && declares(found, "__global__");
    if (found.kind == item_kind::declaration && found.words.contains("__shared__")) found.kind = item_kind::shared;
    for (const auto word : found.words)
      found.cooperates = found.cooperates || is_cooperative(word);
    found.uses_thread_state = found.cooperates || declares(found, "__global__");
    for (const auto word : thread_words)
      found.uses_thread_state = found.uses_thread_state || found.words.contains(word);
    items_.push_back(std::move(found));
    return {};
  }

  bool declares(const source_item& item, std::string_view word) const {
    const std::size_t end =
        item.kind == item_kind::function || item.kind == item_kind::prototype ? item.name_at : item.begin;
    return std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(item.begin),
                       tokens_.begin() + static_cast<std::ptrdiff_t>(end), [&](const token& t) { return t.is(word); });
  }

  // `template <...>`, at the word template.
  void skip_angles() {
    int depth = 0;
    for (++at_; at_ < tokens_.size(); ++at_) {
      if (is(at_, "(")) at_ = after_closing(tokens_, at_) - 1;
      if (is(at_, "<")) ++depth;
      if (is(at_, ">") && --depth == 0) break;
    }
    ++at_;
  }

  static bool is_annotation(std::string_view word) {
    return word == "__launch_bounds__" || word == "__cluster_dims__" || word == "__align__" || word == "alignas" ||
           word == "decltype" || word == "explicit" || word == "requires" || word == "noexcept" ||
           word == "static_assert";
  }

  // True if the declaration that begins here is one of a struct, class, union or enum.
  bool declares_type() const {
    if (is(at_, "__global__") || is(at_, "__device__")) return false;
    for (std::size_t i = at_; i < at_ + 3; ++i)
      if (is(i, "struct") || is(i, "class") || is(i, "union") || is(i, "enum")) return true;
    return false;
  }

  // From the first word of the declaration to its end: the ';', or the '}' of a function's body.
  expected<void> finish(source_item& found) {
    const std::size_t first = at_;
    const bool type = declares_type();
    bool assigned = false;
    found.kind = type ? item_kind::type : item_kind::declaration;
    while (at_ < tokens_.size() && !is(at_, ";")) {
      if (is(at_, "}") || is(at_, ")") || is(at_, "]")) return unbalanced(at_);
      if (is(at_, "=")) assigned = true;
      const bool has_name = found.parameters != 0;
      if (is(at_, "(") && !has_name && !type && !assigned && at_ > first &&
          tokens_[at_ - 1].kind != token_kind::number && !is_annotation(tokens_[at_ - 1].text)) {
        found.parameters = at_;
        found.name_at = at_ - 1;
        found.name = tokens_[at_ - 1].text;
        found.kind = item_kind::prototype;
      }
      const bool body = is(at_, "{") && found.parameters != 0 && !assigned;
      if (body) found.body = at_;
      if (is(at_, "(") || is(at_, "[") || is(at_, "{")) {
        const std::size_t open = at_;
        at_ = after_closing(tokens_, at_);
        if (at_ > tokens_.size()) return unbalanced(open);
        if (body) break;
      } else {
        ++at_;
      }
    }
    if (found.body != 0) found.kind = item_kind::function;
    if (is(first, "using") || is(first, "typedef") || assigned)
      found.kind = found.body != 0 ? found.kind : item_kind::declaration;
    if (found.body == 0) {
      if (at_ >= tokens_.size())
        return fail(errc::compile_failed, "line {} of the source: the declaration that begins here never ends",
                    tokens_[std::min(first, tokens_.size() - 1)].line);  // the source may end after `template <`
      ++at_;
    }
    found.end = at_;
    return {};
  }

  tl::unexpected<error> unbalanced(std::size_t i) const {
    return fail(errc::compile_failed, "line {} of the source: \"{}\" has no counterpart", tokens_[i].line,
                tokens_[i].text);
  }

  const std::vector<token>& tokens_;
  std::size_t at_ = 0;
  std::vector<source_item> items_;
};

// The text of a part in the dialect has no line numbers.
bool is_of_dialect(const source_item& item, const std::vector<token>& tokens) {
  return tokens[item.begin].line == 0;
}

// Callers use what the functions that they call use. The dialect's own text calls nothing of the program's.
void follow_calls(std::vector<source_item>& items, const std::vector<token>& tokens) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& used : items) {
      if (used.name.empty() && used.kind != item_kind::shared) continue;
      for (auto& user : items) {
        if (&user == &used || !user.words.contains(used.name)) continue;
        if (is_of_dialect(user, tokens) && !is_of_dialect(used, tokens)) continue;
        if ((used.uses_thread_state && !user.uses_thread_state) || (used.cooperates && !user.cooperates)) {
          user.uses_thread_state = user.uses_thread_state || used.uses_thread_state;
          user.cooperates = user.cooperates || used.cooperates;
          changed = true;
        }
      }
    }
  }
}

}  // namespace

std::size_t after_closing(const std::vector<token>& tokens, std::size_t open) {
  std::vector<char> stack;
  for (std::size_t i = open; i < tokens.size(); ++i) {
    const auto text = tokens[i].text;
    if (tokens[i].kind != token_kind::punctuation || text.size() != 1) continue;
    const char c = text[0];
    if (c == '(' || c == '[' || c == '{') stack.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (stack.empty() || stack.back() != c) return tokens.size() + 1;
      stack.pop_back();
      if (stack.empty()) return i + 1;
    }
  }
  return tokens.size() + 1;
}

expected<std::vector<source_item>> items_of(const std::vector<token>& tokens) {
  CUDAL1_TRY(auto items, splitter(tokens).run());
  // A variable outside functions is used by its name: the last word before '[', '=' or ';'.
  for (auto& item : items)
    if (item.kind == item_kind::shared)
      for (std::size_t i = item.begin; i < item.end && !tokens[i].is("["); ++i)
        if (tokens[i].is_name()) item.name = tokens[i].text;
  follow_calls(items, tokens);
  for (const auto& item : items)
    if (item.kind == item_kind::type && item.uses_thread_state)
      return fail(errc::unsupported,
                  "line {} of the source: the cpu device does not support threadIdx, barriers, shuffles "
                  "and __shared__ inside the member functions of a struct; pass the values as arguments",
                  tokens[item.begin].line);
  return items;
}

}  // namespace cudal1
