"""Parts of the pages in docs/ that commands write."""

import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "docs"), str(ROOT / "docs" / "figures")]

import operator_results  # noqa: E402
import page  # noqa: E402
import standing  # noqa: E402
import summary  # noqa: E402
import target_results  # noqa: E402

PARTS = [(file, writer) for file in sorted(page.DOCS.rglob("*.md")) for writer in re.findall(r"^<!-- (.+) writes from here -->$", file.read_text(), re.M)]


@pytest.mark.parametrize(("file", "writer"), PARTS, ids=lambda value: value if isinstance(value, str) else value.name)
def test_a_part_has_its_writer_and_its_end(file, writer):
    script = ROOT / writer.split()[0]
    assert file.name in script.read_text(), f"{script} does not name {file.name}"
    assert "\n| " in "\n" + page.read(file, writer)


def test_each_streaming_operator_has_one_page():
    placed = [operator for operators in operator_results.PAGES.values() for operator in operators]
    assert sorted(placed) == sorted({call[1] for call in operator_results.CALLS})


def test_rows_of_streaming_operators_are_written_as_they_were_read(tmp_path, monkeypatch):
    rows = operator_results.read()
    assert list(rows) == operator_results.CALLS, "a call has no row: measure it with docs/operator_results.py"
    texts = {name: (operator_results.RESULTS / name).read_text() for name in operator_results.PAGES}
    monkeypatch.setattr(operator_results, "RESULTS", tmp_path)
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    operator_results.write(rows)
    assert {name: (tmp_path / name).read_text() for name in texts} == texts


def test_the_picture_and_the_summary_are_of_the_present_tables(capsys):
    standing.main()
    assert capsys.readouterr().out == (page.DOCS / "figures" / "standing.svg").read_text(), "run docs/figures/standing.py"
    assert summary.summary() + "\n" == page.read(page.DOCS / "results.md", "docs/figures/summary.py"), "run docs/figures/summary.py"


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


MEASURED = {"cycles": 9008.0, "bound": 3325.0, "bound_share": 0.369}
RESULTS = [
    {"name": "products/ax01-psum/gemm 128x128x128/iterations:1/real_time", **MEASURED, "least_share": 0.65, "aimed_share": 0.85,
     "upstream": 37887.0, "reached": 0.0},
    {"name": "products/ax01/gemm 33x33x33/iterations:1/real_time", **MEASURED, "aimed_share": 0.85, "reached": 1.0},
    {"name": "products/fsim/gemm 64x64x64/iterations:1/real_time", **MEASURED, "most_cycles": 9100.0, "aimed_cycles": 400.0, "reached": 1.0},
    {"name": "two words/ax01/mean/iterations:1/real_time", "bound_share": 0.891, "least_share": 0.8, "aimed_share": 0.95, "reached": 1.0},
]


def test_targets_are_told_from_what_is_only_reported():
    lines = target_results.lines(RESULTS)
    assert lines[2:4] == ["| [products](#products) | 2 | 1 |", "| [two words](#two-words) | 1 | 1 |"]
    rows = [line for line in lines if line.startswith("| ax01") or line.startswith("| fsim")]
    assert rows == ["| ax01-psum | gemm 128x128x128 | 9,008 | 3,325 | 36.9 % | 65 % | 85 % | 37,887 | no |",
                    "| ax01 | gemm 33x33x33 | 9,008 | 3,325 | 36.9 % |  | 85 % |  | reported |",
                    "| fsim | gemm 64x64x64 | 9,008 | 3,325 | 36.9 % | 9,100 cycles | 400 cycles |  | yes |",
                    "| ax01 | mean |  |  | 89.1 % | 80 % | 95 % |  | yes |"]


def test_a_target_that_was_not_measured_ends_the_table():
    with pytest.raises(SystemExit, match="products/ax01/gemm 1x1x1 was not measured: no verified schedule"):
        target_results.lines([{"name": "products/ax01/gemm 1x1x1", "error_occurred": True, "error_message": "no verified schedule"}])
