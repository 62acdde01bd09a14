"""The importer and its interpreter against the PyTorch that is installed: programs exported now, not the stored ones."""

import os
import pathlib
import subprocess
import sys
import warnings

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import make_fixtures  # noqa: E402
import models  # noqa: E402
import scenarios  # noqa: E402

CHOSEN = {"scenarios": {"index_separated", "attention_masked_row", "conv2d_same", "dynamic_derived", "cond"},
          "models": {"lenet_dynamic", "vit_micro", "tied", "cache", "mlp_core"}}


@pytest.mark.parametrize("kind", CHOSEN)
def test_fresh_exports_compute_what_torch_computes(kind, tmp_path):
    warnings.filterwarnings("ignore")
    cases = [case for case in (scenarios if kind == "scenarios" else models).cases() if case.name in CHOSEN[kind]]
    assert {case.name for case in cases} == CHOSEN[kind]
    make_fixtures.write(tmp_path / f"{kind}.zip", cases)
    result = subprocess.run([os.environ["ATALLA_TEST_GRAPH_IMPORT"], f"--gtest_filter=All/Programs.*/{kind}"],
                            env=os.environ | {"ATALLA_FIXTURES": str(tmp_path)}, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout[-3000:]
    assert "2 tests" in result.stdout
