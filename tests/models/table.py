"""Compiles the models of zoo.py, compares them with PyTorch, and writes docs/models.md.

    build/env/bin/python tests/models/table.py [--seeds 5] [--machine ax01] [MODEL...]

Rows of models that are not named stay as they are.
"""

import argparse
import copy
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

Written by `tests/models/table.py`: each model with random weights, exported with `run_decompositions({{}})`, compiled with the database's
winners (where there is none, with the fastest of four schedules that the draft likes best), and run on the simulator of `{machine}`.

* *cosine*: the least over all outputs and seeds, against PyTorch in float32; *error* is the largest difference, relative to the largest
  output; both also for PyTorch's own bf16 run.
* ResNet-18 and MobileNetV2 have batch norms as they are made (mean 0, variance 1), the `_statistics` ones those of batches of noise:
  a random network then amplifies every rounding error, and bf16, PyTorch's among it, does not give a cosine of 0.9995.
* *accelerator*, *host*: calls of operators; *segments*: entries of the one program between which the host works.
* *of bounds*: the sum of the lower bounds of the kernels' calls, as a share of the cycles.
* *DRAM*: what the transfers moved, in MB, and how often the bytes of inputs, outputs and weights, each once, go into it.
* *apart*: cycles of the same model with a kernel for every operator, each run from its own start to its end, and how many fewer the
  fused program takes; *same bits*: whether the fused program gives, bit for bit, what its kernels give one by one.

| model | seeds | cosine | PyTorch bf16 | error | PyTorch bf16 | accelerator | host | segments | packets | cycles | of bounds | DRAM | apart | same bits |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def leaves(result):
    return [leaf.float() for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def compare(results, expected):
    cosine = min(torch.nn.functional.cosine_similarity(a.double().flatten(), b.double().flatten(), dim=0).item() for a, b in zip(results, expected))
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


def row(name, seeds, machine):
    cosine, error, torch_cosine, torch_error = 1.0, 0.0, 1.0, 0.0
    for seed in range(seeds):
        model = zoo.make(name, seed)
        expected = [leaf.float() for leaf in model.run()]
        exported = model.export()
        compiled = atalla.compile(exported, machine=machine)
        results = leaves(compiled(*model.args, **model.kwargs))
        found, torch_found = compare(results, expected), compare(in_bf16(model), expected)
        cosine, error = min(cosine, found[0]), max(error, found[1])
        torch_cosine, torch_error = min(torch_cosine, torch_found[0]), max(torch_error, torch_found[1])
        if seed == 0:
            one_by_one, apart = (atalla.compile(exported, machine=machine, one_by_one=True, fuse=fuse) for fuse in (True, False))
            alone = leaves(one_by_one(*model.args, **model.kwargs))
            same = all(torch.equal(a, b) for a, b in zip(results, alone))
            apart(*model.args, **model.kwargs)
            apart_cycles = apart.profile()["cycles"]
    profile, report = compiled.profile(), compiled.report()
    calls = {side: sum(o["calls"] for o in report["operators"] if o["on"] == side) for side in ("accelerator", "host")}
    bound = sum(call["bound_cycles"] for call in report["specializations"][0].get("calls", []))
    share = f"{100 * bound / profile['cycles']:.0f} %" if profile["cycles"] else ""
    dram = profile["counters"].get("dram_beats", 0) * 32
    fewer = f"{apart_cycles:,}, {100 * (1 - profile['cycles'] / apart_cycles):.1f} %" if apart_cycles else ""
    return (f"| {name} | {seeds} | {cosine:.6f} | {torch_cosine:.6f} | {error:.4f} | {torch_error:.4f} | {calls['accelerator']} | {calls['host']} | "
            f"{profile['device_calls']} | {profile['packets']:,} | {profile['cycles']:,} | {share} | {dram / 1e6:.1f}, {dram / least_bytes(report):.1f} | {fewer} | {'yes' if same else 'NO'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", choices=[[], *zoo.MODELS], help="names of zoo.py (default: all)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--machine", default="ax01")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs" / "models.md")
    options = parser.parse_args()
    rows = {}
    if options.output.exists():
        rows = {m[1]: m[0] for m in re.finditer(r"^\| (\w+) \| \d+ \|.*$", options.output.read_text(), re.M)}
    for name in options.models or zoo.MODELS:
        start = time.time()
        rows[name] = row(name, options.seeds, options.machine)
        print(f"{rows[name]}  {time.time() - start:.0f} s", flush=True)
        ordered = [rows[known] for known in zoo.MODELS if known in rows]
        options.output.write_text(HEAD.format(machine=options.machine) + "\n".join(ordered) + "\n")


if __name__ == "__main__":
    main()
