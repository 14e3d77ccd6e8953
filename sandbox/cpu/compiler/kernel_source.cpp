#include "sandbox/cpu/compiler/kernel_source.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "sandbox/cpu/compiler/guards.hpp"
#include "sandbox/cpu/compiler/source_items.hpp"
#include "sandbox/cpu/compiler/source_rules.hpp"
#include "sandbox/program/dialect.hpp"
#include "sandbox/program/scanner.hpp"

namespace cudal1 {
namespace {

// Replaces ranges of tokens. Everything else is copied with its whitespace, so that lines keep their numbers.
class rewriter {
 public:
  rewriter(std::string_view source, const std::vector<token>& tokens) : source_(source), tokens_(tokens) {}

  void replace(std::size_t first, std::size_t last, std::string text) { changes_[first] = {last, std::move(text)}; }

  std::string text(std::size_t first, std::size_t last) const {
    std::string out;
    std::size_t at = tokens_[first].begin;
    for (std::size_t i = first; i < last;) {
      const auto change = changes_.find(i);
      out += source_.substr(at, tokens_[i].begin - at);
      if (change == changes_.end()) {
        out += tokens_[i].text;
        at = tokens_[i++].end;
      } else {
        out += change->second.second;
        i = change->second.first;
        // Keep the newlines of the replaced text.
        const auto gone =
            source_.substr(tokens_[change->first].begin, tokens_[i - 1].end - tokens_[change->first].begin);
        out.append(static_cast<std::size_t>(std::count(gone.begin(), gone.end(), '\n')), '\n');
        at = tokens_[i - 1].end;
      }
    }
    return out;
  }

 private:
  std::string_view source_;
  const std::vector<token>& tokens_;
  std::map<std::size_t, std::pair<std::size_t, std::string>> changes_;
};

class assembler {
 public:
  assembler(std::string_view source, const std::vector<token>& tokens, const std::vector<source_item>& items)
      : tokens_(tokens), items_(items), rewriter_(source, tokens) {}

