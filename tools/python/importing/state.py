"""What forward changes: tensors of its module, other attributes, its inputs; and which of it its results depend on."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import functools
from typing import Any, Callable, Iterator

import torch

from . import lines
from .known_values import KnownValues
from .masked_rows import MaskedRows
from .program import Program, Value
from .refusal import Refused

_OWN = {*torch.nn.Module().__dict__, "forward"}  # what every module has
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclasses.dataclass(eq=False)
class Change:
    """A tensor that is another one after a call. `kind`, as a task's file has it: assigned, in_place, argument."""

    path: str  # in the module, or an argument's name
    kind: str
    old: Value | None  # None where nothing in the graph reads it
    new: Value


@dataclasses.dataclass(eq=False)
class State:
    """A change that later calls can see: a pair of an input and an output of the program."""

    path: str
    kind: str
    input: Value
    output: int  # a place among the program's outputs


def _attributes(model: torch.nn.Module) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Path, dictionary and key of all that a module holds but parameters and modules. PyTorch's own modules keep
    nothing but buffers from call to call."""
    for prefix, module in model.named_modules():
        held = [module._buffers]
        if type(module) is torch.nn.Module or not type(module).__module__.startswith("torch."):
            held.append(module.__dict__)
        for attributes in held:
            for name in attributes:
                if attributes is module._buffers or name not in _OWN:
                    yield f"{prefix}.{name}".lstrip("."), attributes, name


def _is_row(value: Any) -> bool:
    """A tuple or a list of tensors, as the hidden state of an LSTM is."""
    return type(value) in (tuple, list) and all(isinstance(item, torch.Tensor) for item in value)


def attribute(model: torch.nn.Module, path: str) -> torch.Tensor:
    """"cell.hidden", or "cell.hidden.1" of a tuple or a list."""
    at: Any = model
    for word in path.split("."):
        at = at[int(word)] if _is_row(at) else getattr(at, word)
    return at


_DICTIONARIES = (dict, collections.OrderedDict, collections.defaultdict)


def _copied(value: Any) -> Any:
    """Python's own containers anew, with what is in them. A library's may be made otherwise (from other arguments, or
    once for all), so they are copied as they say, if they can be."""
    if type(value) in (list, tuple):
        return type(value)([_copied(item) for item in value])
    if type(value) in _DICTIONARIES:
        other = copy.copy(value)
        other.update({key: _copied(item) for key, item in value.items()})
        return other
    if isinstance(value, (list, dict)):
        try:
            return copy.copy(value)
        except Exception:  # noqa: BLE001: whatever its class does
            return value
    return value


def _same(a: Any, b: Any) -> bool:
    """Whether an attribute says what it said before. Objects that are neither tensors nor plain values are not looked
    into: a model's own calls, compared with the program's, tell whether they matter."""
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return a is b
    if isinstance(a, _PLAIN) or isinstance(b, _PLAIN):
        return type(a) is type(b) and (a == b or a != a)
    try:
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
        if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
            return len(a) == len(b) and all(map(_same, a, b))
    except Exception:  # noqa: BLE001: a library's own class, which has no length or keys
        return True
    return True


def hold_tensors(others: dict[str, tuple[Any, Any]]) -> bool:
    """Whether attributes hold tensors after a call, and no numbers that count the calls."""
    leaves = [torch.utils._pytree.tree_leaves(after) for _, after in others.values()]
    return all(isinstance(x, torch.Tensor) for items in leaves for x in items) and any(leaves)


class Watch:
    """Looks at what a call of forward leaves behind, and puts it back as it was."""

    def __init__(self, model: torch.nn.Module, check_result: Callable[[Any], None]) -> None:
        self.model, self.check_result = model, check_result
        self.result: Any = None  # of the last call
        self.assigned: dict[str, torch.Tensor] = {}  # tensors in place of others
        self.others: dict[str, tuple[Any, Any]] = {}  # anything else: before and after
        self.lines: dict[str, str] = {}  # of the user's source, where an attribute is set
        self.chosen_rows = False  # whether masks chose rows, all of which are computed
        self.asked: set[str] = set()  # whose values decided what was recorded
        self._tensors = {path: held[key] for path, held, key in _attributes(model) if isinstance(held[key], torch.Tensor)}
        # By address, since torch.export knows tensors in containers by no name.
        self.in_rows: dict[int, str] = {}
        for path, held, key in _attributes(model):
            for i, item in enumerate(held[key] if _is_row(held[key]) else ()):
                self.in_rows[item.data_ptr()] = f"{path}.{i}"

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """While it is, forward returns a pair where it assigns tensors: its result, and these."""
        forward, set_attribute = self.model.forward, torch.nn.Module.__setattr__
        names = {id(module): prefix for prefix, module in self.model.named_modules()}

        @functools.wraps(forward)
        def run(*args: Any, **kwargs: Any) -> Any:
            before = {path: (held, key, _copied(held[key])) for path, held, key in _attributes(self.model)}
            with MaskedRows() as rows, KnownValues(self._with_values(), self.asked):
                self.result = forward(*args, **kwargs)
            rows.check_result(self.result)
            self.chosen_rows = rows.chose
            self.check_result(self.result)
            self._compare(before)
            return (self.result, list(self.assigned.values())) if self.assigned else self.result

        def noted(module: torch.nn.Module, name: str, value: Any) -> None:
            path = f"{names.get(id(module), '')}.{name}".lstrip(".")
            self.lines.setdefault(path, lines.of_caller())
            set_attribute(module, name, value)

        self.model.__dict__["forward"] = run
        torch.nn.Module.__setattr__ = noted
        try:
            yield
        finally:
            torch.nn.Module.__setattr__ = set_attribute
            del self.model.__dict__["forward"]

    def _with_values(self) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """Tensors as a recording has them, and as the model has them."""
        return {path: (held[key], self._tensors[path]) for path, held, key in _attributes(self.model) if path in self._tensors}

    def check_asked(self, program: Program, is_fixed: Callable[[Value], bool]) -> None:
        """Refuses a model where a branch depends on what it changes, or on what is drawn."""
        changed = {c.path for c in program.changes} | self.others.keys() | self.assigned.keys()
        for path in sorted(self.asked):
            tensor = self._tensors[path]
            value = Value(path, program.mode.from_tensor(tensor), "constant", tensor, path)
            if path in changed:
                raise Refused(
                    f"its shapes or its control flow depend on {self.where(path)}, which forward changes; a task's steps are the "
                    "same in every call, so compute with masks (torch.where) instead"
                )
            if not is_fixed(value):
                raise Refused(
                    f"its shapes or its control flow depend on the values of {self.where(path)}, which are random: make them the "
                    "same whatever the seed"
                )

    def _compare(self, before: dict[str, tuple[dict, str, Any]]) -> None:
        self.assigned.clear()
        self.others.clear()
        after = {path: (held, key, held[key]) for path, held, key in _attributes(self.model)}
        for path, (held, key, value) in after.items():
            if path not in before:
                self.others[path] = (None, value)
                del held[key]
        for path, (held, key, old) in before.items():
            new = after[path][2] if path in after else None
            if _same(old, new):
                continue
            held[key] = old
            if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
                self.assigned[path] = new
            elif _is_row(old) and type(old) is type(new) and _is_row(new) and len(old) == len(new):
                self.assigned.update({f"{path}.{i}": b for i, (a, b) in enumerate(zip(old, new)) if a is not b})
            else:
                self.others[path] = (old, new)

    def where(self, path: str) -> str:
        owner, _, name = path.rpartition(".")
        line = self.lines.get(path) or self.lines.get(owner)
        if not line:
            modules = dict(self.model.named_modules())
            line = lines.of_change(modules.get(owner, self.model).forward, name)
        return f"self.{path}{line}"

    def read_by(self, program: Program) -> bool:
        """Whether a program as it was recorded reads a tensor in an attribute that is kept in no other way."""
        read = {v.data.data_ptr() for v in program.weights if v.data is not None}
        before = torch.utils._pytree.tree_leaves([old for old, _ in self.others.values()])
        return any(t.data_ptr() in read for t in before if isinstance(t, torch.Tensor))


def _needed(program: Program, outputs: list[Value]) -> set[Value]:
    needed = set(outputs)
    for step in reversed(program.steps):
        if any(out in needed for out in step.outs if out is not None):
            needed.update(step.reads())
    return needed


def _described(v: Value) -> str:
    return f"{str(v.fake.dtype).removeprefix('torch.')}{list(v.fake.shape)}"


def keep_states(program: Program) -> None:
    """Makes inputs and outputs of the changes that a later call can see, and forgets the others: what no result
    depends on, neither in the same call nor in one after it."""
    kept = [c for c in program.changes if c.kind == "argument"]
    while True:
        needed = _needed(program, [*program.outputs, *(c.new for c in kept)])
        more = [c for c in program.changes if c not in kept and c.old is not None and c.old in needed]
        if not more:
            break
        kept += more
    for change in kept:
        assert change.old is not None
        if _described(change.old) != _described(change.new):
            raise Refused(
                f"{program.where(change.path)} is {_described(change.old)} before a call and "
                f"{_described(change.new)} after it; a task's tensors are of one type, so give it that type in "
                "__init__ already"
            )
        if any(change.old is s.input for s in program.states):
            raise Refused(
                f"{program.where(change.path)} and another attribute that forward changes are one tensor; clone it"
            )
        if change.kind != "argument":
            change.old.kind, change.old.name = "input", change.path
            program.weights.remove(change.old)
            program.inputs.append(change.old)
        if change.new not in program.outputs:
            program.outputs.append(change.new)
        program.states.append(
            State(change.path, change.kind, change.old, program.outputs.index(change.new))
        )
    program.dropped += [c.path for c in program.changes if c not in kept]
    program.changes = []


def put(model: torch.nn.Module, path: str, value: Any) -> None:
    *modules, name = path.split(".")
    for word in modules:
        model = getattr(model, word)
    setattr(model, name, value)


def like(value: Any, times: int, before: Any) -> Any:
    """A value that an attribute may have after some calls: what a call made of tensors is zeros in their place, and
    numbers go on as they went in the first."""
    if isinstance(value, torch.Tensor):
        return torch.zeros(value.shape, dtype=value.dtype)
    if type(value) in (list, tuple) or hasattr(value, "_fields"):
        items = [like(item, 1, None) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if type(value) in _DICTIONARIES:
        return {key: like(item, 1, None) for key, item in value.items()}
    plain = type(value) in (int, float) and type(before) in (int, float)
    return before + times * (value - before) if plain else value
