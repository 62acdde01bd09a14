"""torch.compile with the backend, as users call it."""

import concurrent.futures
import contextlib
import copy
import warnings

import pytest
import torch
import torch.utils._pytree as pytree
from atalla.backend import atalla as backend


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def close(a, b):
    return torch.nn.functional.cosine_similarity(a.double().flatten(), b.double().flatten(), dim=0).item() > 0.9995


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.out(torch.nn.functional.scaled_dot_product_attention(q, k, v)).reshape(x.shape[0], -1)


def test_runs_a_module():
    model = Attention().eval()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    with torch.no_grad():
        x = torch.randn(2, 8, 32)
        assert close(compiled(x), model(x))


def test_sizes_may_change():
    model = Attention().eval()
    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        for size in (2, 3, 5, 1):
            x = torch.randn(size, 8, 32)
            assert close(compiled(x), model(x))


def test_graph_breaks_are_bridged():
    class Breaks(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)

        def forward(self, x):
            x = self.first(x)
            if x.sum() > 0:
                return self.second(x)
            return self.second(-x)

    model = Breaks().eval()
    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        for seed in range(3):
            torch.manual_seed(seed)
            x = torch.randn(4, 16)
            assert close(compiled(x), model(x))


def test_buffers_are_mutated():
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(16, 16)
            self.register_buffer("total", torch.zeros(16))
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

        def forward(self, x):
            self.calls.add_(1)
            self.total.add_(x.sum(0))
            return self.linear(x) + self.total

    torch.manual_seed(0)
    model, other = Counts().eval(), Counts().eval()
    other.load_state_dict(model.state_dict())
    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(4, 16)
            assert close(compiled(x), other(x))
    assert close(model.total, other.total)   # summed in bf16 where the accelerator does it
    assert model.calls == 3


def test_changed_weights_are_seen():
    model = torch.nn.Linear(16, 4).eval()
    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        x = torch.randn(2, 16)
        compiled(x)
        model.weight.mul_(-2)
        assert close(compiled(x), model(x))
        model.weight.data.neg_()   # PyTorch counts no new version of the tensor
        assert close(compiled(x), model(x))


def test_weights_of_inference_mode():
    with torch.inference_mode():
        model = torch.nn.Linear(16, 4).eval()
        x = torch.randn(2, 16)
        assert close(torch.compile(model, backend=backend)(x), model(x))


def test_autocast_inside_of_a_model():
    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)

        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                half = self.first(x)
                with torch.autocast("cpu", enabled=False):
                    whole = self.second(half.float())
            return half, whole, half.float() + 1

    model = Mixed().eval()
    compiled = torch.compile(model, backend=backend, options={"strict": True})
    with torch.no_grad():
        x = torch.randn(2, 16)
        for result, expected in zip(compiled(x), model(x), strict=True):
            assert result.dtype == expected.dtype and close(result, expected)
    assert not torch.is_autocast_enabled("cpu")


def test_operators_may_be_kept_on_the_host():
    model = Attention().eval()
    compiled = torch.compile(model, backend=backend, options={"strict": True, "on_host": ["aten::linear"]})
    with torch.no_grad():
        x = torch.randn(2, 8, 32)
        assert close(compiled(x), model(x))


def test_threads_may_call_first_at_the_same_time():
    model = Attention().eval()
    compiled = torch.compile(model, backend=backend, options={"strict": True})

    def call(size):
        with torch.no_grad():
            x = torch.randn(size, 8, 32)
            return close(compiled(x), model(x))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(call, (2, 2, 3, 4))) == [True] * 4


def test_training_runs_in_pytorch():
    model = torch.nn.Linear(16, 4)
    compiled = torch.compile(model, backend=backend)
    with pytest.warns(UserWarning, match="gradients are needed"):
        compiled(torch.randn(2, 16)).sum().backward()
    assert model.weight.grad is not None


def test_unknown_operators_run_in_pytorch_once_said():
    def function(x):
        return torch.linalg.inv(x) @ x

    compiled = torch.compile(function, backend=backend)
    x = torch.eye(4) * 2
    with torch.no_grad(), pytest.warns(UserWarning, match="linalg_inv"):
        torch.testing.assert_close(compiled(x), function(x))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(x)
    torch.compiler.reset()
    strict = torch.compile(function, backend=backend, options={"strict": True})
    with torch.no_grad(), pytest.raises(Exception, match="linalg_inv"):
        strict(x)


def agree(function, *args, warns=None):
    """Results, their strides, and what the arguments hold afterwards, twice, since the second call finds everything compiled."""
    own = copy.deepcopy(args)
    compiled = torch.compile(function, backend=backend)
    with torch.no_grad(), pytest.warns(UserWarning, match=warns) if warns else contextlib.nullcontext():
        for _ in range(2):
            for a, b in zip(pytree.tree_leaves((compiled(*own), own)), pytree.tree_leaves((function(*args), args)), strict=True):
                torch.testing.assert_close(a, b, rtol=0.02, atol=0.02, check_stride=True)


