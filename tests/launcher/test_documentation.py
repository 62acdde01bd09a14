"""Tests of the documentation: links lead somewhere, and what it shows of the code generator is what that makes.

Pages are all Markdown files of the repository. Sources name pages in comments: these have to exist, too.
"""

import functools
import pathlib
import re
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SOURCES = (".cpp", ".h", ".py", ".txt", ".cmake")


def files_of(root):
    """Those of the repository: nothing that was built, installed or hidden."""
    for path in sorted(root.iterdir()):
        if path.name.startswith(".") or path.name in ("build", "__pycache__"):
            continue
        if path.is_dir():
            yield from files_of(path)
        else:
            yield path


def without_code(text):
    """Code has brackets and signs of its own."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


@functools.cache
def anchors_of(page):
    """What a link can name behind `#`: headings, as the usual viewers make anchors of them, and `<a id>`."""
    text, anchors = without_code(page.read_text()), set()
    for heading in re.findall(r"^#+ +(.*?) *#*$", text, flags=re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        anchor = again = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
        count = 0
        while again in anchors:
            count += 1
            again = f"{anchor}-{count}"
        anchors.add(again)
    return anchors | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def broken_links(root):
    """Each as text that says where it is."""
    broken = []
    files = list(files_of(root))
    for page in files:
        if page.suffix != ".md":
            continue
        text = re.sub(r"`[^`\n]*`", "", without_code(page.read_text()))
        for link in re.findall(r"\]\(([^)\s]+)[^)]*\)", text) + re.findall(r"(?:src|href)=\"([^\"]+)\"", text):
            if re.match(r"[a-z]+:", link):
                continue   # elsewhere
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            where = f"{page.relative_to(root)} links to {link}"
            if not target.exists():
                broken.append(where)
            elif anchor and target.suffix == ".md" and anchor not in anchors_of(target):
                broken.append(where + ", which has no such heading")
    for source in files:
        if source.suffix not in SOURCES or source == pathlib.Path(__file__).resolve():
            continue
        for name, anchor in re.findall(r"(?<![\w/])(docs/[\w/-]+\.md)(?:#([\w-]+))?", source.read_text(errors="replace")):
            target = root / name
            where = f"{source.relative_to(root)} names {name}"
            if not target.exists():
                broken.append(where)
            elif anchor and anchor not in anchors_of(target):
                broken.append(f"{where}#{anchor}, which has no such heading")
    return broken


def excerpts(page):
    """Blocks behind a comment that names a file, as pairs of that name and the runs of lines between lines of `…`."""
    for name, block in re.findall(r"^<!-- (\S+) -->\n```\w*\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE):
        for part in re.split(r"^ *…\n", block, flags=re.MULTILINE):
            yield name, part


class Documentation(unittest.TestCase):
    def pages(self, **texts):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name).resolve()
        for name, text in texts.items():
            path = root / name.replace("__", "/").replace("_md", ".md").replace("_cpp", ".cpp")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return root

    def test_links_lead_somewhere(self):
        self.assertEqual(broken_links(SOURCE), [])

    def test_a_broken_link_is_found(self):
        root = self.pages(docs__a_md="[x](b.md) [y](c.md) [z](http://example.org/d.md) ![p](p.svg)\n```\n[q](e.md)\n```\n",
                          docs__b_md="")
        self.assertEqual(broken_links(root), ["docs/a.md links to c.md", "docs/a.md links to p.svg"])

    def test_a_broken_anchor_is_found(self):
        heading = "# One\n## Two, *again*: [`x.cpp`](../a.md)\n## One\n```\n# no heading\n```\n"
        root = self.pages(docs__a_md="[1](more/b.md#one) [2](more/b.md#one-1) [3](more/b.md#two-again-xcpp) [4](#here)\n"
                                     "[5](more/b.md#one-2) [6](more/b.md#no-heading) [7](#there)\n# Here\n",
                          docs__more__b_md=heading)
        self.assertEqual(broken_links(root), [f"docs/a.md links to {link}, which has no such heading"
                                              for link in ("more/b.md#one-2", "more/b.md#no-heading", "#there")])

    def test_a_page_that_only_a_comment_names_is_found(self):
        root = self.pages(docs__a_md="# Here\n",
                          codegen__x_cpp="// docs/a.md, docs/a.md#here, docs/a.md#there, docs/b.md, upstream/docs/c.md\n")
        self.assertEqual(broken_links(root), ["codegen/x.cpp names docs/a.md#there, which has no such heading",
                                              "codegen/x.cpp names docs/b.md"])

    def test_excerpts_are_in_the_files_that_they_are_of(self):
        found = 0
        for page in files_of(SOURCE / "docs"):
            if page.suffix != ".md":
                continue
            for name, part in excerpts(page):
                found += 1
                self.assertTrue(part in (SOURCE / name).read_text(), f"{page.name} shows lines that {name} has not:\n{part}")
        self.assertGreater(found, 0)


if __name__ == "__main__":
    unittest.main()
