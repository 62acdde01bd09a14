"""The form of an exported program that the compiler takes: functional, and without operators that neither side has."""

import json
import subprocess
import warnings

from . import _places
from ._errors import AtallaError

# Decompositions of decompositions are few.
_MOST_ROUNDS = 8


def save_functional(exported, archive):
    """Writes run_decompositions({}) of a program. What neither the accelerator nor the host has is taken apart by PyTorch's own
    decompositions, such as recurrent layers into the steps of their sequence. Where that does not help the program stays as it was, for the
    compiler to name its operators."""
    try:
        functional = program = _decomposed(exported, {})
        _save(program, archive)
    except Exception as error:   # whatever PyTorch says of a program that it exported
        raise AtallaError(f"PyTorch cannot bring the exported program into functional form: {str(error).strip().splitlines()[0]}") from error
    for _ in range(_MOST_ROUNDS):
        missing = _missing(archive)
        if missing == []:
            return
        table = _decompositions(missing or [])
        if not table:
            break
        program = _decomposed(program, table)
        _save(program, archive)
    if program is not functional:
        _save(functional, archive)


def _decomposed(program, table):
    """PyTorch copies its own trees of arguments here, of a class that it has deprecated: nothing that a caller could mend."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)
        return program.run_decompositions(table)


def _save(program, archive):
    """Arguments and results are written in a row. The caller's classes around them (named tuples, dataclasses) and the examples in them are not for
    the compiler, and PyTorch cannot write all of them."""
    import torch
    from torch.utils._pytree import tree_structure
    signatures = [entry.signature for entry in program.module_call_graph if entry.signature is not None]
    nested, examples = [(one.in_spec, one.out_spec) for one in signatures], program.example_inputs
    try:
        for one in signatures:
            one.in_spec = tree_structure((tuple(range(one.in_spec.num_leaves)), {}))
            one.out_spec = tree_structure(tuple(range(one.out_spec.num_leaves)))
        program.example_inputs = None
        torch.export.save(program, archive)
    finally:
        for one, specs in zip(signatures, nested):
            one.in_spec, one.out_spec = specs
        program.example_inputs = examples


def _missing(archive):
    """Names of operators, "aten::gru.input"; None for a program that cannot be read. The compiler's passes, which take some apart, are asked
    only where there may be one."""
    found = []
    for passes in ([], ["--passes"]):
        done = subprocess.run([str(_places.program("atalla-inspect")), str(archive), "--support", "--json", *passes], capture_output=True, text=True)
        if done.returncode != 0:
            return None
        found = [finding["operator"] for finding in json.loads(done.stdout)["support"] if finding["support"] in ("decompose", "unsupported")]
        if not found:
            break
    return found


def _decompositions(missing):
    import torch
    # Those that export takes by itself first: the others are for autograd, too.
    known = {**torch._decomp.decomposition_table, **dict(torch.export.default_decompositions().items())} if missing else {}
    table = {}
    for name in missing:
        namespace, _, operator = name.partition("::")
        packet, _, overload = operator.partition(".")
        found = getattr(getattr(getattr(torch.ops, namespace, None), packet, None), overload or "default", None)
        if found is not None and found in known:
            table[found] = known[found]
    return table
