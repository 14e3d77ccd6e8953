#!/usr/bin/env python3
"""The wheel of a build: its contents, and its programs as pip installs them into an environment whose torch is the
build's (nothing is downloaded).

    wheel_test.py BUILD
"""

import base64
import csv
import hashlib
import importlib.util
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

from served_node import QUICK, TINY

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
PACKAGES = pathlib.Path(importlib.util.find_spec("torch").origin).resolve().parents[1]
SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def run(*words, code=0, **options):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=200, **options)
    if done.returncode != code:
        raise AssertionError(f"{words}: {done.returncode}, not {code}\n{done.stdout}{done.stderr}")
    return done.stdout


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        made = run(sys.executable, TOOLS / "wheel/make_wheel.py", "--build", BUILD, "--out", cls.folder, "--level", "0")
        cls.wheel = pathlib.Path(made.strip())
        cls.archive = zipfile.ZipFile(cls.wheel)

    @classmethod
    def tearDownClass(cls):
        cls.archive.close()
        cls.temporary.cleanup()

    def info(self, name):
        found, = (n for n in self.archive.namelist() if n.endswith(f".dist-info/{name}"))
        return self.archive.read(found).decode()

    def test_every_file_is_recorded_with_its_hash(self):
        rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(self.info("RECORD")))}
        self.assertEqual(sorted(rows), sorted(self.archive.namelist()))
        for name, (digest, size) in rows.items():
            if name.endswith("RECORD"):
                continue
            content = self.archive.read(name)
            expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            self.assertEqual((digest, int(size)), (f"sha256={expected}", len(content)), name)
        self.assertEqual({entry.date_time for entry in self.archive.infolist()}, {(1980, 1, 1, 0, 0, 0)})

    def test_its_name_and_metadata_say_what_it_needs(self):
        tag = re.fullmatch(r"cudal1-[\d.]+-(py3-none-manylinux_2_(\d+)_x86_64)\.whl", self.wheel.name)
        self.assertIn(f"Tag: {tag.group(1)}\n", self.info("WHEEL"))
        self.assertIn("Root-Is-Purelib: false\n", self.info("WHEEL"))
        self.assertGreaterEqual(int(tag.group(2)), 36)  # of the packed relocations
        metadata = self.info("METADATA")
        for line in ("Name: cudal1\n", "Requires-Dist: torch==2.11.0\n", "Requires-Dist: numpy\n"):
            self.assertIn(line, metadata)
        client = (TOOLS / "python_client/pyproject.toml").read_text()
        version = re.search(r"^Version: (.*)$", metadata, re.M).group(1)
        self.assertIn(f'version = "{version}+client"\n', client, "pip replaces one by the other as their versions differ")

    def test_it_has_every_module_of_the_client(self):
        client = TOOLS / "python_client"
        modules = {p.relative_to(client).as_posix() for p in client.rglob("*.py")
                   if not {"build", "recipes"} & set(p.parts)}  # recipes are run from a clone
        self.assertIn("cudal1/client.py", modules)
        self.assertEqual(modules - set(self.archive.namelist()), set())

    def test_each_library_has_its_licence(self):
        notice = self.info("licenses/NOTICE")
        names = self.archive.namelist()
        libraries = [n.rpartition("/")[2] for n in names if n.startswith("cudal1_programs/lib/")]
        self.assertIn("librocksdb.so", " ".join(libraries))
        for library in libraries:
            self.assertTrue(library.startswith("libcudal1_") or library in notice, f"{library} is not in NOTICE")
        for source in re.findall(r"^([\w.+-]+) \S+: ", notice, re.M):
            self.assertTrue(any(n.endswith(f"/licenses/{source}/copyright") for n in names), source)
        self.assertIn("torch: headers", notice)

    def test_it_is_installed_moved_used_and_removed(self):
        env = self.folder / "an environment"
        run(sys.executable, "-m", "venv", "--without-pip", env)
        before = set(env.rglob("*"))
        self.pip(env, "install", "--no-deps", self.wheel)
        for package in ("torch", "nvidia"):
            (env / SITE / package).symlink_to(PACKAGES / package)
        moved = env.rename(self.folder / "a moved environment")
        self.assertIn("0.1.0", self.command(moved, "--version"))
        self.assert_python_is_not_started(moved)
        self.check_doctor(moved)
        self.check_other_torch(moved)
        # torch is another environment's, which this one's Python finds.
        (moved / SITE / "others.pth").write_text(f"{PACKAGES}\n")
        self.check_search(moved)
        self.assertIn("an", run(moved / "bin/python", "-c", "import cudal1; print(cudal1.connect.__doc__ and 'an')"))
        (moved / SITE / "others.pth").unlink()
        env = moved.rename(env)
        self.pip(env, "uninstall", "--yes", "cudal1")
        self.assertEqual(set(env.rglob("*")) - before, set())

    def pip(self, env, command, *words):
        return run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", env / "bin/python", command,
                   *(["--no-index"] if command == "install" else []), *words)

    def command(self, env, *words, code=0, **more):
        variables = {k: v for k, v in os.environ.items() if not k.startswith("CUDAL1_") and k != "LD_LIBRARY_PATH"}
        return run(env / "bin/cudal1", *words, code=code, env=variables | {"HOME": str(self.folder)} | more)

    def assert_python_is_not_started(self, env):
        python = env / "bin/python3"
        kept = python.rename(env / "bin/kept")
        python.write_text("#!/bin/sh\nexit 9\n")
        python.chmod(0o755)
        self.assertIn("diagonal_matmul", self.command(env, "tasks", PATH="/usr/bin:/bin"))
        kept.rename(python)

    def check_doctor(self, env):
        report = json.loads(self.command(env, "doctor", "--device", "cpu", "--json", "--data", self.folder / "data",
                                         "--set", "device.allow_weak_confinement=true"))
        items = {item["name"]: item for item in report["items"]}
        self.assertTrue(report["ok"], report)
        self.assertIn("LibTorch 2.11", items["libraries of cpu"]["detail"])
        self.assertIn(str(env / "bin/python"), items["Python with torch"]["detail"])
        self.command(env, "stop", "--node", "--data", self.folder / "data")

    def check_other_torch(self, env):
        for package in ("torch", "nvidia"):
            (env / SITE / package).unlink()
        torch = env / SITE / "torch"
        (torch / "lib").mkdir(parents=True)
        (torch / "lib/libtorch_cpu.so").touch()
        (torch / "version.py").write_text("__version__ = '2.12.0+cu130'\n")
        done = subprocess.run([env / "bin/cudal1", "--version"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "0.1.0\n"))
        self.assertRegex(done.stderr, r"^cudal1: .*/torch is torch '2.12.0\+cu130', and these .* 2.11: .* torch==2.11.0\n$")
        shutil.rmtree(torch)

    def check_search(self, env):
        (self.folder / "tasks").mkdir()
        (self.folder / "tasks/tiny.json").write_text(json.dumps(TINY))
        data = ("--data", self.folder / "data")
        found = self.command(env, "run", "--tasks", self.folder / "tasks", "--device", "cpu", "--evaluations", "1",
                             *(word for setting in (*QUICK, "device.allow_weak_confinement=true")
                               for word in ("--set", setting)), *data)
        self.assertIn("1 evaluation in ", found)
        self.command(env, "stop", "--node", *data)


class Elf(unittest.TestCase):
    """The path of libraries is replaced in place or not at all."""

    def setUp(self):
        sys.path.insert(0, str(TOOLS / "wheel"))

    def test_a_path_is_replaced_where_it_occurs_once_and_is_long_enough(self):
        from elf_files import with_path
        self.assertEqual(with_path(b"a\0/old/path\0b", "/old/path", "/new"), b"a\0/new\0\0\0\0\0\0b")
        for content, new in ((b"nothing\0", "/new"), (b"/old/path\0/old/path\0", "/new"), (b"/old/path\0", "/a/longer/path")):
            with self.assertRaises(ValueError):
                with_path(content, "/old/path", new)


if __name__ == "__main__":
    unittest.main()