def test_results_that_are_views_stay_views():
    """Of arguments and of each other: what changes one later changes the other."""
    def of_an_argument(x):
        row, doubled = x[1], x * 2
        torch._dynamo.graph_break()
        row.add_(1)
        return x, row, doubled

    def of_each_other(x):
        y = x + 1
        row, column = y[0], y.t()[0]
        torch._dynamo.graph_break()
        column.mul_(3)
        return y, row, column

    agree(of_an_argument, torch.randn(4, 8))
    agree(of_an_argument, torch.randn(4, 12)[:, 3:9])
    agree(of_each_other, torch.randn(4, 8))


def test_results_are_strided_as_in_pytorch():
    agree(lambda x: ((x + 1).t(), x.t() + 1, (x + 1)[:, ::2], x.t()), torch.randn(4, 6))
    agree(lambda x: ((x + 1).expand(3, 4), (x + 1)[0].expand(2, 3, 4).transpose(0, 1), (x + 1)[0].unfold(0, 2, 1)), torch.randn(1, 4))
    agree(torch.nn.Conv2d(3, 8, 3).requires_grad_(False), torch.randn(1, 3, 8, 8).to(memory_format=torch.channels_last))


def test_arguments_that_share_memory():
    def change(x, y):
        x.add_(1)
        return y * 2

    x = torch.randn(4, 8)
    agree(change, x, x)
    agree(change, x, x[1], warns="a tensor that it changes shares memory with another of its arguments")
    cache = torch.zeros(2, 4, 8)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="atalla")
        agree(change, cache[0], cache[1])   # one storage, but not the same bytes


def test_parameters_that_are_changed():
    class Steps(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.moved, self.still = torch.nn.Parameter(torch.randn(8)), torch.nn.Parameter(torch.randn(8))

        def forward(self, x):
            self.moved.add_(1)
            return x + self.moved + self.still

    model = Steps()
    other = copy.deepcopy(model)
    compiled = torch.compile(model, backend=backend, options={"strict": True})
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(4, 8)
            torch.testing.assert_close(compiled(x), other(x), rtol=0.02, atol=0.05)
    torch.testing.assert_close(model.moved, other.moved, rtol=0.02, atol=0.05)


def test_results_without_arguments_are_tensors():
    agree(lambda: (torch.arange(4) + 1, None))


def test_numbers_may_change():
    def scaled(x, factor):
        return x * factor + factor

    compiled = torch.compile(scaled, backend=backend, options={"strict": True})
    x = torch.randn(4, 8)
    with torch.no_grad():
        for factor in (2, 3, 0.5, 0.25, 0.5):
            torch.testing.assert_close(compiled(x, factor), scaled(x, factor), rtol=0.02, atol=0.02)


def test_many_numbers_run_in_pytorch(monkeypatch):
    monkeypatch.setattr("atalla.backend._MOST_NUMBERS", 2)
    compiled = torch.compile(lambda x, factor: x * factor, backend=backend)
    x = torch.randn(4)
    with torch.no_grad(), pytest.warns(UserWarning, match="numbers among its arguments differ from call to call"):
        for factor in (0.5, 0.25, 0.75, 1.25, 1.5):
            torch.testing.assert_close(compiled(x, factor), x * factor, rtol=0.02, atol=0.02)


@torch._dynamo.config.patch(capture_scalar_outputs=True)
def test_numbers_out_of_data_are_named():
    compiled = torch.compile(lambda x: x[:, :x.argmax().item() + 1] * 2, backend=backend)
    x = torch.tensor([[1.0, 5.0, 2.0]])
    with torch.no_grad(), pytest.warns(UserWarning, match="depend on the values of tensors"):
        torch.testing.assert_close(compiled(x), x[:, :2] * 2)


def test_gradients_of_functions_run_in_pytorch():
    compiled = torch.compile(lambda x: torch.func.grad(lambda y: (y * y).sum())(x), backend=backend)
    x = torch.randn(4)
    with torch.no_grad(), pytest.warns(UserWarning, match="functional form"):
        torch.testing.assert_close(compiled(x), x * 2)


def test_batch_norms_in_training():
    """Without gradients: their statistics are buffers that change."""
    model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.BatchNorm1d(8)).train()
    other = copy.deepcopy(model)
    compiled = torch.compile(model, backend=backend, options={"strict": True})
    with torch.no_grad():
        for _ in range(2):
            x = torch.randn(32, 16)
            assert close(compiled(x), other(x))
    for mine, wanted in zip(model[1].buffers(), other[1].buffers(), strict=True):
        torch.testing.assert_close(mine, wanted, rtol=0.02, atol=0.02)


def test_unknown_options_are_named():
    compiled = torch.compile(torch.nn.Linear(4, 4), backend=backend, options={"machin": "fsim"})
    with torch.no_grad(), pytest.raises(Exception, match="unknown options of the atalla backend: machin"):
        compiled(torch.randn(1, 4))
