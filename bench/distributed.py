#!/usr/bin/env python3
"""What a second worker is worth: tunes a list with one worker and with two, each on an empty database, and prints how many times
as fast two are. To be run on an idle machine with at least two cores.

    build/env/bin/python bench/distributed.py
    build/env/bin/python bench/distributed.py --shapes examples/shapes/gpt2.json --repetitions 3

The time of a run is that of `python -m atalla.distributed tune --json`, with the start of the cluster; the results of both must be
the same to the byte.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def tune(options, workers, database):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "ATALLA_HOME": str(options.home.resolve())}
    done = subprocess.run([sys.executable, "-m", "atalla.distributed", "tune", "--shapes", options.shapes, "--workers", str(workers), "--machine",
                           options.machine, "--db", database, "--json", "--budget", str(options.budget)], env=environment, stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"distributed.py: {workers} workers ended with status {done.returncode}")
    results = subprocess.run([options.home / "bin/atalla-db", "--db", database, "export", "--results"], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(done.stdout)["seconds"], results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=pathlib.Path, default=ROOT / "build/release", help="build or installed prefix (default: %(default)s)")
    parser.add_argument("--shapes", type=pathlib.Path, default=ROOT / "examples/shapes/bert-base.json", help="what to tune (default: %(default)s)")
    parser.add_argument("--machine", default="ax01")
    parser.add_argument("--budget", type=int, default=32, help="trials a workload (default: %(default)s)")
    parser.add_argument("--repetitions", type=int, default=1)
    options = parser.parse_args()
    seconds = {1: [], 2: []}
    for _ in range(options.repetitions):
        found = {}
        with tempfile.TemporaryDirectory() as folder:
            for workers, times in seconds.items():
                time, found[workers] = tune(options, workers, pathlib.Path(folder) / f"{workers}.db")
                times.append(time)
                print(f"{workers} worker{'s' if workers > 1 else ''}: {time:.1f} s", file=sys.stderr, flush=True)
        if found[1] != found[2]:
            sys.exit("distributed.py: one worker and two gave different results")
    one, two = (statistics.median(times) for times in seconds.values())
    print(json.dumps({"one_worker_seconds": one, "two_workers_seconds": two, "gain": one / two, "repetitions": options.repetitions}))


if __name__ == "__main__":
    main()
