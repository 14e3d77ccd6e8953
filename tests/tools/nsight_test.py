#!/usr/bin/env python3
"""Nsight Compute for `cudal1 profile`: its CSV, its errors, and where the commands show what it read. A script stands for
the installed tool.

    nsight_test.py CUDAL1 WRITE_REPORT_STORE
"""

import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

CUDAL1, WRITE_STORE = (pathlib.Path(p).resolve() for p in (sys.argv.pop(1), sys.argv.pop(1)))
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools/python"))

from nsight import counters, reading, tables, words  # noqa: E402

# A softmax, a product on tensor cores, and the softmax again, by ncu 2025.3.1 on an H200; some of its columns.
RECORDED = (HERE / "recorded/nsight_h200.csv").read_text(encoding="utf-8")
# As documented, with what the recorded one lacks.
BY_HAND = '''==PROF== Connected to process 7 (/usr/bin/python3)
==PROF== Profiling "rows" - 0: 0%....50%....100% - 20 passes
"ID","Kernel Name","Block Size","Grid Size","gpu__time_duration.sum","launch__occupancy_limit_warps","launch__occupancy_limit_registers","launch__registers_per_thread","sm__maximum_warps_per_active_cycle_pct","smsp__average_warps_issue_stalled_selected_per_issue_active.ratio","smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio","smsp__average_warps_issue_stalled_novel_thing_per_issue_active.ratio"
"","","","","msecond","block","block","register/thread","%","inst","inst","inst"
"0","rows<a, b>","(256, 1, 1)","(1,024, 4, 1)","1,500.25","8","3","80","37.5","1.00","6.00","3.00"
"1","rows<a, b>","(256, 1, 1)","(1,024, 4, 1)","500","8","3","80","37.5","1.00","2.00","1.00"
"2","tail","(32, 1, 1)","(1, 1, 1)","nan","32","64","16","n/a","","",""
==PROF== Disconnected from process 7
'''


def time_text(us):
    return f"{us:.3g} us"


class Parser(unittest.TestCase):
    def test_a_recorded_table(self):
        product, softmax = counters.kernels_of(RECORDED)
        self.assertEqual(product["kernel"], "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT")
        self.assertEqual((product["grid"], product["block"], product["launches"]), ("2 x 66", "384", 1))
        self.assertAlmostEqual(product["us"], 176.64)
        self.assertEqual((product["registers"], product["shared_bytes"]), (168, 214212))
        self.assertEqual((product["occupancy_pct"], product["most_occupancy_pct"]), (14.64, 18.75))
        self.assertEqual(product["limited_by"], ["registers", "shared memory"])
        self.assertEqual((product["tensor_pct"], product["dram_pct"], product["near_roof"]), (90.34, 13.14, "tensor cores"))
        self.assertEqual([s["reason"] for s in product["stalls"]], ["barrier", "gmma", "long_scoreboard"])
        self.assertEqual((softmax["launches"], softmax["limited_by"], softmax["near_roof"]), (2, [], ""))
        self.assertAlmostEqual(softmax["us"], 55.232 + 54.5, delta=1)
        self.assertAlmostEqual(softmax["share"] + product["share"], 1)
        self.assertEqual(softmax["stalls"][0]["reason"], "not_selected")
        self.assertTrue(all(0 < s["share"] < 1 for k in (product, softmax) for s in k["stalls"]))

    def test_units_separators_and_what_is_missing(self):
        rows, tail = counters.kernels_of(BY_HAND)
        self.assertEqual((rows["kernel"], rows["launches"], rows["us"]), ("rows<a, b>", 2, 2_000_250))
        self.assertEqual((rows["limited_by"], rows["most_occupancy_pct"], rows["dram_pct"]), (["registers"], 37.5, None))
        first, second = rows["stalls"]
        # 6 of 10 for three quarters of the time, 2 of 4 for the rest.
        self.assertAlmostEqual(first["share"], (0.6 * 1500.25 + 0.5 * 500) / 2000.25)
        self.assertEqual((second["reason"], "novel thing" in second["words"]), ("novel_thing", True))
        self.assertEqual((tail["us"], tail["stalls"], tail["occupancy_pct"]), (0, [], None))
        self.assertIn("rows<a, b> x2", tables.table([rows, tail], 80, time_text))

    def test_stalls_that_only_sampling_has(self):
        text = RECORDED.replace("smsp__average_warps_issue_stalled", "smsp__other")
        self.assertEqual([s["reason"] for s in counters.kernels_of(text)[0]["stalls"]], ["barrier", "wait"])

    def test_what_is_no_table(self):
        for text in ("", "==ERROR== x\n", '"ID","Process ID"\n', '"ID","Kernel Name"\n"",""\n'):
            with self.assertRaises(counters.Unreadable):
                counters.kernels_of(text)


