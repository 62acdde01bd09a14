"""Random graphs of PyTorch operators, compiled and compared with float64.

    build/env/bin/python tests/models/random_graphs.py 0 100             compares graphs 0 to 99, exported
    build/env/bin/python tests/models/random_graphs.py 7 8 --backend     graph 7 through torch.compile

A seed is a graph: the same one on every machine. Inputs are bf16 numbers of odd and even shapes. A step whose result float64 holds
badly is not taken (not finite, huge, or terms that cancel), nor is one that turns a small difference into another number, such as a
comparison of computed values. What remains has a standard: PyTorch's own bf16 run of the same graph.
"""

import argparse
import copy
import pathlib
import random
import sys
import warnings

import torch
from torch import nn
from torch.nn import functional

SIZES = (1, 2, 3, 5, 7, 8, 14, 16, 31, 32, 33, 40, 50, 64, 65, 100)
MOST_ELEMENTS = 1 << 14
MOST_STEPS = 9

UNARY = {
    "relu": torch.relu, "gelu": functional.gelu, "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"), "silu": functional.silu,
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "neg": torch.neg, "abs": torch.abs, "square": torch.square, "erf": torch.erf,
    "exp": lambda x: torch.exp(-x.abs()), "sqrt": lambda x: torch.sqrt(x.abs() + 0.5), "rsqrt": lambda x: torch.rsqrt(x.abs() + 0.5),
    "log": lambda x: torch.log(x.abs() + 2.0), "reciprocal": lambda x: torch.reciprocal(x * x + 0.5), "hardswish": functional.hardswish,
    "hardsigmoid": functional.hardsigmoid, "leaky_relu": lambda x: functional.leaky_relu(x, 0.125), "relu6": functional.relu6,
    "clamp": lambda x: x.clamp(-0.75, 1.25), "elu": functional.elu, "softplus": functional.softplus, "scale": lambda x: x * 0.375,
    "add_number": lambda x: x + 0.5, "power": lambda x: (x.abs() + 0.5).pow(1.5),
}

BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum,
    "div": lambda x, y: x / (y * y + 0.5), "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.5), "lerp": lambda x, y: torch.lerp(x, y, 0.25),
}


class Unfit(Exception):
    """The step drawn does not fit the values that there are."""


def fits(condition):
    if not condition:
        raise Unfit


