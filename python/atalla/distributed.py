"""Tunes many workloads on a Dask cluster: a local one, or any scheduler's.

    python -m atalla.distributed tune --shapes examples/shapes/bert-base.json --workers 2
    python -m atalla.distributed tune --model model.pt2 --scheduler tcp://host:8786 --db team.db

Each workload is a task. A worker tunes it in a database of its own, which starts with what the target database knows, and hands
back the rows, which are merged as they arrive. Merging is idempotent and does not depend on the order, so a worker that dies, a
task that runs twice and a restart of the whole change nothing in the results: `atalla db export --results` is the same.
"""

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from . import _places
from ._errors import AtallaError

# Deaths of workers that a task survives: it is not the task's fault.
ALLOWED_FAILURES = 1000


def _run(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, **options)
    if done.returncode != 0:
        raise AtallaError(done.stderr.decode(errors="replace").strip() or f"{command[0]} ended with status {done.returncode}")
    return done.stdout


def list_workloads(selection):
    """What the options of `atalla tune` select, in the order in which a cluster begins them.

    Each has a budget of its own and takes the longer to tune the more cycles are simulated. The longest go first, however often a
    model runs them, so that no worker ends alone with one of them.
    """
    lines = _run([_places.program("atalla-tune"), "--dry-run", "--json", *selection]).splitlines()
    return sorted((json.loads(line) for line in lines), key=lambda work: -work["bound_cycles"])


def tune_one(work, machine, extra, known):
    """Runs on a worker: tunes one workload and returns the exported rows. `known` are rows to begin with."""
    key = hashlib.sha256(json.dumps([work["op"], work["workload"], machine, extra]).encode()).hexdigest()[:16]
    folder = pathlib.Path(os.environ.get("ATALLA_WORKER_DIR", tempfile.gettempdir())) / f"atalla-{os.getuid()}-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    database = folder / f"{key}.db"
    try:
        if known:
            _run([_places.program("atalla-db"), "--db", database, "merge", "-"], input=known)
        _run([_places.program("atalla-tune"), "--op", work["op"], "--workload", work["workload"], "--machine", machine, "--db", database,
              "--quiet", "--json", *extra], env={**os.environ, "OMP_NUM_THREADS": "1"})
        return _run([_places.program("atalla-db"), "--db", database, "export"])
    finally:
        for file in folder.glob(f"{key}.db*"):
            file.unlink(missing_ok=True)


def _client(scheduler, workers):
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise AtallaError("tuning on a cluster needs the package 'distributed': ./atalla build installs it") from error
    # A worker holds one task at a time, so that the last ones are spread.
    dask.config.set({"distributed.scheduler.allowed-failures": ALLOWED_FAILURES, "distributed.worker.daemon": False,
                     "distributed.scheduler.worker-saturation": 1.0})
    if scheduler:
        try:
            return Client(scheduler, timeout=10), None
        except OSError as error:
            raise AtallaError(f"there is no Dask scheduler at {scheduler}: {error}") from error
    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    return Client(cluster), cluster


def tune(workloads, database, machine="ax01", extra=(), scheduler=None, workers=None, progress=None):
    """Tunes the workloads and merges the results into `database`. Returns the number tuned and a list of problems.

    `progress` is called with (done, total, work, problem or None) after each.
    """
    from distributed import as_completed
    db = _places.program("atalla-db")
    database = pathlib.Path(database)
    client, cluster = _client(scheduler, workers or len(os.sched_getaffinity(0)))
    problems = []
    try:
        futures = {}
        for rank, work in enumerate(workloads):
            known = b""
            if database.exists():
                known = _run([db, "--db", database, "export", "--op", work["op"], "--workload", work["workload"]])
            future = client.submit(tune_one, work, machine, list(extra), known, pure=False, retries=ALLOWED_FAILURES if not scheduler else 3,
                                   priority=len(workloads) - rank)
            futures[future] = work
        for done, future in enumerate(as_completed(futures), 1):
            work, problem = futures[future], None
            error = future.exception()
            if error is None:
                _run([db, "--db", database, "merge", "-"], input=future.result())
            else:
                problem = f"{work['op']} {work['workload']}: {error}"
                problems.append(problem)
            if progress:
                progress(done, len(workloads), work, problem)
            future.release()
    finally:
        client.close()
        if cluster:
            cluster.close()
    return len(workloads) - len(problems), problems


def _report(start):
    def report(done, total, work, problem):
        left = (time.monotonic() - start) / done * (total - done)
        text = f"{done}/{total} {work['name']}{': failed' if problem else ''}, {left:.0f} s left"
        print(text, file=sys.stderr, flush=True)
    return report


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m atalla.distributed", description="Tunes many workloads on a Dask cluster.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser(
        "tune", help="tune workloads, a local cluster by default",
        epilog="Example: python -m atalla.distributed tune --shapes examples/shapes/bert-base.json --workers 2. "
               "Options that are not listed here, such as --budget 64, go to atalla-tune.")
    command.add_argument("--scheduler", help="address of a Dask scheduler, such as tcp://host:8786 (default: a local cluster)")
    command.add_argument("--workers", type=int, help="processes of the local cluster (default: one a core)")
    command.add_argument("--db", help="database that takes the results (default: as atalla-tune)")
    command.add_argument("--machine", default="ax01")
    command.add_argument("--json", action="store_true", help="print the outcome as JSON")
    for option in ("--shapes", "--model", "--op", "--shape"):
        command.add_argument(option, help=f"as {option} of atalla-tune")
    command.add_argument("--all-ops", action="store_true", help="as --all-ops of atalla-tune")
    options, extra = parser.parse_known_args(arguments)
    try:
        if options.workers is not None and options.workers < 1:
            raise AtallaError("--workers must be at least 1")
        selection = ["--machine", options.machine]
        for name in ("shapes", "model", "op", "shape"):
            if value := getattr(options, name):
                selection += [f"--{name}", value]
        if options.all_ops:
            selection.append("--all-ops")
        database = options.db or os.environ.get("ATALLA_DB") or (
            pathlib.Path(os.environ.get("XDG_DATA_HOME", pathlib.Path.home() / ".local/share")) / "atalla-tune" / "atalla.db")
        workloads = list_workloads(selection)
        start = time.monotonic()
        tuned, problems = tune(workloads, database, options.machine, extra, options.scheduler, options.workers, _report(start))
        seconds = time.monotonic() - start
    except AtallaError as error:
        print(f"atalla.distributed: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({"tuned": tuned, "problems": problems, "seconds": seconds, "db": str(database)}))
    else:
        print(f"{tuned} of {len(workloads)} workloads tuned in {seconds:.1f} s, results in {database}")
    for problem in problems:
        print(f"atalla.distributed: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
