"""Draws the schematic figures of the documentation, as SVG: python docs/figures/draw.py"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent
BLUE, ORANGE, GREEN, RED, GREY, INK = "#00609a", "#a86a00", "#00735a", "#b94700", "#5f6670", "#1c2733"
FONT = "font-family='Helvetica, Arial, sans-serif'"


class Picture:
    """A canvas with the few shapes that the figures need. Coordinates are in pixels, from the upper left corner."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.size, self.title, self.parts = (width, height), title, list[str]()

    def text(self, x: float, y: float, words: str, size: int = 15, colour: str = INK, anchor: str = "middle") -> None:
        style = "font-weight='600'" if words.startswith("*") else ""
        words = words.removeprefix("*").replace("&", "&amp;").replace("<", "&lt;")
        self.parts.append(
            f"<text x='{x}' y='{y}' font-size='{size}' fill='{colour}' text-anchor='{anchor}' {FONT} {style}>"
            f"{words}</text>"
        )

    def box(
        self, x: float, y: float, width: float, height: float, words: str, colour: str = BLUE, *, dashed: bool = False
    ) -> None:
        dash = "stroke-dasharray='6 4'" if dashed else ""
        self.parts.append(
            f"<rect x='{x}' y='{y}' width='{width}' height='{height}' rx='8' fill='{colour}' fill-opacity='0.12' "
            f"stroke='{colour}' stroke-width='2' {dash}/>"
        )
        lines = words.split("\n")
        for index, line in enumerate(lines):
            self.text(x + width / 2, y + height / 2 + 5 + 19 * (index - (len(lines) - 1) / 2), line)

    def frame(self, x: float, y: float, width: float, height: float, label: str, colour: str = ORANGE) -> None:
        self.parts.append(
            f"<rect x='{x}' y='{y}' width='{width}' height='{height}' rx='12' fill='none' stroke='{colour}' "
            "stroke-width='2' stroke-dasharray='7 5'/>"
        )
        self.text(x + 12, y - 8, label, 14, colour, "start")

    def arrow(self, x1: float, y1: float, x2: float, y2: float, colour: str = INK) -> None:
        self.parts.append(
            f"<line x1='{x1}' y1='{y1}' x2='{x2}' y2='{y2}' stroke='{colour}' stroke-width='2' "
            "marker-end='url(#head)'/>"
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str = GREY) -> None:
        self.parts.append(f"<line x1='{x1}' y1='{y1}' x2='{x2}' y2='{y2}' stroke='{colour}' stroke-width='3'/>")

    def bend(self, x1: float, y1: float, x2: float, y2: float, lift: float, colour: str = INK) -> None:
        """A curved arrow that rises ``lift`` pixels above its ends; below them if that is negative."""
        middle, top = (x1 + x2) / 2, min(y1, y2) - lift if lift > 0 else max(y1, y2) - lift
        self.parts.append(
            f"<path d='M{x1} {y1} Q{middle} {top} {x2} {y2}' fill='none' stroke='{colour}' stroke-width='2' "
            "marker-end='url(#head)'/>"
        )

    def save(self, name: str) -> None:
        width, height = self.size
        head = (
            "<defs><marker id='head' viewBox='0 0 10 10' refX='9' refY='5' markerWidth='7' markerHeight='7' "
            f"orient='auto-start-reverse'><path d='M0 0 L10 5 L0 10 z' fill='{INK}'/></marker></defs>"
        )
        (HERE / name).write_text(
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' "
            f"role='img'>\n<title>{self.title}</title>\n{head}\n"
            f"<rect width='{width}' height='{height}' rx='10' fill='#fff'/>\n" + "\n".join(self.parts) + "\n</svg>\n",
            encoding="utf-8",
        )


def trace() -> None:
    """One run of decay.c: two rejected tries, one accepted."""
    p = Picture(860, 250, "One run of the simulator: energy, a loop with three tries, the signal")
    p.box(20, 95, 130, 60, "energy\n1.4", BLUE)
    p.frame(190, 74, 470, 118, "rejection loop: repeat until |angle| < energy / 2")
    for index, (value, colour, word) in enumerate(
        [("1.1", RED, "rejected"), ("-0.9", RED, "rejected"), ("0.3", GREEN, "accepted")]
    ):
        p.box(215 + 150 * index, 95, 120, 60, f"angle\n{value}", colour)
        p.text(275 + 150 * index, 178, word, 14, colour)
    p.box(700, 95, 140, 60, "signal\nobserved: 1.2", GREY)
    for x in (150, 335, 485):
        p.arrow(x, 125, x + (62 if x == 150 else 28), 125)
    p.arrow(635, 125, 698, 125)
    p.text(430, 26, "*A trace: the random choices of one run", 17)
    p.text(
        430, 232, "A program can draw any number of angles, but only the accepted one affects what follows.", 14, GREY
    )
    p.save("ars-trace.svg")