class Draw:
    """Draws steps: functions of some earlier values, with the weights that they need."""

    def __init__(self, generator):
        self.generator = generator

    def size(self, most=SIZES[-1]):
        return self.generator.choice([size for size in SIZES if size <= most])

    def axis(self, x):
        fits(x.dim())
        return self.generator.randrange(x.dim())

    def weight(self, *shape, scale=1.0):
        values = torch.randn(shape, generator=torch.Generator().manual_seed(self.generator.randrange(1 << 30)), dtype=torch.float64)
        return (values * scale).bfloat16().double()

    # Each takes the values so far and gives the indices of its operands, their function, and its weights.

    def unary(self, values, at):
        return [at], UNARY[self.generator.choice(sorted(UNARY))], []

    def binary(self, values, at):
        def meets(y):
            try:
                return torch.broadcast_shapes(y.shape, values[at].shape).numel() <= MOST_ELEMENTS
            except RuntimeError:
                return False
        partners = [index for index, value in enumerate(values) if meets(value)]
        operands = [at, self.generator.choice(partners)]
        self.generator.shuffle(operands)
        return operands, BINARY[self.generator.choice(sorted(BINARY))], []

    def by_a_constant(self, values, at):
        shape = [size if self.generator.random() < 0.6 else 1 for size in values[at].shape]
        return [at], BINARY[self.generator.choice(sorted(BINARY))], [self.weight(*shape)]

    def where(self, values, at):
        mask = self.weight(*values[at].shape) > 0.25
        return [at], lambda x: torch.where(mask, x, -0.5), []

    def reduction(self, values, at):
        x = values[at]
        fits(x.dim())
        axes = sorted(self.generator.sample(range(x.dim()), self.generator.randint(1, x.dim())))
        keep = self.generator.random() < 0.5
        count = 1
        for axis in axes:
            count *= x.shape[axis]
        name = self.generator.choice(["sum", "mean", "amax", "amin", "var"])
        fits(name != "var" or count > 2)
        function = {"sum": lambda y: y.sum(axes, keepdim=keep) * count ** -0.5, "mean": lambda y: y.mean(axes, keepdim=keep),
                    "amax": lambda y: y.amax(axes, keepdim=keep), "amin": lambda y: y.amin(axes, keepdim=keep),
                    "var": lambda y: y.var(axes, keepdim=keep)}[name]
        return [at], function, []

    def softmax(self, values, at):
        axis = self.axis(values[at])
        return [at], self.generator.choice([lambda x: torch.softmax(x, axis) * x.shape[axis], lambda x: torch.log_softmax(x, axis)]), []

    def norm(self, values, at):
        x = values[at]
        fits(x.dim() and x.shape[-1] > 4)
        width = x.shape[-1]
        if self.generator.random() < 0.5:
            return [at], lambda y, w, b: functional.layer_norm(y, (width,), w, b), [self.weight(width), self.weight(width)]
        return [at], lambda y, w: functional.rms_norm(y, (width,), w, 1e-5), [self.weight(width)]

    def channel_norm(self, values, at):
        x = values[at]
        fits(x.dim() >= 3 and x[0, 0].numel() > 4)
        channels = x.shape[1]
        if self.generator.random() < 0.5:
            groups = self.generator.choice([group for group in range(1, channels + 1) if channels % group == 0])
            return [at], lambda y, w, b: functional.group_norm(y, groups, w, b), [self.weight(channels), self.weight(channels)]
        weights = [self.weight(channels, scale=0.25), self.weight(channels).abs() + 0.5, self.weight(channels), self.weight(channels)]
        return [at], lambda y, m, v, w, b: functional.batch_norm(y, m, v, w, b), weights

    def linear(self, values, at):
        fits(values[at].dim())
        inner, outer = values[at].shape[-1], self.size()
        weights = [self.weight(outer, inner, scale=inner ** -0.5)] + ([self.weight(outer)] if self.generator.random() < 0.5 else [])
        return [at], functional.linear, weights

    def product(self, values, at):
        x = values[at]
        fits(x.dim() >= 2)
        scale = x.shape[-1] ** -0.5
        if self.generator.random() < 0.3:
            return [at], lambda y: y @ y.mT * scale, []
        partners = [index for index, y in enumerate(values) if y.dim() in (2, x.dim()) and y.shape[-1] == x.shape[-1] and (y.dim() == 2 or y.shape[:-2] == x.shape[:-2])]
        return [at, self.generator.choice(partners)], lambda y, z: y @ z.mT * scale, []

    def attention(self, values, at):
        x = values[at]
        fits(x.dim() in (3, 4) and x.shape[-1] > 1 and x.shape[-2] > 1)
        causal = self.generator.random() < 0.5
        return [at], lambda y: functional.scaled_dot_product_attention(y, y, y, is_causal=causal), []

    def convolution(self, values, at):
        x = values[at]
        fits(x.dim() in (3, 4))
        groups = self.generator.choice([1, 1, x.shape[1]])
        out = groups * self.generator.choice([1, 2]) if groups > 1 else self.size(40)
        kernel, stride, padding, dilation = self.generator.choice([1, 2, 3, 5]), self.generator.choice([1, 1, 2]), self.generator.choice([0, 1, 2]), self.generator.choice([1, 1, 2])
        fits(all(size + 2 * padding >= (kernel - 1) * dilation + 1 for size in x.shape[2:]))
        taps = kernel ** (x.dim() - 2) * (x.shape[1] // groups)
        weights = [self.weight(out, x.shape[1] // groups, *[kernel] * (x.dim() - 2), scale=taps ** -0.5)] + ([self.weight(out)] if self.generator.random() < 0.5 else [])
        convolve = functional.conv1d if x.dim() == 3 else functional.conv2d
        return [at], lambda y, w, b=None: convolve(y, w, b, stride, padding, dilation, groups), weights

    def pooling(self, values, at):
        x = values[at]
        fits(x.dim() == 4)
        kernel, stride = self.generator.choice([2, 3]), self.generator.choice([1, 2])
        padding, ceil = self.generator.choice([0, 1]), self.generator.random() < 0.3
        fits(min(x.shape[2:]) + 2 * padding >= kernel)
        kind = self.generator.choice(["max", "mean", "adaptive"])
        if kind == "max":
            return [at], lambda y: functional.max_pool2d(y, kernel, stride, padding, ceil_mode=ceil), []
        if kind == "mean":
            count = self.generator.random() < 0.5
            return [at], lambda y: functional.avg_pool2d(y, kernel, stride, padding, ceil, count), []
        return [at], lambda y: functional.adaptive_avg_pool2d(y, (min(3, y.shape[2]), min(2, y.shape[3]))), []

    def order(self, values, at):
        x = values[at]
        fits(x.dim() >= 2)
        axes = list(range(x.dim()))
        self.generator.shuffle(axes)
        return [at], lambda y: y.permute(axes), []

    def shape(self, values, at):
        x, axis = values[at], self.axis(values[at])
        kind = self.generator.choice(["flatten", "unflatten", "unsqueeze", "squeeze"])
        if kind == "flatten":
            fits(axis + 1 < x.dim())
            return [at], lambda y: y.flatten(axis, axis + 1), []
        if kind == "unsqueeze":
            fits(x.dim() < 4)
            return [at], lambda y: y.unsqueeze(axis), []
        if kind == "squeeze":
            fits(1 in x.shape)
            return [at], lambda y: y.squeeze(), []
        divisors = [part for part in range(2, x.shape[axis]) if x.shape[axis] % part == 0]
        fits(divisors and x.dim() < 4)
        part = self.generator.choice(divisors)
        return [at], lambda y: y.unflatten(axis, (part, -1)), []

    def part(self, values, at):
        x, axis = values[at], self.axis(values[at])
        size = x.shape[axis]
        kind = self.generator.choice(["slice", "step", "select", "chunk", "gather"])
        if kind == "slice":
            start = self.generator.randrange(size)
            length = self.generator.randint(1, size - start)
            return [at], lambda y: y.narrow(axis, start, length), []
        if kind == "step":
            return [at], lambda y: y[(slice(None),) * axis + (slice(None, None, 2),)], []
        if kind == "select":
            index = self.generator.randrange(size)
            return [at], lambda y: y.select(axis, index), []
        if kind == "chunk":
            fits(size > 1)
            return [at], lambda y: torch.chunk(y, 2, axis)[1], []
        indices = torch.tensor([self.generator.randrange(size) for _ in range(min(size, 8))])
        return [at], lambda y: y.index_select(axis, indices), []

    def more(self, values, at):
        x, axis = values[at], self.axis(values[at])
        fits(2 * x.numel() <= MOST_ELEMENTS)
        kind = self.generator.choice(["cat", "stack", "pad", "roll", "flip", "expand", "repeat"])
        if kind == "cat":
            partners = [index for index, y in enumerate(values) if y.dim() == x.dim() and all(a == b or i == axis for i, (a, b) in enumerate(zip(x.shape, y.shape)))]
            return [at, self.generator.choice(partners)], lambda y, z: torch.cat([y, z], axis), []
        if kind == "stack":
            fits(x.dim() < 4)
            partners = [index for index, y in enumerate(values) if y.shape == x.shape]
            return [at, self.generator.choice(partners)], lambda y, z: torch.stack([y, z], axis), []
        if kind == "pad":
            around = [self.generator.randint(0, 3) for _ in range(2 * self.generator.randint(1, min(2, x.dim())))]
            return [at], lambda y: functional.pad(y, around, value=0.25), []
        if kind == "roll":
            shift = self.generator.randint(1, 5)
            return [at], lambda y: torch.roll(y, shift, axis), []
        if kind == "flip":
            return [at], lambda y: y.flip(axis), []
        if kind == "repeat":
            return [at], lambda y: torch.cat([y] * 2, axis).mul(0.5), []
        fits(x.shape[axis] == 1)
        size = self.size(16)
        return [at], lambda y: y.expand(*[size if index == axis else -1 for index in range(y.dim())]), []


STEPS = ["unary", "unary", "binary", "binary", "by_a_constant", "where", "reduction", "softmax", "norm", "channel_norm", "linear", "product", "attention", "convolution", "pooling",
         "order", "shape", "part", "more"]


class Graph(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.steps = [(name, operands, function) for name, operands, function, _ in steps]
        self.weights = nn.ModuleList([nn.ParameterList([nn.Parameter(weight, requires_grad=False) for weight in weights]) for *_, weights in steps])

    def forward(self, *inputs):
        values = list(inputs)
        for (_, operands, function), weights in zip(self.steps, self.weights):
            values.append(function(*[values[index] for index in operands], *weights))
        used = {index for _, operands, _ in self.steps for index in operands}
        return tuple(value for index, value in enumerate(values) if index >= len(inputs) and index not in used)


def well_conditioned(result, operands):
    """Whether float64's result is one that bf16 could have: finite, of an ordinary size, and not what is left of larger terms."""
    if not result.numel() or result.numel() > MOST_ELEMENTS or result.dim() > 5 or not result.isfinite().all():
        return False
    largest, before = result.abs().max(), max(operand.abs().max() for operand in operands)
    return 1e-2 < largest < 1e3 and largest > before / 64


def build(seed):
    """Graph `seed` in float64, and its inputs."""
    draw = Draw(random.Random(seed))
    shapes = []
    while len(shapes) < draw.generator.randint(1, 3):
        shape = [draw.size() for _ in range(draw.generator.choice([1, 2, 2, 3, 3, 4, 4, 4]))]
        if torch.Size(shape).numel() <= MOST_ELEMENTS:
            shapes.append(shape)
    inputs = [draw.weight(*shape) for shape in shapes]
    values, steps, count = list(inputs), [], draw.generator.randint(2, MOST_STEPS)
    while len(steps) < count:
        name = draw.generator.choice(STEPS)
        at = len(values) - 1 if draw.generator.random() < 0.7 else draw.generator.randrange(len(values))
        try:
            operands, function, weights = getattr(draw, name)(values, at)
        except Unfit:
            continue
        taken = [values[index] for index in operands]
        result = function(*taken, *weights)
        if well_conditioned(result, taken):
            steps.append((name, operands, function, weights))
            values.append(result)
    return Graph(steps), inputs


def distance(results, expected):
    """The largest difference of each output over its largest value."""
    return [((a.double() - b).abs().max() / b.abs().max()).item() for a, b in zip(results, expected, strict=True)]


def compare(seed, machine, through_backend):
    """The error of each output as a share of its largest value, that of PyTorch's bf16 run, and whether all are within four times that and 3 %."""
    import atalla
    from atalla.backend import atalla as backend
    graph, inputs = build(seed)
    expected = graph(*inputs)
    half = copy.deepcopy(graph).bfloat16()(*[value.bfloat16() for value in inputs])
    single, args = copy.deepcopy(graph).float(), tuple(value.float() for value in inputs)
    if through_backend:
        torch.compiler.reset()
        with torch.no_grad():
            results = torch.compile(single, backend=backend, options={"machine": machine, "strict": True})(*args)
    else:
        results = atalla.compile(single, args, machine=machine)(*args)
    if [tuple(result.shape) for result in results] != [tuple(value.shape) for value in expected]:
        raise AssertionError(f"shapes {[tuple(result.shape) for result in results]} instead of {[tuple(value.shape) for value in expected]}")
    errors, standards = distance(results, expected), distance(half, expected)
    return errors, standards, all(error <= 4 * standard + 0.03 for error, standard in zip(errors, standards))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("--machine", default="ax01")
    parser.add_argument("--backend", action="store_true", help="through torch.compile (default: exported)")
    options = parser.parse_args()
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
    warnings.filterwarnings("ignore")
    failed = 0
    for seed in range(options.first, options.end):
        try:
            errors, standards, good = compare(seed, options.machine, options.backend)
            told = ", ".join(f"{error:.4f} ({standard:.4f})" for error, standard in zip(errors, standards))
        except Exception as error:   # whatever PyTorch wraps it in: the next graph is compared all the same
            told, good = f"{type(error).__name__}: {error}", False
        if not good:
            failed += 1
            graph, inputs = build(seed)
            print(f"{seed} {[tuple(value.shape) for value in inputs]} {' '.join(f'{name}{operands}' for name, operands, _ in graph.steps)}: {told}", flush=True)
        elif sys.stderr.isatty():
            print(f"\r{seed}: {told}\033[K", end="", file=sys.stderr)
    print(f"{options.end - options.first} graphs, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
