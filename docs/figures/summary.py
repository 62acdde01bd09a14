"""Writes the table of docs/results.md that sums up the tables of docs/results/: how far each family is from its bounds.

    python3 docs/figures/summary.py
"""
import math

from standing import DOCS, groups, operator_results

import page

# Family as the table names it, page of docs/results/, title in the picture (operators: those of the page), what binds it on each machine.
FAMILIES = [
    ("matrix products", "products.md", "GEMM, B as [n][k]", {"ax01": "additions; small ones: code", "ax01-psum": "array; code and starts"}),
    ("products of networks", "products.md", "Products of networks", {"ax01": "additions"}),
    ("convolutions", "convolutions.md", "Convolutions, the better layout", {"ax01": "additions", "ax01-psum": "array; image and results"}),
    ("depthwise convolutions", "convolutions.md", "Convolutions, the better layout", {"ax01": "transfers in turns", "ax01-psum": "transfers in turns"}),
    ("attention", "attention.md", "Attention, depth 64", {"ax01": "softmax between products"}),
    ("elementwise", "elementwise.md", None, {"ax01": "DRAM"}),
    ("data movement", "movement.md", None, {"ax01": "DRAM; engines, partial beats"}),
    ("softmax and norms of rows", "rows.md", None, {"ax01": "lanes; ends of blocks"}),
    ("norms of groups", "group-norm.md", None, {"ax01": "issue, three passes"}),
    ("reductions", "reductions.md", None, {"ax01": "DRAM or lanes"}),
    ("pooling", "pooling.md", None, {"ax01": "lanes; turns, short rows"}),
]


def span(values, form):
    low, high = form.format(min(values)), form.format(max(values))
    return f"{low} to {high} %" if low != high else f"{low} %"


def rows_of(drawn, family, file, title):
    if title is None:
        return [row for row in drawn["Streaming operators"] if row[0].split()[0] in operator_results.PAGES[file]]
    return [row for row in drawn[title] if ("depthwise" in row[0]) == ("depthwise" in family)]


def summary():
    lines = ["| family | machine | kernels | share of the bound, mean | range | aimed for | reached | what binds |", "|---|---|---|---|---|---|---|---|"]
    drawn = {name: rows for column in groups() for name, rows in column}
    for family, file, title, binds in FAMILIES:
        for machine, words in binds.items():
            shares = [(share, goal) for _, on, share, goal in rows_of(drawn, family, file, title) if on == machine]
            mean = math.exp(sum(math.log(share) for share, _ in shares) / len(shares))
            marked = [(share, goal) for share, goal in shares if goal]
            aim = span([goal for _, goal in marked], "{:.0f}") if marked else ""
            reached = f"{sum(share >= goal for share, goal in marked)} of {len(marked)}" if marked else ""
            lines.append(f"| [{family}](results/{file}) | {machine} | {len(shares)} | {mean:.1f} % | {span([share for share, _ in shares], '{:.1f}')} | {aim} | {reached} | {words} |")
    return "\n".join(lines)


if __name__ == "__main__":
    page.write(DOCS / "results.md", "docs/figures/summary.py", summary())