def weights() -> None:
    """Which factors each weight has."""
    p = Picture(860, 330, "The factors of the naive weight and of the ARS weight")
    p.text(430, 30, "*What a weight multiplies", 17)
    rows = [
        ("naive", ["p/q", "p/q", "p/q"], [RED, RED, GREEN], 65, "rejected tries are in: variance can be infinite"),
        (
            "ARS",
            ["", "", "p/q"],
            [GREY, GREY, GREEN],
            195,
            "rejected tries are out; one factor per loop puts the balance right",
        ),
    ]
    for name, factors, colours, y, remark in rows:
        p.text(70, y + 40, f"*{name}", 17)
        p.box(130, y, 100, 66, "p/q\nenergy", BLUE)
        for index, (factor, colour) in enumerate(zip(factors, colours, strict=True)):
            words = f"{factor}\nangle" if factor else "—"
            p.box(255 + 110 * index, y, 95, 66, words, colour, dashed=not factor)
        p.box(720, y, 120, 66, "likelihood\nof signal", GREY)
        if name == "ARS":
            p.box(590, y, 105, 66, "q(A) / p(A)", ORANGE)
        p.text(430, y + 92, remark, 14, RED if name == "naive" else GREEN)
    p.text(430, 318, "A: one try is accepted. p: the simulator's own distribution. q: the proposal.", 13, GREY)
    p.save("ars-weights.svg")


def forks() -> None:
    """Estimating q(A) and p(A) by copies of the process."""
    p = Picture(860, 390, "Continuations: copies of the process, made at the loop's entry")
    p.text(430, 30, "*How often would this loop accept? Ask copies of the program", 17)
    p.line(120, 80, 820, 80, BLUE)
    p.text(70, 85, "worker", 15, BLUE)
    for x, words in ((160, "energy"), (300, "loop entry"), (520, "loop accepted"), (700, "signal")):
        p.parts.append(f"<circle cx='{x}' cy='80' r='7' fill='{BLUE}'/>")
        p.text(x, 62, words, 14)
    p.arrow(300, 88, 300, 138, ORANGE)
    p.line(300, 150, 820, 150, ORANGE)
    p.text(66, 155, "snapshot", 15, ORANGE)
    p.text(180, 155, "forked here, parked", 13, GREY)
    for x, label, colour in (
        (350, "a try from q", GREEN),
        (480, "a try from q", GREEN),
        (610, "until accepted, from p", BLUE),
    ):
        p.arrow(x, 152, x, 208, colour)
        p.box(x - 8, 212, 118 if x < 600 else 180, 52, label, colour)
    p.text(420, 292, "K of N tries accepted: K / N estimates q(A)", 14, GREEN)
    p.text(700, 317, "T tries needed: T estimates 1 / p(A)", 14, BLUE)
    p.box(250, 335, 360, 40, "correction = K / N · T, on average q(A) / p(A)", ORANGE)
    p.save("ars-forks.svg")


def rewinds() -> None:
    """The same without a fork."""
    p = Picture(860, 300, "Rewinding: run on, then put memory back")
    p.text(430, 30, "*The same without a fork: run on, put memory back, run on again", 17)
    for index, x in enumerate((120, 330, 540)):
        p.box(x, 100, 170, 70, "run the loop\nfrom its entry", (GREEN, GREEN, BLUE)[index])
        p.text(x + 85, 192, ("try from q", "try from q", "from p")[index], 14, GREY)
        p.bend(x + 150, 100, x + 20, 98, 62, ORANGE)
    p.text(330, 62, "restore the pages that were written", 14, ORANGE)
    p.arrow(290, 135, 328, 135)
    p.arrow(500, 135, 538, 135)
    p.arrow(710, 135, 760, 135)
    p.text(800, 131, "the trace", 14)
    p.text(800, 149, "goes on", 14)
    p.text(60, 140, "loop entry", 14)
    p.text(
        430,
        236,
        "One process, some microseconds each. libars does so where it can prove that nothing else changed:",
        14,
        GREY,
    )
    p.text(
        430,
        258,
        "no system call with an effect, no other thread, no shared memory. Everywhere else it forks.",
        14,
        GREY,
    )
    p.save("ars-rewinds.svg")


if __name__ == "__main__":
    for figure in (trace, weights, forks, rewinds):
        figure()
    print(f"Figures are in {HERE}")
