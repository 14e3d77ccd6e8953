"""torch.compile(model, backend="cudal1"): each graph that TorchDynamo captures is searched, or taken from the store; where
the variant is measured to be faster than Inductor's code it runs, and Inductor's everywhere else. With gradients a graph is
two, a forward and a backward, each searched by itself.

    fast = torch.compile(model, backend="cudal1", options={"time_s": 60})
    fast(x)                                  # the first call searches
    print(cudal1.backend.report())           # what runs each graph, and why

The module is found by torch where the package is installed; else `import cudal1.backend` makes it known. Needs torch."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
import torch._dynamo

from .compiled_graph import CompiledGraph, alike, in_aten, problem_with, weights_of
from .errors import InvalidRequest
from .optimize import package_of

_OPTIONS = ("data", "evaluations", "precision", "program", "search", "show", "time_s")
_ROUNDS, _WARM_UP = 25, 3
_FASTER = 1.0  # the least of the interval of what runs in Inductor's place
_MOST_WEIGHTS = 64  # sets of weights of one graph, such as those of a model's layers


@dataclasses.dataclass
class Decision:
    """What runs a graph. Times are medians, in microseconds."""

    graph: str
    runs: str  # "cudal1" or "inductor"; "not called yet" where both are there
    why: str
    cudal1_us: float = 0.0
    inductor_us: float = 0.0
    interval: Tuple[float, float] = (1.0, 1.0)  # 95%, of how many times faster cudal1's is
    folder: str = ""  # of the package

    def __str__(self) -> str:
        times = f": {self.cudal1_us:.1f} us, inductor {self.inductor_us:.1f} us" if self.cudal1_us else ""
        return f"{self.graph}: {self.runs}, {self.why}{times}"


_decisions: List[Decision] = []
_numbers = itertools.count()


def report() -> List[Decision]:
    """One for each graph that was compiled in this process, in their order."""
    return list(_decisions)


def cudal1_backend(graph: torch.fx.GraphModule, inputs: Sequence[Any], *, options: Optional[Dict[str, Any]] = None,
                   mode: Optional[str] = None) -> Callable:
    """A backend of torch.compile. `options`: those of cudal1.optimize, without its model, inputs and folder, for each graph.
    `mode`: Inductor's, without gradients."""
    unknown = sorted(set(options or {}) - set(_OPTIONS))
    if unknown:
        raise InvalidRequest(f"the backend cudal1 has no option {unknown[0]}; it has {', '.join(_OPTIONS)}")
    name = f"graph {next(_numbers)}"
    if torch.is_grad_enabled() and any([isinstance(t, torch.Tensor) and t.requires_grad for t in inputs]):
        return _with_gradients(name, graph, inputs, options or {})
    why = problem_with(graph, inputs)
    weights = [] if why else weights_of(graph, inputs)
    if not why and len(weights) == len(inputs):
        why = "it has no input"
    decision = Decision(name, "inductor", why)
    _decisions.append(decision)
    ours = None
    if not why:
        ours = _searched(CompiledGraph(graph, weights, [inputs[i] for i in weights]), inputs, options or {}, decision)
    return _choice(ours, _inductor(graph, inputs, mode), decision)


def _inductor(graph: torch.fx.GraphModule, inputs: Sequence[Any], mode: Optional[str]) -> Callable:
    if mode in (None, "default"):
        return torch._dynamo.lookup_backend("inductor")(graph, inputs)
    from torch import _TorchCompileInductorWrapper

    return _TorchCompileInductorWrapper(mode, None, False)(graph, inputs)


def _searched(module: CompiledGraph, inputs: Sequence[torch.Tensor], options: Dict[str, Any],
              decision: Decision) -> Optional[_Variants]:
    """`inputs`: of the graph, weights among them."""
    weights = set(module.places)
    places = [i for i in range(len(inputs)) if i not in weights]
    try:
        package, folder = package_of(module, tuple([inputs[i] for i in places]), **options)
    except InvalidRequest as e:  # an operator that no task has, say
        decision.why = f"it cannot be searched: {e}"
        return None
    if package is None:
        decision.why = "no variant was found that is faster than its own operators"
        return None
    decision.folder, decision.runs = str(folder), "not called yet"
    return _Variants(package, module, places)


# ---- with gradients -------------------------------------------------------------------------------------------------


