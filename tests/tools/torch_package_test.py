#!/usr/bin/env python3
"""Packages of `cudal1 export --format torch` in a user's hands: two variants that are written by hand are evaluated, exported,
installed by pip and called, and the commands that measure a package are run.

    torch_package_test.py CUDAL1 [--device cuda:0]
"""

import concurrent.futures
import contextlib
import copy
import functools
import gc
import importlib
import inspect
import io
import json
import os
import pathlib
import pickle
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import warnings
import weakref

import torch
import torch.utils.checkpoint

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools/python"), str(ROOT / "tools/python_client")]
DEVICE = "cpu"
MODEL = '''import torch
import torch.nn as nn


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(256))
        self.inner = nn.Module()
        self.inner.register_buffer("shift", torch.arange(256) / 256)

    def forward(self, x, y, times=2.0):
        h = x * (self.scale * self.scale + self.inner.shift)
        for _ in range(4):
            h = torch.relu(h) * 0.75 + y * times
        return {"h": h, "top": h.amax(1)}


def example_inputs():
    yield torch.randn(512, 256), torch.randn(512, 256)
    yield torch.randn(256, 256), torch.randn(256, 256)
'''
# The set-up folds the weights with threads that wait for each other; the steps are a kernel and an operator.
PROGRAM = '''{ "format": 1, "name": "chain",
  "inputs": [{"name": "x", "dtype": "float32", "shape": [ROWS, 256]}, {"name": "y", "dtype": "float32", "shape": [ROWS, 256]}],
  "weights": [{"name": "scale", "dtype": "float32", "shape": [256]}, {"name": "inner_shift", "dtype": "float32", "shape": [256]}],
  "setup": [{"alloc": "w", "dtype": "float32", "shape": [256]},
            {"launch": "fold", "grid": [1, 1, 1], "block": [256, 1, 1],
             "args": [{"in": "scale"}, {"in": "inner_shift"}, {"out": "w"}]}],
  "steps": [{"alloc": "h", "dtype": "float32", "shape": [ROWS, 256]},
            {"launch": "chain", "grid": [BLOCKS, 1, 1], "block": [64, 1, 1],
             "args": [{"in": "x"}, {"in": "y"}, {"in": "w"}, {"out": "h"}, {"i32": 256}, {"f32": 2}]},
            {"aten": "aten::amax", "args": {"self": "h", "dim": [1]}, "out": ["top"]}],
  "outputs": ["h", "top"], "execution": {"graph": GRAPH, "lanes": 1} }
---
__global__ void fold(const float* scale, const float* shift, float* w) {
  __shared__ float squares[256];
  squares[255 - threadIdx.x] = scale[255 - threadIdx.x] * scale[255 - threadIdx.x];
  __syncthreads();
  w[threadIdx.x] = squares[threadIdx.x] + shift[threadIdx.x];
}
__device__ float next(float v, float a) { return (v > 0.0f || v != v ? v : 0.0f) * 0.75f + a; }
__global__ void chain(const float* __restrict__ x, const float* __restrict__ y, const float* __restrict__ w,
                      float* __restrict__ h, int columns, float times) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  for (int j = 0; j < 256; ++j) {
    const float a = y[row * columns + j] * times;
    h[row * columns + j] = next(next(next(next(x[row * columns + j] * w[j], a), a), a), a);
  }
}
'''
# Another model, and a variant with an operator of cudal1's own, on a GPU by cuDNN's engines.
TWICE = '''import torch


class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(8, 16, 3, padding=1)

    def forward(self, x):
        return (torch.nn.functional.silu(self.conv(x)) + torch.nn.functional.silu(self.conv(x))) / 2


def example_inputs():
    return (torch.randn(8, 8, 64, 64),)
'''
ONCE = '''{ "format": 1, "name": "once", "inputs": [{"name": "x", "dtype": "float32", "shape": [8, 8, 64, 64]}],
  "weights": [{"name": "conv_weight", "dtype": "float32", "shape": [16, 8, 3, 3]},
              {"name": "conv_bias", "dtype": "float32", "shape": [16]}],
  "steps": [{"aten": "cudal1::convolution_graph", "args": {"input": "x", "weight": "conv_weight", "operands": ["conv_bias"],
             "stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "transposed": false, "output_padding": [0, 0], "groups": 1,
             "graph": "add(0) silu", "engine": 0}, "out": ["y"]}],
  "outputs": ["y"] }
'''
# A program without Python that calls both variants, and a library of AOTInductor that calls one.
IN_CPP = '''#include <cstdio>
#include <fstream>

#include <ATen/ATen.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include "cudal1/model_package.hpp"

namespace {

std::string data;

at::Tensor read(const std::string& name, at::IntArrayRef shape, at::Device device) {
  return at::from_file(data + "/" + name, false, c10::multiply_integers(shape), at::kFloat).reshape(shape).to(device);
}

void write(const std::string& name, const std::vector<at::Tensor>& tensors) {
  std::ofstream file(data + "/" + name, std::ios::binary);
  for (const auto& t : tensors) {
    const auto flat = t.to(at::kCPU).contiguous();
    file.write(static_cast<const char*>(flat.const_data_ptr()), static_cast<std::streamsize>(flat.nbytes()));
  }
}

template <class F>
void refused(const F& what) {
  try {
    what();
    std::puts("not refused");
  } catch (const std::exception& e) {
    std::printf("refused: %.200s\\n", e.what());
  }
}

}  // namespace

int main(int, char** words) {
  data = words[2];
  const at::Device device(words[3]);
  const cudal1::model_package package(words[1]);
  for (const auto& name : package.weight_names("Chain"))
    std::printf("weight %s\\n", name.c_str());
  const auto scale = read("scale", {256}, device);
  const auto module = package.module("Chain", {{"scale", scale}, {"unused", scale}});
  const auto x = read("x", {512, 256}, device), y = read("y", {512, 256}, device);
  for (int i = 0; i < 3; ++i)
    write("whole", module.forward({x, y}));
  write("half", module.forward({x.slice(0, 0, 256), y.slice(0, 0, 256)}));
  package.register_operators();
  package.register_operators();
  torch::inductor::AOTIModelPackageLoader compiled(words[4]);
  write("compiled", compiled.run({x, y}));
  scale.mul_(2);  // what set-up made of it is made again
  write("doubled", module.forward({x, y}));
  std::printf("why: %s\\n", module.reason_against({x.slice(0, 0, 7), y}).c_str());
  std::printf("why: %s\\n", module.reason_against({x.t().contiguous().t(), y}).c_str());
  refused([&] { module.forward({x.slice(0, 0, 7), y}); });
  refused([&] { package.module("Chain", {}); });
  refused([&] { package.module("Chain", {{"scale", scale.slice(0, 0, 8)}}); });
  refused([&] { package.module("Chain", {{"scale", scale}, {"inner.shift", scale}}).forward({x, y}); });
  refused([&] { package.module("Other", {}); });
  refused([&] { cudal1::model_package("/nowhere"); });
}
'''
STATE = {}


