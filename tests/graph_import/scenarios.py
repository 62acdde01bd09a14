"""Single operators in the variants that models use: element types, shapes, strides, scalar arguments, dialects."""

import math

import torch
import torch.nn.functional as F

from case import Case, Function

NAN = math.nan


def f32(*sizes):
    return torch.randn(sizes)


def positive(*sizes):
    return torch.rand(sizes) + 0.1


def integers(*sizes, low=-9, high=10, dtype=torch.int64):
    return torch.randint(low, high, sizes, dtype=dtype)


def flags(*sizes):
    return torch.rand(sizes) > 0.5


def bf16(*sizes):
    return torch.randn(sizes).to(torch.bfloat16)


ELEMENTWISE = {
    "exp": torch.exp, "log": lambda x: torch.log(x.abs() + 1), "sqrt": lambda x: torch.sqrt(x.abs()),
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 1), "tanh": torch.tanh, "sigmoid": torch.sigmoid, "sin": torch.sin,
    "cos": torch.cos, "erf": torch.erf, "neg": torch.neg, "abs": torch.abs, "floor": torch.floor, "ceil": torch.ceil,
    "round": torch.round, "trunc": torch.trunc, "sign": torch.sign, "reciprocal": torch.reciprocal, "log1p": lambda x: torch.log1p(x.abs()),
    "expm1": torch.expm1, "exp2": torch.exp2, "log2": lambda x: torch.log2(x.abs() + 1), "relu": torch.relu, "relu6": F.relu6,
    "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "mish": F.mish,
    "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid, "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.7),
    "softplus": lambda x: F.softplus(x, beta=2.0), "elu": lambda x: F.elu(x, 0.7), "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "selu": F.selu, "softsign": F.softsign, "square": torch.square,
    "clamp": lambda x: x.clamp(-0.5, 0.5), "clamp_min": lambda x: x.clamp(min=0.1), "clamp_max": lambda x: x.clamp(max=0.1),
    "threshold": lambda x: F.threshold(x, 0.2, -1.0), "isnan": lambda x: torch.isnan(x / x.relu()),
    "asinh": torch.asinh, "acosh": lambda x: torch.acosh(x.abs() + 1), "atanh": lambda x: torch.atanh(x.tanh()), "signbit": torch.signbit,
    "lgamma": lambda x: torch.lgamma(x.abs() + 0.1), "round_decimals": lambda x: torch.round(x, decimals=1), "round_tens": lambda x: torch.round(x * 100, decimals=-1),
}

BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum, "minimum": torch.minimum,
    "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge,
    "fmod": torch.fmod, "remainder": torch.remainder, "floor_divide": torch.floor_divide, "atan2": torch.atan2, "hypot": torch.hypot, "copysign": torch.copysign,
    "fmax": torch.fmax, "fmin": torch.fmin,
}


