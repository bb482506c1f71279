"""Pictures of two panels with curves over time, for docs/paths.py and docs/rules.py."""

import numpy as np
from panda import STYLE, curve, line, text

WIDTH, HEIGHT = 760, 300
LEFT = 50, 430  # of the panels


def panel(left, title, highest, ticks, curves, styles, end):
    """Return axes at `left` with one curve (t, values) per name, over `end` seconds.

    `styles` are the color and the dashes of each name.
    """
    right, top, bottom = left + 310, 50, 250
    y = lambda v: bottom - (bottom - top) * np.minimum(v, highest) / highest  # noqa: E731
    parts = [text(left, 30, title), line(left, bottom, right, bottom, "axis")]
    for tick in ticks:
        parts.append(line(left, y(tick), right, y(tick), "grid"))
        parts.append(text(left - 6, y(tick) + 4, f"{tick:g}", "small", "end"))
    for second in range(int(end) + 1):
        place = left + (right - left) * second / end
        parts.append(text(place, bottom + 18, second, "small", "middle"))
    parts.append(text(right, bottom + 36, "time [s]", "small", "end"))
    for name, (t, values) in curves.items():
        color, dashes = styles[name]
        style = f'style="stroke:{color};stroke-dasharray:{dashes}"'
        x = left + (right - left) * t / end
        drawn = curve(np.stack([x, y(values)], axis=1), "damped")
        parts.append(drawn.replace("/>", f" {style}/>"))
    return parts


def picture(title, panels, styles, end):
    """Return an SVG as text.

    `panels` are two tuples of a title, the highest value, ticks and curves.
    """
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{title}</title><style>{STYLE}</style>",
    ]
    for left, each in zip(LEFT, panels, strict=True):
        parts += panel(left, *each, styles, end)
    for k, (name, (color, dashes)) in enumerate(styles.items()):
        style = f'style="stroke:{color};stroke-width:2.5;stroke-dasharray:{dashes}"'
        parts.append(f'<line x1="55" x2="85" y1="{62 + 18 * k}" y2="{62 + 18 * k}" {style}/>')
        parts.append(text(90, 66 + 18 * k, name, "small"))
    return "\n".join([*parts, "</svg>", ""])
