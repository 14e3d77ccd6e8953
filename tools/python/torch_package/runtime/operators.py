"""A variant of a package as an operator of PyTorch, cudal1::NAME(Tensor[] inputs, Tensor[] weights) -> Tensor[]: with a
fake kernel, so that torch.compile and torch.export go through it, and with gradients, which are those of the task's own
program, computed again from the inputs by torch.autograd."""

from __future__ import annotations

import ctypes
import hashlib
import threading
from typing import Any, Callable

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from . import native
from .program import Function, PackageError, is_laid_out, reference_document

_MOST_STATES = 16  # sets of weights whose set-up is kept
_NO_DOUBLE_BACKWARD = ("{}: this operator's gradients have no gradients of their own (create_graph=True, double backward): "
                       "call the model's own forward for them, as `with package.eager():` does")


def _plain_mode(device_type: str) -> Any:
    """Nothing is cast, as when the program was measured."""
    return torch.autocast(device_type, enabled=False)


class _with_autograd:
    """Lets operators record gradients inside of an operator's own kernel, where PyTorch leaves them out."""

    def __enter__(self) -> None:
        excluded = torch._C._dispatch_tls_local_exclude_set()
        for key in ("AutogradCPU", "AutogradCUDA", "AutogradOther", "AutogradMeta", "ADInplaceOrView"):
            excluded = excluded.remove(getattr(torch._C.DispatchKey, key))
        self._guard = torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded)
        self._guard.__enter__()
        self._grad = torch.enable_grad()
        self._grad.__enter__()

    def __exit__(self, *problem: Any) -> None:
        self._grad.__exit__(*problem)
        self._guard.__exit__(*problem)


class _State:
    """What set-up steps made of one set of weights, and how to see that these are still the same."""

    def __init__(self, addressed: list[torch.Tensor], watched: list[torch.Tensor]):
        # A weak reference keeps the address of the storage from being another's.
        self.storages = [StorageWeakRef(w.untyped_storage()) for w in addressed]
        self.versions = [w._version for w in watched]
        self.kept: list[torch.Tensor] = []
        self.fits = True  # fixed buffers have the measured values
        self.graph: Any = None

    def is_of(self, watched: list[torch.Tensor]) -> bool:
        return all([w._version == v for w, v in zip(watched, self.versions)]) and not self.is_gone()

    def is_gone(self) -> bool:
        return any([s.expired() for s in self.storages])


class Direct:
    """A function of inputs with one set of weights."""

    def __init__(self, function: Any, weights: list[torch.Tensor], kept: list[torch.Tensor], graph: Any = None):
        self.function, self.weights, self.kept, self.graph = function, weights, kept, graph

    def __call__(self, given: list[torch.Tensor]) -> list[torch.Tensor]:
        if self.graph is None or torch.cuda.is_current_stream_capturing():
            return self.function.steps(given, self.weights, self.kept)
        return self.graph(given)


