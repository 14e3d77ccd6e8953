// A checked view of an ELF64 x86-64 shared object in memory: every offset in it lies inside the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <elf.h>

#include "config/base/error.hpp"

namespace cudal1 {

struct elf_section {
  std::string name;
  Elf64_Shdr header;
  std::string_view bytes;  // empty for .bss and similar
};

struct elf_symbol {
  std::string name;
  Elf64_Sym entry;
};

class elf_object {
 public:
  // Errors: refused (not such an object, or its tables extend past the end of the file).
  static expected<elf_object> parse(std::string_view file);

  const Elf64_Ehdr& header() const { return header_; }
  const std::vector<Elf64_Phdr>& segments() const { return segments_; }
  const std::vector<elf_section>& sections() const { return sections_; }
  const std::vector<elf_symbol>& dynamic_symbols() const { return dynamic_symbols_; }
  const std::vector<elf_symbol>& symbols() const { return symbols_; }  // all of them, if the object is not stripped
  const std::vector<Elf64_Rela>& relocations() const { return relocations_; }
  const std::vector<Elf64_Dyn>& dynamic() const { return dynamic_; }

  const elf_section* section(std::string_view name) const;
  // The name of a symbol inside a section, for messages; "" for none.
  std::string symbol_in(std::size_t section_index) const;

 private:
  expected<void> read_sections(std::string_view file);
  expected<void> read_symbols(uint32_t type, std::vector<elf_symbol>& into) const;

  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
  std::vector<elf_section> sections_;
  std::vector<elf_symbol> dynamic_symbols_, symbols_;
  std::vector<Elf64_Rela> relocations_;
  std::vector<Elf64_Dyn> dynamic_;
};

}  // namespace cudal1
