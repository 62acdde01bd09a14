"""Compiles the models of zoo.py, compares them with PyTorch, and writes docs/models.md.

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
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "models")]
warnings.filterwarnings("ignore")

import atalla  # noqa: E402
import torch  # noqa: E402
import zoo  # noqa: E402

HEAD = """# Models

Written by `tests/models/table.py`: each model with random weights, exported with `run_decompositions({})`, compiled with the database's
winners (where there is none, with the fastest of eight schedules that the draft likes best), and run on the simulator of a machine.

* *cosine*: the least over all outputs and seeds, against PyTorch in float32; *error* is the largest difference, relative to the largest
  output; both also for PyTorch's own bf16 run.
* ResNet-18 and MobileNetV2 have batch norms as they are made (mean 0, variance 1), the `_statistics` ones those of batches of noise:
  a random network then amplifies every rounding error, and bf16, PyTorch's among it, does not give a cosine of 0.9995.
* *accelerator*, *host*: calls of operators; *segments*: entries of the one program between which the host works.
* *of bounds*: the sum of the lower bounds of the kernels' calls, as a share of the cycles.
* *DRAM*: what the transfers moved, in MB, and how often the bytes of inputs, outputs and weights, each once, go into it.
* *apart*: cycles of the same model with a kernel for every operator, each run from its own start to its end, and how many fewer the
  fused program takes; *same bits*: whether the fused program gives, bit for bit, what its kernels give one by one.
* A machine without timing, `fsim`, counts packets alone.
* What the next kernel's first transfers could hide is at most what is waited for transfers, first and later ones: 11 % of the cycles of `mlp`, 16 % of
  `decode_step`, 10 % of `vit_micro`, 16 % of `llama_2`, 2 % of `bert_2`. Instruction misses take 40, 39, 33, 21 and 3 %: small kernels run their code once.
* A kernel begins while the results of the one before leave. That hides little where its code comes from memory: fetches stand behind all beats of those
  transfers. Weights loaded in front of that wait, in straight code, gained nothing. Neighbouring kernels as one routine, the next one's first weights
  started in front of the longest loop of the one before, were built and measured: of 13 pairs and triples of `vit_micro`'s kernels two took fewer cycles
  (a linear layer and attention 9,626 instead of 9,952), the others 0.3 to 22 % more (a norm and a linear layer 6,661 instead of 6,099, two linear layers that
  share their code 5,501 instead of 4,490), since all parts' constants are made at the start and loads wait for loads; that is not kept. Activations pass through DRAM, but for the rows between
  two products of one kernel, which stay in the pads: on `ax01` the two layers of `vit_micro`'s MLP take 24,734 cycles instead of 32,457, with the addition
  behind them 25,482 instead of 34,414, the last two of `mlp` 9,620 instead of 10,234. Those of `bert_2` would take 2,911,494 instead of 2,477,352.
* `resnet18_224` on `ax01`: images have channels innermost behind the pooling, which turns them once. The first convolution takes 658,916 cycles, the pooling 223,633, turning 54,117, the 19 other convolutions,
  most with the relu behind them, 6,137,677, and the eight sums with theirs 235,838, of which the adder alone needs 141,120: as operands of convolutions they could save 1.3 %. Convolutions of one element in steps of two gain nothing as products (784x64x128 with a bias 64,238 cycles without the steps, the convolution 61,497).
* `mobilenetv2` on `ax01`: convolutions of each channel with channels innermost take 622,753 cycles, six times their bounds, which leave products and sums of lanes out; the adder and the multiplier are busy for 60 to 68 % of
  them. Smaller tiles hide more transfers in two of four of these kernels (1x12x12x192 44,132 cycles instead of 47,463, 1x48x48x96 93,233 instead of 97,469) and gain nothing in the others.
* `bert_2` on `ax01`: the four large linear layers take 3,867,447 cycles, the eight others 1,941,886, gelu 1,142,205, the two attentions 497,710 and the
  five norms, with the additions before them, 341,708. 15 % fewer cycles than apart would be 6,792,826, and the adder alone works for 6,719,103 of them: it would
  have to stand still for 1 % of the time. Fusion takes no work from it, since sums over k, gelu's 13 additions and comparisons a vector and those of norms and
  scores are the same in one kernel or in several; kernels apart keep it busy for 84 % of their cycles.
"""

TABLE = """
## {machine}

| model | seeds | cosine | PyTorch bf16 | error | PyTorch bf16 | accelerator | host | segments | packets | cycles | of bounds | DRAM | apart | same bits |
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


def read_tables(file):
    """The rows of each machine's table, by model."""
    sections = re.split(r"^## (\S+)$", file.read_text() if file.exists() else "", flags=re.M)[1:]
    return {machine: {m[1]: m[0] for m in re.finditer(r"^\| (\w+) \| \d+ \|.*$", table, re.M)} for machine, table in zip(sections[::2], sections[1::2])}


def table_text(machine, rows):
    return TABLE.format(machine=machine) + "\n".join(rows[name] for name in zoo.MODELS if name in rows) + "\n"


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
    tables = read_tables(options.output)
    rows = tables.setdefault(options.machine, {})
    # The largest first, so that none is alone at the end.
    names = sorted(options.models or zoo.MODELS, key=zoo.LARGEST.index)
    threads = max(1, multiprocessing.cpu_count() // options.jobs)
    # Processes of their own: PyTorch's threads do not survive a fork.
    with concurrent.futures.ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(timed_row, name, options.seeds, options.machine, kept, threads): name for name in names}
        for done in concurrent.futures.as_completed(running):
            rows[running[done]], seconds = done.result()
            print(f"{rows[running[done]]}  {seconds:.0f} s", flush=True)
            options.output.write_text(HEAD + "".join(map(table_text, tables, tables.values())))


if __name__ == "__main__":
    main()
