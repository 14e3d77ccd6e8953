#include "sandbox/isolation/self_test.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cudal1 {
namespace {

// The exit codes of a child. A child killed by SIGSYS counts as denied.
constexpr int escaped = 0, denied = 1, broken = 2;

int verdict_of(bool success) {
  return success ? escaped : denied;
}

int connect_somewhere() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  return verdict_of(fd >= 0);
}

int bind_somewhere() {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, "\0cudal1-self-test", 17);
  return verdict_of(fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
}

int map_executable() {
  return verdict_of(::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
}

int make_executable() {
  void* memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? broken : verdict_of(::mprotect(memory, 4096, PROT_READ | PROT_EXEC) == 0);
}

int execute() {
  char name[] = "/bin/true";
  char* arguments[] = {name, nullptr};
  char* environment[] = {nullptr};
  ::execve(name, arguments, environment);
  return denied;
}

// The system call itself, since glibc's fork() makes others first.
int make_process() {
  const long child = ::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (child == 0) ::_exit(0);
  return verdict_of(child > 0);
}

int read_parent() {
  char byte = 0;
  iovec local{&byte, 1}, remote{reinterpret_cast<void*>(&map_executable), 1};
  return verdict_of(::process_vm_readv(::getppid(), &local, 1, &remote, 1, 0) == 1);
}

struct attempt {
  const char* name;
  int (*run)();
};

constexpr attempt attempts[] = {
    {"open a file", [] { return verdict_of(::open("/etc/hostname", O_RDONLY) >= 0 || errno == ENOENT); }},
    {"read /proc", [] { return verdict_of(::open("/proc/self/maps", O_RDONLY) >= 0 || errno == ENOENT); }},
    {"write a file", [] { return verdict_of(::open("/tmp/cudal1-self-test", O_WRONLY | O_CREAT, 0600) >= 0); }},
    {"make a network socket", connect_somewhere},
    {"bind a local socket", bind_somewhere},
    {"start a process", make_process},
    {"execute a program", execute},
    // Signal 0 only checks the permission.
    {"signal the parent", [] { return verdict_of(::kill(::getppid(), 0) == 0); }},
    {"signal the parent's thread", [] { return verdict_of(::syscall(SYS_tgkill, ::getppid(), ::getppid(), 0) == 0); }},
    {"trace the parent", [] { return verdict_of(::ptrace(PTRACE_ATTACH, ::getppid(), nullptr, nullptr) == 0); }},
    {"read the parent's memory", read_parent},
    {"map executable memory", map_executable},
    {"make memory executable", make_executable},
};

expected<int> run_child(auto&& body) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return fail(errc::infrastructure, "fork: {}", std::strerror(errno));
  if (child == 0) ::_exit(body(parent));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return fail(errc::infrastructure, "waitpid: {}", std::strerror(errno));
  return status;
}

// Confined as run_runner confines a runner.
int confine_and_run(const attempt& a, pid_t parent) {
  confinement_options options{.role = confined_role::runner, .channel = 0, .expected_parent = parent};
  options.limits.open_files = 64;
  const auto prepared = confinement::prepare(options);
  if (!prepared) return broken;
  (void)prepared->enter();
  return a.run();
}

confinement_item item_of(const attempt& a, int status) {
  confinement_item item{fmt::format("self-test: {}", a.name), true, false, ""};
  if (WIFSIGNALED(status)) {
    item.in_force = WTERMSIG(status) == SIGSYS;
    item.detail = item.in_force ? "ended by SIGSYS" : fmt::format("ended by signal {}", WTERMSIG(status));
  } else if (WEXITSTATUS(status) == denied) {
    item.in_force = true;
    item.detail = "denied";
  } else {
    item.detail = WEXITSTATUS(status) == escaped ? "it succeeded" : "the attempt could not be made";
  }
  return item;
}

}  // namespace

expected<std::vector<confinement_item>> test_confinement() {
  CUDAL1_TRY(auto items, probe_confinement({.role = confined_role::runner, .channel = 0}));
  CUDAL1_TRY(const int rooted, run_child([](pid_t) { return verdict_of(!enter_empty_root().in_force); }));
  const bool without_files = WIFEXITED(rooted) && WEXITSTATUS(rooted) == denied;
  items.push_back(
      {"empty root", false, without_files, without_files ? "" : "this process is not permitted to change its root"});
  for (const auto& a : attempts) {
    CUDAL1_TRY(const int status, run_child([&](pid_t parent) { return confine_and_run(a, parent); }));
    items.push_back(item_of(a, status));
  }
  return items;
}

}  // namespace cudal1
