"""Programs whose heads break a rule of the format or do not match the task, or whose outputs have another form."""

from __future__ import annotations

from typing import Any, Callable

from corpus import Variant, wrong
from programs import Program, argument_of, drop_head, set_head, with_head


def launch(*path_and_value: Any) -> Callable[[Program], None]:
    """Sets a value in the step that launches `k`."""
    *path, last, value = path_and_value

    def change(p: Program) -> None:
        at = p.step("launch", "k")
        for key in path:
            at = at[key]
        at[last] = value
    return change


def text(raw: Callable[[Program], str]) -> Callable[[Program], None]:
    return with_head(lambda p: setattr(p, "raw", raw(p)))


def invalid_heads() -> list[Variant]:
    kind = "invalid head"

    def invalid(task: str, label: str, *changes: Any, quick: bool = False) -> Variant:
        return wrong(task, kind, label, *changes, outcome="invalid", quick=quick)
    steps = ("steps", 0)
    return [
        invalid("gelu_by_hand", "unknown_key", set_head("speed", "high"), quick=True),
        invalid("gelu_by_hand", "no_format", drop_head("format")),
        invalid("gelu_by_hand", "newer_format", set_head("format", 2)),
        invalid("gelu_by_hand", "no_json", text(lambda p: p.text()[1:])),
        invalid("gelu_by_hand", "empty", text(lambda p: " ")),
        invalid("gated_silu", "unknown_dtype", set_head(*steps, "dtype", "float31")),
        invalid("gated_silu", "negative_size", set_head(*steps, "shape", [-4])),
        invalid("gated_silu", "no_outputs", set_head("outputs", [])),
        invalid("gated_silu", "unknown_output", set_head("outputs", ["z"])),
        invalid("hard_swish_chain", "no_blocks", launch("grid", 0, 0)),
        invalid("hard_swish_chain", "too_many_threads", launch("block", 0, 2048)),
        invalid("hard_swish_chain", "too_much_shared_memory", launch("shared_bytes", 1 << 20)),
        invalid("hard_swish_chain", "unknown_kernel", launch("launch", "kernel")),
        invalid("diagonal_matmul", "too_few_arguments", with_head(lambda p: p.step("launch", "k")["args"].pop())),
        invalid("diagonal_matmul", "scalar_of_another_type", argument_of("k", 3, "f32 1")),
        invalid("diagonal_matmul", "scalar_for_a_tensor", argument_of("k", 0, "i32 1")),
        invalid("bias_relu_twice", "input_updated", argument_of("k", 0, "inout x")),
        invalid("bias_relu_twice", "weight_written", argument_of("k", 1, "out bias")),
        invalid("bias_relu_twice", "read_before_written", argument_of("k", 2, "inout y")),
        invalid("row_mean_square", "never_written", with_head(lambda p: p.head["steps"].pop())),
        invalid("row_mean_square", "taken_name", set_head(*steps, "alloc", "x")),
        invalid("mse_loss", "used_too_early", with_head(lambda p: p.head["steps"].reverse())),
        invalid("softmax", "too_many_lanes", set_head("execution", {"lanes": 64})),
    ]


def other_inputs() -> list[Variant]:
    kind = "other inputs than those of the task"

    def other(task: str, label: str, *changes: Any, quick: bool = False) -> Variant:
        return wrong(task, kind, label, *changes, outcome="invalid", quick=quick)

    def turned(p: Program) -> None:
        rows, columns = p.task.tensor("x").shape
        p.head["inputs"][0].update(strides=[1, rows], shape=[rows, columns])
    return [
        other("gelu_by_hand", "other_shape", with_head(lambda p: p.head["inputs"][0]["shape"].append(1)), quick=True),
        other("gelu_by_hand", "other_dtype", set_head("inputs", 0, "dtype", "float64")),
        other("gelu_by_hand", "other_strides", with_head(turned)),
        other("gated_silu", "one_more", with_head(lambda p: p.head["inputs"].append(
            {"name": "more", "dtype": "float32", "shape": [4]}))),
        other("relu_of_uniform", "half_of_it", with_head(
            lambda p: p.head["inputs"][0].update(shape=[p.task.tensor("x").rows // 2, p.task.tensor("x").columns]))),
        other("bias_relu_twice", "weight_of_another_shape", with_head(
            lambda p: p.head["weights"][0]["shape"].insert(0, 1))),
    ]


def other_forms() -> list[Variant]:
    kind = "result of another form"

    def form(task: str, label: str, *changes: Any, quick: bool = False) -> Variant:
        return wrong(task, kind, label, *changes, outcome="invalid", quick=quick)

    def shape(of: Callable[[Program], list[int]]) -> Callable[[Program], None]:
        return with_head(lambda p: p.step("alloc", p.task.output).__setitem__("shape", of(p)))

    def add_call(op: str, **args: Any) -> Callable[[Program], None]:
        def change(p: Program) -> None:
            p.aten(op, "z", self=p.task.output, **args)
            p.head["outputs"][0] = "z"
        return with_head(change)

    def extra(p: Program) -> None:
        p.aten("relu", "more", self="y")
        p.head["outputs"].append("more")
    return [
        form("row_mean_square", "one_dimension_more", shape(lambda p: [p.task.tensor("y").elements, 1])),
        form("row_logsumexp", "one_dimension_less", shape(lambda p: [p.task.tensor("y").elements])),
        form("gelu_by_hand", "flat", shape(lambda p: [p.task.tensor("y").elements]), quick=True),
        form("gelu_by_hand", "turned", shape(lambda p: list(p.task.tensor("y").shape)[::-1])),
        form("gelu_by_hand", "half_precision", add_call("to.dtype", dtype="float16")),
        form("gated_silu", "double_precision", add_call("to.dtype", dtype="float64")),
        form("mse_loss", "one_element_for_none", with_head(
            lambda p: p.step("alloc", "loss").__setitem__("shape", [1]))),
        form("row_argmax", "smaller_integers", add_call("to.dtype", dtype="int32")),
        form("positive_mask", "numbers_for_flags", add_call("to.dtype", dtype="uint8")),
        wrong("turned_relu", kind, "contiguous", add_call("clone", memory_format="contiguous_format"), gate="1 form"),
        wrong("relu_of_uniform", kind, "turned_view", add_call("t"), gate="1 form"),
        form("gelu_by_hand", "one_output_more", with_head(extra)),
        form("row_sum_and_max", "one_output_less", with_head(lambda p: p.head["outputs"].pop())),
        wrong("row_sum_and_max", kind, "outputs_exchanged", with_head(lambda p: p.head["outputs"].reverse())),
    ]


def variants() -> list[Variant]:
    return invalid_heads() + other_inputs() + other_forms()
