"""Writes the tables of streaming operators in docs/results/: tuned from an empty database with the default budget, beside their bounds.

    python3 docs/operator_results.py build/release/bin [OPERATOR...]

Rows of operators that are not named stay as they are. Behind it docs/figures/summary.py and docs/figures/standing.py bring the front page
up to date.
"""

import sys

import page

sys.path.append(str(page.DOCS.parent / "bench"))
import tuning  # noqa: E402

# Machine, operator, shape and arguments, packets that upstream publishes for the same kernel on its functional simulator.
CALLS = [
    ("ax01", "relu", "65536", "", None),
    ("ax01", "relu", "100352", "", None),
    ("ax01", "relu", "262144", "", None),
    ("ax01", "add", "65536,65536", "", None),
    ("ax01", "add", "100352,100352", "", None),
    ("ax01", "add", "1000x1000,1000", "", None),
    ("ax01", "add", "12x197x197,1x197x197", "", None),
    ("ax01", "gelu", "65536", "", None),
    ("ax01", "permute", "8x128x12x64", "--dims 0,2,1,3", None),
    ("ax01", "slice", "512x512", "--dim 0 --start 64 --end 320", None),
    ("ax01", "slice", "512x512", "--dim 1 --start 64 --end 320", None),
    ("ax01", "cat", "256x256,256x256", "", None),
    ("ax01", "cat", "256x100,256x156", "--dim 1", None),
    ("ax01", "pad", "256x256", "--pad=-1,-1,-1,-1", None),
    ("ax01", "pad", "1x64x56x56", "--pad 1,1,1,1", None),
    ("ax01", "pad", "1x128x14x14", "--pad 2,2,2,2", None),
    ("ax01", "pad", "1x64x28x28", "--pad 1,1,1,1", None),
    ("ax01", "slice", "128x1536", "--dim 1 --start 768", None),
    ("ax01", "permute", "64x64x32", "--dims 1,0,2", None),
    ("ax01", "roll", "256x256", "--shifts 3 --dims 0", None),
    ("ax01", "expand", "1x512", "--size 256,512", None),
    ("ax01", "expand", "256x1", "--size 256,512", None),
    ("ax01", "transpose", "512x256", "--dim0 0 --dim1 1", None),
    ("ax01", "transpose", "1024x1024", "--dim0 0 --dim1 1", None),
    ("ax01", "permute", "1x128x28x28", "--dims 0,2,3,1", None),
    ("ax01", "permute", "197x768", "--dims 1,0", None),
    ("ax01", "slice", "512x512", "--dim 1 --step 2 --exact false", None),
    ("ax01", "stack", "256x256,256x256", "--dim 2 --exact false", None),
    ("ax01", "softmax", "1024x128", "", None),
    ("ax01", "softmax", "128x512", "", None),
    ("ax01", "softmax", "256x1024", "", None),
    ("ax01", "softmax", "8x128x256", "--dim 1", None),
    ("ax01", "softmax", "12x77x77", "", None),
    ("ax01", "softmax", "12x197x197", "", None),
    ("ax01", "softmax", "64x1000", "", None),
    ("ax01", "log_softmax", "400x50", "", None),
    ("ax01", "layer_norm", "3136x96,96,96", "", None),
    ("ax01", "layer_norm", "64x1000,1000,1000", "", None),
    ("ax01", "rms_norm", "64x1000,1000", "", None),
    ("ax01", "layer_norm", "512x768,768,768", "", None),
    ("ax01", "rms_norm", "1024x768,768", "", None),
    ("ax01", "softmax", "128x2048", "", None),
    ("ax01", "layer_norm", "128x2048,2048,2048", "", None),
    ("ax01", "layer_norm", "64x4096,4096,4096", "", None),
    ("ax01", "rms_norm", "128x2048,2048", "", None),
    ("ax01", "rms_norm", "64x4096,4096", "", None),
    ("ax01", "group_norm", "4x64x28x28,64,64", "--num-groups 8", None),
    ("ax01", "batch_norm", "4x64x28x28,64,64,64,64", "", None),
    ("ax01", "batch_norm", "4x64x56x56,64,64,64,64", "", None),
    ("ax01", "mul", "512x768,512x1", "", None),
    ("ax01", "mul", "4x64x28x28,1x64x1x1", "", None),
    ("ax01", "mul", "4x64x56x56,1x64x1x1", "", None),
    ("ax01", "mul", "1x32x8x32,1x32x1x32", "", None),
    ("ax01", "mul", "1x128x12x64,1x128x1x64", "", None),
    ("ax01", "mul", "512x4096,4096", "", None),
    ("ax01", "sum", "512x1024", "--dim 1", None),
    ("ax01", "sum", "512x1024", "--dim 0", None),
    ("ax01", "sum", "40x3000", "--dim 1", None),
    ("ax01", "sum", "8x12x50x64", "--dim 1,3", None),
    ("ax01", "mean", "8x512x768", "--dim 1", None),
    ("ax01", "mean", "1x49x768", "--dim 1", None),
    ("ax01", "mean", "1x512x7x7", "--dim 2,3", None),
    ("ax01", "mean", "12x197x197", "--dim 2", None),
    ("ax01", "var", "8x12x50x64", "--dim 1,3", None),
    ("ax01", "amax", "512x1024", "--dim 1", None),
    ("ax01", "amax", "512x128", "--dim 1", None),
    ("ax01", "amax", "64x2048", "--dim 1", None),
    ("ax01", "amax", "40x3000", "--dim 1", None),
    ("ax01", "amax", "8x12x50x64", "--dim 1,3", None),
    ("ax01", "amax", "512x1024", "--dim 0", None),
    ("ax01", "amax", "8x128x256", "--dim 1", None),
    ("ax01", "amax", "64x28x28", "--dim 0", None),
    ("ax01", "max_pool2d", "1x112x112x64", "--kernel-size 3 --stride 2 --padding 1 --layout nhwc", None),
    ("ax01", "max_pool2d", "1x64x56x56", "--kernel-size 3 --stride 2", None),
    ("ax01", "avg_pool2d", "1x64x56x56", "--kernel-size 2 --stride 2", None),
    ("ax01", "avg_pool2d", "1x512x8x8", "--kernel-size 2 --stride 2", None),
    ("ax01", "avg_pool2d", "1x512x14x14", "--kernel-size 2 --stride 2", None),
    ("ax01", "avg_pool2d", "1x192x35x35", "--kernel-size 3 --stride 1 --padding 1", None),
    ("ax01", "avg_pool2d", "1x768x17x17", "--kernel-size 3 --stride 1 --padding 1", None),
    ("ax01", "avg_pool2d", "1x2048x8x8", "--kernel-size 3 --stride 1 --padding 1", None),
    ("ax01", "adaptive_avg_pool2d", "1x256x20x20", "--output-size 6,6", None),
    ("ax01", "max_pool2d", "1x192x28x28", "--kernel-size 3 --stride 1 --padding 1", None),
    ("ax01", "max_pool2d", "1x480x14x14", "--kernel-size 3 --stride 1 --padding 1", None),
    ("ax01", "max_pool2d", "1x832x7x7", "--kernel-size 3 --stride 1 --padding 1", None),
    ("ax01", "max_pool2d", "1x480x14x14", "--kernel-size 3 --stride 2 --ceil-mode", None),
    ("fsim", "relu", "1024", "", 243),
    ("fsim", "softmax", "1x32", "", 21),
]

