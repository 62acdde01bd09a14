"""Writes the table of docs/fidelity.md anew: every parameter, where it comes from, the test that isolates it, and how much it
moves the operators.

    python3 docs/figures/sensitivity.py                   (runs ./atalla whatif --sensitivity --json for each operator)
    python3 docs/figures/sensitivity.py gemm.json ...     (from files that hold its output)
"""
import json
import pathlib
import re
import subprocess
import sys

OPERATORS = [["--op", "gemm", "--shape", "256x256x256"],
             ["--op", "scaled_dot_product_attention", "--shape", "1x1x128x64,1x1x128x64,1x1x128x64"],
             ["--op", "layer_norm", "--shape", "128x512,512,512"]]
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/fidelity.md"
sys.path.insert(0, str(PAGE.parent))
import page  # noqa: E402


def whatif(*arguments):
    command = [ROOT / "atalla", "whatif", *arguments, "--json", "--quiet"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def parameters():
    groups = json.loads((ROOT / "machines/ax01.json").read_text())["parameters"]
    return {f"{group}.{name}": entry for group, entries in groups.items() for name, entry in entries.items()}


def isolating_tests():
    """By parameter: what its case in parameters_test.cpp sets and what that costs, or the file that tests what it refuses."""
    cases = re.findall(r'\{"(\w+\.\w+)",\s*(-?\d+),\s*(-?[\d (*+)]+?),', (ROOT / "tests/timing/parameters_test.cpp").read_text())
    tests = {key: f"set to {value}: {eval(difference):+d} cycles" for key, value, difference in cases}
    for name in ["tests/timing/machine_file_test.cpp", "tests/isa/packet_checker_test.cpp", "tests/timing/refusals_test.cpp"]:
        text = (ROOT / name).read_text()
        for key in parameters():
            if key not in tests and re.search(rf"\b{re.escape(key)}\b", text):
                tests[key] = f"`{pathlib.Path(name).name}`"
    return tests


def plain(value):
    return {True: "1", False: "0"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def changes(answer):
    """What the operator takes as the machine is, and by parameter and value the change in percent, None where it is refused."""
    base, *rows = answer["rows"]
    found = {}
    for row in rows:
        (key, value), = row["settings"].items()
        found.setdefault(key, {})[plain(value)] = 100 * (row["cycles"] / base["cycles"] - 1) if row.get("cycles") else None
    return base["cycles"], found


def cell(percent):
    if percent is None:
        return "refused"
    return "0" if abs(percent) < 0.005 else f"{percent:+.2f} %"


def table(answers):
    columns = [changes(answer) for answer in answers]
    lines = ["| parameter | value | class, source | isolating test | instead | " + " | ".join(answer["program"] for answer in answers) + " |",
             "|---|---|---|---|---|" + "---|" * len(answers),
             "| cycles as it is | | | | | " + " | ".join(f"{cycles:,}" for cycles, _ in columns) + " |"]
    tests = isolating_tests()
    for key, entry in parameters().items():
        tried = list(dict.fromkeys(value for _, found in columns for value in found.get(key, {})))
        head = [f"`{key}`", plain(entry["value"]), f"{entry['confidence']}: {entry['source']}", tests.get(key, "no cycle depends on it") if tried else "fixed"]
        for value in tried or [""]:
            cells = [cell(found[key][value]) if value in found.get(key, {}) else "" for _, found in columns]
            lines.append("| " + " | ".join([*head, value, *cells]) + " |")
            head = [""] * 4
    return "\n".join(lines) + "\n"


def main():
    answers = [json.loads(pathlib.Path(name).read_text()) for name in sys.argv[1:]] or [whatif(*each, "--sensitivity") for each in OPERATORS]
    page.write(PAGE, "docs/figures/sensitivity.py", table(answers))


if __name__ == "__main__":
    main()
