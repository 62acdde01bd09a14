"""Tuning on a Dask cluster: the results are those of one process, whatever happens to the workers."""

import json
import os
import signal
import subprocess

import pytest

pytest.importorskip("distributed")

from atalla import _places, distributed  # noqa: E402

SHAPES = [{"name": f"s{n}", "m": 32, "n": n, "k": 32, "b": "nk"} for n in (16, 32, 48, 64)]
EXTRA = ["--budget", "6"]


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    file = tmp_path_factory.mktemp("shapes") / "shapes.json"
    file.write_text(json.dumps({"model": "m", "source": "s", "gemms": SHAPES}))
    return file


@pytest.fixture(scope="module")
def expected(shapes, tmp_path_factory):
    database = tmp_path_factory.mktemp("alone") / "alone.db"
    for work in distributed.list_workloads(["--shapes", str(shapes)]):
        subprocess.run([_places.program("atalla-tune"), "--op", work["op"], "--workload", work["workload"], "--db", database, "--quiet", *EXTRA],
                       check=True, capture_output=True)
    return results(database)


def results(database):
    return subprocess.run([_places.program("atalla-db"), "--db", database, "export", "--results"], check=True, capture_output=True).stdout


def children(process):
    return [int(child) for child in subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True).stdout.split()]


def test_lists_the_most_expensive_first(shapes):
    works = distributed.list_workloads(["--shapes", str(shapes)])
    assert len(works) == len(SHAPES)
    costs = [work["count"] * work["bound_cycles"] for work in works]
    assert costs == sorted(costs, reverse=True)


def test_results_are_those_of_one_process_even_if_workers_die(shapes, expected, tmp_path):
    database = tmp_path / "cluster.db"
    killed = []

    def kill_a_worker(done, total, work, problem):
        assert problem is None
        if not killed:
            # A worker is the one that has the tuner for a child, or waits for its next task.
            workers = [child for child in children(os.getpid()) if b"spawn_main" in open(f"/proc/{child}/cmdline", "rb").read()]
            killed.append(workers[0])
            os.kill(workers[0], signal.SIGKILL)

    works = distributed.list_workloads(["--shapes", str(shapes)])
    tuned, problems = distributed.tune(works, database, extra=EXTRA, workers=2, progress=kill_a_worker)
    assert (tuned, problems) == (len(SHAPES), [])
    assert killed
    assert results(database) == expected


def test_a_second_call_changes_nothing(shapes, expected, tmp_path, capsys):
    database = tmp_path / "again.db"
    for _ in range(2):
        assert distributed.main(["tune", "--shapes", str(shapes), "--db", str(database), "--workers", "1", "--json", *EXTRA]) == 0
        assert json.loads(capsys.readouterr().out)["tuned"] == len(SHAPES)
    assert results(database) == expected


def test_says_what_is_wrong(shapes, tmp_path, capsys):
    assert distributed.main(["tune", "--shapes", "/nowhere.json", "--db", str(tmp_path / "x.db")]) == 1
    assert "nowhere.json" in capsys.readouterr().err
    assert distributed.main(["tune", "--shapes", str(shapes), "--scheduler", "tcp://127.0.0.1:1", "--db", str(tmp_path / "x.db")]) == 1
    assert "no Dask scheduler at tcp://127.0.0.1:1" in capsys.readouterr().err
    assert distributed.main(["tune", "--shapes", str(shapes), "--workers", "0"]) == 1
