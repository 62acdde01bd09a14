"""The table of docs/fidelity.md: how much each machine parameter moves the operators. Writes it to standard output.

    python3 docs/figures/sensitivity.py > table.md        (runs ./atalla whatif --sensitivity --json for each operator)
    python3 docs/figures/sensitivity.py gemm.json ...     (from files that hold its output)
"""
import json
import pathlib
import subprocess
import sys

OPERATORS = [["--op", "gemm", "--shape", "256x256x256"],
             ["--op", "layer_norm", "--shape", "128x512,512,512"],
             ["--op", "scaled_dot_product_attention", "--shape", "1x1x128x64,1x1x128x64,1x1x128x64"]]
ROOT = pathlib.Path(__file__).resolve().parents[2]


def measure(arguments):
    command = [ROOT / "atalla", "whatif", *arguments, "--sensitivity", "--json", "--quiet"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def changes(answer):
    """What the operator takes as the machine is, and the change in percent for each other value."""
    base, *rows = answer["rows"]
    found = {}
    for row in rows:
        (key, value), = row["settings"].items()
        found[key, value] = 100 * (row["cycles"] / base["cycles"] - 1) if "cycles" in row else None
    return base["cycles"], found


def main():
    answers = [json.loads(pathlib.Path(name).read_text()) for name in sys.argv[1:]] or [measure(each) for each in OPERATORS]
    columns = [changes(answer) for answer in answers]
    print("| parameter | instead | " + " | ".join(answer["program"] for answer in answers) + " |")
    print("|---|---|" + "---|" * len(answers))
    print("| cycles as it is | | " + " | ".join(f"{cycles:,}" for cycles, _ in columns) + " |")
    keys = sorted({key for _, found in columns for key in found})
    largest = {key: max(abs(found[key]) if found.get(key) is not None else 1e9 if key in found else 0 for _, found in columns) for key in keys}
    for key in sorted(keys, key=lambda key: (-largest[key], key)):
        cells = [("refused" if found[key] is None else f"{found[key]:+.1f} %") if key in found else "" for _, found in columns]
        if largest[key] >= 0.05:
            print(f"| `{key[0]}` | {key[1]} | " + " | ".join(cells) + " |")
    still = sorted({key[0] for key in keys if largest[key] < 0.05} - {key[0] for key in keys if largest[key] >= 0.05})
    print("\nBelow 0.05 % for all of them: " + ", ".join(f"`{key}`" for key in still) + ".")


main()
