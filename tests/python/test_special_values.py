"""NaN, infinities and zeros where PyTorch has them."""

import math

import pytest
import torch

import atalla

inf, nan = math.inf, math.nan
SPECIAL = torch.tensor([1.0, -2.0, 0.0, -0.0, inf, -inf, nan, 0.25])


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def pairs():
    count = len(SPECIAL)
    return SPECIAL.repeat(count), SPECIAL.repeat_interleave(count)


FUNCTIONS = {
    "clamp": lambda x, y: (x.clamp(min=nan), x.clamp(max=nan), x.clamp(nan, 1.0), x.clamp(0.0, nan), x.clamp(-inf, inf)),
    "lerp": lambda x, y: (torch.lerp(x, y, 0.25), torch.lerp(x, y, 0.5), torch.lerp(x, y, 0.75)),
    "lerp_tensor": lambda x, y: (torch.lerp(x, y, torch.full_like(x, 0.25)), torch.lerp(x, y, torch.full_like(x, 0.75)), torch.lerp(x, x + 1, y)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_are_those_of_pytorch(name):
    args = pairs()
    for index, (result, expected) in enumerate(zip(atalla.compile(Function(FUNCTIONS[name]), args)(*args), FUNCTIONS[name](*args), strict=True)):
        torch.testing.assert_close(result, expected, rtol=0.02, atol=0.02, equal_nan=True, msg=lambda text: f"{name}, result {index}: {text}")


ZEROS = {
    "softshrink": (torch.nn.functional.softshrink, torch.tensor([-0.0, 0.0, -0.25, 0.25, -0.5, 0.5, -3.0, 3.0, inf, -inf, nan])),
    "logsigmoid": (torch.nn.functional.logsigmoid, torch.tensor([200.0, inf, 3.0, -200.0, -inf, nan])),
    "prelu": (lambda x: torch.nn.functional.prelu(x, torch.tensor([0.25])), torch.tensor([-0.0, 0.0, -1e-40, -2.0, 2.0, inf, -inf, nan])),
    "cumsum": (lambda x: torch.cumsum(x, 0), torch.tensor([-0.0, -0.0, 0.0, -0.0])),
}


@pytest.mark.parametrize("name", ZEROS)
def test_zeros_have_the_signs_of_pytorch(name):
    function, x = ZEROS[name]
    result, expected = atalla.compile(Function(function), (x,))(x), function(x).bfloat16().float()
    torch.testing.assert_close(result, expected, rtol=0.02, atol=1e-30, equal_nan=True)
    assert torch.equal(torch.signbit(result)[expected == 0], torch.signbit(expected)[expected == 0]), (result, expected)


def test_lerp_keeps_a_small_end_beside_a_large_one():
    def between(x, y):
        return torch.lerp(x, y, 1.0), torch.lerp(x, y, torch.ones(4))

    x, y = torch.full((4,), 1000.0), torch.full((4,), 0.001)
    for result in atalla.compile(Function(between), (x, y))(x, y):
        torch.testing.assert_close(result, y, rtol=0.02, atol=0)
