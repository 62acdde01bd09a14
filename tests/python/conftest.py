import pathlib
import sys

import pytest

root = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(root / "python"), str(root / "tests" / "models")]


@pytest.fixture(scope="session")
def exported():
    """An exported MLP, its input and PyTorch's output."""
    import zoo
    model = zoo.make("mlp")
    return model.export(), model.args[0], model.run()[0]


@pytest.fixture(scope="session")
def compiled(exported):
    import atalla
    return atalla.compile(exported[0])
