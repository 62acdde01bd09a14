"""Draws where the cycles of a tuned kernel went: `atalla-tune --op gemm --json | python3 gemm_result.py > gemm-512.svg`."""
import json
import sys

COLORS = {"issue": "#2f6f4f", "unit": "#8fbf9f", "data": "#e0a030", "dma": "#c06030", "sdma": "#a04040", "fetch": "#6070b0",
          "branch": "#9060a0", "bank": "#707070", "array": "#40a0b0", "vlsu": "#b0b040", "drain": "#b0b0b0"}
WIDTH, LEFT, BAR = 760, 20, 720


def main():
    result = json.loads(next(line for line in sys.stdin if line.strip()))
    cycles, bound = result["cycles"], result["bound_cycles"]
    parts = [("issue", cycles - sum(result["stalls"].values()))]
    parts += sorted(result["stalls"].items(), key=lambda item: -item[1])
    parts = [(name, count) for name, count in parts if count * 500 > cycles]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="150" font-family="sans-serif" font-size="13" fill="#333">',
           '<rect width="100%" height="100%" fill="#fff"/>',
           f'<text x="{LEFT}" y="22">GEMM {result["shape"]} on {result["machine"]}: {cycles:,} cycles, '
           f'{100 * result["bound_share"]:.1f} % of the lower bound</text>']
    x = LEFT
    for name, count in parts:
        width = BAR * count / cycles
        out.append(f'<rect x="{x:.1f}" y="35" width="{width:.1f}" height="34" fill="{COLORS[name]}"/>')
        x += width
    at = LEFT + BAR * bound / cycles
    out.append(f'<line x1="{at:.1f}" y1="30" x2="{at:.1f}" y2="76" stroke="#000" stroke-dasharray="4 3"/>')
    out.append(f'<text x="{at - 6:.1f}" y="88" text-anchor="end">lower bound {bound:,}</text>')
    x, y = LEFT, 116
    for name, count in parts:
        label = f"{name} {100 * count / cycles:.1f} %"
        if x + 8 * len(label) + 30 > WIDTH:
            x, y = LEFT, y + 20
        out.append(f'<rect x="{x}" y="{y - 10}" width="11" height="11" fill="{COLORS[name]}"/><text x="{x + 16}" y="{y}">{label}</text>')
        x += 8 * len(label) + 30
    out.append("</svg>")
    print("\n".join(out))


main()
