# SPDX-License-Identifier: Apache-2.0
"""A plot as SVG, drawn by hand: points over a logarithmic axis, and the straight line through them,
which on such an axis is logarithmic growth."""
import math

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 50, 60


def fit(points):
    """Least squares: y = a + b * log2(x)."""
    xs = [math.log2(x) for x, _ in points]
    ys = [y for _, y in points]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    square = sum((x - mean_x) ** 2 for x in xs)
    b = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / square if square else 0.0
    return mean_y - b * mean_x, b


def _number(x):
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if x >= size:
            return f"{x / size:g}{letter}"
    return f"{x:g}"


def _ticks(low, high):
    """1, 2 and 5 times powers of ten within the range."""
    found = [m * 10 ** e for e in range(int(math.log10(low)) - 1, int(math.log10(high)) + 2)
             for m in (1, 2, 5)]
    return [t for t in found if low <= t <= high]


def svg(points, title, x_label, y_label):
    """The text of the plot; `points` are (x, y), x above 0 and not all the same."""
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    top = max(y for _, y in points) * 1.2
    a, b = fit(points)

    def at_x(x):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(x / low) / math.log(high / low)

    def at_y(y):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / top

    def text(x, y, words, anchor="middle", size=12):
        return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">'
                f"{words}</text>")

    def line(x1, y1, x2, y2, style):
        return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'

    grid, axis = 'stroke="#ddd"', 'stroke="#333"'
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
           'font-family="sans-serif" fill="#222">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
           text(WIDTH / 2, 24, title, size=15)]
    for t in _ticks(low, high):
        out += [line(at_x(t), TOP, at_x(t), HEIGHT - BOTTOM, grid),
                text(at_x(t), HEIGHT - BOTTOM + 18, _number(t))]
    for i in range(6):
        y = top * i / 5
        out += [line(LEFT, at_y(y), WIDTH - RIGHT, at_y(y), grid),
                text(LEFT - 8, at_y(y) + 4, f"{y:.2f}", "end")]
    out += [line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, axis),
            line(LEFT, TOP, LEFT, HEIGHT - BOTTOM, axis),
            text(WIDTH / 2, HEIGHT - 14, x_label),
            f'<text x="18" y="{HEIGHT / 2}" text-anchor="middle" font-size="12" '
            f'transform="rotate(-90 18 {HEIGHT / 2})">{y_label}</text>',
            line(at_x(low), at_y(a + b * math.log2(low)), at_x(high), at_y(a + b * math.log2(high)),
                 'stroke="#c33" stroke-dasharray="6 4"'),
            text(WIDTH - RIGHT, TOP - 8, f"dashed: {a:.2f} {b:+.3f} for each doubling", "end")]
    out += [f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="4" fill="#246"/>' for x, y in points]
    return "\n".join([*out, "</svg>", ""])
