"""Remembers the checkout that the package was installed from, whose build has the runtime library and the compiler."""

import pathlib

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithCheckout(build_py):
    def run(self):
        super().run()
        root = pathlib.Path(__file__).resolve().parent.parent
        target = pathlib.Path(self.build_lib) / "atalla" / "_checkout.py"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"ROOT = {str(root)!r}\n")


setup(cmdclass={"build_py": BuildWithCheckout})
