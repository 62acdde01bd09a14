"""The C interface of libatalla_runtime (atalla.h) through ctypes."""

import ctypes
import functools

from . import _places
from ._errors import AtallaError

MAX_RANK = 64


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("sizes", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64))]


class Counters(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in
                ("runs", "programs_loaded", "cycles", "packets", "device_calls", "host_calls", "bytes_to_device", "bytes_from_device")]


KERNEL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

_handle, _index, _status = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_signatures = {
    "atalla_last_error": (ctypes.c_char_p, []),
    "atalla_version": (ctypes.c_char_p, []),
    "atalla_model_load": (_status, [ctypes.c_char_p, ctypes.POINTER(_handle)]),
    "atalla_model_load_memory": (_status, [ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(_handle)]),
    "atalla_model_release": (None, [_handle]),
    "atalla_model_inputs": (ctypes.c_size_t, [_handle]),
    "atalla_model_outputs": (ctypes.c_size_t, [_handle]),
    "atalla_model_json": (ctypes.c_char_p, [_handle]),
    "atalla_context_create": (_status, [_handle, ctypes.c_uint64, ctypes.POINTER(_handle)]),
    "atalla_context_release": (None, [_handle]),
    "atalla_set_input": (_status, [_handle, _index, ctypes.POINTER(Tensor)]),
    "atalla_run": (_status, [_handle]),
    "atalla_run_traced": (_status, [_handle, ctypes.c_char_p]),
    "atalla_get_output": (_status, [_handle, _index, ctypes.POINTER(Tensor)]),
    "atalla_copy_output": (_status, [_handle, _index, ctypes.POINTER(Tensor)]),
    "atalla_reset_states": (_status, [_handle]),
    "atalla_take_states": (_status, [_handle, _handle]),
    "atalla_get_counters": (_status, [_handle, ctypes.POINTER(Counters)]),
    "atalla_profile_json": (ctypes.c_char_p, [_handle]),
    "atalla_register_kernel": (_status, [ctypes.c_char_p, KERNEL, ctypes.c_void_p]),
    "atalla_call_operand": (_status, [_handle, ctypes.c_char_p, ctypes.POINTER(Tensor)]),
    "atalla_call_integer": (_status, [_handle, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64)]),
    "atalla_call_number": (_status, [_handle, ctypes.c_char_p, ctypes.POINTER(ctypes.c_double)]),
    "atalla_call_result": (_status, [_handle, _index, ctypes.POINTER(Tensor)]),
    "atalla_call_results": (ctypes.c_size_t, [_handle]),
    "atalla_call_fail": (_status, [_handle, ctypes.c_char_p]),
}


@functools.cache
def library():
    loaded = ctypes.CDLL(str(_places.library()))
    for name, (result, arguments) in _signatures.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def check(status):
    """Raises for a status that is not ATALLA_OK: ValueError for a wrong argument, AtallaError for what failed."""
    if status == 0:
        return
    sentence = library().atalla_last_error().decode()
    raise ValueError(sentence) if status == 1 else MemoryError(sentence) if status == 3 else AtallaError(sentence)


def version():
    """The runtime library's version."""
    return library().atalla_version().decode()
