"""Compiling, loading, calling and saving."""

import dataclasses
import pathlib
import subprocess
import sys
import threading
import typing
import warnings

import atalla
import numpy
import pytest
import torch
import zoo
from atalla._sizes import bind

ROOT = pathlib.Path(__file__).resolve().parents[2]


def cosine(a, b):
    a, b = (torch.as_tensor(x).double().flatten() for x in (a, b))
    return torch.nn.functional.cosine_similarity(a, b, dim=0).item()


def test_is_close_to_pytorch(compiled, exported):
    _, x, expected = exported
    result = compiled(x)
    assert isinstance(result, torch.Tensor) and result.shape == expected.shape
    assert cosine(result, expected) > 0.9999


def test_compiling_warns_of_nothing(exported):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert atalla.compile(exported[0])(exported[1]).shape == exported[2].shape


def test_takes_numpy_dlpack_and_strided_tensors(compiled, exported):
    _, x, _ = exported
    expected = compiled(x).numpy()
    from_numpy = compiled(x.numpy())
    assert isinstance(from_numpy, numpy.ndarray)
    transposed = x.t().contiguous().t()
    reversed_view = x.numpy()[::-1, ::-1].copy()[::-1, ::-1]

    class OnlyDlpack:
        def __dlpack__(self, **how):
            return x.numpy().__dlpack__(**how)

        def __dlpack_device__(self):
            return x.numpy().__dlpack_device__()

    for result in (from_numpy, compiled(transposed).numpy(), compiled(reversed_view), compiled(OnlyDlpack())):
        numpy.testing.assert_array_equal(result, expected)


def test_saved_model_gives_the_same(compiled, exported, tmp_path):
    _, x, _ = exported
    file = tmp_path / "mlp.atl"
    compiled.save(file)
    loaded = atalla.load(file)
    name = loaded.inputs[0]["name"]
    assert torch.equal(loaded(x), compiled(x))
    assert torch.equal(loaded(**{name: x}), compiled(x))


def test_trace_runs_the_last_call_again(compiled, exported, tmp_path):
    compiled(exported[1])
    cycles, runs = compiled.profile()["cycles"], compiled.profile()["runs"]
    file = tmp_path / "mlp.pftrace"
    compiled.trace(file)
    assert compiled.profile()["cycles"] == cycles and compiled.profile()["runs"] == runs + 1
    assert b"on ax01" in file.read_bytes() and b"gemm.vv" in file.read_bytes()
    with pytest.raises(atalla.AtallaError, match="nowhere"):
        compiled.trace(tmp_path / "nowhere" / "mlp.pftrace")


def test_report_profile_and_counters(compiled, exported):
    compiled(exported[1])
    report = compiled.report()
    assert report["machine"] == "ax01"
    assert any(o["target"] == "aten::linear" and o["on"] == "accelerator" for o in report["operators"])
    profile = compiled.profile()
    assert profile["cycles"] == sum(step["cycles"] for step in profile["steps"]) > 0
    compiled(exported[1])
    assert compiled.counters()["programs_loaded"] == 1


