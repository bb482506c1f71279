"""Colors, line styles and fonts of all figures.

The colors are those of Okabe & Ito 2008, which people with any color vision can distinguish. Line
styles differ as well, for figures printed in gray.
"""

from __future__ import annotations

from typing import Any

BLACK, GRAY, LIGHT = "#1a1a1a", "#8a8a8a", "#d9d9d9"
BLUE, VERMILION, GREEN = "#0072b2", "#d55e00", "#009e73"
PURPLE, ORANGE, SKY = "#cc79a7", "#e69f00", "#56b4e9"

SERIES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)  # colors of successive curves
DASHES = ("-", (0, (5, 1.5)), (0, (7, 1.5, 1.5, 1.5)), (0, (1, 1)))  # one per round of colors
AXES = (VERMILION, GREEN, BLUE)  # x, y, z
STEEL = "#5b6b7a"  # links

LOOK: Any = {  # settings of Matplotlib
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with Matplotlib: figures are the same everywhere
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.7,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.titlesize": 12,
    "figure.titleweight": "bold",
    "svg.fonttype": "path",
    "savefig.dpi": 150,
}


def rgb(color: str) -> tuple[int, int, int]:
    """Return a color "#rrggbb" as three numbers from 0 to 255."""
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)
