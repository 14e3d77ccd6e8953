"""A checkout of KernelBench: which layout it has, its evaluator as a module, and what that is called with.

v0 and v0.1 are the package `src`; main is `src/kernelbench`. Between the two their evaluator's function got parameters
(`precision`, `backend`) and began to time the problem's own Model, which v0 leaves to another script."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import inspect
import pathlib
import sys
import types
from typing import Any, Iterator

HOW_TO_GET = "git clone https://github.com/ScalingIntelligence/KernelBench"
# What its modules import for language models, downloads and progress, and its evaluator never calls.
UNUSED = ("anthropic", "dotenv", "google.generativeai", "litellm", "openai", "requests", "together", "tqdm", "transformers")
CORRECT_TRIALS, TIMED_TRIALS, SEED = 5, 100, 42  # as its scripts choose them


class NoEvaluator(Exception):
    """What is wrong with the folder or this Python, and what to do."""


def layout_of(folder: pathlib.Path) -> tuple[str, str, pathlib.Path]:
    """Its layout's name, the evaluator's module and the folder that Python imports that from. NoEvaluator."""
    if (folder / "src" / "kernelbench" / "eval.py").is_file():
        return "main", "kernelbench.eval", folder / "src"
    if (folder / "src" / "eval.py").is_file():
        return "v0", "src.eval", folder
    raise NoEvaluator(f"{folder} is no checkout of KernelBench: it has neither src/kernelbench/eval.py nor src/eval.py; "
                      f"`{HOW_TO_GET}` makes one (its branches v0 and v0.1 have the older problems)")


def fingerprint(folder: pathlib.Path) -> str:
    """A hash of the Python files beside its evaluator."""
    layout, _, root = layout_of(folder)
    files = sorted((root / ("kernelbench" if layout == "main" else "src")).glob("*.py"))
    return hashlib.sha256(b"".join(hashlib.sha256(f.read_bytes()).digest() for f in files)).hexdigest()


class _EmptyModule(types.ModuleType):
    """Stands for a package that is not installed: each of its names is a function that does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


@contextlib.contextmanager
def _without_unused_packages() -> Iterator[None]:
    """Those of UNUSED that are not installed are empty while the evaluator is imported, and no longer: a problem that
    needs one fails as it would without this."""
    added = []
    for name in UNUSED:
        with contextlib.suppress(ModuleNotFoundError):
            if importlib.util.find_spec(name) is not None:
                continue
        module = _EmptyModule(name)
        parent, _, last = name.rpartition(".")
        if parent and parent not in sys.modules:
            sys.modules[parent] = types.ModuleType(parent)
            added.append(parent)
        if parent:
            setattr(sys.modules[parent], last, module)
        sys.modules[name] = module
        added.append(name)
    try:
        yield
    finally:
        for name in added:
            del sys.modules[name]


def evaluator(folder: pathlib.Path) -> types.ModuleType:
    """The evaluator's module. NoEvaluator, also where this Python lacks a package that it needs."""
    _, name, root = layout_of(folder)
    sys.path.insert(0, str(root))
    try:
        with _without_unused_packages():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise NoEvaluator(f"KernelBench's evaluator needs the package {error.name}, which {sys.executable} has not: "
                          f"`{sys.executable} -m pip install {error.name}`") from error


def _of_parameters(function: Any, given: dict[str, Any]) -> dict[str, Any]:
    known = inspect.signature(function).parameters
    return {name: value for name, value in given.items() if name in known}


def _on_device(values: Any, device: Any, torch: Any) -> list[Any]:
    return [v.to(device) if isinstance(v, torch.Tensor) else v for v in values]


def _reference_ms(module: types.ModuleType, problem: str, device: Any, trials: int) -> float:
    """The mean time of the problem's Model in eager mode, by the evaluator's own clock, where its function gives none."""
    import torch

    model_type, get_init_inputs, get_inputs = module.load_original_model_and_inputs(problem, {})
    clock = module if hasattr(module, "time_execution_with_cuda_event") else module.timing
    timed = clock.time_execution_with_cuda_event
    with torch.no_grad():
        module.set_seed(SEED)
        inputs = _on_device(get_inputs(), device, torch)
        module.set_seed(SEED)
        model = model_type(*_on_device(get_init_inputs(), device, torch)).to(device)
        kinds = [p.kind for p in inspect.signature(timed).parameters.values()]
        arguments = inputs if inspect.Parameter.VAR_POSITIONAL in kinds else [inputs]
        times = timed(model, *arguments, **_of_parameters(timed, {"num_trials": trials, "verbose": False, "device": device}))
    return float(clock.get_timing_stats(times, device=device)["mean"])


