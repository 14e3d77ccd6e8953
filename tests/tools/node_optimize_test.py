#!/usr/bin/env python3
"""cudal1.optimize(model, inputs, node=...): a node imports a text of the model, searches, and gives a package, which is checked,
measured and run here. Also what is refused, and that a model's text says what the model computes.

    node_optimize_test.py FOLDER_OF_PROGRAMS
"""

import itertools
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

import torch

from served_node import QUICK, ServedNode

import cudal1
from cudal1.exported_source import source_of

BIN = ""


class Head(torch.nn.Module):
    """Much for one kernel to do in the place of ten."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Module()
        self.inner.scale = torch.nn.Parameter(torch.randn(256))
        self.register_buffer("shift", torch.zeros(256))
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x, y, times=2.0, *, mask=None):
        h = self.drop(x * self.inner.scale + self.shift)
        for _ in range(6):
            h = torch.relu(h) * 0.75 + y * times
        return {"h": h, "top": (h.amax(1),)}


def given(rows=512):
    return torch.randn(rows, 256), torch.randn(rows, 256)


def executed(source):
    names = {}
    exec(compile(source, "model.py", "exec"), names)
    return names


class Texts(unittest.TestCase):
    def test_computes_what_the_model_does_with_the_names_of_its_state(self):
        model = Head().eval()
        model.inner.scale.data.uniform_(1, 2)
        source, modes = source_of(model, given())
        made = executed(source)["Model"]()
        self.assertEqual({k: v.shape for k, v in made.state_dict().items()}, {k: v.shape for k, v in model.state_dict().items()})
        self.assertTrue(((made.inner.scale >= 1) & (made.inner.scale <= 2)).all())
        made.load_state_dict(model.state_dict())
        call = given()
        torch.testing.assert_close(made(*call), model(*call))
        self.assertEqual(modes, {"": False, "inner": False, "drop": False})  # dropout decides
        self.assertFalse(made.drop.training)
        self.assertEqual(source_of(torch.nn.Sequential(torch.nn.ReLU()).train(), given()[:1])[1], {})
        inputs = executed(source)["get_inputs"]()
        self.assertEqual([list(inputs), inputs["x"].shape], [["x", "y"], call[0].shape])

    def test_has_no_values_of_weights(self):
        model = torch.nn.Linear(64, 64)
        with torch.no_grad():
            model.weight[3, 5] = 0.0123456789
        self.assertNotIn("0.0123456", source_of(model, (torch.randn(2, 64),))[0])

    def test_what_no_text_can_say_is_refused(self):
        def refusal(model, call):
            with self.assertRaises(cudal1.InvalidRequest) as caught:
                source_of(model, call)
            return str(caught.exception)

        class Listed(torch.nn.Module):
            def forward(self, x):
                return x[0] + x[1]

        class Counted(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("calls", torch.zeros(1))

            def forward(self, x):
                self.calls += 1
                return torch.relu_(x + 1)

        class Several(torch.nn.Module):
            def forward(self, *given):
                return given[0] + given[1]

        class Table(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("places", torch.randint(0, 9, (9999,)))

            def forward(self, x):
                return x[self.places]

        self.assertIn("forward's x is a list", refusal(Listed(), {"x": list(given())}))
        self.assertIn("torch.export cannot export Linear", refusal(torch.nn.Linear(3, 3), (given()[0],)))
        self.assertIn("any number of arguments (*given)", refusal(Several(), given()))
        self.assertIn("table of 9999 values", refusal(Table(), (given()[0],)))
        for model in (torch.nn.BatchNorm1d(256), Counted()):
            self.assertIn("call eval() first", refusal(model, (given()[0],)))
        self.assertIn("not contiguous", refusal(torch.nn.ReLU(), (given()[0].t(),)))


class OnANode(unittest.TestCase):
    numbers = itertools.count()

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        os.environ.update(XDG_CACHE_HOME=temporary.name, CUDAL1_PYTHON=sys.executable)
        os.environ.pop("CUDAL1_TOKEN", None)
        cls.node = ServedNode(BIN, settings=[*QUICK, "timing.screening_pairs=4"])
        cls.addClassCleanup(cls.node.close)

    def token(self, *may):
        made = subprocess.run([f"{BIN}/cudal1", "serve", "--data", str(self.node.data), "--new-token", f"client{next(self.numbers)}", "--may",
                               ",".join(may)], capture_output=True, text=True, check=True, env=self.node.environment)
        return made.stdout.strip()

    def optimize(self, model, inputs, **more):
        return cudal1.optimize(model, inputs, node=self.node.url, show=False, **more)

    def test_a_model_becomes_faster(self):
        torch.manual_seed(3)
        model, call = Head().eval(), given()
        token = self.token("search", "import")
        limits = {"token": token, "time_s": 30, "evaluations": 6}
        fast = self.optimize(model, call, **limits)
        self.assertIsNot(fast, model)
        package = cudal1.cudal1_package(fast)
        with torch.no_grad():
            torch.testing.assert_close(fast(*call), model(*call))
            self.assertEqual(sum(package.report().eager.values()), 0, package.report())
            fast(*call, times=3.0), fast(*given(7))
            self.assertEqual(sum(package.report().eager.values()), 2, package.report())
            fast.train()
            fast(*call)
        self.assertIn("is not in evaluation mode", str(package.report()))
        self.assertIs(fast.inner.scale, model.inner.scale)
        # What the node knows is taken, without a search, also by who may only import.
        other = Head().eval()
        known = self.optimize(other, call, token=self.token("import"), search=False, folder=str(self.folder / "again"))
        with torch.no_grad():
            torch.testing.assert_close(known(*call), other(*call))

    def test_what_is_refused(self):
        model, call = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh()), given()[:1]
        with self.assertRaisesRegex(cudal1.NotAllowed, "import"):
            self.optimize(model, call)
        with self.assertRaisesRegex(cudal1.NotAllowed, "search"):
            self.optimize(model, call, token=self.token("import"))
        token = self.token("import", "search")
        with self.assertRaisesRegex(cudal1.InvalidRequest, "own, and not to precision half"):
            cudal1.connect(self.node.url).search("tiny", evaluations=1, precision="half")
        with self.assertRaisesRegex(cudal1.InvalidRequest, "a node searches for one call"):
            self.optimize(model, [call, given(7)[:1]], token=token)
        with self.assertRaisesRegex(cudal1.InvalidRequest, "no precision 'double'"):
            self.optimize(model, call, token=token, precision="double")
        with self.assertRaisesRegex(cudal1.InvalidRequest, "give one"):
            self.optimize(model, call, token=token, data="/tmp")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.assertIs(self.optimize(model, call, token=token, search=False), model)
        self.assertEqual({w.category for w in said}, {cudal1.NothingFaster})
        self.assertIn("the node has nothing that is used here: ", str(said[0].message))

    def test_files_of_a_package_stay_below_its_folder(self):
        from cudal1.by_node import _write

        for path in ("../outside.py", "/etc/outside.py", "a/../../outside.py", ""):
            with self.assertRaisesRegex(cudal1.InvalidRequest, "no file of a package"):
                _write({path: ""}, "name", self.folder / "written", {})
        self.assertEqual([p for p in self.folder.rglob("outside.py")], [])


if __name__ == "__main__":
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)  # of what is refused
    BIN = sys.argv.pop(1)
    unittest.main()