  expected<kernel_source> run() {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i].kind == token_kind::directive) rewrite_unroll(i);
      if (tokens_[i].is("__shared__")) CUDAL1_CHECK(rewrite_shared(i));
    }
    CUDAL1_CHECK(check_kernels());
    std::string free, members, entries;
    for (const auto& item : items_) {
      if (item.kind == item_kind::prototype && item.uses_thread_state) continue;  // members need no prototype
      if (item.is_kernel) entries += entry_of(item);
      if (item.uses_thread_state && item.kind == item_kind::function) drop_static(item);
      (item.uses_thread_state ? members : free) += text_of(item);
    }
    kernel_source result;
    result.text = std::string(device_header()) + free +
                  "\n#line 1 \"cudal1\"\nstruct cudal1_program : cudal1_state {\n" + members +
                  "\n#line 1 \"cudal1\"\n};\n}  // namespace\n" + entries;
    for (const auto& item : items_)
      if (item.is_kernel) result.kernels.push_back({std::string(item.name), item.cooperates});
    return result;
  }

 private:
  std::string text_of(const source_item& item) const {
    const int line = tokens_[item.begin].line;
    const std::string text = rewriter_.text(item.begin, item.end);
    return line > 0 ? fmt::format("\n#line {} \"program.cu\"\n{}", line, text)
                    : fmt::format("\n#line 1 \"cudal1/dialect\"\n{}", text);
  }

  expected<void> check_kernels() const {
    std::unordered_set<std::string_view> seen;
    for (const auto& item : items_) {
      if (!item.is_kernel) continue;
      if (!seen.insert(item.name).second)
        return fail(errc::unsupported, "line {} of the source: there are two kernels \"{}\", and launches go by name",
                    tokens_[item.begin].line, item.name);
    }
    return {};
  }

  void rewrite_unroll(std::size_t i) {
    const int count = unroll_count(tokens_[i].text);
    rewriter_.replace(i, i + 1, fmt::format("#pragma GCC unroll {}", count > 0 ? count : 16));
  }

  // A member function that uses the state of its thread cannot be static.
  void drop_static(const source_item& item) {
    for (std::size_t i = item.begin; i < item.name_at; ++i)
      if (tokens_[i].is("static")) rewriter_.replace(i, i + 1, "");
  }

  std::string words(std::size_t first, std::size_t last) const {
    std::string out;
    for (std::size_t i = first; i < last; ++i)
      out += std::string(tokens_[i].text) + " ";
    return out;
  }

  expected<void> rewrite_shared(std::size_t at) {
    std::size_t first = at, last = at;
    const auto ends = [this](std::size_t i) {
      return tokens_[i].is(";") || tokens_[i].is("{") || tokens_[i].is("}") || tokens_[i].kind == token_kind::directive;
    };
    while (first > 0 && !ends(first - 1))
      --first;
    while (last < tokens_.size() && !tokens_[last].is(";")) {
      if (tokens_[last].is("="))
        return fail(errc::unsupported, "line {} of the source: a __shared__ variable cannot be initialised",
                    tokens_[last].line);
      const bool opens = tokens_[last].is("(") || tokens_[last].is("[") || tokens_[last].is("{");
      last = opens ? after_closing(tokens_, last) : last + 1;
    }
    if (last >= tokens_.size()) return fail(errc::compile_failed, "line {} of the source: no ';'", tokens_[at].line);
    const bool dynamic =
        std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(first),
                    tokens_.begin() + static_cast<std::ptrdiff_t>(last), [](const token& t) { return t.is("extern"); });
    return dynamic ? rewrite_dynamic(first, last) : rewrite_static(first, last);
  }

  // extern __shared__ T name[];  ->  T* const name = (T*)...;
  expected<void> rewrite_dynamic(std::size_t first, std::size_t last) {
    std::string type;
    std::size_t i = first;
    for (; i < last && !tokens_[i].is("["); ++i) {
      if (tokens_[i].is("__align__") || tokens_[i].is("alignas")) {
        i = after_closing(tokens_, i + 1) - 1;
      } else if (!tokens_[i].is("extern") && !tokens_[i].is("__shared__") &&
                 !(i + 1 < last && tokens_[i + 1].is("["))) {
        type += std::string(tokens_[i].text) + " ";
      }
    }
    if (i + 2 != last || !tokens_[i + 1].is("]") || !tokens_[i - 1].is_name())
      return fail(errc::unsupported,
                  "line {} of the source: dynamic shared memory is declared as `extern __shared__ T name[];`",
                  tokens_[first].line);
    rewriter_.replace(first, last,
                      fmt::format("{0}* const {1} = ({0}*)cudal1_dynamic_shared", type, tokens_[i - 1].text));
    return {};
  }

  // The tokens of the names that a declaration of `__shared__` variables without initialisers declares.
  expected<std::vector<std::size_t>> names_declared(std::size_t first, std::size_t last) const {
    std::vector<std::size_t> names;
    std::size_t name = 0;
    bool in_bounds = false;
    int angles = 0;
    for (std::size_t i = first; i <= last; ++i) {
      if (i == last || (tokens_[i].is(",") && angles == 0)) {
        if (name == 0)
          return fail(errc::compile_failed, "line {} of the source: __shared__ without a name", tokens_[first].line);
        names.push_back(name);
        name = 0;
        in_bounds = false;
      } else if (tokens_[i].is("<") && !in_bounds) {
        ++angles;
      } else if (tokens_[i].is(">") && !in_bounds) {
        --angles;
      } else if (tokens_[i].is("[") || tokens_[i].is("(") || tokens_[i].is("{")) {
        in_bounds = in_bounds || tokens_[i].is("[");
        i = after_closing(tokens_, i) - 1;
      } else if (tokens_[i].is_name() && !in_bounds && angles == 0 && !tokens_[i].is("__align__")) {
        name = i;
      }
    }
    return names;
  }

  // __shared__ T a[4], b;  ->  typedef T ta[4], tb; ta& a = *(ta*)...; tb& b = ...
  expected<void> rewrite_static(std::size_t first, std::size_t last) {
    CUDAL1_TRY(const auto names, names_declared(first, last));
    const bool in_function = std::any_of(items_.begin(), items_.end(), [&](const source_item& item) {
      return item.kind == item_kind::function && item.begin <= first && first < item.end;
    });
    std::string declaration = "typedef ", references;
    for (std::size_t i = first; i < last; ++i) {
      if (tokens_[i].is("__shared__") || tokens_[i].is("static")) continue;
      if (std::find(names.begin(), names.end(), i) == names.end()) {
        declaration += std::string(tokens_[i].text) + " ";
        continue;
      }
      const std::string alias = fmt::format("cudal1_type_{}_{}", sites_, tokens_[i].text);
      declaration += alias + " ";
      references += fmt::format(
          "; static_assert(sizeof({0}) <= 49152, \"a static __shared__ variable is limited to 48 KiB\"); {0}& {1} = "
          "*({0}*)cudal1_rt_shared(cudal1_fiber, {2}, {3}, sizeof({0}), alignof({0}))",
          alias, tokens_[i].text, sites_++, in_function ? "__PRETTY_FUNCTION__" : "\"\"");
    }
    rewriter_.replace(first, last, declaration + references);
    return {};
  }

  // The arguments of its __cluster_dims__, if it has one.
  std::string cluster_of(const source_item& item) const {
    for (std::size_t i = item.begin; i + 1 < item.name_at; ++i)
      if (tokens_[i].is("__cluster_dims__") && tokens_[i + 1].is("("))
        return words(i + 2, after_closing(tokens_, i + 1) - 1);
    return "";
  }

  std::string entry_of(const source_item& item) {
    if (item.cooperates) {
      const auto cluster = cluster_of(item);
      return fmt::format("CUDAL1_FIBER_KERNEL({}{}{})\n", item.name, cluster.empty() ? "" : ", ", cluster);
    }
    const guard_plan plan = plan_guards(tokens_, item);
    for (const auto& r : plan.replacements)
      rewriter_.replace(r.first, r.last, r.text);
    if (plan.condition.empty()) return fmt::format("CUDAL1_LOOP_KERNEL({})\n", item.name);
    const std::string parameters = words(item.parameters + 1, after_closing(tokens_, item.parameters) - 1);
    return fmt::format(
        "namespace {{ CUDAL1_INLINE bool cudal1_guard_{0}(const {1} {2}, {3}) {{ return {4}; }} }}\n"
        "CUDAL1_GUARDED_KERNEL({0})\n",
        item.name, plan.index_type, plan.index, parameters, plan.condition);
  }

  const std::vector<token>& tokens_;
  const std::vector<source_item>& items_;
  rewriter rewriter_;
  int sites_ = 0;
};

}  // namespace

expected<kernel_source> assemble_kernel_source(std::string_view source) {
  CUDAL1_TRY(auto tokens, tokens_of(source));
  CUDAL1_CHECK(check_source_words(tokens));
  // The functions that are written in the dialect itself, where it names one, and the source, as one text.
  std::string whole;
  for (const auto& part : dialect_parts())
    if (part.in_dialect && needs_part(source, part)) whole += functions_in_dialect(part.name);
  CUDAL1_TRY(auto own, tokens_of(whole));
  const std::size_t before = whole.size();
  whole += source;
  for (auto& t : own)
    t.line = 0;
  for (auto& t : tokens) {
    t.begin += before;
    t.end += before;
    own.push_back(t);
  }
  for (auto& t : own)
    t.text = std::string_view(whole).substr(t.begin, t.end - t.begin);
  CUDAL1_TRY(const auto items, items_of(own));
  return assembler(whole, own, items).run();
}

}  // namespace cudal1
