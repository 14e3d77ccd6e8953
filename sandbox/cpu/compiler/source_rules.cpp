#include "sandbox/cpu/compiler/source_rules.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <unordered_map>

namespace cudal1 {
namespace {

using word_table = std::unordered_map<std::string_view, std::string_view>;

// Where a word stands for the feature: anywhere, in a call, before `::`, or as a type (a variable may be called
// `half`).
enum class position { anywhere, call, scope, type };

struct unsupported_feature {
  std::string_view name;
  position where;
};

// Features of CUDA and C++ that this device lacks, by the words that use them.
const std::unordered_map<std::string_view, unsupported_feature>& unsupported_words() {
  static const auto table = [] {
    std::unordered_map<std::string_view, unsupported_feature> words;
    const auto add = [&words](std::string_view feature, position where, std::initializer_list<std::string_view> names) {
      for (const auto name : names)
        words.emplace(name, unsupported_feature{feature, where});
    };
    using enum position;
    add("device-side printf and assert", call, {"printf", "vprintf", "sprintf", "puts", "assert", "__assertfail"});
    add("the device heap (malloc, new)", call, {"malloc", "free", "realloc", "calloc", "alloca"});
    add("the device heap (malloc, new)", anywhere, {"new", "delete"});
    add("clocks and sleeping", call, {"clock", "clock64", "__nanosleep", "globaltimer", "__globaltimer"});
    add("cooperative groups", scope, {"cooperative_groups"});
    add("cooperative groups", call, {"this_grid", "this_thread_block", "tiled_partition", "coalesced_threads"});
    add("tensor-core matrices (wmma, mma)", scope, {"wmma", "nvcuda"});
    add("tensor-core matrices (wmma, mma)", call, {"mma_sync", "load_matrix_sync", "store_matrix_sync"});
    add("asynchronous copies (cp.async)", call,
        {"__pipeline_memcpy_async", "__pipeline_commit", "__pipeline_wait_prior", "memcpy_async", "__cp_async"});
    add("half-precision types", anywhere,
        {"__half", "__half2", "__half_raw", "nv_bfloat16", "nv_bfloat162", "_Float16", "__bf16", "__fp16"});
    add("half-precision types", call,
        {"__half2float", "__float2half", "__float2half_rn", "__bfloat162float", "__float2bfloat16", "__hmul",
         "__hfma"});
    add("half-precision types", type, {"half", "half2"});
    add("textures and surfaces", anywhere,
        {"tex1D", "tex2D", "tex3D", "tex1Dfetch", "tex2DLayered", "surf1Dread", "surf2Dread", "surf3Dread",
         "surf1Dwrite", "surf2Dwrite", "surf3Dwrite"});
    add("textures and surfaces", type, {"texture", "surface"});
    add("managed memory", anywhere, {"__managed__"});
    add("thread block clusters", anywhere, {"__cluster_map_shared_rank"});
    add("the libraries std::, cuda:: and thrust::", scope, {"std", "cuda", "thrust", "cub", "cute", "cutlass"});
    add("namespaces (the dialect has none)", anywhere, {"namespace"});
    add("modules", anywhere, {"export"});
    add("exceptions", anywhere, {"try", "catch", "throw"});
    add("run-time type information", anywhere, {"typeid", "dynamic_cast"});
    add("virtual functions", anywhere, {"virtual"});
    add("coroutines", anywhere, {"co_await", "co_yield", "co_return"});
    add("thread-local variables", anywhere, {"thread_local", "__thread"});
    add("x86 intrinsics and vector types", anywhere, {"__m128", "__m128i", "__m256", "__m256i", "__m512", "__m512i"});
    add("votes and shuffles without _sync", call,
        {"__shfl", "__shfl_up", "__shfl_down", "__shfl_xor", "__any", "__all", "__ballot"});
    return words;
  }();
  return table;
}

// True if the word is declared as a variable (`int half = ...`), so that it is not the type.
bool is_variable(std::span<const token> tokens, std::string_view word) {
  for (std::size_t i = 1; i + 1 < tokens.size(); ++i) {
    static constexpr std::string_view after = "=;,)[";
    if (tokens[i].is(word) && tokens[i - 1].is_name() && !tokens[i - 1].is("return") && !tokens[i - 1].is("const") &&
        tokens[i + 1].text.size() == 1 && after.find(tokens[i + 1].text) != std::string_view::npos)
      return true;
  }
  return false;
}

// Words that no kernel needs; they serve only to leave the sandbox or to inspect the machine.
const word_table& refused_words() {
  static const word_table table{{"asm", "inline assembly"},
                                {"__asm__", "inline assembly"},
                                {"__asm", "inline assembly"},
                                {"__asm_volatile", "inline assembly"},
                                {"__attribute__", "compiler attributes"},
                                {"__attribute", "compiler attributes"},
                                {"__declspec", "compiler attributes"},
                                {"_Pragma", "compiler pragmas"},
                                {"__pragma", "compiler pragmas"},
                                {"__FILE__", "names of files"},
                                {"__FILE_NAME__", "names of files"},
                                {"__BASE_FILE__", "names of files"},
                                {"__INCLUDE_LEVEL__", "names of files"},
                                {"__DATE__", "clocks"},
                                {"__TIME__", "clocks"},
                                {"__TIMESTAMP__", "clocks"},
                                {"__has_include", "files"},
                                {"__has_include_next", "files"},
                                {"__has_include__", "files"},
                                {"__has_include_next__", "files"},
                                {"__has_embed", "files"},
                                {"__extension__", "compiler extensions"},
                                {"__label__", "compiler extensions"}};
  return table;
}

bool allowed_builtin(std::string_view word) {
  static constexpr std::array<std::string_view, 4> allowed{"__builtin_expect", "__builtin_unreachable",
                                                           "__builtin_assume_aligned", "__builtin_constant_p"};
  return std::find(allowed.begin(), allowed.end(), word) != allowed.end();
}

// What to write instead of a feature; "" where leaving it out is all there is to say.
std::string_view instead_of(std::string_view feature) {
  static const word_table advice{
      {"device-side printf and assert", "; leave it out"},
      {"clocks and sleeping", "; leave it out"},
      {"managed memory", "; alloc a tensor as a step"},
      {"exceptions", "; leave them out"},
      {"x86 intrinsics and vector types", "; write a loop over 16 or 32 elements, which the compiler vectorises"},
      {"the device heap (malloc, new)", "; alloc a tensor as a step, or use a local array"},
      {"cooperative groups", "; use __syncthreads() and shuffles such as __shfl_xor_sync"},
      {"tensor-core matrices (wmma, mma)", "; use mma_m16n8k8_tf32 and its relatives, or an aten::mm step"},
      {"asynchronous copies (cp.async)", "; use copy_async, copy_async_commit and copy_async_wait"},
      {"half-precision types", "; elements are unsigned short, which float_of_half and half_of_float convert"},
      {"textures and surfaces", "; read through a pointer"},
      {"the libraries std::, cuda:: and thrust::", "; min, max, fmaxf, sqrtf and the like exist without std::"},
      {"namespaces (the dialect has none)", "; use plain names"},
      {"votes and shuffles without _sync", "; use those with _sync and the mask 0xffffffffu"}};
  const auto found = advice.find(feature);
  return found == advice.end() ? "" : found->second;
}

tl::unexpected<error> unsupported(const token& t, std::string_view feature) {
  return fail(errc::unsupported, "line {} of the source: the cpu device does not support {} (\"{}\"){}", t.line,
              feature, t.text.substr(0, 60), instead_of(feature));
}

tl::unexpected<error> refused(const token& t, std::string_view what) {
  return fail(errc::refused, "line {} of the source: \"{}\" is refused: kernels may not use {}", t.line,
              t.text.substr(0, 60), what);
}

expected<void> check_name(const token& t) {
  const auto word = t.text;
  if (word.find("cudal1") != std::string_view::npos || word.find("CUDAL1") != std::string_view::npos)
    return refused(t, "names that contain \"cudal1\" (they are reserved for the device)");
  if (const auto found = refused_words().find(word); found != refused_words().end()) return refused(t, found->second);
  if (word.starts_with("__builtin_") && !allowed_builtin(word)) return refused(t, "the compiler's builtin functions");
  if (word.starts_with("__sync_") || word.starts_with("__atomic_"))
    return refused(t, "the compiler's builtin functions (use atomicAdd and similar functions)");
  if (word.starts_with("cuda") && word.size() > 4 && word[4] >= 'A' && word[4] <= 'Z')
    return unsupported(t, "calls of the CUDA runtime and dynamic parallelism");
  if (word.starts_with("__nv_") || word.starts_with("__nvvm_"))
    return unsupported(t, "NVIDIA's internal functions and half-precision types");
  if (word.starts_with("_mm_") || word.starts_with("_mm256_") || word.starts_with("_mm512_"))
    return unsupported(t, "x86 intrinsics and vector types");
  return {};
}

// Words in directives are checked like any others, and once more in the preprocessor's output.
expected<void> check_directive(const token& t) {
  if (unroll_count(t.text) >= 0) return {};
  auto rest = t.text.substr(1);
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r\f\v"), rest.size()));
  const auto word = rest.substr(0, std::min(rest.find_first_of(" \t\r\f\v(/\"<"), rest.size()));
  static constexpr std::array<std::string_view, 11> allowed{"define", "undef", "if",    "ifdef",   "ifndef", "elif",
                                                            "else",   "endif", "error", "elifdef", ""};
  if (std::find(allowed.begin(), allowed.end(), word) == allowed.end())
    return fail(errc::refused,
                "line {} of the source: the preprocessor line \"{}\" is refused: only #define, #undef, #if "
                "and related directives, #error and #pragma unroll are part of the dialect",
                t.line, t.text.substr(0, 60));
  CUDAL1_TRY(const auto words, tokens_of(rest.substr(word.size())));
  for (token inner : words) {
    inner.line = t.line;
    if (inner.is_name()) CUDAL1_CHECK(check_name(inner));
  }
  return {};
}

expected<void> check_feature(std::span<const token> tokens, std::size_t i) {
  const auto found = unsupported_words().find(tokens[i].text);
  if (found == unsupported_words().end()) return {};
  const std::string_view next = i + 1 < tokens.size() ? tokens[i + 1].text : "";
  const auto [feature, where] = found->second;
  const bool member = i > 0 && (tokens[i - 1].is(".") || tokens[i - 1].is("->"));
  const bool meant = where == position::anywhere || (where == position::call && next == "(" && !member) ||
                     (where == position::scope && next == "::") ||
                     (where == position::type && !member && !is_variable(tokens, tokens[i].text));
  if (meant) return unsupported(tokens[i], feature);
  return {};
}

expected<void> check_sequence(std::span<const token> tokens, std::size_t i) {
  const token& t = tokens[i];
  const auto next = [&](std::size_t n) -> std::string_view { return i + n < tokens.size() ? tokens[i + n].text : ""; };
  if (t.is("<<<")) return unsupported(t, "dynamic parallelism (<<<...>>>)");
  if (t.is("[") && next(1) == "[") {
    static constexpr std::array<std::string_view, 6> harmless{"nodiscard", "maybe_unused", "likely",
                                                              "unlikely",  "fallthrough",  "noreturn"};
    // A subscript begins with '[' only for a lambda, whose brackets hold captures and not attributes.
    if (next(3) != "]" || std::find(harmless.begin(), harmless.end(), next(2)) == harmless.end())
      return refused(tokens[i + 1], "attributes other than [[likely]], [[nodiscard]] and similar");
  }
  if (t.is("extern") && next(1) != "__shared__" && next(1) != "\"C\"")
    return refused(t, "extern declarations other than `extern __shared__` and `extern \"C\"`");
  if (t.is("&&") && i > 0 && i + 1 < tokens.size() && tokens[i + 1].is_name() && tokens[i - 1].is("="))
    return unsupported(t, "addresses of labels");
  return {};
}

}  // namespace

int unroll_count(std::string_view directive) {
  static constexpr std::string_view blanks = " \t\r\f\v";
  const auto word = [&directive](std::string_view wanted) {
    directive.remove_prefix(std::min(directive.find_first_not_of(blanks), directive.size()));
    if (!directive.starts_with(wanted)) return false;
    directive.remove_prefix(wanted.size());
    return true;
  };
  if (!word("#") || !word("pragma") || !word("unroll")) return -1;
  const auto text = directive.substr(0, directive.find("//"));
  std::size_t begin = std::min(text.find_first_not_of(" \t\r\f\v("), text.size());
  int count = 0;
  const auto [end, problem] = std::from_chars(text.data() + begin, text.data() + text.size(), count);
  // A count that is not a literal (a macro, a template parameter) is ignored: it is only a hint.
  return problem == std::errc() && count > 0 ? std::min(count, 64) : 0;
}

bool needs_preprocessing(std::span<const token> tokens) {
  return std::any_of(tokens.begin(), tokens.end(),
                     [](const token& t) { return t.kind == token_kind::directive && unroll_count(t.text) < 0; });
}

expected<void> check_source_words(std::span<const token> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].kind == token_kind::directive) CUDAL1_CHECK(check_directive(tokens[i]));
    if (tokens[i].is_name()) {
      CUDAL1_CHECK(check_name(tokens[i]));
      CUDAL1_CHECK(check_feature(tokens, i));
    }
    CUDAL1_CHECK(check_sequence(tokens, i));
  }
  return {};
}

}  // namespace cudal1
