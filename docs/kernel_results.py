#!/usr/bin/env python3
"""Writes tables of docs/results/: matrix products, convolutions and attention tuned from an empty database, beside their bounds.
Run all, or the named ones (gemm, products, convolutions, convolutions-fsim, attention, heads); all take about ten minutes on two cores:

    build/env/bin/python docs/kernel_results.py build/release/bin [TABLE...]

Behind it docs/figures/summary.py and docs/figures/standing.py bring the front page up to date.
"""

import functools
import json
import math
import pathlib
import sys

import page

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "bench"))
import tuning  # noqa: E402

GEMMS = [("ax01", shape) for shape in ("64x64x64", "128x128x128", "256x256x256", "512x512x512", "1024x1024x1024", "197x768x768", "100x70x50", "1x4096x4096", "4096x1x64", "33x33x33")]
GEMMS += [("ax01-psum", shape) for _, shape in GEMMS]
GEMMS += [("fsim", "64x64x64")]

# Those of examples/shapes with all sizes of at least SMALLEST and at most LARGEST products of two elements.
SMALLEST, LARGEST = 128, 30_000_000_000

# Layer, shape, arguments.
CONVOLUTIONS = [
    ("ResNet-18 layer2", "1x128x28x28,128x128x3x3", "--padding 1"),
    ("ResNet-18 layer3", "1x256x14x14,256x256x3x3", "--padding 1"),
    ("ResNet-18 layer1", "1x64x56x56,64x64x3x3", "--padding 1"),
    ("AlexNet conv3", "1x192x13x13,384x192x3x3", "--padding 1"),
    ("AlexNet conv5", "1x256x13x13,256x256x3x3", "--padding 1"),
    ("AlexNet conv1", "1x3x224x224,64x3x11x11", "--stride 4 --padding 2"),
    ("AlexNet conv4", "1x384x13x13,256x384x3x3", "--padding 1"),
    ("AlexNet conv2", "1x64x27x27,192x64x5x5", "--padding 2"),
    ("ResNet-18 layer4", "1x512x7x7,512x512x3x3", "--padding 1"),
    ("ResNet-18 conv1", "1x3x224x224,64x3x7x7", "--stride 2 --padding 3"),
    ("MobileNetV2 depthwise", "1x96x56x56,96x1x3x3", "--padding 1 --groups 96"),
]

# What, operator, shape, arguments, packets that upstream publishes for the same sizes on its functional simulator.
ON_FSIM = [
    ("8x8x3 to 4", "conv2d", "1x3x8x8,4x3x3x3", "", 752),
    ("8x8x3 to 4, padding 1", "conv2d", "1x3x8x8,4x3x3x3", "--padding 1", None),
    ("32x32x3 to 4", "conv2d", "1x3x32x32,4x3x3x3", "", 11_762),
    ("AlexNet x0.1 conv1, stride 4, padding 2", "conv2d", "1x3x224x224,6x3x11x11", "--stride 4 --padding 2", 429_133),
    ("AlexNet x0.1 conv4, padding 1", "conv2d", "1x38x13x13,25x38x3x3", "--padding 1", 69_409),
    ("AlexNet x0.1 fc14, a product", "gemm", "1x409x900", "", 71_444),
    ("AlexNet x0.1 fc16, a product", "gemm", "1x409x409", "", 32_132),
]


def cells(*values):
    row = "| " + " | ".join(f"{value:,}" if isinstance(value, int) else value for value in values) + " |"
    print(row, file=sys.stderr, flush=True)
    return row


def table(titles, rows):
    return ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles), *rows]


def share(result):
    return f"{100 * result['bound_share']:.1f} %"


def geometric_mean(shares):
    return f"{100 * math.exp(sum(map(math.log, shares)) / len(shares)):.1f} %"


def gemm(tune):
    results = [(machine, shape, tune(f"--machine {machine} --op gemm --shape {shape}")) for machine, shape in GEMMS]
    return table(("machine", "shape", "cycles", "lower bound", "share", "seconds"),
                 [cells(machine, shape, r["cycles"], r["bound_cycles"], share(r), f"{r['seconds']:.1f}") for machine, shape, r in results])


