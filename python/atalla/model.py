"""Compiled models: from an exported program or a file, called like the module they came from."""

import ctypes
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading

from . import _decompose, _library, _places, _tensors
from ._errors import AtallaError
from ._library import check, library
from ._sizes import bind


class _Loaded:
    """A loadable in memory. One context a thread."""

    def __init__(self, file):
        self.file = pathlib.Path(file)
        handle = ctypes.c_void_p()
        check(library().atalla_model_load(os.fsencode(self.file), ctypes.byref(handle)))
        self.handle, self.local = handle, threading.local()
        self.description = json.loads(library().atalla_model_json(handle))
        self.symbols = {symbol["name"]: symbol for symbol in self.description["symbols"]}

    def __del__(self):
        if getattr(self, "handle", None):
            library().atalla_model_release(self.handle)

    def context(self):
        if not hasattr(self.local, "context"):
            self.local.context = _Context(self)
        return self.local.context


class _Context:
    def __init__(self, loaded):
        handle = ctypes.c_void_p()
        check(library().atalla_context_create(loaded.handle, 0, ctypes.byref(handle)))
        self.handle, self.outputs = handle, len(loaded.description["outputs"])

    def __del__(self):
        if getattr(self, "handle", None):
            library().atalla_context_release(self.handle)

    def run(self, arrays, like_torch):
        for index, array in enumerate(arrays):
            check(library().atalla_set_input(self.handle, index, ctypes.byref(_tensors.describe(array))))
        check(library().atalla_run(self.handle))
        results = []
        for index in range(self.outputs):
            view = _library.Tensor()
            check(library().atalla_get_output(self.handle, index, ctypes.byref(view)))
            result = _tensors.empty(view, like_torch)
            check(library().atalla_copy_output(self.handle, index, ctypes.byref(_tensors.describe(result))))
            results.append(result)
        return results

    def counters(self):
        counters = _library.Counters()
        check(library().atalla_get_counters(self.handle, ctypes.byref(counters)))
        return {name: getattr(counters, name) for name, _ in counters._fields_}

    def profile(self):
        return json.loads(library().atalla_profile_json(self.handle))


class CompiledModel:
    """A model for the accelerator. Call it like the module it was made from; a loaded one takes its inputs in order or by name.

    Results are torch tensors if an input is one, or if a model made here has none, else NumPy arrays. Threads may share it: each has its own states.
    """

    def __init__(self, file, signature=None, specializer=None):
        self._first = _Loaded(file)
        self._signature, self._specializer = signature, specializer
        self._last = threading.local()

    @property
    def _loaded(self):
        """What this thread's last call ran: a model of symbolic sizes has a loadable for each combination of them."""
        return getattr(self._last, "loaded", self._first)

    @property
    def inputs(self):
        """Name, dtype and sizes of each input; a size that may differ is an expression."""
        return self._loaded.description["inputs"]

    @property
    def outputs(self):
        return self._loaded.description["outputs"]

    def __call__(self, *args, **kwargs):
        values = self._signature.flatten(args, kwargs) if self._signature else self._by_name(args, kwargs)
        arrays = [_tensors.as_array(value) for value in values]
        if len(arrays) != len(self.inputs):
            raise TypeError(f"{len(arrays)} tensors are given, but the model takes {len(self.inputs)}: {', '.join(i['name'] for i in self.inputs)}")
        if self._specializer:
            before, self._last.loaded = self._loaded, self._specializer.loaded([tuple(array.shape) for array in arrays])
            if before is not self._loaded:
                check(library().atalla_take_states(self._loaded.context().handle, before.context().handle))
        like_torch = any(_tensors.is_torch(value) for value in values) or bool(self._signature and not values)
        results = self._loaded.context().run(arrays, like_torch)
        results = self._write_back(results, values)
        if self._signature:
            sizes = bind(self._first.description["inputs"], self._first.symbols, [array.shape for array in arrays]) if self._signature.returns_sizes else {}
            return self._signature.unflatten(results, sizes)
        return results[0] if len(results) == 1 else tuple(results)

    def _by_name(self, args, kwargs):
        names = [port["name"] for port in self.inputs]
        values = dict(zip(names, args))
        for name, value in kwargs.items():
            if name not in names:
                raise TypeError(f"the model has no input '{name}'; it has {', '.join(names)}")
            if name in values:
                raise TypeError(f"input '{name}' is given twice, by position and by name")
            values[name] = value
        if len(args) > len(names) or len(values) < len(names):
            missing = [name for name in names if name not in values]
            raise TypeError(f"{len(args) + len(kwargs)} tensors are given, but the model takes {len(names)}" +
                            (f"; missing: {', '.join(missing)}" if missing else ""))
        return [values[name] for name in names]

    def _write_back(self, results, values):
        """Inputs that the model mutates get their new values, as PyTorch's own call does it."""
        kept = []
        by_name = dict(zip((port["name"] for port in self.inputs), values))
        for port, result in zip(self.outputs, results):
            if not port["name"].endswith(" (mutated)"):
                kept.append(result)
            else:
                target = by_name[port["name"].removesuffix(" (mutated)")]
                target.copy_(result) if _tensors.is_torch(target) else target.__setitem__(..., result)
        return kept

    def report(self):
        """What the model is made of: operators with who runs them and why, memory, code, steps."""
        return self._loaded.description

    def profile(self):
        """Counters and steps of this thread's last call."""
        return self._loaded.context().profile()

    def counters(self):
        """Cycles, packets and transfers of this thread's last call; `programs_loaded` stays 1 over calls."""
        return self._loaded.context().counters()

    def trace(self, file):
        """Runs this thread's last call again and writes what the accelerator did in which cycle, for ui.perfetto.dev."""
        check(library().atalla_run_traced(self._loaded.context().handle, os.fsencode(file)))

    def reset_states(self):
        """Buffers that keep their value between calls (a cache) get their first value again, for this thread."""
        check(library().atalla_reset_states(self._loaded.context().handle))

    def save(self, file):
        """Writes the loadable, which `atalla run` and the C interface take as well. Of a model that compiles for new sizes when they
        come, it holds those that it was compiled for first; `sizes` makes one of several."""
        shutil.copyfile(self._loaded.file, file)


