"""The viewer: a robot in the browser that follows what is dragged, through singularities.

viser draws; it is imported when a viewer is opened.
"""
