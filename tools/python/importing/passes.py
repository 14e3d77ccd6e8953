"""Turns an exported program into a task's: no state, no randomness, no operators that do nothing."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .operators import argument_names, kind_of, overload, record_of, use_one_name
from .program import Program, Step, Value, call_by_schema, is_view, may_share_memory, op_name
from .ranges import undecided_by
from .refusal import Refused
from .rewrites import integers_in_floats, masks_as_choices, numbers_as_tensors, products_of_matrices
from .rewriting_check import checked
from .state import keep_states
from .weights import DTYPES, dtype_name
from .writes import writes_as_joins

aten = torch.ops.aten

_DROPOUTS = {
    "aten::dropout",
    "aten::alpha_dropout",
    "aten::feature_dropout",
    "aten::feature_alpha_dropout",
    "aten::native_dropout",
}
_TRAINING = {
    "aten::batch_norm": "training",
    "aten::native_batch_norm": "training",
    "aten::instance_norm": "use_input_stats",
}
_FOLDED_BYTES = 16 << 20
_SMALL_BYTES = 64 << 10


def _use_one_name(program: Program) -> None:
    for step in program.steps:
        use_one_name(step)


def _running_statistics(program: Program) -> None:
    """Training-mode batch norm computes with the batch's statistics; what it keeps for later calls is
    dropped."""
    kept: set[Value] = set()
    for step in program.steps:
        training = _TRAINING.get(step.name)
        if training and step.args.get(training):
            kept.update(v for v in (step.args["running_mean"], step.args["running_var"]) if v is not None)
            step.args["running_mean"] = step.args["running_var"] = None
        if step.name == "aten::_native_batch_norm_legit_functional" and step.args["training"]:
            kept.update((step.args["running_mean"], step.args["running_var"], *step.outs[3:]))
            given = {k: step.args[k] for k in ("input", "weight", "bias", "momentum", "eps")}
            step.op, step.outs = aten.batch_norm.default, step.outs[:1]
            step.args = {**given, "running_mean": None, "running_var": None, "training": True}
    program.dropped += sorted(v.target for v in kept if v.target)
    reading = next((step.where for step in program.steps if any(v in kept for v in step.reads())), None)
    if reading is not None or any(v in kept for v in program.outputs):
        raise Refused(
            f"it reads the running statistics that a batch norm in training mode changes{reading or ''}; a task keeps "
            "nothing from call to call, so call .eval() on that layer in Model.__init__"
        )


def _is_empty(v: Value) -> bool:
    return v.fake.numel() == 0


def _empty_parts(program: Program) -> None:
    """Joins without what has no elements, as a cache of keys before its first token."""
    same: dict[Value, Value] = {}
    steps: list[Step] = []
    for step in program.steps:
        steps.append(step)
        if step.name != "aten::cat" or not step.outs[0] or not any(_is_empty(v) for v in step.reads()):
            continue
        parts = [v for v in step.args["tensors"] if not _is_empty(v)]
        to = step.outs[0].fake.dtype
        if not parts:
            continue
        if functools.reduce(torch.promote_types, (v.fake.dtype for v in parts)) != to:  # it was that of an empty one
            casts = [program.step(aten.to.dtype, {"self": v, "dtype": to}, f"{v.name}_joined") for v in parts]
            steps[-1:] = [*casts, step]
            parts = [cast.outs[0] for cast in casts]
        step.args["tensors"] = parts
        if len(parts) == 1:
            same[step.outs[0]] = parts[0]
    program.steps = steps
    program.substitute(same)


def _library_switches(program: Program) -> None:
    """The use of cuDNN, and devices, were recorded from the exporting machine: allows the one, drops the others."""
    for step in program.steps:
        for a in step.op._schema.arguments:
            if a.name in ("cudnn_enable", "cudnn_enabled"):
                step.args[a.name] = True
            if a.name in ("device", "pin_memory", "layout", "non_blocking"):
                if step.args.get("layout") not in (None, torch.strided):
                    raise Refused(
                        f"it makes a tensor of layout {step.args['layout']}{step.where}; a task has dense tensors: make "
                        "it without a layout"
                    )
                step.args.pop(a.name, None)


def _nothing_done(step: Step) -> bool:
    name, args = step.name, step.args
    if name in ("aten::alias", "aten::detach", "aten::lift", "aten::lift_fresh", "aten::lift_fresh_copy"):
        return True
    if name in _DROPOUTS:
        p, train = args.get("p", 0.5), args.get("train", True)
        return not train or (p == 0 and name != "aten::native_dropout")
    if name in ("aten::pad", "aten::constant_pad_nd"):
        return not any(args["pad"])
    first = next(step.reads(), None)
    if first is None or not step.outs[0]:
        return False
    result = step.outs[0]
    if name.startswith(("aten::to.", "aten::type_as", "aten::_to_copy", "aten::expand", "aten::contiguous")):
        kept = args.get("memory_format") in (None, torch.preserve_format, torch.contiguous_format)
        same = first.fake.dtype == result.fake.dtype and first.fake.shape == result.fake.shape
        return same and first.fake.stride() == result.fake.stride() and kept
    return False


def _memory_formats(program: Program) -> None:
    """A layout that a conversion asks for is a wish for speed, which the search decides: a task's tensors are
    contiguous where nothing transposes them."""
    formats = (torch.channels_last, torch.channels_last_3d)
    asking = [
        s
        for s in program.steps
        if s.args.get("memory_format") in formats
        or (s.args.get("memory_format") is torch.contiguous_format and s.name.startswith(("aten::to.", "aten::_to_copy")))
    ]
    for step in asking:
        # Where the type stays, too, the conversion does nothing.
        step.op, step.args = aten.to.dtype, {"self": next(step.reads()), "dtype": step.outs[0].fake.dtype}
    if asking:
        program.type_steps()


def _drop_what_does_nothing(program: Program) -> None:
    program.substitute(
        {step.outs[0]: next(step.reads()) for step in program.steps if step.outs[0] and _nothing_done(step)}
    )


def _plain_factories(program: Program) -> None:
    """Replaces factories that take shape and type from a tensor by those that state them."""
    for step in program.steps:
        outright = record_of(step).get("outright")
        if not outright or not step.outs[0]:
            continue
        result = step.outs[0].fake
        given: dict[str, Any] = {"size": list(result.shape), "dtype": result.dtype}
        if "full" in step.name:
            given["fill_value"] = step.args["fill_value"]
        step.op, step.args = overload(outright), given


def _one_number(v: Any) -> float | int | bool | None:
    """The number of a constant tensor without dimensions, or a plain number."""
    if isinstance(v, Value) and v.kind == "constant" and v.data is not None and v.data.dim() == 0:
        return v.data.item()
    return v if isinstance(v, (int, float)) and not isinstance(v, bool) else None


def _scalar_overloads(program: Program) -> None:
    """Uses overloads with numbers: x * 2 was recorded as mul.Tensor with a number, and
    torch.min(x, torch.tensor(2.0)) with a tensor of one element."""
    for step in program.steps:
        record = record_of(step)
        if "with_number" not in record:
            continue
        first, second = argument_names(step.op)[:2]
        own, given = step.args.get(first), step.args.get(second)
        if "commutes" in record and _one_number(own) is not None and step.args.get("alpha", 1) == 1:
            own, given = given, own
        number = _one_number(given)
        if not isinstance(own, Value) or number is None or _one_number(own) is not None:
            continue
        # A tensor of one element may be of a type that makes another one of the result on the way, as float64 of integers.
        if isinstance(given, Value) and torch.result_type(own.fake, number) != torch.result_type(own.fake, given.data):
            continue
        op = overload(record["with_number"])
        own_name, number_name = argument_names(op)[:2]
        kept = {k: v for k, v in step.args.items() if k not in (first, second)}
        args = {own_name: own, number_name: number, **kept}
        with program.mode:
            given = {k: v.fake if isinstance(v, Value) else v for k, v in args.items()}
            if call_by_schema(op, given).dtype != step.outs[0].fake.dtype:
                continue
        step.op, step.args = op, args


def _is_random(step: Step) -> bool:
    if step.name == "aten::scaled_dot_product_attention":
        return step.args.get("dropout_p", 0.0) > 0
    if kind_of(step) == "recurrent" and "dropout" in step.args:
        return bool(step.args["train"]) and step.args["dropout"] > 0 and step.args["num_layers"] > 1
    if step.name in _DROPOUTS or step.name.startswith("aten::rrelu"):
        return True  # those that do nothing were removed before
    return torch.Tag.nondeterministic_seeded in step.op.tags


def _live_randomness(program: Program) -> None:
    """Removes randomness that no output depends on; refuses the rest."""
    undecided = undecided_by(program)
    removed: dict[Value, Value] = {}
    for step in program.steps:
        if not _is_random(step):
            continue
        if any(out in undecided for out in step.outs if out is not None) or step.name not in _DROPOUTS:
            p = next((step.args[k] for k in ("p", "dropout_p", "dropout") if k in step.args), None)
            what = op_name(step.op) + (f" with p = {p:g}" if isinstance(p, (int, float)) else "")
            raise Refused(
                f"its result depends on live randomness ({what}){step.where}; set the probability to 0, call .eval() in "
                "Model.__init__, or make the random tensor an input"
            )
        removed[step.outs[0]] = next(step.reads())
    program.substitute(removed)


def _uninitialized(program: Program) -> None:
    for step in program.steps:
        if step.name.startswith(("aten::empty", "aten::new_empty")):
            raise Refused(
                f"its result depends on uninitialised memory ({op_name(step.op)}){step.where}; use zeros"
            )


def _fold(program: Program) -> None:
    """Subgraphs that depend only on the definition become constants."""
    folded: dict[Value, Value] = {}
    for step in program.steps:
        reads = [folded.get(v, v) for v in step.reads()]
        if (
            any(v.kind != "constant" for v in reads)
            or _is_random(step)
            or step.name.startswith("aten::empty")
        ):
            continue
        outs = [out for out in step.outs if out is not None]
        size = max((out.fake.numel() * out.fake.element_size() for out in outs), default=0)
        source = max((v.data.numel() * v.data.element_size() for v in reads), default=_FOLDED_BYTES)
        if size > _FOLDED_BYTES or (size > _SMALL_BYTES and may_share_memory(step.op) and size > source):
            continue
        results = step.call(lambda v: folded.get(v, v).data)
        for out, data in zip(step.outs, results):
            if out is not None:
                dense = data.contiguous()
                folded[out] = Value(f"constant_{out.name}", program.mode.from_tensor(dense), "constant", dense)
                program.weights.append(folded[out])
    program.substitute(folded)
    program.drop_unused()


def _moves_nothing(step: Step) -> bool:
    """True if it is certainly a view."""
    return is_view(step) and (
        "may_copy" not in record_of(step) or next(step.reads()).fake.is_contiguous()
    )


def _merge_views(program: Program) -> None:
    """Views of views that leave every element where it was: one view, or none."""
    makers = program.makers()
    for step in program.steps:
        if step.name == "aten::_unsafe_view":
            step.op = aten.view.default
        size = {"aten::view": "size", "aten::reshape": "shape", "aten::expand": "size"}.get(step.name)
        if size:
            step.args[size] = list(step.outs[0].fake.shape)
    nothing: dict[Value, Value] = {}
    for step in program.steps:
        result, root = step.outs[0], next(step.reads(), None)
        if result is None or root is None or not _moves_nothing(step):
            continue
        while root in makers and _moves_nothing(makers[root]):
            root = next(makers[root].reads())
        if not (
            root.fake.is_contiguous()
            and result.fake.is_contiguous()
            and root.fake.dtype == result.fake.dtype
            and root.fake.numel() == result.fake.numel()
        ):
            continue
        if root.fake.shape == result.fake.shape:
            nothing[result] = root
        else:
            step.op, step.args = aten.view.default, {"self": root, "size": list(result.fake.shape)}
    program.substitute(nothing)


def _shared_heads(program: Program) -> None:
    """Attention whose keys, values or mask serve several heads, or batches: they are repeated, as views."""
    steps: list[Step] = []
    for step in program.steps:
        if step.name == "aten::scaled_dot_product_attention":
            operands = ("query", "key", "value")
            groups = torch.Size(())
            if not step.args.get("enable_gqa"):
                groups = torch.broadcast_shapes(*(step.args[name].fake.shape[:-2] for name in operands))
            for name in operands:
                shared = step.args[name]
                if shared.fake.shape[:-2] != groups and not step.args.get("enable_gqa"):
                    given = {"self": shared, "size": [*groups, *shared.fake.shape[-2:]]}
                    steps.append(program.step(aten.expand.default, given, f"{shared.name}_repeated"))
                    step.args[name] = steps[-1].outs[0]
            mask = step.args.get("attn_mask")
            while mask is not None and 2 < mask.fake.dim() < step.args["query"].fake.dim():
                steps.append(program.step(aten.unsqueeze.default, {"self": mask, "dim": 0}, f"{mask.name}_for_all"))
                mask = step.args["attn_mask"] = steps[-1].outs[0]
        steps.append(step)
    program.steps = steps


def own_outputs(program: Program) -> None:
    """Gives each output its own memory and name."""
    makers = program.makers()

    def owner(v: Value) -> Value:
        while v in makers and is_view(makers[v]):
            v = next(makers[v].reads())
        return v

    seen: set[Value] = set()
    for i, value in enumerate(program.outputs):
        if value in seen or owner(value).kind != "step":
            step = program.step(aten.clone.default, {"self": value}, f"output_{i}")
            program.steps.append(step)
            program.outputs[i] = step.outs[0]
        seen.add(program.outputs[i])


def _default(step: Step, a: torch._C.Argument) -> bool:
    """True if an argument may be omitted: it has its default or an equivalent value."""
    given, schema = step.args[a.name], a.default_value
    if not a.has_default_value():
        return False
    if step.op is aten.slice.Tensor and a.name in ("start", "end"):
        size = step.args["self"].fake.shape[step.args.get("dim", 0)]
        return (
            given is None
            or given == (0 if a.name == "start" else given)
            and (a.name == "start" or given >= size)
        )
    if isinstance(given, (list, tuple)) and isinstance(schema, int) and given:
        return all(x == schema for x in given)
    if isinstance(given, (list, tuple)) and isinstance(schema, (list, tuple)):
        return list(given) == list(schema)
    if isinstance(given, bool) or isinstance(schema, bool):
        return given is schema
    return type(given) is type(schema) and given == schema or _number(given) == _number(schema) is not None


def _number(x: Any) -> float | None:
    return float(x) if isinstance(x, (int, float)) else None


def leave_out_defaults(program: Program) -> None:
    for step in program.steps:
        known = {a.name: a for a in step.op._schema.arguments}
        step.args = {a: step.args[a] for a in known if a in step.args and not _default(step, known[a])}


def _refuse_other_types(program: Program) -> None:
    """fp8, uint16 and others that PyTorch has and a task's tensors have not."""
    for step in program.steps:
        other = next((out.fake.dtype for out in step.outs if out is not None and out.fake.dtype not in DTYPES), None)
        if other is not None:
            raise Refused(
                f"it computes a tensor of {dtype_name(other)} ({step.name}){step.where}, and a task's tensors are "
                f"{', '.join(map(dtype_name, DTYPES))}: leave that conversion out, or round to one of these"
            )


