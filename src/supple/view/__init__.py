"""The viewer: a robot in the browser, whose end effectors follow targets that the user drags.

Drawing is done by viser, which is imported when a viewer is opened.
"""