class Words(unittest.TestCase):
    def test_each_recorded_stall_has_words(self):
        names = {words.ALSO_NAMED.get(m[1], m[1]) for m in map(counters.STALL.fullmatch, RECORDED.split('"')) if m}
        self.assertGreater(len(names), 15)
        self.assertEqual(names - {words.ISSUING} - set(words.STALLS), set())
        self.assertEqual(len({w for w, _ in words.STALLS.values()}), len(words.STALLS))

    def test_a_table_fits_the_terminal(self):
        kernels = counters.kernels_of(RECORDED)
        for width in (80, 120):
            text = tables.table(kernels, width, time_text)
            self.assertLessEqual(max(map(len, text.splitlines())), width)
            for said in ("15% of 19%", "limited by registers, shared memory", "near the roof of tensor cores",
                         "31% of its warps' time: waits for a barrier of its block. To try: "):
                self.assertIn(said, " ".join(text.split()))
        line = tables.roof_line(kernels, 143, "compute", time_text)
        self.assertIn("that of tensor cores, at 57%", line)
        self.assertIn("floor is 143 us (compute), 50%", line)


class Tool(unittest.TestCase):
    """A script in place of ncu, in a folder of its own on PATH."""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        before = os.environ["PATH"]
        os.environ["PATH"] = f"{self.folder}:{before}"
        self.addCleanup(os.environ.__setitem__, "PATH", before)

    def install(self, printed="", code=0, stderr="", name="ncu"):
        """Writes `printed` to its --log-file, and runs nothing."""
        (self.folder / "printed").write_text(printed, encoding="utf-8")
        program = self.folder / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"""#!{sys.executable}
import pathlib, sys
if sys.argv[1:] == ["--version"]:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 36398880)")
    sys.exit(0)
here = pathlib.Path({str(self.folder)!r})
(here / "words").write_text("\\n".join(sys.argv[1:]))
pathlib.Path(sys.argv[sys.argv.index("--log-file") + 1]).write_text((here / "printed").read_text())
sys.stderr.write({stderr!r})
sys.exit({code})
""", encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return str(program)

    def refusal(self, wanted="auto"):
        with self.assertRaises(reading.NotRead) as caught:
            reading.read(wanted, ["python3", "program.py"])
        return str(caught.exception)

    def test_what_it_reads(self):
        self.install(RECORDED)
        csv = self.folder / "kept.csv"
        read = reading.read("auto", ["python3", "program.py", "--one-call"], csv)
        self.assertEqual((read.tool, len(read.kernels), read.note), ("2025.3.1.0", 2, ""))
        self.assertEqual(csv.read_text(encoding="utf-8"), RECORDED)
        given = (self.folder / "words").read_text(encoding="utf-8").splitlines()
        self.assertEqual(given[-3:], ["python3", "program.py", "--one-call"])
        for option, value in (("--page", "raw"), ("--profile-from-start", "off"), ("--clock-control", "none"),
                              ("--target-processes", "all"), ("--replay-mode", "kernel"), ("--section", "SpeedOfLight")):
            self.assertEqual(given[given.index(option) + 1], value)

    def test_each_refusal_has_a_cure(self):
        permission = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\n"
        for said, code, expected in (
                (permission, 1, "NVreg_RestrictProfilingToAdminUsers=0"),
                (permission + RECORDED, 0, "--cap-add SYS_ADMIN"),
                ("==ERROR== LibraryNotLoaded\n", 1, "NVIDIA_DRIVER_CAPABILITIES=compute,utility"),
                ("==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool (like DCGM) "
                 "is concurrently collecting profiling data.\n", 9, "dcgmi profile --pause"),
                ("==ERROR== Failed to find section X\n", 1, "2022.2 or newer"),
                ("==ERROR== Cannot lock GPU clock frequencies on MIG!\n", 1, "a whole GPU"),
                ("==WARNING== No kernels were profiled.\n", 0, "launched no kernel"),
                ("==ERROR== The application returned an error code (3).\n", 3, "exit code 3: ==ERROR== The application returned"),
                ("", 0, "ncu printed no table")):
            self.install(said, code)
            with self.subTest(said[:60]):
                self.assertIn(expected, self.refusal())
        self.install("", 1, "Segmentation fault")
        self.assertIn("exit code 1: Segmentation fault", self.refusal())

    def test_a_table_without_numbers(self):
        self.install(BY_HAND.replace("1,500.25", "n/a").replace('"500"', '"n/a"'))
        self.assertIn("no times of kernels", self.refusal())

    def test_one_that_hangs_is_ended_with_its_program(self):
        named = self.install()
        text = pathlib.Path(named).read_text(encoding="utf-8")
        pathlib.Path(named).write_text(text.replace("sys.stderr.write", f"""import subprocess
started = subprocess.Popen(["sleep", "60"])
(here / "started").write_text(str(started.pid))
started.wait()
sys.stderr.write"""), encoding="utf-8")
        with self.assertRaisesRegex(reading.NotRead, "more than 1 seconds"):
            reading.read("auto", ["program"], most_seconds=1)
        pid = int((self.folder / "started").read_text())
        state = pathlib.Path(f"/proc/{pid}/stat")
        self.assertTrue(not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "ZX")

    def test_where_it_is_found(self):
        named = self.install(name="cuda/bin/ncu")
        self.assertEqual(reading.find(named), named)
        os.environ["CUDA_HOME"] = str(self.folder / "cuda")
        self.addCleanup(os.environ.pop, "CUDA_HOME")
        self.assertIn(pathlib.Path(named), reading.places())
        on_path = self.install()
        self.assertEqual(reading.find("auto"), on_path, "PATH comes first")
        with self.assertRaisesRegex(reading.NoSuchProgram, "--ncu"):
            reading.find(str(self.folder / "none"))
        newer, older = (f"/opt/nvidia/nsight-compute/{v}/ncu" for v in ("2025.10.1", "2025.3.1"))
        self.assertGreater(reading.version_in(newer), reading.version_in(older))


