"""Namespaces, a root of its own, limits and a filter of system calls for a worker.

sandbox/isolation does the same for native runners. A worker is forked from a Python that has torch loaded already, so it
cannot exec a program that confines it: these are the same system calls, through ctypes. Linux on x86-64 only.
"""

from __future__ import annotations

import ctypes
import glob
import os
import platform
import resource
import shutil
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)

NEW_MOUNT, NEW_UTS, NEW_IPC = 0x00020000, 0x04000000, 0x08000000
NEW_USER, NEW_PID, NEW_NETWORK, NEW_CGROUP = 0x10000000, 0x20000000, 0x40000000, 0x02000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 38, 22, 24
INSIDE_ID = 1000
# Users that no system gives to anybody; one for each worker, so that a limit of processes counts its own only.
FIRST_OUTSIDE_ID = 2_000_000_000
SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/sys/devices/system/cpu")
SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/passwd", "/etc/group")
DEVICES = ("null", "zero", "full", "random", "urandom")


class NotConfined(Exception):
    """What this system refuses, in a sentence."""


def checked(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    checked(libc.mount(source.encode(), target.encode(), kind.encode() if kind else None, ctypes.c_ulong(flags),
                       data.encode()), f"mount {target}")


def end_with_parent() -> None:
    libc.prctl(PR_SET_PDEATHSIG, 9)


# ---- namespaces -----------------------------------------------------------------------------------------------------


def enter_user_and_process_namespaces(outside_id: int) -> None:
    """For this process a user of its own and nothing but itself on the network; its children are in a new namespace of
    processes. As root the user is `outside_id`, else the caller's own, which is nobody else inside."""
    as_root = os.geteuid() == 0
    own_user, own_group = (outside_id, outside_id) if as_root else (os.geteuid(), os.getegid())
    ready, write_ready = os.pipe()
    mapped, write_mapped = os.pipe()
    me = os.getpid()
    helper = 0
    if as_root:  # only somebody outside may map a user that is not the caller's
        os.setgroups([])
        helper = os.fork()
        if helper == 0:
            try:
                os.close(write_ready)  # so that the read ends where the other process does
                if os.read(ready, 1):
                    for name in ("uid_map", "gid_map"):
                        with open(f"/proc/{me}/{name}", "w", encoding="ascii") as file:
                            file.write(f"{INSIDE_ID} {own_user} 1")
                    os.write(write_mapped, b"m")
            finally:
                os._exit(0)
    checked(libc.unshare(NEW_USER | NEW_PID | NEW_NETWORK | NEW_IPC | NEW_UTS | NEW_CGROUP), "unshare")
    if as_root:
        os.write(write_ready, b"r")
        os.close(write_mapped)
        if os.read(mapped, 1) != b"m":
            raise NotConfined("the system maps no user into a namespace")
        os.waitpid(helper, 0)
        os.close(ready)
        os.close(write_ready)
        os.close(mapped)
    else:
        for fd in (ready, write_ready, mapped, write_mapped):
            os.close(fd)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{INSIDE_ID} {own_user} 1"),
                           ("gid_map", f"{INSIDE_ID} {own_group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    os.setresgid(INSIDE_ID, INSIDE_ID, INSIDE_ID)
    os.setresuid(INSIDE_ID, INSIDE_ID, INSIDE_ID)


def bind(source: str, target: str, writable: bool = False) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="ascii"):
            pass
    mount(source, target, None, MS_BIND | MS_REC)
    flags = MS_REMOUNT | MS_BIND | MS_NOSUID | (0 if writable else MS_RDONLY)
    if source.startswith("/dev/"):
        return
    try:
        mount("none", target, None, flags | MS_NODEV)
    except OSError:  # flags that the mount has from outside may not be taken away
        checked(libc.mount(b"none", target.encode(), None, ctypes.c_ulong(flags | MS_NODEV | MS_NOEXEC), b""), target)


def python_folders() -> list[str]:
    """Where this Python and its packages are."""
    found = {os.path.realpath(p) for p in (sys.prefix, sys.base_prefix, sys.exec_prefix)} | {sys.prefix}
    found |= {os.path.realpath(p) for p in sys.path if p and os.path.isdir(p) and "site-packages" in p}
    torch = sys.modules.get("torch")
    if torch is not None:
        found.add(os.path.dirname(os.path.realpath(torch.__file__)))
    return sorted(found)


def compiler_folders() -> list[str]:
    """Where the compilers are that a submission's build calls. Only folders that hold a compiler's own files: not a
    user's folder with a link in its bin."""
    found = {os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", "")}
    for name in (os.environ.get("CC", "cc"), os.environ.get("CXX", "c++"), "cc", "c++", "gcc", "g++", "clang", "nvcc"):
        path = shutil.which(name.split()[0]) if name.strip() else None
        if path:
            found |= {os.path.dirname(os.path.dirname(p)) for p in (path, os.path.realpath(path))}
    parts = ("lib/gcc", "lib64/gcc", "libexec/gcc", "nvvm", "lib/clang")
    return sorted(p for p in found if p and p != "/" and any(os.path.isdir(os.path.join(p, part)) for part in parts))


def folders_to_bind() -> list[str]:
    """Of Python and of compilers, each of which is in no other."""
    kept: list[str] = []
    for path in sorted({*python_folders(), *compiler_folders()}):
        if not any(path == k or path.startswith(k + "/") for k in (*kept, *SYSTEM_FOLDERS)):
            kept.append(path)
    return kept


def enter_root(tmp_bytes: int, built: str, build_into: str, with_gpus: bool) -> list[str]:
    """A root with the system's folders and Python read-only, and a private /tmp of limited size. `built`: a folder whose
    content is copied to /tmp/build. `build_into`: one that is /tmp/build, and stays. `with_gpus`: with the devices of
    NVIDIA's driver. What is missing, in words."""
    missing = []
    checked(libc.unshare(NEW_MOUNT), "unshare")
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    copied = built and os.path.isdir(built)
    root = "/tmp"
    sources = [p for p in (*SYSTEM_FOLDERS, *SYSTEM_FILES, *folders_to_bind()) if os.path.exists(p)]
    # Sources below /tmp would be hidden by the mount over it: they are reached by descriptors.
    held = {p: os.open(p, os.O_PATH | os.O_CLOEXEC) for p in sources}
    for p in (built if copied else "", build_into):
        if p:
            held[p] = os.open(p, os.O_PATH | os.O_CLOEXEC)
    names = [*DEVICES, *(sorted(os.path.basename(p) for p in glob.glob("/dev/nvidia*") if not os.path.isdir(p))
                         if with_gpus else ())]
    devices = {d: os.open(f"/dev/{d}", os.O_PATH | os.O_CLOEXEC) for d in names}
    fd_folder = os.open("/proc/self/fd", os.O_PATH | os.O_CLOEXEC)
    mount("root", root, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    os.fchdir(fd_folder)
    for p in sources:
        if os.path.islink(p) and p in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
            os.symlink(os.readlink(p), root + p)
        else:
            bind(str(held[p]), root + p)
    os.makedirs(f"{root}/dev/shm")
    for d, fd in devices.items():
        with open(f"{root}/dev/{d}", "w", encoding="ascii"):
            pass
        mount(str(fd), f"{root}/dev/{d}", None, MS_BIND)
    mount("shm", f"{root}/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=16m,mode=1777")
    os.makedirs(f"{root}/tmp")
    mount("tmp", f"{root}/tmp", "tmpfs", MS_NOSUID | MS_NODEV, f"size={tmp_bytes},mode=1777")
    if build_into:
        bind(str(held[build_into]), f"{root}/tmp/build", writable=True)
    elif copied:
        shutil.copytree(str(held[built]), f"{root}/tmp/build")
    os.makedirs(f"{root}/proc")
    try:
        mount("proc", f"{root}/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    except OSError:  # a container that hides parts of its own /proc
        missing.append("no /proc of its own (it has none)")
    os.chdir(root)
    checked(libc.syscall(155, b".", b"."), "pivot_root")
    checked(libc.umount2(b".", 2), "umount")
    os.chdir("/tmp")
    mount("none", "/", None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    for fd in (*held.values(), *devices.values(), fd_folder):
        os.close(fd)
    return missing


def drop_capabilities() -> None:
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = struct.pack("Ii", 0x20080522, 0)
    checked(libc.syscall(126, header, bytes(24)), "capset")
    checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def limit_resources(data_bytes: int, cpu_seconds: int, processes: int, file_bytes: int) -> None:
    for what, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_DATA, data_bytes),
                        (resource.RLIMIT_CPU, cpu_seconds), (resource.RLIMIT_NPROC, processes),
                        (resource.RLIMIT_FSIZE, file_bytes), (resource.RLIMIT_NOFILE, 256)):
        most = resource.getrlimit(what)[1]
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(what, (value, value))


# ---- the filter of system calls -------------------------------------------------------------------------------------

# What no kernel needs: another process's memory, tracing, kernel programs. Whoever tries is killed, so that it shows.
KILLED = {"ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "pidfd_getfd": 438,
          "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "seccomp": 317, "kexec_load": 246}
# What libraries may try and do without. Memory that no limit counts (memfd, SysV, io_uring), other namespaces and
# mounts, the place and priority of threads, keys, clocks.
DENIED = {"mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308,
          "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "mount_setattr": 442,
          "memfd_create": 319, "memfd_secret": 447, "shmget": 29, "msgget": 68, "semget": 64, "mq_open": 240,
          "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "keyctl": 250, "add_key": 248,
          "request_key": 249, "sched_setaffinity": 203, "sched_setscheduler": 144, "sched_setattr": 314,
          "sched_setparam": 142, "init_module": 175, "finit_module": 313, "delete_module": 176, "reboot": 169,
          "swapon": 167, "personality": 135, "open_by_handle_at": 304, "name_to_handle_at": 303, "acct": 163,
          "quotactl": 179, "settimeofday": 164, "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305,
          "process_madvise": 440, "iopl": 172, "ioperm": 173}
CLONE, CLONE3, SOCKET, PRCTL, SOCKETPAIR = 56, 435, 41, 157, 53
AUDIT_ARCH_X86_64, X32 = 0xC000003E, 0x40000000
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
EPERM, ENOSYS, AF_UNIX = 1, 38, 1
LOAD, EQUAL, ABOVE, SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06


def filter_program() -> bytes:
    def step(code: int, k: int, yes: int = 0, no: int = 0) -> bytes:
        return struct.pack("HBBI", code, yes, no, k)

    def answer(number: int, with_what: int) -> list[bytes]:
        return [step(EQUAL, number, 0, 1), step(RETURN, with_what)]

    namespaces = NEW_MOUNT | NEW_UTS | NEW_IPC | NEW_USER | NEW_PID | NEW_NETWORK | NEW_CGROUP
    program = [step(LOAD, 4), step(EQUAL, AUDIT_ARCH_X86_64, 1, 0), step(RETURN, KILL), step(LOAD, 0),
               step(ABOVE, X32, 0, 1), step(RETURN, KILL)]
    for number in KILLED.values():
        program += answer(number, KILL)
    for number in DENIED.values():
        program += answer(number, ERRNO | EPERM)
    program += answer(CLONE3, ERRNO | ENOSYS)  # its flags are in memory; libraries then use clone
    program += [step(EQUAL, CLONE, 0, 3), step(LOAD, 16), step(SET, namespaces, 0, 1), step(RETURN, ERRNO | EPERM),
                step(LOAD, 0)]
    for number in (SOCKET, SOCKETPAIR):
        program += [step(EQUAL, number, 0, 3), step(LOAD, 16), step(EQUAL, AF_UNIX, 1, 0),
                    step(RETURN, ERRNO | EPERM), step(LOAD, 0)]
    program += [step(EQUAL, PRCTL, 0, 3), step(LOAD, 16), step(EQUAL, PR_SET_SECCOMP, 0, 1), step(RETURN, KILL),
                step(LOAD, 0)]
    program.append(step(RETURN, ALLOW))
    return b"".join(program)


def filter_calls() -> None:
    program = filter_program()
    held = ctypes.create_string_buffer(program, len(program))
    description = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(held))
    checked(libc.prctl(PR_SET_SECCOMP, 2, ctypes.c_char_p(description), 0, 0), "seccomp")


def refusal() -> str:
    """Why no worker can be confined here; "" where the machine may."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"workers can be confined on Linux for x86-64 only, not on {platform.machine()}"
    return ""
