"""Tests of the launcher: what it prints, installs, builds and runs, in a small project of its own.

The project has the real launcher and the real ninja. Whatever would change the machine is a stand-in that appends its
name and arguments to a log: dpkg-query, apt-get, sudo, id, the environment's python and its cmake. The stand-in for
cmake writes a build.ninja that makes a program by copying its source; that of the tool fails if run twice at a time.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import textwrap
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
COMMANDS = "test build bench tune learn run compile inspect ops library profile whatif simulate asm disasm dashboard db format".split()

CMAKE = r"""
while [ "$1" != -B ]; do shift; done
[ ! -e "$PROJECT/broken.cmake" ] || { echo "CMake Error: broken.cmake"; exit 1; }
mkdir -p "$2/bin"
printf 'first\nsecond\n' > "$2/benchmarks.txt"
cat > "$2/build.ninja" <<END
rule copy
  command = cp \$in \$out
rule copy_alone
  command = mkdir $PROJECT/copying && sleep 0.2 && cp \$in \$out; status=\$\$?; rmdir $PROJECT/copying; exit \$\$status
build bin/atalla-tune: copy_alone $PROJECT/tools/tune.cpp
build bin/atalla-compare: copy $PROJECT/tools/compare.cpp
build atalla-compare: phony bin/atalla-compare
build bin/bench_first: copy $PROJECT/bench.cpp
build bin/bench_second: copy $PROJECT/bench.cpp
build benchmarks: phony bin/bench_first bin/bench_second
build atalla-tune: phony bin/atalla-tune
build bin/atalla-dashboard: copy $PROJECT/tools/dashboard.cpp
build atalla-dashboard: phony bin/atalla-dashboard
build all: phony atalla-tune
END
"""

CTEST = r"""
mkdir -p "${GTEST_OUTPUT#xml:}"
cat > "${GTEST_OUTPUT#xml:}/test_isa.xml" <<END
<testsuite name="Isa" tests="2">
<testcase name="Golden" status="run" result="completed" time="0." classname="Isa" />
<testcase name="Vectors" status="run" result="skipped" time="0." classname="Isa">
  <skipped message="isa.cpp:7&#x0A;needs the vectors" />
