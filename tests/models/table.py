"""Compiles the models of zoo.py, compares them with PyTorch, and writes the tables of docs/models.md.

    build/env/bin/python tests/models/table.py [--seeds 5] [--machine ax01] [--jobs 2] [MODEL...]

Rows of models that are not named stay as they are. A run that was stopped goes on from the seed that it was at: what a compiler
gave is kept in build/models-table.json until another compiler is built. Schedules are chosen for the first seed; the others differ in
the weights alone and take them from the compiler's cache.
"""

import argparse
import concurrent.futures
import copy
import fcntl
import hashlib
import json
import multiprocessing
import pathlib
import re
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("python", "docs", "tests/models")]
warnings.filterwarnings("ignore")

import atalla  # noqa: E402
import page  # noqa: E402
import torch  # noqa: E402
import zoo  # noqa: E402

TABLE = """| model | seeds | cosine | PyTorch bf16 | error | PyTorch bf16 | accelerator | host | segments | packets | cycles | of bounds | DRAM | apart | same bits |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def leaves(result):
    return [leaf.float() for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def compare(results, expected):
    cosine = min(torch.nn.functional.cosine_similarity(a.double().flatten(), b.double().flatten(), dim=0, eps=1e-100).item() for a, b in zip(results, expected))
    error = max(((a - b).abs().max() / b.abs().max()).item() for a, b in zip(results, expected))
    return cosine, error


def in_bf16(model):
    def cast(value):
        return value.bfloat16() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
    args, kwargs = torch.utils._pytree.tree_map(cast, (model.args, model.kwargs))
    with torch.no_grad():
        return leaves(copy.deepcopy(model.module).bfloat16()(*args, **kwargs))


def least_bytes(report):
    """Of the device: weights and what crosses to and from the host, in bf16."""
    one = report["specializations"][0]
    return one["memory_bytes"] - one["arena_bytes"]


class Kept:
    """What this compiler gave for a model, seed by seed, in a file that several processes may use."""

    def __init__(self, file, compiler):
        self.file, self.compiler = file, compiler

    def _read(self):
        content = json.loads(self.file.read_text()) if self.file.exists() else {}
        return content["results"] if content.get("compiler") == self.compiler else {}

    def get(self, key, measure):
        results = self._read()
        if key in results:
            return results[key]
        result = measure()
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with open(self.file.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            partial = self.file.with_suffix(".partial")
            partial.write_text(json.dumps({"compiler": self.compiler, "results": {**self._read(), key: result}}, indent=1))
            partial.replace(self.file)
        return result


def program_digest():
    return hashlib.sha256(pathlib.Path(atalla._places.program("atalla-compile")).read_bytes()).hexdigest()[:16]


def exactness(model, results):
    """Cosine and error of results, and of PyTorch in bf16."""
    expected = [leaf.float() for leaf in model.run()]
    return [*compare(results, expected), *compare(in_bf16(model), expected)]


def of_seed(name, seed, machine):
    model = zoo.make(name, seed)
    return exactness(model, leaves(atalla.compile(model.export(), machine=machine)(*model.args, **model.kwargs)))


def of_first_seed(name, machine):
    """What is the same for every seed, and its exactness."""
    model = zoo.make(name, 0)
    exported = model.export()
    compiled, one_by_one, apart = (atalla.compile(exported, machine=machine, one_by_one=alone, fuse=fuse)
                                   for alone, fuse in ((False, True), (True, True), (True, False)))
    results, alone, _ = (leaves(one(*model.args, **model.kwargs)) for one in (compiled, one_by_one, apart))
    profile, report = compiled.profile(), compiled.report()
    dram = profile["counters"].get("dram_beats", 0) * 32
    return {
        "exactness": exactness(model, results), "same": all(torch.equal(a, b) for a, b in zip(results, alone)),
        **{side: sum(o["calls"] for o in report["operators"] if o["on"] == side) for side in ("accelerator", "host")},
        "bound": sum(call["bound_cycles"] for call in report["specializations"][0].get("calls", [])),
        "dram": dram, "dram_share": dram / least_bytes(report), "apart": apart.profile()["cycles"],
        **{key: profile[key] for key in ("device_calls", "packets", "cycles")}}


def row(name, seeds, machine, kept):
    first = kept.get(f"{machine} {name}", lambda: of_first_seed(name, machine))
    exact = [first["exactness"]] + [kept.get(f"{machine} {name} {seed}", lambda: of_seed(name, seed, machine)) for seed in range(1, seeds)]
    cosine, error, torch_cosine, torch_error = (worst(column) for worst, column in zip((min, max, min, max), zip(*exact)))
    cycles, apart = first["cycles"], first["apart"]
    share = f"{100 * first['bound'] / cycles:.0f} %" if cycles else ""
    fewer = f"{apart:,}, {100 * (1 - cycles / apart):.1f} %" if apart else ""
    return (f"| {name} | {seeds} | {cosine:.6f} | {torch_cosine:.6f} | {error:.4f} | {torch_error:.4f} | {first['accelerator']} | {first['host']} | "
            f"{first['device_calls']} | {first['packets']:,} | {cycles:,} | {share} | {first['dram'] / 1e6:.1f}, {first['dram_share']:.1f} | {fewer} | {'yes' if first['same'] else 'NO'} |")


def read_rows(table):
    """The lines of a table by their models."""
    return {found[1]: found[0] for found in re.finditer(r"^\| (\w+) \| \d+ \|.*$", table, re.M)}


def table_text(rows):
    return TABLE + "\n".join(rows[name] for name in zoo.MODELS if name in rows)


def timed_row(name, seeds, machine, kept, threads):
    torch.set_num_threads(threads)
    start = time.time()
    return row(name, seeds, machine, kept), time.time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", choices=[[], *zoo.MODELS], help="names of zoo.py (default: all)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--machine", default="ax01")
    parser.add_argument("--jobs", type=int, default=1, help="models at the same time")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs" / "models.md")
    options = parser.parse_args()
    kept = Kept(ROOT / "build" / "models-table.json", program_digest())
    part = f"tests/models/table.py {options.machine}"
    rows = read_rows(page.read(options.output, part))
    # The largest first, so that none is alone at the end.
    names = sorted(options.models or zoo.MODELS, key=zoo.LARGEST.index)
    threads = max(1, multiprocessing.cpu_count() // options.jobs)
    # Processes of their own: PyTorch's threads do not survive a fork.
    with concurrent.futures.ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(timed_row, name, options.seeds, options.machine, kept, threads): name for name in names}
        for done in concurrent.futures.as_completed(running):
            rows[running[done]], seconds = done.result()
            print(f"{rows[running[done]]}  {seconds:.0f} s", flush=True)
            page.write(options.output, part, table_text(rows))


if __name__ == "__main__":
    main()
