"""Which memory a graph changes and which its results share, which a compiled model, whose results are tensors of their own, does not know.

PyTorch runs the graph on fake tensors, which have sizes, strides and storages but no data.
"""

from ._errors import AtallaError


def arrangement(args):
    """What decides in which memory the results of a graph lie: numbers, types, sizes, strides, and which tensors share a storage, how far apart."""
    import torch
    firsts, found = {}, []
    for index, value in enumerate(args):
        if not isinstance(value, torch.Tensor):
            found.append((type(value), value))
            continue
        if value.layout != torch.strided:
            raise AtallaError(f"{value.layout} tensors are not supported")
        first = firsts.setdefault(_storage(value), index)
        apart = value.storage_offset() - args[first].storage_offset()
        found.append((isinstance(value, torch.nn.Parameter), value.dtype, tuple(value.shape), value.stride(), first, apart))
    return tuple(found)


def overlap(args, mutated):
    """Whether a tensor that is changed may share bytes with another argument."""
    import torch
    spans = {index: _span(value) for index, value in enumerate(args) if isinstance(value, torch.Tensor) and value.numel()} if mutated else {}
    return any(index != other and begin < spans[other][1] and spans[other][0] < end
               for index, (begin, end) in spans.items() if index in mutated for other in spans)


class Memory:
    """What a graph does to memory when it is called with arguments of one arrangement."""

    def __init__(self, graph, args):
        import torch
        from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
        with torch._guards.tracing(None), torch.inference_mode(False), torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
            fakes = _fakes(args)
            try:
                results = graph(*fakes)
            except (DataDependentOutputException, DynamicOutputShapeException) as error:
                raise AtallaError(f"numbers or sizes in it depend on the values of tensors ({error.func}), but must be known when it is compiled") from error
            except Exception as error:   # PyTorch says what is wrong when it runs the graph
                raise AtallaError(f"PyTorch cannot tell what it gives: {str(error).strip().splitlines()[0]}") from error
        tensors = {index: fake for index, fake in enumerate(fakes) if isinstance(fake, torch.Tensor)}
        self.mutated = {index for index, fake in tensors.items() if fake._version}
        # Parameters are constants of the compiled model, but for those that it changes.
        self.weights = {index for index, value in enumerate(args) if isinstance(value, torch.nn.Parameter)} - self.mutated
        owners = {}
        for index, fake in tensors.items():
            owners.setdefault(_storage(fake), index)
        self._places = [_Place(result, owners, tensors) if isinstance(result, torch.Tensor) else None for result in results]

    def outputs(self, args, results):
        """The results of the compiled model where PyTorch has them: views of arguments and of each other, strided as its operators give them."""
        import torch
        bases = {}
        return tuple(result if place is None else place.put(result, args, bases) for place, result in zip(self._places, results))


class _Place:
    """Where a result lies: its strides and offset in the storage of an argument, or in one that the results of a call may share."""

    def __init__(self, fake, owners, tensors):
        self._storage = _storage(fake)
        self._owner = owners.get(self._storage)
        self._size, self._stride, self._offset = tuple(fake.shape), fake.stride(), fake.storage_offset()
        self._elements = fake.untyped_storage().nbytes() // fake.element_size()
        if self._owner is not None:
            self._offset -= tensors[self._owner].storage_offset()
            if fake.dtype != tensors[self._owner].dtype:
                raise AtallaError("a result is an argument's memory read as another type")

    def put(self, result, args, bases):
        if self._owner is not None:   # its values are the argument's, changed by now if the graph changes them
            owner = args[self._owner]
            return owner.detach().as_strided(self._size, self._stride, owner.storage_offset() + self._offset)
        base = bases.get(self._storage)
        if base is None:
            base = bases[self._storage] = result.new_empty(self._elements)
        if base.dtype != result.dtype:
            raise AtallaError("two results are one memory read as two types")
        view = base.as_strided(self._size, self._stride, self._offset)
        once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in self._stride)   # along steps of 0 all elements are one
        view[once].copy_(result[once])
        return view


def _fakes(args):
    """Fake tensors that share storages as the arguments do."""
    import torch
    bases, fakes = {}, []
    for value in args:
        if isinstance(value, torch.Tensor):
            storage = _storage(value)
            if storage not in bases:
                bases[storage] = torch.empty(value.untyped_storage().nbytes() // value.element_size(), dtype=value.dtype)
            if bases[storage].dtype != value.dtype:
                raise AtallaError("two arguments are one memory read as two types")
            value = bases[storage].as_strided(value.shape, value.stride(), value.storage_offset())
        fakes.append(value)
    return fakes


def _storage(tensor):
    return tensor.untyped_storage()._cdata


def _span(tensor):
    """The first byte of a tensor that is not empty, and the first one behind it."""
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), tensor.data_ptr() + (reach + 1) * tensor.element_size()
