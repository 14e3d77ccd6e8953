#include "sandbox/cuda/runtime/cubin_variables.hpp"

#include <cstring>
#include <optional>

#include <elf.h>

namespace cudal1 {
namespace {

// The record of type T at `offset`, or nothing where it leaves the file.
template <class T>
std::optional<T> record_at(std::string_view file, uint64_t offset) {
  if (offset > file.size() || sizeof(T) > file.size() - offset) return std::nullopt;
  T record;
  std::memcpy(&record, file.data() + offset, sizeof record);
  return record;
}

std::optional<std::string_view> text_at(std::string_view table, uint64_t offset) {
  const auto end = offset < table.size() ? table.find('\0', offset) : std::string_view::npos;
  if (end == std::string_view::npos) return std::nullopt;
  return table.substr(offset, end - offset);
}

tl::unexpected<error> malformed(std::string_view what) {
  return fail(errc::corrupt, "the compiled code is malformed: {}", what);
}

struct section {
  std::string_view name, bytes;
  Elf64_Shdr header;
};

expected<std::vector<section>> sections_of(std::string_view cubin) {
  const auto head = record_at<Elf64_Ehdr>(cubin, 0);
  if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64 ||
      head->e_shentsize != sizeof(Elf64_Shdr))
    return malformed("no ELF file of 64 bits");
  std::vector<section> sections;
  for (uint64_t i = 0; i < head->e_shnum; ++i) {
    const auto h = record_at<Elf64_Shdr>(cubin, head->e_shoff + i * sizeof(Elf64_Shdr));
    if (!h) return malformed("a section outside the file");
    const bool in_file = h->sh_type != SHT_NOBITS && h->sh_type != SHT_NULL;
    if (in_file && (h->sh_offset > cubin.size() || h->sh_size > cubin.size() - h->sh_offset))
      return malformed("a section outside the file");
    sections.push_back({{}, in_file ? cubin.substr(h->sh_offset, h->sh_size) : std::string_view(), *h});
  }
  if (head->e_shstrndx >= sections.size()) return malformed("no names of sections");
  for (auto& s : sections) {
    const auto name = text_at(sections[head->e_shstrndx].bytes, s.header.sh_name);
    if (!name) return malformed("a section without a name");
    s.name = *name;
  }
  return sections;
}

// Of the program's variables. `.nv.constant0.KERNEL` has a kernel's parameters, 2 and 4 the compiler's own constants,
// and `.nv.shared.*` ends with the block.
bool holds_variables(const section& s) {
  const bool is_writable = (s.header.sh_flags & SHF_WRITE) != 0 && (s.header.sh_flags & SHF_ALLOC) != 0;
  return s.name.starts_with(".nv.global") || s.name.starts_with(".nv.constant3") ||
         (is_writable && !s.name.starts_with(".nv.shared"));
}

}  // namespace

expected<std::vector<cubin_variable>> variables_of_cubin(std::string_view cubin) {
  CUDAL1_TRY(const auto sections, sections_of(cubin));
  std::vector<cubin_variable> found;
  std::vector<uint64_t> described(sections.size(), 0);  // bytes of named variables, by section
  for (const auto& table : sections) {
    if (table.header.sh_type != SHT_SYMTAB) continue;
    if (table.header.sh_link >= sections.size()) return malformed("symbols without names");
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.bytes.size(); at += sizeof(Elf64_Sym)) {
      const auto symbol = *record_at<Elf64_Sym>(table.bytes, at);
      const auto name = text_at(sections[table.header.sh_link].bytes, symbol.st_name);
      if (!name) return malformed("a symbol without a name");
      const bool is_section = ELF64_ST_TYPE(symbol.st_info) == STT_SECTION;
      if (is_section || symbol.st_shndx >= sections.size() || !holds_variables(sections[symbol.st_shndx])) continue;
      found.push_back({*name, sections[symbol.st_shndx].name, symbol.st_size});
      described[symbol.st_shndx] += symbol.st_size;
    }
  }
  for (std::size_t i = 0; i < sections.size(); ++i)
    if (holds_variables(sections[i]) && sections[i].header.sh_size > 0 && described[i] == 0)
      found.push_back({"", sections[i].name, sections[i].header.sh_size});
  return found;
}

}  // namespace cudal1
