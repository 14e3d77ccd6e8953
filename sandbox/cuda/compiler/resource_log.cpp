#include "sandbox/cuda/compiler/resource_log.hpp"

#include <algorithm>
#include <charconv>

namespace cudal1 {
namespace {

// The number that stands before `unit`: "8" in "Used 8 registers" for " registers".
int64_t number_before(std::string_view line, std::string_view unit) {
  const auto at = line.find(unit);
  if (at == std::string_view::npos) return 0;
  auto begin = at;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9')
    --begin;
  int64_t value = 0;
  std::from_chars(line.data() + begin, line.data() + at, value);
  return value;
}

// "k" of "Compiling entry function 'k' for 'sm_90'" and of "Function properties for k".
std::string_view kernel_of(std::string_view line) {
  constexpr std::string_view compiling = "Compiling entry function '", properties = "Function properties for ";
  if (const auto at = line.find(compiling); at != std::string_view::npos) {
    const auto begin = at + compiling.size();
    return line.substr(begin, line.find('\'', begin) - begin);
  }
  const auto at = line.find(properties);
  return at == std::string_view::npos ? std::string_view() : line.substr(at + properties.size());
}

template <class Use>
void each_line(std::string_view text, Use use) {
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    use(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

bool is_statistics(std::string_view line) {
  return line.starts_with("ptxas info") || line.starts_with("ptxas         .");
}

}  // namespace

std::vector<kernel_resources> resources_in(std::string_view log, const std::vector<std::string>& kernels) {
  std::vector<kernel_resources> result(kernels.size());
  for (std::size_t i = 0; i < kernels.size(); ++i)
    result[i].kernel = kernels[i];
  kernel_resources* current = nullptr;
  each_line(log, [&](std::string_view line) {
    if (!is_statistics(line)) return;
    if (const auto name = kernel_of(line); !name.empty()) {
      const auto found =
          std::find_if(result.begin(), result.end(), [&](const kernel_resources& r) { return r.kernel == name; });
      current = found == result.end() ? nullptr : &*found;
    } else if (current != nullptr && line.find("bytes stack frame") != std::string_view::npos) {
      current->stack_bytes = number_before(line, " bytes stack frame");
      current->spill_store_bytes = number_before(line, " bytes spill stores");
      current->spill_load_bytes = number_before(line, " bytes spill loads");
    } else if (current != nullptr && line.find("Used ") != std::string_view::npos) {
      current->registers = number_before(line, " registers");
      current->static_shared_bytes = number_before(line, " bytes smem");
    }
  });
  return result;
}

std::string messages_in(std::string_view log) {
  std::string text;
  each_line(log, [&](std::string_view line) {
    const bool blank = line.find_first_not_of(" \t\r") == std::string_view::npos;
    if (is_statistics(line) || (blank && (text.empty() || text.ends_with("\n\n")))) return;
    text.append(line).append("\n");
  });
  while (text.ends_with("\n\n"))
    text.pop_back();
  return text == "\n" ? "" : text;
}

}  // namespace cudal1
