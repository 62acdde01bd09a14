"""Draws where every kernel of the tables in docs/results/ stands against its lower bound, beside what is aimed for at least:

    python3 docs/figures/standing.py > docs/figures/standing.svg
"""
import html
import pathlib
import sys

DOCS = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(DOCS))

import operator_results  # noqa: E402

COLORS = {"ax01": "#2f6f4f", "ax01-psum": "#6070b0", "fsim": "#b08030"}
ROW, LABEL, BAR, GAP, TOP = 15, 300, 200, 60, 64


def tables(text, first):
    """The rows of each table whose heading begins with `first`, as dictionaries."""
    found, head = [], None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else None
        if cells is None:
            head = None
        elif head is None:
            head = cells
            if head[0] == first:
                found.append([])
        elif head[0] == first and not set(line) <= set("|- "):
            names = [name if head.index(name) == i else f"{name} {i}" for i, name in enumerate(head)]
            found[-1].append(dict(zip(names, cells)))
    return found


def percent(text):
    return float(text.rstrip("% ")) if text else 0.0


def gemm_goal(machine, shape):
    sizes = [int(size) for size in shape.split("x")]
    small = {64: 55, 128: 65, 256: 75, 512: 92 if machine == "ax01" else 70, 1024: 92 if machine == "ax01" else 70}
    if machine == "fsim":
        return None
    if len(set(sizes)) == 1 and sizes[0] in small:
        return small[sizes[0]]
    return 70 if shape == "1x4096x4096" else 60 if min(sizes) >= 100 else None


def elements(text):
    product = 1
    for size in text.split("x"):
        product *= int(size)
    return product


def operator_goal(row):
    if row["machine"] == "fsim":
        return None
    name = row["operator"]
    sizes = [elements(size) for size in row["shape"].split()[0].split(",")]
    # expand is written with the size that it makes: expand 256x1 `--size 256,512`.
    made = elements(row["shape"].split("--size ")[1].strip("`").replace(",", "x")) if name == "expand" else 0
    moved = sum(sizes) if name in ("cat", "stack") else max(made, *sizes)
    if name in ("softmax", "layer_norm", "rms_norm") or "pool" in name or name in ("sum", "mean", "var", "amax"):
        return 65
    return 80 if moved >= 65536 and not name.endswith("norm") else None


def groups():
    page = lambda name: (operator_results.RESULTS / name).read_text()
    gemm, = tables(page("products.md"), "machine")
    products, = tables(page("products.md"), "network")
    convolutions, = tables(page("convolutions.md"), "layer")
    attention, heads = tables(page("attention.md"), "S = T")
    operators, = tables(operator_results.HEAD + "\n".join(operator_results.read().values()), "machine")
    return [
        [("GEMM, B as [n][k]", [(row["shape"], row["machine"], percent(row["share"]), gemm_goal(row["machine"], row["shape"])) for row in gemm]),
         ("Products of networks", [(f"{row['network']} {row['shape']} {row['B']}", "ax01", percent(row["share"]), 60) for row in products]),
         ("Attention, depth 64", [(f"{row['S = T']} {row['mask']}", "ax01", percent(row["share"]), 55 if row in attention and row["S = T"] != "4096" else None)
                                  for row in attention + heads])],
        [("Convolutions, the better layout", [(row["layer"], row["machine"], max(percent(row["share"]), percent(row["share 6"])), None if "depthwise" in row["layer"] else 45)
                                              for row in convolutions]),
         ("Streaming operators", [(f"{row['operator']} {row['shape']}".replace("`", ""), row["machine"], percent(row["share"]),
                                   operator_goal(row)) for row in operators])]]


def clipped(text, most=48):
    return text if len(text) <= most else text[:most - 1] + "…"


def main():
    columns = groups()
    height = TOP + max(sum(ROW * (len(rows) + 2) for _, rows in column) for column in columns)
    width = len(columns) * (LABEL + BAR + GAP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11" fill="#333">',
           '<rect width="100%" height="100%" fill="#fff"/>',
           '<text x="10" y="20" font-size="14">Cycles of the lower bound, as a share of the cycles of the best schedule found; a mark where the goal is</text>']
    x = 10
    for machine, color in COLORS.items():
        out.append(f'<rect x="{x}" y="32" width="11" height="11" fill="{color}"/><text x="{x + 16}" y="42">{machine}</text>')
        x += 100
    for number, column in enumerate(columns):
        left, y = number * (LABEL + BAR + GAP), TOP
        for title, rows in column:
            y += ROW
            out.append(f'<text x="{left + 10}" y="{y}" font-weight="bold">{html.escape(title)}</text>')
            for label, machine, share, goal in rows:
                y += ROW
                start = left + LABEL
                out.append(f'<text x="{start - 8}" y="{y}" text-anchor="end">{html.escape(clipped(label))}</text>'
                           f'<rect x="{start}" y="{y - 10}" width="{BAR}" height="11" fill="#eee"/>'
                           f'<rect x="{start}" y="{y - 10}" width="{BAR * share / 100:.1f}" height="11" fill="{COLORS[machine]}"/>'
                           f'<text x="{start + BAR + 5}" y="{y}">{share:.0f} %</text>')
                if goal:
                    at = start + BAR * goal / 100
                    out.append(f'<line x1="{at:.1f}" y1="{y - 11}" x2="{at:.1f}" y2="{y + 2}" stroke="{"#000" if share >= goal else "#c00000"}" stroke-width="2"/>')
            y += ROW
    out.append("</svg>")
    print("\n".join(out))


if __name__ == "__main__":
    main()
