"""Writes the table of docs/pointwise-errors.md: the errors of the pointwise operators over all bf16 inputs, measured on the simulator by
`atalla ops --numerics`, with PyTorch's own beside them. Run: build/env/bin/python docs/pointwise_errors.py ATALLA_OPS"""

import json
import subprocess
import sys

import page
import torch
import torch.nn.functional as F

CALLS = {
    "div(x, 3)": lambda x: x / 3,
    "pow(x, 2)": lambda x: torch.pow(x, 2),
    "pow(x, 3)": lambda x: torch.pow(x, 3),
    "pow(x, 0.5)": lambda x: torch.pow(x, 0.5),
    "pow(x, -0.5)": lambda x: torch.pow(x, -0.5),
    "pow(x, -1)": lambda x: torch.pow(x, -1),
    "pow(x, -2)": lambda x: torch.pow(x, -2),
    "neg(x)": torch.neg, "abs(x)": torch.abs, "relu(x)": torch.relu, "relu6(x)": F.relu6, "hardtanh(x)": F.hardtanh,
    "clamp(x, max=2, min=-1)": lambda x: torch.clamp(x, -1, 2), "leaky_relu(x)": F.leaky_relu, "exp(x)": torch.exp,
    "log(x)": torch.log, "sqrt(x)": torch.sqrt, "rsqrt(x)": torch.rsqrt, "reciprocal(x)": torch.reciprocal,
    "sigmoid(x)": torch.sigmoid, "tanh(x)": torch.tanh, "erf(x)": torch.erf, "silu(x)": F.silu, "mish(x)": F.mish, "softplus(x)": F.softplus, "elu(x)": F.elu, "gelu(x)": F.gelu,
    "gelu(x, approximate=tanh)": lambda x: F.gelu(x, approximate="tanh"), "hardsigmoid(x)": F.hardsigmoid, "hardswish(x)": F.hardswish,
}
# In float64 these lose digits where terms cancel.
EXACT = {
    "gelu(x)": lambda x: x * torch.special.ndtr(x),
    "gelu(x, approximate=tanh)": lambda x: x / (1 + torch.exp(-2 * (2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "leaky_relu(x)": lambda x: torch.where(x > 0, x, x * torch.tensor(0.01).bfloat16().double()),
}


def all_inputs():
    patterns = torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16)
    return patterns.view(torch.bfloat16)


def torch_error(expression):
    """Largest error in bf16 ulps of PyTorch's bf16 kernel against float64."""
    if expression not in CALLS:
        return None
    x = all_inputs()
    result = CALLS[expression](x).double()
    exact = EXACT.get(expression, CALLS[expression])(x.double())
    finite = torch.isfinite(exact) & (exact.abs() < 3.3961e38)
    exponent = torch.floor(torch.log2(exact.abs().clamp(min=2.0**-126)))
    ulp = torch.pow(torch.tensor(2.0, dtype=torch.float64), exponent - 7)
    error = torch.where(finite, (result - exact).abs() / ulp, torch.zeros_like(exact))
    return float(torch.nan_to_num(error, nan=float("inf"), posinf=float("inf")).max())


def number(value):
    return "inf" if value == float("inf") else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def main():
    tool = sys.argv[1] if len(sys.argv) > 1 else "build/release/bin/atalla-ops"
    rows = json.loads(subprocess.run([tool, "--numerics", "--json"], check=True, capture_output=True, text=True).stdout)
    lines = [
        "| operator | worst, ulps | at | inputs over 1 ulp | PyTorch's bf16, ulps | special values that differ | adds | muls | exps | copies |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        theirs = torch_error(row["expression"])
        lanes = row["lanes"]
        at = ", ".join(f"{v:.4g}" for v in row["worst_at"]) if row["worst_ulps"] > 0 else ""
        differ = f"{row['wrong_special']}, the first at {', '.join(f'{v:.4g}' for v in row['wrong_at'])}" if row["wrong_special"] else "none"
        lines.append(f"| `{row['expression']}` | {row['worst_ulps']:.2f} | {at} | {row['over_one']} | {'' if theirs is None else number(theirs)} | {differ} | "
                     f"{lanes['adds']} | {lanes['muls']} | {lanes['exps']} | {lanes['copies']} |")
    page.write(page.DOCS / "pointwise-errors.md", "docs/pointwise_errors.py", "\n".join(lines))


if __name__ == "__main__":
    main()
