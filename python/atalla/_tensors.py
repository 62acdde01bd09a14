"""Tensors of torch, NumPy and DLPack to and from the runtime's, without copies on the way in."""

import ctypes
import sys

import numpy

from ._library import Tensor

# The numbers of PyTorch's exported programs, by the name of the element type.
DTYPES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8, "bool": 12, "bfloat16": 13}
NAMES = {number: name for name, number in DTYPES.items()}


def is_torch(value):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_array(value):
    """A torch tensor on the CPU or a NumPy array, of anything that is one, speaks DLPack or is a nested list."""
    if is_torch(value):
        if value.is_meta or str(value.layout) != "torch.strided":
            raise ValueError(f"tensors of {'the device meta' if value.is_meta else value.layout} are not supported")
        return value.detach().cpu().resolve_neg()   # a view of a conjugate's imaginary part is negative by a mark alone
    if isinstance(value, numpy.ndarray):
        return value
    if hasattr(value, "__dlpack__"):
        return numpy.from_dlpack(value)
    return numpy.asarray(value)


def _describe(pointer, name, sizes, strides):
    if name not in DTYPES:
        raise ValueError(f"tensors of {name} are not supported")
    rank = len(sizes)
    # The arrays live as long as the structure that points at them.
    size_array, stride_array = (ctypes.c_int64 * rank)(*sizes), (ctypes.c_int64 * rank)(*strides)
    described = Tensor(pointer, DTYPES[name], rank, size_array, stride_array)
    described.keep = (size_array, stride_array)
    return described


def describe(array):
    """The runtime's view of an array of as_array(), whose memory it shares."""
    if is_torch(array):
        return _describe(array.data_ptr(), str(array.dtype).removeprefix("torch."), array.shape, array.stride())
    if array.dtype.byteorder == ">":
        raise ValueError("big-endian arrays are not supported: pass array.astype(array.dtype.newbyteorder('<'))")
    if any(stride % array.itemsize for stride in array.strides):
        array = array.copy()
    described = _describe(array.ctypes.data, array.dtype.name, array.shape, [stride // array.itemsize for stride in array.strides])
    described.keep += (array,)
    return described


def empty(described, like_torch):
    """A new tensor with the element type and sizes of a runtime tensor."""
    sizes, name = described.sizes[:described.rank], NAMES[described.dtype]
    if like_torch:
        import torch
        return torch.empty(sizes, dtype=getattr(torch, name))
    if name == "bfloat16":
        raise ValueError("NumPy has no bfloat16: pass torch tensors to get torch tensors back")
    return numpy.empty(sizes, dtype=name)
