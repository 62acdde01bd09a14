#!/usr/bin/env python3
"""How long the dashboard of a large database takes to build, and its first page to be usable. Makes the database, builds the site
with its default options, opens the page of all kernels in headless Chromium, and prints the times. To be run on an idle machine, with
the environment that `./atalla test` installs.

    build/env/bin/python bench/dashboard.py
    build/env/bin/python bench/dashboard.py --bin build/release/bin --trials 100000 --kernels 400 --repetitions 5

The page is usable when it says so itself (its table is drawn and takes input); the clock is the browser's, from the start of the
navigation.
"""

import argparse
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

ROOT = pathlib.Path(__file__).resolve().parent.parent
START = 1_767_225_600_000   # 2026-01-01
DAY = 86_400_000
RUNS = 5                    # of each kernel, by compilers of their own


def export_lines(trials, kernels):
    """An export of the database: trials of matrix products, as a tuner leaves them."""
    draw = random.Random(3)
    yield {"format": "atalla-tune database", "kind": "header", "version": 1}
    yield {"kind": "machine", "fingerprint": "m1", "name": "ax01"}
    each = trials // (kernels * RUNS)
    for kernel in range(kernels):
        workload = {"m": 32 * (1 + kernel % 16), "n": 32 * (1 + kernel // 16), "k": 512, "type": "bf16"}
        for compiler in range(RUNS):
            key = {"op": "gemm", "workload": workload, "machine": "m1", "compiler": f"c{compiler}"}
            run, start = f"{kernel:08x}{compiler:08x}", START + compiler * DAY
            yield key | {"kind": "run", "id": run, "host": "box", "strategy": "model", "seed": 1, "bound_cycles": 1000, "started": start,
                         "ended": start + 60_000, "outcome": "finished"}
            for trial in range(each):
                cycles = draw.randrange(1100, 9000)
                stalls = {name: cycles // 10 for name in ("data", "dma", "fetch", "sdma", "unit")}
                yield key | {"kind": "trial", "run": run, "status": "ok", "cycles": cycles, "reason": "", "differs": "",
                             "point": {"rows": trial, "slots": 1 + trial % 2, "weight_unroll": 8},
                             "counters": {"cycles": cycles, "packets": cycles // 2, "array_rows": 64, "dram_beats": 100, "stalls": stalls},
                             "seconds_lower": 0.03, "seconds_simulate": 0.01, "when": start + trial, "verification": "verified"}


def open_page(page):
    """Seconds until it is usable."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": """
            new MutationObserver((_, observer) => {
                if (document.documentElement.dataset.drawn) { window.usable = performance.now(); observer.disconnect(); }
            }).observe(document, {attributes: true, subtree: true, attributeFilter: ["data-drawn"]});"""})
        browser.get(f"file://{page}")
        WebDriverWait(browser, 60).until(lambda one: one.execute_script("return window.usable"))
        return browser.execute_script("return window.usable") / 1000
    finally:
        browser.quit()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="folder of the programs (default: %(default)s)")
    parser.add_argument("--trials", type=int, default=100_000, help="(default: %(default)s)")
    parser.add_argument("--kernels", type=int, default=400, help="(default: %(default)s)")
    parser.add_argument("--repetitions", type=int, default=3, help="of which the median counts (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = pathlib.Path(folder)
        with open(base / "trials.jsonl", "w") as lines:
            for line in export_lines(options.trials, options.kernels):
                lines.write(json.dumps(line) + "\n")
        subprocess.run([options.bin / "atalla-db", "--db", base / "x.db", "merge", base / "trials.jsonl"], check=True, stdout=sys.stderr)
        built, usable = [], []
        for number in range(options.repetitions):
            site = base / f"site{number}"
            start = time.monotonic()
            subprocess.run([options.bin / "atalla-dashboard", "-o", site, "--db", base / "x.db", "--quiet"], check=True, stdout=sys.stderr)
            built.append(time.monotonic() - start)
            usable.append(open_page(site / "index.html"))
        print(json.dumps({"trials": options.trials, "kernels": options.kernels, "build_seconds": statistics.median(built),
                          "usable_seconds": statistics.median(usable), "repetitions": options.repetitions}))


if __name__ == "__main__":
    main()
