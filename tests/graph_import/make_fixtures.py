"""Exports the fixtures of the importer's tests: single operators (scenarios.py, and those that are taken apart: decompositions.py) and
small models (models.py).

    python tests/graph_import/make_fixtures.py [NAME...]

Each archive in fixtures/ holds, for each name, NAME/model.pt2 as torch.export.save wrote it (without stack traces, which
quote paths) and NAME/data, the bytes of its inputs and of PyTorch's outputs; manifest.json says what is where.
"""

import io
import json
import pathlib
import sys
import warnings
import zipfile

import torch

import decompositions
import models
import scenarios

FOLDER = pathlib.Path(__file__).resolve().parent / "fixtures"


def exported(case):
    torch.manual_seed(0)
    module = case.make().eval()
    arguments, keywords = case.example()
    with torch.no_grad():
        program = torch.export.export(module, arguments, keywords, dynamic_shapes=case.dynamic, strict=False)
        if case.dialect == "functional":
            program = program.run_decompositions({})
        elif case.dialect == "core":
            program = program.run_decompositions()
    for graph_module in program.graph_module.modules():
        for node in graph_module.graph.nodes if isinstance(graph_module, torch.fx.GraphModule) else []:
            node.meta.pop("stack_trace", None)
            node.meta.pop("from_node", None)
    file = io.BytesIO()
    torch.export.save(program, file)
    return module, file.getvalue()


def tensor_bytes(tensor):
    tensor = tensor.detach().contiguous()
    return bytes(tensor.view(torch.uint8).numpy().tobytes() if tensor.dim() else tensor.reshape(1).view(torch.uint8).numpy().tobytes())


def described(tensor):
    return {"dtype": str(tensor.dtype).removeprefix("torch."), "sizes": list(tensor.shape)}


def recorded(case):
    """The archive, the manifest's entry, and the data."""
    module, archive = exported(case)
    torch.manual_seed(1)
    arguments, keywords = case.run() if case.run else case.example()
    inputs = [value for value in torch.utils._pytree.tree_leaves((arguments, keywords)) if isinstance(value, torch.Tensor)]
    inputs = [value.clone() for value in inputs]
    with torch.no_grad():
        result = module(*arguments, **keywords)
    outputs = [value for value in torch.utils._pytree.tree_leaves(result) if isinstance(value, torch.Tensor)]
    entry = {"inputs": [described(value) for value in inputs], "outputs": [described(value) for value in outputs]}
    return archive, entry, b"".join(tensor_bytes(value) for value in inputs + outputs)


def write(path, cases):
    manifest = {}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        def add(name, data):
            file.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, 9)
        for case in cases:
            archive, manifest[case.name], data = recorded(case)
            add(f"{case.name}/model.pt2", archive)
            add(f"{case.name}/data", data)
        add("manifest.json", json.dumps(manifest, indent=0))
    print(f"{path.name}: {len(manifest)} programs, {path.stat().st_size} bytes")


def main():
    warnings.filterwarnings("ignore")
    chosen = set(sys.argv[1:])
    for name, cases in (("scenarios", scenarios.cases()), ("decompositions", decompositions.cases()), ("models", models.cases())):
        if not chosen or name in chosen:
            FOLDER.mkdir(exist_ok=True)
            write(FOLDER / f"{name}.zip", cases)


if __name__ == "__main__":
    main()
