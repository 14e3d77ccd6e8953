#include "sandbox/program/source_pieces.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <unordered_map>

#include "config/base/hash.hpp"
#include "sandbox/program/scanner.hpp"

namespace cudal1 {
namespace {

// Where the text of a kernel begins and ends, with the comments before it.
struct kernel_place {
  std::string_view name;
  std::size_t begin = 0, end = 0;
};

bool is_unroll(const token& directive) {
  return directive.text.starts_with("#pragma") && directive.text.find("unroll") != std::string_view::npos;
}

// Finds the kernels among the declarations outside functions.
class kernel_finder {
 public:
  explicit kernel_finder(const std::vector<token>& tokens) : tokens_(tokens) {}

  // Nothing where some kernel cannot be taken out for certain.
  std::optional<std::vector<kernel_place>> run() {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const auto& t = tokens_[i];
      if (t.kind == token_kind::directive && !is_unroll(t)) return std::nullopt;
      if (names_a_line(t)) return std::nullopt;
      if (t.is_name()) ++mentions_[t.text];
      if (t.is("(") || t.is("[") || t.is("{")) ++depth_;
      if (t.is(")") || t.is("]") || t.is("}")) --depth_;
      const bool ends = t.is(";") || t.is("}") || t.kind == token_kind::directive;
      if (depth_ == 0 && ends && !finish(i + 1)) return std::nullopt;
    }
    const bool all_are_whole =
        depth_ == 0 && std::ranges::all_of(found_, [this](const auto& k) { return mentions_.at(k.name) == 1; });
    return all_are_whole ? std::optional(std::move(found_)) : std::nullopt;
  }

 private:
  static bool names_a_line(const token& t) { return t.is("__LINE__") || t.is("__COUNTER__") || t.is("__builtin_LINE"); }

  // The declaration tokens [first_, end), of which only a kernel's definition may hold the word __global__.
  bool finish(std::size_t end) {
    const std::size_t first = std::exchange(first_, end);
    const auto begin = tokens_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto last = tokens_.begin() + static_cast<std::ptrdiff_t>(end);
    if (std::none_of(begin, last, [](const token& t) { return t.is("__global__"); })) return true;
    const auto name = name_of_kernel(first, end);
    if (name.empty()) return false;
    found_.push_back({name, first == 0 ? 0 : tokens_[first - 1].end, tokens_[end - 1].end});
    return true;
  }

  // Of `[extern "C"] [static] __global__ void [__launch_bounds__(...)] NAME(...) {...}`; "" of anything else.
  std::string_view name_of_kernel(std::size_t first, std::size_t end) const {
    static constexpr std::array<std::string_view, 6> words{"extern", "\"C\"", "static", "inline", "__global__", "void"};
    static constexpr std::array<std::string_view, 3> bounds{"__launch_bounds__", "__cluster_dims__", "__maxnreg__"};
    std::size_t i = first;
    bool is_kernel = false;
    while (i < end) {
      is_kernel = is_kernel || tokens_[i].is("__global__");
      if (std::ranges::count(bounds, tokens_[i].text) > 0 && i + 1 < end)
        i = after_matching_bracket(tokens_, i + 1);
      else if (std::ranges::count(words, tokens_[i].text) > 0)
        ++i;
      else
        break;
    }
    if (!is_kernel || i + 1 >= end || !tokens_[i].is_name() || !tokens_[i + 1].is("(")) return "";
    const std::size_t body = after_matching_bracket(tokens_, i + 1);
    const bool is_definition = body < end && tokens_[body].is("{") && after_matching_bracket(tokens_, body) == end;
    return is_definition ? tokens_[i].text : "";
  }

  const std::vector<token>& tokens_;
  std::size_t first_ = 0;
  int depth_ = 0;
  std::vector<kernel_place> found_;
  std::unordered_map<std::string_view, int> mentions_;
};

std::size_t piece_of(std::string_view name, std::size_t pieces) {
  return fingerprint_of(name.data(), name.size(), 0).low % pieces;
}

// `source` with those kernels that belong to `piece`; of the others only the newlines are left.
std::string piece_text(std::string_view source, const std::vector<kernel_place>& kernels, std::size_t piece,
                       std::size_t pieces) {
  std::string text;
  std::size_t at = 0;
  for (const auto& k : kernels) {
    if (piece_of(k.name, pieces) == piece) continue;
    text.append(source, at, k.begin - at);
    const auto gone = source.substr(k.begin, k.end - k.begin);
    text.append(static_cast<std::size_t>(std::ranges::count(gone, '\n')), '\n');
    at = k.end;
  }
  return text.append(source, at);
}

}  // namespace

std::vector<std::string> source_pieces(std::string_view source) {
  std::vector<std::string> whole{std::string(source)};
  if (source.size() < split_source_bytes) return whole;
  const std::string joined = join_lines(source).text;
  const auto tokens = tokens_of(joined);
  if (!tokens) return whole;  // the compiler's own rules say why
  const auto kernels = kernel_finder(*tokens).run();
  if (!kernels) return whole;
  std::size_t bytes = 0;
  for (const auto& k : *kernels)
    bytes += k.end - k.begin;
  if (bytes < split_source_bytes || joined.size() - bytes > piece_bytes) return whole;
  // A power of two: it stays the same while kernels come and go.
  const std::size_t count = std::bit_floor(bytes / piece_bytes);
  std::vector<std::string> pieces;
  for (std::size_t i = 0; i < count; ++i)
    if (std::ranges::any_of(*kernels, [&](const auto& k) { return piece_of(k.name, count) == i; }))
      pieces.push_back(piece_text(joined, *kernels, i, count));
  return pieces.size() > 1 ? std::move(pieces) : whole;
}

std::string without_lines(std::string_view text) {
  std::string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    const auto line = text.substr(begin, end - begin);
    if (!line.starts_with("#line ") && line.find_first_not_of(" \t\r") != std::string_view::npos)
      kept.append(line).append("\n");
    begin = end + 1;
  }
  return kept;
}

}  // namespace cudal1
