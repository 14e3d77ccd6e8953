"""A program of cudal1 as a function of Python, written once as text: a line for each step, so that a call runs no
interpreter of ours. Steps are calls of ATen's operators, allocations, and launches of kernels that a library of
kernels_cpu.py or kernels_cuda.py has loaded."""

from __future__ import annotations

from typing import Any, Callable

import torch

_FLOATING = ("float16", "bfloat16", "float32", "float64")
ALIGNMENT_BYTES = 16  # of what kernels read: they load vectors


class PackageError(RuntimeError):
    """What a package cannot do here; the text says what to do."""


class product_precision:
    """The precision that a step asks for of the libraries' products and convolutions, while it runs."""

    def __init__(self, wanted: str):
        self.tf32 = wanted == "tf32"

    def __enter__(self) -> None:
        matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
        self.before = matmul.allow_tf32, cudnn.allow_tf32
        matmul.allow_tf32 = cudnn.allow_tf32 = self.tf32

    def __exit__(self, *problem: Any) -> None:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = self.before


def dtype_of(name: str) -> torch.dtype:
    return getattr(torch, name)


def is_laid_out(t: torch.Tensor, declared: dict[str, Any]) -> bool:
    """Strides matter only in dimensions with more than one element."""
    wanted = declared["strides"]
    return all(n <= 1 or s == w for n, s, w in zip(t.shape, t.stride(), wanted))


def copied_as(t: torch.Tensor, declared: dict[str, Any]) -> torch.Tensor:
    return torch.empty_strided(t.shape, declared["strides"], dtype=t.dtype, device=t.device).copy_(t)


def laid_out_as(t: torch.Tensor, declared: dict[str, Any]) -> torch.Tensor:
    """Some operators lay their result out as the device likes (attention, on a GPU)."""
    return t if list(t.shape) != declared["shape"] or is_laid_out(t, declared) else copied_as(t, declared)


def expect(t: torch.Tensor, name: str, declared: dict[str, Any]) -> None:
    """Another version of PyTorch might lay a result out differently, and kernels rely on it."""
    found = (str(t.dtype).removeprefix("torch."), list(t.shape))
    if found != (declared["dtype"], declared["shape"]) or not is_laid_out(t, declared):
        raise PackageError(f"the step's result {name} is {found[0]} {found[1]} with strides {list(t.stride())}, and this "
                           f"program was made for {declared['dtype']} {declared['shape']} with {declared['strides']}; "
                           f"it was made with another version of PyTorch than {torch.__version__}")


def aligned(t: torch.Tensor) -> torch.Tensor:
    return t.clone() if t.data_ptr() % ALIGNMENT_BYTES else t


