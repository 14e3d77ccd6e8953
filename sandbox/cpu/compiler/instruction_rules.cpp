#include <algorithm>
#include <array>
#include <memory>
#include <unordered_set>

#include <capstone/capstone.h>

#include "sandbox/cpu/compiler/elf_object.hpp"
#include "sandbox/cpu/compiler/object_rules.hpp"

namespace cudal1 {
namespace {

// The reason why an instruction is refused; null if it is allowed.
const char* forbidden(const cs_insn& i) {
  switch (i.id) {
    case X86_INS_SYSCALL:
    case X86_INS_SYSENTER:
    case X86_INS_SYSEXIT:
    case X86_INS_SYSRET:
    case X86_INS_INT:
    case X86_INS_INT1:
    case X86_INS_INT3:
    case X86_INS_INTO:
    case X86_INS_VMCALL:
    case X86_INS_VMMCALL:
      return "it enters the operating system";
    case X86_INS_RDTSC:
    case X86_INS_RDTSCP:
    case X86_INS_RDPMC:
      return "it reads a clock";
    case X86_INS_RDRAND:
    case X86_INS_RDSEED:
      return "random numbers";
    case X86_INS_CPUID:
    case X86_INS_XGETBV:
    case X86_INS_SGDT:
    case X86_INS_SIDT:
    case X86_INS_SLDT:
    case X86_INS_STR:
    case X86_INS_SMSW:
    case X86_INS_LSL:
    case X86_INS_LAR:
      return "it identifies the processor";
    case X86_INS_IN:
    case X86_INS_INSB:
    case X86_INS_INSD:
    case X86_INS_INSW:
    case X86_INS_OUT:
    case X86_INS_OUTSB:
    case X86_INS_OUTSD:
    case X86_INS_OUTSW:
    case X86_INS_HLT:
    case X86_INS_CLI:
    case X86_INS_STI:
      return "input and output";
    case X86_INS_RDFSBASE:
    case X86_INS_RDGSBASE:
    case X86_INS_WRFSBASE:
    case X86_INS_WRGSBASE:
    case X86_INS_SWAPGS:
    case X86_INS_LFS:
    case X86_INS_LGS:
    case X86_INS_LSS:
    case X86_INS_LDS:
    case X86_INS_LES:
      return "segment registers";
    case X86_INS_CLFLUSH:
    case X86_INS_CLFLUSHOPT:
    case X86_INS_CLWB:
    case X86_INS_WBINVD:
    case X86_INS_INVD:
    case X86_INS_MONITOR:
    case X86_INS_MWAIT:
    case X86_INS_XBEGIN:
    case X86_INS_XABORT:
      return "it controls caches";
    default:
      return nullptr;
  }
}

bool is_segment(unsigned reg) {
  return reg == X86_REG_FS || reg == X86_REG_GS || reg == X86_REG_CS || reg == X86_REG_DS || reg == X86_REG_ES ||
         reg == X86_REG_SS;
}

bool is_branch(const cs_insn& i) {
  for (int k = 0; k < i.detail->groups_count; ++k)
    if (i.detail->groups[k] == X86_GRP_JUMP || i.detail->groups[k] == X86_GRP_CALL) return true;
  return false;
}

struct branch {
  uint64_t from, to;
};

struct code_summary {
  std::unordered_set<uint64_t> starts;
  std::vector<branch> branches;
  uint64_t computed = 0;  // the address of a jump or call whose target is computed; 0 for none
  std::string computed_text;
};

class section_reader {
 public:
  section_reader(const elf_object& object, code_summary& summary) : object_(object), summary_(summary) {}

  expected<void> read(const elf_section& section) {
    csh handle = 0;
    if (cs_open(CS_ARCH_X86, CS_MODE_64, &handle) != CS_ERR_OK)
      return fail(errc::infrastructure, "capstone cannot be opened");
    const std::unique_ptr<csh, void (*)(csh*)> closer(&handle, [](csh* h) { cs_close(h); });
    cs_option(handle, CS_OPT_DETAIL, CS_OPT_ON);
    const std::unique_ptr<cs_insn, void (*)(cs_insn*)> insn(cs_malloc(handle), [](cs_insn* i) { cs_free(i, 1); });
    const auto* code = reinterpret_cast<const uint8_t*>(section.bytes.data());
    std::size_t left = section.bytes.size();
    uint64_t address = section.header.sh_addr;
    while (left > 0) {
      const auto* const begin = code;
      if (!cs_disasm_iter(handle, &code, &left, &address, insn.get()))
        return fail(errc::refused,
                    "the compiled object is refused: the bytes at {:#x} ({:02x}) cannot be decoded as an instruction",
                    address, *begin);
      CUDAL1_CHECK(check(*insn, section));
    }
    return {};
  }

