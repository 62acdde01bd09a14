"""What is exported: a module, the example it is exported with, and the inputs that its outputs are recorded for."""

import dataclasses
import typing

import torch


@dataclasses.dataclass
class Case:
    name: str
    make: typing.Callable[[], torch.nn.Module]
    example: typing.Callable[[], tuple]             # (arguments, keywords)
    dynamic: typing.Any = None
    dialect: str = "functional"                     # or "plain", "core"
    run: typing.Optional[typing.Callable] = None    # other inputs than the example, for dynamic shapes


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        result = self.function(*arguments)
        # Named results, such as those of max, have no form in an archive.
        return tuple(result) if isinstance(result, tuple) else result
