"""A graph of torch.export's as the steps of a program."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import itertools
import operator
from typing import Any, Callable

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from . import decompositions, lines, unsupported
from .autocasting import Region, casts_of
from .complex_numbers import Complex, Pairs, complex_in, is_complex, is_made_of_transforms, makes_complex
from .modules import calls_around
from .operators import argument_names, is_known
from .program import Program, Value, call_by_schema, map_values, op_name, values_in
from .refusal import Refused

aten = torch.ops.aten

# Views with several results, which become one view each.
_SPLITS = {
    aten.split.Tensor,
    aten.split.sizes,
    aten.split_with_sizes.default,
    aten.chunk.default,
    aten.unsafe_split.Tensor,
    aten.unsafe_split_with_sizes.default,
    aten.unsafe_chunk.default,
    aten.tensor_split.sections,
    aten.tensor_split.indices,
    aten.hsplit.int,
    aten.vsplit.int,
    aten.dsplit.int,
}


_VIEWS_IN_PLACE = {
    "transpose_": aten.transpose.int,
    "t_": aten.t.default,
    "squeeze_": aten.squeeze.default,
    "unsqueeze_": aten.unsqueeze.default,
}


@functools.cache
def _core_decompositions() -> dict[torch._ops.OpOverload, Callable]:
    """Of operators outside the core set of ATen's. The others are taken apart once the passes have seen them whole
    (rules.py)."""
    return torch._decomp.core_aten_decompositions()


@functools.cache
def _decompositions() -> dict[torch._ops.OpOverload, Callable]:
    """Ours, then PyTorch's own, those of its compilers first."""
    return {**torch._decomp.decomposition_table, **_core_decompositions(), **decompositions.ALL}


def has_parts(op: torch._ops.OpOverload) -> bool:
    return op._can_decompose() or op in _decompositions()


def line_of(node: torch.fx.Node) -> str:
    """Where the user's own file makes the call; "" where that is not known."""
    return lines.of_stack(node.meta.get("stack_trace") or "")


def _named(node: torch.fx.Node, name: str) -> torch.fx.Node:
    """The node, as far as steps are made of it, under another name."""
    other = copy.copy(node)
    other.name = name
    return other


def _functional_name(name: str) -> str:
    """Of an operator that changes its first argument: `add` of `add_`, `__and__` of `__iand__`. Others are their own."""
    if name.startswith("__i") and name.endswith("__"):
        return "__" + name.removeprefix("__i")
    return name.removesuffix("_")


