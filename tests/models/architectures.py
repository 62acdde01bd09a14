"""Compiles the models of hugging_face.py, compares them with PyTorch, and writes the table of docs/architectures.md.

    build/env/bin/python tests/models/architectures.py [--machine ax01] [NAME...]

Example: build/env/bin/python tests/models/architectures.py bert swin

Rows of architectures that are not named stay as they are.
"""

import argparse
import pathlib
import re
import time
import warnings

from table import ROOT, compare, in_bf16, leaves  # also finds the atalla of this checkout

import atalla  # noqa: E402
import page  # noqa: E402
import torch  # noqa: E402

import hugging_face  # noqa: E402
from atalla.backend import atalla as backend  # noqa: E402

HEAD = """| architecture | accelerator | host | segments | cycles | cosine | torch.compile | PyTorch bf16 | on the host |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def through_torch_compile(model, expected, machine):
    torch._dynamo.reset()
    compiled = torch.compile(model.module, backend=backend, options={"machine": machine, "strict": True})
    try:
        with torch.no_grad():
            return f"{compare(leaves(compiled(*model.args, **model.kwargs)), expected)[0]:.6f}"
    except Exception as error:   # whatever PyTorch wraps it in
        return sentence(error)


def sentence(error):
    """One line of an error, that of the operator where it names one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("aten::")), lines[0] if lines else type(error).__name__).replace("|", "\\|")


def in_half_precision(model):
    """Outputs of PyTorch in bf16; None if it has not all operators in bf16."""
    try:
        return in_bf16(model)
    except RuntimeError:
        return None


def row(name, machine):
    model = hugging_face.build(name)
    in_half = in_half_precision(model)   # first: some modules keep what they computed, in the type of the first call
    expected = leaves(model.run())
    half = f"{compare(in_half, expected)[0]:.6f}" if in_half else "cannot"
    try:
        compiled = atalla.compile(model.export(), machine=machine)
    except (atalla.AtallaError, RuntimeError) as error:
        return f"| {name} | {sentence(error)} | | | | | | {half} | |"
    cosine = compare(leaves(compiled(*model.args, **model.kwargs)), expected)[0]
    report, profile = compiled.report(), compiled.profile()
    calls = {side: sum(o["calls"] for o in report["operators"] if o["on"] == side) for side in ("accelerator", "host")}
    on_host = sorted({o["target"].removeprefix("aten::") for o in report["operators"] if o["on"] == "host"} - {"embedding"})
    compiled_cosine = through_torch_compile(model, expected, machine)
    return (f"| {name} | {calls['accelerator']} | {calls['host']} | {profile['device_calls']} | {profile['cycles']:,} | {cosine:.6f} | {compiled_cosine} | {half} | "
            f"{', '.join(f'`{target}`' for target in on_host)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"architectures (default: all): {', '.join(hugging_face.ARCHITECTURES)}")
    parser.add_argument("--machine", default="ax01")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs" / "architectures.md")
    options = parser.parse_args()
    if unknown := set(options.names) - set(hugging_face.ARCHITECTURES):
        parser.error(f"no architecture is called {', '.join(sorted(unknown))}")
    warnings.filterwarnings("ignore")
    part = f"tests/models/architectures.py {options.machine}"
    rows = {found[1]: found[0] for found in re.finditer(r"^\| (\w+) \|.*$", page.read(options.output, part), re.M)}
    for name in options.names or hugging_face.ARCHITECTURES:
        start = time.time()
        rows[name] = row(name, options.machine)
        print(f"{rows[name]}  {time.time() - start:.0f} s", flush=True)
        body = "\n".join(rows[known] for known in hugging_face.ARCHITECTURES if known in rows)
        page.write(options.output, part, HEAD + body)


if __name__ == "__main__":
    main()