def run(*words, code=0, **more):
    done = subprocess.run([CUDAL1, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    assert code is None or done.returncode == code, f"{words} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def evaluate(folder, task, rows, graph=False):
    program = folder / f"{rows}{graph}.cu1"
    text = PROGRAM.replace("ROWS", str(rows)).replace("BLOCKS", str(rows // 64))
    program.write_text(text.replace("GRAPH", str(graph).lower()))
    run("evaluate", folder / "tasks" / f"{task}.json", program, "--device", DEVICE)


def write_own_model(folder, name, rows):
    """A model of this process as a file that can be imported, of which no store knows anything yet."""
    import cudal1

    torch.manual_seed(9)
    model = importlib.import_module("chain_model").Chain().to(DEVICE)
    given = [tuple(torch.randn(n, 256, device=DEVICE) for _ in range(2)) for n in rows]
    known = functools.partial(cudal1.optimize, model, given if len(rows) > 1 else given[0], folder=str(folder / name),
                              search=False, show=False, program=CUDAL1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert known() is model
    assert [w.category for w in said] == [cudal1.NothingFaster], said
    STATE[name] = (model, given, known)
    return next((folder / f"{name}.source").glob("*.py"))


def setUpModule():
    temporary = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(temporary.cleanup)
    folder = pathlib.Path(temporary.name)
    os.environ.update(CUDAL1_PYTHON=sys.executable, CUDAL1_DATA=str(folder / "data"), PYTHONDONTWRITEBYTECODE="1",
                      XDG_CACHE_HOME=str(folder / "cache"))
    unittest.addModuleCleanup(run, "stop", "--node", code=None)
    (folder / "chain_model.py").write_text(MODEL)
    sys.path[:0] = [str(folder / "site"), str(folder)]
    own = [f"{write_own_model(folder, name, rows)}:make" for name, rows in (("own", (256,)), ("several", (256, 512)))]
    run("tasks", "import", folder / "chain_model.py:Chain", *own, "--out", folder / "tasks")
    evaluate(folder, "chain_model.Chain_512x256", 512)
    evaluate(folder, "chain_model.Chain_256x256", 256, graph=DEVICE != "cpu")
    run("export", folder / "exported", "--format", "torch", "--name", "fast_chain", "--no-check")
    # By pip, without a network and without anything that compiles.
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check",
                    "--target", folder / "site", folder / "exported"], check=True, env={**os.environ, "PATH": "/nonexistent"})
    importlib.invalidate_caches()
    STATE.update(folder=folder, package=importlib.import_module("fast_chain"), model=importlib.import_module("chain_model"))
    torch.set_num_threads(1)


class Packaged(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)
        self.package = STATE["package"]
        self.model = STATE["model"].Chain().to(DEVICE)
        self.fast = self.package.optimize(self.model)
        self.before = self.package.report()

    def inputs(self, rows=512, **how):
        return [torch.randn(rows, 256, device=DEVICE, **how) for _ in range(2)]

    def calls(self):
        """Of variants and of the model's own forward since the test began."""
        now = self.package.report()
        variants = sum(now.calls.values()) - sum(self.before.calls.values())
        return variants, {why: n - self.before.eager.get(why, 0) for why, n in now.eager.items()
                          if n > self.before.eager.get(why, 0)}

    def setups(self):
        return sum(self.package.report().setups.values()) - sum(self.before.setups.values())

    def same(self, a, b):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)

    def both(self, *given, **named):
        self.same(self.model(*given, **named), self.fast(*given, **named))


class Modules(Packaged):
    def test_it_is_the_model_with_another_forward(self):
        self.assertIsInstance(self.fast, STATE["model"].Chain)
        self.assertEqual(list(self.fast.state_dict()), list(self.model.state_dict()))
        self.assertIs(self.fast.scale, self.model.scale)
        self.assertEqual(inspect.signature(self.fast.forward), inspect.signature(self.model.forward))
        with torch.no_grad():
            for rows in (512, 256):
                for _ in range(3):
                    self.both(*self.inputs(rows))
        self.assertEqual(self.calls(), (6, {}))
        self.assertEqual(self.setups(), 2)

    def test_it_is_made_of_the_source_in_the_package(self):
        made = self.package.model_class()().to(DEVICE)
        made.load_state_dict(self.model.state_dict())
        x, y = self.inputs()
        with torch.no_grad():
            self.same(self.model(x, y), made(x, y))
        self.assertEqual(self.calls(), (1, {}))

    def test_copies(self):
        x, y = self.inputs()
        data = io.BytesIO()
        with torch.no_grad():
            wanted = self.fast(x, y)
            torch.save(self.fast, data)
            data.seek(0)
            copies = [copy.deepcopy(self.fast), pickle.loads(pickle.dumps(self.fast)), torch.load(data, weights_only=False)]
            for made in copies:
                self.assertIs(type(made), type(self.fast))
                made.scale.add_(1)
                self.same(self.model(x, y), wanted)
                self.assertGreater((made(x, y)["h"] - wanted["h"]).abs().max(), 0.1)
        self.assertEqual(self.calls(), (4, {}))

    def test_another_model_is_refused(self):
        with self.assertRaisesRegex(self.package.PackageError, "it has no parameter or buffer scale"):
            self.package.optimize(torch.nn.Linear(2, 2))
        wrong = STATE["model"].Chain()
        wrong.scale = torch.nn.Parameter(torch.rand(8))
        with self.assertRaisesRegex(self.package.PackageError, r"scale is float32\[8\], and the variant was made for"):
            self.package.optimize(wrong)

        class Other(STATE["model"].Chain):
            def forward(self, x, y, times=2.0):
                return {"h": x, "top": y.amax(1)}

        with self.assertRaisesRegex(self.package.PackageError, "outputs are not those of Other: output 0 differs"):
            self.package.optimize(Other().to(DEVICE), example=tuple(self.inputs()))

    def test_threads(self):
        given = [self.inputs(rows) for rows in (512, 256) * 8]
        with torch.no_grad():
            wanted = [self.model(*g) for g in given]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda g: torch.no_grad()(self.fast)(*g), given))
        for w, f in zip(wanted, found):
            self.same(w, f)


    def test_streams_and_graphs_of_a_caller_s_own(self):
        if DEVICE == "cpu":
            self.skipTest("of GPUs")
        given = [self.inputs(rows) for rows in (512, 256) * 4]
        with torch.no_grad():
            wanted = [self.model(*g) for g in given]
            torch.cuda.synchronize()
            streams, found = [torch.cuda.Stream() for _ in range(2)], []
            for i, g in enumerate(given):
                with torch.cuda.stream(streams[i % 2]):
                    found.append(self.fast(*g))
            torch.cuda.synchronize()
            for w, f in zip(wanted, found):
                self.same(w, f)
            for g, w in zip(given[:2], wanted):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    out = self.fast(*g)
                out["h"].zero_()
                graph.replay()
                torch.cuda.synchronize()
                self.same(w, out)


