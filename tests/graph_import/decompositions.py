"""Operators that the importer takes apart (graph_import/decompositions), in odd shapes and with constants where those are needed."""

import math

import torch
import torch.nn.functional as F
from transformers.integrations import moe  # noqa: F401, which registers its operators

from case import Case, Function
from scenarios import f32, positive


def assigned(x, y):
    x = x.clone()
    x[:, 1] = y
    x[:, 2:, :] = y * 2
    return x.square()


def halves(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def pairs(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def repeated(x, times):
    batch, heads, tokens, depth = x.shape
    return x[:, :, None].expand(batch, heads, times, tokens, depth).reshape(batch, heads * times, tokens, depth)


def grouped_attention(q, k, v):
    return F.scaled_dot_product_attention(q, repeated(k, 3), repeated(v, 3), is_causal=True)


def cases():
    found = []

    def add(name, function, *tensors, dialect="functional"):
        found.append(Case(name, lambda: Function(function), lambda: (tensors, {}), None, dialect, None))

    def add_transposed(name, size, weight, dims, bias=True, **how):
        w, b = f32(*weight), f32(weight[1] * how.get("groups", 1)) if bias else None
        convolve = F.conv_transpose1d if dims == 1 else F.conv_transpose2d
        add(name, lambda x: convolve(x, w, b, **how), f32(*size))

    torch.manual_seed(0)
    add("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), f32(5, 7), f32(7), f32(5, 1))
    add("addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=2), f32(5, 7), f32(5, 7), positive(7))
    add("lerp", lambda x, y: torch.lerp(x, y, 0.3), f32(3, 5), f32(5))
    add("lerp_tensor", torch.lerp, f32(3, 5), f32(3, 5), f32(3, 1))
    add("prelu", F.prelu, f32(2, 3, 4), f32(3))
    add("prelu_one", F.prelu, f32(2, 3, 4), f32(1))
    add("prelu_rows", F.prelu, f32(2, 3), f32(3))
    add("prelu_core", F.prelu, f32(2, 3, 4), f32(3), dialect="core")
    add("selu", F.selu, f32(3, 5))
    add("celu", lambda x: F.celu(x, 1.7), torch.cat([f32(13), torch.tensor([math.nan, math.inf, -math.inf])]))
    add("log_sigmoid", F.logsigmoid, torch.cat([f32(13), torch.tensor([40.0, -40.0, 0.0])]))
    add("mish", F.mish, f32(3, 5) * 3)
    add("threshold", lambda x: F.threshold(x, 0.25, -1.0), torch.cat([f32(13), torch.tensor([0.25, math.nan, math.inf, -math.inf])]))
    add("glu", lambda x: F.glu(x, 1), f32(2, 6, 5))
    add("glu_last", F.glu, f32(3, 10))
    special = torch.cat([f32(5), torch.tensor([0.0, -0.0, math.nan, math.inf, -math.inf])])
    add("clamp_tensors", lambda x, a, b: (x.clamp(a, b), x.clamp(min=a), x.clamp(max=b), torch.clamp_min(x, a)), special, f32(10), f32(10) + 1)
    add("masked_fill_tensor", lambda x, m, v: x.masked_fill(m, v), f32(3, 4), torch.rand(3, 4) > 0.5, torch.tensor(2.5))
    add("sign", lambda x: (x.sign(), x.sgn()), special)
    add("softshrink", F.softshrink, special)
    add("logarithms", lambda x: (x.log2(), x.log10()), positive(3, 5) * 9)
    add("triangles", lambda x: (x.tril(), x.triu(1), x.tril(-1)), torch.cat([f32(2, 4, 5), torch.full((1, 4, 5), math.nan)]))
    add("distance", lambda x, y: (torch.dist(x, y), torch.dist(x, y, 1.0), torch.dist(x, y, math.inf)), f32(3, 5), f32(5))
    add("outer", torch.outer, f32(5), f32(7))

    add("var", lambda x: (x.var(1), x.var(), x.var((0, 2), unbiased=False, keepdim=True), x.var(-1, correction=3)), f32(5, 7, 6))
    add("std", lambda x: (x.std(1), x.std(), x.std((0, 2), unbiased=False, keepdim=True), x.std(-1, correction=3)), f32(5, 7, 6))
    add("norm", lambda x: (torch.linalg.vector_norm(x, dim=1), torch.linalg.vector_norm(x, ord=1), torch.linalg.vector_norm(x, ord=math.inf, dim=(0, 2), keepdim=True)), f32(3, 4, 5))
    add("logsumexp", lambda x: (x.logsumexp(1), x.logsumexp((0, 2), keepdim=True)), f32(3, 4, 5) * 50)
    add("logsumexp_infinite", lambda x: x.logsumexp(1), torch.tensor([[1, -math.inf], [-math.inf, -math.inf], [math.inf, 2], [3, math.nan]]))
    add("max_values", lambda x: (x.max(1).values, x.min(-1, keepdim=True).values), f32(3, 4, 5))
    add("adaptive_max", lambda x: F.adaptive_max_pool2d(x, 1), f32(2, 3, 5, 7))

    add("adaptive_max_tiles", lambda x: (F.adaptive_max_pool2d(x, (3, 2)), F.adaptive_max_pool1d(x[0], 2)), f32(2, 3, 6, 4))
    add("distances", lambda x, y: (torch.cdist(x, y), torch.cdist(x, y[0], 1.0), torch.cdist(x[0], y, math.inf)), f32(2, 5, 4), f32(2, 3, 4))
    add("distances_of_many", torch.cdist, f32(30, 4), f32(40, 4))
    add("moments", lambda x: (*torch.var_mean(x, 1), *torch.std_mean(x, (0, 2), keepdim=True), *torch.var_mean(x, unbiased=False), *torch.std_mean(x, -1, correction=3)), f32(5, 7, 6))
    add("moments_core", lambda x: torch.var_mean(x, 1), f32(5, 7), dialect="core")
    add("bilinear_forms", lambda x, y, w, b: (F.bilinear(x, y, w, b), F.bilinear(x[0], y[0], w)), f32(2, 3, 4), f32(2, 3, 5), f32(6, 4, 5), f32(6))
    add("bags", lambda i, w: (F.embedding_bag(i, w, mode="sum"), F.embedding_bag(i, w), F.embedding_bag(i, w, mode="max"), F.embedding_bag(i, w, padding_idx=0)), torch.randint(6, (3, 4)), f32(6, 5))
    add("bags_of_sizes", lambda i, o, w, s: (F.embedding_bag(i, w, o), F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s), F.embedding_bag(i, w, o[:-1], include_last_offset=True)),
        torch.randint(6, (9,)), torch.tensor([0, 4, 4, 7]), f32(6, 5), f32(9))
    add("bags_core", lambda i, w: F.embedding_bag(i, w), torch.randint(6, (3, 4)), f32(6, 5), dialect="core")

    add("columns", lambda x: (F.unfold(x, 3, padding=1), F.unfold(x, (2, 3), stride=(2, 1), dilation=(1, 2)), F.unfold(x[0], (3, 2), stride=(3, 2))), f32(2, 3, 6, 8))
    add("image_of_columns", lambda x: (F.fold(x, (6, 7), 3, padding=1), F.fold(x[:, :, :20], (6, 7), (3, 3))), f32(2, 27, 42))
    add("image_of_tiles", lambda x: F.fold(x, (6, 8), (3, 2), stride=(3, 2)), f32(2, 12, 8))
    add("volume_max", lambda x: (F.max_pool3d(x, 2), F.max_pool3d(x, (3, 2, 3), (2, 1, 2), 1), F.max_pool3d(x[0], 3, 2, ceil_mode=True)), f32(2, 3, 5, 6, 7))
    add("volume_max_core", lambda x: F.max_pool3d(x, 2), f32(2, 3, 4, 6, 6), dialect="core")
    add("volume_mean", lambda x: (F.avg_pool3d(x, 2), F.avg_pool3d(x, (3, 2, 3), (2, 1, 2), 1), F.avg_pool3d(x[0], 3, 2)), f32(2, 3, 5, 6, 7))
    add("volume_adaptive", lambda x: (F.adaptive_avg_pool3d(x, (2, 3, 4)), F.adaptive_avg_pool3d(x, 1), F.adaptive_avg_pool3d(x[0], (4, 2, 8)), F.adaptive_max_pool3d(x, (2, 3, 4)), F.adaptive_max_pool3d(x, 1)),
        f32(2, 3, 4, 6, 8))
    add("volume_adaptive_core", lambda x: F.adaptive_avg_pool3d(x, (2, 3, 4)), f32(2, 3, 4, 6, 8), dialect="core")
    add("local_response", lambda x: F.local_response_norm(x, 3), f32(2, 6, 5, 4))

    rotary = torch.polar(torch.ones(5, 4), f32(5, 4))
    turned = lambda x, by: torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * by).flatten(-2)
    add("complex_rotary_of_angles", lambda x, a: turned(x, torch.polar(torch.ones_like(a), a)[None, None]), f32(2, 3, 5, 8), f32(5, 4))
    add("complex_rotary_of_constants", lambda x: turned(x, rotary), f32(2, 3, 5, 8))
    add("complex_arithmetic", lambda x, y: ((z := torch.complex(x, y)), (w := z * z.conj() - z / 2 + x), (w.real, w.imag, z.abs(), z.angle(), (2 * z + 1).imag))[2], f32(3, 5), f32(3, 5))
    add("complex_parts", lambda x, y: ((z := torch.complex(x, y)), [torch.view_as_real(part) for part in (*z.t().split(2), torch.cat((z[:, 1:3], z), 1)[None], z.sum(0), z @ z.t())])[1], f32(3, 5), f32(3, 5))
    add("fourier", lambda x: torch.view_as_real(torch.fft.fft(x)), f32(3, 12), dialect="core")
    add("fourier_real", lambda x: (torch.fft.rfft(x, dim=0).abs(), torch.fft.fft2(x).real, torch.fft.rfft2(x, norm="ortho").imag), f32(5, 8), dialect="core")
    add("fourier_back", lambda x: (torch.fft.irfft(torch.fft.rfft(x) * 2), torch.fft.irfft(torch.fft.rfft(x, norm="ortho"), 7, norm="ortho"), torch.fft.irfft2(torch.fft.rfft2(x)), torch.fft.ifft(torch.fft.fft(x, norm="forward"), norm="forward").real),
        f32(4, 7), dialect="core")
    add("fourier_of_windows", lambda x: torch.stft(x, 16, 8, window=torch.hann_window(16), return_complex=True).abs(), f32(2, 64), dialect="core")

    add("repeat", lambda x: (x.repeat(2, 1, 3), x.repeat(1, 4)), f32(2, 3))
    add("tile", lambda x: (torch.tile(x, (2,)), torch.tile(x, (2, 3, 1))), f32(3, 5))
    add("repeat_interleave", lambda x: (x.repeat_interleave(3, dim=1), x.repeat_interleave(2, dim=-1)), f32(2, 3, 4))
    add("unfold", lambda x: (x.unfold(1, 3, 3), x.unfold(-1, 3, 2), x.unfold(0, 2, 1)), f32(3, 7, 5))
    add("select_scatter", lambda x, y: (torch.select_scatter(x, y, 1, 2), torch.select_scatter(x, y, 1, -1)), f32(3, 4, 5), f32(3, 5))
    add("slice_scatter", lambda x, y: (torch.slice_scatter(x, y, 1, 1, 3), torch.slice_scatter(x, y, 1, -2), torch.slice_scatter(x, x * 2, 1)), f32(3, 4, 5), f32(3, 2, 5))
    add("assigned", assigned, f32(3, 4, 5), f32(5))
    add("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), f32(2, 8, 2, 3))
    add("pixel_shuffle_image", lambda x: F.pixel_shuffle(x, 3), f32(9, 2, 3))
    add("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), f32(2, 3, 4, 6))
    add("channel_shuffle", lambda x: F.channel_shuffle(x, 3), f32(2, 6, 3, 5))

    add("nearest", lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 7)), F.interpolate(x, size=(2, 2)), F.interpolate(x, scale_factor=(1, 3))), f32(2, 3, 3, 4))
    add("nearest_by_scales", lambda x: torch.ops.aten.upsample_nearest2d(x, [4, 11], 1.5, 1.15), f32(2, 3, 3, 10))
    add("nearest_of_fixed_sizes", lambda x: torch.ops.aten.upsample_nearest2d(x, [3, 8], 1.3, 2.2), f32(2, 3, 3, 4))
    add("bilinear", lambda x: (F.interpolate(x, scale_factor=2, mode="bilinear"), F.interpolate(x, size=(5, 3), mode="bilinear"), F.interpolate(x, size=(5, 7), mode="bilinear", align_corners=True)), f32(2, 3, 3, 4))
    add("bicubic", lambda x: (F.interpolate(x, size=(5, 7), mode="bicubic"), F.interpolate(x, scale_factor=(0.7, 1.6), mode="bicubic")), f32(2, 3, 4, 5))
    add("nearest_exact", lambda x: (F.interpolate(x, size=(5, 7), mode="nearest-exact"), F.interpolate(x, scale_factor=(0.6, 1.7), mode="nearest-exact")), f32(2, 3, 5, 6))
    add("smooth", lambda x: (F.interpolate(x, size=(4, 5), mode="bilinear", antialias=True), F.interpolate(x, size=(4, 11), mode="bicubic", antialias=True), F.interpolate(x, scale_factor=0.6, mode="bilinear", antialias=True)),
        f32(2, 3, 9, 8))
    add("smooth_corners", lambda x: (F.interpolate(x, size=(4, 5), mode="bilinear", antialias=True, align_corners=True), F.interpolate(x, size=(4, 11), mode="bicubic", antialias=True, align_corners=True)), f32(2, 3, 9, 8))
    add("lines", lambda x: (F.interpolate(x, scale_factor=1.7), F.interpolate(x, size=5, mode="linear"), F.interpolate(x, size=9, mode="nearest-exact"), F.interpolate(x, scale_factor=1.7, mode="linear", align_corners=True)), f32(2, 3, 7))
    add("volumes", lambda x: (F.interpolate(x, size=(4, 7, 5)), F.interpolate(x, size=(4, 7, 5), mode="trilinear"), F.interpolate(x, scale_factor=2, mode="trilinear", align_corners=True), F.interpolate(x, scale_factor=(2, 1, 3)),
                              F.interpolate(x, size=(2, 9, 7), mode="nearest-exact")), f32(2, 3, 3, 5, 4))
    add("volumes_core", lambda x: F.interpolate(x, scale_factor=(1.4, 0.7, 2.1), mode="trilinear"), f32(1, 2, 3, 5, 4), dialect="core")
    add("replicate_volume", lambda x: F.pad(x, (1, 2, 0, 1, 2, 0), mode="replicate"), f32(1, 2, 3, 4, 5))
    add("reflect", lambda x: (F.pad(x, (1, 2), mode="reflect"), F.pad(x[0], (2, 0), mode="reflect")), f32(2, 3, 5))
    add("replicate", lambda x: F.pad(x, (1, 2, 3, 0), mode="replicate"), f32(1, 2, 3, 4))
    add("circular", lambda x: F.pad(x, (0, 2, 1, 1), mode="circular"), f32(2, 3, 3, 4))

    add_transposed("transposed_tiles", (2, 6, 3, 4), (6, 5, 2, 2), 2, stride=2)
    add_transposed("transposed_overlapping", (2, 6, 3, 4), (6, 5, 4, 4), 2, stride=2, padding=1)
    add_transposed("transposed_odd", (1, 6, 3, 4), (6, 5, 3, 5), 2, stride=(2, 3), padding=(1, 2), output_padding=(1, 0))
    add_transposed("transposed_groups", (2, 6, 3, 4), (6, 5, 3, 3), 2, stride=2, padding=1, groups=3)
    add_transposed("transposed_same", (2, 6, 5, 4), (6, 5, 3, 3), 2, padding=1, bias=False)
    add_transposed("transposed_wide_steps", (1, 2, 3, 3), (2, 3, 2, 1), 2, stride=3, bias=False)
    add_transposed("transposed_line", (2, 6, 5), (6, 4, 4), 1, stride=2, padding=1)

    add("einsum_attention", lambda q, k: torch.einsum("bhid,bhjd->bhij", q, k), f32(2, 3, 4, 5), f32(2, 3, 6, 5))
    add("einsum_dots", lambda x, y: (torch.einsum("...ij,jk->...ik", x, y), torch.einsum("...i,...i->...", x, x)), f32(2, 3, 4, 5), f32(5, 6))
    add("einsum_implicit", lambda x, y: torch.einsum("kb, ab", x, y), f32(3, 4), f32(5, 4))
    add("einsum_outer", lambda x, y: torch.einsum("i,j->ji", x, y), f32(3), f32(4))
    add("einsum_sums", lambda x, y: torch.einsum("bij,jk->bk", x, y), f32(2, 3, 4), f32(4, 5))
    add("einsum_one", lambda x: (torch.einsum("ijk->kj", x), torch.einsum("ijk->kji", x)), f32(2, 3, 4))
    add("einsum_three", lambda x, y, z: torch.einsum("bi,ij,bj->b", x, y, z), f32(2, 3), f32(3, 4), f32(2, 4))
    add("einsum_rows", lambda x, y: torch.einsum("bhwc,hkc->bhwk", x, y), f32(2, 3, 4, 5), f32(3, 6, 5))

    add("rotary_halves", lambda x, c, s: x * c + halves(x) * s, f32(1, 3, 5, 8), f32(5, 8), f32(5, 8))
    add("rotary_pairs", lambda x, c, s: x * c + pairs(x) * s, f32(1, 3, 5, 8), f32(5, 8), f32(5, 8))
    add("rotary_part", lambda x: torch.cat((halves(x[..., :4]), x[..., 4:]), -1), f32(2, 5, 12))
    add("rotary_long", halves, f32(3, 258))
    add("rotary_of_infinities", lambda x: halves(x.masked_fill(x > 0, -math.inf)), f32(3, 8))
    add("grouped_queries", grouped_attention, f32(2, 6, 5, 4), f32(2, 2, 5, 4), f32(2, 2, 5, 4))
    add("grouped_queries_of_one_head", lambda q, k, v: F.scaled_dot_product_attention(q, repeated(k, 3), repeated(v, 3)), f32(2, 1, 5, 4), f32(2, 2, 5, 4), f32(2, 2, 5, 4))
    add("grouped_queries_unlike", lambda q, k, v: F.scaled_dot_product_attention(q, repeated(k, 3), v), f32(2, 6, 5, 4), f32(2, 2, 5, 4), f32(2, 6, 5, 4))
    def add_attention(name, function, *more, heads=3):
        add("attention_" + name, function, f32(2, heads, 5, 4), f32(2, 3, 6, 4), f32(2, 3, 6, 4), *more)

    causal = torch.ones(5, 6, dtype=torch.bool).tril()
    lowest = torch.tensor(torch.finfo(torch.float32).min)
    add_attention("scaled", lambda q, k, v: (q @ k.transpose(-2, -1) * 0.25).softmax(-1) @ v)
    add_attention("of_columns", lambda q, k, v: (q @ k.permute(0, 1, 3, 2).contiguous() / math.sqrt(4)).softmax(3) @ v)
    add_attention("biased", lambda q, k, v, bias, mask: (q @ k.transpose(-2, -1) / 2 + bias + mask).softmax(-1) @ v, f32(3, 5, 6), f32(2, 1, 1, 6))
    add_attention("hidden", lambda q, k, v: (q @ k.transpose(-2, -1)).masked_fill(~causal, -math.inf).softmax(-1) @ v)
    add_attention("causal", lambda q, k, v: torch.where(causal[:, :5], q @ k[:, :, :5].transpose(-2, -1), lowest).softmax(-1) @ v[:, :, :5])
    add_attention("masked", lambda q, k, v, hides: (q @ k.transpose(-2, -1)).masked_fill(hides, -1e9).softmax(-1) @ v, torch.rand(2, 1, 5, 6) > 0.5)
    add_attention("masked_rows", lambda q, k, v: (q @ k.transpose(-2, -1)).masked_fill(torch.arange(5)[:, None] > 3, -1e9).softmax(-1) @ v)
    add_attention("seen", lambda q, k, v, seen: torch.where(seen, q @ k.transpose(-2, -1), -math.inf).softmax(-1) @ v, torch.rand(2, 1, 5, 6) > 0.2)
    add("attention_of_one_batch", lambda q, k, v: torch.bmm(torch.softmax(torch.bmm(q, k), 2), v), f32(3, 5, 4), f32(3, 4, 6), f32(3, 6, 2))
    add_attention("with_weights", lambda q, k, v: ((w := (q @ k.transpose(-2, -1)).softmax(-1)) @ v, w))
    add_attention("of_one_head", lambda q, k, v: (q @ k.transpose(-2, -1)).softmax(-1) @ v, heads=1)
    add_attention("of_more_masks", lambda q, k, v, hides: (q[:1] @ k[:1].transpose(-2, -1)).masked_fill(hides, -math.inf).softmax(-1) @ v[:1], torch.rand(2, 1, 5, 6) > 0.8)
    add_attention("along_queries", lambda q, k, v: (q @ k.transpose(-2, -1)).softmax(-2) @ v)

    def add_in_depth(name, size, weight, dialect="functional", **how):
        w, b = f32(*weight), f32(weight[0])
        add(name, lambda x: F.conv3d(x, w, b, **how), f32(*size), dialect=dialect)

    add_in_depth("volume_patches", (2, 3, 5, 4, 6), (8, 3, 2, 2, 3), stride=(2, 2, 3))
    add_in_depth("volume_windows", (1, 2, 4, 5, 5), (3, 2, 3, 3, 3), padding=1)
    add_in_depth("volume_strides", (1, 4, 7, 6, 5), (4, 2, 2, 3, 1), stride=(2, 1, 2), dilation=(2, 1, 1), padding=(1, 0, 1), groups=2)
    add_in_depth("volume_same", (2, 5, 4, 4), (3, 2, 3, 1, 3), padding="same")
    add_in_depth("volume_core", (1, 2, 4, 4, 4), (3, 2, 2, 2, 2), dialect="core")
    small = lambda *size: torch.randint(-4, 5, size).bfloat16()   # sums of such numbers are exact
    ends = torch.tensor([3, 3, 8, 11], dtype=torch.int32)   # a group without rows, and rows of none
    add("grouped_products", lambda x, w, e: torch.ops.aten._grouped_mm(x, w, e), small(11, 16), small(4, 16, 24), ends)
    def add_layer(name, mask=None, mask_type=None, gelu=False, norm_first=False):
        sizes = [(36, 12), (36,), (12, 12), (12,)], [(12,), (12,), (12,), (12,), (20, 12), (20,), (12, 20), (12,)]
        first, rest = ([f32(*size) for size in part] for part in sizes)
        add(name, lambda x: torch._transformer_encoder_layer_fwd(x, 12, 3, *first, gelu, norm_first, 1e-3, *rest, mask, mask_type), f32(2, 5, 12))

    keys = torch.arange(5) >= torch.tensor([[4], [3]])   # hidden
    add_layer("encoder_layer")
    add_layer("encoder_layer_norm_first", gelu=True, norm_first=True)
    add_layer("encoder_layer_causal", torch.full((5, 5), -math.inf).triu(1), 0)
    add_layer("encoder_layer_of_keys", keys, 1)
    add_layer("encoder_layer_of_keys_and_queries", (keys[:, None, None] | torch.ones(5, 5, dtype=torch.bool).triu(1)).expand(2, 3, 5, 5), 2)

    def projected(x):   # as nn.MultiheadAttention projects to queries, keys and values
        q, k, v = F.linear(x, weights, biases).unflatten(-1, (3, 8)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        return q.view(5, 4, 4).transpose(0, 1) @ k.view(5, 4, 4).permute(1, 2, 0) @ v.view(5, 4, 4).transpose(0, 1)

    weights, biases = f32(24, 7), f32(24)
    add("projected_parts", projected, f32(5, 2, 7))
    add("projected_rows", lambda x: F.linear(x, weights, biases).view(5, 6, 8)[1:4], f32(5, 2, 7))
    add("grouped_products_of_transformers", lambda x, w, e: torch.ops.transformers.grouped_mm_fallback(x, w, e), f32(12, 7), f32(4, 7, 5), ends)
    return found
