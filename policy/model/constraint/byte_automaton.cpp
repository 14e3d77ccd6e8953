#include "policy/model/constraint/byte_automaton.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <map>
#include <set>

namespace cudal1 {

namespace {

constexpr int32_t unreachable = std::numeric_limits<int32_t>::max();

// Bytes of free text: no control characters but tabs and line breaks.
bool is_text(int byte) {
  return byte == '\t' || byte == '\n' || (byte >= ' ' && byte != 0x7f);
}

}  // namespace

// An automaton that may be in several states at once (Thompson's construction).
class open_automaton {
 public:
  struct edge {
    int low, high;  // bytes
    int32_t to;
  };
  struct node {
    std::vector<edge> edges;
    std::vector<int32_t> free;  // where it may go without a byte
    int32_t part = 0;
  };

  // From `from` by a text of the pattern to the state that is returned.
  int32_t add(const byte_pattern& p, int32_t from) {
    const auto& n = p.made_of();
    switch (n.what) {
      case byte_pattern::kind::text:
        return add_text(n.bytes, from);
      case byte_pattern::kind::any_of: {
        const int32_t to = fresh();
        for (const unsigned char byte : n.bytes)
          nodes_[index(from)].edges.push_back({byte, byte, to});
        return to;
      }
      case byte_pattern::kind::sequence:
        for (const auto& part : n.parts)
          from = add(part, from);
        return from;
      case byte_pattern::kind::choice: {
        const int32_t to = fresh();
        for (const auto& option : n.parts) {
          const int32_t begin = fresh();
          go_free(from, begin);
          go_free(add(option, begin), to);
        }
        return to;
      }
      case byte_pattern::kind::repeated: {
        const int32_t again = fresh(), inside = fresh(), to = fresh();
        go_free(from, again);
        go_free(again, inside);
        go_free(again, to);
        go_free(add(n.parts.front(), inside), again);
        return to;
      }
      case byte_pattern::kind::text_until:
        return add_text_until(n, from);
      case byte_pattern::kind::within:
        return add_within(n, from);
    }
    return from;
  }
  int32_t fresh() {
    nodes_.push_back({{}, {}, part_});
    return static_cast<int32_t>(nodes_.size()) - 1;
  }
  const node& at(int32_t i) const { return nodes_[index(i)]; }
  const std::vector<double>& shares() const { return shares_; }

 private:
  static std::size_t index(int32_t i) { return static_cast<std::size_t>(i); }
  void go_free(int32_t from, int32_t to) { nodes_[index(from)].free.push_back(to); }

  int32_t add_text(const std::string& text, int32_t from) {
    for (const unsigned char byte : text) {
      const int32_t to = fresh();
      nodes_[index(from)].edges.push_back({byte, byte, to});
      from = to;
    }
    return from;
  }

  int32_t add_within(const byte_pattern::node& n, int32_t from) {
    const int32_t outer = part_;
    shares_.push_back(n.share);
    part_ = static_cast<int32_t>(shares_.size()) - 1;
    const int32_t begin = fresh();
    go_free(from, begin);
    const int32_t last = add(n.parts.front(), begin);
    part_ = outer;
    const int32_t to = fresh();
    go_free(last, to);
    return to;
  }

  // A state for each beginning of the end or of a forbidden text (Aho and Corasick): the longest one that the text so
  // far ends with.
  int32_t add_text_until(const byte_pattern::node& n, int32_t from) {
    std::vector<std::string> words = n.forbidden;
    words.push_back(n.bytes);
    std::map<std::string, int32_t> states;  // by beginning
    for (const auto& word : words)
      for (std::size_t k = 0; k < word.size(); ++k)
        if (states.try_emplace(word.substr(0, k), 0).second) states[word.substr(0, k)] = fresh();
    std::array<std::vector<std::string>, 256> forbidden;  // by their last byte
    for (const auto& word : n.forbidden)
      forbidden[static_cast<unsigned char>(word.back())].push_back(word);
    const int32_t to = fresh();
    go_free(from, states.at(""));
    for (const auto& [begun, number] : states)
      for (int byte = 0; byte < 256; ++byte) {
        if (!is_text(byte)) continue;
        const std::string longer = begun + static_cast<char>(byte);
        if (const int32_t next =
                longer.ends_with(n.bytes) ? to : after(longer, forbidden[static_cast<std::size_t>(byte)], states);
            next >= 0)
          add_byte(number, byte, next);
      }
    return to;
  }

  static int32_t after(std::string text, const std::vector<std::string>& forbidden,
                       const std::map<std::string, int32_t>& states) {
    if (std::ranges::any_of(forbidden, [&](const auto& word) { return text.ends_with(word); })) return -1;
    while (!states.contains(text))
      text.erase(0, 1);
    return states.at(text);
  }

  void add_byte(int32_t from, int byte, int32_t to) {
    auto& edges = nodes_[index(from)].edges;
    if (!edges.empty() && edges.back().to == to && edges.back().high == byte - 1)
      edges.back().high = byte;
    else
      edges.push_back({byte, byte, to});
  }

  std::vector<node> nodes_;
  std::vector<double> shares_{1.0};
  int32_t part_ = 0;
};

// Each state is a set of states of the open automaton.
class automaton_maker {
 public:
  explicit automaton_maker(const byte_pattern& p) {
    first_ = open_.fresh();
    last_ = open_.add(p, first_);
  }

