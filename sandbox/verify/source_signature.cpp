#include "sandbox/verify/source_signature.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "sandbox/program/scanner.hpp"

namespace cudal1 {

namespace {

// Names that mean the same in every source, beside those that begin with two underscores. Sorted.
constexpr std::array<std::string_view, 66> kept_names = {
    "auto",      "blockDim", "blockIdx", "bool",    "break",     "case",    "char",     "class",    "const",
    "constexpr", "continue", "default",  "define",  "do",        "double",  "elif",     "else",     "endif",
    "enum",      "extern",   "false",    "float",   "for",       "gridDim", "half",     "if",       "ifdef",
    "ifndef",    "inline",   "int",      "int16_t", "int32_t",   "int64_t", "int8_t",   "long",     "namespace",
    "nullptr",   "operator", "pragma",   "return",  "short",     "signed",  "sizeof",   "static",   "static_cast",
    "struct",    "switch",   "template", "this",    "threadIdx", "true",    "typedef",  "typename", "uint16_t",
    "uint32_t",  "uint64_t", "uint8_t",  "undef",   "union",     "unroll",  "unsigned", "using",    "void",
    "volatile",  "warpSize", "while"};
// After one of these a name with a bracket is a call, not the definition of a function.
constexpr std::array<std::string_view, 4> before_calls = {"case", "do", "else", "return"};

bool has(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool means_the_same(std::string_view name) {
  return name.starts_with("__") || std::ranges::binary_search(kept_names, name);
}

std::vector<token> words_of(std::string_view joined) {
  auto tokens = scan(joined, directive_form::words);
  std::erase_if(tokens, [](const token& t) {
    return t.kind == token_kind::comment || t.kind == token_kind::unclosed_comment || t.kind == token_kind::line_marker;
  });
  return tokens;
}

bool is_followed_by_bracket(std::span<const token> tokens, std::size_t i) {
  return i + 1 < tokens.size() && tokens[i + 1].is("(");
}

// Functions and macros that the source defines: a name between another name and a bracket.
std::unordered_set<std::string_view> defined_functions(std::span<const token> tokens) {
  std::unordered_set<std::string_view> names;
  for (std::size_t i = 1; i < tokens.size(); ++i)
    if (tokens[i].is_name() && tokens[i - 1].is_name() && !has(before_calls, tokens[i - 1].text) &&
        is_followed_by_bracket(tokens, i))
      names.insert(tokens[i].text);
  return names;
}

// FNV-1a with a final mix (SplitMix64), so that the hash does not depend on the platform.
uint64_t mix(uint64_t h) {
  h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9;
  h = (h ^ h >> 27) * 0x94d049bb133111eb;
  return h ^ h >> 31;
}
uint64_t hash_of(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : text)
    h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return mix(h);
}

// A token as shingles see it: what it is, or which of the source's own names.
struct symbol {
  uint64_t hash = 0;
  int own_name = -1;
};

std::vector<symbol> symbols_of(std::string_view joined) {
  const auto tokens = words_of(joined);
  const auto defined = defined_functions(tokens);
  std::unordered_map<std::string_view, int> numbers;
  std::vector<symbol> out;
  out.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto& t = tokens[i];
    const bool is_member = i > 0 && (tokens[i - 1].is(".") || tokens[i - 1].is("->"));
    const bool is_call = t.is_name() && is_followed_by_bracket(tokens, i) && !defined.contains(t.text);
    if (t.kind == token_kind::number) {
      out.push_back({hash_of("0")});
    } else if (t.kind == token_kind::text || t.kind == token_kind::unclosed_text) {
      out.push_back({hash_of("\"\"")});
    } else if (!t.is_name() || is_member || is_call || means_the_same(t.text)) {
      out.push_back({hash_of(t.text)});
    } else {
      out.push_back({0, numbers.try_emplace(t.text, static_cast<int>(numbers.size())).first->second});
    }
  }
  return out;
}

uint64_t shingle_of(std::span<const symbol> run) {
  std::array<int, shingle_tokens> seen{};
  std::size_t names = 0;
  uint64_t h = 0;
  for (const auto& s : run) {
    uint64_t part = s.hash;
    if (s.own_name >= 0) {
      const auto end = seen.begin() + static_cast<std::ptrdiff_t>(names);
      const auto known = std::find(seen.begin(), end, s.own_name);
      part = static_cast<uint64_t>(known - seen.begin()) + 1;
      if (known == end) seen[names++] = s.own_name;
    }
    h = mix(h * 0x9e3779b97f4a7c15 + part);
  }
  return h;
}

// The hashes of a family: odd factors, of which the upper half of the product counts.
std::array<uint64_t, signature_hashes> make_factors() {
  std::array<uint64_t, signature_hashes> factors{};
  for (std::size_t i = 0; i < factors.size(); ++i)
    factors[i] = mix(0x9e3779b97f4a7c15 * (i + 1)) | 1;
  return factors;
}

}  // namespace

source_signature sign_source(std::string_view source) {
  static const auto factors = make_factors();
  const auto joined = join_lines(source);
  const auto symbols = symbols_of(joined.text);
  source_signature out;
  if (symbols.empty()) return out;
  const std::size_t length = std::min(symbols.size(), shingle_tokens);
  std::vector<uint64_t> shingles;
  for (std::size_t i = 0; i + length <= symbols.size(); ++i)
    shingles.push_back(shingle_of(std::span(symbols).subspan(i, length)));
  std::ranges::sort(shingles);
  shingles.erase(std::unique(shingles.begin(), shingles.end()), shingles.end());
  out.shingles = static_cast<int64_t>(shingles.size());
  std::array<uint32_t, signature_hashes> least{};
  least.fill(std::numeric_limits<uint32_t>::max());
  for (const uint64_t s : shingles)
    for (std::size_t i = 0; i < signature_hashes; ++i)
      least[i] = std::min(least[i], static_cast<uint32_t>((s * factors[i] + (factors[i] >> 7)) >> 32));
  out.least.assign(least.begin(), least.end());
  return out;
}

double similarity(const source_signature& a, const source_signature& b) {
  if (a.least.size() != signature_hashes || b.least.size() != signature_hashes) return 0;
  int equal = 0;
  for (std::size_t i = 0; i < signature_hashes; ++i)
    equal += a.least[i] == b.least[i] ? 1 : 0;
  return static_cast<double>(equal) / signature_hashes;
}

}  // namespace cudal1
