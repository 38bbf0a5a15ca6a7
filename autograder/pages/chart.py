"""The report's chart: for each exercise, how many answers are right, partly right, wrong or missing."""

from __future__ import annotations

from html import escape

from .summary import OUTCOMES, Summary

WORDS = {
    "right": "right",
    "partly": "partly right",
    "wrong": "wrong",
    "missing": "missing",
    "waiting": "waiting to be marked",
}
#: Heights of a row and its bar, and widths: of what stands left of a bar, of a bar, of what stands right of it.
ROW, BAR, LEFT, WIDTH, RIGHT = 24, 18, 250, 560, 40


def chart(summary: Summary) -> str:
    """An SVG image with a text alternative; it takes its colours from the page."""
    parts: list[str] = []
    top = 34
    for unit in summary.units:
        parts.append(f'<text x="0" y="{top + 13}" class="unit">{escape(unit.name)}</text>')
        top += ROW
        for exercise in unit.exercises:
            label = f'<text x="{LEFT - 10}" y="{top + 13}" text-anchor="end">{escape(exercise.function)}</text>'
            parts.append(label + _bar(exercise.counts, top))
            parts.append(f'<text x="{LEFT + WIDTH + 8}" y="{top + 13}" class="sum">{exercise.handed_in}</text>')
            top += ROW
        top += 8
    head = (
        f'<svg role="img" aria-labelledby="chart-title chart-text" class="chart" '
        f'viewBox="0 0 {LEFT + WIDTH + RIGHT} {top}" xmlns="http://www.w3.org/2000/svg">'
        f'<title id="chart-title">Answers by exercise</title>'
        f'<desc id="chart-text">{escape(in_words(summary))}</desc>'
    )
    return head + _legend(summary) + "".join(parts) + "</svg>"


def _bar(counts: dict[str, int], top: int) -> str:
    total, x, pieces = sum(counts.values()), float(LEFT), []
    for name in OUTCOMES:
        if not counts[name]:
            continue
        width = WIDTH * counts[name] / total
        pieces.append(
            f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{BAR}" class="piece of-{name}">'
            f"<title>{counts[name]} of {total} {WORDS[name]}</title></rect>"
        )
        if width >= 16:
            pieces.append(
                f'<text x="{x + width / 2:.1f}" y="{top + 13}" text-anchor="middle" '
                f'class="number on-{name}">{counts[name]}</text>'
            )
        x += width
    return "".join(pieces)


def _legend(summary: Summary) -> str:
    pieces, x = [], LEFT
    waiting = any(exercise.counts["waiting"] for unit in summary.units for exercise in unit.exercises)
    for name in OUTCOMES if waiting else OUTCOMES[:-1]:
        pieces.append(f'<rect x="{x}" y="4" width="14" height="14" class="piece of-{name}"/>')
        pieces.append(f'<text x="{x + 20}" y="15">{WORDS[name]}</text>')
        x += 40 + 8 * len(WORDS[name])
    return "".join(pieces) + f'<text x="{LEFT + WIDTH + 8}" y="15" class="sum">of</text>'


def in_words(summary: Summary) -> str:
    """What is to be seen in the chart, without its numbers: those stand in the tables."""
    shares = [
        (exercise.counts["right"] / exercise.handed_in, exercise.function)
        for unit in summary.units
        for exercise in unit.exercises
        if exercise.handed_in
    ]
    if not shares:
        return "No answers."
    (low, worst), (high, best) = min(shares), max(shares)
    return (
        f"A bar for each of {len(shares)} exercises, divided into answers right, partly right, wrong and missing. "
        f"The most right answers: {best}, {high:.0%}. The fewest: {worst}, {low:.0%}. All numbers are in the tables."
    )
