"""Colors that people with any color vision can tell apart (Okabe & Ito 2008)."""

from __future__ import annotations

BLACK, GRAY, LIGHT = "#1a1a1a", "#8a8a8a", "#d9d9d9"
BLUE, VERMILION, GREEN = "#0072b2", "#d55e00", "#009e73"
PURPLE, ORANGE, SKY = "#cc79a7", "#e69f00", "#56b4e9"

SERIES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)  # in the order they are drawn
DASHES = ("-", (0, (5, 1.5)), (0, (7, 1.5, 1.5, 1.5)), (0, (1, 1)))  # after all colors are used
AXES = (VERMILION, GREEN, BLUE)  # x, y, z
STEEL = "#5b6b7a"  # links


def rgb(color: str) -> tuple[int, int, int]:
    """Return a color "#rrggbb" as three numbers from 0 to 255."""
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)