def test_threads_share_a_model(compiled, exported):
    inputs = [exported[1] + i for i in range(3)]
    expected = [compiled(x) for x in inputs]
    results = [None] * len(inputs)

    def call(i):
        results[i] = compiled(inputs[i])

    threads = [threading.Thread(target=call, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(a, b) for a, b in zip(results, expected))


def test_cache_keeps_its_state():
    step = zoo.make("decode_step")
    compiled = atalla.compile(step.export())
    module = step.module
    with torch.no_grad():
        for position in range(4):
            x, where = torch.randn(1, 1, 64), torch.tensor([position])
            assert cosine(compiled(x, where), module(x, where)) > 0.9995
    first = compiled(x, torch.tensor([0]))
    compiled.reset_states()
    assert not torch.equal(compiled(x, torch.tensor([1])), first)


def test_sizes_are_specialized():
    model = torch.nn.Linear(16, 8).eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    exported = torch.export.export(model, (torch.randn(4, 16),), dynamic_shapes=({0: batch},))
    symbol = str(next(iter(exported.range_constraints)))
    compiled = atalla.compile(exported, sizes=[{symbol: 2}, {symbol: 5}])
    for size in (2, 5, 2):
        x = torch.randn(size, 16)
        with torch.no_grad():
            assert cosine(compiled(x), model(x)) > 0.9999
    assert compiled.counters()["programs_loaded"] == 2
    with pytest.raises(atalla.AtallaError, match=r"has sizes \[3, 16\], but the model is compiled for \[2, 16\] or \[5, 16\]"):
        compiled(torch.randn(3, 16))
    with pytest.raises(atalla.AtallaError, match=f"{symbol} = 65 is out of the range of the export"):
        atalla.compile(exported, sizes={symbol: 65})


def test_smaller_calls_are_filled_up():
    torch.manual_seed(0)
    batch = torch.export.Dim("batch", min=1, max=64)
    module = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.LayerNorm(32)).eval()
    exported = torch.export.export(module, (torch.randn(4, 16),), dynamic_shapes=({0: batch},))
    symbol = str(next(iter(exported.range_constraints)))
    compiled = atalla.compile(exported, sizes={symbol: 6}, fill=True)
    x = torch.randn(6, 16)
    whole = compiled(x)
    assert torch.equal(compiled(x[:4]), whole[:4])
    assert compiled.counters()["programs_loaded"] == 1
    mixing = torch.export.export(torch.nn.Softmax(0), (torch.randn(4, 16),), dynamic_shapes=({0: batch},))
    with pytest.raises(atalla.AtallaError, match="aten::softmax.int may mix"):
        atalla.compile(mixing, sizes={str(next(iter(mixing.range_constraints))): 6}, fill=True)


def test_new_sizes_are_compiled_when_they_come(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = torch.nn.Linear(16, 8).eval()
    exported = torch.export.export(model, (torch.randn(4, 16),), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},))
    compiled = atalla.compile(exported)
    with torch.no_grad():
        for size in (4, 3, 7, 3):
            x = torch.randn(size, 16)
            assert cosine(compiled(x), model(x)) > 0.9999
    assert len(list(tmp_path.rglob("*.atl"))) == 2
    with pytest.raises(ValueError, match=r"is 65, but the model was exported for 1 <= s\d+ <= 64"):
        compiled(torch.randn(65, 16))
    with pytest.raises(ValueError, match=r"size\(\)\[1\] is 17, but the model was exported for 16"):
        compiled(torch.randn(4, 17))