def _with_gradients(name: str, graph: torch.fx.GraphModule, inputs: Sequence[Any], options: Dict[str, Any]) -> Callable:
    from functorch.compile import min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd
    from torch._inductor.decomposition import select_decomp_table

    compilers = {f"{short}_compiler": functools.partial(_part, f"{name}, {part}", options=options)
                 for short, part in (("fw", "forward"), ("bw", "backward"))}
    return aot_autograd(**compilers, decompositions=select_decomp_table(),
                        partition_fn=min_cut_rematerialization_partition)(graph, inputs)


def _part(name: str, graph: torch.fx.GraphModule, inputs: Sequence[Any], *, options: Dict[str, Any]) -> Callable:
    """A compiler of AOTAutograd, for a forward or a backward: of fake tensors."""
    from functorch.compile import make_boxed_func
    from torch._inductor.compile_fx import compile_fx_inner
    from torch.utils._python_dispatch import _disable_current_modes

    why = problem_with(graph, inputs)
    decision = Decision(name, "inductor", why)
    _decisions.append(decision)
    ours = None
    if not why:
        with _disable_current_modes(), torch.no_grad():
            ours = _searched(CompiledGraph(in_aten(graph), (), ()), [alike(t) for t in inputs], options, decision)
    boxed = compile_fx_inner(graph, inputs)
    return make_boxed_func(_choice(ours, lambda *given: boxed(list(given)), decision))


# ---- the choice -----------------------------------------------------------------------------------------------------


def _choice(ours: Optional[_Variants], theirs: Callable, decision: Decision) -> Callable:
    return theirs if ours is None else _Choice(ours, theirs, decision)


class _Choice:
    """Measures in the first call, when TorchDynamo has compiled, and with the caller's own tensors."""

    def __init__(self, ours: _Variants, theirs: Callable, decision: Decision):
        self.ours, self.theirs, self.decision, self.chosen = ours, theirs, decision, None

    def __call__(self, *given: Any) -> Any:
        if self.chosen is None:
            faster = _is_faster(self.ours, self.theirs, given, self.decision)
            self.decision.runs = "cudal1" if faster else "inductor"
            self.chosen = self.ours if faster else self.theirs
        return self.chosen(*given)


class _Variants:
    """A graph by the variants of a package. A graph may be called with the weights of several modules of one class.
    `places`: of the graph's inputs that are no weights."""

    def __init__(self, package: Any, module: CompiledGraph, places: Sequence[int]):
        self.package, self.module, self.places = package, module, places
        self.made: Dict[Tuple[int, ...], Tuple[Any, List[torch.Tensor]]] = {}  # by the weights, which it keeps

    def __call__(self, *given: Any) -> Any:
        weights = [given[i] for i in self.module.places]
        key = tuple([id(w) for w in weights])
        found = self.made.get(key)
        if found is None:
            own = CompiledGraph(self.module.graph, self.module.places, weights)
            own.train(self.module.training)
            found = self.package.optimize(own), weights
            while len(self.made) >= _MOST_WEIGHTS:
                del self.made[next(iter(self.made))]
            self.made[key] = found
        return found[0](*[given[i] for i in self.places])


def _is_faster(ours: _Variants, theirs: Callable, inputs: Sequence[torch.Tensor], decision: Decision) -> bool:
    """Measures both, in turns; notes what it has found."""
    checks = importlib.import_module(f"{ours.package.__name__}._cudal1.checks")
    device = inputs[0].device

    def call(compiled: Callable) -> List[torch.Tensor]:
        return [t for t in compiled(*inputs) if isinstance(t, torch.Tensor)]

    def seconds(compiled: Callable) -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        begin = time.perf_counter()
        call(compiled)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - begin

    for _ in range(_WARM_UP):
        found, wanted = call(ours), call(theirs)
    package = ours.package._package
    problem = checks.why_different(found, wanted, package.held_to(package.models[0]))
    if problem:
        decision.why = f"the variant's outputs are not Inductor's: {problem}"
        return False
    pairs = [(seconds(theirs), seconds(ours)) for _ in range(_ROUNDS)]
    of_theirs, of_ours = [a for a, _ in pairs], [b for _, b in pairs]
    ratio, low, high = checks.ratio_interval(of_theirs, of_ours)
    decision.inductor_us, decision.cudal1_us = (sorted(t)[_ROUNDS // 2] * 1e6 for t in (of_theirs, of_ours))
    decision.interval = low, high
    decision.why = f"{ratio:.2f}x [{low:.2f}, {high:.2f}] over Inductor's"
    return low > _FASTER


if "cudal1" not in torch._dynamo.list_backends():  # where the package is not installed
    torch._dynamo.register_backend(compiler_fn=cudal1_backend, name="cudal1")