class _Specializer:
    """Compiles a model of symbolic sizes for those that it is called with, and keeps the loadables in the user's cache."""

    def __init__(self, archive, command, first):
        self._archive, self._command = archive.read_bytes(), command
        self._ports, self._symbols = first.description["inputs"], first.symbols
        self._known = {tuple(sorted(first.description["specializations"][0]["symbols"].items())): first}
        self._lock = threading.Lock()

    def loaded(self, shapes):
        key = tuple(sorted(bind(self._ports, self._symbols, shapes).items()))
        with self._lock:
            if key not in self._known:
                self._known[key] = _Loaded(self._file(key))
            return self._known[key]

    def _file(self, key):
        program = pathlib.Path(self._command[0])
        stamp = f"{self._command[1:]} {key} {program} {program.stat().st_mtime_ns}"
        name = hashlib.sha256(self._archive + stamp.encode()).hexdigest()[:32]
        folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "atalla-tune" / "models"
        file = folder / f"{name}.atl"
        if not file.exists():
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="atalla-", dir=folder) as scratch:
                archive, made = pathlib.Path(scratch) / "model.pt2", pathlib.Path(scratch) / "model.atl"
                archive.write_bytes(self._archive)
                _run_compiler([*self._command, archive, "-o", made, "--sizes", ",".join(f"{n}={v}" for n, v in key)])
                made.replace(file)
        return file


