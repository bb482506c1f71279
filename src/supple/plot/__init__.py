"""Figures and animations of robots and motions, and HTML tables for notebooks.

The modules import nothing of supple except errors and tables, because robots and results call them
from their methods. Matplotlib is imported when a figure is drawn.
"""
