"""Definitions and workloads of FlashInfer-Bench and SOL-ExecBench as problems: each pair becomes the text of a Python file
with Model, get_inputs and get_init_inputs. Needs no torch.

A definition (JSON) has named axes, inputs and outputs with dtypes, and a `reference` in Python with run(...). A workload (a
JSON line) gives the variable axes and says where each input comes from. FlashInfer-Bench keeps both in one folder,
ROOT/definitions/OP/NAME.json with ROOT/workloads/OP/NAME.jsonl, whose lines have the workload inside; SOL-ExecBench has a
folder a problem with definition.json and workload.jsonl, axes that are expressions, and inputs that the reference makes."""

from __future__ import annotations

import ast
import dataclasses
import json
import math
import operator
import pathlib
import re
from typing import Any

MARK = "CUDAL1_DEFINITION"  # the name of the constant in a problem that says what it was made of
DTYPES = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32", "int16", "int8", "bool")
INTEGER_RANGES = {"int8": (-128, 128), "int16": (-1024, 1024), "int32": (-1024, 1024), "int64": (-1024, 1024)}
OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
              ast.Div: operator.truediv, ast.Mod: operator.mod, ast.Pow: operator.pow}
LONGEST_NAME = 80


class Unusable(Exception):
    """What is wrong with a definition or a workload, and where."""


@dataclasses.dataclass(frozen=True)
class Tensor:
    name: str
    dtype: str
    axes: tuple[str, ...] | None  # None: a number
    description: str


@dataclasses.dataclass(frozen=True)
class Definition:
    name: str
    path: pathlib.Path
    axes: dict[str, Any]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    reference: str
    description: str
    custom: str  # the function of the reference that makes inputs, "" for none


@dataclasses.dataclass(frozen=True)
class Workload:
    uuid: str
    axes: dict[str, int]  # the variable ones
    inputs: dict[str, dict[str, Any]]
    set: str  # "flashinfer-bench" or "sol-execbench": how random inputs are drawn there


def is_definition(value: Any) -> bool:
    return isinstance(value, dict) and {"name", "axes", "inputs", "outputs", "reference"} <= value.keys()


def _tensor(name: str, record: dict[str, Any], where: str) -> Tensor:
    if not name.isidentifier():
        raise Unusable(f"{where}: {name} is no name that Python could have")
    if record["dtype"] not in DTYPES:
        raise Unusable(f"{where}: {name} has the dtype {record['dtype']}, which a task cannot have")
    shape = record["shape"]
    return Tensor(name, record["dtype"], None if shape is None else tuple(shape), record.get("description") or "")


def read_definition(path: pathlib.Path) -> Definition:
    """Unusable where the file is no definition."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Unusable(f"{path}: {error}") from error
    if not is_definition(record):
        raise Unusable(f"{path} is no definition: it should be an object with name, axes, inputs, outputs and reference")
    try:
        inputs, outputs = (tuple(_tensor(n, r, str(path)) for n, r in record[k].items()) for k in ("inputs", "outputs"))
        runs = [n for n in ast.parse(record["reference"]).body if isinstance(n, ast.FunctionDef) and n.name == "run"]
    except (SyntaxError, KeyError, AttributeError, TypeError) as error:
        raise Unusable(f"{path}: {type(error).__name__}: {error}") from error
    if not runs:
        raise Unusable(f"{path}: its reference has no function run")
    return Definition(record["name"], path, record["axes"], inputs, outputs, record["reference"], record.get("description") or "",
                      record.get("custom_inputs_entrypoint") or "")


def workloads_file(path: pathlib.Path) -> pathlib.Path | None:
    """Where the workloads of a definition's file usually are."""
    beside = [path.with_name(n) for n in ("workload.jsonl", "workloads.jsonl")] if path.name == "definition.json" else []
    parts = list(path.parts)
    if "definitions" in parts:
        at = len(parts) - 1 - parts[::-1].index("definitions")
        beside.append(pathlib.Path(*parts[:at], "workloads", *parts[at + 1:]).with_suffix(".jsonl"))
    return next((f for f in [*beside, path.with_suffix(".jsonl")] if f.is_file()), None)


