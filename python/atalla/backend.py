"""torch.compile(model, backend="atalla").

Dynamo's graph is exported again when it is called with sizes that are new (its symbolic sizes become numbers then), so that a model
goes the same way from here and from a file. Options: machine, database, tune, trials, on_host, precision, and strict=True, which makes an error
of what otherwise runs in PyTorch with a warning.
"""

import hashlib
import warnings

from ._errors import AtallaError
from ._memory import Memory, arrangement, overlap
from ._tensors import as_array
from .model import compile as compile_program
from .model import export_lock

# Models for numbers that change, where another one would not be compiled for long.
_MOST_NUMBERS = 16

_options = {"machine", "database", "tune", "trials", "on_host", "precision", "strict"}


def atalla(graph, example_inputs, *, mode=None, options=None):
    unknown = set(options or {}) - _options
    if unknown:
        raise ValueError(f"unknown options of the atalla backend: {', '.join(sorted(unknown))}; there are {', '.join(sorted(_options))}")
    return _Graph(graph, dict(options or {}))


class _Graph:
    """A graph of Dynamo with its compiled forms, one for each combination of sizes and numbers."""

    def __init__(self, graph, options):
        self._graph, self._options = graph, options
        self._numbers = _take_numbers(graph)
        _enter_contexts(graph)
        self._strict = options.pop("strict", False)
        self._memories, self._compiled = {}, {}

    def __call__(self, *args):
        import torch
        args = tuple(value.item() if index in self._numbers else value for index, value in enumerate(args))
        if torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in args):
            return self._in_pytorch(args, "gradients are needed: call the model under torch.no_grad() to run it on the accelerator")
        try:
            memory, compiled = self._prepared(args)
        except AtallaError as error:
            return self._in_pytorch(args, str(error))
        if overlap(args, memory.mutated):
            return self._in_pytorch(args, "a tensor that it changes shares memory with another of its arguments")
        return memory.outputs(args, compiled(self._inputs(args, memory)))

    def _prepared(self, args):
        """What the graph does to the memory of its arguments, and its compiled form."""
        with export_lock():
            layout = arrangement(args)
            if layout not in self._memories:
                self._memories[layout] = self._once(lambda: Memory(self._graph, args))
            memory = self._known(self._memories, layout)
            key = tuple(self._key(a, index in memory.weights) for index, a in enumerate(args))
            if key not in self._compiled:
                if self._numbers and not self._strict and len(self._compiled) >= _MOST_NUMBERS:
                    raise AtallaError(f"numbers among its arguments differ from call to call, and each of {_MOST_NUMBERS} has a model of its own by now")
                self._compiled[key] = self._once(lambda: self._compile(args, memory))
            return memory, self._known(self._compiled, key)

    @staticmethod
    def _once(make):
        """What `make` gives, or the error that it ended with: a graph that can not be compiled is not tried again."""
        try:
            return make()
        except AtallaError as error:
            return error

    @staticmethod
    def _known(results, key):
        if isinstance(results[key], AtallaError):
            raise results[key]
        return results[key]

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
            return type(value), value
        kind = (value.dtype, tuple(value.shape))
        if not is_weight:
            return kind
        # A weight's values are in the compiled model, so other values are another model. Nothing but the values tells: a change
        # through `.data` leaves address and version as they are, and a new tensor may lie where the old one was.
        return kind, hashlib.sha1(as_array(value).contiguous().flatten().view(torch.uint8).numpy(), usedforsecurity=False).digest()

    @staticmethod
    def _inputs(args, memory):
        import torch
        return [a for index, a in enumerate(args) if isinstance(a, torch.Tensor) and index not in memory.weights]

    def _compile(self, args, memory):
        import torch

        wrapper = _make_wrapper()(self._graph, args, memory.weights).eval()
        examples = [a.detach().clone() for a in self._inputs(args, memory)]
        with torch._guards.tracing(None), torch.no_grad():
            try:
                exported = torch.export.export(wrapper, (examples,), strict=False)
            except Exception as error:   # whatever PyTorch says of a graph that it cannot export
                raise AtallaError(f"torch.export refuses it: {str(error).strip().splitlines()[0]}") from error
            return compile_program(exported, **self._options)


def _take_numbers(graph):
    """Floats that change from call to call come from Dynamo as tensors, out of which the graph reads a number first. It gets the number itself:
    the positions of these arguments."""
    positions = set()
    for index, node in enumerate(node for node in graph.graph.nodes if node.op == "placeholder"):
        users = list(node.users)
        if users and all(user.op == "call_method" and user.target == "item" for user in users):
            positions.add(index)
            for user in users:
                user.replace_all_uses_with(node)
                graph.graph.erase_node(user)
    if positions:
        graph.recompile()
    return positions


def _enter_contexts(graph):
    """Dynamo calls functions around what is in an autocast context. torch.export only notes them, and would type what is between as if there were
    none; it does both with the context itself."""
    import torch
    functions = {torch.amp.autocast_mode._enter_autocast: _enter_autocast, torch.amp.autocast_mode._exit_autocast: _exit_autocast}
    for module in graph.modules():
        if isinstance(module, torch.fx.GraphModule):
            found = [node for node in module.graph.nodes if node.op == "call_function" and node.target in functions]
            for node in found:
                node.target = functions[node.target]
            if found:
                module.recompile()


def _enter_autocast(*args):
    import torch
    context = torch.autocast(*args)
    context.__enter__()
    return context


def _exit_autocast(context):
    context.__exit__(None, None, None)


def _make_wrapper():
    import torch

    class Wrapper(torch.nn.Module):
        """The graph as a module of one list of tensors: weights are its parameters, numbers are in it."""

        def __init__(self, graph, args, weights):
            super().__init__()
            self.graph = graph
            self.fixed = {}
            for index, value in enumerate(args):
                if index in weights:
                    self.register_parameter(f"weight_{index}", torch.nn.Parameter(value.detach(), requires_grad=False))
                elif not isinstance(value, torch.Tensor):
                    self.fixed[index] = value
            self.count, self.weights = len(args), weights

        def forward(self, tensors):
            left = iter(tensors)
            args = [getattr(self, f"weight_{i}") if i in self.weights else self.fixed[i] if i in self.fixed else next(left)
                    for i in range(self.count)]
            return self.graph(*args)

    return Wrapper
