#!/usr/bin/env python3
"""The dashboard of a node on `cpu`: its pages on stores of whole searches, who may do what, and, where Chromium is
installed, how the pages look and stay up to date.

    dashboard_test.py BIN WRITE_REPORT_STORE
"""

import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

import browser
from page_reader import Page
from served_node import ServedNode, program

BIN, WRITE_STORE = (pathlib.Path(p).resolve() for p in (sys.argv.pop(1), sys.argv.pop(1)))
HOSTILE = "</script><img src=x onerror=\"alert(1)\">'&"
PAGES = ("/", "/experiments", "/tasks", "/variants", "/nodes", "/queue", "/log", "/start", "/login")


def node_on(folder, kind, *flags):
    subprocess.run([WRITE_STORE, folder, kind], check=True)
    # The second experiment of some stores is one that was running, on a GPU.
    return ServedNode(BIN, "--serve", "127.0.0.1:0", "--no-resume", *flags, data=folder)


def until(condition, limit_s=60.0):
    end = time.monotonic() + limit_s
    while not (value := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
    return value


def read_index(node):
    """Waits until the node has read all verdicts."""
    until(lambda: "being read" not in node.get("/variants")[2])


class Browsing:
    """A browser's requests without a browser: a session's cookie, and forms with their key."""

    def __init__(self, node):
        self.node, self.cookie, self.set_cookie = node, "", ""

    def get(self, path, **headers):
        return self.node.get(path, **({"Cookie": self.cookie} if self.cookie else {}), **headers)

    def page(self, path):
        status, _, text = self.get(path)
        assert status == 200, (path, status, text[:500])
        return text

    def post(self, path, fields, **headers):
        sent = {"Content_Type": "application/x-www-form-urlencoded", "Origin": self.node.url, **headers}
        if self.cookie:
            sent["Cookie"] = self.cookie
        return self.node.get(path, "POST", urllib.parse.urlencode(fields), **{k: v for k, v in sent.items() if v})

    def log_in(self, token, **fields):
        status, headers, _ = self.post("/login", {"token": token, **fields})
        self.set_cookie = headers.get("Set-Cookie") or ""
        self.cookie = self.set_cookie.split(";")[0]
        return status, headers

    def key(self, path="/"):
        return re.search(r'name="key" value="([0-9a-f]{64})"', self.page(path)).group(1)


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.node = node_on(pathlib.Path(cls.temporary.name) / "hostile", "hostile")
        read_index(cls.node)

    @classmethod
    def tearDownClass(cls):
        cls.node.close()
        cls.temporary.cleanup()

    def text_of(self, path):
        status, headers, text = self.node.get(path)
        self.assertEqual(status, 200, (path, text[:300]))
        self.assertEqual(headers["Content-Type"], "text/html; charset=utf-8")
        return text

    def some_pages(self):
        """Every page, and one of each kind behind their links."""
        paths = dict.fromkeys(PAGES)
        for path in PAGES:
            kinds = {}
            for link in Page(self.text_of(path)).all("a"):
                kinds.setdefault(re.sub("[0-9a-f]{64}|e[0-9]+$", "", link["href"].split("?")[0]), link["href"])
            paths.update(dict.fromkeys(p for p in kinds.values() if p.startswith("/")))
        hang = Page(self.text_of("/variants?outcome=hang")).all("a")
        paths[next(a["href"] for a in hang if a["href"].startswith("/variants/"))] = None
        return list(paths)

    def test_pages_are_well_formed_and_can_be_read_without_seeing_them(self):
        paths = self.some_pages()
        for prefix in ("/variants/", "/tasks/", "/experiments/"):
            self.assertTrue([p for p in paths if p.startswith(prefix)], prefix)
        for path in paths:
            with self.subTest(path):
                page = Page(self.text_of(path))
                self.assertEqual(page.problems, [])
                self.assertEqual(page.accessibility_problems(), [])
                self.assertEqual(page.all("style", "img", "iframe", "object", "embed", "base"), [])
                self.assertTrue(all(a.get("src") == "/dashboard.js" for a in page.all("script")))
                for tag, attributes in page.elements:
                    self.assertFalse([n for n in attributes if n.startswith("on") or n == "style"], tag)
                    for name in ("src", "href", "action"):
                        self.assertRegex(attributes.get(name) or "#", r"^([#?]|/(?!/))")

    def test_hostile_text_is_shown_as_text(self):
        for path in self.some_pages():
            self.assertNotIn("<img", self.text_of(path), path)
        for path in ("/tasks", "/variants?outcome=hang", "/log"):
            self.assertIn(HOSTILE, "".join(Page(self.text_of(path)).text), path)

    def test_answers_forbid_what_pages_do_not_need(self):
        for path in ("/", "/dashboard.css", "/dashboard.js", "/no_such_page", "/login"):
            _, headers, _ = self.node.get(path)
            policy = headers["Content-Security-Policy"]
            for rule in ("default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"):
                self.assertIn(rule, policy)
            self.assertNotIn("unsafe", policy)
            self.assertEqual((headers["X-Content-Type-Options"], headers["X-Frame-Options"], headers["Cache-Control"]),
                             ("nosniff", "DENY", "no-store"))
            self.assertIsNone(headers.get("Access-Control-Allow-Origin"))

    def test_variants_are_sorted_and_paged_by_the_server(self):
        def rows(query):
            text = self.text_of("/variants" + query)
            table = text[text.index("<tbody>"):text.index("</tbody>")]
            return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("</tr>")[:-1]]

        def speedups(query):
            return [float(r[4].rstrip("x")) if r[4] != "-" else 0.0 for r in rows(query)]

        first, second = speedups(""), speedups("?page=2")
        self.assertEqual((len(first), len(second)), (50, 50))
        self.assertEqual(first + second, sorted(first + second, reverse=True))
        self.assertEqual(sorted(speedups("?sort=score&order=ascending"))[0], 0.0)
        ids = [r[0] for page in range(1, 30) for r in rows(f"?sort=task&page={page}")]
        self.assertEqual((len(ids), len(set(ids))), (1440, 1440))
        self.assertEqual({r[3] for r in rows("?outcome=hang&experiment=e2")}, {"hang"})
        self.assertEqual({re.sub("<.*?>", "", r[2]) for r in rows("?experiment=e2&outcome=")}, {"e2"})
        heading = next(a for a in Page(self.text_of("/variants?sort=time&order=ascending")).all("th") if "aria-sort" in a)
        self.assertEqual(heading["aria-sort"], "ascending")
        self.assertIn("no such page", self.text_of("/variants?page=999"))
        for wrong in ("?sort=x", "?page=0", "?page=-1", "?task=%3Cb%3E", "?outcome=x", "?x=1", "?experiment=e1%27"):
            self.assertEqual(self.node.get("/variants" + wrong)[0], 400, wrong)

    def test_a_browser_is_told_of_changes_only(self):
        with socket.create_connection(("127.0.0.1", self.node.port), timeout=2.5) as s:
            s.sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{self.node.port}\r\n\r\n".encode())
            text = b""
            with self.assertRaises(socket.timeout):  # after the first event: nothing changes here
                while True:
                    text += s.recv(4096)
        self.assertEqual(text.count(b"event: changed"), 1, text)
        self.assertIn(b"text/event-stream", text)

    def test_what_is_not_there_is_said(self):
        for path in ("/x", "/variants/00000000", "/variants/x", "/experiments/e99", "/tasks/0123", "/experiments/../log"):
            status, _, text = self.node.get(path)
            self.assertEqual(status, 404, path)
            self.assertEqual(Page(text).problems + Page(text).accessibility_problems(), [])
        status, headers, _ = self.node.get("/", "PUT", "")
        self.assertEqual((status, headers["Allow"]), (405, "GET"))

    def test_a_page_of_another_site_gets_nothing(self):
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            for path in ("/", "/events", "/variants"):
                self.assertEqual(self.node.get(path, **headers)[0], 403, (path, headers))
        # A proxy's clients are not this machine's.
        status, headers, _ = self.node.get("/log", X_Forwarded_For="10.1.2.3")
        self.assertEqual((status, headers["Location"]), (303, "/login?next=%2Flog"))

    @unittest.skipUnless(browser.find(), "Chromium is not installed: how the dashboard's pages look is not tested")
    def test_pages_fit_at_three_widths(self):
        paths = [p for p in self.some_pages() if "?" not in p]
        with browser.Browser(browser.find()) as one:
            for number, path in enumerate(paths):
                for width in (360, 800, 1400) if path in PAGES[:4] else (360,):
                    with self.subTest(f"{path} at {width}"):
                        one.open(self.node.url + path, width, dark=number % 2 == 0)
                        one.value("for (const d of document.querySelectorAll('details')) d.open = true")
                        self.assertLessEqual(one.value("document.documentElement.scrollWidth"), width)
                        self.assertEqual(one.problems, [], "of scripts, and of the content policy")
                        self.assertEqual([u for u in one.requested if not u.startswith(self.node.url + "/")], [])
                        self.assertFalse(one.value("window.alerted === true || document.images.length > 0"))


