#!/usr/bin/env python3
"""Writes docs/results/targets.md from what `./atalla bench targets` wrote: every kernel of which a speed is asked, and whether it has it.

    ./atalla bench targets
    python3 docs/target_results.py build/bench/targets.json
"""

import json
import pathlib
import sys

import page

PAGE, PART = page.DOCS / "results" / "targets.md", "docs/target_results.py"
HEAD = ["| machine | kernel | cycles | lower bound | share | asked | aimed for | upstream | |", "|---|---|---|---|---|---|---|---|---|"]


def goal(result, share, cycles):
    """A share of the bound, or cycles at most; empty if neither is asked."""
    if result.get(cycles):
        return f"{result[cycles]:,.0f} cycles"
    return f"{100 * result[share]:.0f} %" if result.get(share) else ""


def verdict(result):
    if not (result.get("least_share") or result.get("most_cycles")):
        return "reported"
    return "yes" if result["reached"] else "no"


def row(machine, kernel, result):
    whole = lambda name: f"{result[name]:,.0f}" if result.get(name) else ""
    return (f"| {machine} | {kernel} | {whole('cycles')} | {whole('bound')} | {100 * result['bound_share']:.1f} % | "
            f"{goal(result, 'least_share', 'most_cycles')} | {goal(result, 'aimed_share', 'aimed_cycles')} | {whole('upstream')} | {verdict(result)} |")


def families(results):
    """The results of each family, in their order, as (machine, kernel, result)."""
    found = {}
    for result in results:
        if result.get("error_occurred"):
            sys.exit(f"target_results.py: {result['name']} was not measured: {result['error_message']}")
        family, machine, kernel = result["name"].split("/iterations:")[0].split("/", 2)
        found.setdefault(family, []).append((machine, kernel, result))
    return found


def lines(results):
    by_family = families(results)
    verdicts = {family: [verdict(result) for _, _, result in rows] for family, rows in by_family.items()}
    written = ["| family | asked of | reached |", "|---|---|---|"]
    for family, said in verdicts.items():
        written.append(f"| [{family}](#{family.replace(' ', '-')}) | {len(said) - said.count('reported')} | {said.count('yes')} |")
    for family, rows in by_family.items():
        written += ["", f"## {family.capitalize()}", "", *HEAD, *(row(*one) for one in rows)]
    return written


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    results = json.loads(pathlib.Path(sys.argv[1]).read_text())["benchmarks"]
    page.write(PAGE, PART, "\n".join(lines(results)))


if __name__ == "__main__":
    main()
