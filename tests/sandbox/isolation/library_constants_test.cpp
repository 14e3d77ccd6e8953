#include "sandbox/isolation/library_constants.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cudal1 {
namespace {

struct page_count {
  int64_t present = 0, absent = 0;
};

// Of the read-only segments of libcrypto, which has constants that no code here reads.
page_count constants_of_libcrypto() {
  page_count count;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* raw) {
        if (std::string(info->dlpi_name).find("libcrypto") == std::string::npos) return 0;
        auto& pages = *static_cast<page_count*>(raw);
        const int map = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
        uintptr_t frames = 0;
        for (int i = 0; i < info->dlpi_phnum; ++i)
          if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME) frames = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& s = info->dlpi_phdr[i];
          if (s.p_type != PT_LOAD || s.p_flags != PF_R) continue;
          const uintptr_t begin = info->dlpi_addr + s.p_vaddr;
          for (uintptr_t at = begin; at < begin + s.p_memsz; at += 4096) {
            if (begin <= frames && at >= frames) break;
            uint64_t entry = 0;
            if (::pread(map, &entry, 8, static_cast<off_t>(at / 4096 * 8)) != 8) break;
            ++((entry >> 63 & 1) != 0 ? pages.present : pages.absent);
          }
        }
        ::close(map);
        return 0;
      },
      &count);
  return count;
}

page_count in_a_fork() {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const page_count seen = constants_of_libcrypto();
    ::_exit(::write(ends[1], &seen, sizeof seen) == sizeof seen ? 0 : 1);
  }
  page_count seen;
  EXPECT_EQ(::read(ends[0], &seen, sizeof seen), static_cast<ssize_t>(sizeof seen));
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
  return seen;
}

// Of this process's memory at the addresses of libcrypto's constants: bytes there, and those marked as accessed.
struct marked_memory {
  int64_t there = 0, accessed = 0;
};

marked_memory marked_constants_of_libcrypto() {
  std::vector<std::pair<uintptr_t, uintptr_t>> ranges;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* raw) {
        if (std::string(info->dlpi_name).find("libcrypto") == std::string::npos) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i)
          if (const auto& s = info->dlpi_phdr[i]; s.p_type == PT_LOAD && s.p_flags == PF_R)
            static_cast<decltype(ranges)*>(raw)->push_back(
                {(info->dlpi_addr + s.p_vaddr) / 4096 * 4096, info->dlpi_addr + s.p_vaddr + s.p_memsz});
        return 0;
      },
      &ranges);
  marked_memory found;
  std::ifstream maps("/proc/self/smaps");
  bool is_copy = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    long long kib = 0;
    char path[256] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %*s %*s %*s %255s", &begin, &end, path) >= 2)  // NOLINT
      is_copy = path[0] == '\0' && std::any_of(ranges.begin(), ranges.end(),
                                               [&](const auto& r) { return begin >= r.first && begin < r.second; });
    else if (is_copy && std::sscanf(line.c_str(), "Rss: %lld", &kib) == 1)  // NOLINT
      found.there += kib;
    else if (is_copy && std::sscanf(line.c_str(), "Referenced: %lld", &kib) == 1)  // NOLINT
      found.accessed += kib;
  }
  return found;
}

TEST(library_constants, are_marked_as_accessed_in_a_forked_process_that_has_read_them) {
  const pid_t zygote = ::fork();
  if (zygote == 0) {
    EXPECT_TRUE(keep_constants_over_forks());
    const pid_t child = ::fork();
    if (child == 0) {
      const marked_memory before = marked_constants_of_libcrypto();
      read_kept_constants();
      const marked_memory after = marked_constants_of_libcrypto();
      EXPECT_GT(before.there, 0);
      EXPECT_LT(before.accessed, before.there) << "the test looks at pages that are marked anyway";
      EXPECT_EQ(after.accessed, after.there);
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    ::_exit(status == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(zygote, &status, 0), zygote);
  EXPECT_EQ(status, 0);
}

// In a child, since it is for the rest of the process's life.
TEST(library_constants, are_present_in_a_forked_process_before_anybody_reads_them) {
  const pid_t zygote = ::fork();
  if (zygote == 0) {
    const page_count before = in_a_fork();
    const auto kept = keep_constants_over_forks();
    const page_count after = in_a_fork();
    EXPECT_GT(before.absent, 0) << "the test looks at pages that are there anyway";
    EXPECT_TRUE(kept) << kept.error().message;
    EXPECT_EQ(after.absent, 0);
    EXPECT_EQ(after.present, before.present + before.absent);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(zygote, &status, 0), zygote);
  EXPECT_EQ(status, 0);
}

TEST(library_constants, keep_their_content) {
  const char* const text = "a constant of this program";
  const std::string before = text;
  const pid_t zygote = ::fork();
  if (zygote == 0) {
    const bool kept = keep_constants_over_forks().has_value();
    ::_exit(kept && before == text ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(zygote, &status, 0), zygote);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace cudal1
