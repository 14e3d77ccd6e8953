#!/usr/bin/env python3
"""Exported modules in a user's hands: what they do where they are not called as they were measured. Imports a few
models, writes each with its own program as an export does, builds them and calls them, on the CPU.

    exported_module_test.py CUDAL1 WRITE_MODEL_FILES
"""

import concurrent.futures
import copy
import dataclasses
import importlib
import inspect
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import time
import unittest
import warnings

import torch
import torch.utils.cpp_extension

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAD = "import collections\nimport dataclasses\nimport torch\nimport torch.nn as nn\n\n"
INIT = "\ndef get_init_inputs():\n    return []\n"
MODELS = {
    # One tensor to one tensor; a parameter, a buffer in a submodule, and a table that forward makes.
    "plain": HEAD + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.0))
        self.register_buffer("shift", torch.rand(8))

    def forward(self, x):
        return torch.relu(self.net(x)) + self.shift * torch.tensor([1.0, 2.0] * 4, device=x.device)

def get_inputs():
    return [torch.rand(4, 8)]
""" + INIT,
    # Modes, arguments by name, containers in and out, an output that is an input.
    "rich": HEAD + """
Batch = collections.namedtuple("Batch", ["a", "b"])

@dataclasses.dataclass
class Out:
    y: torch.Tensor
    rest: dict

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).eval()
        self.last = nn.BatchNorm1d(8)

    def forward(self, batch, pair, power=2, mask=None):
        x = self.net(batch.a) - batch.b + pair["left"] * 3 - pair["right"][0]
        return Out(self.last(x) ** power, {"none": mask, "same": [batch.a]})

def get_inputs():
    return [Batch(torch.rand(4, 8), torch.rand(4, 8)), {"left": torch.rand(4, 8), "right": (torch.rand(4, 8),)}]
""" + INIT,
    # Operators that take lists of tensors, or give one.
    "lists": HEAD + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.tensor([0, 3, 5]))

    def forward(self, x, y):
        left, right = torch.cat([x, y, x + y])[self.rows].split(4, 1)
        return torch.stack([left, right * 2])

def get_inputs():
    return [torch.rand(4, 8), torch.rand(4, 8)]
""" + INIT,
    # What is kept from call to call: a buffer, an attribute, an input.
    "state": HEAD + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.hidden = torch.zeros(4, 8)

    def forward(self, x, y):
        self.calls += 1
        self.hidden = torch.tanh(self.hidden.to(y.device) + y)  # it is no buffer, and stays where it was made
        x.mul_(2)
        return x + y + self.hidden * self.calls

def get_inputs():
    return [torch.rand(4, 8), torch.rand(4, 8)]
