"""Reports of the results, as one self-contained page of HTML or as Markdown."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape

from supple.papers.experiment import PAPERS
from supple.papers.running import Finding

from supple import __version__

# Content security policy: the browser blocks all scripts and external resources.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

_CSS = """
:root { color-scheme: light; --ink: #1a1a1a; --soft: #5c5c5c; --line: #dcdcdc; --holds: #00664a;
  --fails: #a83f00; --panel: #f6f7f8 }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 68rem; padding: 2rem 1.25rem 5rem; color: var(--ink);
  background: #fff; font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem }
h2 { font-size: 1.35rem; margin: 3.5rem 0 .25rem; padding-top: 1rem;
  border-top: 2px solid var(--ink) }
h2 code { color: var(--soft); font-size: 1rem; font-weight: 400 }
h3 { font-size: 1rem; margin: 1.5rem 0 .25rem }
a { color: #0058a3 }
p { margin: .4rem 0 }
.soft { color: var(--soft) }
.summary { font-size: 1.1rem; background: var(--panel); padding: .9rem 1.1rem;
  border-radius: .4rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100%; margin: .75rem 0; font-size: .93rem }
th, td { text-align: left; vertical-align: top; padding: .45rem .7rem;
  border-bottom: 1px solid var(--line) }
th { background: var(--panel); font-weight: 600 }
td.number { text-align: right; font-variant-numeric: tabular-nums }
.holds, .fails, .open { font-weight: 600; white-space: nowrap }
.holds { color: var(--holds) } .fails { color: var(--fails) } .open { color: var(--soft) }
img { display: block; width: 100%; height: auto; margin: 1rem 0; border: 1px solid var(--line) }
summary { cursor: pointer; color: #0058a3 }
.back { font-size: .9rem }
@media (max-width: 45rem) {
  body { padding: 1.25rem .8rem 4rem }
  h1, h2, code { overflow-wrap: anywhere } nav code { overflow-wrap: normal }
  th, td { padding: .35rem .4rem }
  .holds, .fails, .open { white-space: normal }
  .claims tr, .claims td { display: block }
  .claims tr { padding: .5rem 0; border-bottom: 1px solid var(--line) }
  .claims td { border: 0; padding: .1rem 0 }
  .claims th { display: none }
  .claims td[data-is]::before { content: attr(data-is) ": "; color: var(--soft) }
}
@media print { h2 { break-before: page } .back { display: none } }
"""


HEADINGS = ("the paper says", "we measure", "", "why")


def markdown(findings: Sequence[Finding]) -> str:
    """Return every claim as Markdown, one table for each experiment."""
    parts = [held(findings) + "\n"]
    for finding in findings:
        experiment = finding.experiment
        parts.append(f"### `{finding.name}`: {experiment.title}\n")
        parts.append(f"{experiment.source}.\n")
        rows = [HEADINGS, ("---",) * 4]
        rows += [(c.statement, c.measured, verdict(c.holds), c.why) for c in finding.claims]
        lines = [f"| {' | '.join(cell.translate(_MARKS) for cell in row)} |" for row in rows]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


_MARKS = str.maketrans({"|": r"\|", "*": r"\*"})  # characters with a meaning in Markdown


def held(findings: Sequence[Finding]) -> str:
    """Return a sentence with the number of the papers' claims that hold, and separately the number
    of supple's own statements that hold.
    """
    claims = [claim for finding in findings for claim in finding.of_paper]
    holding = sum(finding.holding for finding in findings)
    open_ones = sum(claim.holds is None for claim in claims)
    undecided = f" and {open_ones} cannot be decided from the text" if open_ones else ""
    many = f"{len(findings)} experiment{'s' if len(findings) > 1 else ''}"
    own = [claim for finding in findings for claim in finding.claims if claim.own]
    beside = (
        f" {sum(claim.holds is True for claim in own)} of {len(own)} statements that are not in "
        "the papers hold."
        if own
        else ""
    )
    return f"{holding} of {len(claims)} claims hold{undecided}, in {many}.{beside}"


def page(findings: Sequence[Finding]) -> str:
    """Return a page of HTML with all findings."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>The papers, reproduced — supple {escape(__version__)}</title>
<style>{_CSS}</style>
</head>
<body>
<h1>The papers, reproduced</h1>
<p class="soft">Experiments of five texts on damped least squares, run with supple
{escape(__version__)}: what each paper says, what comes out, and whether the two agree.</p>
<p class="summary"><strong>{held(findings)}</strong>
Those that do not, or that the text leaves open, are shown with the reason.</p>
<nav id="index" aria-label="Index">{_index(findings)}</nav>
{"".join(_section(finding) for finding in findings)}
</body>
</html>
"""


def _index(findings: Sequence[Finding]) -> str:
    rows = []
    for key, citation in PAPERS.items():
        of_paper = [f for f in findings if f.experiment.paper == key]
        if of_paper:
            rows.append(f'<tr><th colspan="3" scope="rowgroup">{escape(citation)}</th></tr>')
        for f in of_paper:
            kind = "holds" if f.holding == len(f.of_paper) else "fails"
            rows.append(
                f'<tr><td><a href="#{f.name}"><code>{f.name}</code></a></td>'
                f"<td>{escape(f.experiment.title)}</td>"
                f'<td class="{kind}">{f.holding} of {len(f.of_paper)} hold</td></tr>'
            )
    head = "<tr><th>experiment</th><th>what it shows</th><th>claims</th></tr>"
    return f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>'


def _section(finding: Finding) -> str:
    experiment = finding.experiment
    about = "".join(f"<p>{prose(part)}</p>" for part in experiment.about.split("\n\n"))
    return f"""
<section id="{finding.name}">
<h2>{escape(experiment.title)} <code>{finding.name}</code></h2>
<p class="soft">{escape(experiment.source)}</p>
{about}
{_figure(finding)}
{_claims(finding)}
{_deviations(experiment.deviations)}
{_parameters(finding)}
<details><summary>{len(finding.quantities)} quantities</summary>{_quantities(finding)}</details>
<p class="back"><a href="#index">back to the index</a>
<span class="soft">— took {finding.seconds:.1f} s</span></p>
</section>
"""


def _figure(finding: Finding) -> str:
    if not finding.svg:
        return ""
    picture = base64.b64encode(finding.svg).decode("ascii")
    words = escape(f"Figure: {finding.experiment.title}", quote=True)
    return f'<img src="data:image/svg+xml;base64,{picture}" alt="{words}">'


def _claims(finding: Finding) -> str:
    """Return the table of claims; narrow screens stack the cells, each with its column heading."""
    says, measured, _, why = HEADINGS
    rows = "".join(
        f'<tr><td data-is="{says}">{escape(claim.statement)}</td>'
        f'<td data-is="{measured}">{escape(claim.measured)}</td>'
        f'<td class="{_KINDS[claim.holds]}">{verdict(claim.holds)}</td>'
        f'<td data-is="{why}">{escape(claim.why)}</td></tr>'
        for claim in finding.claims
    )
    head = "".join(f"<th>{heading}</th>" for heading in HEADINGS)
    return f'<div class="scroll"><table class="claims"><tr>{head}</tr>{rows}</table></div>'


def _deviations(deviations: Iterable[str]) -> str:
    items = "".join(f"<li>{prose(each)}</li>" for each in deviations)
    return f"<h3>Where this departs from the print</h3><ul>{items}</ul>" if items else ""


def _parameters(finding: Finding) -> str:
    items = "".join(
        f"<li>{escape(str(each))}"
        + (f"; here {finding.values[each.name]:g}" if each.name in finding.values else "")
        + "</li>"
        for each in finding.experiment.parameters
    )
    return f"<h3>Parameters</h3><ul>{items}</ul>" if items else ""


def _quantities(finding: Finding) -> str:
    rows = "".join(
        f'<tr><td><code>{escape(name)}</code></td><td class="number">{value:.6g}</td></tr>'
        for name, value in finding.quantities.items()
    )
    return f"<table><tr><th>name</th><th>value</th></tr>{rows}</table>"


def prose(text: str) -> str:
    """Convert text with names in backquotes to HTML."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def verdict(holds: bool | None) -> str:
    """Return the verdict as words and a mark, which can be read without color."""
    return {True: "✓ holds", False: "✗ does not", None: "? undecided"}[holds]


_KINDS = {True: "holds", False: "fails", None: "open"}  # classes of the style sheet
