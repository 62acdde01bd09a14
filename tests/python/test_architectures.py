"""Small models of Hugging Face's transformers, those that compile in seconds; docs/architectures.md has all of them."""

import warnings

import atalla
import hugging_face
import pytest
import torch
from atalla.backend import atalla as backend
from table import compare, leaves

# Biases that are broadcast into products; grouped heads and rotary embeddings; experts.
NAMES = ["bloom", "qwen2", "mixtral"]


@pytest.mark.parametrize("name", NAMES)
def test_exported(name):
    warnings.filterwarnings("ignore")
    model = hugging_face.build(name)
    expected = leaves(model.run())
    result = leaves(atalla.compile(model.export())(*model.args, **model.kwargs))
    assert len(result) == len(expected) and compare(result, expected)[0] > 0.9995


@pytest.mark.parametrize("name", ["falcon"])
def test_through_torch_compile(name):
    warnings.filterwarnings("ignore")
    torch.compiler.reset()
    model = hugging_face.build(name)
    with torch.no_grad():
        result = leaves(torch.compile(model.module, backend=backend, options={"strict": True})(**model.kwargs))
    assert compare(result, leaves(model.run()))[0] > 0.9995