class Reader:
    """Walks a graph and builds the program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.env: dict[torch.fx.Node, Any] = {}
        self.where = ""  # of the node that is being read
        self.calls: tuple = ()  # likewise
        self.casts: dict[tuple[Value, torch.dtype], Value] = {}  # that autocast has made
        self.same: dict[torch.fx.Node, torch.fx.Node] = {}  # another name of a tensor, and the one that it has it from

    def read(self, graph: torch.fx.Graph) -> None:
        for node in graph.nodes:
            if node.op == "call_function":
                self.where = line_of(node) or self.where
                if node.meta.get("nn_module_stack"):
                    self.calls = calls_around(node)
                self.env[node] = self._call(node)
            elif node.op not in ("placeholder", "output"):
                raise Refused(
                    f"its graph has a node of a kind that tasks cannot express ({node.op} {node.target}){self.where}; "
                    "write it with operators of torch"
                )

    def resolve(self, arg: Any) -> Any:
        if isinstance(arg, torch.fx.Node):
            return self.env[arg]
        if isinstance(arg, (list, tuple)):
            return [self.resolve(a) for a in arg]
        if isinstance(arg, torch.SymInt):
            raise Refused(f"its shapes depend on values{self.where}; a task's are numbers: compute with masks (torch.where)")
        return arg

    def _call(self, node: torch.fx.Node) -> Any:
        if node.target is operator.getitem:
            return self.resolve(node.args[0])[node.args[1]]
        op = node.target
        if not isinstance(op, torch._ops.OpOverload):
            unsupported.check_call(getattr(op, "__name__", ""), self.where)
            raise Refused(
                f"it calls {getattr(op, '__name__', op)}{self.where}, which is no operator of ATen; write it with those of torch"
            )
        if op.namespace == "profiler" or op._schema.name.startswith("aten::_assert"):
            return None
        if op.namespace != "aten":
            hint = ""
            if op_name(op).startswith("transformers::grouped_mm"):
                hint = ' (experts_implementation="batched_mm" in the model\'s configuration)'
            raise Refused(
                f"it calls {op_name(op)}{self.where}, and a task has operators of ATen alone: write it with those of "
                f"torch{hint}"
            )
        args = {a.name: self.resolve(v) for a, v in zip(op._schema.arguments, node.args)}
        args.update({k: self.resolve(v) for k, v in node.kwargs.items()})
        return self._emit(op, args, node)

    def _emit(self, op: torch._ops.OpOverload, args: dict[str, Any], node: torch.fx.Node) -> Any:
        if op._schema.is_mutable:
            return self._in_place(op, args, node)
        if op in (aten.copy.default, aten.fill.Tensor, aten.fill.Scalar, aten.zero.default):
            return self._laid_out(self._copied(args["self"], args.get("src", args.get("value", 0)), node), args["self"], node)
        if makes_complex(op) or any(is_complex(a) for a in args.values()):
            return self._complex(op, args, node)
        region = node.meta.get("autocast")
        if region is not None:
            cast = None if self._must_decompose(op) else self._cast(op, args, region, node)
            if cast is None:
                return self.decompose(op, args, node.name, region)
            args = cast
        if op in _SPLITS:
            return self._split(op, args, node)
        if op is aten.unbind.int:
            dim = args.get("dim", 0)
            return [
                self._add(
                    aten.select.int, {"self": args["self"], "dim": dim, "index": i}, f"{node.name}_{i}"
                )[0]
                for i in range(args["self"].fake.shape[dim])
            ]
        if op is aten.as_strided.default:
            return self._windows(args, node)
        if self._must_decompose(op):
            return self.decompose(op, args, node.name)
        return self._whole(op, args, node.name)

    def _distance(self, v: Value) -> int:
        """Between the values of a torch.arange from 0; else 0."""
        made = self.program.makers().get(v)
        if made is None or made.op is not aten.arange.start_step or made.args["start"] != 0:
            return 0
        return made.args.get("step", 1)

    def _windows(self, args: dict[str, Any], node: torch.fx.Node) -> Value:
        """as_strided of a dense tensor: windows along a dimension, or else elements by their places."""
        x, size, stride = args["self"], list(args["size"]), list(args["stride"])
        start = args.get("storage_offset")
        start = 0 if start is None else start - x.fake.storage_offset()
        dense = x.fake.is_contiguous()
        hops = stride[-2:-1]
        if dense and start == 0 and stride[-1:] == [1] and hops and len(size) == x.fake.dim() + 1:
            count = (x.fake.shape[-1] - size[-1]) // max(hops[0], 1) + 1
            leading = size[:-2] == list(x.fake.shape[:-1]) and stride[:-2] == list(x.fake.stride()[:-1])
            if leading and count == size[-2]:
                given = {"self": x, "dimension": -1, "size": size[-1], "step": hops[0]}
                return self._add(aten.unfold.default, given, node.name)[0]
        order = sorted(range(x.fake.dim()), key=lambda d: x.fake.stride(d), reverse=True)
        if start < 0 or not x.fake.permute(order).is_contiguous():
            raise Refused(f"it uses aten::as_strided of a tensor with gaps in memory{self.where}; call .contiguous() first")
        if not dense:
            x = self._add(aten.permute.default, {"self": x, "dims": order}, f"{node.name}_dense")[0]
        places = torch.full(size, start)
        for d, (n, step) in enumerate(zip(size, stride)):
            places += (torch.arange(n) * step).reshape([-1 if i == d else 1 for i in range(len(size))])
        flat = self._add(aten.reshape.default, {"self": x, "shape": [-1]}, f"{node.name}_flat")[0]
        name = f"places_{'x'.join(map(str, size))}_{'x'.join(map(str, stride))}_{start}"
        return self._add(aten.index.Tensor, {"self": flat, "indices": [self._constant(name, places)]}, node.name)[0]

    def _whole(self, op: torch._ops.OpOverload, args: dict[str, Any], name: str) -> Any:
        outs = self._add(op, args, name)
        returns = op._schema.returns
        if len(returns) == 1 and str(returns[0].type) == "Tensor":
            return outs[0]
        return outs

    def _complex(self, op: torch._ops.OpOverload, args: dict[str, Any], node: torch.fx.Node) -> Any:
        if op is aten.einsum.default or is_made_of_transforms(op):
            return self.decompose(op, args, node.name)
        self.program.rounds = True
        count = itertools.count()

        def emit(real: torch._ops.OpOverload, given: dict[str, Any]) -> Any:
            return self._emit(real, given, _named(node, f"{node.name}_{next(count)}"))

        return Pairs(emit, self.where, self._constant, self.program.transforms).of(op, args)

    def _constant(self, name: str, data: torch.Tensor) -> Value:
        """A table that steps read; one for all of that name."""
        name = f"constant_{name}"
        known = next((w for w in self.program.weights if w.name == name), None)
        if known is None:
            known = Value(name, self.program.mode.from_tensor(data), "constant", data)
            self.program.weights.append(known)
        return known

    def _cast(
        self, op: torch._ops.OpOverload, args: dict[str, Any], region: Region, node: torch.fx.Node
    ) -> dict[str, Any] | None:
        """The arguments as they are under autocast; None if the operator is to be decomposed there."""
        values = list(dict.fromkeys(v for a in args.values() for v in values_in(a)))

        def call(tensors: list[torch.Tensor]) -> Any:
            place = dict(zip(values, tensors))
            device = {torch.device: torch.device(region.device)}
            given = {k: map_values(device.get(type(a), a), lambda v: place[v]) for k, a in args.items()}
            return call_by_schema(op, given)

        fakes = [v.fake for v in values]
        dtypes = casts_of(call, fakes, region, self.program.mode)
        if region.device == "cpu":
            self.program.cpu_casts = True
        elif dtypes != casts_of(call, fakes, dataclasses.replace(region, device="cpu"), self.program.mode):
            self.program.unlike_cpu = True
        if dtypes is None:
            return None
        cast = {v: self._as(v, dtype, node) for v, dtype in zip(values, dtypes)}
        return {k: map_values(a, lambda v: cast[v]) for k, a in args.items()}

    def _as(self, v: Value, dtype: torch.dtype, node: torch.fx.Node) -> Value:
        if v.fake.dtype == dtype:
            return v
        if (v, dtype) not in self.casts:
            given = {"self": v, "dtype": dtype}
            self.casts[v, dtype] = self._add(aten.to.dtype, given, f"{node.name}_cast")[0]
        return self.casts[v, dtype]

    def _add(self, op: torch._ops.OpOverload, args: dict[str, Any], name: str) -> list[Value]:
        step = self.program.step(op, args, name)
        if any(isinstance(out.fake, torch.Tensor) and out.fake.is_complex() for out in step.outs):
            raise Refused(
                f"it computes {op_name(op)}{self.where}, which gives complex numbers; a task has real ones: compute their "
                "real and imaginary parts"
            )
        step.where, step.calls = self.where, self.calls
        self.program.steps.append(step)
        return step.outs

    def _split(self, op: torch._ops.OpOverload, args: dict[str, Any], node: torch.fx.Node) -> list[Value]:
        dims = {
            aten.hsplit.int: 1 if args["self"].fake.dim() > 1 else 0,
            aten.vsplit.int: 0,
            aten.dsplit.int: 2,
        }
        dim = dims.get(op, args.get("dim", 0))
        with self.program.mode:
            pieces = call_by_schema(op, {k: map_values(v, lambda x: x.fake) for k, v in args.items()})
        outs, start = [], 0
        for i, piece in enumerate(pieces):
            width = piece.shape[dim]
            given = {"self": args["self"], "dim": dim, "start": start, "end": start + width}
            outs += self._add(aten.slice.Tensor, given, f"{node.name}_{i}")
            start += width
        return outs

    def _in_place(self, op: torch._ops.OpOverload, args: dict[str, Any], node: torch.fx.Node) -> Value:
        """Adds the functional operator; from here on, reads of the target read its result."""
        target, old = node.args[0], args[op._schema.arguments[0].name]
        base = op._schema.name.removeprefix("aten::")
        if base in _VIEWS_IN_PLACE:
            given = dict(zip(argument_names(_VIEWS_IN_PLACE[base]), args.values()))
            return self._put(target, self._emit(_VIEWS_IN_PLACE[base], given, node), node)
        if op is aten.copy_.default:
            new = self._copied(old, args["src"], node)
        elif base in ("zero_", "fill_"):
            new = self._copied(old, args.get("value", 0), node)
        else:
            packet = getattr(aten, _functional_name(base), None)
            overload = getattr(packet, op._overloadname, None) if packet is not None else None
            if overload is None or overload._schema.is_mutable:
                raise Refused(
                    f"it uses {op_name(op)}{self.where}, which changes a tensor in place and has no functional form; "
                    "compute a new tensor"
                )
            # dropout_ calls its first argument otherwise than dropout does.
            renamed = dict(zip(argument_names(op), argument_names(overload)))
            new = self._emit(overload, {renamed[k]: v for k, v in args.items()}, node)
            if isinstance(new, Value) and new.fake.dtype != old.fake.dtype:
                new = self._add(aten.to.dtype, {"self": new, "dtype": old.fake.dtype}, f"{node.name}_same")[0]
        return self._put(target, self._laid_out(new, old, node), node)

    def _put(self, target: torch.fx.Node, new: Any, node: torch.fx.Node) -> Any:
        # Under all names of the tensor, and under none of another that holds the same value since a copy_.
        tensor = self._tensor(target)
        for other in list(self.env):
            if self._tensor(other) is tensor:
                self.env[other] = new
        self.same[node] = target
        return new

    def _tensor(self, node: torch.fx.Node) -> torch.fx.Node:
        """The first name of the tensor that a node is."""
        while node in self.same:
            node = self.same[node]
        return node

    def _laid_out(self, new: Value, old: Value, node: torch.fx.Node) -> Value:
        """What a dense tensor holds after a write: it stays one, and a view of it is one."""
        if isinstance(new, Complex):
            return new
        if new.fake.is_contiguous() or not old.fake.is_contiguous():
            return new
        given = {"self": new, "memory_format": torch.contiguous_format}
        return self._add(aten.clone.default, given, f"{node.name}_written")[0]

    def _copied(self, old: Value, source: Value | float, node: torch.fx.Node) -> Value:
        """What `old` is once it holds `source`, a number perhaps."""
        if isinstance(old, Complex):
            parts = (source.re, source.im) if isinstance(source, Complex) else (source, 0)
            return Complex(*(self._copied(a, b, node) for a, b in zip((old.re, old.im), parts)))
        if not isinstance(source, Value):
            full = {"size": list(old.fake.shape), "fill_value": source, "dtype": old.fake.dtype}
            return self._add(aten.full.default, full, node.name)[0]
        if source.fake.dtype != old.fake.dtype:
            given = {"self": source, "dtype": old.fake.dtype}
            source = self._add(aten.to.dtype, given, f"{node.name}_cast")[0]
        if source.fake.shape != old.fake.shape:
            source = self._add(
                aten.expand.default, {"self": source, "size": list(old.fake.shape)}, f"{node.name}_expand"
            )[0]
        return source

    def _must_decompose(self, op: torch._ops.OpOverload) -> bool:
        if op is aten.einsum.default:
            return True
        return not is_known(op) and (op._can_decompose() or op in _core_decompositions() or op in decompositions.ALL)

    def decompose(
        self, op: torch._ops.OpOverload, args: dict[str, Any], name: str, region: Region | None = None
    ) -> Any:
        """Adds an operator that the format lacks as those that ATen itself runs for it, or PyTorch's compilers."""
        as_others = op.decompose if op._can_decompose() and op not in decompositions.ALL else _decompositions()[op]
        if op is aten._embedding_bag_forward_only.default:
            self.program.rounds = True  # it sums in another order
            as_others = functools.partial(as_others, each=self._distance(args["offsets"]))
        values = list(dict.fromkeys(v for a in args.values() for v in (*values_in(a), *complex_in(a))))

        def run(*tensors: torch.Tensor) -> Any:
            place = dict(zip(values, tensors))
            given = {k: map_values(a, lambda v: place[v], (Value, Complex)) for k, a in args.items()}
            return call_by_schema(op, given, as_others)

        with self.program.mode, region.entered() if region is not None else contextlib.nullcontext():
            fakes = [v.fake() if isinstance(v, Complex) else v.fake for v in values]
            if region is not None and region.device != "cpu":
                fakes = [t.to(region.device) for t in fakes]
            inner = make_fx(run)(*fakes).graph
        to_prims = any(getattr(n.target, "namespace", "aten") == "prims" for n in inner.nodes)
        if to_prims and not any(isinstance(v, Complex) for v in values):
            return self._whole(op, args, name)  # its parts are no operators of ATen
        places = [n for n in inner.nodes if n.op == "placeholder"]
        reader = Reader(self.program)
        reader.where, reader.calls = self.where, self.calls
        reader.env = dict(zip(places, values))
        for n in inner.nodes:
            if n.op == "call_function":
                n.name = f"{name}_{n.name}"
        reader.read(inner)
        return reader.resolve(next(n for n in inner.nodes if n.op == "output").args[0])
