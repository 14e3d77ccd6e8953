#include "tests/sandbox/program/mutator.hpp"

#include <algorithm>

namespace cudal1 {

namespace {

void collect(json& v, std::vector<json*>& into) {
  into.push_back(&v);
  if (v.is_array())
    for (auto& item : v.as_array())
      collect(item, into);
  if (v.is_object())
    for (auto& [key, item] : v.as_object())
      collect(item, into);
}

constexpr const char* tricks[] = {"#include <x>\n",
                                  "\\\n",
                                  "/*",
                                  "*/",
                                  "\"",
                                  "'",
                                  "R\"(",
                                  "%:",
                                  "?\?/",
                                  "__global__ void ",
                                  "(",
                                  ")",
                                  ",",
                                  "#define __global__\n",
                                  "\n---\n",
                                  "__launch_bounds__(",
                                  "{",
                                  "}",
                                  "<",
                                  "\xc3",
                                  "\r\n",
                                  "1'0",
                                  "//"};

}  // namespace

mutator::mutator(uint64_t seed, std::vector<std::string> corpus) : random_(seed), corpus_(std::move(corpus)) {
  for (const auto& text : corpus_) {
    auto head = json::parse(std::string_view(text).substr(0, text.find("\n---\n")));
    if (!head) continue;
    for (auto* node : nodes_of(*head))
      fragments_.push_back(*node);
  }
}

std::vector<json*> mutator::nodes_of(json& root) {
  std::vector<json*> nodes;
  collect(root, nodes);
  return nodes;
}

json mutator::extreme_value() {
  static const json values[] = {json(0),
                                json(-1),
                                json(1),
                                json(INT64_MAX),
                                json(INT64_MIN),
                                json(2147483648),
                                json(int64_t{1} << 40),
                                json(1024),
                                json(1.5),
                                json(1e308),
                                json(-0.0),
                                json(1e-320),
                                json("inf"),
                                json("nan"),
                                json(""),
                                json("x"),
                                json("float16"),
                                json(true),
                                json(),
                                json(json::array{}),
                                json(json::object{}),
                                json("N*N*N*N*N"),
                                json(std::string(300, 'a'))};
  return values[below(std::size(values))];
}

void mutator::mutate_node(json& root) {
  const auto nodes = nodes_of(root);
  json& v = *nodes[below(nodes.size())];
  const auto kind = below(6);
  if (kind == 0) {
    v = extreme_value();
  } else if (kind == 1) {
    v = json(fragments_[below(fragments_.size())]);
  } else if (v.is_array() && !v.as_array().empty()) {
    auto& items = v.as_array();
    const auto at = static_cast<std::ptrdiff_t>(below(items.size()));
    const json copy = items[static_cast<std::size_t>(at)];
    if (kind == 2) items.erase(items.begin() + at);
    if (kind == 3) items.insert(items.begin() + at, copy);
    if (kind == 4) std::swap(items.front(), items[static_cast<std::size_t>(at)]);
    if (kind == 5) items.push_back(fragments_[below(fragments_.size())]);
  } else if (v.is_object() && !v.as_object().empty()) {
    auto& members = v.as_object();
    const auto at = below(members.size());
    if (kind == 2) members.erase(members.begin() + static_cast<std::ptrdiff_t>(at));
    if (kind == 3) members[at].first += "x";
    if (kind == 4) std::swap(members.front().second, members[at].second);
    if (kind == 5) members[at].second = extreme_value();
  } else if (v.is_int()) {
    v = json(
        static_cast<int64_t>(static_cast<uint64_t>(v.as_int()) * (kind == 2 ? 2 : 1) + (kind == 3 ? 1 : ~uint64_t{0})));
  } else if (v.is_string() && !v.as_string().empty()) {
    auto word = v.as_string();
    word[below(word.size())] = static_cast<char>('a' + below(26));
    v = json(word);
  }
}

void mutator::mutate_bytes(std::string& text) {
  if (text.empty()) return;
  const auto at = below(text.size());
  switch (below(5)) {
    case 0:
      text[at] = static_cast<char>(random_());
      break;
    case 1:
      text.erase(at, 1 + below(8));
      break;
    case 2:
      text.insert(at, text.substr(below(text.size()), below(40)));
      break;
    case 3:
      text.resize(at);
      break;
    default:
      text.insert(at, tricks[below(std::size(tricks))]);
  }
}

void mutator::mutate_source(std::string& source) {
  if (!source.empty() && below(2) == 0) return mutate_bytes(source);
  source.insert(source.empty() ? 0 : below(source.size()), tricks[below(std::size(tricks))]);
}

std::string mutator::next() {
  auto text = corpus_[below(corpus_.size())];
  if (below(5) == 0) {
    for (auto n = 1 + below(4); n > 0; --n)
      mutate_bytes(text);
    return text;
  }
  const auto separator = text.find("\n---\n");
  auto source = separator == std::string::npos ? std::string() : text.substr(separator + 5);
  auto head = json::parse(std::string_view(text).substr(0, separator));
  if (!head) return text;
  if (below(4) == 0) {
    mutate_source(source);
  } else {
    for (auto n = 1 + below(3); n > 0; --n)
      mutate_node(*head);
  }
  return head->text() + (source.empty() ? "" : "\n---\n" + source);
}

}  // namespace cudal1
