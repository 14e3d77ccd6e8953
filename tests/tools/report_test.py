#!/usr/bin/env python3
"""The pages and files of `cudal1 report`: their structure, and where Chromium is installed, how they fit.

    report_test.py CUDAL1 WRITE_REPORT_STORE
"""

import csv
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import browser
from page_reader import Page

CUDAL1, WRITE_STORE = (pathlib.Path(p).resolve() for p in (sys.argv.pop(1), sys.argv.pop(1)))
KINDS = ("full", "hostile", "running", "failing", "empty")


def run(*words, code=0):
    done = subprocess.run([CUDAL1, *words], capture_output=True, text=True)
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


class Reports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.texts = {}
        for kind in KINDS:
            data = cls.folder / kind
            subprocess.run([WRITE_STORE, data, kind], check=True)
            file = cls.folder / f"{kind}.html"
            experiment = [] if kind == "empty" else ["--experiment", "e2" if kind == "running" else "e1"]
            run("report", *experiment, "--html", file, "--data", data)
            cls.texts[kind] = file.read_text()

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_pages_are_well_formed_and_need_nothing_else(self):
        for kind, text in self.texts.items():
            with self.subTest(kind):
                page = Page(text)
                self.assertEqual(page.problems, [])
                self.assertEqual(page.all("script", "img", "link", "iframe", "object", "embed", "form"), [])
                for tag, attributes in page.elements:
                    self.assertFalse([n for n in attributes if n.startswith("on")], f"a handler in <{tag}>")
                    self.assertNotIn("style", attributes)
                    for name in ("src", "href", "action", "data"):
                        self.assertRegex(attributes.get(name) or "#", "^#")
                self.assertNotRegex(re.sub('xmlns="[^"]*"', "", text), r"url\(|@import|https?://")

    def test_pages_can_be_read_without_seeing_them(self):
        for kind, text in self.texts.items():
            with self.subTest(kind):
                page = Page(text)
                ids = [a["id"] for _, a in page.elements if "id" in a]
                self.assertEqual(len(ids), len(set(ids)), "ids are unique")
                for _, attributes in page.elements:
                    for target in (attributes.get("aria-labelledby") or "").split():
                        self.assertIn(target, ids)
                    if (attributes.get("href") or "").startswith("#"):
                        self.assertIn(attributes["href"][1:], ids)
                for picture in page.all("svg"):
                    self.assertEqual(picture.get("role"), "img")
                    self.assertIn("aria-labelledby", picture)
                self.assertEqual(len(page.all("table")), len(page.all("caption")))
                for heading in page.all("th"):
                    self.assertIn(heading.get("scope"), ("col", "row"))
                levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
                self.assertEqual(levels[0], 1)
                self.assertEqual(levels.count(1), 1)
                self.assertEqual([a for a in page.all("html")][0].get("lang"), "en")

    def test_hostile_text_is_shown_as_text(self):
        shown = "".join(Page(self.texts["hostile"]).text)
        self.assertIn("</script><img src=x onerror=\"alert(1)\">'&\N{REPLACEMENT CHARACTER}", shown)

    def test_pages_have_every_number_that_the_commands_have(self):
        document = run("report", "--experiment", "e1", "--csv", "--data", self.folder / "full").stdout
        page = "".join(Page(self.texts["full"]).text)
        for row in csv.DictReader(document.splitlines()):
            self.assertIn(row["name"], page)
            if row["is_reference"] == "false":
                self.assertIn(row["variant"][:12], page)

    def test_plots_and_tables_are_files(self):
        plots, tables = self.folder / "plots", self.folder / "tables"
        run("report", "--experiment", "e1", "--plots", plots, "--tables", tables, "--data", self.folder / "hostile")
        names = {p.name for p in plots.iterdir()}
        self.assertTrue({"speedups.svg", "fast-p.svg", "best-so-far.svg", "roof.svg", "failures.svg",
                         "task-1-samples.svg", "task-30-times.svg"} <= names, names)
        for file in plots.iterdir():
            root = xml.etree.ElementTree.parse(file).getroot()  # fails on what is not well formed
            self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
            self.assertFalse(root.findall(".//{http://www.w3.org/2000/svg}script"))
        self.assertTrue({"levels.csv", "fast-p.csv", "tasks.csv", "failures.csv", "hacks.csv"} <=
                        {p.name for p in tables.iterdir()})
        with open(tables / "tasks.csv", newline="", encoding="utf-8", errors="replace") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 30)
        self.assertGreater(float(rows[0]["reference"]), 1)

    def test_thousands_of_variants_do_not_make_a_larger_page(self):
        data = self.folder / "many"
        subprocess.run([WRITE_STORE, data, "150"], check=True)  # 9,000 in all
        file = self.folder / "many.html"
        run("report", "--html", file, "--data", data)
        self.assertLess(file.stat().st_size, 2 * len(self.texts["full"]))

    def test_wrong_uses_are_refused_with_advice(self):
        data = self.folder / "full"
        self.assertIn("is a folder: name the file", run("report", "--html", self.folder, "--data", data, code=2).stderr)
        self.assertIn("no experiment e9", run("report", "--experiment", "e9", "--html", self.folder / "x.html", "--data",
                                              data, code=2).stderr.replace("there is ", ""))
        self.assertFalse((self.folder / "x.html").exists())
        run("report", "--html", self.folder / "x.html", "--json", "--data", data, code=2)

    @unittest.skipUnless(browser.find(), "Chromium is not installed: how pages fit is not tested")
    def test_pages_fit_at_three_widths(self):
        with browser.Browser(browser.find()) as one:
            for kind in KINDS:
                for width in (360, 800, 1400):
                    with self.subTest(f"{kind} at {width}"):
                        file = self.folder / f"{kind}.html"
                        one.open(file, width)
                        one.value("for (const d of document.querySelectorAll('details')) d.open = true")
                        self.assertLessEqual(one.value("document.documentElement.scrollWidth"), width)
                        self.assertEqual(one.requested, [f"file://{file}"], "nothing else is loaded")
                        self.assertEqual(one.value("document.querySelectorAll('img,script').length"), 0)


if __name__ == "__main__":
    unittest.main()
