#include "sandbox/cuda/compiler/ptx_rules.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

namespace cudal1 {
namespace {

// What a thread may know about itself and its launch. Everything else that begins with % and is not declared is
// refused: clocks, timers, counters, and where on the GPU the thread runs.
constexpr std::array<std::string_view, 20> allowed_registers{"%tid",
                                                             "%ntid",
                                                             "%ctaid",
                                                             "%nctaid",
                                                             "%laneid",
                                                             "%lanemask_eq",
                                                             "%lanemask_le",
                                                             "%lanemask_lt",
                                                             "%lanemask_ge",
                                                             "%lanemask_gt",
                                                             "%clusterid",
                                                             "%nclusterid",
                                                             "%cluster_ctaid",
                                                             "%cluster_nctaid",
                                                             "%cluster_ctarank",
                                                             "%cluster_nctarank",
                                                             "%is_explicit_cluster",
                                                             "%dynamic_smem_size",
                                                             "%total_smem_size",
                                                             "%aggr_smem_size"};

// Names that no program may declare, since they are special registers.
constexpr std::array<std::string_view, 11> machine_names{"%clock",  "%globaltimer", "%smid",         "%nsmid",
                                                         "%gridid", "%warpid",      "%nwarpid",      "%envreg",
                                                         "%pm",     "%reserved_",   "%current_graph"};

struct refused_instruction {
  std::string_view name, why;
};
constexpr std::array<refused_instruction, 14> refused_instructions{{
    {"nanosleep", "sleeping"},
    {"brkpt", "breakpoints"},
    {"pmevent", "performance counters"},
    {"createpolicy", "policies of the L2 cache (they outlive the kernel)"},
    {"applypriority", "priorities in the L2 cache (they outlive the kernel)"},
    {"discard", "discarding lines of the L2 cache"},
    {"multimem", "memory of several GPUs"},
    {"tex", "textures"},
    {"tld4", "textures"},
    {"txq", "textures"},
    {"suld", "surfaces"},
    {"sust", "surfaces"},
    {"sured", "surfaces"},
    {"suq", "surfaces"},
}};

std::string_view hint_for(std::string_view function) {
  static const std::map<std::string_view, std::string_view> hints{
      {"malloc", "the device heap (malloc, new; alloc a tensor as a step, or use a local array)"},
      {"free", "the device heap (malloc, new; alloc a tensor as a step, or use a local array)"},
      {"vprintf", "device-side printf (leave it out)"},
      {"__assertfail", "device-side assert (leave it out)"},
      {"__assert_fail", "device-side assert (leave it out)"}};
  if (const auto found = hints.find(function); found != hints.end()) return found->second;
  return function.starts_with("cuda") || function.starts_with("__cuda") ? "the device runtime (launches from kernels)"
                                                                        : "functions that they do not define";
}

class rules {
 public:
  rules(const ptx_module& module, grid_barrier barrier) : module_(module), barrier_(barrier) {}

  expected<void> run() {
    for (const auto& f : module_.functions)
      if (f.is_extern)
        return fail(errc::refused, "kernels may not use {}: the program calls \"{}\"", hint_for(f.name), f.name);
    for (const auto& s : module_.statements)
      if (s.head() == ".reg") CUDAL1_CHECK(declare(s));
    for (const auto& s : module_.statements)
      CUDAL1_CHECK(s.is_directive() ? directive(s) : instruction(s));
    return {};
  }

 private:
  std::string where(const ptx_statement& s) const {
    return s.function < 0 ? std::string("the program")
                          : fmt::format("\"{}\"", module_.functions[static_cast<std::size_t>(s.function)].name);
  }
  tl::unexpected<error> refuse(const ptx_statement& s, std::string_view why) const {
    return fail(errc::refused, "{}: kernels may not use {}: \"{}\" is refused", where(s), why, s.text.substr(0, 120));
  }

  bool is_in_grid_barrier(const ptx_statement& s) const {
    return barrier_ == grid_barrier::of_dialect && s.function >= 0 &&
           module_.functions[static_cast<std::size_t>(s.function)].name == grid_barrier_function;
  }

