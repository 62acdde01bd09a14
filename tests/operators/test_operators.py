"""Every operator, as `atalla run --op` computes it, against PyTorch in float64 within the operator's stated error."""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest
import torch
import torch.nn.functional as F

RUN = pathlib.Path(os.environ["ATALLA_BIN"]) / "atalla-run"


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def positive(*shape):
    return torch.rand(*shape, dtype=torch.float64) + 0.1


def over(function, *arguments):
    return lambda *tensors: function(*tensors, *arguments)


# Operator, its tensors, options of the command line, PyTorch, error in units of a bf16 number as large as the result's largest.
CASES = [
    ("mm", [normal(33, 65), normal(65, 31)], [], torch.mm, 3),
    ("addmm", [normal(40), normal(7, 64), normal(64, 40)], [], torch.addmm, 3),
    ("bmm", [normal(3, 17, 33), normal(3, 33, 5)], [], torch.bmm, 3),
    ("baddbmm", [normal(2, 8, 9), normal(2, 8, 32), normal(2, 32, 9)], [], torch.baddbmm, 3),
    ("linear", [normal(13, 96), normal(35, 96), normal(35)], [], F.linear, 3),
    ("matmul", [normal(1, 64), normal(64, 33)], [], torch.matmul, 3),
    ("conv2d", [normal(2, 5, 9, 11), normal(7, 5, 3, 3), normal(7)], ["--padding", "1", "--stride", "2"], lambda x, w, b: F.conv2d(x, w, b, 2, 1), 4),
    ("conv1d", [normal(1, 4, 33), normal(6, 2, 3), normal(6)], ["--groups", "2", "--dilation", "2"], lambda x, w, b: F.conv1d(x, w, b, dilation=2, groups=2), 4),
    ("conv2d_padding", [normal(1, 3, 8, 8), normal(4, 3, 3, 3)], ["--padding", "same"], lambda x, w: F.conv2d(x, w, padding="same"), 4),
    ("conv2d_padding", [normal(1, 3, 8, 8), normal(4, 3, 2, 4)], ["--padding", "same"], lambda x, w: F.conv2d(x, w, padding="same"), 4),
    ("conv_depthwise_nhwc", [normal(2, 6, 7, 40), normal(3, 2, 40), normal(40)], ["--padding", "1,0,1,0", "--stride", "2"],
     lambda x, w, b: F.conv2d(x.permute(0, 3, 1, 2), w.permute(2, 0, 1).unsqueeze(1), b, 2, (1, 0), groups=40).permute(0, 2, 3, 1), 5),
    ("conv1x1", [normal(9, 5, 1, 1), normal(2, 5, 4, 11), normal(9)], [], lambda w, x, b: F.conv2d(x, w, b), 4),
    ("scaled_dot_product_attention", [normal(2, 33, 16), normal(2, 40, 16), normal(2, 40, 24)], [], F.scaled_dot_product_attention, 4),
    ("softmax", [normal(5, 97)], [], over(torch.softmax, -1), 3),
    ("log_softmax", [normal(5, 97)], [], over(torch.log_softmax, -1), 3),
    ("softmax", [normal(3, 37, 33)], ["--dim", "1"], over(torch.softmax, 1), 6),
    ("log_softmax", [normal(37, 33)], ["--dim", "0"], over(torch.log_softmax, 0), 6),
    ("layer_norm", [normal(6, 65), normal(65), normal(65)], [], lambda x, w, b: F.layer_norm(x, (65,), w, b), 4),
    ("rms_norm", [normal(6, 65), normal(65)], ["--eps", "0.001"], lambda x, w: F.rms_norm(x, (65,), w, 0.001), 4),
    ("group_norm", [normal(2, 12, 5, 9), normal(12), normal(12)], ["--num-groups", "3"], lambda x, w, b: F.group_norm(x, 3, w, b), 4),
    ("batch_norm", [normal(2, 7, 5, 9), normal(7), positive(7), normal(7), normal(7)], [], F.batch_norm, 5),
    ("sum", [normal(31, 67)], ["--dim", "1"], lambda x: x.sum(1), 3),
    ("sum", [normal(67, 31)], ["--dim", "0", "--keepdim"], lambda x: x.sum(0, keepdim=True), 4),
    ("mean", [normal(3, 33, 5)], ["--dim", "0,2"], lambda x: x.mean((0, 2)), 4),
    ("amax", [normal(9, 67)], ["--dim", "-1"], lambda x: x.amax(-1), 0),
    ("amin", [normal(67, 9)], ["--dim", "0"], lambda x: x.amin(0), 0),
    ("var", [normal(9, 67)], ["--dim", "1"], lambda x: x.var(1), 6),
    ("max_pool2d", [normal(1, 5, 11, 9)], ["--kernel-size", "3", "--stride", "2", "--padding", "1", "--ceil-mode"], lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), 0),
    ("avg_pool2d", [normal(1, 5, 11, 9)], ["--kernel-size", "3,2", "--padding", "1,0", "--count-include-pad", "false"],
     lambda x: F.avg_pool2d(x, (3, 2), padding=(1, 0), count_include_pad=False), 5),
    ("max_pool1d", [normal(4, 33)], ["--kernel-size", "3"], over(F.max_pool1d, 3), 0),
    ("avg_pool1d", [normal(4, 33)], ["--kernel-size", "4"], over(F.avg_pool1d, 4), 5),
    ("adaptive_avg_pool2d", [normal(2, 5, 13, 9)], [], over(F.adaptive_avg_pool2d, 1), 3),
    ("adaptive_avg_pool2d", [normal(2, 5, 13, 9)], ["--output-size", "2,3"], over(F.adaptive_avg_pool2d, (2, 3)), 8),
    ("adaptive_avg_pool1d", [normal(2, 5, 14)], ["--output-size", "7"], over(F.adaptive_avg_pool1d, 7), 5),
    ("add", [normal(3, 31, 5), normal(31, 1)], [], torch.add, 1),
    ("sub", [normal(65), normal(65)], ["--alpha", "2"], lambda x, y: torch.sub(x, y, alpha=2), 2),
    ("rsub", [normal(65)], ["--y", "1.5"], lambda x: 1.5 - x, 1),
    ("mul", [normal(33, 7), normal(7)], [], torch.mul, 1),
    ("div", [normal(33, 7), positive(7)], [], torch.div, 3),
    ("maximum", [normal(33), normal(33)], [], torch.maximum, 0),
    ("minimum", [normal(33), normal(33)], [], torch.minimum, 0),
    ("pow", [normal(33)], ["--exponent", "3"], over(torch.pow, 3), 3),
    ("where", [(normal(33) > 0).double(), normal(33), normal(33)], [], lambda c, x, y: torch.where(c != 0, x, y), 0),
    ("masked_fill", [normal(33), (normal(33) > 0).double()], ["--y", "-2"], lambda x, m: x.masked_fill(m != 0, -2), 0),
    ("gt", [normal(33)], ["--y", "0"], lambda x: (x > 0).double(), 0),
    ("lt", [normal(33)], ["--y", "0"], lambda x: (x < 0).double(), 0),
    ("ge", [normal(33), normal(33)], [], lambda x, y: (x >= y).double(), 0),
    ("le", [normal(33), normal(33)], [], lambda x, y: (x <= y).double(), 0),
    ("eq", [normal(33)], ["--y", "0"], lambda x: (x == 0).double(), 0),
    ("ne", [normal(33)], ["--y", "0"], lambda x: (x != 0).double(), 0),
    ("neg", [normal(7, 31)], [], torch.neg, 0),
    ("abs", [normal(7, 31)], [], torch.abs, 0),
    ("relu", [normal(7, 31)], [], torch.relu, 0),
    ("relu6", [4 * normal(7, 31)], [], F.relu6, 0),
    ("hardtanh", [normal(7, 31)], [], F.hardtanh, 0),
    ("clamp", [normal(7, 31)], ["--min", "-0.5", "--max", "0.5"], lambda x: x.clamp(-0.5, 0.5), 0),
    ("leaky_relu", [normal(7, 31)], ["--negative-slope", "0.25"], lambda x: F.leaky_relu(x, 0.25), 1),
    ("exp", [normal(7, 31)], [], torch.exp, 1),
    ("log", [positive(7, 31)], [], torch.log, 3),
    ("sqrt", [positive(7, 31)], [], torch.sqrt, 3),
    ("rsqrt", [positive(7, 31)], [], torch.rsqrt, 3),
    ("reciprocal", [positive(7, 31)], [], torch.reciprocal, 3),
    ("sigmoid", [normal(7, 31)], [], torch.sigmoid, 3),
    ("tanh", [normal(7, 31)], [], torch.tanh, 3),
    ("erf", [normal(7, 31)], [], torch.erf, 3),
    ("silu", [normal(7, 31)], [], F.silu, 3),
    ("mish", [4 * normal(7, 31)], [], F.mish, 3),
    ("softplus", [4 * normal(7, 31)], [], F.softplus, 3),
    ("elu", [4 * normal(7, 31)], [], F.elu, 3),
    ("elu", [4 * normal(7, 31)], ["--alpha", "0.5", "--scale", "2", "--input-scale", "0.25"], lambda x: torch.ops.aten.elu(x, 0.5, 2, 0.25), 3),
    ("softplus", [4 * normal(7, 31)], ["--threshold", "0.5"], lambda x: F.softplus(x, threshold=0.5), 3),
    ("gelu", [normal(7, 31)], [], F.gelu, 3),
    ("hardsigmoid", [normal(7, 31)], [], F.hardsigmoid, 3),
    ("hardswish", [normal(7, 31)], [], F.hardswish, 3),
    ("gelu(add(x, mul(y, 0.5)))", [normal(7, 31), normal(31)], [], lambda x, y: F.gelu(x + 0.5 * y), 6),
    ("permute", [normal(3, 5, 33)], ["--dims", "2,0,1"], lambda x: x.permute(2, 0, 1), 0),
    ("transpose", [normal(2, 65, 33)], ["--dim0", "1", "--dim1", "2"], lambda x: x.transpose(1, 2), 0),
    ("slice", [normal(7, 33)], ["--dim", "1", "--start", "3", "--end", "30", "--step", "4"], lambda x: x[:, 3:30:4], 0),
    ("select", [normal(7, 33)], ["--dim", "1", "--index", "-2"], lambda x: x[:, -2], 0),
    ("expand", [normal(7, 1)], ["--size", "2,7,5"], lambda x: x.expand(2, 7, 5), 0),
    ("cat", [normal(3, 5), normal(3, 31)], ["--dim", "1"], lambda *x: torch.cat(x, 1), 0),
    ("stack", [normal(3, 5), normal(3, 5)], ["--dim", "1"], lambda *x: torch.stack(x, 1), 0),
    ("pad", [normal(3, 5)], ["--pad", "1,2,0,1", "--value", "2.5"], lambda x: F.pad(x, (1, 2, 0, 1), value=2.5), 0),
    ("roll", [normal(5, 33)], ["--shifts", "7,-2", "--dims", "1,0"], lambda x: x.roll((7, -2), (1, 0)), 0),
]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("operators")


def run(folder, op, tensors, options):
    files = []
    for i, tensor in enumerate(tensors):
        files.append(str(folder / f"{i}.npy"))
        np.save(files[-1], tensor.float().numpy())
    result = folder / "result.npy"
    done = subprocess.run([RUN, "--quiet", "--op", op, *options, "-o", result, "--db", folder / "operators.db", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return torch.from_numpy(np.load(result)).double()


@pytest.mark.parametrize("op, tensors, options, function, ulps", CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)])
def test_agrees_with_float64(folder, op, tensors, options, function, ulps):
    tensors = [tensor.bfloat16().double() for tensor in tensors]
    expected = function(*tensors)
    result = run(folder, op, tensors, options)
    assert result.numel() == expected.numel()
    largest = expected.abs().max()
    unit = 2.0 ** (torch.floor(torch.log2(largest)) - 7)
    assert (result.reshape(expected.shape) - expected).abs().max() <= ulps * unit


def test_every_operator_is_here():
    listed = json.loads(subprocess.run([RUN.parent / "atalla-ops", "--json"], capture_output=True, text=True, check=True).stdout)
    assert {row["name"] for row in listed} - {case[0] for case in CASES} <= {"gemm", "convolution"}
