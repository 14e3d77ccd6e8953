"""Reads HTML for tests: its elements, its text, and what is wrong with it."""

import html.parser
import re

VOID = {"meta", "br", "img", "input", "link", "hr", "col"}


class Page(html.parser.HTMLParser):
    """Checks the nesting while it reads; keeps elements with their attributes."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.problems, self.text = [], [], [], []
        self.feed(text)
        self.close()
        self.problems += [f"<{tag}> is not closed" for tag in self.open]

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        names = [name for name, _ in attributes]
        self.problems += [f"<{tag}> has {n} twice" for n in names if names.count(n) > 1]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes another element")

    def handle_data(self, data):
        self.text.append(data)

    def all(self, *tags):
        return [attributes for tag, attributes in self.elements if tag in tags]

    def accessibility_problems(self):
        """What keeps a screen reader or a keyboard from a part of the page."""
        found = []
        ids = [a["id"] for _, a in self.elements if "id" in a]
        found += [f"the id {i} is there twice" for i in set(ids) if ids.count(i) > 1]
        labelled = {a.get("for") for a in self.all("label")}
        for tag, a in self.elements:
            for name in ("aria-labelledby", "aria-describedby"):
                found += [f"<{tag}> names {t}, which is not there" for t in (a.get(name) or "").split() if t not in ids]
            if (a.get("href") or "").startswith("#") and a["href"][1:] not in ids:
                found.append(f"nothing has the id of {a['href']}")
            if tag in ("input", "select", "textarea") and a.get("type") != "hidden" and a.get("id") not in labelled:
                found.append(f"<{tag}> {a} has no label")
            if tag == "svg" and (a.get("role") != "img" or "aria-labelledby" not in a):
                found.append("a picture has no text")
            if tag == "th" and a.get("scope") not in ("col", "row"):
                found.append("a heading of a table has no scope")
            if tag == "nav" and "aria-label" not in a:
                found.append("a navigation has no name")
        if len(self.all("table")) != len(self.all("caption")):
            found.append("a table has no caption")
        levels = [int(tag[1]) for tag, _ in self.elements if re.fullmatch("h[1-6]", tag)]
        if levels[:1] != [1] or levels.count(1) != 1:
            found.append(f"the headings are {levels}")
        found += [f"a heading of level {b} follows one of level {a}" for a, b in zip(levels, levels[1:]) if b > a + 1]
        for tag in ("main", "header", "footer"):
            if len(self.all(tag)) != 1:
                found.append(f"there is not one <{tag}>")
        if self.all("html")[0].get("lang") != "en":
            found.append("the language is not said")
        return found
