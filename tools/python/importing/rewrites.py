"""Steps that a task cannot have as they were recorded, written with others that give the same bits."""

from __future__ import annotations

import torch

from .program import Program, Step, Value, may_share_memory

aten = torch.ops.aten


def _results(program: Program, step: Step) -> list[torch.Tensor] | None:
    """Their types; None where PyTorch refuses the call."""
    with program.mode:
        try:
            return step.call(lambda v: v.fake)
        except (RuntimeError, ValueError, TypeError, NotImplementedError):
            return None


def _same_types(step: Step, results: list[torch.Tensor] | None) -> bool:
    return results is not None and all(
        out is None or (out.fake.dtype == r.dtype and out.fake.shape == r.shape) for out, r in zip(step.outs, results)
    )


def _as_tensor(program: Program, step: Step, argument: str) -> Step | None:
    """A number as a tensor without dimensions. In float64, which such a tensor does not impose on others, if that leaves
    the result's type as it is."""
    number = step.args[argument]
    kinds = [torch.bool] if isinstance(number, bool) else [torch.int64]
    if isinstance(number, float):
        kinds = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
    for dtype in kinds:
        full = program.step(
            aten.full.default, {"size": [], "fill_value": number, "dtype": dtype}, f"{step.op.__name__[:20]}_number"
        )
        changed = Step(step.op, {**step.args, argument: full.outs[0]}, step.outs, step.where)
        if _same_types(step, _results(program, changed)):
            step.args = changed.args
            return full
    return None


def numbers_as_tensors(program: Program) -> None:
    """Numbers where the schema has a tensor, as PyTorch's decompositions write 1 - x."""
    steps: list[Step] = []
    for step in program.steps:
        if step.op is aten.sub.Tensor and isinstance(step.args["other"], Value) and not isinstance(step.args["self"], Value):
            given = {"self": step.args["other"], "other": step.args["self"]}
            step.op, step.args = aten.rsub.Scalar, {**given, **{k: v for k, v in step.args.items() if k == "alpha"}}
        for a in step.op._schema.arguments:
            if str(a.type) == "Tensor" and isinstance(step.args.get(a.name), (bool, int, float)):
                full = _as_tensor(program, step, a.name)
                if full is not None:
                    steps.append(full)
        steps.append(step)
    program.steps = steps


def masks_as_choices(program: Program) -> None:
    """x[mask] = values, where no value depends on how many elements the mask chooses."""
    steps: list[Step] = []
    for step in program.steps:
        if step.op is aten.index_put.default and not step.args.get("accumulate"):
            steps += _choice(program, step)
        steps.append(step)
    program.steps = steps


def _choice(program: Program, step: Step) -> list[Step]:
    given = [(i, v) for i, v in enumerate(step.args["indices"]) if v is not None]
    (place, mask), *others = given
    own, values, name = step.args["self"], step.args["values"], step.outs[0].name if step.outs[0] else "put"
    rest = own.fake.dim() - place - mask.fake.dim()
    if others or mask.fake.dtype != torch.bool or (values.fake.dim() > rest and values.fake.numel() > 1):
        return []
    made = []
    if rest:
        size = [*mask.fake.shape, *([1] * rest)]
        made.append(program.step(aten.reshape.default, {"self": mask, "shape": size}, f"{name}_mask"))
        mask = made[-1].outs[0]
    if values.fake.dim() > rest:
        made.append(program.step(aten.reshape.default, {"self": values, "shape": []}, f"{name}_value"))
        values = made[-1].outs[0]
    step.op, step.args = aten.where.self, {"condition": mask, "self": values, "other": own}
    return made


def integers_in_floats(program: Program) -> None:
    """Integers of which an operator makes floats are converted before it: then the same steps in float64 make
    float64 of them."""
    steps: list[Step] = []
    converted: dict[tuple[Value, torch.dtype], Step] = {}
    for step in program.steps:
        reads = list(dict.fromkeys(step.reads()))
        result = next(out for out in step.outs if out is not None).fake.dtype
        makes_floats = result.is_floating_point and not any(v.fake.dtype.is_floating_point for v in reads)
        if reads and makes_floats and not any(isinstance(a, torch.dtype) for a in step.args.values()):
            for some in (reads, [v for v in reads if v.fake.dtype != torch.bool]):
                if some and (casts := _casts(program, step, some, result, converted)) is not None:
                    steps += casts
                    break
        steps.append(step)
    program.steps = steps


def _casts(
    program: Program,
    step: Step,
    some: list[Value],
    to: torch.dtype,
    converted: dict[tuple[Value, torch.dtype], Step],
) -> list[Step] | None:
    """The steps that convert `some` of what the step reads; None if it is another call then."""
    casts = {
        v: converted.get((v, to))
        or program.step(aten.to.dtype, {"self": v, "dtype": to}, f"{v.name}_float")
        for v in some
    }
    changed = Step(step.op, step.args, step.outs, step.where)
    changed.replace(lambda v: casts[v].outs[0] if v in casts else v)
    if not _same_types(step, _results(program, changed)):
        return None
    step.args = changed.args
    new = [cast for v, cast in casts.items() if (v, to) not in converted]
    converted.update({(v, to): cast for v, cast in casts.items()})
    return new


def _is_matrix(t: torch.Tensor) -> bool:
    """True if its dimensions but the last are one when they are merged, without a copy."""
    rows = [(size, stride) for size, stride in zip(t.shape[:-1], t.stride()[:-1]) if size != 1]
    return all(outer == inner_size * inner for (_, outer), (inner_size, inner) in zip(rows, rows[1:]))


def products_of_matrices(program: Program, parameters: set[Value]) -> None:
    """A batch that is no matrix in memory, as sequences that stand before their batch, is copied before a product with
    a parameter. So PyTorch does for tensors that require gradients; for others, as all of a task are, it would compute
    a batch of products with one and the same matrix, in several times the time."""
    operands = {aten.linear.default: ("input", "weight"), aten.matmul.default: ("self", "other")}
    makers, copies, steps = program.makers(), {}, []
    for step in program.steps:
        if step.op in operands:
            batch, matrix = (step.args[name] for name in operands[step.op])
            owner = matrix
            while owner in makers and may_share_memory(makers[owner].op):
                owner = next(makers[owner].reads())
            if owner in parameters and matrix.fake.dim() == 2 and batch.fake.dim() > 2 and not _is_matrix(batch.fake):
                if batch not in copies:
                    given = {"self": batch, "memory_format": torch.contiguous_format}
                    copies[batch] = program.step(aten.clone.default, given, f"{batch.name}_contiguous")
                    copies[batch].where, copies[batch].calls = step.where, step.calls
                    steps.append(copies[batch])
                step.replace(lambda v: copies[v].outs[0] if v in copies else v)
                program.type_results(step)
        steps.append(step)
    program.steps = steps
