"""Fixtures that read every robot file and solve for every distinct end effector once."""

from __future__ import annotations

import os

import pytest

import robots
import robots_files
from robots_judge import Reading, Row

JOBS = os.cpu_count() or 1


@pytest.fixture(scope="session")
def readings() -> list[Reading]:
    """Return the results of reading every robot file."""
    files = robots_files.robot_files()
    if not files:
        pytest.skip("no robot files: make test-robots installs them")
    return robots.readings(files, JOBS)


@pytest.fixture(scope="session")
def rows(readings: list[Reading]) -> list[Row]:
    """Return the results of all distinct end effectors, solved on the CPU."""
    return robots.rows(robots.distinct(readings), JOBS)


@pytest.fixture(scope="session")
def bases() -> list[Row]:
    """Return the results of an arm on long prismatic joints, solved on the CPU."""
    return robots.base_rows()