class Operator:
    """One variant. `load(device)` gives the library of its kernels there (None: it has none), or raises PackageError.
    `plan`: what native.py runs; None where it cannot, and then the steps are lines of Python."""

    def __init__(self, name: str, document: dict[str, Any], load: Callable[[torch.device], Any], plan: str | None = None):
        self.name, self.document, self._plan = name, document, plan
        head = document["head"]
        self.inputs, self.weights = head["inputs"], head.get("weights", [])
        types = document["types"]
        self.outputs = [types[n] for n in head["outputs"]]
        self._input_types, self._weight_types = ([types[d["name"]] for d in ds] for ds in (self.inputs, self.weights))
        self.fixed: dict[int, str] = {int(i): digest for i, digest in document.get("fixed", {}).items()}
        self.is_graph = bool(head.get("execution", {}).get("graph"))
        self._load = load
        self._lock = threading.RLock()
        self._counting = threading.Lock()
        self._functions: dict[torch.device, Function] = {}
        self._problems: dict[torch.device, str] = {}
        self._references: dict[tuple[torch.device, bool], Function] = {}
        self._states: dict[tuple, _State] = {}
        self.watched = range(len(self.weights)) if head.get("setup") else sorted(self.fixed)
        self._counted = self.setups = self.reference_calls = 0
        self.operator = self._register()

    # ---- what runs where

    def problem_on(self, device: torch.device) -> str:
        """Why it cannot run there; "" if it can. The first time, this loads and perhaps compiles its kernels."""
        if device in self._functions:
            return ""
        with self._lock:
            if device not in self._functions and device not in self._problems:
                try:
                    self._functions[device] = self._function(self._load(device), device)
                except PackageError as e:
                    self._problems[device] = str(e)
            return self._problems.get(device, "")

    def _function(self, kernels: Any, device: torch.device) -> Any:
        if self._plan is None:
            return Function(self.document, kernels, device)
        return native.Function(self._plan, bool(self.document["head"].get("setup")), kernels, device)

    def reference(self, device: torch.device, as_float64: bool = False) -> Function:
        """The task's own program."""
        with self._lock:
            key = device, as_float64
            if key not in self._references:
                task = reference_document(self.document["reference"])
                self._references[key] = Function(task, None, device, as_float64)
            return self._references[key]

    def _state_of(self, function: Function, weights: list[torch.Tensor], device: torch.device) -> _State | None:
        """None where there is nothing to keep. Weights that an optimiser has changed have another version; a graph reads
        them where they are, so it needs to know only their addresses."""
        as_graph = self.is_graph and device.type == "cuda"
        if not self.watched and not as_graph:
            return None
        watched = [weights[i] for i in self.watched]
        addressed = weights if as_graph else watched
        if any([w.is_inference() for w in watched]):
            return self._made(function, weights, [], [])  # PyTorch counts no versions of these, so nothing is kept
        key = tuple([device, *[w.data_ptr() for w in addressed]])
        found = self._states.get(key)
        if found is not None and found.is_of(watched):
            return found
        with self._lock:
            found = self._states.get(key)
            if found is None or not found.is_of(watched):
                found = self._made(function, weights, addressed, watched)
                for gone in [k for k, s in self._states.items() if s.is_gone()]:
                    del self._states[gone]
                while len(self._states) >= _MOST_STATES:
                    del self._states[next(iter(self._states))]
                self._states[key] = found
            return found

    def _made(self, function: Function, weights: list[torch.Tensor], addressed: list[torch.Tensor],
              watched: list[torch.Tensor]) -> _State:
        on_gpu = weights and weights[0].device.type == "cuda"
        if on_gpu and torch.cuda.is_current_stream_capturing():
            raise PackageError(f"{self.name}: the first call, and one after weights have changed, must come before a CUDA "
                               "graph is captured: warm up with a call")
        state = _State(addressed, watched)
        state.fits = all(values_digest(weights[i]) == digest for i, digest in self.fixed.items())
        if state.fits:
            state.kept = self._set_up(function, weights)
            self.setups += function.has_setup
            if on_gpu:
                torch.cuda.current_stream(weights[0].device).synchronize()  # the next call may be on another stream
        return state

    def _set_up(self, function: Function, weights: list[torch.Tensor]) -> list[torch.Tensor]:
        return function.setup(weights)

    def run(self, inputs: list[torch.Tensor], weights: list[torch.Tensor]) -> list[torch.Tensor]:
        """Plain tensors in the declared forms; without gradients."""
        device = (inputs or weights)[0].device
        with torch.no_grad(), _plain_mode(device.type):
            if not self.problem_on(device) and self._has_layouts(inputs, weights):
                function = self._functions[device]
                with torch.cuda.device(device) if device.type == "cuda" else torch.no_grad():
                    state = self._state_of(function, weights, device)
                    if state is None or state.fits:
                        self.counted()
                        return self._run(function, inputs, weights, state)
            # A compiled caller has chosen this operator already, and gets the right values all the same.
            self.reference_calls += 1
            return self.reference(device).steps(inputs, weights, [])

    def _run(self, function: Function, inputs: list[torch.Tensor], weights: list[torch.Tensor],
             state: _State | None) -> list[torch.Tensor]:
        kept = state.kept if state is not None else []
        if not self.is_graph or not inputs or inputs[0].device.type != "cuda" or torch.cuda.is_current_stream_capturing():
            return function.steps(inputs, weights, kept)
        with self._lock:
            if state.graph is None:
                held = [w.detach() for w in weights]
                if isinstance(function, native.Function):
                    state.graph = function.graph(held, kept)
                else:
                    from .cuda_graph import Graph

                    function.steps(inputs, weights, kept)  # its results' layouts are checked in the first call
                    state.graph = Graph(lambda given: function.steps(given, held, kept), inputs)
        return state.graph(inputs)

    def direct(self, inputs: list[torch.Tensor], weights: list[torch.Tensor]) -> Direct | None:
        """What run() does with these weights and any inputs in the forms of these; None where that is nothing alone."""
        device = inputs[0].device
        function = self._functions.get(device)
        if function is None or not function.is_checked() or any([w.is_inference() for w in weights]):
            return None
        state = self._state_of(function, weights, device)
        if state is None:
            return Direct(function, weights, [])
        if not state.fits:
            return None
        if self.is_graph and device.type == "cuda":
            return Direct(function, weights, state.kept, state.graph) if state.graph is not None else None
        return Direct(function, weights, state.kept)

    def counted(self) -> None:
        with self._counting:
            self._counted += 1

    @property
    def calls(self) -> int:
        """That ran the variant."""
        return self._counted + sum([f.quick_calls() for f in self._functions.values() if isinstance(f, native.Function)])

    def _has_layouts(self, inputs: list[torch.Tensor], weights: list[torch.Tensor]) -> bool:
        return all([is_laid_out(t, d) for t, d in zip(inputs, self._input_types)]) and all(
            [is_laid_out(t, d) for t, d in zip(weights, self._weight_types)])

    # ---- the operator

    def _register(self) -> Any:
        backward, space = self.name + "_backward", torch.ops.cudal1
        known = getattr(space, "_cudal1_operators", None)
        if known is None:
            known = {}
            setattr(space, "_cudal1_operators", known)  # of the process, however often packages are loaded
        if self.name in known:
            known.pop(self.name)._destroy()
        library = torch.library.Library("cudal1", "FRAGMENT")
        # A compiler gives it tensors laid out as they were when it was traced.
        tags = (torch.Tag.pt2_compliant_tag, getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order))
        library.define(f"{self.name}(Tensor[] inputs, Tensor[] weights) -> Tensor[]", tags=tags)
        library.define(f"{backward}(Tensor[] gradients, Tensor[] inputs, Tensor[] weights, int[] wanted) -> Tensor[]",
                       tags=tags)
        library.impl(self.name, self._operate, "CompositeExplicitAutograd")
        library.impl(backward, self._recompute, "CompositeExplicitAutograd")
        own = f"cudal1::{self.name}"
        torch.library.register_fake(own, self._fake, lib=library)
        torch.library.register_fake(f"{own}_backward", self._fake_gradients, lib=library)
        torch.library.register_autograd(own, self._backward, setup_context=self._save, lib=library)
        torch.library.register_autograd(f"{own}_backward", self._refuse, lib=library)
        known[self.name] = library
        self._gradients = getattr(space, backward).default
        return getattr(space, self.name).default

    def _operate(self, inputs: list[torch.Tensor], weights: list[torch.Tensor]) -> list[torch.Tensor]:
        return self.run(inputs, weights)

    def _fake(self, inputs: list[torch.Tensor], weights: list[torch.Tensor]) -> list[torch.Tensor]:
        for kind, tensors, declared in (("input", inputs, self.inputs), ("weight", weights, self.weights)):
            if len(tensors) != len(declared):
                raise RuntimeError(f"cudal1::{self.name} takes {len(declared)} {kind}s, and was given {len(tensors)}")
            for t, d in zip(tensors, declared):
                if str(t.dtype) != f"torch.{d['dtype']}" or tuple(t.shape) != tuple(d["shape"]):
                    raise RuntimeError(f"{kind} {d['name']} is {t.dtype} {list(t.shape)}, and cudal1::{self.name} was made "
                                       f"for {d['dtype']} {d['shape']}")
        like = inputs[0] if inputs else weights[0]
        return [like.new_empty_strided(d["shape"], d["strides"], dtype=getattr(torch, d["dtype"])) for d in self.outputs]

    def _save(self, ctx: Any, inputs: Any, output: Any) -> None:
        given, weights = inputs
        ctx.count = len(given)
        ctx.save_for_backward(*given, *weights)

    def _backward(self, ctx: Any, gradients: list[torch.Tensor | None]) -> Any:
        saved = ctx.saved_tensors
        needs = [bool(n) for part in ctx.needs_input_grad for n in (part if isinstance(part, (list, tuple)) else [part])]
        wanted = [i for i, n in enumerate(needs) if n]
        like = next(g for g in gradients if g is not None)
        whole = [g if g is not None else like.new_zeros(d["shape"], dtype=getattr(torch, d["dtype"]))
                 for g, d in zip(gradients, self.outputs)]
        found = self._gradients(whole, list(saved[:ctx.count]), list(saved[ctx.count:]), wanted)
        all_: list[Any] = [None] * len(saved)
        for i, g in zip(wanted, found):
            all_[i] = g
        return all_[:ctx.count], all_[ctx.count:]

    def _recompute(self, gradients: list[torch.Tensor], inputs: list[torch.Tensor], weights: list[torch.Tensor],
                   wanted: list[int]) -> list[torch.Tensor]:
        if not wanted:
            return []
        with _with_autograd(), _plain_mode(gradients[0].device.type):
            flat = [t.detach().requires_grad_(i in wanted) for i, t in enumerate([*inputs, *weights])]
            outputs = self.reference(flat[0].device).steps(flat[:len(inputs)], flat[len(inputs):], [])
            pairs = [(o, g) for o, g in zip(outputs, gradients) if o.requires_grad]
            sources = [flat[i] for i in wanted]
            found = torch.autograd.grad([o for o, _ in pairs], sources, [g for _, g in pairs], allow_unused=True) \
                if pairs else [None] * len(sources)
        return [(torch.zeros_like(s) if g is None else g.contiguous()).detach() for g, s in zip(found, sources)]

    def _fake_gradients(self, gradients: list[torch.Tensor], inputs: list[torch.Tensor], weights: list[torch.Tensor],
                        wanted: list[int]) -> list[torch.Tensor]:
        flat = [*inputs, *weights]
        return [flat[i].new_empty(flat[i].shape) for i in wanted]

    def _refuse(self, ctx: Any, gradients: Any) -> Any:
        raise RuntimeError(_NO_DOUBLE_BACKWARD.format(self.name))


def values_digest(t: torch.Tensor) -> str:
    """SHA-256 of a tensor's values, wherever it is and however it lies."""
    flat = t.detach().cpu().contiguous()
    return hashlib.sha256(ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size())).hexdigest()
