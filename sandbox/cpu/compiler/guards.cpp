#include "sandbox/cpu/compiler/guards.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

namespace cudal1 {
namespace {

// The expression of a thread's global index along x, as tokens [first, last).
struct global_index {
  std::size_t first = 0, last = 0;
  std::string cast;  // "" or the type that its first factor is cast to
};

class guard_finder {
 public:
  guard_finder(const std::vector<token>& tokens, const source_item& kernel) : tokens_(tokens), kernel_(kernel) {}

  guard_plan run() {
    guard_plan plan;
    for (std::size_t i = kernel_.body; i < kernel_.end; ++i) {
      const auto found = global_index_at(i);
      if (!found) continue;
      const std::string cast = found->cast.empty() ? "" : "(" + found->cast + ")";
      plan.replacements.push_back({found->first, found->last, cast + "cudal1_global_x()"});
      if (plan.index.empty()) take_index(*found, plan);
      i = found->last - 1;
    }
    if (!plan.index.empty()) find_guards(plan);
    return plan;
  }

 private:
  std::string_view at(std::size_t i) const { return i < kernel_.end ? tokens_[i].text : std::string_view(); }

  // `name.x`, with or without a cast before it; the cast's type is appended to `casts`.
  bool factor(std::size_t& i, std::string_view name, std::vector<std::string>& casts) const {
    std::string cast;
    std::size_t j = i;
    if (at(j) == "(") {
      for (++j; j < kernel_.end && tokens_[j].is_name(); ++j)
        cast += (cast.empty() ? "" : " ") + std::string(at(j));
      if (cast.empty() || at(j) != ")") return false;
      ++j;
    }
    if (at(j) != name || at(j + 1) != "." || at(j + 2) != "x") return false;
    casts.push_back(cast);
    i = j + 3;
    return true;
  }

  bool operation(std::size_t& i, std::string_view text) const {
    if (at(i) != text) return false;
    ++i;
    return true;
  }

  bool product(std::size_t& i, std::vector<std::string>& casts) const {
    for (const auto& [a, b] : {std::pair{"blockIdx", "blockDim"}, std::pair{"blockDim", "blockIdx"}}) {
      std::size_t j = i;
      std::vector<std::string> found;
      if (factor(j, a, found) && operation(j, "*") && factor(j, b, found)) {
        i = j;
        casts.insert(casts.end(), found.begin(), found.end());
        return true;
      }
    }
    return false;
  }

  std::optional<global_index> global_index_at(std::size_t first) const {
    static constexpr std::array<std::string_view, 5> before{"=", "(", "[", ",", "return"};
    static constexpr std::array<std::string_view, 9> after{";", ")", "]", ",", "<", ">", "<=", ">=", "=="};
    if (first == 0 || std::find(before.begin(), before.end(), tokens_[first - 1].text) == before.end()) return {};
    for (const bool product_first : {true, false}) {
      std::size_t i = first;
      std::vector<std::string> casts;
      const bool matches = product_first ? product(i, casts) && operation(i, "+") && factor(i, "threadIdx", casts)
                                         : factor(i, "threadIdx", casts) && operation(i, "+") && product(i, casts);
      if (!matches || std::find(after.begin(), after.end(), at(i)) == after.end()) continue;
      // Without casts the index is unsigned. If all factors have the same cast, or the product's first factor is cast
      // to a wide type, the index has that type. A launch has fewer than 2^31 threads along x, so the value is the
      // same.
      const std::set<std::string> kinds(casts.begin(), casts.end());
      if (kinds.size() == 1) return global_index{first, i, *kinds.begin()};
      const std::string cast = casts[product_first ? 0 : 1];
      static const std::set<std::string> wide{"size_t",    "int64_t",       "uint64_t",          "long",
                                              "long long", "unsigned long", "unsigned long long"};
      if (kinds.size() == 2 && kinds.contains("") && wide.contains(cast)) return global_index{first, i, cast};
    }
    return {};
  }

  // The declaration `T name = <index>;` around an index expression.
  void take_index(const global_index& found, guard_plan& plan) const {
    static const std::set<std::string_view> types{"int",     "unsigned", "long", "size_t", "int32_t", "uint32_t",
                                                  "int64_t", "uint64_t", "uint", "auto",   "const",   "signed"};
    if (at(found.last) != ";" || found.first < kernel_.body + 4 || at(found.first - 1) != "=") return;
    const std::size_t name = found.first - 2;
    std::string type;
    std::size_t i = name;
    for (; i > kernel_.body + 1 && types.contains(at(i - 1)); --i)
      if (at(i - 1) != "const") type = std::string(at(i - 1)) + (type.empty() ? "" : " ") + type;
    const auto before = at(i - 1);
    if (type.empty() || (before != ";" && before != "{" && before != "}") || changes(at(name))) return;
    plan.index = at(name);
    plan.index_type = type != "auto" ? type : found.cast.empty() ? "unsigned" : found.cast;
  }

