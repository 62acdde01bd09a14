"""Tunes one kernel from an empty database, for programs that compare or publish cycles."""

import json
import pathlib
import subprocess
import tempfile


class NotTuned(SystemExit):
    """No verified winner, and `reason` says why. Who does not expect it ends with the kernel and the reason."""

    def __init__(self, kernel, reason):
        super().__init__(f"{kernel}: {reason}")
        self.reason = reason


def tune(programs, kernel, environment=None):
    """What `atalla-tune --json` of the folder `programs` says of a kernel, its options as in a line of bench/kernels.txt."""
    with tempfile.TemporaryDirectory() as folder:
        command = [pathlib.Path(programs) / "atalla-tune", *kernel.split(), "--quiet", "--json", "--db", f"{folder}/tuning.db"]
        run = subprocess.run(command, capture_output=True, text=True, env=environment)
    if run.returncode:
        raise NotTuned(kernel, (run.stderr.strip() or f"exit status {run.returncode}").splitlines()[-1])
    result = json.loads(run.stdout)
    if not result["verified"]:
        raise NotTuned(kernel, "the winner was not verified")
    return result