def products(tune):
    seen, rows, shares = set(), [], []
    for path in sorted((ROOT / "examples" / "shapes").glob("*.json")):
        network = json.loads(path.read_text())
        for product in network["gemms"]:
            m, n, k, bias = (product[key] for key in ("m", "n", "k", "bias"))
            key = (m, n, k, bias, product["b"])
            if min(m, n, k) < SMALLEST or m * n * k > LARGEST or key in seen:
                continue
            seen.add(key)
            result = tune(f"--machine ax01 --op gemm --shape {m}x{n}x{k} --b-layout {product['b']} --trials 4" + " --bias" * bias)
            shares.append(result["bound_share"])
            rows.append((m * n * k, cells(path.stem, f"{m}x{n}x{k}", product["b"] + ", bias" * bias, result["cycles"], result["bound_cycles"], share(result))))
    return [f"The geometric mean is {geometric_mean(shares)} of the bound, the worst {100 * min(shares):.1f} %.", "",
            *table(("network", "shape", "B", "cycles", "lower bound", "share"), [row for _, row in sorted(rows)])]


INSIDE = 32   # channels of an image from which on channels may be innermost
SHARED = {("ResNet-18 conv1", "ax01")}   # whose weights ./atalla compile stores with columns that share k tiles


def convolutions(tune):
    rows, planes, better = [], {"ax01": [], "ax01-psum": []}, {"ax01": [], "ax01-psum": []}
    for layer, shape, arguments in CONVOLUTIONS:
        image, weight = shape.split(",")
        images, channels, height, width = image.split("x")
        for machine in planes:
            layout = "shared" if (layer, machine) in SHARED else "packed"
            options = f"--machine {machine} --op conv2d {arguments} --trials 10 --weight-layout"
            result = tune(f"{options} {layout} --shape {shape}")
            inside = None
            if int(channels) >= INSIDE and "--groups" not in arguments:
                inside = tune(f"{options} packed --layout nhwc --shape {images}x{height}x{width}x{channels},{weight}")
            if "--groups" not in arguments:
                planes[machine].append(result["bound_share"])
                better[machine].append(max(result["bound_share"], inside["bound_share"] if inside else 0))
            rows.append(cells(layer, shape, machine, result["cycles"], share(result), inside["cycles"] if inside else "", share(inside) if inside else "", result["bound_cycles"]))
    means = [f"{geometric_mean(planes[machine])} of the bound on `{machine}`, {geometric_mean(better[machine])} with the better layout of each" for machine in planes]
    return [f"The geometric mean of those that are not depthwise is {', and '.join(means)}.", "",
            *table(("layer", "shape", "machine", "planes", "share", "channels innermost", "share", "lower bound"), rows)]


def convolutions_on_fsim(tune):
    rows = []
    for what, operator, shape, arguments, upstream in ON_FSIM:
        layout = "--weight-layout banded" if operator == "conv2d" else ""
        result = tune(f"--machine fsim --op {operator} --shape {shape} {arguments} {layout}")
        rows.append(cells(what, shape, result["cycles"], upstream or ""))
    return table(("convolution", "shape", "packets", "upstream"), rows)


def attention(tune, heads, lengths, masks, name):
    rows = []
    for mask in masks:
        for length in lengths:
            shape = ",".join([f"1x{heads}x{length}x64"] * 3)
            trials = 8 if length < 4096 else 1
            result = tune(f"--machine ax01 --op scaled_dot_product_attention --shape {shape} --trials {trials}" + " --is-causal" * (mask == "causal"))
            rows.append((length, cells(name.format(length), mask, result["cycles"], result["bound_cycles"], share(result))))
    return table(("S = T", "mask", "cycles", "lower bound", "share"), [row for _, row in rows])


# The page of docs/results/ that a table is in, and what makes it.
TABLES = {
    "gemm": ("products.md", gemm),
    "products": ("products.md", products),
    "convolutions": ("convolutions.md", convolutions),
    "convolutions-fsim": ("convolutions.md", convolutions_on_fsim),
    "attention": ("attention.md", lambda tune: attention(tune, 1, (128, 512, 1024, 4096), ("plain", "causal"), "{}")),
    "heads": ("attention.md", lambda tune: attention(tune, 12, (128, 197), ("plain", "causal"), "12 x {}")),
}


def main():
    names = sys.argv[2:] or list(TABLES)
    if len(sys.argv) < 2 or any(name not in TABLES for name in names):
        sys.exit(__doc__)
    tune = functools.partial(tuning.tune, sys.argv[1])
    for name in names:
        file, lines = TABLES[name]
        page.write(page.DOCS / "results" / file, f"docs/kernel_results.py {name}", "\n".join(lines(tune)))


if __name__ == "__main__":
    main()
