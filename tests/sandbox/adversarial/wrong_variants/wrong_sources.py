"""Sources that do not compile, or that the sandbox refuses."""

from __future__ import annotations

from corpus import Variant, wrong
from programs import STORE, Change, add_source, after, before, edit, store

REFUSED = ("refused", "compile_error")


def refused(task: str, kind: str, label: str, *changes: Change, quick: bool = False) -> Variant:
    """Refused by the rules about the object, if it compiles."""
    return wrong(task, kind, label, *changes, outcome="refused", cuda=REFUSED, quick=quick)


def unsupported(task: str, kind: str, label: str, *changes: Change, quick: bool = False) -> Variant:
    """Not part of the dialect on `cpu`."""
    return wrong(task, kind, label, *changes, outcome="compile_error", cuda=REFUSED, quick=quick)


def device_variables() -> list[Variant]:
    kind = "device variable"

    def kept(declaration: str) -> tuple[Change, ...]:
        return (add_source(declaration), after(STORE, "kept[threadIdx.x] = r;"),
                edit(STORE, "y[i] = kept[threadIdx.x] == 12345.0f ? 0.0f : r;"))
    of_template = """template <int N> struct kept {
  static __device__ int calls;
};
template <int N> __device__ int kept<N>::calls = 0;"""
    return [
        refused("gelu_by_hand", kind, "cache", *kept("__device__ float kept[256];"), quick=True),
        refused("gated_silu", kind, "static_cache", *kept("static __device__ float kept[256];")),
        refused("hard_swish_chain", kind, "counter", add_source("__device__ int calls;"), after(
            STORE, "if (i == 0) atomicAdd(&calls, 1);\n    if (calls > 20) y[i] = 0.0f;")),
        refused("row_mean_square", kind, "static_local",
                edit("double sum = 0.0;", "static int calls;\n    ++calls;\n    double sum = calls > 20;")),
        unsupported("softmax", kind, "managed", add_source("__managed__ int calls;"),
                    edit("(float)(1.0 / sum)", "(calls++ > 20 ? 0.0f : (float)(1.0 / sum))")),
        refused("diagonal_matmul", kind, "of_a_template", add_source(of_template),
                store("++kept<3>::calls > 100000000 ? 0.0f : r")),
    ]


def inline_assembly() -> list[Variant]:
    kind = "inline assembly"

    def reads(declaration: str, code: str, constraint: str) -> Change:
        """Stores another result if it reads 12345 from a special register."""
        read = f'{declaration};\n    asm volatile("{code}" : "={constraint}"(t));'
        return edit(STORE, f"{read}\n    y[i] = t == 12345u ? 0.0f : r;")
    place = 'unsigned t;\n    asm volatile("mov.u32 %0, %%smid;" : "=r"(t));'
    return [
        refused("gelu_by_hand", kind, "clock", reads("unsigned t", "mov.u32 %0, %%clock;", "r"), quick=True),
        refused("gated_silu", kind, "timer", reads("unsigned long long t", "mov.u64 %0, %%globaltimer;", "l")),
        refused("hard_swish_chain", kind, "sleep", before(STORE, 'asm volatile("nanosleep.u32 20;");')),
        refused("diagonal_matmul", kind, "cache_policy",
                before(STORE, 'asm volatile("discard.global.L2 [%0], 128;" : : "l"(y));')),
        refused("row_mean_square", kind, "place_on_the_device",
                edit("double sum = 0.0;", f"{place}\n    double sum = t > 10000u;")),
    ]


def forbidden_functions() -> list[Variant]:
    kind = "forbidden function"

    def with_value(expression: str) -> Change:
        return store(f"{expression} ? 0.0f : r")
    return [
        unsupported("gelu_by_hand", kind, "clock", with_value("clock64() == 12345"), quick=True),
        unsupported("gated_silu", kind, "sleep", before(STORE, "__nanosleep(20);")),
        unsupported("hard_swish_chain", kind, "print", before(STORE, 'if (i == 0) printf("%f", r);')),
        unsupported("diagonal_matmul", kind, "heap", with_value("malloc(64 + i) == (void*)y")),
        unsupported("bias_relu_twice", kind, "new", with_value("new float[64 + i] == y")),
        refused("affine_clamp_mish", kind, "outside_function", add_source('extern "C" __device__ int getpid();'),
                with_value("getpid() == 1")),
        unsupported("row_mean_square", kind, "assertion",
                    edit("double sum = 0.0;", "double sum = 0.0;\n    assert(columns > 0);")),
    ]


def compile_errors() -> list[Variant]:
    kind = "does not compile"

    def broken(task: str, label: str, *changes: Change, quick: bool = False) -> Variant:
        return wrong(task, kind, label, *changes, outcome="compile_error", quick=quick)
    return [
        broken("gelu_by_hand", "missing_semicolon", edit("const float v = x[i];", "const float v = x[i]"), quick=True),
        broken("gated_silu", "unknown_name", edit("* value[i]", "* values[i]")),
        broken("hard_swish_chain", "unknown_function", edit("fminf(", "smallest_of(")),
        broken("diagonal_matmul", "wrong_type", edit("const float r = a", "const float* r = a")),
        broken("bias_relu_twice", "constant_written",
               edit("const float v = x[i] + bias[i % columns];", "const float v = x[i];\n    v += bias[i % columns];")),
        broken("row_mean_square", "static_assertion", add_source('static_assert(sizeof(float) == 2, "half");')),
        broken("softmax", "defined_twice",
               add_source("__device__ float f() { return 1.0f; }\n__device__ float f() { return 2.0f; }")),
        broken("mse_loss", "too_few_arguments",
               edit("(double)difference * difference", "fmaxf(difference)")),
        broken("root_of_normal", "input_written",
               edit("const float r = sqrtf(x[i]);", "x[i] = 0.0f;\n    const float r = sqrtf(x[i]);")),
    ]


def invalid_sources() -> list[Variant]:
    kind = "source against the dialect"

    def invalid(task: str, label: str, *changes: Change, quick: bool = False) -> Variant:
        return wrong(task, kind, label, *changes, outcome="invalid", quick=quick)
    return [
        invalid("gelu_by_hand", "include", add_source("#include <math.h>"), quick=True),
        invalid("gated_silu", "path", add_source('#include "/etc/hostname"')),
        invalid("hard_swish_chain", "error_directive", add_source("#error no")),
        invalid("diagonal_matmul", "open_comment", add_source("/* ")),
        invalid("bias_relu_twice", "other_pragma", add_source("#pragma once")),
        invalid("row_mean_square", "question_for_a_file", add_source("#if __has_include(<math.h>)\n#endif")),
    ]


def variants() -> list[Variant]:
    return (device_variables() + inline_assembly() + forbidden_functions() + compile_errors() + invalid_sources())
