#include "sandbox/isolation/landlock.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cudal1 {
namespace {

// The kernel's structure with the members of later versions; an older kernel gets a smaller size.
struct ruleset_attributes {
  uint64_t file_system = 0;
  uint64_t network = 0;  // version 4
  uint64_t scoped = 0;   // version 6
};

// Bits as numbers, since the installed headers may be older than the kernel.
constexpr uint64_t first_version = (uint64_t{1} << 13) - 1;
constexpr uint64_t refer = uint64_t{1} << 13;           // version 2
constexpr uint64_t truncate_file = uint64_t{1} << 14;   // version 3
constexpr uint64_t device_control = uint64_t{1} << 15;  // version 5
constexpr uint64_t reading = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t file_rights = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |
                                 LANDLOCK_ACCESS_FS_WRITE_FILE | truncate_file | device_control;

uint64_t handled_rights(int version) {
  uint64_t rights = first_version;
  if (version >= 2) rights |= refer;
  if (version >= 3) rights |= truncate_file;
  if (version >= 5) rights |= device_control;
  return rights;
}

// `controls`: additional rights for a device file.
expected<void> allow_below(int ruleset, const std::string& path, uint64_t rights, uint64_t controls = 0) {
  const unique_fd place(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!place) return {};  // a missing path needs no rule
  struct stat status {};
  if (::fstat(place.get(), &status) != 0) return fail(errc::io_error, "landlock: {}: {}", path, std::strerror(errno));
  landlock_path_beneath_attr rule{};
  rule.allowed_access = S_ISDIR(status.st_mode) ? rights : rights & file_rights;
  if (S_ISCHR(status.st_mode)) rule.allowed_access |= controls;
  rule.parent_fd = place.get();
  if (::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0)
    return fail(errc::infrastructure, "landlock: rule for {}: {}", path, std::strerror(errno));
  return {};
}

}  // namespace

expected<unique_fd> make_landlock_ruleset(const landlock_access& access) {
  const int version =
      static_cast<int>(::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION));
  if (version < 1) return unique_fd();
  ruleset_attributes attributes;
  attributes.file_system = handled_rights(version);
  if (!access.network) attributes.network = 3;  // bind and connect
  attributes.scoped = access.signals ? 1 : 3;   // abstract Unix sockets, and signals
  const std::size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
  unique_fd ruleset(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, size, 0)));
  if (!ruleset) return fail(errc::infrastructure, "landlock: no ruleset: {}", std::strerror(errno));
  const uint64_t all = attributes.file_system;
  if (access.read_everything) CUDAL1_CHECK(allow_below(ruleset.get(), "/", reading));
  for (const auto& path : access.readable)
    CUDAL1_CHECK(allow_below(ruleset.get(), path, reading));
  for (const auto& path : access.writable)
    CUDAL1_CHECK(allow_below(ruleset.get(), path,
                             all & ~(device_control | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK),
                             all & device_control));
  return ruleset;
}

int enter_landlock(int ruleset) noexcept {
  return ::syscall(SYS_landlock_restrict_self, ruleset, 0) == 0 ? 0 : errno;
}

}  // namespace cudal1
