#include "policy/model/tokenizer/byte_pair_encoding.hpp"

#include <limits>
#include <queue>

#include "sandbox/program/form.hpp"

namespace cudal1 {

namespace {

// A token of the piece, in a list.
struct symbol {
  token number;
  int32_t before, after;  // places; -1: none
  bool is_there = true;
};

// A merge that was possible when it was found: of the symbol at `place` and the one after it.
struct candidate {
  int32_t rank, place;
  token left, right, made;

  // For a queue whose first element is the lowest rank, and of these the leftmost.
  bool operator<(const candidate& other) const { return rank != other.rank ? rank > other.rank : place > other.place; }
};

}  // namespace

expected<byte_pair_encoding> byte_pair_encoding::make(const std::vector<std::string>& tokens,
                                                      const std::vector<std::pair<std::string, std::string>>& merges,
                                                      options how) {
  byte_pair_encoding out;
  out.how_ = how;
  out.of_byte_.resize(256);
  if (tokens.size() > static_cast<std::size_t>(std::numeric_limits<token>::max()) ||
      merges.size() > static_cast<std::size_t>(std::numeric_limits<int32_t>::max()))
    return fail(errc::corrupt, "{} tokens and {} merges are more than a vocabulary can have", tokens.size(),
                merges.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].empty()) continue;
    out.numbers_.emplace(tokens[i], static_cast<token>(i));
    if (tokens[i].size() == 1) out.of_byte_[static_cast<unsigned char>(tokens[i][0])] = static_cast<token>(i);
  }
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const auto a = out.numbers_.find(left), b = out.numbers_.find(right), c = out.numbers_.find(left + right);
    if (a == out.numbers_.end() || b == out.numbers_.end() || c == out.numbers_.end())
      return fail(errc::corrupt, "merge {} of \"{}\" and \"{}\" is not of tokens into a token", rank, printable(left),
                  printable(right));
    out.merges_.try_emplace(key_of(a->second, b->second), merge{static_cast<int32_t>(rank), c->second});
  }
  return out;
}

std::optional<byte_pair_encoding::merge> byte_pair_encoding::merge_of(token left, token right) const {
  const auto found = merges_.find(key_of(left, right));
  return found == merges_.end() ? std::nullopt : std::optional(found->second);
}

void byte_pair_encoding::encode(std::string_view piece, std::vector<token>& out) const {
  if (how_.takes_whole_words)
    if (const auto found = numbers_.find(piece); found != numbers_.end()) return out.push_back(found->second);
  std::vector<symbol> symbols;
  symbols.reserve(piece.size());
  for (const char c : piece) {
    const auto number = of_byte_[static_cast<unsigned char>(c)];
    if (!number && !how_.unknown) continue;
    const auto place = static_cast<int32_t>(symbols.size());
    symbols.push_back({number ? *number : *how_.unknown, place - 1, place + 1});
  }
  if (symbols.empty()) return;
  symbols.back().after = -1;
  std::priority_queue<candidate> candidates;
  const auto at = [&](int32_t place) -> symbol& { return symbols[static_cast<std::size_t>(place)]; };
  const auto consider = [&](int32_t place) {
    if (place < 0 || at(place).after < 0) return;
    const token left = at(place).number, right = at(at(place).after).number;
    if (const auto found = merge_of(left, right)) candidates.push({found->rank, place, left, right, found->made});
  };
  for (std::size_t i = 0; i < symbols.size(); ++i)
    consider(static_cast<int32_t>(i));
  while (!candidates.empty()) {
    const candidate best = candidates.top();
    candidates.pop();
    symbol& left = at(best.place);
    if (!left.is_there || left.after < 0 || left.number != best.left || at(left.after).number != best.right) continue;
    symbol& right = at(left.after);
    right.is_there = false;
    left.number = best.made;
    left.after = right.after;
    if (left.after >= 0) at(left.after).before = best.place;
    consider(left.before);
    consider(best.place);
  }
  for (const auto& each : symbols)
    if (each.is_there) out.push_back(each.number);
}

}  // namespace cudal1
