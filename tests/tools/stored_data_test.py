#!/usr/bin/env python3
"""Data folders that earlier programs made are read, reported, resumed and verified by this one.

    stored_data_test.py CUDAL1              the test, for every stored_data/schema_N.tar.xz
    stored_data_test.py CUDAL1 --make       adds one made by this program, for its schema (store/README.md says when)

A folder holds one experiment of six evaluations that was interrupted, with its tables compacted; schema_N.json beside
it has what the program that made it read there.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest

from served_node import QUICK, TINY

CUDAL1 = os.path.abspath(sys.argv.pop(1))
FOLDERS = pathlib.Path(__file__).resolve().parent / "stored_data"
BUDGET = 6  # evaluations
SETTINGS = [word for setting in (*QUICK, "device.allow_weak_confinement=true") for word in ("--set", setting)]
# Made anew by every node; or RocksDB's own notes, which it does not read.
LEFT_OUT = ("cache", "node.log", "node.lock", "node.socket", "LOCK", "LOG", "OPTIONS-*")


def environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("CUDAL1_")}


class Data:
    """A data folder with its programs."""

    def __init__(self, folder):
        self.folder = folder

    def command(self, *words):
        return [CUDAL1, *words, "--data", str(self.folder)]

    def run(self, *words):
        return subprocess.run(self.command(*words), env=environment(), capture_output=True, text=True, timeout=120)

    def answer(self, *words):
        done = self.run(*words, "--json")
        if done.returncode != 0:
            raise AssertionError(f"{words}: {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout)

    def read(self):
        """What the commands show of the experiment, as far as later versions must show the same."""
        row = self.answer("report", "--experiment", "e1")["tasks"][0]
        return {"state": self.answer("experiments")["experiments"][0]["state"], "variant": row["variant"],
                "schedule": row["schedule"], "evaluations": row["evaluations"], "speedup": row["speedup"],
                "interval": row["speedup_interval"]}

    def stop(self):
        self.run("stop", "--node")


class StoredData(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.data = Data(pathlib.Path(self.temporary.name) / "data")

    def tearDown(self):
        self.data.stop()
        self.temporary.cleanup()

    def unpack(self, packed):
        self.data.stop()
        shutil.rmtree(self.data.folder, ignore_errors=True)
        with tarfile.open(packed) as archive:
            archive.extractall(self.data.folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        return json.loads(packed.with_name(packed.name.replace(".tar.xz", ".json")).read_text())

    def test_folders_of_earlier_programs_are_opened(self):
        packed = sorted(FOLDERS.glob("*.tar.xz"))
        self.assertTrue(packed)
        for file in packed:
            with self.subTest(file.name):
                self.check(self.unpack(file))

    def check(self, recorded):
        data = self.data
        self.assertEqual(data.read(), recorded)
        shown = data.run("show", recorded["variant"])
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("Attempt 1 in e1", shown.stdout)
        self.assertIn("__global__", shown.stdout)
        resumed = data.run("run", "--resume", "e1", *SETTINGS)
        self.assertEqual(resumed.returncode, 0, resumed.stdout + resumed.stderr)
        data.stop()
        now = data.read()
        self.assertEqual((now["state"], now["evaluations"]), ("finished", BUDGET), resumed.stdout)
        verified = data.run("store", "verify")
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        self.assertIn("Attempt 1 in e1", data.run("show", recorded["variant"]).stdout)


def make():
    """A search on a small task, ended by Ctrl-C at its first confirmed variant."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        (folder / "tasks").mkdir()
        (folder / "tasks/tiny.json").write_text(json.dumps(TINY))
        data = Data(folder / "data")
        search = subprocess.Popen(
            data.command("run", "--tasks", str(folder / "tasks"), "--device", "cpu", "--evaluations", str(BUDGET),
                         "--seed", "1", *SETTINGS),
            env=environment(), stdout=subprocess.PIPE, text=True)
        for line in search.stdout:
            if "tiny " in line:
                search.send_signal(signal.SIGINT)
                break
        search.communicate()
        data.stop()
        for command in (("store", "compact"), ("store", "verify")):
            if (done := data.run(*command)).returncode != 0:
                sys.exit(f"{command}: {done.stderr}")
        recorded = data.read()
        if recorded["evaluations"] >= BUDGET:
            sys.exit(f"the search had ended before it was interrupted: {recorded}; try again")
        schema = next(item["detail"] for item in data.answer("doctor", "--set", "device.allow_weak_confinement=true")["items"]
                      if item["name"] == "store").rpartition(" ")[2]
        data.stop()
        kept = folder / "kept"
        shutil.copytree(data.folder, kept, ignore=shutil.ignore_patterns(*LEFT_OUT))
        FOLDERS.mkdir(exist_ok=True)
        with tarfile.open(FOLDERS / f"schema_{schema}.tar.xz", "w:xz") as archive:
            for path in sorted(kept.rglob("*")):
                entry = archive.gettarinfo(path, path.relative_to(kept).as_posix())
                entry.uid = entry.gid = entry.mtime = 0
                entry.uname = entry.gname = ""
                with path.open("rb") if path.is_file() else open(os.devnull, "rb") as content:
                    archive.addfile(entry, content if path.is_file() else None)
        (FOLDERS / f"schema_{schema}.json").write_text(json.dumps(recorded, indent=1) + "\n")
        print(f"{FOLDERS}/schema_{schema}.tar.xz: {recorded}")


if __name__ == "__main__":
    if "--make" in sys.argv:
        make()
    else:
        unittest.main()
