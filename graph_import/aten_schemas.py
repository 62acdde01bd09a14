"""Writes aten_schemas.txt: argument names, types and defaults of the ATen operators that exported programs may call.

Run with the Python that has the torch of requirements-test.txt: python graph_import/aten_schemas.py
"""

import pathlib
import re

import torch

# Families of one backend, of training or of sparse tensors, and TorchScript's own: no exported inference program has them.
SKIPPED_NAMES = re.compile(
    r"backward|^_?foreach|^_fused|cudnn|mkldnn|miopen|mps|cuda|sparse|quantize|nested|_jagged|^_cslt|^_test|^fbgemm|^_?fft_|"
    r"^_linalg_|^special_|_for_cpu$|^_nnpack|^_validate|^_ctc|^_grid|_packed|^_wrapped|^_mixed|^_dyn_quant|^_triton|"
    r"crow_|ccol_|^_?coalesce|^sym_|^_efficient|^_flash|_copy$")
KEPT_NAMES = {"_to_copy", "_scaled_dot_product_flash_attention_for_cpu", "linalg_vector_norm", "slice_copy"}
FOREIGN_TYPES = re.compile(r"\b(t|t1|t2|Dict|Dimname|Stream|Storage|AnyEnumType|__torch__)\b|Generator [a-z]|\.\.\.")


def is_kept(schema):
    name = schema.name.removeprefix("aten::")
    if any(argument.alias_info and argument.alias_info.is_write for argument in schema.arguments):
        return False
    if not any("Tensor" in str(argument.type) for argument in schema.arguments + schema.returns):
        return False
    if FOREIGN_TYPES.search(str(schema)) or schema.overload_name.endswith("out") or "hacked_twin" in schema.overload_name:
        return False
    return name in KEPT_NAMES or not SKIPPED_NAMES.search(name)


def main():
    lines = {re.sub(r"\bTensor\([a-z|>* -]*\)", "Tensor", str(schema).removeprefix("aten::"))
             for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("aten::") and is_kept(schema)}
    path = pathlib.Path(__file__).with_name("aten_schemas.txt")
    path.write_text("\n".join(sorted(lines)) + "\n")
    print(f"{path}: {len(lines)} operators")


main()
