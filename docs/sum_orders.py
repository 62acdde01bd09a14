#!/usr/bin/env python3
"""Writes the table of docs/numerics.md that compares the orders of a product's additions: cycles of the tuned kernels on ax01, and the
root mean square of the error of a 128x128 result against float64, for terms of either sign and for positive ones. Run:

    build/env/bin/python docs/sum_orders.py build/release/bin
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy

import page

SIZE = 128


def bf16(values):
    """Rounded to nearest even, as float32."""
    bits = values.astype(numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(numpy.uint32).view(numpy.float32)


def run(folder, run_tool, a, b, order):
    numpy.save(folder / "a.npy", a)
    numpy.save(folder / "b.npy", b)
    command = [run_tool, "--op", "gemm", "--a", folder / "a.npy", "--b", folder / "b.npy", "--sums", order, "-o", folder / "c.npy", "--db", folder / "x.db", "--json"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    exact = a.astype(numpy.float64) @ b.astype(numpy.float64).T
    error = numpy.sqrt(numpy.mean((numpy.load(folder / "c.npy") - exact) ** 2) / numpy.mean(exact**2))
    return json.loads(answer)["cycles"], error


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    run_tool = pathlib.Path(sys.argv[1]) / "atalla-run"
    rows = ["| k | order | cycles | error, either sign | error, positive |", "|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as name:
        for k in (512, 1024, 2048, 4096):
            random = numpy.random.default_rng(k)
            a, b = (bf16(random.standard_normal((SIZE, k))) for _ in range(2))
            for order in ("ascending", "blocked"):
                cycles, error = run(pathlib.Path(name), run_tool, a, b, order)
                _, positive = run(pathlib.Path(name), run_tool, numpy.abs(a), numpy.abs(b), order)
                rows.append(f"| {k:,} | {order} | {cycles:,} | {100 * error:.2f} % | {100 * positive:.2f} % |")
                print(rows[-1], file=sys.stderr)
    page.write(page.DOCS / "numerics.md", "docs/sum_orders.py", "\n".join(rows))


if __name__ == "__main__":
    main()