class InCpp(Packaged):
    def compiled(self, folder):
        """A library of AOTInductor in which the variant is an operator."""
        x, y = self.inputs()
        with torch.no_grad():
            program = torch.export.export(self.fast, (x, y))
            return torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "compiled.pt2"))

    def build(self, folder, source, name):
        torch_folder = pathlib.Path(torch.__file__).parent
        (folder / f"{name}.cpp").write_text(source)
        words = ["c++", "-std=c++20", "-O0", f"{name}.cpp", "-o", name, "-I", STATE["folder"] / "for_cpp/cpp",
                 "-I", torch_folder / "include", "-I", torch_folder / "include/torch/csrc/api/include",
                 "-L", STATE["folder"] / "for_cpp/cpp", "-L", torch_folder / "lib", "-lcudal1_package", "-ltorch", "-ltorch_cpu",
                 "-lc10", f"-Wl,--disable-new-dtags,-rpath,{STATE['folder'] / 'for_cpp/cpp'}:{torch_folder / 'lib'}:"
                 f"{torch_folder.parent / 'nvidia/cu13/lib'}"]
        subprocess.run([str(w) for w in words], check=True, cwd=folder)
        return folder / name

    def test_a_program_without_python(self):
        if not shutil.which("c++"):
            self.skipTest("there is no c++")
        folder = STATE["folder"] / "in_cpp"
        folder.mkdir()
        run("export", STATE["folder"] / "for_cpp", "--format", "cpp", "--name", "fast_chain", "--no-check")
        example = self.build(folder, (STATE["folder"] / "for_cpp/cpp/example.cpp").read_text(), "example")
        shown = subprocess.run([example, STATE["folder"] / "for_cpp/fast_chain"], capture_output=True, text=True)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertEqual(shown.stdout.count("Float"), 2, shown.stdout)
        x, y = self.inputs()
        scale = self.model.scale.detach()
        for name, t in (("x", x), ("y", y), ("scale", scale)):
            t.cpu().numpy().tofile(folder / name)
        program = self.build(folder, IN_CPP, "calls")
        done = subprocess.run([program, STATE["folder"] / "for_cpp/fast_chain", folder, DEVICE, self.compiled(folder)],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

        def found(name, rows=512):
            flat = torch.frombuffer(bytearray((folder / name).read_bytes()), dtype=torch.float32).to(DEVICE)
            return {"h": flat[:rows * 256].view(rows, 256), "top": flat[rows * 256:]}

        with torch.no_grad():
            self.same(self.model(x, y), found("whole"))
            self.same(self.model(x, y), found("compiled"))
            self.same(self.model(x[:256], y[:256]), found("half", 256))
            self.model.scale.mul_(2)
            self.same(self.model(x, y), found("doubled"))
        lines = done.stdout.splitlines()
        for line, words in zip(lines, ("weight scale", "no variant was made for float32[7, 256], float32[512, 256]",
                                       "x has strides [1, 512], and the variant was made for [256, 1]",
                                       "refused: cudal1: Chain: no variant was made for",
                                       "refused: cudal1: the weights of Chain have no scale (float32[256])",
                                       "refused: cudal1: scale is float32[8], and the variants of Chain were made for",
                                       "refused: cudal1: inner_shift of chain_model.Chain_512x256 is a constant of the model",
                                       "refused: cudal1: fast_chain has no model Other; it has Chain",
                                       "refused: cudal1: /nowhere/index.json cannot be read")):
            self.assertIn(words, line)
        self.assertEqual(len(lines), 9, done.stdout)


class Dispatch(Packaged):
    def test_what_does_not_fit_runs_the_model_s_own_forward_and_is_counted(self):
        x, y = self.inputs()
        layout = self.inputs()[0].t().contiguous().t()
        with torch.no_grad():
            self.both(*self.inputs(7))
            self.both(layout, y)
            self.both(x, y, times=3.0)
            with torch.autocast(torch.device(DEVICE).type, dtype=torch.bfloat16):
                self.both(x, y)
            with self.package.eager():
                self.both(x, y)
            self.both(x, y=y)
            self.both(x, y, 2.0)
            self.both(x, y[:1].expand(512, 256))
            self.both(x, y[:1].expand(512, 256), times=4.0)
            double = copy.deepcopy(self.fast).double()
            double(x.double(), y.double())
        variants, eager = self.calls()
        self.assertEqual(variants, 3)
        self.assertEqual([n for why, n in eager.items() if "times is not 2.0" in why], [2], eager)
        for words in ("no variant was made for float32[7, 256]", "x has strides [1, 512]", "autocast is on",
                      "package.eager() asks for it", "no variant was made for float64[512, 256]"):
            self.assertEqual([n for why, n in eager.items() if words in why], [1], (words, eager))
        self.assertIn("calls by the model's own forward: Chain: times is not 2.0", str(self.package.report()))

    def test_a_quick_call_sees_what_has_changed(self):
        x, y = self.inputs()
        with torch.no_grad():
            for _ in range(2):
                self.both(x, y)
            self.fast.scale.mul_(2)  # in place
            self.both(x, y)
            self.fast.scale.data = torch.rand(256, device=DEVICE)  # other memory
            self.both(x, y)
            self.fast.load_state_dict({**self.model.state_dict(), "scale": torch.rand(256)})
            self.both(x, y)
            self.fast.inner = copy.deepcopy(self.model.inner)  # another module
            self.both(x, y)
            self.fast.scale = self.model.scale = torch.nn.Parameter(torch.rand(256, device=DEVICE))
            self.both(x, y)
            unaligned = torch.randn(512 * 256 + 1, device=DEVICE)[1:].view(512, 256)
            self.both(unaligned, y)
        self.assertEqual(self.calls(), (8, {}))

    def test_a_constant_of_the_definition_that_a_checkpoint_changes(self):
        x, y = self.inputs()
        with torch.no_grad():
            self.both(x, y)
            self.model.inner.shift.add_(1)
            self.both(x, y)
        self.assertEqual(sum(self.package.report().reference.values()) - sum(self.before.reference.values()), 1)

    def test_other_weights_for_one_call(self):
        x, y = self.inputs()
        other = {"scale": torch.rand(256, device=DEVICE)}
        with torch.no_grad():
            for _ in range(2):
                self.same(torch.func.functional_call(self.model, other, (x, y)),
                          torch.func.functional_call(self.fast, other, (x, y)))
                self.both(x, y)


    def test_a_quick_call_is_not_made_where_a_call_of_the_module_is_more(self):
        x, y = self.inputs()
        seen = []
        with torch.no_grad():
            for _ in range(2):
                self.fast(x, y)
            with self.fast.register_forward_pre_hook(lambda module, given: seen.append("before")):
                self.fast(x, y)
            with self.fast.register_forward_hook(lambda module, given, outputs: {**outputs, "more": 1}):
                self.assertEqual(self.fast(x, y)["more"], 1)
            with torch.nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(type(module).__name__)):
                self.fast(x, y)
            self.assertEqual(seen, ["before", "Chain"])
            self.fast.forward = lambda x, y: "own"
            self.assertEqual(self.fast(x, y), "own")
            del self.fast.forward
            self.fast.eval()
            self.both(x, y)
            with self.package.eager():
                self.both(x, y)
        self.assertEqual(self.calls(), (6, {"Chain: package.eager() asks for it": 1}))

    def test_a_quick_call_leaves_derivatives_to_the_model(self):
        x, y = self.inputs()
        with torch.no_grad():
            self.both(x, y)
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
            got, wanted = (torch.autograd.forward_ad.unpack_dual(m(dual, y)["h"]).tangent for m in (self.fast, self.model))
        self.same(got, wanted)

    def test_a_module_that_was_called_quickly_is_freed(self):
        x, y = self.inputs()
        with torch.no_grad():
            for _ in range(3):
                self.fast(x, y)
        gone = [weakref.ref(self.fast), weakref.ref(self.model), weakref.ref(self.model.scale)]
        self.fast = self.model = None
        gc.collect()
        # Of weights the package keeps what set-up made, and no tensor.
        self.assertEqual([g() for g in gone], [None] * 3)

    def test_quick_calls_of_several_threads(self):
        given = [self.inputs() for _ in range(4)]
        with torch.no_grad():
            wanted = [self.model(*g) for g in given]
            self.fast(*given[0])

        def called(i):
            with torch.no_grad():
                return [self.fast(*given[i]) for _ in range(50)]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for i, got in enumerate(pool.map(called, range(4))):
                for outputs in got:
                    self.same(outputs, wanted[i])


