"""Modules whose operators have no kernel of their own: the importer takes them apart, or PyTorch's decompositions do."""

import pytest
import torch
import torch.nn as nn

import atalla
from atalla.backend import atalla as backend

f32 = torch.randn


class Attention(nn.Module):
    def forward(self, query, key, value):
        p = torch.einsum("bqhd,bkhd->bhqk", query, key).softmax(-1)
        return torch.einsum("bhqk,bkhd->bqhd", p, value)


class Masked(nn.Module):
    def forward(self, x):
        return torch.where(x > 0.25, x, -1.0) + (x < 0).float()


class Decoder(nn.Module):
    """Of a U-Net: an image grows and meets one that was there before."""

    def __init__(self):
        super().__init__()
        self.up, self.join = nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Conv2d(16, 8, 3, padding=1, padding_mode="reflect")
        self.resize = nn.Upsample(scale_factor=2, mode="bilinear")

    def forward(self, x, before):
        return self.resize(self.join(torch.cat([self.up(x), before], 1)).relu())


class Spectrum(nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x, norm="ortho").abs()


class Rotation(nn.Module):
    """By complex numbers, as Llama's own code has it."""

    def forward(self, x, angles):
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


class Offsets(nn.Module):
    """Rows of odd length that a row is added to: it is repeated in memory, between kernels that have tensors there."""

    def __init__(self):
        super().__init__()
        self.row = nn.Parameter(torch.randn(500))

    def forward(self, x):
        y = x + self.row
        return y, torch.softmax(y, -1) + self.row, y.sum(-1)


class Distances(nn.Module):
    def forward(self, x, y):
        return torch.cdist(x, y)


torch.manual_seed(0)
MODULES = {
    "lstm": (nn.LSTM(16, 24, batch_first=True), f32(2, 5, 16)),
    "gru": (nn.GRU(16, 24), f32(5, 2, 16)),
    "glu": (nn.Sequential(nn.Linear(16, 32), nn.GLU(), nn.PReLU()), f32(4, 16)),
    "attention": (Attention(), f32(1, 9, 2, 16), f32(1, 11, 2, 16), f32(1, 11, 2, 16)),
    "masked": (Masked(), f32(4, 40).bfloat16().float()),   # rounding to bf16 would move numbers beside the threshold across it
    "decoder": (Decoder(), f32(1, 16, 6, 6), f32(1, 8, 12, 12)),
    "generator": (nn.Sequential(nn.ConvTranspose2d(8, 16, 4, stride=2, padding=1), nn.BatchNorm2d(16), nn.Tanh(), nn.PixelShuffle(2)), f32(1, 8, 5, 5)),
    "volume": (nn.Sequential(nn.Conv3d(2, 8, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), nn.Upsample(scale_factor=2, mode="trilinear")), f32(1, 2, 4, 6, 6)),
    "columns": (nn.Unfold(3, padding=1), f32(1, 4, 6, 6)),
    "offsets": (Offsets(), f32(96, 500)),
    "distances": (Distances(), f32(1, 5, 16), f32(1, 7, 16)),
    "bilinear": (nn.Bilinear(8, 16, 12), f32(3, 8), f32(3, 16)),
    "shrunk": (nn.Softshrink(), f32(4, 40)),
    "spectrum": (Spectrum(), f32(4, 32)),
    "loss": (nn.MSELoss(), f32(4, 16), f32(4, 16)),
}


@pytest.mark.parametrize("name", MODULES)
def test_runs_on_the_accelerator(name):
    module, *arguments = MODULES[name]
    module = module.eval()
    compiled = atalla.compile(module, tuple(arguments))
    with torch.no_grad():
        expected = module(*arguments)
    results, expected = (torch.utils._pytree.tree_leaves(value) for value in (compiled(*arguments), expected))
    for result, wanted in zip(results, expected, strict=True):
        assert torch.nn.functional.cosine_similarity(result.flatten().double(), wanted.flatten().double(), 0) > 0.9995
    assert [row["target"] for row in compiled.report()["operators"] if row["on"] == "host"] == []


def test_complex_rotations():
    """What the angles alone decide is the host's."""
    x, angles = f32(2, 5, 16), f32(5, 8)
    module = Rotation()
    torch.testing.assert_close(atalla.compile(module, (x, angles))(x, angles), module(x, angles), rtol=0.03, atol=0.03)


def test_recurrent_layers_run_through_torch_compile():
    torch._dynamo.reset()
    module, x = MODULES["gru"][0].eval(), f32(5, 2, 16)
    compiled = torch.compile(module, backend=backend, options={"strict": True})
    with torch.no_grad():
        assert torch.allclose(compiled(x)[0], module(x)[0], atol=0.02)


@pytest.mark.parametrize("hidden", [None, torch.tensor([[False] * 6, [False] * 4 + [True] * 2])])
def test_encoder_layers_that_pytorch_runs_whole(hidden):
    """Without gradients nn.TransformerEncoderLayer is one operator."""
    torch._dynamo.reset()
    module, x = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True).eval(), f32(2, 6, 32)
    compiled = torch.compile(module, backend=backend, options={"strict": True})
    with torch.no_grad():
        result, expected = compiled(x, src_key_padding_mask=hidden), module(x, src_key_padding_mask=hidden)
    assert torch.nn.functional.cosine_similarity(result.flatten().double(), expected.flatten().double(), 0) > 0.9995


def test_operators_without_a_decomposition_are_named():
    class Unknown(nn.Module):
        def forward(self, x):
            return torch.linalg.eigvalsh(x @ x.T)

    with pytest.raises(atalla.AtallaError, match="aten::linalg_eigvalsh"):
        atalla.compile(Unknown(), (f32(4, 4),))