def make_task_program(program: Program, is_fixed: Any) -> None:
    """Changes the program in place. `is_fixed(value)`: true if a constant's values belong to the definition;
    the others become weights."""
    program.drop_unused()
    parameters = {w for w in program.weights if w.kind == "weight"}
    checked(program, _use_one_name)
    checked(program, _running_statistics)
    keep_states(program)
    program.drop_unused()
    for weight in program.weights:
        if weight.kind == "constant" and not is_fixed(weight):
            weight.kind = "weight"
        if weight.part:
            own = weight.target.removesuffix(f".{weight.part}")
            if weight.kind == "weight":
                raise Refused(f"its buffer {own} is complex and random; a task's weights are real: keep torch.view_as_real of it")
            weight.target = f"constant_{own}_{weight.part}"
    simplify(program)
    checked(program, products_of_matrices, parameters)
    checked(program, own_outputs)
    checked(program, leave_out_defaults)
    if not program.steps:
        raise Refused("it computes nothing: its outputs do not depend on its inputs")
    _refuse_other_types(program)


def simplify(program: Program) -> None:
    """What a program and the parts of a decomposed step need alike."""
    for rewrite in (
        _library_switches,
        _memory_formats,
        _drop_what_does_nothing,
        _plain_factories,
        writes_as_joins,
        _empty_parts,
        _shared_heads,
        Program.drop_unused,
        _fold,
        _scalar_overloads,
        numbers_as_tensors,
        masks_as_choices,
        _merge_views,
        Program.drop_unused,
    ):
        checked(program, rewrite)
    _live_randomness(program)  # has its own proof
    program.drop_unused()
    _uninitialized(program)
    checked(program, integers_in_floats)