</testcase>
</testsuite>
END
echo '1/1 Test #1: isa ...... Passed'
echo
echo "$CTEST_RESULT% tests passed, 0 tests failed out of 1"
echo
echo 'Total Test time (real) =   0.00 sec'
[ "$CTEST_RESULT" = 100 ] || exit 8
"""


class Launcher(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.base = pathlib.Path(folder.name).resolve()
        self.project = self.base / "project"
        self.build = self.project / "build"
        self.log = self.base / "log"
        (self.project / "tools").mkdir(parents=True)
        for name in ("atalla", "requirements.txt", "requirements-test.txt", "CMakeLists.txt"):
            shutil.copy(SOURCE / name, self.project / name)
        (self.project / "atalla-tune").symlink_to("atalla")
        self.program("tune", 'echo "tune:$*"')
        self.program("dashboard", 'echo "dashboard:$ATALLA_BENCH:$*"')
        self.program("compare", 'echo "compare:$*"; for file; do [ ! -d "$file" ] || grep -h . "$file"/*.json; '
                                '[ ! -f "$file" ] || cat "$file"; done; exit "${COMPARE_STATUS-0}"')
        self.write(self.project / "bench.cpp", 'for word; do case $word in --benchmark_out=*) '
                                               'echo "{${RESULT-}}" > "${word#*=}";; esac; done\necho "bench:$*"')

        self.stubs = self.base / "stubs"
        # Every package that is asked for is installed.
        self.stub("dpkg-query", 'for name; do echo "$name installed"; done', logged=False)
        self.stub("id", "echo 1000", logged=False)
        self.stub("apt-get", ":")
        self.stub("sudo", "exit 1", logged=False)

        wheel = self.build / "env/lib/python3.11/site-packages/cmake/data/bin"
        self.write(self.build / "env/bin/python", ":", logged=True)
        self.write(wheel / "cmake", CMAKE, logged=True)
        self.write(wheel / "ctest", CTEST, logged=True)
        shutil.copy(SOURCE / "requirements.txt", self.build / "env/.installed")
        shutil.copy(SOURCE / "requirements-test.txt", self.build / "env/.installed-test")

    def write(self, path, body, logged=False):
        path.parent.mkdir(parents=True, exist_ok=True)
        record = f'echo "{path.name} $*" >> "{self.log}"\n' if logged else ""
        path.write_text("#!/bin/sh\n" + record + body + "\n")
        path.chmod(0o755)

    def stub(self, name, body, logged=True):
        self.write(self.stubs / name, body, logged)

    def program(self, name, body):
        self.write(self.project / f"tools/{name}.cpp", body)

    def environment(self, **more):
        variables = {key: value for key, value in os.environ.items() if key not in ("ATALLA_BUILD_DIR", "GTEST_OUTPUT")}
        return variables | {"PATH": f"{self.stubs}:{os.environ['PATH']}", "PROJECT": str(self.project)} | more

    def launch(self, *arguments, program=None, cwd=None, **variables):
        return subprocess.run([program or self.project / "atalla", *arguments], cwd=cwd or self.base,
                              env=self.environment(**variables), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60)

    def logged(self):
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines

    # What it prints

    def test_help_has_a_line_for_each_command(self):
        for arguments in ([], ["--help"], ["-h"], ["help"]):
            result = self.launch(*arguments)
            self.assertEqual(result.returncode, 0)
            listed = [line.split()[0] for line in result.stdout.splitlines() if line.startswith("  ")]
            self.assertCountEqual(listed, COMMANDS)

    def test_every_chore_has_help_with_an_example(self):
        for chore in ("test", "bench", "build", "format"):
            for flag in ("--help", "-h"):
                result = self.launch(chore, flag)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertIn(f"usage: ./atalla {chore} ", result.stdout)
                self.assertRegex(result.stdout, rf"(?m)^Example: \./atalla {chore} \S")
        self.assertEqual(self.logged(), [])   # nothing was installed or built for it

    def test_version_is_that_of_the_project(self):
        result = self.launch("--version")
        self.assertRegex(result.stdout, r"^atalla-tune \d+\.\d+\.\d+\n$")
        self.assertIn(f"VERSION {result.stdout.split()[1]} ", (SOURCE / "CMakeLists.txt").read_text())

    def test_unknown_command_names_the_nearest(self):
        for typed, meant in (("tnue", "tune"), ("simulat", "simulate"), ("tests", "test"), ("dissasm", "disasm")):
            result = self.launch(typed)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertEqual(result.stderr, f"atalla: unknown command '{typed}' (did you mean '{meant}'?): "
                                            "./atalla --help lists the commands\n")
        result = self.launch("photosynthesis")
        self.assertEqual(result.returncode, 2)
        self.assertNotIn("did you mean", result.stderr)

    def test_bad_arguments(self):
        for arguments, message in ((["build", "--preset", "fast"], "unknown preset 'fast'"),
                                   (["test", "--preset"], "--preset needs a name"),
                                   (["bench", "third"], "unknown benchmark 'third': there are first second"),
                                   (["format", "--all"], "format takes --check or nothing, not '--all'")):
            result = self.launch(*arguments)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(message, result.stderr)

    def test_sources_are_as_format_leaves_them(self):
        version = subprocess.run(["sh", "-c", "clang-format --version"], capture_output=True, text=True).stdout
        if " version 14." not in version:
            self.skipTest("needs clang-format 14: other versions break lines elsewhere")
        result = subprocess.run([SOURCE / "atalla", "format", "--check"], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    # What it installs

    def test_missing_packages_without_root_give_one_command(self):
        self.stub("dpkg-query", 'for name; do [ $name = ccache ] || [ $name = libfmt-dev ] || echo "$name installed"; done',
                  logged=False)
        result = self.launch("tune")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("  sudo sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends "
                      "ccache libfmt-dev'\n", result.stderr)
        self.assertEqual(self.logged(), [])

    def test_one_command_also_covers_what_python_misses(self):
        (self.build / "env/.installed").unlink()
        self.stub("python3", "exit 1", logged=False)
        self.stub("dpkg-query", 'for name; do case $name in *venv | ccache) ;; *) echo "$name installed";; esac; done',
                  logged=False)
        self.assertIn("--no-install-recommends ccache python3-venv'\n", self.launch("tune").stderr)

    def test_without_sudo_the_command_uses_su(self):
        self.stub("dpkg-query", "exit 1", logged=False)
        (self.stubs / "sudo").unlink()
        for name in ("bash", "readlink", "flock", "mkdir", "ninja", "env"):
            (self.stubs / name).symlink_to(shutil.which(name))
        result = self.launch("tune", PATH=str(self.stubs))
        self.assertIn("  su -c 'apt-get update", result.stderr)

    def test_half_removed_package_counts_as_missing(self):
        self.stub("dpkg-query", 'for name; do echo "$name config-files"; done', logged=False)
        self.assertIn("libsqlite3-dev", self.launch("tune").stderr)

    def test_missing_packages_are_installed_as_root_and_through_sudo(self):
        self.stub("dpkg-query", "exit 1", logged=False)
        self.stub("sudo", '[ "$2" = true ] || { shift; exec "$@"; }', logged=False)
        result = self.launch("tune", "--op", "gemm")
        self.assertEqual((result.returncode, result.stdout), (0, "tune:--op gemm\n"), result.stderr)
        update, install, *_ = self.logged()
        self.assertEqual(update, "apt-get update -qq")
        self.assertRegex(install, r"^apt-get install -y .*\bninja-build\b.*\bnlohmann-json3-dev\b")

        shutil.rmtree(self.build / "release")
        self.stub("sudo", "exit 1", logged=False)
        self.stub("id", "echo 0", logged=False)
        self.assertEqual(self.launch("tune").returncode, 0)
        self.assertTrue(self.logged()[1].startswith("apt-get install"))

    def test_failed_installation_shows_why(self):
        self.stub("dpkg-query", "exit 1", logged=False)
        self.stub("id", "echo 0", logged=False)
        self.stub("apt-get", "echo 'E: Unable to locate package'; exit 100")
        result = self.launch("tune")
        self.assertEqual(result.returncode, 1)
        self.assertIn("E: Unable to locate package", result.stderr)
        self.assertIn("installing Debian packages failed", result.stderr)

    def test_changed_requirements_are_installed_once_and_configure_anew(self):
        self.launch("tune")
        self.logged()
        with open(self.project / "requirements.txt", "a") as file:
            file.write("more==1\n")
        self.assertEqual(self.launch("tune").returncode, 0)
        calls = self.logged()
        self.assertTrue(any(call.startswith("python -m pip install") for call in calls), calls)
        self.assertTrue(any(call.startswith("cmake") for call in calls), calls)
        self.launch("tune")
        self.assertEqual(self.logged(), [])

    def test_only_the_tests_install_what_they_use(self):
        (self.build / "env/.installed-test").unlink()
        self.stub("dpkg-query", 'for name; do [ $name = dc ] || echo "$name installed"; done', logged=False)
        self.stub("id", "echo 0", logged=False)
        self.assertEqual(self.launch("tune").returncode, 0)
        self.assertFalse(any("install" in call for call in self.logged()))
        self.assertEqual(self.launch("test", CTEST_RESULT="100").returncode, 0)
        calls = [call for call in self.logged() if "install" in call]
        self.assertEqual([call.split()[-1] for call in calls], ["dc", f"{self.project}/requirements-test.txt"])
        self.stub("dpkg-query", 'for name; do echo "$name installed"; done', logged=False)
        self.launch("test", CTEST_RESULT="100")
        self.assertFalse(any("install" in call for call in self.logged()))

    def test_failed_wheels_are_tried_again(self):
        (self.build / "env/.installed").unlink()
        self.write(self.build / "env/bin/python", '[ "$3" = --version ] || exit 1', logged=True)
        for _ in range(2):
            result = self.launch("tune")
            self.assertEqual(result.returncode, 1)
            self.assertIn("installing the Python packages of requirements.txt failed", result.stderr)
            self.assertTrue(any("pip install" in call for call in self.logged()))

    # What it builds and runs

    def test_builds_once_then_only_runs(self):
        first = self.launch("tune", "a b", "c")
        self.assertEqual((first.returncode, first.stdout), (0, "tune:a b c\n"), first.stderr)
        self.assertEqual(self.logged(), [f"cmake --fresh --preset release -B {self.build}/release "
                                         f"-DATALLA_ENV={self.build}/env"])
        second = self.launch("tune", "a b", "c")
        self.assertEqual((second.stdout, second.stderr), ("tune:a b c\n", ""))
        self.assertEqual(self.logged(), [])

    def test_nothing_makes_every_start_look_for_new_files(self):
        # With such a glob ninja never says that there is no work to do, and every start would go the long way.
        for file in [*SOURCE.glob("*/CMakeLists.txt"), *SOURCE.glob("tests/*/CMakeLists.txt"), *SOURCE.glob("cmake/*.cmake")]:
            self.assertNotRegex(file.read_text(), r"GLOB\w* [^)]*CONFIGURE_DEPENDS", file)

    def test_a_changed_source_is_built_again(self):
        self.launch("tune")
        self.program("tune", 'echo "changed"')
        self.assertEqual(self.launch("tune").stdout, "changed\n")

    def test_the_tool_gets_folder_and_status_of_its_own(self):
        self.program("tune", "pwd; exit 7")
        result = self.launch("tune", cwd="/")
        self.assertEqual((result.returncode, result.stdout), (7, "/\n"))

    def test_links(self):
        elsewhere = self.base / "bin"
        elsewhere.mkdir()
        (elsewhere / "atalla-tune").symlink_to(self.project / "atalla-tune")
        (elsewhere / "atalla").symlink_to(self.project / "atalla")
        for program, arguments in ((self.project / "atalla-tune", ["--op", "gemm"]),
                                   (elsewhere / "atalla-tune", ["--op", "gemm"]),
                                   (elsewhere / "atalla", ["tune", "--op", "gemm"]),
                                   ("./project/atalla-tune", ["--op", "gemm"])):
            self.assertEqual(self.launch(*arguments, program=program).stdout, "tune:--op gemm\n")

    def test_a_failed_build_does_not_run_the_old_program(self):
        self.launch("tune")
        (self.project / "tools/tune.cpp").unlink()
        result = self.launch("tune")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("the build failed", result.stderr)
        self.assertIn("tune.cpp", result.stderr)

    def test_a_failed_configuration_shows_why_and_is_tried_again(self):
        (self.project / "broken.cmake").touch()
        result = self.launch("tune")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("CMake Error: broken.cmake", result.stderr)
        (self.project / "broken.cmake").unlink()
        self.assertEqual(self.launch("tune").returncode, 0)

    def test_a_moved_checkout_builds_its_own_sources(self):
        self.launch("tune")
        moved = self.base / "moved"
        self.project.rename(moved)
        self.project, self.build = moved, moved / "build"
        self.program("tune", 'echo "moved"')
        self.assertEqual(self.launch("tune").stdout, "moved\n")

    def test_launches_at_the_same_time_take_turns(self):
        launches = [subprocess.Popen([self.project / "atalla", "tune"], env=self.environment(), text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
        for launch in launches:
            out, err = launch.communicate(timeout=60)
            self.assertEqual((launch.returncode, out), (0, "tune:\n"), err)
        self.assertEqual(len([call for call in self.logged() if call.startswith("cmake")]), 1)

    def test_another_build_folder(self):
        other = self.base / "other"
        shutil.copytree(self.build, other)
        self.assertEqual(self.launch("tune", ATALLA_BUILD_DIR=str(other)).stdout, "tune:\n")
        self.assertTrue((other / "release/bin/atalla-tune").exists())
        self.assertFalse((self.build / "release").exists())

    # Tests and benchmarks

    def test_tests_close_with_ctests_lines(self):
        result = self.launch("test", "-R", "isa", CTEST_RESULT="100")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, textwrap.dedent("""\
            1/1 Test #1: isa ...... Passed


            Skipped:
              Isa.Vectors: needs the vectors

            100% tests passed, 0 tests failed out of 1

            Total Test time (real) =   0.00 sec
            """))
        self.assertRegex(self.logged()[-1], r"-LE \^long\$ -R isa$")

    def test_failing_tests_give_a_failing_status(self):
        self.assertEqual(self.launch("test", CTEST_RESULT="50").returncode, 8)

    def test_long_tests_are_asked_for(self):
        self.launch("test", "--long", CTEST_RESULT="100")
        self.assertNotIn("-LE", self.logged()[-1])

    def test_presets_have_builds_of_their_own(self):
        self.launch("test", "--preset", "sanitize", CTEST_RESULT="100")
        calls = self.logged()
        self.assertIn("--preset sanitize", calls[0])
        self.assertIn(f"--test-dir {self.build}/sanitize", calls[-1])

    def test_benchmarks_write_json(self):
        result = self.launch("bench", "second", "--benchmark_filter=x")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("--benchmark_filter=x", result.stdout)
        self.assertEqual(self.results(), ["second.json"])
        self.launch("bench")
        self.assertCountEqual(self.results(), ["first.json", "second.json"])

    def results(self, folder="bench"):
        return [file.name for file in (self.build / folder).glob("*.json")]

    def test_the_results_of_the_run_before_are_kept(self):
        for result in "abc":
            self.launch("bench", "first", RESULT=result)
        self.assertEqual((self.build / "bench/first.json").read_text(), "{c}\n")
        self.assertEqual((self.build / "bench/previous/first.json").read_text(), "{b}\n")

    def test_comparison_of_a_run_with_earlier_results(self):
        self.launch("bench", RESULT="old")
        mine = self.base / "mine"
        shutil.copytree(self.build / "bench", mine)
        # The results that the run replaces, by each way of naming them; a benchmark that was not run is not compared.
        for old in ("last", str(self.build / "bench"), str(mine), "mine", str(mine / "first.json")):
            result = self.launch("bench", "first", "--compare", old, "--json", RESULT="new")
            self.assertEqual(result.returncode, 0, result.stderr)
            first, *rest = result.stdout.splitlines()
            self.assertTrue(first.startswith("compare:--json "), result.stdout)
            self.assertTrue(first.endswith(" " + str(self.build / "bench/first.json")), first)
            self.assertEqual((rest[0], rest[-1]), ("{old}", "{new}"), old)
            self.assertIn("bench:", result.stderr)
            self.launch("bench", RESULT="old")
        self.assertFalse((self.build / ".compared").exists())

    def test_a_slower_benchmark_gives_a_failing_status(self):
        self.launch("bench")
        for arguments in (["--compare", "last"], ["--compare=last"], ["--compare", "last", "--with", str(self.build / "bench")]):
            result = self.launch("bench", *arguments, COMPARE_STATUS="3")
            self.assertEqual(result.returncode, 3, result.stderr)

    def test_comparison_without_a_run(self):
        self.launch("bench", RESULT="old")
        mine = self.base / "mine"
        shutil.copytree(self.build / "bench", mine)
        result = self.launch("bench", "--compare", str(mine), "--with", str(self.build / "bench/first.json"), "--all")
        self.assertEqual(result.stdout.splitlines()[0], f"compare:--all {mine} {self.build}/bench/first.json")
        self.assertNotIn("bench:", result.stderr)

    def test_bad_comparisons(self):
        for arguments, status, message in ((["--compare"], 2, "--compare needs a value"),
                                           (["--compare", "absent"], 2, "there is nothing to compare with at absent"),
                                           (["--json"], 2, "--json needs --compare OLD"),
                                           (["--with", "x"], 2, "--with needs --compare OLD"),
                                           (["--compare", "last"], 1, "there are none before them to compare with")):
            result = self.launch("bench", *arguments)
            self.assertEqual(result.returncode, status, result.stderr)
            self.assertIn(message, result.stderr)
        result = self.launch("bench", "--help")
        self.assertEqual(result.returncode, 0)
        self.assertIn("--compare last", result.stdout)

    def test_the_dashboard_finds_the_benchmarks(self):
        self.assertEqual(self.launch("dashboard", "-o", "site").stdout, f"dashboard:{self.build}/bench:-o site\n")


if __name__ == "__main__":
    unittest.main()
