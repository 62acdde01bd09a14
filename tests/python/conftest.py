import gc
import pathlib
import sys

import pytest

root = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(root / "python"), str(root / "tests" / "models")]


def pytest_collection_finish():
    """What the imports made stays: looking through all of PyTorch again and again for garbage takes a part of the tests' time that one sees."""
    gc.collect()
    gc.freeze()


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