class OwnOperators(unittest.TestCase):
    def test_a_variant_that_calls_one(self):
        folder = STATE["folder"]
        (folder / "twice_model.py").write_text(TWICE)
        (folder / "once.cu1").write_text(ONCE)
        run("tasks", "import", folder / "twice_model.py:Twice", "--out", folder / "tasks")
        run("evaluate", folder / "tasks" / "twice_model.Twice.json", folder / "once.cu1", "--device", DEVICE)
        run("export", folder / "twice" / "fast_twice", "--format", "torch", "--task", "twice_model.Twice", "--no-check")
        sys.path.insert(0, str(folder / "twice" / "fast_twice"))
        package = importlib.import_module("fast_twice")
        model = importlib.import_module("twice_model").Twice().to(DEVICE)
        fast = package.optimize(model)
        x = torch.randn(8, 8, 64, 64, device=DEVICE)
        with torch.no_grad():
            for _ in range(3):
                torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)
        self.assertIn("3 calls of fast_twice__twice_model_Twice", str(package.report()))


class WithoutLibrary(Packaged):
    """With a PyTorch that the package's library is not for."""

    def setUp(self):
        super().setUp()
        if "without" not in STATE:
            folder = STATE["folder"] / "without" / "fast_chain"
            shutil.copytree(pathlib.Path(self.package.__file__).parent, folder)
            index = json.loads((folder / "index.json").read_text())
            index["runtime"]["torch"] = "1.0"
            for entry in index["programs"]:
                entry["operator"] += "_in_python"  # beside the other's, of the same process
            (folder / "index.json").write_text(json.dumps(index))
            package = importlib.import_module("fast_chain._cudal1.package")
            STATE["without"] = package.Package("fast_chain_in_python", folder)
        self.without = STATE["without"]
        self.fast = self.without.optimize(self.model)

    def test_its_calls_give_the_same_and_the_report_says_that_they_take_longer(self):
        self.assertEqual(self.package._package.native_problem(), "")
        with_library = self.package.optimize(self.model)
        before = sum(self.without.report().calls.values())
        for rows in (512, 256):
            given = self.inputs(rows)
            for _ in range(3):
                self.both(*given)
                self.assertTrue(torch.equal(self.fast(*given)["h"], with_library(*given)["h"]))
        self.assertEqual(sum(self.without.report().calls.values()) - before, 12)
        self.assertIn(f"it is for PyTorch 1.0, and this is {torch.__version__}", str(self.without.report()))

    def test_its_set_up_is_made_again(self):
        given, before = self.inputs(), sum(self.without.report().setups.values())
        self.both(*given)
        with torch.no_grad():
            self.model.scale.mul_(3)
        self.both(*given)
        self.assertEqual(sum(self.without.report().setups.values()) - before, 2)


