#!/usr/bin/env python3
"""Simulated cycles of the kernels of bench/kernels.txt with two compilers, side by side: what a change of the code generator, of a
schedule space or of the draft makes faster and slower. Each side is a folder of programs, or a file that --save wrote. Every kernel is tuned
from an empty database with a few trials and verified; cycles repeat exactly, so any difference is one of the compilers.

    bench/compilers.py build/release/bin --save before.json        # measure, some minutes on two idle cores
    bench/compilers.py before.json build/release/bin               # what changed since
    bench/compilers.py before.json build/release/bin --only conv2d --trials 2

Programs that were copied elsewhere find Halide through LD_LIBRARY_PATH. Exit status: 0, or 3 if a kernel is slower or failed on the second side.
"""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import sys
import time

import tuning

ROOT = pathlib.Path(__file__).resolve().parent.parent


def read_kernels(path, only):
    """Arguments of atalla-tune, a kernel a line; empty lines and those that begin with # say nothing."""
    lines = [line.strip() for line in path.read_text().splitlines()]
    return [line for line in lines if line and not line.startswith("#") and only in line]


def cycles(programs, kernel, trials):
    """Of the winner, or what went wrong. Kernels that are measured at the same time have a thread each."""
    try:
        return tuning.tune(programs, f"{kernel} --trials {trials}", {**os.environ, "OMP_NUM_THREADS": "1"})["cycles"]
    except tuning.NotTuned as failure:
        return failure.reason


def measure(programs, kernels, trials, jobs):
    results, begin = {}, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(cycles, programs, kernel, trials): kernel for kernel in kernels}
        for done in concurrent.futures.as_completed(waiting):
            results[waiting[done]] = done.result()
            if sys.stderr.isatty():
                left = (time.monotonic() - begin) * (len(kernels) / len(results) - 1)
                print(f"\r{programs}: {len(results)} of {len(kernels)} kernels, {left:.0f} s left ", end="", file=sys.stderr, flush=True)
    print(f"{programs}: {len(results)} kernels in {time.monotonic() - begin:.0f} s", file=sys.stderr)
    return results


def side(source, kernels, options):
    if source.is_dir():
        return measure(source.resolve(), kernels, options.trials, options.jobs)
    saved = json.loads(source.read_text())
    if saved["trials"] != options.trials:
        sys.exit(f"compilers.py: {source} was measured with {saved['trials']} trials, not {options.trials}; give --trials {saved['trials']}")
    return saved["kernels"]


def compare(kernels, before, after):
    """Whether no kernel is slower or failed; prints those that differ, the slowest first."""
    rows, failed, same = [], [], 0
    for kernel in kernels:
        old, new = before.get(kernel), after.get(kernel)
        if isinstance(old, int) and isinstance(new, int):
            rows.append((new / old, old, new, kernel))
            same += old == new
        elif old != new and new is not None:
            failed.append((kernel, old, new))
    for ratio, old, new, kernel in sorted(rows, reverse=True):
        if old != new:
            print(f"{100 * (ratio - 1):+7.2f} %  {old:>11,}  {new:>11,}  {kernel}")
    for kernel, old, new in failed:
        print(f"{kernel}: {new} (before: {old})")
    if rows:
        mean = math.exp(sum(math.log(row[0]) for row in rows) / len(rows))
        print(f"{len(rows)} kernels, {same} of them equal; geometric mean {100 * (mean - 1):+.2f} %")
    return not any(new > old for _, old, new, _ in rows) and not any(isinstance(old, int) for _, old, _ in failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sides", nargs="+", type=pathlib.Path, metavar="SIDE", help="one side to measure, or two to compare")
    parser.add_argument("--kernels", type=pathlib.Path, default=ROOT / "bench/kernels.txt", help="list of kernels (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="kernels whose line has this in it")
    parser.add_argument("--trials", type=int, default=8, help="schedules simulated for each kernel (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="kernels at a time (default: %(default)s)")
    parser.add_argument("--save", type=pathlib.Path, help="file for the cycles of the last side")
    options = parser.parse_args()
    if len(options.sides) > 2:
        parser.error("one side or two")
    for source in options.sides:
        if not source.exists():
            parser.error(f"{source} is neither a folder of programs nor a file that --save wrote")
    kernels = read_kernels(options.kernels, options.only)
    if not kernels:
        parser.error(f"no line of {options.kernels} has '{options.only}' in it")
    results = [side(source, kernels, options) for source in options.sides]
    if options.save:
        options.save.write_text(json.dumps({"trials": options.trials, "kernels": results[-1]}, indent=1) + "\n")
    if len(results) == 2:
        sys.exit(0 if compare(kernels, *results) else 3)


if __name__ == "__main__":
    main()