def _run_compiler(command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        raise AtallaError(done.stderr.strip().removeprefix("atalla-compile: "))


class _Signature:
    """How a caller's arguments become the model's tensors, and its results what the module returned."""

    def __init__(self, exported):
        from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
        self._in_spec, self._out_spec = exported.call_spec.in_spec, exported.call_spec.out_spec
        signature = exported.graph_signature
        inputs = [spec.arg for spec in signature.input_specs if spec.kind == InputKind.USER_INPUT]
        self._inputs = [(isinstance(arg, ConstantArgument), arg.name, getattr(arg, "value", None)) for arg in inputs]
        outputs = [spec.arg for spec in signature.output_specs if spec.kind == OutputKind.USER_OUTPUT]
        self._results = [_Result(arg, exported) for arg in outputs]

    def flatten(self, args, kwargs):
        from torch.export._tree_utils import reorder_kwargs
        from torch.utils._pytree import tree_flatten
        if kwargs:
            kwargs = reorder_kwargs(kwargs, self._in_spec)
        leaves, spec = tree_flatten((args, kwargs))
        if len(leaves) != len(self._inputs):
            raise TypeError(f"the arguments hold {len(leaves)} values, but the model was exported with {len(self._inputs)}")
        if spec != self._in_spec:
            raise TypeError("the arguments are nested or ordered in another way than those that the model was exported with")
        for leaf, (constant, name, value) in zip(leaves, self._inputs):
            if constant and (type(leaf) is not type(value) or leaf != value):
                raise ValueError(f"argument '{name}' is {leaf!r}, but the model was exported for {value!r}")
        return [leaf for leaf, (constant, _, _) in zip(leaves, self._inputs) if not constant]

    @property
    def returns_sizes(self):
        return any(result.size is not None for result in self._results)

    def unflatten(self, results, sizes):
        """`sizes`: the values of symbols, where some results are made of them."""
        from torch.utils._pytree import tree_unflatten
        left = iter(results)
        return tree_unflatten([next(left) if result.is_tensor else result.number(sizes) for result in self._results], self._out_spec)


class _Result:
    """A tensor, a constant, or a size of the call, which no loadable computes."""

    def __init__(self, arg, exported):
        from torch.export.graph_signature import ConstantArgument, SymIntArgument, TensorArgument
        self.is_tensor, self.constant, self.size = isinstance(arg, TensorArgument), getattr(arg, "value", None), None
        if isinstance(arg, SymIntArgument):
            self.size = next(node.meta["val"].node.expr for node in exported.graph.nodes if node.name == arg.name)
        elif not self.is_tensor and not isinstance(arg, ConstantArgument):
            raise AtallaError(f"the result {arg.name} is neither a tensor nor a size")

    def number(self, sizes):
        return self.constant if self.size is None else int(self.size.subs({symbol: sizes[symbol.name] for symbol in self.size.free_symbols}))


def export_lock():
    """Dynamo's own lock: PyTorch traces in one thread at a time."""
    from torch._dynamo.convert_frame import compile_lock
    return compile_lock


def load(file):
    """A compiled model from a .atl file."""
    return CompiledModel(file)


def compile(exported, args=None, kwargs=None, *, machine="ax01", database=None, tune=False, trials=None, sizes=None, fill=False, on_host=(), precision="standard", fuse=True, one_by_one=False, verify=True):
    """Compiles an ExportedProgram, a .pt2 file, or a module with example `args` and `kwargs`.

    machine: a machine's name or file. database: of tuned kernels (default: $ATALLA_DB or the user's). tune: tune kernels that have
    no winner, with `trials` trials each. sizes: values of symbolic sizes, a dict or one for each specialization; without, a call with
    new sizes compiles for them and keeps the result in the user's cache. fill: a call with less than one of the `sizes` runs as that one, filled
    up, for sizes along which nothing mixes, such as a batch. on_host: operators that are to run on the host, "aten::softmax.int".
    precision: "standard", or "high", which adds long sums of matrix products in groups: more digits for more cycles.
    fuse: kernels of several operators. one_by_one: every kernel is a run of its own, to compare one program with. verify: run schedules that no
    tuned winner gives on random and special values and pass over those with wrong results.
    """
    signature, in_training = None, getattr(exported, "training", False)
    if args is not None and not isinstance(args, (tuple, list)):
        raise TypeError(f"args is a tuple of the module's arguments, such as (x,), not {type(args).__name__}")
    on_host = [on_host] if isinstance(on_host, str) else on_host
    with tempfile.TemporaryDirectory(prefix="atalla-") as folder:
        if isinstance(exported, (str, os.PathLike)):
            archive = pathlib.Path(exported)
        else:
            import torch
            with torch.no_grad(), export_lock():
                if isinstance(exported, torch.nn.Module):
                    exported = torch.export.export(exported, tuple(args or ()), kwargs=kwargs, strict=False)
                elif not isinstance(exported, torch.export.ExportedProgram):
                    raise TypeError(f"atalla.compile takes an ExportedProgram, a .pt2 file or a module, not {type(exported).__name__}")
                signature = _Signature(exported)
                archive = pathlib.Path(folder) / "model.pt2"
                _decompose.save_functional(exported, archive)
        target = tempfile.NamedTemporaryFile(prefix="atalla-", suffix=".atl", delete=False)
        target.close()
        command = [_places.program("atalla-compile"), "--machine", machine, "--precision", precision, "--quiet"]
        if database is not None:
            command += ["--db", database]
        if tune:
            command += ["--tune"] + (["--trials", str(trials)] if trials else [])
        command += (["--fill"] if fill else []) + ([] if fuse else ["--no-fuse"]) + (["--one-by-one"] if one_by_one else []) + ([] if verify else ["--no-verify"])
        for target_name in on_host:
            command += ["--on-host", target_name]
        chosen = []
        for one in [sizes] if isinstance(sizes, dict) else sizes or []:
            chosen += ["--sizes", ",".join(f"{name}={value}" for name, value in one.items())]
        try:
            _run_compiler([*command, archive, "-o", target.name, *chosen])
            compiled = CompiledModel(target.name, signature)
            if compiled._first.description["symbols"] and not sizes:
                compiled._specializer = _Specializer(archive, command, compiled._first)
        except BaseException as error:
            os.unlink(target.name)
            if isinstance(error, AtallaError) and in_training:
                raise AtallaError(f"{error}\nThe module is in training mode: model.eval() leaves out what only training needs, such as dropout") from error
            raise
        compiled._temporary = _Temporary(target.name)
        return compiled


class _Temporary:
    """A file that goes with its owner."""

    def __init__(self, file):
        self.file = file

    def __del__(self):
        try:
            os.unlink(self.file)
        except OSError:
            pass
