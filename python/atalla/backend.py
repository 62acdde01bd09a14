"""torch.compile(model, backend="atalla").

Dynamo's graph is exported again when it is called with sizes that are new (its symbolic sizes become numbers then), so that a model
goes the same way from here and from a file. Options: machine, database, tune, trials, on_host, precision, and strict=True, which makes an error
of what otherwise runs in PyTorch with a warning.
"""

import hashlib
import warnings

from ._errors import AtallaError
from ._tensors import as_array
from .model import compile as compile_program
from .model import export_lock

_options = {"machine", "database", "tune", "trials", "on_host", "precision", "strict"}


def atalla(graph, example_inputs, *, mode=None, options=None):
    unknown = set(options or {}) - _options
    if unknown:
        raise ValueError(f"unknown options of the atalla backend: {', '.join(sorted(unknown))}; there are {', '.join(sorted(_options))}")
    return _Graph(graph, example_inputs, dict(options or {}))


class _Graph:
    """A graph of Dynamo with its compiled forms, one for each combination of sizes and numbers."""

    def __init__(self, graph, example_inputs, options):
        import torch
        self._graph, self._options = graph, options
        self._strict = options.pop("strict", False)
        self._is_weight = [isinstance(value, torch.nn.Parameter) for value in example_inputs]
        self._compiled = {}

    def __call__(self, *args):
        import torch
        if torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in args):
            return self._in_pytorch(args, "gradients are needed: call the model under torch.no_grad() to run it on the accelerator")
        key = tuple(self._key(a, w) for a, w in zip(args, self._is_weight))
        with export_lock():
            if key not in self._compiled:
                try:
                    self._compiled[key] = self._compile(args)
                except AtallaError as error:
                    if self._strict:
                        raise
                    self._compiled[key] = None
                    warnings.warn(f"atalla: this graph runs in PyTorch: {error}", stacklevel=2)
            compiled = self._compiled[key]
        if compiled is None:
            return self._graph(*args)
        return tuple(compiled(self._inputs(args)))

    def _in_pytorch(self, args, reason):
        if self._strict:
            raise AtallaError(reason)
        if not getattr(self, "_warned", False):
            self._warned = True
            warnings.warn(f"atalla: this graph runs in PyTorch: {reason}", stacklevel=3)
        return self._graph(*args)

    @staticmethod
    def _key(value, is_weight):
        import torch
        if not isinstance(value, torch.Tensor):
            return value
        kind = (value.dtype, tuple(value.shape))
        if not is_weight:
            return kind
        # A weight's values are in the compiled model, so other values are another model. Nothing but the values tells: a change
        # through `.data` leaves address and version as they are, and a new tensor may lie where the old one was.
        return kind, hashlib.sha1(as_array(value).contiguous().flatten().view(torch.uint8).numpy(), usedforsecurity=False).digest()

    def _inputs(self, args):
        import torch
        return [a for a, w in zip(args, self._is_weight) if isinstance(a, torch.Tensor) and not w]

    def _compile(self, args):
        import torch

        wrapper = _Wrapper(self._graph, args, self._is_weight).eval()
        examples = [a.detach().clone() for a in self._inputs(args)]
        with torch._guards.tracing(None), torch.no_grad():
            exported = torch.export.export(wrapper, (examples,), strict=False)
            return compile_program(exported, **self._options)


def _make_wrapper():
    import torch

    class Wrapper(torch.nn.Module):
        """The graph as a module of one list of tensors: weights are its parameters, numbers are in it."""

        def __init__(self, graph, args, is_weight):
            super().__init__()
            self.graph = graph
            self.fixed = {}
            for index, (value, weight) in enumerate(zip(args, is_weight)):
                if weight:
                    self.register_parameter(f"weight_{index}", torch.nn.Parameter(value.detach(), requires_grad=False))
                elif not isinstance(value, torch.Tensor):
                    self.fixed[index] = value
            self.count = len(args)
            self.is_weight = list(is_weight)

        def forward(self, tensors):
            left = iter(tensors)
            args = [getattr(self, f"weight_{i}") if self.is_weight[i] else self.fixed[i] if i in self.fixed else next(left)
                    for i in range(self.count)]
            return self.graph(*args)

    return Wrapper


def _Wrapper(*args):
    return _make_wrapper()(*args)
