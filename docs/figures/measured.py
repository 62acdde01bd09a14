"""Writes the table of docs/fidelity.md anew that shows what the measured latencies change.

    python3 docs/figures/measured.py          (runs ./atalla whatif for each operator, in a database of its own)
"""
import json
import tempfile

from sensitivity import PAGE, ROOT, page, whatif

OPERATORS = [["--op", "gemm", "--shape", "256x256x256"], ["--op", "gemm", "--shape", "512x512x512"],
             ["--op", "layer_norm", "--shape", "128x512,512,512"], ["--op", "softmax", "--shape", "128x512"]]


def settings():
    """What ax01-measured has instead of the values of ax01, as options."""
    groups = json.loads((ROOT / "machines/ax01-measured.json").read_text())["parameters"]
    return [word for group, entries in groups.items() for name, entry in entries.items() for word in ("--set", f"{group}.{name}={entry['value']}")]


def row(operator):
    with tempfile.TemporaryDirectory() as folder:
        run = lambda *more: whatif(*operator, "--db", folder + "/measured.db", *more)["rows"][0]["cycles"]
        usual, kept, tuned = run(), run(*settings()), run(*settings(), "--retune")
    change = lambda cycles: f"{cycles:,} ({100 * (cycles / usual - 1):+.1f} %)"
    name = operator[1] + " " + operator[3].split(",")[0]
    return f"| {name} | {usual:,} | {change(kept)} | {change(tuned)} |"


def main():
    head = ["| operator | `ax01` | its schedule on `ax01-measured` | tuned for `ax01-measured` |", "|---|---|---|---|"]
    page.write(PAGE, "docs/figures/measured.py", "\n".join(head + [row(operator) for operator in OPERATORS]))


if __name__ == "__main__":
    main()
