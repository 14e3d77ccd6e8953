// Namespaces: additional confinement that many systems do not permit (stock Ubuntu 24.04, most containers), so none is
// required.
#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/isolation/confine.hpp"

namespace cudal1 {
namespace {

confinement_item optional_item(std::string name, int error_number, const std::string& step = "") {
  std::string detail;
  if (error_number != 0) detail = fmt::format("{}{}{}", step, step.empty() ? "" : ": ", std::strerror(error_number));
  return {std::move(name), false, error_number == 0, std::move(detail)};
}

int write_file(const char* path, const std::string& text) {
  const unique_fd file(::open(path, O_WRONLY | O_CLOEXEC));
  if (!file) return errno;
  return ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : errno;
}

confinement_item enter_user_namespace() {
  const auto user = ::getuid();
  const auto group = ::getgid();
  if (::unshare(CLONE_NEWUSER) != 0) return optional_item("user namespace", errno, "unshare");
  // Users and groups have the same ids inside as outside. Without the maps the steps below would fail without an error.
  if (const int e = write_file("/proc/self/setgroups", "deny"); e != 0 && e != ENOENT)
    return optional_item("user namespace", e, "setgroups");
  if (const int e = write_file("/proc/self/uid_map", fmt::format("{} {} 1", user, user)); e != 0)
    return optional_item("user namespace", e, "uid_map");
  if (const int e = write_file("/proc/self/gid_map", fmt::format("{} {} 1", group, group)); e != 0)
    return optional_item("user namespace", e, "gid_map");
  return optional_item("user namespace", 0);
}

}  // namespace

std::vector<confinement_item> enter_namespaces() {
  std::vector<confinement_item> items{enter_user_namespace()};
  const struct {
    const char* name;
    int flag;
  } others[] = {{"network namespace", CLONE_NEWNET},
                {"IPC namespace", CLONE_NEWIPC},
                {"UTS namespace", CLONE_NEWUTS},
                {"mount namespace", CLONE_NEWNS}};
  for (const auto& [name, flag] : others)
    items.push_back(optional_item(name, ::unshare(flag) == 0 ? 0 : errno, "unshare"));
  if (items.back().in_force && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    items.back() = optional_item("mount namespace", errno, "making / private");
  return items;
}

confinement_item enter_empty_root() {
  static constexpr char name[] = "empty root";
  // Mounted over /tmp, which every system has; visible in this mount namespace only.
  if (::unshare(CLONE_NEWNS) != 0) return optional_item(name, errno, "unshare");
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return optional_item(name, errno, "making / private");
  if (::mount("cudal1", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, "size=4k") != 0)
    return optional_item(name, errno, "mount");
  if (::chdir("/tmp") != 0) return optional_item(name, errno, "chdir");
  if (::syscall(SYS_pivot_root, ".", ".") != 0) return optional_item(name, errno, "pivot_root");
  if (::umount2(".", MNT_DETACH) != 0) return optional_item(name, errno, "umount");
  if (::chdir("/") != 0) return optional_item(name, errno, "chdir");
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2]{};
  if (::syscall(SYS_capset, &header, none) != 0) return optional_item(name, errno, "capset");
  return optional_item(name, 0);
}

}  // namespace cudal1