class Gradients(Packaged):
    def gradients(self, module, given):
        given = [g.clone().requires_grad_() for g in given]
        module.zero_grad()
        out = module(*given)
        (out["h"].square().sum() + out["top"].sum()).backward()
        return [g.grad for g in given] + [p.grad.clone() for p in module.parameters()]

    def test_they_are_eager_s(self):
        given = self.inputs()
        self.same(self.gradients(self.model, given), self.gradients(self.fast, given))
        self.assertEqual(self.calls(), (1, {}))
        x, y = self.inputs()
        self.fast(x, y)["top"].sum().backward()  # of one output, for the parameters alone

    def test_gradcheck(self):
        operator = self.package._package.operator("chain_model.Chain_256x256")
        x, y = [t.clamp(0.25, 1) for t in self.inputs(256)]  # away from relu's edge
        weights = [self.model.scale.detach().clone().requires_grad_(), self.model.inner.shift]

        def scaled(scale):
            return operator.operator([x, y], [scale, weights[1]])[0].mean(0)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is not in float64, hence the tolerance
            self.assertTrue(torch.autograd.gradcheck(scaled, (weights[0],), eps=1e-2, atol=2e-3, rtol=2e-2, fast_mode=True))

    def test_double_backward_is_refused(self):
        x, y = self.inputs()
        x.requires_grad_()
        first, = torch.autograd.grad(self.fast(x, y)["h"].square().sum(), x, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "gradients have no gradients of their own"):
            first.sum().backward()

    def test_an_optimiser_s_steps_are_seen(self):
        optimiser = torch.optim.Adam(self.fast.parameters(), lr=0.05)
        x, y = self.inputs()
        losses = []
        for _ in range(4):
            optimiser.zero_grad()
            losses.append(self.fast(x, y)["h"].square().mean())
            losses[-1].backward()
            optimiser.step()
            with torch.no_grad():
                self.both(x, y)
        self.assertLess(losses[-1], losses[0])
        self.assertEqual(self.setups(), 5)  # once for each version of the weights

    def test_checkpointing_and_transforms(self):
        x, y = self.inputs()
        x.requires_grad_()
        wanted, = torch.autograd.grad(self.model(x, y)["h"].sum(), x)
        found, = torch.autograd.grad(
            torch.utils.checkpoint.checkpoint(self.fast, x, y, use_reentrant=False)["h"].sum(), x)
        self.same(wanted, found)
        jacobian = torch.func.grad(lambda x: self.fast(x, y)["h"].sum())(x)
        self.same(wanted, jacobian)