def test_sizes_that_follow_from_expressions(tmp_path, monkeypatch):
    """An input whose size is twice a symbol that no size is by itself, and results that are sizes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    class Halves(torch.nn.Module):
        def forward(self, x):
            half = x.shape[1] // 2
            return x[:, :half] + x[:, half:], half, (x.shape[1], "name")

    half = torch.export.Dim("half", min=2, max=32)
    compiled = atalla.compile(torch.export.export(Halves(), (torch.randn(4, 8),), dynamic_shapes=({1: 2 * half},)))
    for size in (12, 8):
        x = torch.randn(4, size)
        result, *sizes = compiled(x)
        assert cosine(result, Halves()(x)[0]) > 0.9999
        assert sizes == [size // 2, (size, "name")]
    with pytest.raises(ValueError, match=r"is 13, but the model was exported for 2\*s\d+"):
        compiled(torch.randn(4, 13))
    with pytest.raises(ValueError, match=r"is 66, but the model was exported for 2\*(s\d+) with 2 <= \1 <= 32"):
        compiled(torch.randn(4, 66))


@pytest.mark.parametrize("expression", ["s7.__class__", "(s7,) * 9", "2 ** s7", "abs(s7)", "2 * s7 +", "s7 // 0", "min() + s7"])
def test_sizes_are_sums_and_products(expression):
    symbols = {"s7": {"name": "s7", "least": 1, "most": 9}}
    assert bind([{"name": "x", "sizes": ["2*s7 + 1"]}], symbols, [(7,)]) == {"s7": 3}
    with pytest.raises(ValueError, match=r"does not say what its symbols are"):
        bind([{"name": "x", "sizes": [expression]}], symbols, [(7,)])


def test_states_go_on_when_sizes_change(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    class Sums(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(8))

        def forward(self, x):
            self.total.add_(x.sum(0))
            return x + self.total

    exported = torch.export.export(Sums(), (torch.ones(4, 8),), dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=64)},))
    compiled = atalla.compile(exported)
    assert [compiled(torch.ones(size, 8))[0, 0].item() for size in (4, 3, 4, 3)] == [5, 8, 12, 15]
    compiled.reset_states()
    assert compiled(torch.ones(4, 8))[0, 0].item() == 5


def test_half_precision_has_a_zero():
    compiled = atalla.compile(torch.nn.ReLU(), (torch.randn(4, 8).half(),))
    x = torch.randn(4, 8).half()
    assert torch.allclose(compiled(x), torch.relu(x), rtol=0.01)


def test_mistakes_have_messages(compiled, exported, tmp_path):
    _, x, _ = exported
    with pytest.raises(ValueError, match="holds float64, but the model takes float32"):
        compiled(x.double())
    with pytest.raises(atalla.AtallaError, match=r"has sizes \[7, 64\], but the model is compiled for \[8, 64\]"):
        compiled(x[:7])
    with pytest.raises(ValueError, match="tensors of torch.sparse_coo are not supported"):
        compiled(x.to_sparse())
    with pytest.raises(ValueError, match="tensors of the device meta are not supported"):
        compiled(x.to("meta"))
    compiled.save(tmp_path / "m.atl")
    loaded = atalla.load(tmp_path / "m.atl")
    with pytest.raises(TypeError, match="the model has no input 'y'"):
        loaded(y=x)
    with pytest.raises(TypeError, match=f"input '{loaded.inputs[0]['name']}' is given twice"):
        loaded(x, **{loaded.inputs[0]["name"]: x})
    with pytest.raises(TypeError, match="missing: "):
        loaded()
    with pytest.raises(atalla.AtallaError, match="No such file"):
        atalla.load(tmp_path / "nothing.atl")
    (tmp_path / "bad.atl").write_bytes(b"x" * 100)
    with pytest.raises(atalla.AtallaError, match="this is not a loadable"):
        atalla.load(tmp_path / "bad.atl")
    with pytest.raises(TypeError, match=r"args is a tuple of the module's arguments, such as \(x,\), not Tensor"):
        atalla.compile(torch.nn.ReLU(), x)
    with pytest.raises(atalla.AtallaError, match="'softmax.int' has no namespace: write aten::softmax.int"):
        atalla.compile(exported[0], on_host="softmax.int")
    with pytest.raises(atalla.AtallaError, match=r"aten::native_dropout[^$]*The module is in training mode: model.eval\(\)"):
        atalla.compile(torch.nn.Dropout(0.5), (x,))
    with pytest.raises(atalla.AtallaError, match="there is no machine"):
        atalla.compile(exported[0], machine="ax02")
    with pytest.raises(atalla.AtallaError, match="ATen has no operator aten::softmaxx"):
        atalla.compile(exported[0], on_host="aten::softmaxx")
    with pytest.raises(atalla.AtallaError, match="mul is complex64: neither the accelerator nor the host computes with such numbers"):
        atalla.compile(Complex(), (x,))
    with pytest.raises(atalla.AtallaError, match="there is no database at .*nothing.db"):
        atalla.compile(exported[0], database=tmp_path / "nothing.db")


class Complex(torch.nn.Module):
    def forward(self, x):
        return x * (1 + 2j)


class Scaled(torch.nn.Module):
    def forward(self, pair, *, scale=1.0):
        return (pair["a"] - pair["b"]) * scale


def test_high_precision_keeps_more_digits_of_long_sums():
    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Linear(4096, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32)).eval()
    x = torch.rand(32, 4096)
    with torch.no_grad():
        expected = layer(x)
    error, cycles = {}, {}
    for precision in ("standard", "high"):
        compiled = atalla.compile(layer, (x,), precision=precision)
        error[precision] = (compiled(x) - expected).square().mean().sqrt().item()
        cycles[precision] = compiled.profile()["cycles"]
    assert error["high"] < error["standard"] / 1.2 and cycles["high"] > cycles["standard"]
    with pytest.raises(atalla.AtallaError, match="--precision: highest not in {standard,high}"):
        atalla.compile(layer, (x,), precision="highest")


def test_other_arguments_than_those_of_the_export_are_refused():
    a, b = torch.randn(4, 32), torch.randn(4, 32)
    compiled = atalla.compile(Scaled(), ({"a": a, "b": b},), {"scale": 3.0})
    assert cosine(compiled({"a": a, "b": b}, scale=3.0), (a - b) * 3) > 0.9995
    with pytest.raises(ValueError, match="argument 'scale' is 5.0, but the model was exported for 3.0"):
        compiled({"a": a, "b": b}, scale=5.0)
    with pytest.raises(TypeError, match="nested or ordered in another way"):
        compiled({"b": b, "a": a}, scale=3.0)
    with pytest.raises(TypeError, match="takes an ExportedProgram, a .pt2 file or a module, not int"):
        atalla.compile(42)


class Results(typing.NamedTuple):
    sum: torch.Tensor
    scale: float


@dataclasses.dataclass
class Sample:
    values: torch.Tensor
    shift: torch.Tensor


def test_classes_around_arguments_and_results():
    """Named tuples and dataclasses, which PyTorch does not write into archives."""
    class Nested(torch.nn.Module):
        def forward(self, sample, *, scale):
            result = torch.nan_to_num(sample.values) + sample.shift   # which PyTorch takes apart
            return Results(result * scale, scale), {"last": Sample(result, sample.shift)}

    torch.export.register_dataclass(Sample)
    model, sample = Nested(), Sample(torch.randn(4, 8), torch.randn(8))
    of_tuple, of_dict = atalla.compile(model, (sample,), {"scale": 2.0})(sample, scale=2.0)
    expected = model(sample, scale=2.0)[0]
    assert isinstance(of_tuple, Results) and of_tuple.scale == 2.0 and cosine(of_tuple.sum, expected.sum) > 0.9995
    assert isinstance(of_dict["last"], Sample) and cosine(of_dict["last"].shift, sample.shift) > 0.9995


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_masks_of_the_most_negative_number(dtype):
    """A finite number stays finite: 0 times it is 0, and a row that is hidden whole has equal weights."""
    lowest = torch.finfo(dtype).min

    class Masked(torch.nn.Module):
        def forward(self, scores, keep, added, query):
            return (torch.softmax(scores.masked_fill(~keep, lowest), -1), torch.softmax(scores + (1 - keep.to(dtype)) * lowest, -1),
                    torch.softmax(torch.where(keep, scores, lowest), -1), torch.softmax(scores + added, -1),
                    torch.nn.functional.scaled_dot_product_attention(query, query, query, attn_mask=added))

    keep = torch.tensor([[True] * 4, [False] * 4, [True, False] * 2, [False, True] * 2])
    args = torch.randn(4, 4, dtype=dtype), keep, torch.zeros(4, 4, dtype=dtype).masked_fill(~keep, lowest), torch.randn(1, 2, 4, 8, dtype=dtype)
    compiled = atalla.compile(Masked(), args)
    for result, expected in zip(compiled(*args), Masked()(*args), strict=True):
        torch.testing.assert_close(result, expected, rtol=0.02, atol=0.02)


def test_tensors_that_are_negative_by_a_mark():
    marked = torch.randn(4, 32, dtype=torch.complex64).conj().imag
    assert marked.is_neg()
    compiled = atalla.compile(torch.nn.ReLU(), (torch.randn(4, 32),))
    assert cosine(compiled(marked), torch.relu(marked)) > 0.9995


def test_import_needs_no_torch():
    code = "import sys, atalla; assert 'torch' not in sys.modules; print(atalla.version())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "python", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_vision_transformer_is_one_program_of_the_functional_machine():
    """Upstream's program of such a model takes 98,600 packets or more."""
    model = zoo.make("vit_micro")
    compiled = atalla.compile(model.export(), machine="fsim")
    assert cosine(compiled(*model.args), model.run()[0]) > 0.9995
    assert all(operator["on"] == "accelerator" for operator in compiled.report()["operators"])
    counters = compiled.counters()
    assert (counters["device_calls"], counters["host_calls"]) == (1, 0)
    assert counters["packets"] <= 40_000


def test_kernels_take_nothing_that_others_left_in_the_pads():
    """A NaN of an earlier kernel stays in the pads, where a last block of 16 output channels has no weights."""
    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution = torch.nn.Conv2d(32, 48, 3, 2, 1)

        def forward(self, numbers, image):
            return torch.softmax(numbers + numbers.t(), -1), self.convolution(image)

    torch.manual_seed(0)
    model, inputs = Both().eval(), (torch.full((256, 256), float("nan")), torch.randn(1, 32, 8, 8))
    result = atalla.compile(model, inputs)(*inputs)[1]
    with torch.no_grad():
        assert cosine(result, model(*inputs)[1]) > 0.9999
