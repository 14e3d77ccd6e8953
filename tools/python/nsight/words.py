"""What Nsight Compute's names mean, in words, and what to try. After the reasons of its profiling guide, section
"Warp Stall Reasons"."""

from __future__ import annotations

# What a warp waits for, and what to try; by the name within smsp__average_warps_issue_stalled_NAME_per_issue_active.
STALLS = {
    "barrier": ("a barrier of its block",
                "give the warps of a block equal work before __syncthreads(), take smaller blocks, or synchronise warps only"),
    "branch_resolving": ("the target of a branch", "unroll short loops, and replace short branches by selects"),
    "dispatch_stall": ("the dispatcher", "spread accesses over register banks and pipes: reorder independent work"),
    "drain": ("its stores to memory at its end",
              "write whole 128-byte lines, earlier, or give a thread more elements"),
    "gmma": ("tensor cores (wgmma)", "keep more wgmma groups in flight, and overlap them with loads of the next tile"),
    "imc_miss": ("constants that are not cached", "read the same constants in all threads, or pass them as arguments"),
    "lg_throttle": ("room in the queue of global and local memory",
                    "make fewer, wider accesses (float4), and avoid spills"),
    "long_scoreboard": ("data from global or local memory",
                        "load earlier (prefetch, cp.async, more stages), read coalesced and wide, or keep data in shared memory"),
    "math_pipe_throttle": ("a busy arithmetic pipe",
                           "use fewer or cheaper instructions (fma, tensor cores, half precision): the pipe is the limit"),
    "membar": ("a memory fence", "use fewer or narrower fences (__threadfence_block)"),
    "mio_throttle": ("room in the queue of shared memory and special functions",
                     "make fewer, wider accesses to shared memory, and fewer special functions"),
    "misc": ("other causes", "look at the kernel in Nsight Compute"),
    "no_instruction": ("its instructions", "unroll less: the code does not fit into the instruction cache"),
    "not_selected": ("its turn, ready to issue",
                     "there are warps enough: cut instructions, or let a thread do more with fewer warps"),
    "short_scoreboard": ("shared memory or special functions",
                         "avoid bank conflicts, keep values in registers, and use fewer special functions"),
    "sleeping": ("the end of its sleep", "wait on a barrier instead of __nanosleep()"),
    "tex_throttle": ("room in the queue of textures", "make fewer texture accesses"),
    "wait": ("a fixed latency of its last instruction", "give each thread more independent work (instruction-level parallelism)"),
}
ALSO_NAMED = {"no_instructions": "no_instruction", "warpgroup_arrive": "gmma"}
ISSUING = "selected"  # no stall: the warp issues

# What limits the resident blocks of a multiprocessor; by the name within launch__occupancy_limit_NAME.
LIMITS = {"registers": "registers", "shared_mem": "shared memory", "warps": "block size", "blocks": "blocks per multiprocessor",
          "barriers": "barriers"}

# Peaks that a kernel may be close to: member, name, and what helps there.
ROOFS = (
    ("dram_pct", "DRAM", "move fewer bytes: fuse with what reads or writes the same tensors, or store in half precision"),
    ("l2_pct", "L2", "reuse more of what is loaded, in registers or shared memory"),
    ("tensor_pct", "tensor cores", "only less or cheaper arithmetic helps: a narrower type, or a smaller product"),
    ("fma_pct", "FMA", "use tensor cores, packed half precision, or less arithmetic"),
)
NEAR_ROOF_PCT = 80


def near_roof(kernel: dict) -> tuple[str, str]:
    """The peak that it is closest to and what helps there; nothing where it is far from all."""
    share, _, name, advice = max((kernel.get(member) or 0.0, -i, name, advice) for i, (member, name, advice) in enumerate(ROOFS))
    return (name, advice) if share >= NEAR_ROOF_PCT else ("", "")


def stall(reason: str) -> tuple[str, str]:
    return STALLS.get(reason, (f"{reason.replace('_', ' ')} (a reason that is new here)", "look at the kernel in Nsight Compute"))