  // True if something might change the value or the meaning of `name` after its declaration.
  bool changes(std::string_view name) const {
    static const std::set<std::string_view> assignments{
        "=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++", "--"};
    static const std::set<std::string_view> not_types{"return", "else", "case", "do", "in"};
    int declared = 0;
    for (std::size_t i = kernel_.parameters; i < kernel_.end; ++i) {
      if (at(i) != name || at(i - 1) == "." || at(i - 1) == "->") continue;
      const bool declares = (tokens_[i - 1].is_name() && !not_types.contains(at(i - 1))) ||
                            (at(i - 1) == "*" && i > 1 && is_type_word(at(i - 2)));
      declared += declares ? 1 : 0;
      if (!declares && assignments.contains(at(i + 1))) return true;
      if ((at(i + 1) == "<<" && at(i + 2) == "=") || (at(i + 1) == ">" && at(i + 2) == ">=")) return true;
      if (at(i - 1) == "++" || at(i - 1) == "--" || at(i - 1) == "&") return true;
    }
    return declared != 1 || has_reference_parameters();
  }

  static bool is_type_word(std::string_view word) {
    static const std::set<std::string_view> words{"int",     "unsigned", "long",     "short",  "char",  "float",
                                                  "double",  "bool",     "auto",     "size_t", "uint",  "int32_t",
                                                  "int64_t", "uint32_t", "uint64_t", "const",  "signed"};
    return words.contains(word) || (!word.empty() && word[0] >= 'A' && word[0] <= 'Z');
  }

  // With `int& x` anywhere, a function might change the variable that is passed to it.
  bool has_reference_parameters() const {
    for (std::size_t i = 1; i + 1 < tokens_.size(); ++i)
      if (tokens_[i].is("&") && is_type_word(tokens_[i - 1].text) && tokens_[i + 1].is_name()) return true;
    return false;
  }

  bool is_bound(std::size_t i) const {
    const token& t = tokens_[i];
    if (t.kind == token_kind::number) return t.text.find_first_not_of("0123456789uUlL") == std::string_view::npos;
    if (!t.is_name()) return false;
    const std::size_t end = after_closing(tokens_, kernel_.parameters);
    for (std::size_t j = kernel_.parameters + 1; j + 1 < end; ++j)
      if (tokens_[j].is(t.text) && (tokens_[j + 1].is(",") || tokens_[j + 1].is(")")) && !tokens_[j - 1].is("*") &&
          !tokens_[j - 1].is("&"))
        return !changes(t.text);
    return false;
  }

  void find_guards(guard_plan& plan) const {
    static constexpr std::array<std::string_view, 3> before{"(", "&&", "||"}, after{")", "&&", "||"};
    std::set<std::string> conditions;
    for (std::size_t i = kernel_.body; i + 3 < kernel_.end; ++i) {
      const bool alone = std::find(before.begin(), before.end(), at(i)) != before.end() &&
                         std::find(after.begin(), after.end(), at(i + 4)) != after.end();
      if (!alone) continue;
      const auto left = at(i + 1), sign = at(i + 2), right = at(i + 3);
      const bool straight = left == plan.index && (sign == "<" || sign == ">=") && is_bound(i + 3);
      const bool turned = right == plan.index && (sign == ">" || sign == "<=") && is_bound(i + 1);
      if (!straight && !turned) continue;
      const bool inside = sign == "<" || sign == ">";  // the condition holds for indices in range
      const std::string comparison = fmt::format("({} {} {})", left, sign, right);
      conditions.insert((inside ? "" : "!") + comparison);
      plan.replacements.push_back(
          {i + 1, i + 4, (inside ? "(cudal1_full || " : "(!cudal1_full && ") + comparison + ")"});
    }
    for (const auto& condition : conditions)
      plan.condition += (plan.condition.empty() ? "" : " && ") + condition;
  }

  const std::vector<token>& tokens_;
  const source_item& kernel_;
};

}  // namespace

guard_plan plan_guards(const std::vector<token>& tokens, const source_item& kernel) {
  return guard_finder(tokens, kernel).run();
}

}  // namespace cudal1
