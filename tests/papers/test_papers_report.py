"""The HTML report is complete, well-formed and self-contained."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
from collections.abc import Callable
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from supple.papers import EXPERIMENTS, Claim, Outcome
from supple.papers.report import page, prose
from supple.papers.running import Finding, find_all

from sizes import a_third
from supple.cli.group import cli

Ran = Callable[[str], Outcome]


@pytest.fixture(scope="session")
def html(ran: Ran, drawn: Callable[[str], bytes]) -> str:
    """Return the HTML page of all experiments; an ordinary run draws a third of their figures."""
    some = a_third(list(EXPERIMENTS), "svg")  # test_experiments.py also draws these

    def finding(name: str) -> Finding:
        svg = drawn(name) if name in some else b'<svg xmlns="http://www.w3.org/2000/svg"/>'
        return Finding(name, dict(ran(name).quantities), ran(name).claims, svg, 1.0)

    return page([finding(name) for name in EXPERIMENTS])


class Elements(HTMLParser):
    """A parser that collects all elements of a page and checks that each is closed."""

    VOID = ("meta", "link", "img", "br")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_well_formed_html_without_external_links(html: str) -> None:
    elements = Elements(html)
    assert not elements.open
    names = {attributes["id"] for _, attributes in elements.found if "id" in attributes}
    for tag, attributes in elements.found:
        assert tag not in ("script", "iframe", "object")
        for name in ("src", "href"):
            link = attributes.get(name) or "data:"
            assert link.startswith("data:") or link.removeprefix("#") in names, link


def test_the_html_report_has_every_experiment_and_claim(html: str, ran: Ran) -> None:
    outcomes = [ran(name) for name in EXPERIMENTS]
    claims = [claim for outcome in outcomes for claim in outcome.claims]
    of_papers = [claim for claim in claims if not claim.own]
    holding = sum(claim.holds is True for claim in of_papers)
    assert f"{holding} of {len(of_papers)} claims hold" in html
    for claim in claims:
        for words in (claim.paper, claim.measured, claim.why):
            assert escape(words) in html
    for name, experiment in EXPERIMENTS.items():
        assert f'href="#{name}"' in html
        assert f'id="{name}"' in html
        for each in experiment.deviations:
            assert prose(each) in html


def test_figures_of_the_report_are_embedded_svg_pictures(html: str) -> None:
    pictures = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    assert len(pictures) == len(EXPERIMENTS)
    for each in pictures:
        assert ElementTree.fromstring(base64.b64decode(each)).tag.endswith("svg")


def test_texts_in_the_html_report_are_escaped() -> None:
    claim = Claim("<b>σ</b>", "1 < 2", True, '"&"')
    shown = page([Finding("n-gain", {"a": 1.0}, (claim,), b"", 0.1)])
    assert "&lt;b&gt;σ&lt;/b&gt;" in shown
    assert "<b>" not in shown
    assert "1 &lt; 2" in shown
    assert prose("`a<b` and c") == "<code>a&lt;b</code> and c"


def test_the_paper_command_writes_the_html_report(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["paper", "n-gain", "--report", str(tmp_path / "a/b")])
    assert done.exit_code == 0, done.output
    assert "4 of 5 claims hold" in (tmp_path / "a/b/index.html").read_text(encoding="utf-8")
    assert "4 of 5 claims hold" in done.stdout


def test_experiments_in_separate_processes_give_the_same_numbers(ran: Ran) -> None:
    """The numbers are those of a run in one process."""
    names = ["n-gain", "mk-puma-b"]
    found = {each.name: each for each in find_all(names)}
    assert set(found) == set(names)
    for name in names:
        assert found[name].quantities == ran(name).quantities
        assert found[name].claims == ran(name).claims


# ---- in a browser --------------------------------------------------------------------------------

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((path for path in map(shutil.which, NAMES) if path), "")


def opened(file: Path, profile: Path) -> tuple[str, list[str]]:
    """Return the document as parsed by a browser, and the messages of the browser's console."""
    done = subprocess.run(
        [
            BROWSER,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            f"--user-data-dir={profile}",
            "--enable-logging=stderr",
            "--dump-dom",
            file.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.skipif(not BROWSER, reason="no browser here: Debian has one in the package chromium")
def test_a_browser_opens_the_report_and_fetches_nothing(html: str, tmp_path: Path) -> None:
    """The page forbids the browser to fetch anything, and the console stays empty. A page with an
    external picture causes a message in the console, so this test can fail.
    """
    file, other = tmp_path / "index.html", tmp_path / "other.html"
    file.write_text(html, encoding="utf-8")
    image = '<img src="http://elsewhere.invalid/x.png" alt=""></body>'
    other.write_text(html.replace("</body>", image), encoding="utf-8")
    document, console = opened(file, tmp_path / "profile")
    assert console == []
    assert document.count("<section") == len(EXPERIMENTS)
    assert any("elsewhere.invalid" in line for line in opened(other, tmp_path / "profile")[1])