class Compiled(Packaged):
    def test_opcheck(self):
        x, y = self.inputs()
        operator = self.package._package.operator("chain_model.Chain_512x256").operator
        weights = [self.model.scale.detach(), self.model.inner.shift]
        torch.library.opcheck(operator, ([x, y], weights))
        torch.library.opcheck(operator, ([x.requires_grad_(), y], [weights[0].clone().requires_grad_(), weights[1]]))

    def test_compile_goes_through_it(self):
        # Without Inductor, whose C++ takes seconds: what is tested is what Dynamo and AOTAutograd see.
        module = torch.compile(self.fast, fullgraph=True, backend="aot_eager")
        x, y = self.inputs()
        with torch.no_grad():
            self.same(self.model(x, y), module(x, y))
        grads = []
        for made in (self.model, module):
            given = x.clone().requires_grad_()
            made(given, y)["h"].square().sum().backward()
            grads.append(given.grad)
        self.same(*grads)
        self.assertEqual(self.calls(), (2, {}))

    def test_export(self):
        x, y = self.inputs()
        program = torch.export.export(self.fast, (x, y))
        targets = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
        self.assertTrue(any("cudal1.fast_chain" in t for t in targets), targets)
        with torch.no_grad():
            self.same(self.model(x, y), program.module()(x, y))


LAYER = '''import torch


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(512))
        self.register_buffer("shift", torch.rand(512))

    def forward(self, x):
        h = x * self.scale + self.shift
        for _ in range(4):
            h = torch.tanh(h) * 0.5 + h
        return torch.softmax(h, dim=1), h.mean(1)
'''


class Backend(unittest.TestCase):
    """torch.compile(backend="cudal1"), with a search of its own."""

    def setUp(self):
        from cudal1 import backend

        torch._dynamo.reset()
        (STATE["folder"] / "layer_model.py").write_text(LAYER)
        importlib.invalidate_caches()
        self.backend, self.made = backend, []
        torch.manual_seed(5)
        self.layers = [importlib.import_module("layer_model").Layer().to(DEVICE) for _ in range(2)]
        self.x = torch.randn(128, 512, device=DEVICE)

    def compile(self, graph, inputs):
        self.made.append(self.backend.cudal1_backend(graph, inputs, options={
            "time_s": 20, "evaluations": 4, "program": CUDAL1, "show": False}))
        return self.made[-1]

    def compiled(self, model, **how):
        return torch.compile(model, backend=self.compile, **how)

    def decisions(self, work):
        """On the graphs that `work` compiles; again where a busy machine has left all of a search unmeasured."""
        for _ in range(4):
            torch._dynamo.reset()
            self.made.clear()
            before = len(self.backend.report())
            work()
            found = self.backend.report()[before:]
            if all(d.folder for d in found):
                return found
        self.fail(f"nothing faster was found: {[str(d) for d in found]}")

    def test_a_graph_runs_by_its_variant_or_by_inductor_whichever_is_faster(self):
        fast = [self.compiled(layer) for layer in self.layers]

        def all_are_right():
            for f, layer in zip(fast, self.layers):
                torch.testing.assert_close(f(self.x), layer(self.x))

        with torch.no_grad():
            decision, = self.decisions(all_are_right)
            self.assertIn(decision.runs, ("cudal1", "inductor"))
            self.assertRegex(str(decision), r"(cudal1|inductor), \d+\.\d\dx \[.*\] over Inductor's: .* us, inductor .* us")
            self.assertEqual(len(self.made), 1)  # the two layers have one graph, and weights of their own
            for chosen in (self.made[0].ours, self.made[0].theirs):
                self.made[0].chosen = chosen
                all_are_right()
                self.layers[1].scale.mul_(1.5)
                all_are_right()
        variants = sum(self.made[0].ours.package.report().calls.values())
        self.assertGreater(variants, 30)  # what was measured, and two times two calls of two layers

    def test_a_forward_and_a_backward_are_two_graphs(self):
        for least in (0, float("inf")):  # the variants, then Inductor's
            self.backend._FASTER = least
            self.addCleanup(setattr, self.backend, "_FASTER", 1.0)
            layer, reference = self.layers[0], copy.deepcopy(self.layers[0])
            fast = self.compiled(layer)

            def steps():
                for _ in range(2):
                    for call in (fast, reference):
                        values, mean = call(self.x)
                        ((values * self.x).sum() + mean.square().sum()).backward()

            parts = self.decisions(steps)
            torch.testing.assert_close(layer.scale.grad, reference.scale.grad, rtol=1e-4, atol=1e-4)
            self.assertEqual([p.graph.partition(", ")[2] for p in parts], ["forward", "backward"])
            self.assertEqual([p.runs for p in parts], ["cudal1" if least == 0 else "inductor"] * 2, list(map(str, parts)))
            layer.scale.grad = None

    def test_what_is_left_to_inductor(self):
        fast = self.compiled(self.layers[0], dynamic=True)
        with torch.no_grad():
            torch.testing.assert_close(fast(self.x), self.layers[0](self.x))
        self.assertEqual(str(self.backend.report()[-1]).partition(": ")[2], "inductor, its shapes are symbolic")
        with self.assertRaisesRegex(Exception, "no option speed; it has data, evaluations"):
            self.backend.cudal1_backend(None, [], options={"speed": 1})
        self.assertIn("cudal1", torch._dynamo.list_backends())