""" + INIT,
}

FILES = {}


def setUpModule():
    """Builds every model once."""
    temporary = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(temporary.cleanup)
    folder = pathlib.Path(temporary.name)
    for part in ("models", "files", "eager"):
        (folder / part).mkdir()
    for name, text in MODELS.items():
        (folder / "models" / f"{name}.py").write_text(text)
    os.environ.setdefault("TORCH_EXTENSIONS_DIR", str(folder / "build"))
    os.environ["CUDAL1_PYTHON"] = sys.executable
    tasks, files = folder / "tasks", folder / "files"
    subprocess.run([CUDAL1, "tasks", "import", folder / "models", "--out", tasks], check=True)
    subprocess.run([WRITE, tasks, files], check=True)
    subprocess.run([WRITE, tasks, folder / "eager", "eager"], check=True)
    (folder / "eager" / "plain.py").rename(files / "with_eager.py")
    names = list(MODELS)
    if HAS_CUDA_TOOLKIT:
        subprocess.run([WRITE, tasks, folder / "eager", "error", "graph"], check=True)
        for name in MODELS if torch.cuda.is_available() else ["plain"]:
            (folder / "eager" / f"{name}.py").rename(files / f"{name}_graph.py")
            names.append(f"{name}_graph")
    sys.path.insert(0, str(files))
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(lambda name: subprocess.run([sys.executable, files / f"{name}.py"], check=True), names))
    FILES.update({name: importlib.import_module(name) for name in [*names, "with_eager"]})


HAS_CUDA_TOOLKIT = torch.version.cuda is not None and torch.utils.cpp_extension.CUDA_HOME is not None


class Exported(unittest.TestCase):
    def both(self, name):
        """Model and ModelNew with the same weights."""
        sides = []
        for kind in ("Model", "ModelNew"):
            torch.manual_seed(7)
            sides.append(getattr(FILES[name], kind)())
        return sides

    def inputs(self, name):
        return FILES[name].get_inputs()

    def same(self, a, b, exactly=True):
        torch.testing.assert_close(b, a, rtol=0 if exactly else 1e-5, atol=0 if exactly else 1e-6)

    def refuses(self, words, call, *args, **kwargs):
        with self.assertRaises(RuntimeError) as caught:
            call(*args, **kwargs)
        self.assertIn(words, str(caught.exception))


class Modes(Exported):
    def test_a_module_is_right_in_the_modes_that_it_was_made_in(self):
        model, new = self.both("rich")
        with torch.no_grad():
            self.same(model(*self.fixed).y, new(*self.fixed).y)

    def setUp(self):
        torch.manual_seed(1)
        self.fixed = self.inputs("rich")

    def test_another_mode_is_an_error_that_says_what_to_call(self):
        _, new = self.both("rich")
        new.train()
        self.refuses("made with modules in evaluation mode that are in the other one now (net.1); call eval() on these",
                     new, *self.fixed)
        new = self.both("rich")[1].eval()
        self.refuses("in training mode that are in the other one now (last); call train()", new, *self.fixed)

    def test_a_mode_that_changes_after_calls_is_seen(self):
        _, new = self.both("rich")
        for _ in range(3):
            new(*self.fixed)
        new.net[1].train()
        self.refuses("call eval()", new, *self.fixed)
        new.net[1].eval()
        new(*self.fixed)

    def test_modes_that_do_not_matter_may_be_any(self):
        model, new = self.both("plain")
        for mode in (new.eval, new.train):
            mode()
            x = torch.rand(4, 8)
            self.same(model(x).detach(), new(x).detach())


class Arguments(Exported):
    def test_outputs_are_in_the_problem_s_containers(self):
        model, new = self.both("rich")
        given = self.inputs("rich")
        with torch.no_grad():
            wanted, got = model(*given), new(*given)
        self.assertIs(type(got), FILES["rich"].Out)
        self.assertEqual(list(got.rest), ["none", "same"])
        self.assertIsNone(got.rest["none"])
        self.assertIs(type(got.rest["same"]), list)
        self.same(wanted.y, got.y)
        self.same(wanted.rest["same"], got.rest["same"])

    def test_arguments_are_given_as_forward_takes_them(self):
        model, new = self.both("rich")
        batch, pair = self.inputs("rich")
        self.assertEqual(inspect.signature(new.forward), inspect.signature(model.forward))
        with torch.no_grad():
            wanted = model(batch, pair).y
            other_order = {"right": pair["right"], "left": pair["left"]}
            for _ in range(2):
                self.same(wanted, new(pair=pair, batch=batch).y)
                self.same(wanted, new(batch, pair, mask=None, power=2).y)
                self.same(wanted, new(batch, other_order).y)  # the order of a dict's keys says nothing

    def test_other_arguments_are_refused(self):
        _, new = self.both("rich")
        batch, pair = self.inputs("rich")
        self.refuses("whose power is 2, but was given 3", new, batch, pair, 3)
        self.refuses("whose mask is None, but was given a tensor", new, batch, pair, mask=torch.rand(2))
        self.refuses("whose pair is a container of ['left', 'right']", new, batch, {"left": pair["left"]})
        self.refuses("pair['right'][0] is a tensor, but was given None", new, batch, {**pair, "right": (None,)})
        for wrong in ({}, {"pair": pair, "other": 1}):
            with self.assertRaises(TypeError):
                new(batch, **wrong)

    def test_another_shape_type_or_layout_is_right_or_refused(self):
        model, new = self.both("plain")
        self.refuses("input x is Float [5, 8], and this program was made for Float [4, 8]", new, torch.rand(5, 8))
        self.refuses("input x is Double", new, torch.rand(4, 8).double())
        self.refuses("input x is not a dense tensor", new, torch.rand(4, 8).to_sparse())
        conjugate = torch.view_as_complex(torch.rand(4, 8, 2)).conj()
        with torch.no_grad():
            for x in (torch.rand(8, 4).t(), torch.rand(4, 16)[:, ::2], torch.rand(1, 8).expand(4, 8), conjugate.imag):
                self.same(model(x), new(x), exactly=False)

    def test_a_module_of_another_type_is_refused(self):
        for change in ("half", "double"):
            _, new = self.both("plain")
            new(torch.rand(4, 8))
            getattr(new, change)()
            self.refuses("weight net_0_weight is", new, torch.rand(4, 8))

    def test_memory_that_forward_writes_into_and_reads_elsewhere_is_refused(self):
        _, new = self.both("state")
        x = torch.rand(4, 8)
        for _ in range(2):
            self.refuses("shares memory with tensor 1; give it a clone", new, x, x)
            new(torch.rand(4, 8), torch.rand(4, 8))

    def test_state_is_kept_as_the_model_keeps_it(self):
        model, new = self.both("state")
        for _ in range(4):
            x, y = self.inputs("state")
            x2 = x.clone()
            self.same(model(x, y), new(x2, y), exactly=False)
            self.same(x, x2)
        self.same(model.calls, new.calls)
        self.same(model.hidden, new.hidden, exactly=False)


class Gradients(Exported):
    def test_backward_says_that_there_are_no_gradients(self):
        _, new = self.both("plain")
        for x in (torch.rand(4, 8), torch.rand(4, 8, requires_grad=True)):
            for _ in range(2):
                y = new(x)
                self.assertTrue(y.requires_grad)
                self.refuses("this program computes no gradients. Call the module under torch.no_grad()",
                             y.sum().backward)
                self.refuses("no gradients", torch.autograd.grad, new(x).sum(), new.net[0].weight, allow_unused=True)
        before = torch.nn.Linear(8, 8)
        self.refuses("no gradients", new(before(torch.rand(4, 8))).sum().backward)

    def test_nothing_requires_gradients_where_nothing_asks_for_them(self):
        _, new = self.both("plain")
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                self.assertFalse(new(torch.rand(4, 8)).requires_grad)
        new.requires_grad_(False)
        self.assertFalse(new(torch.rand(4, 8)).requires_grad)
        self.refuses("no gradients", new(torch.rand(4, 8, requires_grad=True)).sum().backward)
        _, rich = self.both("rich")
        batch, pair = self.inputs("rich")
        for _ in range(2):
            rich(batch, pair)
            self.assertFalse(batch.a.requires_grad)

    def test_tangents_are_refused(self):
        _, new = self.both("plain")
        with torch.no_grad():
            new(torch.rand(4, 8))
        with torch.autograd.forward_ad.dual_level():
            self.refuses("has a tangent", new, torch.autograd.forward_ad.make_dual(torch.rand(4, 8), torch.rand(4, 8)))

    def test_eager_stands_in_where_that_was_asked_for(self):
        torch.manual_seed(7)
        new = FILES["with_eager"].ModelNew()
        model, _ = self.both("plain")
        x = torch.rand(4, 8)
        for _ in range(2):
            for module in (model, new):
                module.zero_grad()
                module(x).sum().backward()
            self.same(model.net[0].weight.grad, new.net[0].weight.grad)
            with torch.no_grad():
                self.same(model(x), new(x))
        self.assertIsNotNone(new._kb_state)


class Operators(Exported):
    def operator(self, name, new, *tensors):
        file = FILES[name]
        kept = [file._kb_get(*place) for _, _, *place in file._kb_kept(new)]
        return file._KB_OPERATORS[0], ([*tensors, *kept], [file._kb_weight(new, n, tensors[0]).detach()
                                                          for n in file._KB_WEIGHTS])

    def test_opcheck_finds_nothing(self):
        _, new = self.both("plain")
        self.same(new(torch.ones(4, 8)).detach(), self.called(self.operator("plain", new, torch.ones(4, 8)))[0])
        torch.library.opcheck(*self.operator("plain", new, torch.rand(4, 8)))
        _, new = self.both("state")
        torch.library.opcheck(*self.operator("state", new, torch.rand(4, 8), torch.rand(4, 8)))
        _, new = self.both("rich")
        batch, pair = self.inputs("rich")
        torch.library.opcheck(*self.operator("rich", new, batch.a, batch.b, pair["left"], pair["right"][0]))

    @staticmethod
    def called(operator):
        return operator[0](*operator[1])

    def test_compiled_whole_it_gives_the_same(self):
        for name in MODELS:
            torch._dynamo.reset()
            torch.manual_seed(3)
            model, new = self.both(name)
            compiled = torch.compile(new, fullgraph=True, backend="aot_eager")
            for grad in (torch.no_grad, torch.enable_grad):
                for _ in range(2):
                    given = self.inputs(name)
                    with grad():
                        wanted, got = model(*copy.deepcopy(given)), compiled(*given)
                    self.same([t.detach() for t in leaves(wanted)], [t.detach() for t in leaves(got)], exactly=False)
                    self.assertIs(type(got), type(wanted))

    def test_compiled_it_refuses_gradients_and_modes(self):
        torch._dynamo.reset()
        compiled = torch.compile(self.both("plain")[1], fullgraph=True, backend="aot_eager")
        self.refuses("no gradients", compiled(torch.rand(4, 8)).sum().backward)
        with self.assertRaises(Exception) as caught:
            torch.compile(self.both("rich")[1].eval(), fullgraph=True, backend="aot_eager")(*self.inputs("rich"))
        self.assertIn("call train()", str(caught.exception))

    def test_exported_and_traced_it_is_no_constant(self):
        model, new = self.both("plain")
        x, other = torch.rand(4, 8), torch.rand(4, 8)
        with torch.no_grad():
            new(x)
            self.same(model(other), torch.export.export(new, (x,), strict=False).module()(other), exactly=False)
            self.same(model(other), torch.jit.trace(new, (x,))(other), exactly=False)

    def test_tensors_without_values_give_tensors_without_values(self):
        _, new = self.both("rich")
        with torch.no_grad():
            new(*self.inputs("rich"))
            with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
                self.assertEqual(new(*self.inputs("rich")).y.shape, (4, 8))


class Devices(Exported):
    def test_the_models_run_wherever_they_and_their_inputs_are(self):
        """Else those on a GPU say nothing of the exported modules."""
        for name in MODELS:
            given = torch.utils._pytree.tree_map(lambda t: t.to("meta"), self.inputs(name))
            got = leaves(self.both(name)[0].to("meta")(*given))
            self.assertEqual({t.device.type for t in got}, {"meta"}, name)

    def test_tensors_on_several_devices_are_refused_by_the_names_of_these(self):
        _, new = self.both("plain")
        with torch.no_grad():
            self.refuses("is on cpu, and input 0 on meta", new, torch.rand(4, 8, device="meta"))
            new.to("meta")
            self.refuses("is on meta, and the rest is on cpu", new, torch.rand(4, 8))

    @unittest.skipUnless(HAS_CUDA_TOOLKIT, "it links against CUDA")
    def test_a_program_for_a_gpu_says_where_the_tensors_are(self):
        _, new = self.both("plain_graph")
        with torch.no_grad():
            self.refuses("runs on a GPU, and was given tensors on cpu", new, torch.rand(4, 8))


class Loading(Exported):
    HEAVY = ("ATen/core/ivalue.h", "ATen/Functions.h", "ATen/autocast_mode.h", "pybind11/pybind11.h",
             "torch/csrc/autograd/function.h", "torch/csrc/autograd/variable.h", "torch/extension.h")

    def test_none_of_the_headers_that_take_seconds_is_compiled(self):
        for name in FILES:
            folder = pathlib.Path(FILES[name]._kb_extension.__file__).parent
            ninja = (folder / "build.ninja").read_text()
            flags = re.search("^cflags = (.*)$", ninja, re.MULTILINE)[1]
            headers = subprocess.run(["c++", *flags.split(), "-M", folder / "main.cpp"], capture_output=True, text=True,
                                     check=True).stdout
            self.assertIn("ATen/core/Tensor.h", headers)
            found = {header for header in self.HEAVY if header in headers}
            self.assertEqual(found, {"ATen/core/ivalue.h"} if name.startswith("lists") else set(), name)


class Lives(Exported):
    def test_weights_that_change_are_seen(self):
        model, new = self.both("plain")
        x = torch.rand(4, 8)
        with torch.no_grad():
            new(x)
            for change in (lambda m: m.net[0].weight.add_(1), lambda m: setattr(m.net, "0", made),
                           lambda m: m.load_state_dict(state), lambda m: m.shift.zero_()):
                torch.manual_seed(5)
                made = torch.nn.Linear(8, 8)
                state = {name: torch.rand_like(t) for name, t in model.state_dict().items()}
                change(model), change(new)
                self.same(model(x), new(x))
                self.same(model(x), new(x))

    def test_copies_and_pickles_go_on_by_themselves(self):
        for name in MODELS:
            model, new = self.both(name)
            with torch.no_grad():
                new(*self.inputs(name))
                model(*self.inputs(name))
                given = self.inputs(name)
                if name == "state":
                    new.hidden = model.hidden.clone()
                for other in (copy.deepcopy(new), pickle.loads(pickle.dumps(new))):
                    wanted = copy.deepcopy(model)(*copy.deepcopy(given))
                    self.same(leaves(wanted), leaves(other(*copy.deepcopy(given))), exactly=False)
                    self.assertIsNot(other._kb_state, new._kb_state)

    def test_threads_call_it_at_once(self):
        model, new = self.both("plain")
        torch.set_num_threads(1)

        def called(seed):
            x = torch.rand(4, 8, generator=torch.Generator().manual_seed(seed))
            with torch.no_grad():
                return torch.equal(model(x), new(x))

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertTrue(all(pool.map(called, range(400))))

    def test_autocast_around_it_gives_what_it_computes_without(self):
        model, new = self.both("plain")
        x = torch.rand(4, 8)
        with torch.no_grad():
            wanted = new(x)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                self.same(wanted, new(x))
                half = torch.nn.Linear(8, 8)(x)
                self.assertEqual(half.dtype, torch.bfloat16)
                got = new(half)
            self.same(model(half.float()), got)

    def test_weights_of_inference_mode_are_seen_to_change(self):
        torch.manual_seed(7)
        with torch.inference_mode():
            new = FILES["plain"].ModelNew()
            x = torch.rand(4, 8)
            before = new(x)
            new.net[0].weight.mul_(2)
            new.net[0].bias.mul_(2)
            self.assertFalse(torch.equal(before, new(x)))

    def test_hooks_are_called_as_of_any_module(self):
        every = torch.nn.modules.module
        model, new = self.both("plain")
        whole = (type(model), type(new))
        x = torch.rand(4, 8)
        added = lambda module, given, result: result + 1 if isinstance(module, whole) else None
        doubled = lambda module, given: (given[0] * 2,) if isinstance(module, whole) else None
        with torch.no_grad():
            without = new(x)
            for register in (lambda m: m.register_forward_hook(added), lambda m: m.register_forward_pre_hook(doubled),
                             lambda m: every.register_module_forward_hook(added),
                             lambda m: every.register_module_forward_pre_hook(doubled)):
                for m in (model, new):
                    self.same(without, m(x))
                    handle = register(m)
                    hooked = m(x)
                    self.assertFalse(torch.equal(without, hooked))
                    if m is model:
                        wanted = hooked
                    self.same(wanted, hooked)
                    handle.remove()
            self.same(without, new(x))
        seen = []
        handle = new.register_full_backward_pre_hook(lambda *given: seen.append(given))
        with self.assertRaises(RuntimeError):
            new(x).sum().backward()
        self.assertEqual(len(seen), 1)
        handle.remove()

    def test_another_forward_is_called(self):
        _, new = self.both("plain")
        x = torch.rand(4, 8)
        with torch.no_grad():
            wanted = [new(x), new(x)][1]

            class Other(type(new)):
                def forward(self, x):
                    return super().forward(x) + 1

            torch.manual_seed(7)
            other = Other()
            for _ in range(3):
                self.same(wanted + 1, other(x))
            new.forward = lambda x: x
            self.assertIs(new(x), x)
            del new.forward
            self.same(wanted, new(x))
            new.compile(backend="eager", fullgraph=True)
            for _ in range(2):
                self.same(wanted, new(x))

    def test_executed_twice_it_has_one_operator(self):
        text = pathlib.Path(FILES["plain"].__file__).read_text()
        for _ in range(2):
            space = {}
            exec(compile(text, "<string>", "exec"), space)
            torch.manual_seed(7)
            new = space["ModelNew"]()
            self.assertIs(space["_KB_OPERATORS"][0], FILES["plain"]._KB_OPERATORS[0])
            self.same(self.both("plain")[0](torch.ones(4, 8)).detach(), new(torch.ones(4, 8)).detach())


@unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
class OnGpu(Exported):
    """Step by step, and as one graph on two lanes."""

    def setUp(self):
        torch.manual_seed(2)

    def on_gpu(self, name):
        model, new = self.both(name)
        return model.cuda(), new.cuda()

    def given(self, name):
        return torch.utils._pytree.tree_map(lambda t: t.cuda(), self.inputs(name))

    def test_it_gives_what_the_model_gives(self):
        for name in [n for n in FILES if n != "with_eager"]:
            with self.subTest(name):
                model, new = self.on_gpu(name)
                for grad in (torch.no_grad, torch.enable_grad):
                    for _ in range(3):
                        given = self.given(name)
                        with grad():
                            wanted, got = model(*copy.deepcopy(given)), new(*given)
                        self.same([t.detach() for t in leaves(wanted)], [t.detach() for t in leaves(got)], exactly=False)
                        self.assertEqual([t.requires_grad for t in leaves(got)][0], grad is torch.enable_grad
                                         and name.split("_")[0] not in ("state", "lists"))
                self.assertEqual(new.kernel_notes(), [])

    def test_streams_and_threads_call_it_at_once(self):
        for name in ("plain", "plain_graph"):
            with self.subTest(name):
                model, new = self.on_gpu(name)
                streams = [torch.cuda.Stream() for _ in range(4)]

                def called(i):
                    with torch.no_grad(), torch.cuda.stream(streams[i % 4]):
                        x = torch.rand(4, 8, device="cuda")
                        y = new(x)
                        return torch.allclose(model(x), y, rtol=1e-5, atol=1e-6)

                with concurrent.futures.ThreadPoolExecutor(4) as pool:
                    self.assertTrue(all(pool.map(called, range(400))))

    def test_it_is_captured_in_a_graph_of_the_caller_after_a_first_call(self):
        for name in ("plain", "plain_graph"):
            with self.subTest(name):
                model, new = self.on_gpu(name)
                x = torch.rand(4, 8, device="cuda")
                torch.cuda.synchronize()
                with torch.no_grad():
                    def captured():
                        graph = torch.cuda.CUDAGraph()
                        with torch.cuda.graph(graph):
                            return graph, new(x)

                    self.refuses("must come before a CUDA graph is captured", captured)
                    self.same(model(x), new(x), exactly=False)
                    graph, y = captured()
                    for _ in range(3):
                        x.copy_(torch.rand(4, 8))
                        graph.replay()
                        self.same(model(x), y, exactly=False)
                    self.same(model(x), new(x), exactly=False)

    def test_another_device_is_refused_or_right(self):
        _, new = self.on_gpu("plain_graph")
        self.refuses("move the model and its inputs to a GPU", new, torch.rand(4, 8))
        self.refuses("move the model and its inputs to a GPU", new.cpu(), torch.rand(4, 8))
        model, new = self.both("plain")
        with torch.no_grad():
            new(torch.rand(4, 8))
            x = torch.rand(4, 8, device="cuda")
            self.same(model.cuda()(x), new.cuda()(x), exactly=False)
            self.refuses("is on cuda:0, and the rest is on cpu", new, x.cpu())

    def test_it_refuses_gradients_and_other_types(self):
        for name in ("plain", "plain_graph"):
            _, new = self.on_gpu(name)
            x = torch.rand(4, 8, device="cuda")
            for _ in range(2):
                self.refuses("no gradients", new(x).sum().backward)
                self.refuses("no gradients", new(x.clone().requires_grad_()).sum().backward)
            self.refuses("weight net_0_weight is Half", new.half(), x)

    def test_as_an_operator_it_is_checked_and_compiled(self):
        for name in ("plain", "plain_graph"):
            torch._dynamo.reset()
            model, new = self.on_gpu(name)
            x = torch.rand(4, 8, device="cuda")
            torch.library.opcheck(*Operators.operator(self, name, new, x))
            for how in ("default", "reduce-overhead"):
                compiled = torch.compile(new, fullgraph=True, mode=how)
                with torch.no_grad():
                    for _ in range(4):
                        x = torch.rand(4, 8, device="cuda")
                        self.same(model(x), compiled(x).clone(), exactly=False)

    def test_autocast_copies_and_pickles(self):
        for name in ("plain", "plain_graph"):
            model, new = self.on_gpu(name)
            x = torch.rand(4, 8, device="cuda")
            with torch.no_grad():
                with torch.autocast("cuda"):
                    wanted = new(x)
                self.same(model(x), wanted, exactly=False)
                for other in (copy.deepcopy(new), pickle.loads(pickle.dumps(new))):
                    self.same(wanted, other(x), exactly=False)

    def test_the_time_of_a_call_is_printed(self):
        for name in ("plain", "plain_graph"):
            model, new = self.on_gpu(name)
            x = torch.rand(4, 8, device="cuda")
            with torch.no_grad():
                for side, module in (("eager", model), ("exported", new)):
                    for _ in range(100):
                        module(x)
                    torch.cuda.synchronize()
                    begin = time.perf_counter()
                    for _ in range(2000):
                        module(x)
                    torch.cuda.synchronize()
                    print(f"{name}: {side} {(time.perf_counter() - begin) / 2000 * 1e6:.2f} us a call")


def leaves(value):
    if isinstance(value, dict):
        return [t for item in value.values() for t in leaves(item)]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in leaves(item)]
    if dataclasses.is_dataclass(value):
        return [t for field in dataclasses.fields(value) for t in leaves(getattr(value, field.name))]
    return [value] if isinstance(value, torch.Tensor) else []


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    CUDAL1, WRITE = (str(pathlib.Path(name).resolve()) for name in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
