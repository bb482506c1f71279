"""Pictures of robots and motions: figures, animations, and tables for notebooks.

Nothing here imports the rest of supple: robots and results are passed as they are, and call these
functions from their methods. Matplotlib is imported when a figure is drawn.
"""