class Commands(Packaged):
    def test_verify(self):
        verify = importlib.import_module("fast_chain._cudal1.verify")
        found = verify.verify(self.package._package, DEVICE, times=False)
        self.assertEqual([c["status"] for c in found["cases"]], ["right"] * 2)
        self.assertEqual((found["changed_files"], found["exit_code"]), ([], 0))
        damaged = STATE["folder"] / "damaged"
        shutil.copytree(STATE["folder"] / "exported", damaged)
        program = damaged / "fast_chain/programs/chain_model_Chain_256x256/program.json"
        program.write_text(program.read_text().replace('"dim": [1]', '"dim": [0]').replace('"dim":[1]', '"dim":[0]'))
        index = damaged / "fast_chain/index.json"
        document = json.loads(index.read_text())
        document["made_on"] = {"processor": "another one", "torch": torch.__version__}
        index.write_text(json.dumps(document))
        (damaged / "fast_chain/__main__.py").unlink()
        found = json.loads(run("verify", damaged, "--no-times", "--device", DEVICE, "--json", code=1).stdout)
        self.assertRegex(found["changed_files"][0], "__main__.py is missing")
        self.assertRegex(found["changed_files"][1], "program.json was changed")
        self.assertRegex(found["differences"][0], "processor is .*, and was another one at the export")
        self.assertEqual({c["task"][12:]: c["status"] for c in found["cases"]},
                         {"Chain_512x256": "right", "Chain_256x256": "wrong"})
        self.assertIn("is no package", run("verify", STATE["folder"], code=2).stderr)

    def test_apply(self):
        done = run("apply", STATE["folder"] / "chain_model.py:Chain", "--beside", "none", "--seconds", "0.3", "--threads", "1",
                   "--device", DEVICE, "--json", code=None)
        found = json.loads(done.stdout)
        self.assertEqual(done.returncode, found["exit_code"])
        for result in found["results"]:
            mine = result["sides"]["cudal1"]
            self.assertEqual(result["verdict"], "faster" if mine["interval"][0] > 1 else "not faster", result)
            self.assertLess(mine["error"], 1e-6)
            # The variant has its two outputs, eager some of its steps' results beside them.
            self.assertGreater(result["sides"]["eager"]["peak_bytes"], mine["peak_bytes"])
            self.assertGreaterEqual(mine["peak_bytes"], 256 * 256 * 4)
        self.assertEqual(found["exit_code"], 0 if all(r["verdict"] == "faster" for r in found["results"]) else 1)

    def test_a_model_of_this_process(self):
        import cudal1

        model, (given,), known = STATE["own"]
        # What a search would have found.
        name = next((STATE["folder"] / "own.source").glob("*.py")).stem
        evaluate(STATE["folder"], f"{name}.make", 256)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fast = known()
        with torch.no_grad():
            self.same(model(*given), fast(*given))
        self.assertEqual(sum(cudal1.cudal1_package(fast).report().calls.values()), 2)

    def test_a_model_of_this_process_with_several_calls(self):
        import cudal1

        model, given, known = STATE["several"]
        name = next((STATE["folder"] / "several.source").glob("*.py")).stem
        for rows in (256, 512):
            evaluate(STATE["folder"], f"{name}.make_{rows}x256", rows)
        fast = known()
        with torch.no_grad():
            for call in (*given, tuple(t[:7] for t in given[0])):
                self.same(model(*call), fast(*call))
        report = cudal1.cudal1_package(fast).report()
        self.assertEqual(sum(report.calls.values()), 3)  # one of them when it was made
        self.assertEqual(sum(report.eager.values()), 1, report)


class Profiles(unittest.TestCase):
    def test_where_a_variants_time_goes(self):
        done = run("profile", "chain_model.Chain_512x256", "--calls", "5", "--json")
        found = json.loads(done.stdout)
        self.assertEqual((found["task"], found["device"], found["calls"]), ("chain_model.Chain_512x256", DEVICE, 5))
        steps = found["steps"]
        self.assertEqual([s["step"].partition(" (")[2] for s in steps], ["alloc h)", "launch chain)", "aten::amax)"])
        launch, amax = steps[1:]
        self.assertEqual((launch["kernel"], launch["grid"], launch["block"]), ("chain", [8, 1, 1], [64, 1, 1]))
        self.assertEqual((launch["bytes"], amax["bytes"]), (3 * 512 * 256 * 4 + 256 * 4, 512 * 256 * 4 + 512 * 4))
        self.assertTrue(all(s["us"] > 0 for s in (launch, amax)))
        if DEVICE != "cpu":
            self.assertEqual([k["name"] for k in launch["kernels"]], ["chain"])
            self.assertGreater(launch["registers"], 0)
        text = run("profile", "chain_model.Chain_512x256", "--calls", "5").stdout
        for said in ("chain_model.Chain_512x256, variant", "(launch chain)", "grid 8, block 64", "all "):
            self.assertIn(said, text)
        self.assertNotIn("alloc", text)
        self.assertIn("Nsight Compute", text)  # what it read, or why it was not read
        if DEVICE == "cpu":
            self.assertIn("was not read: it reads GPUs", text)
        self.assertNotIn("Nsight", run("profile", "chain_model.Chain_512x256", "--calls", "5", "--ncu", "off").stdout)

    def test_what_cannot_be_profiled(self):
        self.assertIn("no variant", run("profile", "chain_model.none", code=2).stderr)
        said = run("profile", "chain_model.Chain_512x256", "--device", "cuda:99", code=None)
        self.assertIn("not found right on a device like cuda:99" if DEVICE == "cpu" else "there is no cuda:99 here", said.stderr)


