// What a check knows of index variables at a place of a kernel. Private to this folder.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "policy/tile/index_expr.hpp"

namespace cudal1::tile {

// An index as a sum of a constant and of things with ranges, times factors. Those that are the same have one name.
struct linear_form {
  struct term {
    int64_t factor = 0;
    index_range range;
  };
  int64_t constant = 0;
  std::map<std::string, term> terms;

  void add(const std::string& name, int64_t factor, index_range range) {
    term& t = terms[name];
    t.factor += factor;
    t.range = range;
    if (t.factor == 0) terms.erase(name);
  }
  void add(const linear_form& other, int64_t factor) {
    constant += factor * other.constant;
    for (const auto& [name, t] : other.terms)
      add(name, factor * t.factor, t.range);
  }
  index_range range() const {
    index_range out{constant, constant};
    for (const auto& [name, t] : terms)
      out = out + t.range * t.factor;
    return out;
  }
};

// What is known of an index variable.
struct fact {
  std::string name;
  index_range range;
  bool differs = false;                // between the threads of a block
  bool is_wide = false;                // of 64 bits
  int definition = 0;                  // which of those that have this name
  std::optional<linear_form> is = {};  // what it was defined as, until more is known of it
  // The index as it stands, in terms of what was known before; of a variable that counts, its first number.
  std::optional<index_expr> first = {};
  int64_t step = 0;
  std::vector<linear_form> less_than = {};  // of a variable that counts
  std::size_t before = 0;                   // how many facts there were
};

// The facts of the blocks that are open, the innermost last.
class known_facts {
 public:
  void define(fact f) {
    f.definition = ++definitions_;
    f.before = facts_.size();
    facts_.push_back(std::move(f));
  }
  // More is known of it from here on.
  void narrow(const fact& known, index_range range) {
    fact f = known;
    f.range = range;
    f.is.reset();
    facts_.push_back(std::move(f));
  }
  const fact* find(const std::string& name) const { return find(name, facts_.size()); }
  // Among the first ones.
  const fact* find(const std::string& name, std::size_t among) const {
    const auto first = facts_.rend() - static_cast<std::ptrdiff_t>(among);
    const auto found = std::find_if(first, facts_.rend(), [&](const fact& f) { return f.name == name; });
    return found == facts_.rend() ? nullptr : &*found;
  }
  std::size_t size() const { return facts_.size(); }
  void resize(std::size_t size) { facts_.erase(facts_.begin() + static_cast<std::ptrdiff_t>(size), facts_.end()); }

 private:
  std::vector<fact> facts_;
  int definitions_ = 0;
};

}  // namespace cudal1::tile
