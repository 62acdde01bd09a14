"""bench/compilers.py with compilers that are scripts: what is slower, faster and failed, saved sides, every line of the list."""
import json
import os
import pathlib
import stat
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "bench/compilers.py"
KERNELS = "# products\n--op gemm --shape 8x8x8\n\n--op gemm --shape 16x16x16\n--op add --shape 4,4\n"


def programs(folder, cycles):
    """A folder whose atalla-tune says so many cycles by shape; another shape is an error, a negative number a winner that is wrong."""
    folder.mkdir()
    tune = folder / "atalla-tune"
    tune.write_text(f"""#!{sys.executable}
import json, sys
shape = sys.argv[sys.argv.index("--shape") + 1]
cycles = {cycles!r}.get(shape)
if cycles is None:
    sys.exit("no schedule of " + shape)
print(json.dumps({{"cycles": abs(cycles), "verified": cycles > 0}}))
""")
    tune.chmod(tune.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.fixture
def compare(tmp_path):
    listed = tmp_path / "kernels.txt"
    listed.write_text(KERNELS)
    return lambda *arguments: subprocess.run([sys.executable, TOOL, "--kernels", listed, *arguments], capture_output=True, text=True)


def test_equal_and_faster_kernels_succeed(tmp_path, compare):
    before = programs(tmp_path / "before", {"8x8x8": 100, "16x16x16": 1000, "4,4": 10})
    after = programs(tmp_path / "after", {"8x8x8": 100, "16x16x16": 900, "4,4": 10})
    run = compare(before, after)
    assert run.returncode == 0, run.stderr
    first, last = run.stdout.splitlines()
    assert first.split() == ["-10.00", "%", "1,000", "900", "--op", "gemm", "--shape", "16x16x16"]
    assert last == "3 kernels, 2 of them equal; geometric mean -3.45 %"


def test_a_slower_kernel_is_an_exit_status(tmp_path, compare):
    before = programs(tmp_path / "before", {"8x8x8": 100, "16x16x16": 1000, "4,4": 10})
    after = programs(tmp_path / "after", {"8x8x8": 101, "16x16x16": 500, "4,4": 10})
    run = compare(before, after)
    assert run.returncode == 3
    assert run.stdout.splitlines()[0].startswith("  +1.00 %")


@pytest.mark.parametrize("cycles,says", [(None, "no schedule of 4,4"), (-10, "the winner was not verified")])
def test_a_kernel_that_failed_is_named(tmp_path, compare, cycles, says):
    before = programs(tmp_path / "before", {"8x8x8": 100, "16x16x16": 1000, "4,4": 10})
    after = programs(tmp_path / "after", {"8x8x8": 100, "16x16x16": 1000} | ({"4,4": cycles} if cycles else {}))
    run = compare(before, after)
    assert run.returncode == 3
    assert f"--op add --shape 4,4: {says} (before: 10)" in run.stdout


def test_a_side_may_be_a_saved_one_of_as_many_trials(tmp_path, compare):
    before = programs(tmp_path / "before", {"8x8x8": 100, "16x16x16": 1000, "4,4": 10})
    saved = tmp_path / "before.json"
    assert compare(before, "--save", saved, "--only", "gemm").returncode == 0
    assert json.loads(saved.read_text())["kernels"] == {"--op gemm --shape 8x8x8": 100, "--op gemm --shape 16x16x16": 1000}
    run = compare(saved, before)
    assert run.returncode == 0 and "2 kernels, 2 of them equal" in run.stdout
    run = compare(saved, before, "--trials", "3")
    assert run.returncode == 1 and "before.json was measured with 8 trials, not 3" in run.stderr


@pytest.mark.parametrize("arguments,says", [(["nowhere"], "nowhere is neither a folder of programs nor a file"),
                                            ([".", "--only", "softmax"], "has 'softmax' in it")])
def test_errors_say_what_is_wrong(compare, arguments, says):
    run = compare(*arguments)
    assert run.returncode == 2 and says in run.stderr


@pytest.mark.parametrize("name, least", [("kernels.txt", 300), ("unseen.txt", 70)])
def test_lists_have_operators_of_the_registry(name, least):
    kernels = [line for line in (ROOT / "bench" / name).read_text().splitlines() if line.startswith("--")]
    assert len(kernels) == len(set(kernels)) >= least
    listed = subprocess.run([os.environ["ATALLA_OPS_TOOL"], "--json"], capture_output=True, text=True, check=True)
    known = {operator["name"] for operator in json.loads(listed.stdout)}
    for kernel in kernels:
        option, machine, second, operator = kernel.split()[:4]
        assert (option, second) == ("--machine", "--op") and (ROOT / "machines" / f"{machine}.json").exists(), kernel
        assert operator in known or "(" in operator, kernel  # or an expression
