#!/usr/bin/env python3
"""How long a kernel library of 500 shapes takes to build from a warm database. Tunes the shapes first where they are not in it, with
one trial each, which takes minutes; then builds the library twice and prints the faster time and whether both have equal bytes.

    bench/library.py                                     # programs of build/release/bin, database build/library.db
    bench/library.py --bin build/release/bin --shapes 50
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = [1, 2, 4, 8, 16, 24, 32, 48, 64, 77, 96, 100, 128, 160, 192, 197, 256]
COLUMNS = [32, 48, 64, 96, 100, 128, 160, 192, 256, 320, 384]
SUMMED = [32, 64, 80, 96, 128, 192, 256]
MOST_PRODUCTS = 2**21.5


def products(count):
    """Distinct products of sizes as models have them, the same ones each time."""
    every = [(m, n, k) for m in ROWS for n in COLUMNS for k in SUMMED if m * n * k <= MOST_PRODUCTS]
    random.Random(5).shuffle(every)
    return [{"name": f"{m}x{n}x{k}", "m": m, "n": n, "k": k, "b": "nk"} for m, n, k in every[:count]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="folder of the programs (default: %(default)s)")
    parser.add_argument("--db", type=pathlib.Path, default=ROOT / "build/library.db", help="database of the winners (default: %(default)s)")
    parser.add_argument("--shapes", type=int, default=500, help="kernels of the library (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shapes = pathlib.Path(folder) / "shapes.json"
        gemms = products(options.shapes)
        shapes.write_text(json.dumps({"model": "products", "source": "sizes as models have them, drawn at random", "gemms": gemms}))
        tuned = subprocess.run([options.bin / "atalla-tune", "--shapes", shapes, "--budget", str(len(gemms)), "--quiet", "--db", options.db], stdout=sys.stderr)
        if tuned.returncode != 0:
            sys.exit("library.py: the shapes could not be tuned")
        seconds, files = [], []
        for number in range(2):
            files.append(pathlib.Path(folder) / f"{number}" / "products.atlib")
            files[-1].parent.mkdir()
            start = time.monotonic()
            built = subprocess.run([options.bin / "atalla-library", "build", "--shapes", shapes, "--db", options.db, "-o", files[-1]], stdout=sys.stderr)
            seconds.append(time.monotonic() - start)
            if built.returncode != 0:
                sys.exit("library.py: the library could not be built")
        print(json.dumps({"kernels": len(gemms), "seconds": min(seconds), "bytes": files[0].stat().st_size,
                          "same_bytes": files[0].read_bytes() == files[1].read_bytes()}))


if __name__ == "__main__":
    main()