class Shown(unittest.TestCase):
    def test_what_was_kept_is_in_show_and_report(self):
        with tempfile.TemporaryDirectory() as temporary:
            data = pathlib.Path(temporary) / "data"
            subprocess.run([WRITE_STORE, data, "full"], check=True)

            def run(*words_):
                done = subprocess.run([CUDAL1, *words_, "--data", data], capture_output=True, text=True, stdin=subprocess.DEVNULL)
                self.assertEqual(done.returncode, 0, done.stderr)
                return done.stdout

            best = next(r for r in json.loads(run("best", "--json"))["tasks"] if not r["is_reference"])
            before = json.loads(run("show", best["variant"], "--json"))
            self.assertEqual(before["profiles"], [])
            environment = before["verdicts"][-1]["environment_id"]
            (data / "profiles").mkdir()
            kernels = counters.kernels_of(RECORDED)
            kernels[0]["kernel"] = "<script>product"
            profile = {"variant": best["variant"], "environment": environment, "model": "NVIDIA H200", "tool": "2025.3.1.0",
                       "time_unix_ms": 1764550000000, "kernels": kernels}
            (data / "profiles" / f"{best['variant']}-{environment}.json").write_text(json.dumps(profile), encoding="utf-8")
            kept, = json.loads(run("show", best["variant"], "--json"))["profiles"]
            self.assertEqual(kept["kernels"][1]["us"], kernels[1]["us"])
            text = " ".join(run("show", best["variant"]).split())
            for said in ("by Nsight Compute 2025.3.1.0", "occupancy 15% of 19% (limited by registers, shared memory)",
                         "near the roof of tensor cores", "waits for a barrier of its block 31%"):
                self.assertIn(said, text)
            page = data / "report.html"
            run("report", "--html", str(page))
            html = page.read_text(encoding="utf-8")
            self.assertIn("What limits its kernels", html)
            self.assertIn("&lt;script&gt;product", html)
            self.assertNotIn("<script>product", html)


if __name__ == "__main__":
    unittest.main()
