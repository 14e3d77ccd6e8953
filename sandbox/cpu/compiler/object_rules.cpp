#include "sandbox/cpu/compiler/object_rules.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <span>
#include <unordered_set>

#include <cxxabi.h>

#include "sandbox/cpu/compiler/elf_object.hpp"

namespace cudal1 {
namespace {

template <class... Args>
tl::unexpected<error> refuse(fmt::format_string<Args...> format, Args&&... args) {
  return fail(errc::refused, "the compiled object is refused: {}", fmt::format(format, std::forward<Args>(args)...));
}

// What kernels may call: of libc, of libm, and of the runtime.
constexpr std::string_view memory_functions[] = {"memcpy", "memset", "memmove", "memcmp"};
constexpr std::string_view math_functions[] = {
    "sin",       "sinf",       "cos",    "cosf",    "tan",       "tanf",       "asin",  "asinf",  "acos",  "acosf",
    "atan",      "atanf",      "sinh",   "sinhf",   "cosh",      "coshf",      "asinh", "asinhf", "acosh", "acoshf",
    "atanh",     "atanhf",     "sincos", "sincosf", "cbrt",      "cbrtf",      "erf",   "erff",   "erfc",  "erfcf",
    "exp",       "exp2",       "exp10",  "expm1",   "log",       "log2",       "log10", "log1p",  "tanh",  "pow",
    "atan2",     "atan2f",     "fmod",   "fmodf",   "remainder", "remainderf", "hypot", "hypotf", "fdim",  "fdimf",
    "nextafter", "nextafterf", "ldexp",  "ldexpf",  "fma",       "fmaf",       "floor", "floorf", "ceil",  "ceilf",
    "trunc",     "truncf",     "rint",   "rintf",   "nearbyint", "nearbyintf", "sqrt",  "sqrtf"};
constexpr std::string_view runtime_functions[] = {
    "cudal1_rt_barrier",     "cudal1_rt_warp",           "cudal1_rt_active_mask",  "cudal1_rt_copy",
    "cudal1_rt_copy_commit", "cudal1_rt_copy_wait",      "cudal1_rt_group_mma",    "cudal1_rt_group_commit",
    "cudal1_rt_group_wait",  "cudal1_rt_cluster_rank",   "cudal1_rt_cluster_size", "cudal1_rt_cluster_address",
    "cudal1_rt_transfer",    "cudal1_rt_tile",           "cudal1_rt_tile_commit",  "cudal1_rt_tile_wait",
    "cudal1_rt_shared",      "cudal1_rt_group_mma_quads"};

bool is_allowed_section(std::string_view name) {
  static const std::unordered_set<std::string_view> exact{
      "",         ".text",     ".plt",          ".plt.got",       ".plt.sec",
      ".rodata",  ".eh_frame", ".eh_frame_hdr", ".dynamic",       ".dynsym",
      ".dynstr",  ".gnu.hash", ".hash",         ".rela.dyn",      ".rela.plt",
      ".got",     ".got.plt",  ".gnu.version",  ".gnu.version_r", ".note.gnu.property",
      ".comment", ".symtab",   ".strtab",       ".shstrtab",      ".relro_padding"};
  return exact.contains(name) || name.starts_with(".rodata.");
}

expected<void> check_sections(const elf_object& object) {
  for (std::size_t i = 0; i < object.sections().size(); ++i) {
    const auto& [name, header, bytes] = object.sections()[i];
    const auto symbol = readable_symbol(object.symbol_in(i));
    const std::string holds = symbol.empty() ? "" : fmt::format(" (it holds \"{}\")", symbol);
    if ((header.sh_flags & SHF_TLS) != 0)
      return refuse("section {}{}: thread-local variables are state between calls", name, holds);
    if (name == ".data" || name == ".bss" || name.starts_with(".data.") || name.starts_with(".bss."))
      return refuse(
          "section {}{}: a writable variable outside the stack (a static or a global) is state between calls; use "
          "const or __constant__ with an initialiser for a table, and an alloc step for results",
          name, holds);
    if (header.sh_type == SHT_INIT_ARRAY || header.sh_type == SHT_FINI_ARRAY || header.sh_type == SHT_PREINIT_ARRAY ||
        name.starts_with(".init") || name.starts_with(".fini") || name.starts_with(".ctors") ||
        name.starts_with(".dtors"))
      return refuse("section {}: code that runs when the object is loaded or unloaded", name);
    if (!is_allowed_section(name)) return refuse("section {}{} is not among those that kernels need", name, holds);
    if ((header.sh_flags & SHF_WRITE) != 0 && (header.sh_flags & SHF_EXECINSTR) != 0)
      return refuse("section {} is writable and executable", name);
  }
  return {};
}

// Segments that are loaded as writable must be read-only after relocation.
expected<void> check_segments(const elf_object& object) {
  const Elf64_Phdr* relro = nullptr;
  bool stack_seen = false;
  for (const auto& p : object.segments()) {
    if (p.p_type == PT_GNU_RELRO) relro = &p;
    if (p.p_type == PT_TLS) return refuse("thread-local variables are state between calls");
    if (p.p_type == PT_INTERP) return refuse("it requests a program interpreter");
    if (p.p_type == PT_GNU_STACK) {
      stack_seen = true;
      if ((p.p_flags & PF_X) != 0) return refuse("it asks for an executable stack");
    }
    if (p.p_type == PT_LOAD && (p.p_flags & PF_W) != 0 && (p.p_flags & PF_X) != 0)
      return refuse("a segment is writable and executable");
  }
  if (!stack_seen) return refuse("it does not mark its stack as not executable");
  for (const auto& p : object.segments()) {
    if (p.p_type != PT_LOAD || (p.p_flags & PF_W) == 0) continue;
    const bool covered =
        relro != nullptr && relro->p_vaddr <= p.p_vaddr && p.p_vaddr + p.p_memsz <= relro->p_vaddr + relro->p_memsz;
    if (!covered) return refuse("memory that stays writable after loading is state between calls");
  }
  for (const auto& s : object.sections())
    if ((s.header.sh_flags & SHF_EXECINSTR) != 0 && s.name != ".text" && !s.name.starts_with(".plt"))
      return refuse("section {} holds code", s.name);
  return {};
}

expected<void> check_dynamic(const elf_object& object) {
  static constexpr std::array<int64_t, 22> allowed{
      DT_NULL,      DT_HASH,   DT_GNU_HASH, DT_STRTAB,     DT_SYMTAB,   DT_STRSZ,   DT_SYMENT, DT_PLTGOT,
      DT_PLTRELSZ,  DT_PLTREL, DT_JMPREL,   DT_RELA,       DT_RELASZ,   DT_RELAENT, DT_FLAGS,  DT_FLAGS_1,
      DT_RELACOUNT, DT_VERSYM, DT_VERNEED,  DT_VERNEEDNUM, DT_BIND_NOW, DT_SONAME};
  bool now = false;
  for (const auto& d : object.dynamic()) {
    if (d.d_tag == DT_NEEDED) return refuse("it asks for other libraries");
    if (d.d_tag == DT_INIT || d.d_tag == DT_FINI || d.d_tag == DT_INIT_ARRAY || d.d_tag == DT_FINI_ARRAY)
      return refuse("code that runs when the object is loaded or unloaded");
    if (std::find(allowed.begin(), allowed.end(), d.d_tag) == allowed.end())
      return refuse("dynamic entry {:#x} is not among those that kernels need", static_cast<uint64_t>(d.d_tag));
    if (d.d_tag == DT_FLAGS && (d.d_un.d_val & (DF_TEXTREL | DF_ORIGIN | DF_STATIC_TLS | DF_SYMBOLIC)) != 0)
      return refuse("its dynamic flags request more than immediate binding");
    if (d.d_tag == DT_BIND_NOW || (d.d_tag == DT_FLAGS && (d.d_un.d_val & DF_BIND_NOW) != 0)) now = true;
  }
  if (!now) return refuse("its imports are not bound immediately, so that their slots would stay writable");
  for (const auto& r : object.relocations()) {
    const auto type = ELF64_R_TYPE(r.r_info);
    if (type == R_X86_64_IRELATIVE)
      return refuse("an indirect function (ifunc): code that runs when the object is loaded");
    if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT)
      return refuse("relocation type {}: tables of addresses (function pointers, virtual functions) are not supported",
                    type);
  }
  return {};
}

expected<void> check_symbols(const elf_object& object) {
  for (const auto* table : {&object.dynamic_symbols(), &object.symbols()})
    for (const auto& [name, entry] : *table) {
      const auto type = ELF64_ST_TYPE(entry.st_info);
      if (type == STT_GNU_IFUNC)
        return refuse("\"{}\" is an indirect function (ifunc): code that runs when the object is loaded",
                      readable_symbol(name));
      if (type == STT_TLS) return refuse("\"{}\" is thread-local: state between calls", readable_symbol(name));
    }
  for (const auto& [name, entry] : object.dynamic_symbols()) {
    if (name.empty()) continue;
    if (entry.st_shndx == SHN_UNDEF && !is_allowed_import(name))
      return refuse("it imports \"{}\", which is not among the functions that kernels may call", readable_symbol(name));
    if (entry.st_shndx != SHN_UNDEF && !name.starts_with("cudal1_run_") && !name.starts_with("cudal1_info_"))
      return refuse("it exports \"{}\", which is not a kernel's entry point", readable_symbol(name));
  }
  return {};
}

}  // namespace

std::string readable_symbol(const std::string& symbol) {
  if (symbol.empty()) return symbol;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status),
                                                    std::free);
  std::string readable = status == 0 ? text.get() : symbol;
  for (const std::string_view hidden : {"(anonymous namespace)::", "cudal1_program::"})
    for (auto at = readable.find(hidden); at != std::string::npos; at = readable.find(hidden))
      readable.erase(at, hidden.size());
  return readable;
}

bool is_allowed_import(std::string_view symbol) {
  const auto is_among = [&](std::span<const std::string_view> names) {
    return std::ranges::find(names, symbol) != names.end();
  };
  return is_among(memory_functions) || is_among(math_functions) || is_among(runtime_functions);
}

expected<void> check_object(std::string_view object) {
  CUDAL1_TRY(const auto elf, elf_object::parse(object));
  CUDAL1_CHECK(check_sections(elf));
  CUDAL1_CHECK(check_symbols(elf));
  CUDAL1_CHECK(check_segments(elf));
  CUDAL1_CHECK(check_dynamic(elf));
  return check_instructions(elf);
}

}  // namespace cudal1