  // `.reg .b32 %r<9>, t;`: %r0 to %r8, and t.
  expected<void> declare(const ptx_statement& s) {
    const auto& words = s.words;
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (!words[i].starts_with('%')) continue;
      for (const auto name : machine_names)
        if (words[i].starts_with(name)) return refuse(s, "declared registers with the names of special registers");
      (i + 1 < words.size() && words[i + 1] == "<" ? prefixes_ : names_).insert(words[i]);
    }
    return {};
  }

  bool is_declared(std::string_view word) const {
    const auto base = word.substr(0, word.find('.'));  // %v.x of a vector
    if (names_.contains(base)) return true;
    const auto digits = base.find_last_not_of("0123456789") + 1;
    return digits < base.size() && prefixes_.contains(base.substr(0, digits));
  }

  expected<void> registers(const ptx_statement& s) const {
    for (const auto word : s.words) {
      if (!word.starts_with('%') || is_declared(word)) continue;
      const auto base = word.substr(0, word.find('.'));
      if ((base == "%envreg1" || base == "%envreg2") && is_in_grid_barrier(s)) continue;
      if (std::find(allowed_registers.begin(), allowed_registers.end(), base) == allowed_registers.end())
        return refuse(s, fmt::format("the special register {} (clocks, counters and the location on the GPU)", word));
    }
    return {};
  }

  expected<void> directive(const ptx_statement& s) const {
    for (const auto word : s.words) {
      if (word == ".managed") return refuse(s, "managed memory");
      if (word == ".texref" || word == ".samplerref" || word == ".surfref") return refuse(s, "textures and surfaces");
      if (word == "<" && s.head() != ".reg") return refuse(s, "several variables under one name");
      if (word == ".include" || word == ".incbin" || word == ".section" || word == ".file") return refuse(s, "files");
    }
    const bool is_extern_variable = s.head() == ".extern" && std::none_of(s.words.begin(), s.words.end(), [](auto w) {
                                      return w == ".shared" || w == ".func" || w == ".entry";
                                    });
    if (is_extern_variable) return refuse(s, "variables of other modules");
    return s.head() == ".reg" ? expected<void>() : registers(s);
  }

  expected<void> instruction(const ptx_statement& s) const {
    const auto name = s.head().substr(0, s.head().find('.'));
    for (const auto& refused : refused_instructions)
      if (name == refused.name) return refuse(s, refused.why);
    if (s.head().find("L2::evict_last") != std::string_view::npos)
      return refuse(s, "lines that stay in the L2 cache (they outlive the kernel)");
    if (s.head().find("L2::cache_hint") != std::string_view::npos) CUDAL1_CHECK(cache_policy(s));
    return registers(s);
  }

  // The policy of a hint is a value; only the constants for "evict normally" and "evict first" are known to be
  // harmless.
  expected<void> cache_policy(const ptx_statement& s) const {
    static constexpr std::array<std::string_view, 4> harmless{"1152921504606846976", "0x1000000000000000",
                                                              "1364590687093260288", "0x12F0000000000000"};
    const auto is_harmless = [](std::string_view w) {
      return std::find(harmless.begin(), harmless.end(), w) != harmless.end();
    };
    const auto operands = s.operands();
    const auto last = operands.empty() || operands.back().size() != 1 ? std::string_view() : operands.back().front();
    bool known = is_harmless(last);
    for (const auto& other : module_.statements) {
      if (last.empty() || other.function != s.function || other.is_directive()) continue;
      const auto made = other.operands();
      const bool writes = !made.empty() && std::find(made[0].begin(), made[0].end(), last) != made[0].end();
      if (!writes || &other == &s) continue;
      const bool constant = other.head().starts_with("mov.") && made.size() == 2 && made[1].size() == 1;
      const auto value = constant ? made[1].front() : std::string_view();
      if (!is_harmless(value)) return refuse(s, "lines that stay in the L2 cache (a cache hint of unknown value)");
      known = true;
    }
    if (!known) return refuse(s, "lines that stay in the L2 cache (a cache hint of unknown value)");
    return {};
  }

  const ptx_module& module_;
  grid_barrier barrier_;
  std::set<std::string_view> names_, prefixes_;
};

}  // namespace

expected<void> check_ptx(const ptx_module& module, grid_barrier barrier) {
  CUDAL1_CHECK(rules(module, barrier).run());
  return check_device_variables(module);
}

}  // namespace cudal1
