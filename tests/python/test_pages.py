"""Parts of the pages in docs/ that commands write."""

import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "docs"))

import page  # noqa: E402

PARTS = [(file, writer) for file in sorted(page.DOCS.glob("*.md")) for writer in re.findall(r"^<!-- (.+) writes from here -->$", file.read_text(), re.M)]


@pytest.mark.parametrize(("file", "writer"), PARTS, ids=lambda value: value if isinstance(value, str) else value.name)
def test_a_part_has_its_writer_and_its_end(file, writer):
    script = ROOT / writer.split()[0]
    assert file.name in script.read_text(), f"{script} does not name {file.name}"
    assert "\n| " in "\n" + page.read(file, writer)


def test_a_part_is_replaced_and_the_rest_stays(tmp_path):
    file = tmp_path / "page.md"
    file.write_text("before\n<!-- a.py writes from here -->\nold\n<!-- to here -->\nbetween\n<!-- b.py x writes from here -->\nkept\n<!-- to here -->\nafter\n")
    page.write(file, "a.py", "one\ntwo")
    assert file.read_text() == ("before\n<!-- a.py writes from here -->\none\ntwo\n<!-- to here -->\nbetween\n"
                                "<!-- b.py x writes from here -->\nkept\n<!-- to here -->\nafter\n")
    assert page.read(file, "b.py x") == "kept\n"


@pytest.mark.parametrize("text", ["no part\n", "<!-- a.py writes from here -->\nno end\n"])
def test_a_page_without_the_part_is_named(tmp_path, text):
    file = tmp_path / "page.md"
    file.write_text(text)
    with pytest.raises(SystemExit, match="page.md has no part of a.py: put '<!-- a.py writes from here -->' and '<!-- to here -->' where it belongs"):
        page.write(file, "a.py", "text")