# The page of docs/results/ that has the rows of an operator.
PAGES = {
    "elementwise.md": ("relu", "add", "gelu", "mul", "batch_norm"),
    "movement.md": ("permute", "slice", "cat", "pad", "roll", "expand", "transpose", "stack"),
    "rows.md": ("softmax", "log_softmax", "layer_norm", "rms_norm"),
    "group-norm.md": ("group_norm",),
    "reductions.md": ("sum", "mean", "var", "amax"),
    "pooling.md": ("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d"),
}
RESULTS, PART = page.DOCS / "results", "docs/operator_results.py"

HEAD = """| machine | operator | shape | cycles | lower bound | share | bound by | upstream |
|---|---|---|---|---|---|---|---|
"""


def measured(programs, machine, operator, shape, arguments, upstream):
    result = tuning.tune(programs, f"--machine {machine} --op {operator} --shape {shape} {arguments}")
    return f"{result['cycles']:,} | {result['bound_cycles']:,} | {100 * result['bound_share']:.1f} % | {result['bound_by']} | {upstream or ''} |"


def begin(machine, operator, shape, arguments, _):
    return f"| {machine} | {operator} | {shape}{f' `{arguments}`' if arguments else ''} | "


def read():
    """The rows that the pages have, by call, in the order of CALLS."""
    lines = [line for name in PAGES for line in page.read(RESULTS / name, PART).splitlines()]
    return {call: line for call in CALLS for line in lines if line.startswith(begin(*call))}


def write(rows):
    """Puts each into the page of its operator."""
    for name, operators in PAGES.items():
        page.write(RESULTS / name, PART, HEAD + "\n".join(rows[call] for call in CALLS if call in rows and call[1] in operators))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    programs, *named = sys.argv[1:]
    if unknown := set(named) - {call[1] for call in CALLS}:
        sys.exit(f"no row is of {', '.join(sorted(unknown))}")
    rows = read()
    for call in CALLS:
        if not named or call[1] in named:
            rows[call] = begin(*call) + measured(programs, *call)
            print(rows[call], flush=True)
    write(rows)


if __name__ == "__main__":
    main()
