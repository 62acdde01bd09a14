"""Where the runtime library and the compiler are: an installed prefix, or the checkout's build."""

import os
import pathlib
import shutil

from ._errors import AtallaError


def _checkout():
    try:
        from ._checkout import ROOT
        return pathlib.Path(ROOT)
    except ImportError:
        return pathlib.Path(__file__).resolve().parents[2]


def _prefixes():
    """Folders with bin/ and a library folder, the chosen one first."""
    if home := os.environ.get("ATALLA_HOME"):
        yield pathlib.Path(home)
    build = pathlib.Path(os.environ.get("ATALLA_BUILD_DIR", _checkout() / "build"))
    yield build / "release"
    if program := shutil.which("atalla-compile"):
        yield pathlib.Path(program).resolve().parent.parent


def library():
    for prefix in _prefixes():
        for folder in ("lib", "lib64", *(str(f.relative_to(prefix)) for f in sorted(prefix.glob("lib/*-linux-gnu")))):
            file = prefix / folder / "libatalla_runtime.so"
            if file.exists():
                return file
    raise AtallaError("libatalla_runtime.so is not found: run ./atalla build, or set ATALLA_HOME to an installed prefix")


def program(name):
    for prefix in _prefixes():
        file = prefix / "bin" / name
        if file.exists():
            return file
    raise AtallaError(f"{name} is not found: run ./atalla build, or set ATALLA_HOME to an installed prefix")
