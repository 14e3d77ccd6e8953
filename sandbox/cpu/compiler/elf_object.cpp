#include "sandbox/cpu/compiler/elf_object.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

namespace cudal1 {
namespace {

// `count` records of type T from `offset`, or nothing if they extend past the end of the file.
template <class T>
std::optional<std::vector<T>> records(std::string_view file, uint64_t offset, uint64_t count) {
  if (count > file.size() / sizeof(T) || offset > file.size() || count * sizeof(T) > file.size() - offset) return {};
  std::vector<T> found(count);
  std::memcpy(found.data(), file.data() + offset, count * sizeof(T));
  return found;
}

std::optional<std::string> text_at(std::string_view table, uint64_t offset) {
  if (offset >= table.size()) return {};
  const auto end = table.find('\0', offset);
  if (end == std::string_view::npos) return {};
  return std::string(table.substr(offset, end - offset));
}

tl::unexpected<error> malformed(const char* what) {
  return fail(errc::refused, "the compiled object is malformed: {}", what);
}

}  // namespace

expected<elf_object> elf_object::parse(std::string_view file) {
  elf_object object;
  const auto header = records<Elf64_Ehdr>(file, 0, 1);
  if (!header) return malformed("no ELF header");
  object.header_ = header->front();
  const auto& h = object.header_;
  if (std::memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
      h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_machine != EM_X86_64 || h.e_type != ET_DYN)
    return malformed("not an x86-64 shared object");
  if (h.e_phentsize != sizeof(Elf64_Phdr) || h.e_shentsize != sizeof(Elf64_Shdr))
    return malformed("table entries of an unexpected size");
  auto segments = records<Elf64_Phdr>(file, h.e_phoff, h.e_phnum);
  if (!segments) return malformed("segments outside the file");
  object.segments_ = std::move(*segments);
  CUDAL1_CHECK(object.read_sections(file));
  CUDAL1_CHECK(object.read_symbols(SHT_DYNSYM, object.dynamic_symbols_));
  CUDAL1_CHECK(object.read_symbols(SHT_SYMTAB, object.symbols_));
  for (const auto& s : object.sections_) {
    const auto append = [&s](auto& into) {
      using record = typename std::decay_t<decltype(into)>::value_type;
      const auto found = records<record>(s.bytes, 0, s.bytes.size() / sizeof(record));
      into.insert(into.end(), found->begin(), found->end());
    };
    if (s.header.sh_type == SHT_RELA) append(object.relocations_);
    if (s.header.sh_type == SHT_DYNAMIC) append(object.dynamic_);
  }
  return object;
}

expected<void> elf_object::read_sections(std::string_view file) {
  const auto headers = records<Elf64_Shdr>(file, header_.e_shoff, header_.e_shnum);
  if (!headers || headers->empty() || header_.e_shstrndx >= headers->size()) return malformed("no section table");
  const auto bytes_of = [&file](const Elf64_Shdr& s) -> std::optional<std::string_view> {
    if (s.sh_type == SHT_NOBITS || s.sh_type == SHT_NULL) return std::string_view();
    if (s.sh_offset > file.size() || s.sh_size > file.size() - s.sh_offset) return {};
    return file.substr(s.sh_offset, s.sh_size);
  };
  const auto names = bytes_of((*headers)[header_.e_shstrndx]);
  if (!names) return malformed("section names outside the file");
  for (const auto& s : *headers) {
    const auto bytes = bytes_of(s);
    const auto name = s.sh_type == SHT_NULL ? std::string() : text_at(*names, s.sh_name);
    if (!bytes || !name) return malformed("a section outside the file");
    sections_.push_back({*name, s, *bytes});
  }
  return {};
}

expected<void> elf_object::read_symbols(uint32_t type, std::vector<elf_symbol>& into) const {
  for (const auto& s : sections_) {
    if (s.header.sh_type != type) continue;
    if (s.header.sh_link >= sections_.size()) return malformed("a symbol table without a string table");
    const auto entries = records<Elf64_Sym>(s.bytes, 0, s.bytes.size() / sizeof(Elf64_Sym));
    for (const auto& entry : *entries) {
      const auto name = text_at(sections_[s.header.sh_link].bytes, entry.st_name);
      if (!name) return malformed("a symbol's name outside its table");
      into.push_back({*name, entry});
    }
  }
  return {};
}

const elf_section* elf_object::section(std::string_view name) const {
  const auto found = std::find_if(sections_.begin(), sections_.end(), [name](const auto& s) { return s.name == name; });
  return found == sections_.end() ? nullptr : &*found;
}

std::string elf_object::symbol_in(std::size_t section_index) const {
  for (const auto& s : symbols_)
    if (s.entry.st_shndx == section_index && !s.name.empty() && ELF64_ST_TYPE(s.entry.st_info) != STT_SECTION)
      return s.name;
  return "";
}

}  // namespace cudal1
