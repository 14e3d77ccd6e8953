#include "sandbox/isolation/library_constants.hpp"

#include <cstdint>
#include <string>

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