def precision_of(problem: str, device: Any) -> Any:
    """The floating type of the outputs of the problem's Model. Its code runs only if it names a half type."""
    import torch

    if not any(word in problem for word in ("half", "float16")):  # bfloat16, too
        return torch.float32
    names: dict[str, Any] = {"__name__": "problem"}
    exec(compile(problem, "problem", "exec"), names)  # noqa: S102: the evaluator does the same
    with torch.no_grad():
        outputs = names["Model"](*names["get_init_inputs"]()).to(device)(*_on_device(names["get_inputs"](), device, torch))
    found = [t.dtype for t in torch.utils._pytree.tree_leaves(outputs) if isinstance(t, torch.Tensor)]
    return next((t for t in found if t in (torch.float16, torch.bfloat16)), torch.float32)


def build(module: types.ModuleType, source: str, folder: str) -> None:
    """Compiles what the file compiles when it is loaded, so that the evaluation finds it built."""
    with contextlib.suppress(Exception):  # the evaluation fails likewise, and says why
        module.build_compile_cache(source, False, folder)


def judge(module: types.ModuleType, problem: str, source: str, device_name: str, folder: str,
          trials: int = TIMED_TRIALS) -> dict[str, Any]:
    """What the evaluator says of one file, with the times in milliseconds; runs in a process of its own."""
    import torch

    device = torch.device(device_name)
    given = {"num_correct_trials": CORRECT_TRIALS, "num_perf_trials": trials, "measure_performance": True,
             "build_dir": folder, "device": device, "backend": "cuda", "seed_num": SEED}
    function = module.eval_kernel_against_ref
    try:
        if "precision" in inspect.signature(function).parameters:
            given["precision"] = precision_of(problem, device)
        found = function(problem, source, **_of_parameters(function, given))
    except Exception as error:  # noqa: BLE001: what a file does wrong is in a result, so this is the evaluator's own
        return {"verdict": "not_judged", "why": f"the evaluator raised {type(error).__name__}: {str(error)[:300]}"}
    if found is None:
        return {"verdict": "not_judged", "why": "the evaluator gave no result: it takes the message of a failed compilation "
                                               "for that of a lock and asks to be called again"}
    metadata = {str(k): _text_of(v)[:500] for k, v in found.metadata.items()}
    if not found.correctness:
        return {"verdict": "refused", "why": reason_of(found.compiled, metadata), "metadata": metadata}
    reference = float(getattr(found, "ref_runtime", -1.0))
    if not found.runtime > 0:
        return {"verdict": "not_judged", "metadata": metadata,
                "why": "correct, but not timed: " + metadata.get("error_during_performance", "it gave no time")}
    if not reference > 0:
        reference = _reference_ms(module, problem, device, trials)
    return {"verdict": "accepted", "why": "", "ms": float(found.runtime), "reference_ms": reference,
            "speedup": reference / float(found.runtime), "metadata": metadata}


def _text_of(value: Any) -> str:
    """One of lists of differences, which have a text for each draw: the largest."""
    if isinstance(value, list):
        with contextlib.suppress(ValueError):
            return str(max(value, key=float, default=""))
    return str(value)


def reason_of(compiled: bool, metadata: dict[str, str]) -> str:
    """Why a file was refused, in a line."""
    if not compiled:
        return "it does not compile: " + metadata.get("compilation_error", "no message")[:300]
    if "runtime_error" in metadata:
        return "it raises: " + metadata["runtime_error"][:300]
    words = [metadata.get("correctness_issue", "wrong")]
    if "max_difference" in metadata:
        words.append(f"largest difference {metadata['max_difference']}")
    if "correctness_trials" in metadata:
        words.append(f"{metadata['correctness_trials']} draws right")
    return ", ".join(words)