  expected<byte_automaton> run(std::size_t most_states) {
    divide_bytes();
    number_of(closed({first_}));
    for (std::size_t s = 0; s < sets_.size(); ++s) {
      if (sets_.size() > most_states)
        return fail(errc::unsupported, "what an answer may be has more than {} states: it is too large", most_states);
      for (std::size_t c = 0; c < out_.classes_; ++c)
        out_.next_.push_back(after(s, representatives_[c]));
    }
    out_.shares_ = open_.shares();
    measure();
    if (out_.distance_.front() == unreachable) return fail(errc::invalid_argument, "the pattern has no text");
    remove_dead_ends();
    return std::move(out_);
  }

 private:
  using set = std::vector<int32_t>;

  // Bytes are alike that all edges have or lack together.
  void divide_bytes() {
    std::map<std::vector<bool>, uint16_t> kinds;
    std::set<std::pair<int, int>> ranges;
    for (int32_t i = 0; i <= last_number(); ++i)
      for (const auto& e : open_.at(i).edges)
        ranges.insert({e.low, e.high});
    for (int byte = 0; byte < 256; ++byte) {
      std::vector<bool> in;
      in.reserve(ranges.size());
      for (const auto& [low, high] : ranges)
        in.push_back(low <= byte && byte <= high);
      const auto [found, is_new] = kinds.try_emplace(std::move(in), static_cast<uint16_t>(kinds.size()));
      if (is_new) representatives_.push_back(byte);
      out_.class_of_[static_cast<std::size_t>(byte)] = found->second;
    }
    out_.classes_ = representatives_.size();
  }

  int32_t last_number() {
    if (count_ < 0) count_ = open_.fresh();
    return count_;
  }

  set closed(set s) const {
    for (std::size_t i = 0; i < s.size(); ++i)
      for (const int32_t to : open_.at(s[i]).free)
        if (std::ranges::find(s, to) == s.end()) s.push_back(to);
    // Those that only lead on without a byte tell nothing.
    std::erase_if(s, [&](int32_t i) { return open_.at(i).edges.empty() && i != last_; });
    std::ranges::sort(s);
    return s;
  }

  int32_t number_of(set s) {
    const auto [found, is_new] = numbers_.try_emplace(std::move(s), static_cast<int32_t>(sets_.size()));
    if (is_new) {
      sets_.push_back(&found->first);
      int32_t part = 0;
      for (const int32_t i : found->first)
        part = std::max(part, open_.at(i).part);
      out_.part_.push_back(part);
    }
    return found->second;
  }

  int32_t after(std::size_t s, int byte) {
    set next;
    for (const int32_t i : *sets_[s])
      for (const auto& e : open_.at(i).edges)
        if (e.low <= byte && byte <= e.high && std::ranges::find(next, e.to) == next.end()) next.push_back(e.to);
    return next.empty() ? byte_automaton::none : number_of(closed(std::move(next)));
  }

  // Breadth first, from the ends.
  void measure() {
    const std::size_t count = sets_.size(), classes = out_.classes_;
    std::vector<std::vector<int32_t>> before(count);
    for (std::size_t s = 0; s < count; ++s)
      for (std::size_t c = 0; c < classes; ++c)
        if (const int32_t to = out_.next_[s * classes + c]; to >= 0)
          before[static_cast<std::size_t>(to)].push_back(static_cast<int32_t>(s));
    out_.distance_.assign(count, unreachable);
    std::deque<int32_t> front;
    for (std::size_t s = 0; s < count; ++s)
      if (std::ranges::binary_search(*sets_[s], last_)) {
        out_.distance_[s] = 0;
        front.push_back(static_cast<int32_t>(s));
      }
    for (; !front.empty(); front.pop_front()) {
      const int32_t here = out_.distance_[static_cast<std::size_t>(front.front())];
      out_.longest_distance_ = std::max(out_.longest_distance_, here);
      for (const int32_t s : before[static_cast<std::size_t>(front.front())])
        if (auto& d = out_.distance_[static_cast<std::size_t>(s)]; d == unreachable) {
          d = here + 1;
          front.push_back(s);
        }
    }
  }

  void remove_dead_ends() {
    for (auto& to : out_.next_)
      if (to >= 0 && out_.distance_[static_cast<std::size_t>(to)] == unreachable) to = byte_automaton::none;
  }

  open_automaton open_;
  int32_t first_ = 0, last_ = 0, count_ = -1;
  std::vector<int> representatives_;  // a byte of each class
  std::map<set, int32_t> numbers_;
  std::vector<const set*> sets_;
  byte_automaton out_;
};

expected<byte_automaton> byte_automaton::make(const byte_pattern& p, std::size_t most_states) {
  return automaton_maker(p).run(most_states);
}

byte_automaton::state byte_automaton::after(state s, std::string_view text) const {
  for (const unsigned char byte : text) {
    if (s == none) break;
    s = next(s, byte);
  }
  return s;
}

bool byte_automaton::accepts(std::string_view text) const {
  const state s = after(begin(), text);
  return s != none && is_end(s);
}

}  // namespace cudal1