class _Writer:
    """Writes the function of one list of steps."""

    def __init__(self, document: dict[str, Any], library: Any, as_float64: bool, device: torch.device):
        self.head, self.types, self.views = document["head"], document["types"], document.get("views", {})
        self.relayout = set(document.get("relayout", []))
        self.library, self.as_float64, self.device = library, as_float64, device
        self.names: dict[str, str] = {}
        self.space: dict[str, Any] = {"torch": torch, "expect": expect, "laid_out_as": laid_out_as, "aligned": aligned,
                                      "empty_strided": torch.empty_strided, "product_precision": product_precision,
                                      "device": device}

    def name(self, value: str) -> str:
        return self.names.setdefault(value, f"v{len(self.names)}")

    def constant(self, what: Any) -> str:
        for name, known in self.space.items():
            if known is what:
                return name
        name = f"c{len(self.space)}"
        self.space[name] = what
        return name

    def dtype(self, name: str) -> torch.dtype:
        return torch.float64 if self.as_float64 and name in _FLOATING else dtype_of(name)

    # ---- steps

    def argument(self, kind: str, value: Any) -> str:
        if value is None:
            return "None"
        if "Tensor" in kind:
            if isinstance(value, str):
                return self.names[value]
            return "[" + ", ".join("None" if not n else self.names[n] for n in value) + "]"
        if isinstance(value, str):
            if value in ("inf", "-inf", "nan"):
                return f"float('{value}')"
            if value == "strided":
                return "torch.strided"
            if hasattr(torch, value) and isinstance(getattr(torch, value), (torch.dtype, torch.memory_format)):
                found = getattr(torch, value)
                return self.constant(self.dtype(value) if isinstance(found, torch.dtype) else found)
        return repr(value)

    def aten(self, step: dict[str, Any]) -> list[str]:
        space, _, rest = step["aten"].partition("::")
        packet, _, overload = rest.partition(".")
        if space != "aten":
            raise PackageError(f"it calls {step['aten']}, which is no operator of PyTorch")
        args = dict(step["args"])
        if packet == "view":  # a result of another layout than the measured one may need a copy
            packet, args = "reshape", {"self": args["self"], "shape": args["size"]}
        op = getattr(getattr(torch.ops.aten, packet), overload or "default")
        texts, in_order = [], True  # by position until one is left out
        for a in op._schema.arguments:
            given = a.name in args
            if given:
                text = self.argument(str(a.type), args[a.name])
                texts.append(text if in_order and not a.kwarg_only else f"{a.name}={text}")
            elif a.name == "device" and self.device.type != "cpu":
                texts.append("device=device")  # a factory's default is the CPU
            in_order = in_order and given and not a.kwarg_only
        results = [self.name(r) if r else "_" for r in step["out"]]
        is_list = str(op._schema.returns[0].type) == "List[Tensor]"
        line = f"{', '.join(results)}{',' if is_list else ''} = {self.constant(op)}({', '.join(texts)})"
        lines = [line]
        if step.get("precision"):
            lines = [f"with product_precision({step['precision']!r}):", "    " + line]
        for value, bound in zip(step["out"], results):
            if value and value in self.relayout and not self.as_float64:
                lines.append(f"{bound} = laid_out_as({bound}, {self.constant(self.types[value])})")
        return lines

    def launch(self, step: dict[str, Any]) -> list[str]:
        tensors = [next(a[k] for k in ("in", "out", "inout") if k in a) for a in step["args"]
                   if not a.keys().isdisjoint(("in", "out", "inout"))]
        call = self.constant(self.library.launcher(step, [self.types[t] for t in tensors]))
        return [f"{call}({', '.join(self.names[t] for t in tensors)})"]

    def alloc(self, step: dict[str, Any]) -> list[str]:
        declared = self.types[step["alloc"]]
        return [f"{self.name(step['alloc'])} = empty_strided({tuple(declared['shape'])}, {tuple(declared['strides'])}, "
                f"dtype={self.constant(self.dtype(declared['dtype']))}, device=device)"]

    def step(self, step: dict[str, Any]) -> list[str]:
        if "aten" in step:
            return self.aten(step)
        return self.launch(step) if "launch" in step else self.alloc(step)

    # ---- functions

    @staticmethod
    def used(step: dict[str, Any]) -> list[str]:
        found: list[str] = list(step.get("out", []))
        if "aten" in step:
            schema = getattr(torch.ops.aten, step["aten"].partition("::")[2].partition(".")[0])
            overload = getattr(schema, step["aten"].partition(".")[2] or "default")
            kinds = {a.name: str(a.type) for a in overload._schema.arguments}
            for key, value in step["args"].items():
                if "Tensor" in kinds.get(key, "") and value is not None:
                    found += [value] if isinstance(value, str) else list(value)
        elif "launch" in step:
            found += [a[k] for a in step["args"] for k in ("in", "out", "inout") if k in a]
        else:
            found.append(step["alloc"])
        return [n for n in found if n]

    def body(self, steps: list[dict[str, Any]], kept: set[str], checked: bool) -> list[str]:
        """`kept`: values that live on. Others are deleted behind their last use, which frees their memory."""
        last = {name: i for i, s in enumerate(steps) for name in self.used(s)}
        lines = []
        for i, s in enumerate(steps):
            lines += self.step(s)
            if checked and "aten" in s:
                lines += [f"expect({self.names[r]}, {r!r}, {self.constant(self.types[r])})" for r in s["out"] if r]
            gone = sorted({self.names[n] for n in self.used(s) if last[n] == i and n not in kept})
            if gone:
                lines.append(f"del {', '.join(gone)}")
        return lines

    def aligned_lines(self, steps: list[dict[str, Any]], declared: list[dict[str, Any]]) -> list[str]:
        launched = {n for s in steps if "launch" in s for n in self.used(s)}
        roots = {self.views.get(n, n) for n in launched}
        return [f"{self.names[d['name']]} = aligned({self.names[d['name']]})" for d in declared if d["name"] in roots]

    def function(self, name: str, parameters: list[list[str]], lines: list[str]) -> Callable:
        """A function of lists of tensors."""
        text = f"def {name}({', '.join(f'l{i}' for i in range(len(parameters)))}):\n"
        for i, values in enumerate(parameters):
            if values:
                text += f"    {', '.join(self.name(v) for v in values)}, = l{i}\n"
        text += "".join(f"    {line}\n" for line in lines)
        exec(compile(text, f"<{self.head['name']}.{name}>", "exec"), self.space)
        return self.space[name]


