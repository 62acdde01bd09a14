"""A few graphs of tests/models/random_graphs.py, which compares as many as one likes."""

import pytest
import random_graphs


@pytest.mark.parametrize("seed", range(6))
def test_exported_as_close_as_bf16_of_pytorch(seed):
    errors, standards, good = random_graphs.compare(seed, "ax01", through_backend=False)
    assert good, f"{errors}, PyTorch in bf16 {standards}"


@pytest.mark.parametrize("seed", range(6, 9))
def test_through_torch_compile_as_close_as_bf16_of_pytorch(seed):
    errors, standards, good = random_graphs.compare(seed, "ax01", through_backend=True)
    assert good, f"{errors}, PyTorch in bf16 {standards}"


def test_a_result_that_is_off_is_told_apart(monkeypatch):
    """The comparison sees a result that is off by a tenth of its largest value."""
    import atalla
    compile_graph = atalla.compile
    monkeypatch.setattr(atalla, "compile", lambda *args, **options: lambda *inputs: tuple(
        value + 0.1 * value.abs().max() for value in compile_graph(*args, **options)(*inputs)))
    assert not random_graphs.compare(0, "ax01", through_backend=False)[2]
