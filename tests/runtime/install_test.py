"""Installs the runtime, builds examples/c and examples/cpp against it, and runs them."""

import argparse
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(cls.folder.name)
        cls.prefix, cls.work = root / "prefix", root / "work"
        cls.run_checked(options.cmake, "--install", options.build, "--component", "runtime", "--prefix", cls.prefix)
        cls.model = root / "small.atl"
        cls.run_checked(options.model_maker, cls.model)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @staticmethod
    def run_checked(*command, **how):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **how)
        if done.returncode != 0:
            raise AssertionError(f"{command}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def build(self, example):
        build = self.work / example
        self.run_checked(options.cmake, "-S", pathlib.Path(options.source) / "examples" / example, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.run_checked(options.cmake, "--build", build)
        return build

    def test_c_example(self):
        output = self.run_checked(self.build("c") / "run_model", self.model)
        self.assertEqual(output, "y: 11 21 31 11 21 31\ncount: 1\n0 cycles\n")

    def test_c_example_reports_a_missing_file(self):
        done = subprocess.run([self.build("c") / "run_model", "/nonexistent.atl"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nonexistent.atl: cannot be read: No such file", done.stderr)

    def test_cpp_example(self):
        output = self.run_checked(self.build("cpp") / "threads", self.model)
        self.assertEqual(output, "0 cycles, 2 runs, 0 programs loaded\n" * 4)

    def test_examples_refuse_sizes_that_differ(self):
        model = self.work / "symbolic.atl"
        self.work.mkdir(exist_ok=True)
        self.run_checked(options.model_maker, model, "symbolic")
        for example, program in (("c", "run_model"), ("cpp", "threads")):
            done = subprocess.run([self.build(example) / program, model], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (1, f"{program}: the sizes of input x differ from call to call\n"))

    @unittest.skipUnless(shutil.which("pkg-config"), "pkg-config is not installed")
    def test_pkg_config(self):
        places = list(self.prefix.glob("lib*/**/pkgconfig"))
        self.assertEqual(len(places), 1)
        flags = self.run_checked("pkg-config", "--cflags", "--libs", "atalla", env={**os.environ, "PKG_CONFIG_PATH": str(places[0])}).split()
        program = self.work / "by_pkg_config"
        self.work.mkdir(exist_ok=True)
        self.run_checked("cc", pathlib.Path(options.source) / "examples/c/run_model.c", *flags, "-o", program)
        library = str(places[0].parent)
        self.assertIn("y: 11 21 31", self.run_checked(program, self.model, env={**os.environ, "LD_LIBRARY_PATH": library}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("build", "source", "cmake", "model-maker"):
        parser.add_argument(f"--{name}", required=True)
    options, rest = parser.parse_known_args()
    unittest.main(argv=["install_test", *rest])