class Parts(unittest.TestCase):
    def test_other_architectures_are_compiled_once(self):
        from torch_package.runtime import kernels_cuda
        from torch_package.runtime.program import PackageError

        source, options = b'extern "C" __global__ void f(float* x) { x[threadIdx.x] *= 2; }', ["--std=c++20"]
        made = kernels_cuda.compiled_once(source, options, "sm_90a")
        self.assertEqual(made[:4], b"\x7fELF")
        kept, = kernels_cuda.cache_folder().glob("*.cubin")
        kept.write_bytes(kept.read_bytes()[:32] + made)
        self.assertEqual(kernels_cuda.compiled_once(source, options, "sm_90a"), made)
        kept.write_bytes(b"damaged")
        self.assertEqual(kernels_cuda.compiled_once(source, options, "sm_90a"), made)
        with self.assertRaisesRegex(PackageError, "cannot compile its kernels"):
            kernels_cuda.compiled_once(b"no C++", options, "sm_80")

    def test_each_architecture_has_its_cubin(self):
        from torch_package.runtime.package import cubin_for

        kernels = {"architecture": "sm_90a", "object": "measured", "others": {"sm_80": "other"}}
        self.assertEqual([cubin_for(kernels, a) for a in ("sm_90a", "sm_80", "sm_120a")], ["measured", "other", ""])

    def test_what_is_close_in_half_precision(self):
        from torch_package.runtime import checks

        wanted = torch.linspace(-100, 100, 1001)
        found = wanted + 0.1
        self.assertIn("differs by up to 0.1", checks.why_different([found], [wanted]))
        self.assertEqual(checks.why_different([found], [wanted], checks.Held("half", 1e-3)), "")
        self.assertIn("differs by up to 2", checks.why_different([wanted + 2], [wanted], checks.Held("half", 1e-3)))
        with checks.Held("strict").eager_flags():
            self.assertFalse(torch.backends.cudnn.allow_tf32)
        self.assertTrue(torch.backends.cudnn.allow_tf32)

    def test_the_licences_of_what_is_inside(self):
        from torch_package import writing

        for headers in ([], ["cub", "cuda", "libcu++"], ["cutlass"]):
            for on_cpu in (False, True):
                said = writing.notice("name", on_cpu, not on_cpu, headers).lower()
                for file in writing.licences_of(on_cpu, headers):
                    self.assertIn(file.partition(".")[0], said)
                    self.assertIn("permi", (writing.PARTS / "licences" / file).read_text().lower())  # permission, permitted
        exported = STATE["folder"] / "exported"
        self.assertEqual(sorted(p.name for p in (exported / "licences").iterdir()),
                         ["boost.txt", "fmt.txt", "pytorch.txt"] if DEVICE == "cpu" else ["boost.txt", "pytorch.txt"])

    def test_running_statistics_are_refused(self):
        from torch_package.staged import Refused, check_statistics

        model = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2, track_running_stats=False))
        check_statistics(model, {"0": False, "1": True})
        with self.assertRaisesRegex(Refused, "0 is in training mode, where each call updates its running statistics"):
            check_statistics(model, {"0": True})

    def test_bundles_of_cubins(self):
        from torch_package.runtime.kernels_cuda import cubins_in

        data = b"cudal1 cubins 1\n" + struct.pack("<QQQ", 2, 3, 5)
        data += b"\0" * (-len(data) % 16) + b"abc"
        data += b"\0" * (-len(data) % 16) + b"defgh"
        self.assertEqual(cubins_in(data), [b"abc", b"defgh"])
        self.assertEqual(cubins_in(b"\x7fELF"), [b"\x7fELF"])

    def test_what_is_called_faster(self):
        import apply_model
        from torch_package.runtime import checks

        def verdict(interval, error=1e-7, differs="", held=(), **others):
            sides = {"eager": {"speedup": 1, "interval": [1, 1], "error": 1e-7},
                     "cudal1": {"speedup": sum(interval) / 2, "interval": interval, "error": error, "differs": differs}}
            sides |= {kind: {"speedup": sum(i) / 2, "interval": i} for kind, i in others.items()}
            return apply_model.verdict_of(checks, sides, ["eager", *others], held, 1e-7, torch.float32)["verdict"]

        self.assertEqual(verdict([1.02, 1.1]), "faster")
        self.assertEqual(verdict([0.98, 1.1]), "not faster")
        self.assertEqual(verdict([1.5, 1.6], compile=[1.2, 1.3]), "faster")
        self.assertEqual(verdict([1.5, 1.6], compile=[1.4, 1.55]), "not faster")
        self.assertEqual(verdict([2, 3], error=0.1), "wrong")
        self.assertEqual(verdict([2, 3], differs="output 0 differs"), "wrong")
        strict, half = (checks.Held("strict"),), (checks.Held("half", 2**-10),)
        self.assertEqual([verdict([2, 3], error=e, held=strict) for e in (4e-6, 6e-6)], ["faster", "wrong"])
        self.assertEqual([verdict([2, 3], error=e, held=half) for e in (9e-4, 1.1e-3)], ["faster", "wrong"])
        self.assertEqual(verdict([2, 3], error=9e-3), "faster")  # as it always was


if __name__ == "__main__":
    with contextlib.suppress(ValueError):
        at = sys.argv.index("--device")
        DEVICE = sys.argv[at + 1]
        del sys.argv[at:at + 2]
    CUDAL1 = sys.argv.pop(1)
    unittest.main()
