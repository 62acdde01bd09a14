#!/usr/bin/env python3
"""Records what search quality is measured on, and trains the corrections that ship. To be run when schedule spaces or the code
generator have changed; takes minutes on an idle machine, and goes on where it ended.

    bench/record.py sweeps build/release/bin            # bench/sweeps/*.json.gz, every point of small spaces
    bench/record.py corrections build/release/bin       # autotune/corrections.json, from other shapes than the sweeps
"""

import argparse
import pathlib
import random
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Operator, machine, shape, further options of spaces that are small enough to be recorded whole.
SWEEPS = [
    ("gemm", "ax01", "33x33x33", "--b-layout", "kn"), ("gemm", "ax01", "64x64x64", "--b-layout", "kn"), ("gemm", "ax01", "13x32x96"),
    ("gemm", "ax01", "8x96x640"), ("gemm", "ax01", "31x256x256", "--bias"), ("gemm", "ax01", "80x100x160"), ("gemm", "ax01", "48x256x256"),
    ("gemm", "ax01-psum", "20x192x192"), ("gemm", "ax01-psum", "33x40x72", "--b-layout", "kn"), ("gemm", "ax01-psum", "4x512x512"),
    ("gemm", "ax01-psum", "7x96x320"), ("gemm", "fsim", "8x32x64"),
    ("relu", "ax01", "65536"), ("add", "ax01-psum", "256x256,256x256"), ("softmax", "ax01", "128x256"), ("softmax", "fsim", "16x33"),
    ("layer_norm", "ax01", "64x256"), ("scaled_dot_product_attention", "ax01", "1x1x64x64,1x1x64x64,1x1x64x64"),
]
# The same of larger ones, of which a random sample is recorded.
SAMPLES = [
    ("gemm", "ax01", "64x64x64"), ("gemm", "ax01", "128x128x128"), ("gemm", "ax01", "256x256x256"), ("gemm", "ax01", "100x70x50"),
    ("gemm", "ax01-psum", "128x128x128"), ("gemm", "ax01-psum", "256x256x256"),
    ("conv2d", "ax01", "1x32x14x14,32x32x3x3", "--padding", "1", "--weight-layout", "packed"),
]
SAMPLE = 120
MOST_PRODUCTS, LEAST_PRODUCTS, MOST_PRODUCTS_ON_FSIM = 2**24.5, 2000, 2**20


def run(*command):
    subprocess.run([str(word) for word in command], check=True)


def record_sweeps(options):
    whole = [(sweep, "sweep", ["--strategy", "exhaustive"]) for sweep in SWEEPS]
    sampled = [(sweep, "sample", ["--strategy", "random", "--trials", SAMPLE]) for sweep in SAMPLES]
    for number, ((op, machine, shape, *flags), kind, how) in enumerate(whole + sampled, 1):
        name = "-".join([op, machine, shape.split(",")[0], *(flag.removeprefix("--") for flag in flags if flag != "--b-layout"), kind])
        print(f"{number}/{len(whole + sampled)} {name}", flush=True)
        run(options.bin / "atalla-tune", "--op", op, "--machine", machine, "--shape", shape, *flags, *how, "--quiet",
            "--db", options.db, "--sweep", options.output / f"{name}.json.gz")


def random_size(draw):
    """Sizes up to 512, their logarithm uniform; half of them whole tiles."""
    size, kind = 2 ** draw.uniform(0 if draw.random() < 0.05 else 4, 9), draw.random()
    if kind < 0.5:
        return max(32, round(size / 32) * 32)
    return max(8, round(size / 8) * 8) if kind < 0.7 else max(1, int(size))


def random_products(count, seed):
    """Options of matrix products that are none of the sweeps."""
    draw, taken = random.Random(seed), {sweep[2] for sweep in SWEEPS + SAMPLES}
    while count > 0:
        m, n, k = (random_size(draw) for _ in range(3))
        machine = draw.choices(["ax01", "ax01-psum", "fsim"], [10, 7, 2])[0]
        most = MOST_PRODUCTS_ON_FSIM if machine == "fsim" else MOST_PRODUCTS
        if not LEAST_PRODUCTS <= m * n * k <= most or f"{m}x{n}x{k}" in taken:
            continue
        flags = [flag for flag, share in (("--bias", 0.3), ("--relu", 0.25), ("--addend", 0.08)) if draw.random() < share]
        if draw.random() < 0.12:
            flags += ["--b-layout", "kn"]
        count -= 1
        yield ["--machine", machine, "--shape", f"{m}x{n}x{k}", *flags]


def train_corrections(options):
    for number, product in enumerate(random_products(options.shapes, options.seed), 1):
        print(f"{number}/{options.shapes}", *product, flush=True)
        # Random points say where the draft is wrong, those of a search how the good ones differ.
        for strategy in ("random", "model"):
            run(options.bin / "atalla-tune", *product, "--strategy", strategy, "--trials", options.trials, "--quiet", "--db", options.db)
    run(options.bin / "atalla-learn", "--op", "gemm", "--db", options.db, "-o", ROOT / "autotune/corrections.json")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sweeps", "corrections"])
    parser.add_argument("bin", type=pathlib.Path, help="folder of the programs, such as build/release/bin")
    parser.add_argument("--db", type=pathlib.Path, default=ROOT / "build/record.db", help="database of the trials (default: %(default)s)")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "bench/sweeps", help="folder of the sweeps (default: %(default)s)")
    parser.add_argument("--shapes", type=int, default=80, help="products to learn from (default: %(default)s)")
    parser.add_argument("--trials", type=int, default=16, help="random schedules of each, and as many of a search (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    try:
        record_sweeps(options) if options.what == "sweeps" else train_corrections(options)
    except subprocess.CalledProcessError as error:
        sys.exit(f"record.py: {error.cmd[0]} ended with status {error.returncode}")


if __name__ == "__main__":
    main()
