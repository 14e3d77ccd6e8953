// Device variables are read-only tables. The address of one is followed through the registers of its function, without
// regard to order: arithmetic propagates it, loads may use it, anything else is refused.
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
// Instructions that only read through their operands.
constexpr std::array<std::string_view, 6> reading{"ld", "ldu", "prefetch", "prefetchu", "setp", "isspacep"};

template <class List>
bool contains(const List& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

class variable_check {
 public:
  explicit variable_check(const ptx_module& module) : module_(module) {}

  expected<void> run() {
    for (const auto& s : module_.statements)
      if (s.is_directive() && contains(s.words, ".global")) variables_.insert(name_of(s));
    if (variables_.empty()) return {};
    find_holders();
    // Repeat until nothing new is found, because loops carry addresses backwards.
    for (std::size_t before = ~std::size_t{0}; before != tainted_.size();) {
      before = tainted_.size();
      for (const auto& s : module_.statements)
        if (!s.is_directive()) CUDAL1_CHECK(follow(s));
    }
    return {};
  }

 private:
  // `.visible .global .align 4 .b8 table[16] = {...}`: the last word before '[', '=' or the end.
  static std::string_view name_of(const ptx_statement& s) {
    std::string_view name;
    for (const auto word : s.words) {
      if (word == "[" || word == "=") break;
      name = word;
    }
    return name;
  }

  // Tables of addresses: a value loaded from one of them may be the address of a variable.
  void find_holders() {
    for (const auto& s : module_.statements) {
      if (!s.is_directive()) continue;
      const auto begin = std::find(s.words.begin(), s.words.end(), "=");
      if (std::any_of(begin, s.words.end(), [this](auto w) { return variables_.contains(w); }))
        holders_.insert(name_of(s));
    }
    variables_.insert(holders_.begin(), holders_.end());  // including those in constant memory
  }

  // `%v.x` is a part of `%v`.
  static std::string_view base_of(std::string_view word) { return word.substr(0, word.find('.')); }

  // The variable whose address the word may hold; "" for none.
  std::string_view variable_in(const ptx_statement& s, std::string_view word) const {
    if (variables_.contains(word)) return word;
    const auto found = tainted_.find({s.function, base_of(word)});
    return found == tainted_.end() ? std::string_view() : found->second;
  }

  expected<void> follow(const ptx_statement& s) {
    const auto operands = s.operands();
    const auto name = s.head().substr(0, s.head().find('.'));
    const bool computes = contains(arithmetic, name), reads = contains(reading, name);
    std::string_view variable;
    // The result operand is written, not used, so it is skipped.
    for (std::size_t i = computes || reads ? 1 : 0; i < operands.size(); ++i)
      for (const auto word : operands[i])
        if (const auto found = variable_in(s, word); !found.empty()) variable = found;
    if (variable.empty() || (reads && holders_.empty())) return {};
    if (!computes && !reads)
      return fail(errc::refused,
                  "\"{}\": \"{}\" may write the device variable \"{}\", whose state would outlive the call; device "
                  "variables may only be read (as a table of constants)",
                  s.function < 0 ? "" : module_.functions[static_cast<std::size_t>(s.function)].name,
                  s.text.substr(0, 120), variable);
    for (const auto word : operands.front())
      if (word.size() > 1 || std::ispunct(static_cast<unsigned char>(word.front())) == 0)
        tainted_.emplace(std::pair{s.function, base_of(word)}, variable);
    return {};
  }

  const ptx_module& module_;
  std::set<std::string_view> variables_, holders_;
  std::map<std::pair<int, std::string_view>, std::string_view> tainted_;  // function and register; of which variable
};

}  // namespace

expected<void> check_device_variables(const ptx_module& module) {
  return variable_check(module).run();
}

}  // namespace cudal1
