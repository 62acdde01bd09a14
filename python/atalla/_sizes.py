"""What the symbols in the sizes of a model's inputs are in a call."""

import ast
import operator
import re

_operators = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod}


def bind(ports, symbols, shapes):
    """The symbols' values by name. Ports and symbols are those of a loadable's description: a size that may differ is an expression."""
    sizes, expressions = {}, []
    for port, shape in zip(ports, shapes):
        if len(shape) != len(port["sizes"]):
            raise ValueError(f"input '{port['name']}' has {len(shape)} dimensions, but the model takes {len(port['sizes'])}")
        for dim, (wanted, size) in enumerate(zip(port["sizes"], shape)):
            where = f"{port['name']}.size()[{dim}] is {size}"
            if wanted in symbols:
                least, most = symbols[wanted]["least"], symbols[wanted]["most"]
                if not least <= size <= most:
                    raise ValueError(f"{where}, but the model was exported for {least} <= {wanted} <= {most}")
                if sizes.setdefault(wanted, size) != size:
                    raise ValueError(f"{where}, but another input has {wanted} = {sizes[wanted]}")
            elif isinstance(wanted, int):
                if wanted != size:
                    raise ValueError(f"{where}, but the model was exported for {wanted}")
            else:
                expressions.append((wanted, size, where))
    for wanted, size, where in expressions:
        _solve(wanted, size, where, symbols, sizes)
    missing = [name for name in symbols if name not in sizes]
    if missing:
        raise ValueError(f"the inputs' sizes do not say what {', '.join(missing)} is: give `sizes` to atalla.compile")
    return sizes


def _solve(wanted, size, where, symbols, sizes):
    """The one symbol of an expression such as 2*s77 + 1 that no size is by itself."""
    unknown = [name for name in symbols if name not in sizes and re.search(rf"\b{name}\b", wanted)]
    if len(unknown) != 1:
        return
    name, = unknown
    at = [_value(wanted, {**sizes, name: value}) for value in (1, 2)]
    if at[0] == at[1]:
        return
    value = 1 + (size - at[0]) // (at[1] - at[0])
    if _value(wanted, {**sizes, name: value}) != size:
        raise ValueError(f"{where}, but the model was exported for {wanted}")
    least, most = symbols[name]["least"], symbols[name]["most"]
    if not least <= value <= most:
        raise ValueError(f"{where}, but the model was exported for {wanted} with {least} <= {name} <= {most}")
    sizes[name] = value


def _value(expression, sizes):
    """Of a size as a loadable has it, "4*s77 + 1"; nothing else that an archive's writer may have put there is computed."""
    def refuse():
        raise ValueError(f"the size {expression} does not say what its symbols are: give `sizes` to atalla.compile")

    def of(node):
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name) if name in sizes:
                return sizes[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -of(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _operators:
                return _operators[type(op)](of(left), of(right))
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=args) if args:
                return {"min": min, "max": max}[name](map(of, args))
        refuse()

    try:
        return of(ast.parse(expression, mode="eval").body)
    except (SyntaxError, ArithmeticError, RecursionError):
        refuse()