 private:
  expected<void> check(const cs_insn& i, const elf_section& section) {
    summary_.starts.insert(i.address);
    const auto refuse = [&i, this](const char* reason) {
      return fail(errc::refused, "the compiled object is refused: the instruction \"{}{}{}\" at {:#x} (in {}): {}",
                  i.mnemonic, i.op_str[0] == '\0' ? "" : " ", i.op_str, i.address, function_at(i.address), reason);
    };
    if (const char* const reason = forbidden(i)) return refuse(reason);
    const auto& x86 = i.detail->x86;
    for (int k = 0; k < x86.op_count; ++k) {
      const auto& operand = x86.operands[k];
      if (operand.type == X86_OP_REG && is_segment(operand.reg)) return refuse("segment registers");
      if (operand.type == X86_OP_MEM && (operand.mem.segment == X86_REG_FS || operand.mem.segment == X86_REG_GS))
        return refuse("segment registers");
    }
    if (is_branch(i) && x86.op_count > 0) note_branch(i, section);
    return {};
  }

  void note_branch(const cs_insn& i, const elf_section& section) {
    const auto& operand = i.detail->x86.operands[0];
    if (operand.type == X86_OP_IMM) {
      summary_.branches.push_back({i.address, static_cast<uint64_t>(operand.imm)});
      return;
    }
    // An import's slot, which is read-only once loaded.
    const bool through_slot = operand.type == X86_OP_MEM && operand.mem.base == X86_REG_RIP &&
                              operand.mem.index == X86_REG_INVALID &&
                              is_slot(i.address + i.size + static_cast<uint64_t>(operand.mem.disp));
    if (through_slot && (section.name.starts_with(".plt") || i.id == X86_INS_CALL || i.id == X86_INS_JMP)) return;
    summary_.computed = i.address;
    summary_.computed_text = fmt::format("{} {} in {}", i.mnemonic, i.op_str, function_at(i.address));
  }

  bool is_slot(uint64_t address) const {
    for (const char* name : {".got", ".got.plt"})
      if (const auto* s = object_.section(name))
        if (address >= s->header.sh_addr && address + 8 <= s->header.sh_addr + s->header.sh_size) return true;
    return false;
  }

  std::string function_at(uint64_t address) const {
    for (const auto& s : object_.symbols())
      if (ELF64_ST_TYPE(s.entry.st_info) == STT_FUNC && s.entry.st_value <= address &&
          address < s.entry.st_value + s.entry.st_size)
        return readable_symbol(s.name);
    return "no function";
  }

  const elf_object& object_;
  code_summary& summary_;
};

// A computed jump can reach every byte, so the bytes of these instructions may not occur at any offset.
expected<void> check_bytes(const elf_section& section, const std::string& reached_by) {
  struct pattern {
    std::string_view bytes;
    const char* name;
  };
  static constexpr std::array<pattern, 6> patterns{{{{"\x0f\x05", 2}, "syscall"},
                                                    {{"\x0f\x34", 2}, "sysenter"},
                                                    {{"\xcd\x80", 2}, "int 0x80"},
                                                    {{"\x0f\x31", 2}, "rdtsc"},
                                                    {{"\x0f\x01\xf9", 3}, "rdtscp"},
                                                    {{"\x0f\x33", 2}, "rdpmc"}}};
  for (const auto& [bytes, name] : patterns)
    if (const auto at = section.bytes.find(bytes); at != std::string_view::npos)
      return fail(errc::refused,
                  "the compiled object is refused: it has a computed jump ({}), and the bytes of {} occur at {:#x}",
                  reached_by, name, section.header.sh_addr + at);
  return {};
}

}  // namespace

expected<void> check_instructions(const elf_object& object) {
  code_summary summary;
  section_reader reader(object, summary);
  for (const auto& s : object.sections())
    if ((s.header.sh_flags & SHF_EXECINSTR) != 0) CUDAL1_CHECK(reader.read(s));
  for (const auto& b : summary.branches)
    if (!summary.starts.contains(b.to))
      return fail(errc::refused,
                  "the compiled object is refused: the jump at {:#x} leads to {:#x}, where no instruction begins",
                  b.from, b.to);
  if (summary.computed != 0)
    for (const auto& s : object.sections())
      if ((s.header.sh_flags & SHF_EXECINSTR) != 0) CUDAL1_CHECK(check_bytes(s, summary.computed_text));
  return {};
}

}  // namespace cudal1
