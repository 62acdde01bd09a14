"""Compiles PyTorch models for the Atalla Ax01 accelerator and runs them on its simulator.

    compiled = atalla.compile(torch.export.export(model, (x,)))
    y = compiled(x)
    compiled.save("model.atl")

    model = torch.compile(model, backend="atalla")
"""

from ._errors import AtallaError
from ._library import version
from .model import CompiledModel, compile, load

__all__ = ["AtallaError", "CompiledModel", "compile", "load", "version"]
__version__ = "0.1.0"