def cases():
    found = []

    def add(name, function, *examples, dynamic=None, dialect="functional", run=None):
        torch.manual_seed(len(found))
        tensors = tuple(example() if callable(example) else example for example in examples)
        found.append(Case(name, lambda: Function(function), lambda: (tensors, {}),
                          (dynamic,) if dynamic is not None else None, dialect,
                          (lambda: ((run() if callable(run) else run), {})) if run is not None else None))

    for name, function in ELEMENTWISE.items():
        add(name, function, f32(3, 5))
    for name in ("relu", "neg", "abs", "sign", "clamp"):
        add(f"{name}_int", {"clamp": lambda x: x.clamp(-2, 3)}.get(name, ELEMENTWISE[name]), integers(4, 3))
    for name in ("gelu", "sigmoid", "exp", "relu", "silu"):
        add(f"{name}_bf16", ELEMENTWISE[name], bf16(2, 8))
        add(f"{name}_transposed", ELEMENTWISE[name], f32(4, 6).t())
    add("tanh_f64", torch.tanh, f32(3, 3).double())
    add("sigmoid_of_int", torch.sigmoid, integers(3, 3))
    add("exp_scalar", torch.exp, f32())
    add("relu_empty", torch.relu, f32(0, 4))

    for name, function in BINARY.items():
        add(name, function, f32(3, 4), f32(3, 4))
        add(f"{name}_broadcast", function, f32(2, 3, 1), f32(4) + 2)
    for name in ("add", "mul", "sub", "maximum", "eq", "lt", "floor_divide", "remainder", "fmod"):
        add(f"{name}_int", BINARY[name], integers(3, 4), integers(3, 4, low=1))
    for name in ("add", "mul", "lt"):
        add(f"{name}_int_with_float", BINARY[name], integers(3, 4), f32(3, 4))
        add(f"{name}_bf16_with_f32", BINARY[name], bf16(3, 4), f32(3, 4))
        add(f"{name}_strided", BINARY[name], f32(4, 3).t(), f32(6, 8)[::2, ::2])
    add("add_int32_with_int64", torch.add, integers(3, dtype=torch.int32), integers(3))
    add("add_uint8", torch.add, integers(5, low=0, high=200, dtype=torch.uint8), integers(5, low=0, high=200, dtype=torch.uint8))
    add("add_bool_with_int", torch.add, flags(4), integers(4))
    add("add_alpha", lambda x, y: torch.add(x, y, alpha=0.5), f32(3), f32(3))
    add("sub_alpha", lambda x, y: torch.sub(x, y, alpha=3), integers(3), integers(3))
    add("add_zero_dim", lambda x, y: x + y, f32(3, 2), torch.tensor(2.5, dtype=torch.float64))
    add("add_scalar", lambda x: x + 1.5, f32(3))
    add("add_int_scalar", lambda x: x + 2, f32(3))
    add("int_plus_float_scalar", lambda x: x + 0.5, integers(3))
    add("int_times_bool_scalar", lambda x: x * True, integers(3))
    add("bf16_times_scalar", lambda x: x * 0.1, bf16(9))
    add("reverse_sub", lambda x: 1 - x, f32(3))
    add("reverse_sub_core", lambda x: 1 - x, f32(3), dialect="core")
    add("scalar_power", lambda x: 2 ** x, f32(3))
    add("power_2", lambda x: x ** 2, f32(3))
    add("power_3", lambda x: torch.pow(x, 3.0), f32(3))
    add("power_half", lambda x: x.abs() ** 0.5, f32(3))
    add("power_negative", lambda x: x ** -1, positive(3))
    add("power_int", lambda x: x ** 3, integers(4))
    add("power_tensor", torch.pow, positive(3), f32(3))
    add("div_floor", lambda x, y: torch.div(x, y, rounding_mode="floor"), f32(5), positive(5))
    add("div_trunc_int", lambda x, y: torch.div(x, y, rounding_mode="trunc"), integers(5), integers(5, low=1))
    add("div_int", torch.div, integers(5), integers(5, low=1))
    add("floordiv_scalar", lambda x: x // 2, integers(6))
    add("mod_scalar", lambda x: x % 3, integers(6))
    add("compare_scalar", lambda x: (x > 0.1, x <= 0.1, x == 0, x != 0), f32(5))
    add("compare_int_scalar", lambda x: (x >= 2, x < 2), integers(5))
    add("compare_int_with_float_scalar", lambda x: x > 0.5, integers(5))
    add("logical", lambda x, y: (x & y, x | y, x ^ y, ~x), flags(6), flags(6))
    add("bitwise", lambda x, y: (x & y, x | y, x ^ y, ~x), integers(6), integers(6))
    add("logical_functions", lambda x, y: (torch.logical_and(x, y), torch.logical_or(x, y), torch.logical_not(x)), f32(4).relu(), f32(4).relu())
    add("where", torch.where, flags(3, 4), f32(3, 4), f32(4))
    add("where_scalar", lambda c, x: torch.where(c, x, 0.0), flags(3, 4), f32(3, 4))
    add("where_scalars", lambda c: torch.where(c, 1.0, -1.0), flags(3, 4))
    add("where_minimum", lambda c, x: torch.where(c, x, torch.finfo(torch.float32).min), flags(3, 4), f32(3, 4))
    add("masked_fill", lambda x, m: x.masked_fill(m, float("-inf")), f32(3, 4), flags(3, 4))
    add("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), f32(3), f32(3), f32(3))
    add("addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=2), f32(3), f32(3), positive(3))
    add("clamp_tensors", lambda x, y: x.clamp(max=y), f32(4), f32(4))
    add("prelu", lambda x, w: F.prelu(x, w), f32(2, 3, 4), f32(3))
    add("nonfinite", lambda x: torch.where(x > 0, float("inf"), float("-inf")), f32(4))

    # Creation
    add("arange", lambda x: x + torch.arange(5), f32(5))
    add("arange_float", lambda x: x + torch.arange(0.5, 3, 0.5), f32(5))
    add("arange_int32", lambda x: torch.arange(2, 12, 3, dtype=torch.int32), f32(1))
    add("linspace", lambda x: x + torch.linspace(0, 1, 7), f32(7))
    add("zeros_ones_full", lambda x: (torch.zeros(2, 3), torch.ones(3, dtype=torch.int64), torch.full((2,), 7), torch.full((2,), 0.5)), f32(1))
    add("like", lambda x: (torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 3), x.new_ones(2), x.new_zeros(2, 2)), f32(2, 3))
    add("eye", lambda x: x @ torch.eye(3), f32(2, 3))
    add("tril", lambda x: (torch.tril(x), torch.triu(x, diagonal=1), torch.tril(x, -1)), f32(2, 4, 5))
    add("scalar_tensor", lambda x: x + torch.tensor(2.0), f32(3))
    add("constant_tensor", lambda x: x * torch.tensor([1.0, 2.0, 3.0]), f32(3))

    # Conversions
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool):
        add(f"to_{str(dtype).split('.')[1]}", lambda x, dtype=dtype: (x.abs() * 3).to(dtype), f32(7))
    add("bool_to_float", lambda x: x.float(), flags(5))
    add("int_to_bf16", lambda x: x.to(torch.bfloat16), integers(5, low=-1000, high=1000))
    add("type_as", lambda x, y: x.type_as(y), f32(3), bf16(1))
    add("to_plain", lambda x: x.to(torch.float64).float(), f32(3), dialect="plain")

    # Views
    add("view", lambda x: x.view(6, -1), f32(2, 3, 4))
    add("reshape_transposed", lambda x: x.t().reshape(-1), f32(3, 4))
    add("flatten", lambda x: x.flatten(1), f32(2, 3, 4))
    add("flatten_plain", lambda x: x.flatten(1), f32(2, 3, 4), dialect="plain")
    add("unflatten", lambda x: x.unflatten(1, (2, 3)), f32(2, 6))
    add("transpose", lambda x: x.transpose(1, -1), f32(2, 3, 4))
    add("permute", lambda x: x.permute(2, 0, -2), f32(2, 3, 4))
    add("permute_clone", lambda x: x.permute(1, 0).contiguous() + 1, f32(2, 3))
    add("t", lambda x: x.t(), f32(2, 3))
    add("mT", lambda x: x.mT, f32(2, 3, 4))
    add("unsqueeze", lambda x: (x.unsqueeze(0), x.unsqueeze(-1), x.unsqueeze(1)), f32(2, 3))
    add("squeeze", lambda x: (x.squeeze(), x.squeeze(1), x.squeeze(0)), f32(2, 1, 3, 1))
    add("squeeze_dims", lambda x: x.squeeze((1, 3)), f32(2, 1, 3, 1))
    add("expand", lambda x: x.expand(4, -1, 3), f32(2, 1))
    add("expand_added", lambda x: x[None].expand(2, 3) + 0, f32(3))
    add("repeat", lambda x: x.repeat(2, 1, 3), f32(2, 2))
    add("repeat_interleave", lambda x: x.repeat_interleave(3, dim=1), f32(2, 2))
    add("slice", lambda x: x[1:3, ::2], f32(4, 5))
    add("slice_negative", lambda x: (x[-2:], x[:-1], x[..., -3:-1]), f32(4, 5))
    add("slice_beyond", lambda x: x[2:100], f32(4, 5))
    add("slice_empty", lambda x: x[3:1], f32(4, 5))
    add("select", lambda x: (x[1], x[:, -1]), f32(4, 5))
    add("narrow", lambda x: x.narrow(1, 1, 2), f32(2, 4))
    add("cat", lambda x, y: torch.cat([x, y], dim=-1), f32(2, 3), f32(2, 2))
    add("cat_types", lambda x, y: torch.cat([x, y]), integers(2), f32(3))
    add("stack", lambda x, y: torch.stack([x, y], dim=1), f32(2, 3), f32(2, 3))
    add("split", lambda x: x.split(2, dim=1), f32(2, 5))
    add("split_sizes", lambda x: x.split([1, 3], dim=1), f32(2, 4))
    add("chunk", lambda x: x.chunk(3, dim=-1), f32(2, 7))
    add("chunk_plain", lambda x: x.chunk(2), f32(4, 2), dialect="plain")
    add("unbind", lambda x: x.unbind(1), f32(2, 3))
    add("roll", lambda x: (x.roll(1, 0), x.roll((1, -2), (0, 1)), x.roll(2)), f32(3, 4))
    add("flip", lambda x: x.flip(0, 2), f32(2, 3, 4))
    add("pad_constant", lambda x: F.pad(x, (1, 2, 0, 1), value=0.5), f32(2, 3))
    add("pad_crop", lambda x: F.pad(x, (-1, 1)), f32(2, 3))
    add("pad_reflect", lambda x: F.pad(x, (1, 2), mode="reflect"), f32(1, 2, 4))
    add("pad_replicate", lambda x: F.pad(x, (1, 1, 2, 0), mode="replicate"), f32(1, 2, 3, 3))
    add("diagonal", lambda x: x.diagonal(offset=1), f32(3, 4))
    add("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), f32(1, 8, 2, 3))

    # Indices
    add("embedding", lambda i, w: F.embedding(i, w), integers(2, 3, low=0, high=5), f32(5, 4))
    add("embedding_padding", lambda i, w: F.embedding(i, w, padding_idx=0), integers(4, low=0, high=5), f32(5, 4))
    add("gather", lambda x, i: x.gather(1, i), f32(3, 4), integers(3, 2, low=0, high=4))
    add("index_one", lambda x, i: x[i], f32(4, 3), integers(2, 2, low=0, high=4))
    add("index_adjacent", lambda x, i, j: x[:, i, j], f32(2, 3, 4), integers(5, low=0, high=3), integers(5, low=0, high=4))
    add("index_separated", lambda x, i, j: x[i, :, j], f32(2, 3, 4), integers(5, low=0, high=2), integers(5, low=0, high=4))
    add("index_broadcast", lambda x, i, j: x[i, j], f32(3, 4, 2), integers(2, 1, low=0, high=3), integers(1, 3, low=0, high=4))
    add("index_negative", lambda x, i: x[i], f32(4), integers(3, low=-4, high=0))
    add("index_select", lambda x, i: x.index_select(1, i), f32(3, 4), integers(5, low=0, high=4))
    add("index_put", lambda x, i, v: torch.index_put(x, (i,), v), f32(4, 3), torch.tensor([2, 0]), f32(2, 3))
    add("index_put_accumulate", lambda x, i, v: torch.index_put(x, (i,), v, accumulate=True), f32(4), torch.tensor([1, 1, 3]), f32(3))
    add("index_copy", lambda x, i, v: x.index_copy(1, i, v), f32(2, 4), torch.tensor([3, 1]), f32(2, 2))
    add("scatter", lambda x, i, v: x.scatter(1, i, v), f32(2, 4), integers(2, 2, low=0, high=4), f32(2, 2))
    add("scatter_add", lambda x, i, v: x.scatter_add(0, i, v), f32(3, 2), integers(4, 2, low=0, high=3), f32(4, 2))
    add("slice_scatter", lambda x, v: torch.slice_scatter(x, v, 1, 1, 3), f32(2, 4), f32(2, 2))
    add("select_scatter", lambda x, v: torch.select_scatter(x, v, 0, -1), f32(3, 2), f32(2))
    add("one_hot", lambda i: F.one_hot(i, 5), integers(4, low=0, high=5))

    # Reductions
    add("sum", lambda x: (x.sum(), x.sum(1), x.sum((0, 2), keepdim=True)), f32(2, 3, 4))
    add("sum_int", lambda x: (x.sum(), x.sum(0)), integers(3, 4))
    add("sum_bool", lambda x: x.sum(1), flags(3, 4))
    add("sum_dtype", lambda x: x.sum(1, dtype=torch.float64), f32(3, 4))
    add("mean", lambda x: (x.mean(), x.mean(-1, keepdim=True), x.mean((0, 1))), f32(2, 3, 4))
    add("mean_bf16", lambda x: x.mean(-1), bf16(4, 8))
    add("prod", lambda x: (x.prod(), x.prod(1)), f32(2, 3))
    add("amax_amin", lambda x: (x.amax(1), x.amin((0, 1)), x.amax(-1, keepdim=True)), f32(2, 3, 4))
    add("max_min", lambda x: (x.max(), x.min()), f32(2, 3))
    add("max_dim", lambda x: x.max(1), f32(3, 4))
    add("min_dim_keep", lambda x: x.min(0, keepdim=True), integers(3, 4))
    add("argmax", lambda x: (x.argmax(), x.argmax(1), x.argmin(-1, keepdim=True)), f32(3, 4))
    add("any_all", lambda x: (x.any(), x.all(), x.any(1), x.all(0, keepdim=True)), flags(3, 4))
    add("var_std", lambda x: (x.var(1), x.std(1, correction=0), x.var(unbiased=False)), f32(3, 4))
    add("norm", lambda x: (torch.linalg.vector_norm(x, dim=1), torch.linalg.vector_norm(x, ord=1)), f32(3, 4))
    add("normalize", lambda x: F.normalize(x, dim=-1), f32(3, 4))
    add("logsumexp", lambda x: x.logsumexp(1), f32(3, 4))
    add("cumsum", lambda x: (x.cumsum(0), x.cumsum(-1)), f32(3, 4))
    add("cumsum_bool", lambda x: x.cumsum(1), flags(2, 5))
    add("diff", lambda x: x.diff(dim=-1), f32(3, 4))
    add("softmax", lambda x: (x.softmax(-1), x.softmax(0)), f32(3, 4))
    add("softmax_core", lambda x: x.softmax(-1), f32(3, 4), dialect="core")
    add("softmax_dtype", lambda x: x.softmax(-1, dtype=torch.float32), bf16(3, 4))
    add("log_softmax", lambda x: F.log_softmax(x, 1), f32(3, 4))
    add("topk", lambda x: x.topk(2), f32(3, 5))
    add("sort", lambda x: x.sort(dim=0, descending=True), f32(4, 2))
    add("argsort", lambda x: x.argsort(), f32(5))
    add("histc", lambda x: x.histc(4, -1, 1), f32(3, 5))
    add("histc_of_its_range", lambda x: x.histc(3), f32(3, 5))
    add("histc_of_one_value", lambda x: x.histc(5), torch.full((4,), 2.0))

    # Products
    add("linear", lambda x, w, b: F.linear(x, w, b), f32(2, 5), f32(3, 5), f32(3))
    add("linear_3d", lambda x, w: F.linear(x, w), f32(2, 3, 5), f32(4, 5))
    add("linear_bf16", lambda x, w: F.linear(x, w), bf16(2, 8), bf16(4, 8))
    add("linear_core", lambda x, w, b: F.linear(x, w, b), f32(2, 3, 5), f32(4, 5), f32(4), dialect="core")
    add("linear_transposed_weight", lambda x, w: F.linear(x, w), f32(2, 5), f32(5, 3).t())
    add("matmul", torch.matmul, f32(3, 4), f32(4, 2))
    add("matmul_batch", torch.matmul, f32(2, 1, 3, 4), f32(5, 4, 2))
    add("matmul_vector", torch.matmul, f32(3, 4), f32(4))
    add("matmul_vectors", torch.matmul, f32(4), f32(4))
    add("matmul_int", torch.matmul, integers(2, 3), integers(3, 2))
    add("bmm", torch.bmm, f32(2, 3, 4), f32(2, 4, 5))
    add("addmm", lambda b, x, w: torch.addmm(b, x, w), f32(4), f32(2, 3), f32(3, 4))
    add("addmm_scaled", lambda b, x, w: torch.addmm(b, x, w, beta=0.5, alpha=2), f32(2, 4), f32(2, 3), f32(3, 4))
    add("baddbmm", lambda b, x, y: torch.baddbmm(b, x, y), f32(2, 1, 4), f32(2, 3, 5), f32(2, 5, 4))
    add("einsum", lambda x, y: torch.einsum("bij,bkj->bik", x, y), f32(2, 3, 4), f32(2, 5, 4))
    q, k, v = f32(1, 2, 3, 4), f32(1, 2, 5, 4), f32(1, 2, 5, 4)
    attention = F.scaled_dot_product_attention
    add("attention", lambda a, b, c: attention(a, b, c), q, k, v)
    add("attention_scale", lambda a, b, c: attention(a, b, c, scale=0.3), q, k, v)
    add("attention_causal", lambda a, b, c: attention(a, b, c, is_causal=True), q, k, v)
    add("attention_mask", lambda a, b, c, m: attention(a, b, c, attn_mask=m), q, k, v, flags(1, 1, 3, 5))
    add("attention_masked_row", lambda a, b, c, m: attention(a, b, c, attn_mask=m), q, k, v,
        torch.tensor([[True] * 5, [False] * 5, [True, False] * 2 + [True]]))
    add("attention_bias", lambda a, b, c, m: attention(a, b, c, attn_mask=m), q, k, v, f32(3, 5))
    add("attention_grouped", lambda a, b, c: attention(a, b, c, enable_gqa=True), f32(1, 4, 3, 4), k, v)

    # Windows
    add("conv2d", lambda x, w, b: F.conv2d(x, w, b), f32(1, 3, 6, 7), f32(4, 3, 3, 3), f32(4))
    add("conv2d_stride", lambda x, w: F.conv2d(x, w, stride=2, padding=1), f32(2, 3, 7, 8), f32(4, 3, 3, 3))
    add("conv2d_dilation", lambda x, w: F.conv2d(x, w, dilation=(2, 1), padding=(2, 0)), f32(1, 2, 8, 8), f32(3, 2, 3, 3))
    add("conv2d_groups", lambda x, w: F.conv2d(x, w, groups=2), f32(1, 4, 5, 5), f32(6, 2, 3, 3))
    add("conv2d_depthwise", lambda x, w: F.conv2d(x, w, groups=4, padding=1), f32(1, 4, 5, 5), f32(4, 1, 3, 3))
    add("conv2d_same", lambda x, w: F.conv2d(x, w, padding="same"), f32(1, 2, 5, 6), f32(3, 2, 3, 4))
    add("conv2d_core", lambda x, w, b: F.conv2d(x, w, b, stride=2), f32(1, 3, 6, 7), f32(4, 3, 3, 3), f32(4), dialect="core")
    add("conv2d_channels_last", lambda x, w: F.conv2d(x, w), f32(1, 3, 6, 6).to(memory_format=torch.channels_last), f32(4, 3, 3, 3))
    add("conv2d_unbatched", lambda x, w: F.conv2d(x, w), f32(3, 6, 6), f32(4, 3, 3, 3))
    add("conv1d", lambda x, w: F.conv1d(x, w, padding=1), f32(2, 3, 8), f32(4, 3, 3))
    add("conv_transpose2d", lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1), f32(1, 4, 3, 3), f32(4, 3, 3, 3), f32(3))
    add("max_pool2d", lambda x: F.max_pool2d(x, 2), f32(1, 2, 6, 7))
    add("max_pool2d_padded", lambda x: F.max_pool2d(x, 3, stride=2, padding=1), f32(1, 2, 7, 7))
    add("max_pool2d_ceil", lambda x: F.max_pool2d(x, 3, stride=2, ceil_mode=True), f32(1, 2, 6, 6))
    add("max_pool2d_core", lambda x: F.max_pool2d(x, 2), f32(1, 2, 6, 6), dialect="core")
    add("avg_pool2d", lambda x: F.avg_pool2d(x, 3, stride=2, padding=1), f32(1, 2, 7, 7))
    add("avg_pool2d_uncounted", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), f32(1, 2, 7, 7))
    add("avg_pool2d_ceil", lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), f32(1, 2, 6, 6))
    add("avg_pool1d", lambda x: F.avg_pool1d(x, 2), f32(1, 2, 6))
    add("adaptive_avg_pool2d_1", lambda x: F.adaptive_avg_pool2d(x, 1), f32(2, 3, 5, 7))
    add("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (3, 4)), f32(1, 2, 7, 6))
    add("upsample_nearest", lambda x: F.interpolate(x, scale_factor=2), f32(1, 2, 3, 4))
    add("upsample_bilinear", lambda x: F.interpolate(x, size=(5, 7), mode="bilinear"), f32(1, 2, 3, 4))
    add("upsample_bilinear_corners", lambda x: F.interpolate(x, size=(5, 7), mode="bilinear", align_corners=True), f32(1, 2, 3, 4))

    # Norms
    add("layer_norm", lambda x, w, b: F.layer_norm(x, (4,), w, b), f32(2, 3, 4), f32(4), f32(4))
    add("layer_norm_plain", lambda x: F.layer_norm(x, (3, 4), eps=1e-3), f32(2, 3, 4))
    add("layer_norm_core", lambda x, w, b: F.layer_norm(x, (4,), w, b), f32(2, 3, 4), f32(4), f32(4), dialect="core")
    add("rms_norm", lambda x, w: F.rms_norm(x, (4,), w), f32(2, 3, 4), f32(4))
    add("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), f32(2, 4, 3, 3), f32(4), f32(4))
    add("batch_norm", lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), f32(2, 3, 4, 4), f32(3), positive(3), f32(3), f32(3))
    add("batch_norm_plain", lambda x, m, v: F.batch_norm(x, m, v), f32(2, 3, 4), f32(3), positive(3), dialect="plain")
    add("dropout_eval", lambda x: F.dropout(x, 0.5, training=False), f32(3))
    add("cond", lambda x: torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a * 2, (x,)), f32(3))

    # Dynamic shapes
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=2, max=128)
    add("dynamic_batch", lambda x, w: F.linear(x, w).relu(), f32(4, 5), f32(3, 5), dynamic=({0: batch}, None), run=(f32(7, 5), f32(3, 5)))
    add("dynamic_view", lambda x: x.reshape(x.size(0) * x.size(1), 2, 3), f32(4, 5, 6), dynamic=({0: batch, 1: length},), run=(f32(3, 2, 6),))
    add("dynamic_arange", lambda x: x + torch.arange(x.size(1)), f32(2, 5), dynamic=({1: length},), run=(f32(2, 9),))
    add("dynamic_half", lambda x: x[:, : x.size(1) // 2], f32(2, 6), dynamic=({1: 2 * length},), run=(f32(2, 10),))
    add("dynamic_softmax", lambda x: (x @ x.transpose(1, 2)).softmax(-1), f32(2, 5, 4), dynamic=({0: batch, 1: length},), run=(f32(1, 3, 4),))
    add("dynamic_derived", lambda x, y: x + y[1:], f32(4, 3), f32(5, 3), dynamic=({0: length}, {0: length + 1}), run=(f32(6, 3), f32(7, 3)))

    # Constants that choose or scale: masks that are known, indices at equal steps, weights by direction and length
    chosen, causal = torch.tensor([1, 3]), torch.ones(4, 4).tril().bool()
    add("index_constant", lambda x: (x[:, [-2]], x[[0, 1, 2]], x[:, chosen], x[:, [3, 0]], x[[1, 1]]), f32(3, 5))
    add("index_select_constant", lambda x: (x.index_select(-1, chosen), x.index_select(0, chosen - 1)), f32(3, 5))
    add("where_constant", lambda x: torch.where(causal, x, torch.finfo(torch.float32).min), f32(2, 4, 4))
    add("masked_fill_constant", lambda x: (x + 0).masked_fill(~causal, -1.0), f32(2, 4, 4))
    add("baddbmm_scaled", lambda b, x, y: torch.baddbmm(b, x, y, beta=0.5, alpha=2), f32(2, 1, 4), f32(2, 3, 5), f32(2, 5, 4))
    add("baddbmm_without_input", lambda b, x, y: torch.baddbmm(b, x, y, beta=0), f32(2, 1, 4) * float("nan"), f32(2, 3, 5), f32(2, 5, 4))
    add("weight_norm", lambda v, g: torch._weight_norm(v, g, 2), f32(4, 3, 5), f32(1, 1, 5))
    add("weight_norm_first", lambda v, g: torch._weight_norm(v, g, 0), f32(4, 3, 5), f32(4, 1, 1))
    add("weight_norm_core", lambda v, g: torch._weight_norm(v, g, 0), f32(4, 3), f32(4, 1), dialect="core")
    add("instance_norm", lambda x, w, b: F.instance_norm(x, weight=w, bias=b), f32(2, 3, 4, 5), f32(3), f32(3))
    add("instance_norm_core", lambda x: F.instance_norm(x), f32(2, 3, 4, 5), dialect="core")
    add("instance_norm_running", lambda x, m, v: F.instance_norm(x, m, v, use_input_stats=False), f32(2, 3, 6), f32(3), positive(3))
    add("batch_norm_of_batch", lambda x: F.batch_norm(x, None, None, training=True, momentum=0.0), f32(2, 3, 4))
    add("batch_norm_of_image", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True, momentum=0.0), f32(1, 3, 4, 5), f32(3), f32(3))
    add("upsample_bicubic", lambda x: F.interpolate(x, size=(5, 7), mode="bicubic"), f32(1, 2, 3, 4))
    add("upsample_bicubic_smaller", lambda x: F.interpolate(x, scale_factor=(0.5, 0.6), mode="bicubic"), f32(1, 2, 6, 9))
    add("upsample_bicubic_corners", lambda x: F.interpolate(x, size=(2, 9), mode="bicubic", align_corners=True), f32(1, 2, 3, 4))

    add("shifts", lambda x: (x << 2, x >> 1, x << 70, x >> 70, 1 << (x & 7)), integers(5))
    add("shifts_int32", lambda x, y: (torch.bitwise_left_shift(x, y), torch.bitwise_right_shift(x, y)), integers(5, dtype=torch.int32), integers(5, low=0, high=33, dtype=torch.int32))
    add("fmax_nan", lambda x, y: (torch.fmax(x, y), torch.fmin(x, y), torch.maximum(x, y)), torch.tensor([1.0, NAN, NAN, 3.0]), torch.tensor([NAN, 2.0, NAN, -1.0]))

    # Orders, with NaN behind all numbers
    holes = torch.tensor([[2.0, NAN, -1.0, 5.0, 0.5], [NAN, 1.0, NAN, -math.inf, math.inf], [3.0, 1.0, 2.0, 0.0, 4.0]])
    add("sort_nan", lambda x: (*x.sort(1), *x.sort(1, descending=True), *x.topk(2), *x.topk(3, largest=False)), holes)
    add("median", lambda x: (x.median(), x.nanmedian(), x[2].median(), *x[2:].median(1), *x[2:].median(1, keepdim=True)), holes)
    add("kthvalue", lambda x: (*x.kthvalue(2, 1), *x.kthvalue(3, 0, keepdim=True)), f32(4, 5))
    add("running_extremes", lambda x: (*x.cummax(1), *x.cummin(1), *x.cummax(0)), holes)
    add("running_extremes_int", lambda x: (*x.cummax(0), *x.cummin(0)), integers(9, low=0, high=3))
    add("logcumsumexp", lambda x: (x.logcumsumexp(1), x.logcumsumexp(0)), torch.cat([f32(2, 5) * 30, holes[1:2], torch.full((1, 5), -math.inf)]))
    add("norm_least", lambda x: (torch.linalg.vector_norm(x, -math.inf, dim=1), torch.linalg.vector_norm(x, 3, dim=1), torch.linalg.vector_norm(x, 0, dim=1)), f32(3, 5))
    add("norm_nan", lambda x: (torch.linalg.vector_norm(x, math.inf, dim=1), torch.linalg.vector_norm(x, -math.inf, dim=1)), holes[1:].clone().clamp(-9, 9))
    add("logsumexp_nan", lambda x: x.logsumexp(1), holes)

    add("diff_again", lambda x, y: (x.diff(n=2, dim=1), x.diff(n=3, append=y)), f32(2, 6), f32(2, 1))
    add("angle", torch.angle, holes)
    add("ldexp", torch.ldexp, f32(4), integers(4, dtype=torch.int32))
    add("triangle_indices", lambda x: (x[torch.tril_indices(4, 4).unbind(0)], torch.triu_indices(3, 4, 1)), f32(4, 4))

    # Places that data says
    bounds = torch.tensor([-1.0, 0.0, 0.0, 1.5])
    add("bucketize", lambda x, b: (torch.bucketize(x, b), torch.bucketize(x, b, right=True), torch.bucketize(x, b, out_int32=True)), torch.cat([f32(6), bounds, torch.tensor([NAN])]), bounds)
    add("bucketize_int", lambda x, b: torch.bucketize(x, b), integers(3, 4), torch.tensor([-3, 0, 4]))
    add("searchsorted", lambda s, x: (torch.searchsorted(s, x), torch.searchsorted(s, x, side="right"), torch.searchsorted(s[0], x[0])), f32(2, 7).sort(1).values, f32(2, 3))
    for how in ("sum", "prod", "mean", "amax", "amin"):
        add(f"scatter_reduce_{how}", lambda x, i, s, how=how: (x.scatter_reduce(1, i, s, how), x.scatter_reduce(0, i % 2, s, how, include_self=False)), f32(2, 5), integers(2, 4, low=0, high=5), f32(3, 4))
    add("scatter_mean_int", lambda x, i, s: x.scatter_reduce(0, i, s, "mean"), integers(4), torch.tensor([0, 0, 1, 3, 3]), integers(5))
    add("masked_scatter", lambda x, m, s: (x.masked_scatter(m, s), x.masked_scatter(m[:, :1], s)), f32(3, 4), flags(3, 4), f32(20))
    add("index_add", lambda x, i, s: (x.index_add(0, i, s), x.index_add(0, i, s, alpha=2)), f32(4, 3), torch.tensor([1, 3, 1]), f32(3, 3))
    add("repeat_by_counts", lambda x, n: (torch.repeat_interleave(x, n, dim=1, output_size=6), torch.repeat_interleave(n, output_size=6), torch.repeat_interleave(x[0], n, output_size=6)), f32(2, 4), torch.tensor([1, 0, 2, 3]))
    add("diagonal_scatter", lambda x, y: (torch.diagonal_scatter(x, y), torch.diagonal_scatter(x, y[:2], 1)), f32(3, 3), f32(3))
    places = torch.cat([torch.rand(2, 3, 4, 2) * 3 - 1.5, torch.tensor([[-1.0, 1.0], [0.0, NAN], [9.0, -9.0], [1.0, 0.125]]).expand(2, 1, 4, 2)], 1)
    for mode in ("bilinear", "nearest", "bicubic"):
        add(f"grid_sample_{mode}", lambda x, g, mode=mode: F.grid_sample(x, g, mode, align_corners=False), f32(2, 3, 5, 6), places)
        for padding in ("zeros", "border", "reflection"):
            add(f"grid_sample_{mode}_{padding}", lambda x, g, mode=mode, padding=padding: (F.grid_sample(x, g, mode, padding, True), F.grid_sample(x, g, mode, padding, False)),
                f32(2, 3, 5, 6), places.nan_to_num())
    add("grid_sample_volume", lambda x, g: (F.grid_sample(x, g, align_corners=True), F.grid_sample(x, g, "nearest", "border", False)), f32(1, 2, 3, 4, 5), torch.rand(1, 2, 3, 4, 3) * 2.4 - 1.2)
    add("adaptive_max_pool", lambda x: (*F.adaptive_max_pool2d(x, (3, 2), return_indices=True), *F.adaptive_max_pool2d(x, (7, 9), return_indices=True)), f32(2, 3, 7, 5))
    add("adaptive_max_pool_line", lambda x: F.adaptive_max_pool1d(x, 3, return_indices=True), f32(2, 3, 7))
    add("max_pool_line_with_places", lambda x: F.max_pool1d(x, 3, 2, 1, return_indices=True), f32(2, 3, 7))
    add("cdist_of_any_order", lambda x, y: (torch.cdist(x, y, 3.0), torch.cdist(x, y, 0.5), torch.cdist(x, y, 0.0)), f32(2, 4, 3), f32(5, 3))

    # Masks as indices of what is written
    add("index_put_mask", lambda x, m, v: (torch.index_put(x, (m,), v), torch.index_put(x, (m[:, 0],), v)), f32(4, 3), flags(4, 3), f32(1))
    add("index_put_mask_values", lambda x, m, v: torch.index_put(x, (m,), v), f32(5), torch.tensor([True, False, True, True, False]), f32(3))
    add("index_put_mask_mixed", lambda x, m, i, v: torch.index_put(x, (i, m), v, accumulate=True), f32(2, 3, 2), flags(3, 2), torch.tensor([1]), f32(1))
    return found
