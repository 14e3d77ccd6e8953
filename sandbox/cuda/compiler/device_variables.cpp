// Device variables, in global and in constant memory, are tables. An address of one is followed through the registers
// of its function, without regard to order: what adds to it hands it on, loads may use it. Other arithmetic gives bits
// of an address, from which no other instruction may take anything: an address could be put together from answers.
#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "sandbox/cuda/compiler/ptx_rules.hpp"

namespace cudal1 {
namespace {

// Instructions whose result depends on their operands and that do nothing else.
constexpr std::array<std::string_view, 24> arithmetic{"mov", "add", "sub",  "mul", "mad", "mul24", "mad24", "and",
                                                      "or",  "xor", "not",  "shl", "shr", "cvt",   "cvta",  "selp",
                                                      "min", "max", "prmt", "bfe", "bfi", "lop3",  "shf",   "neg"};
// Those that only look at what is there.
constexpr std::array<std::string_view, 5> reading{"ld", "ldu", "prefetch", "prefetchu", "isspacep"};
// What an address of constant memory is called that was made from a number.
constexpr std::string_view constant_memory = "constant memory";

template <class List>
bool contains(const List& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

bool is_punctuation(std::string_view word) {
  return word.size() == 1 && std::ispunct(static_cast<unsigned char>(word.front())) != 0 && word != "_" && word != "$";
}

// `.visible .global .align 4 .b8 table[16] = {...}, other;`: of each declarator the first word that is a name. What
// stands before the state space may be other directives, which end without a sign (`.version 9.0`).
void add_names(const ptx_statement& s, std::vector<std::string_view>& names) {
  const auto space =
      std::find_if(s.words.begin(), s.words.end(), [](auto w) { return w == ".global" || w == ".const"; });
  int depth = 0;
  bool wanted = true;
  for (auto at = space; at != s.words.end(); ++at) {
    const auto word = *at;
    if (word == "(" || word == "{" || word == "[") ++depth;
    if (word == ")" || word == "}" || word == "]") --depth;
    if (word == "," && depth == 0) wanted = true;
    const bool is_alignment = *std::prev(at, at == space ? 0 : 1) == ".align";
    if (depth > 0 || !wanted || is_alignment || is_punctuation(word) || word.starts_with('.')) continue;
    names.push_back(word);
    wanted = false;
  }
}

// What a value may hold of a variable's address.
enum class part {
  address,  // one of that variable's, whatever it was
  perhaps,  // that, or something else: a choice, or a register with two uses
  bits      // what arithmetic made of it
};
struct taint {
  std::string_view variable;  // "" for none
  part holds = part::address;
};
using operand_words = std::vector<std::string_view>;

class variable_check {
 public:
  explicit variable_check(const ptx_module& module) : module_(module) {}

  expected<void> run() {
    const auto names = device_variables_of(module_);
    variables_.insert(names.begin(), names.end());
    find_holders();
    // Until nothing new is found: loops carry addresses backwards. Only then is known what else a register holds.
    for (const bool choices : {false, true}) {
      choices_are_known_ = choices;
      for (changed_ = true; changed_;) {
        changed_ = false;
        for (const auto& s : module_.statements)
          if (!s.is_directive()) follow(s);
      }
    }
    for (const auto& s : module_.statements)
      if (!s.is_directive()) CUDAL1_CHECK(decide(s));
    return {};
  }

 private:
  // Tables of addresses: what is loaded from a variable may then be an address of one.
  void find_holders() {
    for (const auto& s : module_.statements) {
      if (!s.is_directive()) continue;
      const auto begin = std::find(s.words.begin(), s.words.end(), "=");
      has_holders_ =
          has_holders_ || std::any_of(begin, s.words.end(), [this](auto w) { return variables_.contains(w); });
    }
  }

  // `%v.x` is a part of `%v`.
  static std::string_view base_of(std::string_view word) { return word.substr(0, word.find('.')); }

  taint taint_of(const ptx_statement& s, std::string_view word) const {
    if (variables_.contains(word)) return {word};
    const auto found = tainted_.find({s.function, base_of(word)});
    return found == tainted_.end() ? taint() : found->second;
  }
  taint taint_of(const ptx_statement& s, const operand_words& operand) const {
    taint sum;
    for (const auto word : operand)
      if (const auto t = taint_of(s, word); !t.variable.empty()) sum = {t.variable, std::max(sum.holds, t.holds)};
    return sum;
  }

  // Of the operands from `first` on, which are read: how many are tainted, the last of them, and what they hold at
  // worst.
  struct sources {
    std::size_t tainted = 0, last = 0, all = 0;
    taint sum;
  };
  sources sources_of(const ptx_statement& s, const std::vector<operand_words>& operands, std::size_t first) const {
    sources found;
    for (std::size_t i = first; i < operands.size(); ++i) {
      ++found.all;
      const auto t = taint_of(s, operands[i]);
      if (t.variable.empty()) continue;
      ++found.tainted;
      found.last = i;
      found.sum = {t.variable, std::max(found.sum.holds, t.holds)};
    }
    return found;
  }

  tl::unexpected<error> refuse(const ptx_statement& s, std::string_view does, std::string_view variable) const {
    return fail(
        errc::refused,
        "\"{}\": \"{}\" {} the device variable \"{}\", whose state would outlive the call; device variables may "
        "only be read (as a table of constants): write results to a tensor that a step allocates",
        s.function < 0 ? "" : module_.functions[static_cast<std::size_t>(s.function)].name, s.text.substr(0, 120), does,
        variable);
  }

  static std::string_view name_of(const ptx_statement& s) { return s.head().substr(0, s.head().find('.')); }

  // What arithmetic on addresses gives.
  static taint result_of(std::string_view name, const std::vector<operand_words>& operands, const sources& from) {
    const auto is_vector = [](const operand_words& o) { return o.size() != 1 && o.front() == "{"; };
    const bool whole = !is_vector(operands.front()) && !is_vector(operands[from.last]);
    const taint of = from.sum;
    if (!whole || of.holds == part::bits) return {of.variable, part::bits};
    // Of two addresses of constants a distance is left.
    if (name == "sub" && from.tainted == 2 && of.holds == part::address) return {};
    if (name == "selp") return {of.variable, from.tainted == 2 ? of.holds : part::perhaps};
    const bool adds = name == "mov" || name == "cvta" || name == "add" || name == "or" ||
                      (name == "sub" && from.last == 1) || (name == "mad" && from.last == 3);
    return {of.variable, adds && from.tainted == 1 ? of.holds : part::bits};
  }

  void follow(const ptx_statement& s) {
    const auto operands = s.operands();
    if (operands.empty()) return;
    const auto name = name_of(s);
    taint result;
    if (contains(arithmetic, name)) {
      const auto from = sources_of(s, operands, 1);
      if (from.tainted > 0) result = result_of(name, operands, from);
      // Constant memory under an address that stores take, whatever it was made from.
      else if (s.head().starts_with("cvta.const"))
        result = {constant_memory};
    } else if (has_holders_ && name.starts_with("ld")) {
      result = {sources_of(s, operands, 1).sum.variable};
    }
    for (const auto word : operands.front())
      if (!is_punctuation(word)) note(s, word, result);
  }

  void note(const ptx_statement& s, std::string_view word, taint of) {
    const auto found = tainted_.find({s.function, base_of(word)});
    const bool is_known = found != tainted_.end();
    if (of.variable.empty()) {
      if (!is_known || !choices_are_known_) return;
      of.holds = part::perhaps;
    }
    if (is_known && of.holds <= found->second.holds) return;
    changed_ = true;
    if (is_known)
      found->second.holds = of.holds;
    else
      tainted_.emplace(std::pair{s.function, base_of(word)}, of);
  }

  expected<void> decide(const ptx_statement& s) const {
    const auto operands = s.operands();
    const auto name = name_of(s);
    const bool reads = contains(reading, name), compares = name == "setp";
    if (contains(arithmetic, name)) return {};
    // A result that another statement has tainted is no use of it.
    const auto from = sources_of(s, operands, reads || compares ? 1 : 0);
    if (from.tainted == 0 || (reads && from.sum.holds != part::bits)) return {};
    if (reads) return refuse(s, "depends on bits of an address of", from.sum.variable);
    if (!compares) return refuse(s, "may write", from.sum.variable);
    if (from.tainted == 2 && from.sum.holds == part::address) return {};
    return refuse(s, "compares an address of", from.sum.variable);
  }

  const ptx_module& module_;
  std::set<std::string_view> variables_;
  bool has_holders_ = false, changed_ = false, choices_are_known_ = false;
  std::map<std::pair<int, std::string_view>, taint> tainted_;  // function and register
};

}  // namespace

std::vector<std::string_view> device_variables_of(const ptx_module& module) {
  std::vector<std::string_view> names;
  for (const auto& s : module.statements)
    if (s.is_directive()) add_names(s, names);
  return names;
}

expected<void> check_device_variables(const ptx_module& module) {
  return variable_check(module).run();
}

}  // namespace cudal1
