"""Recorded sweeps are caches of Kernel Tuner: its own reader takes them, and its strategies replay them."""

import gzip
import json
import pathlib
import shutil
import warnings

import pytest

kernel_tuner = pytest.importorskip("kernel_tuner")

SWEEPS = pathlib.Path(__file__).resolve().parents[2] / "bench/sweeps"


@pytest.fixture(params=["gemm-ax01-psum-4x512x512-sweep", "gemm-ax01-33x33x33-kn-sweep"])
def cache(request, tmp_path):
    file = tmp_path / "cache.json"
    with gzip.open(SWEEPS / f"{request.param}.json.gz") as packed, open(file, "wb") as plain:
        shutil.copyfileobj(packed, plain)
    return file


def replay(cache, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")   # no parameter is a number of GPU threads
        results, _ = kernel_tuner.tune_cache(cache, quiet=True, **how)
    return [result["time"] for result in results if isinstance(result["time"], (int, float))]


def test_its_reader_has_every_configuration(cache):
    rows = json.loads(cache.read_text())["cache"]
    read = kernel_tuner.util.read_cache(cache, open_cache=False)["cache"]
    assert read.keys() == rows.keys()
    assert {key for key, row in read.items() if "__error__" in row} == {key for key, row in rows.items() if row["status"] != "ok"}


def test_its_strategies_find_our_optimum(cache):
    times = [row["time"] for row in json.loads(cache.read_text())["cache"].values() if row["status"] == "ok"]
    assert sorted(replay(cache, strategy="brute_force")) == sorted(times)
    drawn = replay(cache, strategy="random_sample", strategy_options={"max_fevals": 20})
    assert 1 <= len(drawn) <= 20 and set(drawn) <= set(times)
