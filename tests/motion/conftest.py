"""Fixtures of the motion tests."""

from __future__ import annotations