def _names(declared: list[dict[str, Any]]) -> list[str]:
    return [d["name"] for d in declared]


class Function:
    """A program on one device: setup(weights) and steps(inputs, weights, kept) as functions of lists of tensors."""

    def __init__(self, document: dict[str, Any], library: Any, device: torch.device, as_float64: bool = False):
        head = document["head"]
        self.inputs, self.weights = head["inputs"], head.get("weights", [])
        setup = head.get("setup", [])
        made = list(dict.fromkeys(n for s in setup for n in s.get("out", [s.get("alloc", "")]) if n))
        read = {n for s in head["steps"] for n in _Writer.used(s)} | set(head["outputs"])
        self.kept = [n for n in made if n in read]
        self.has_setup = bool(setup)
        checked = library is not None and not as_float64
        self._checked = self._steps = None
        w = _Writer(document, library, as_float64, device)
        names = _names(self.inputs), _names(self.weights)
        owned = {*names[0], *names[1], *self.kept, *head["outputs"]}
        for n in [*names[0], *names[1]]:
            w.name(n)
        if setup:
            lines = w.aligned_lines(setup, self.weights) + w.body(setup, {*names[1], *made}, checked)
            lines.append(f"return [{', '.join(w.names[n] for n in self.kept)}]")
            self._setup = w.function("setup", [names[1]], lines)
        result = self._result(w, document, [*names[0], *names[1], *self.kept])
        for how in ("checked", "steps") if checked else ("steps",):
            for n in self.kept:
                w.name(n)
            lines = w.aligned_lines(head["steps"], [*self.inputs, *self.weights])
            lines += w.body(head["steps"], owned, how == "checked") + [result(w)]
            setattr(self, f"_{how}", w.function(how, [names[0], names[1], self.kept], lines))

    @staticmethod
    def _result(w: _Writer, document: dict[str, Any], others: list[str]) -> Callable:
        """Outputs belong to the caller: what the program keeps, is given, or has returned already is cloned."""
        taken = set(others)

        def text(writer: _Writer) -> str:
            own, items = set(taken), []
            for n in document["head"]["outputs"]:
                root = document.get("views", {}).get(n, n)
                items.append(writer.names[n] + (".clone()" if root in own else ""))
                own.add(root)
            return f"return [{', '.join(items)}]"

        return text

    def setup(self, weights: list[torch.Tensor]) -> list[torch.Tensor]:
        return self._setup(weights) if self.has_setup else []

    def is_checked(self) -> bool:
        """Whether the layouts of its steps' results have been compared with the measured ones."""
        return self._checked is None

    def steps(self, inputs: list[torch.Tensor], weights: list[torch.Tensor],
              kept: list[torch.Tensor]) -> list[torch.Tensor]:
        if self._checked is not None:
            outputs = self._checked(inputs, weights, kept)
            self._checked = None  # the layouts of results follow from those of the inputs
            return outputs
        return self._steps(inputs, weights, kept)


def reference_document(task: dict[str, Any]) -> dict[str, Any]:
    """A task's own program, of ATen's operators alone, as Function takes it: its results are as PyTorch makes them."""
    return {"head": {k: task.get(k, []) for k in ("inputs", "weights", "steps", "outputs")} | {"name": task["name"]},
            "types": {}, "views": task.get("views", {})}


def float64_of(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [t.double() if t.is_floating_point() else t for t in tensors]