class Actions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = ServedNode(BIN)
        cls.tokens = {name: cls.token(name, may) for name, may in
                      (("ann", "search,stop"), ("reader", "evaluate"), ("revoked", "stop"))}

    @classmethod
    def tearDownClass(cls):
        cls.node.close()

    @classmethod
    def token(cls, name, may):
        made = subprocess.run([f"{BIN}/cudal1", "serve", "--data", cls.node.data, "--new-token", name, "--may", may],
                              check=True, capture_output=True, text=True, env=cls.node.environment)
        return made.stdout.strip()

    def browsing(self, name):
        one = Browsing(self.node)
        self.assertEqual(one.log_in(self.tokens[name])[0], 303)
        return one

    def test_1_an_empty_store_has_pages(self):
        for path in PAGES:
            page = Page(Browsing(self.node).page(path))
            self.assertEqual(page.problems + page.accessibility_problems(), [], path)
        self.assertIn("has no evaluations yet", Browsing(self.node).page("/"))

    def test_2_a_token_becomes_a_session_and_nothing_else(self):
        one = Browsing(self.node)
        status, headers = one.log_in(self.tokens["ann"], next="/nodes")
        self.assertEqual((status, headers["Location"]), (303, "/nodes"))
        self.assertRegex(one.set_cookie, r"^cudal1-session-\d+=[0-9a-f]{64}; Path=/; Max-Age=\d+; HttpOnly; SameSite=Strict$")
        self.assertNotIn(self.tokens["ann"], one.set_cookie)
        behind_tls = one.post("/login", {"token": self.tokens["ann"]}, X_Forwarded_Proto="https")[1]["Set-Cookie"]
        self.assertRegex(behind_tls, "^__Host-cudal1-session.*; Secure$")
        for other in ("//evil.example", "https://evil.example", "/\\evil.example", "/x?y", ""):
            self.assertEqual(one.log_in(self.tokens["ann"], next=other)[1]["Location"], "/", other)
        self.assertIn("ann", one.page("/"))
        # A wrong token, and a form of another site.
        wrong = Browsing(self.node)
        self.assertEqual(wrong.log_in("cudal1_" + "0" * 64)[0], 401)
        self.assertEqual(wrong.cookie, "")
        self.assertEqual(wrong.post("/login", {"token": self.tokens["ann"]}, Origin="http://evil.example")[0], 403)
        self.assertEqual(wrong.post("/login", {"token": self.tokens["ann"]}, Origin="")[0], 403)
        # The API knows no cookies: through a proxy it wants the token itself.
        self.assertEqual(one.get("/v1/jobs", X_Forwarded_For="10.1.2.3")[0], 401)
        self.assertEqual(one.get("/queue", X_Forwarded_For="10.1.2.3")[0], 200)
        # It ends.
        key = one.key()
        self.assertEqual(one.post("/logout", {"key": "0" * 64})[0], 403)
        self.assertEqual(one.post("/logout", {"key": key})[0], 303)
        self.assertNotIn("Log out", one.page("/"))
        log = self.node.log() + "".join(p.read_text() for p in self.node.data.glob("node.log*"))
        for token in self.tokens.values():
            self.assertNotIn(token, log)
        self.assertNotIn(one.cookie.split("=")[1], log)

    def test_3_a_revoked_token_ends_its_sessions(self):
        one = self.browsing("revoked")
        self.assertIn("Log out", one.page("/"))
        subprocess.run([f"{BIN}/cudal1", "serve", "--data", self.node.data, "--remove-token", "revoked"], check=True,
                       env=self.node.environment)
        self.assertNotIn("Log out", one.page("/"))

    def test_4_only_own_forms_of_a_session_act(self):
        ann, nobody, reader = self.browsing("ann"), Browsing(self.node), self.browsing("reader")
        fields = {"tasks": "tiny", "device": "cpu", "policy": "random", "evaluations": "2"}
        for path in ("/searches", "/experiments/e1/stop", "/nodes/drain", "/logout"):
            key = {"key": ann.key()}
            self.assertEqual(nobody.post(path, {**fields, **key})[0], 401, "no session")
            self.assertEqual(ann.post(path, fields)[0], 403, "no key")
            self.assertEqual(ann.post(path, {**fields, "key": reader.key()})[0], 403, "another session's key")
            self.assertEqual(ann.post(path, {**fields, **key}, Origin="")[0], 403)
            self.assertEqual(ann.post(path, {**fields, **key}, Origin="null")[0], 403)
            self.assertEqual(ann.post(path, {**fields, **key}, Origin="http://evil.example")[0], 403)
            self.assertEqual(ann.post(path, {**fields, **key}, Sec_Fetch_Site="same-site")[0], 403)
            self.assertEqual(ann.post(path, {**fields, **key}, Content_Type="application/json")[0], 415)
            self.assertEqual(self.node.get(path, "POST", "x" * 100_000, Origin=self.node.url,
                                           Content_Type="application/x-www-form-urlencoded")[0], 413)
            if path != "/logout":
                self.assertEqual(reader.post(path, {**fields, "key": reader.key()})[0], 403, "may only evaluate")
        self.assertEqual(self.node.get("/searches")[0], 405)
        for missing in ("Start", "Drain"):
            self.assertNotIn(f">{missing}</button>", nobody.page("/start") + nobody.page("/nodes"))
        self.assertIn("may not start a search", reader.page("/start"))

    def test_5_a_search_is_started_seen_and_stopped(self):
        ann = self.browsing("ann")
        start = {"key": ann.key("/start"), "tasks": "tiny softmax", "device": "cpu", "policy": "evolutionary"}
        for wrong in ({}, {"evaluations": "0"}, {"evaluations": "x"}, {"minutes": "-1"}, {"minutes": "1e9"},
                      {"minutes": "1", "policy": "no_such"}):
            self.assertEqual(ann.post("/searches", {**start, **wrong})[0], 400, wrong)
        self.assertEqual(ann.post("/searches", {**start, "tasks": "no_such_task", "minutes": "1"})[0], 404)
        events = self.events()
        status, headers, _ = ann.post("/searches", {**start, "minutes": "10"})
        self.assertEqual(status, 303)
        path = headers["Location"]
        until(lambda: re.search(r"<h1>e\d+ is \d+% done, [\d:]+ left</h1>", ann.page(path)))
        until(lambda: re.search(r"[1-9]\d* in flight|[1-9]\d* evaluation", ann.page(path)))
        self.assertGreaterEqual(next(events), 1, "the browser is told")
        self.assertIn('<progress max="100"', ann.page("/"))
        self.assertIn("busy", ann.page("/nodes"))
        if browser.find():
            self.check_that_pages_stay_up_to_date(path)
        self.assertEqual(ann.post(path + "/stop", {"key": ann.key()})[0], 303)
        until(lambda: "is cancelled" in ann.page(path))
        self.assertIn("cancelled", ann.page("/experiments"))
        self.assertEqual(ann.post(path + "/stop", {"key": ann.key()})[0], 303, "it is stopped already")
        events.close()

    def events(self):
        """The revisions that a browser is told of."""
        with socket.create_connection(("127.0.0.1", self.node.port), timeout=30) as s:
            s.sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{self.node.port}\r\n\r\n".encode())
            text = b""
            while True:
                text += s.recv(4096)
                while match := re.search(rb"event: changed\ndata: (\d+)\n\n", text):
                    text = text[match.end():]
                    yield int(match.group(1))

    def check_that_pages_stay_up_to_date(self, path):
        figures = "document.querySelector('.run-figures').textContent"  # with the time that is left
        with browser.Browser(browser.find()) as one:
            one.open(self.node.url + path, 1000)
            one.value("window.same = true")
            before = one.value(figures)
            until(lambda: one.value(figures) != before)
            self.assertTrue(one.value("window.same"), "without a new load of the page")
            self.assertEqual(one.value("document.getElementById('live').textContent"), "Live.")
            # The keyboard stays where it was.
            one.value("document.querySelector('#content [data-live] a').focus()")
            href = one.value("document.activeElement.getAttribute('href')")
            before = one.value(figures)
            until(lambda: one.value(figures) != before)
            self.assertEqual(one.value("document.activeElement.getAttribute('href')"), href)
            self.assertEqual(one.problems, [])

    def test_6_machines_are_drained_and_get_work_again(self):
        ann = self.browsing("ann")
        for choice, seen in (("yes", True), ("no", False)):
            fields = {"key": ann.key(), "machine": "(coordinator)", "drain": choice}
            self.assertEqual(ann.post("/nodes/drain", fields)[0], 303)
            until(lambda: ("draining" in ann.page("/nodes")) == seen)
        self.assertEqual(ann.post("/nodes/drain", {"key": ann.key(), "machine": "no_such", "drain": "yes"})[0], 404)
        self.assertEqual(ann.post("/nodes/drain", {"key": ann.key(), "machine": "x"})[0], 400)

    def test_7_jobs_over_http_are_in_the_queue(self):
        job = self.node.client(name="trainer").task("tiny").submit([program(f"{k}.0f * b[column]", f"q{k}")
                                                                    for k in range(6)])
        self.assertIn(job.id, Browsing(self.node).page("/queue"))
        self.assertNotIn(job.id, self.browsing("reader").page("/queue"), "another client's")
        job.wait(60)
        self.assertIn("No job waits", Browsing(self.node).page("/queue"))


if __name__ == "__main__":
    unittest.main()
