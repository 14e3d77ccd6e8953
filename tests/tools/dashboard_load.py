#!/usr/bin/env python3
"""How fast the dashboard opens on a large store: makes one, asks for pages as soon as the node serves and again when it
has read all verdicts, and measures the first paint where Chromium is installed.

    dashboard_load.py BIN WRITE_REPORT_STORE [VARIANTS]     default: 100000
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import time

import browser
from served_node import ServedNode

TASKS_AND_EXPERIMENTS = 60  # of the written stores
PAGES = ("/", "/experiments/e1", "/tasks", "/variants", "/variants?sort=task&page=1000", "/log")


def memory_mb(pid):
    return int(re.search(r"VmRSS:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) / 1024


def asked(node, path):
    start = time.monotonic()
    status, _, text = node.get(path)
    assert status == 200, (path, status)
    return (time.monotonic() - start) * 1000, len(text.encode()), text


def painted(node, one, path):
    one.open(node.url + path, 1400)
    for _ in range(100):
        ms = one.value("(performance.getEntriesByName('first-contentful-paint')[0] || {}).startTime")
        if ms:
            return ms
        time.sleep(0.02)
    return float("nan")


def main(bin_folder, write_store, variants=100_000):
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "data"
        subprocess.run([write_store, data, str(-(-int(variants) // TASKS_AND_EXPERIMENTS))], check=True)
        node = ServedNode(bin_folder, "--serve", "127.0.0.1:0", "--no-resume", data=data)
        try:
            before = memory_mb(node.process.pid)
            start = time.monotonic()
            first, size, text = asked(node, "/")
            print(f"the first page of the node: {first:.0f} ms, {size / 1000:.0f} kB")
            while "being read" in text:
                time.sleep(0.1)
                _, _, text = asked(node, "/")
            print(f"all verdicts are read after {time.monotonic() - start:.1f} s; "
                  f"the node has {memory_mb(node.process.pid) - before:.0f} MB more")
            for path in PAGES:
                times = sorted(asked(node, path)[0] for _ in range(5))
                print(f"{path:32} {times[2]:6.0f} ms {asked(node, path)[1] / 1000:6.0f} kB", end="")
                if browser.find():
                    with browser.Browser(browser.find()) as one:
                        print(f"   first paint {painted(node, one, path):4.0f} ms", end="")
                print()
        finally:
            node.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