def read_workloads(definition: Definition, file: pathlib.Path | None) -> list[Workload]:
    """Those in `file`, else where they usually are. Unusable without any."""
    found = file or workloads_file(definition.path)
    if found is None:
        raise Unusable(f"{definition.path}: there are no workloads beside it; give them with --workloads FILE.jsonl")
    workloads = []
    for i, line in enumerate(found.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            if record.get("definition", definition.name) != definition.name:
                continue
            inside = record.get("workload", record)
            workloads.append(Workload(str(inside["uuid"]), {k: int(v) for k, v in inside["axes"].items()}, inside["inputs"],
                                      "flashinfer-bench" if "workload" in record else "sol-execbench"))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Unusable(f"{found}, line {i}: should be a workload with uuid, axes and inputs ({type(error).__name__}: {error})"
                           ) from error
    if not workloads:
        raise Unusable(f"{found} has no workload of {definition.name}")
    return workloads


def _value_of(node: ast.AST, names: dict[str, int]) -> float:
    if isinstance(node, ast.Expression):
        return _value_of(node.body, names)
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return -_value_of(node.operand, names) if isinstance(node.op, ast.USub) else _value_of(node.operand, names)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        return OPERATIONS[type(node.op)](_value_of(node.left, names), _value_of(node.right, names))
    raise Unusable(f"cannot compute {ast.unparse(node)}")


def axes_of(definition: Definition, workload: Workload) -> dict[str, int]:
    """The sizes of all axes. Unusable where one has none."""
    sizes: dict[str, int] = {}
    for name, axis in definition.axes.items():
        if axis["type"] == "const":
            sizes[name] = int(axis["value"])
        elif axis["type"] == "var" and name in workload.axes:
            sizes[name] = workload.axes[name]
        elif axis["type"] == "var":
            raise Unusable(f"workload {workload.uuid} gives no size of the axis {name}")
    waiting = {n: a["expression"] for n, a in definition.axes.items() if a["type"] == "expr"}
    while waiting:
        known = [n for n, e in waiting.items() if {x.id for x in ast.walk(ast.parse(e)) if isinstance(x, ast.Name)} <= sizes.keys()]
        if not known:
            raise Unusable(f"the axes {', '.join(waiting)} depend on axes that are not there")
        for name in known:
            value = _value_of(ast.parse(waiting.pop(name), mode="eval"), sizes)
            if value != int(value):
                raise Unusable(f"the axis {name} would be {value}")
            sizes[name] = int(value)
    return sizes


def shape_of(tensor: Tensor, sizes: dict[str, int]) -> tuple[int, ...]:
    try:
        return tuple(sizes[a] for a in tensor.axes or ())
    except KeyError as error:
        raise Unusable(f"{tensor.name} has the axis {error.args[0]}, which the definition has not") from error


def _ends(name: str, *ends: str) -> bool:
    return name.rstrip("0123456789").endswith(ends)


def _drawn_by_name(t: Tensor, shape: tuple[int, ...]) -> str:
    """How SOL-ExecBench draws a floating input that has one of certain names; "" for the others. Where it gives a constant
    (weights and biases of norms) values are drawn around that one, so that no program can leave them out."""
    normal, said = f"torch.randn({shape}", t.description.lower()
    made = f"{normal}, dtype=torch.{t.dtype})"
    if _ends(t.name, "norm_weight"):
        return f"1 + 0.1 * {made}"
    if _ends(t.name, "norm_bias"):
        return f"0.1 * {made}"
    if len(shape) > 1 and shape[-1] == shape[-2] and (t.name in ("attention_mask", "causal_mask") or
                                                      "attention mask" in said and "causal" in said):
        return f"torch.full({shape}, torch.finfo(torch.{t.dtype}).min, dtype=torch.{t.dtype}).triu(1)"
    if t.name in ("x_mask", "text_mask", "aspect_ratio_mask", "drop_mask", "attention_mask") or (
            t.name.endswith("_mask") and any(w in said for w in ("binary", "{0, 1}", "0 or 1", "1.0 for valid", "0.0 for masked"))):
        return f"torch.randint(0, 2, {shape}).to(torch.{t.dtype})"
    if t.name in ("cos", "sin", "cos_cached", "sin_cached", "rope_cos", "rope_sin"):
        return f"torch.{'cos' if 'cos' in t.name else 'sin'}({normal}).clamp(-{math.pi}, {math.pi})).to(torch.{t.dtype})"
    if re.fullmatch(r"(.*_)?(rstd|std|variance|var)", t.name.rstrip("0123456789")):
        return f"{made}.abs() + 0.1"
    if t.name in ("A", "A_log", "g", "A_cumsum"):
        low, high = {"A": (-1.0, -0.001), "A_log": (-5.0, -1.0), "g": (-5.0, 0.0), "A_cumsum": (-0.1, 0.0)}[t.name]
        drawn = f"torch.empty({shape}, dtype=torch.{t.dtype}).uniform_({low}, {high})"
        return drawn + (".cumsum(-1)" if t.name == "A_cumsum" else "")
    if t.name in ("attn_weights", "attention_weights", "routing_weights") or "softmax" in said and "output" in said:
        return f"{normal}).softmax(-1).to(torch.{t.dtype})"
    if len(shape) > 1 and (t.name == "weight" or _ends(t.name, "_weight", "_weights", "_proj", "_projs", "_weight_matrix")):
        return f"{made} / {math.sqrt(shape[-1])}"
    return ""


def _random(t: Tensor, shape: tuple[int, ...], workload: Workload) -> str:
    if t.dtype == "bool":
        return f"torch.randint(0, 2, {shape}, dtype=torch.bool)"
    if t.dtype in INTEGER_RANGES:
        low, high = INTEGER_RANGES[t.dtype]
        return f"torch.randint({low}, {high}, {shape}, dtype=torch.{t.dtype})"
    if t.dtype.startswith("float8"):
        return f"torch.randn({shape}).clamp(-2.0, 2.0).to(torch.{t.dtype})"
    named = _drawn_by_name(t, shape) if workload.set == "sol-execbench" else ""
    return named or f"torch.randn({shape}, dtype=torch.{t.dtype})"


def _stored_file(definition: Definition, path: str) -> pathlib.Path:
    """A path is relative to the set's root, or has a part of that before it."""
    parts = pathlib.PurePosixPath(path).parts
    for root in definition.path.resolve().parents:
        for begin in range(len(parts)):
            found = root.joinpath(*parts[begin:])
            if found.is_file():
                return found
    raise Unusable(f"the file {path} of a workload of {definition.name} is in no folder above {definition.path}")


# Of a safetensors file: eight bytes with the length of a JSON head, and offsets behind that.
_READER = """
def _stored_tensor(path, key):
    import json
    with open(path, "rb") as file:
        head = json.loads(file.read(int.from_bytes(file.read(8), "little")))[key]
        begin, end = head["data_offsets"]
        file.seek(begin, 1)
        data = bytearray(file.read(end - begin))
    dtype = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
             "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}[head["dtype"]]
    return torch.frombuffer(data, dtype=dtype).reshape(head["shape"])
"""


def _input_text(definition: Definition, t: Tensor, sizes: dict[str, int], workload: Workload) -> str:
    given = workload.inputs.get(t.name)
    if given is None:
        raise Unusable(f"workload {workload.uuid} says nothing of the input {t.name}")
    kind = given["type"]
    if t.axes is None or kind == "scalar":
        if kind != "scalar":
            raise Unusable(f"the number {t.name} is {kind} in workload {workload.uuid}")
        value = given["value"]
        return repr(float(value)) if t.dtype.startswith(("float", "bfloat")) else repr(value)
    if kind == "safetensors":
        return f"_stored_tensor({str(_stored_file(definition, given['path']))!r}, {given['tensor_key']!r}).to(torch.{t.dtype})"
    if kind == "custom":
        return f"_custom[{t.name!r}]"
    if kind == "random":
        return _random(t, shape_of(t, sizes), workload)
    raise Unusable(f"the input {t.name} is of the kind {kind}, which is none of random, scalar, safetensors and custom")


def problem_name(definition: Definition, workload: Workload, word: Any) -> str:
    """The definition's name, cut alike for all workloads, with the variable axes; where those are too long, with a part of
    the workload's id."""
    name = word(definition.name)[:LONGEST_NAME * 5 // 8].rstrip("_.-")
    axes = "_".join(f"{axis}{size}" for axis, size in workload.axes.items())
    fits = len(name) + 1 + len(axes) <= LONGEST_NAME
    return "_".join(part for part in (name, word(axes if fits else workload.uuid[:8])) if part)


def marks(definition: Definition, workload: Workload, sizes: dict[str, int], texts: dict[str, str]) -> dict[str, Any]:
    """What a problem says of its origin: solutions are written by it. Of an input that is a number, this."""
    return {"set": workload.set, "definition": definition.name, "workload": workload.uuid,
            "inputs": [[t.name, t.dtype, ast.literal_eval(texts[t.name]) if t.axes is None else list(shape_of(t, sizes))]
                       for t in definition.inputs],
            "outputs": [[t.name, t.dtype, list(shape_of(t, sizes))] for t in definition.outputs]}


def problem_text(definition: Definition, workload: Workload) -> str:
    """A Python file. Unusable with what is missing."""
    sizes = axes_of(definition, workload)
    made = {t.name: _input_text(definition, t, sizes, workload) for t in definition.inputs}
    if any(t.axes is None for t in definition.outputs):
        raise Unusable(f"{definition.name} has an output that is a number; a task's are tensors")
    names = ", ".join(made)
    before = ""
    if any(g["type"] == "custom" for g in workload.inputs.values()):
        if not definition.custom:
            raise Unusable(f"{definition.name} names no function that makes the inputs of the kind custom")
        numbers = {n: g["value"] for n, g in workload.inputs.items() if g["type"] == "scalar"}
        before = f"    _custom = {definition.custom}({ {**sizes, **numbers}!r}, torch.device(\"cpu\"))\n"
    wanted = "".join(f"        ({t.name!r}, torch.{t.dtype}, {shape_of(t, sizes)}),\n" for t in definition.outputs)
    title = " ".join((definition.description or definition.name).replace("\\", "/").replace('"', "'").split())[:200]
    stored = _READER if any(g["type"] == "safetensors" for g in workload.inputs.values()) else ""
    return (f"import torch\n\n{definition.reference.rstrip()}\n\n\n{MARK} = {marks(definition, workload, sizes, made)!r}\n{stored}\n\n"
            f"class Model(torch.nn.Module):\n    \"\"\"{title}\"\"\"\n\n    OUTPUTS = (\n{wanted}    )\n\n"
            f"    def forward(self, {names}):\n        found = run({names})\n"
            "        if isinstance(found, dict):\n            found = [found[name] for name, _, _ in self.OUTPUTS]\n"
            "        found = tuple(found) if isinstance(found, (tuple, list)) else (found,)\n"
            "        if [tuple(t.shape) for t in found] != [s for _, _, s in self.OUTPUTS] or any(\n"
            "                t.dtype not in (d, torch.float64) for t, (_, d, _) in zip(found, self.OUTPUTS)):\n"
            "            raise TypeError(f\"the reference gives {[(t.dtype, tuple(t.shape)) for t in found]}, and the definition "
            "says {self.OUTPUTS}\")\n"
            "        return found if len(found) > 1 else found[0]\n\n\n"
            f"def get_inputs():\n{before}    return [\n" + "".join(f"        {text},  # {n}\n" for n, text in made.items()) +
            "    ]\n\n\ndef get_init_inputs():\n    return []\n")


def marks_in(problem: str) -> dict[str, Any] | None:
    """Of a problem's text that problem_text() has made."""
    found = re.search(rf"^{MARK} = (.*)$", problem, re.M)
    return ast.literal_eval(found[1]) if found else None


def reference_in(problem: str) -> str:
    """The definition's reference, as its set has it."""
    return problem.partition(f"\n\n\n{MARK} = ")[0].removeprefix("import torch\n\n")


def definition_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Those of a set's folder: ROOT/definitions/**.json, or definition.json at any depth."""
    inside = sorted((folder / "definitions").rglob("*.json"))
    return inside or sorted(folder.rglob("definition.json"))


def pairs_of(path: pathlib.Path, workloads: pathlib.Path | None) -> list[tuple[Definition, Workload]]:
    definition = read_definition(path)
    return [(definition, w) for w in read_workloads(definition, workloads)]
