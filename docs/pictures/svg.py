"""What the programs in this folder draw with. Each of them prints one picture: `python3 docs/pictures/NAME.py > docs/pictures/NAME.svg`.
tests/tidy/test_pictures.py holds the committed picture against that."""

from xml.sax.saxutils import escape

INK, GREY, PAPER = "#1f2933", "#616e7c", "#ffffff"
BLUE, GREEN, AMBER, ROSE = "#dbeafe", "#dcf5e3", "#fdf0cd", "#fbe0e0"


class Picture:
    """Coordinates are in pixels, from the top left. Text is centred on its place unless anchor says otherwise."""

    def __init__(self, width, height, title):
        self.lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"',
            '     font-family="Helvetica, Arial, sans-serif" font-size="13" role="img">',
            f"<title>{escape(title)}</title>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="10" markerHeight="10"',
            f'  markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" fill="{INK}"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
        ]

    def text(self, x, y, words, size=13, bold=False, colour=INK, anchor="middle"):
        """One line of text for each line of words; y is the middle of the first."""
        weight = ' font-weight="bold"' if bold else ""
        for n, line in enumerate(words.split("\n")):
            at = y + n * (size + 3) + size * 0.35
            self.lines.append(f'<text x="{x:g}" y="{at:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{weight}>'
                              f"{escape(line)}</text>")

    def box(self, x, y, width, height, fill=PAPER, words="", dashed=False, size=13, bold=False):
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.lines.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" fill="{fill}" stroke="{GREY}"{dash}/>')
        if words:
            middle = y + height / 2 - words.count("\n") * (size + 3) / 2
            self.text(x + width / 2, middle, words, size, bold)

    def line(self, points, width=1.2, colour=GREY, dashed=False, start=False, end=False):
        """start, end: with an arrow head there."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        heads = (' marker-start="url(#head)"' if start else "") + (' marker-end="url(#head)"' if end else "")
        self.lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dash}{heads}/>')

    def arrow(self, *points, data=False, both=False):
        """data: bytes of the state go this way; else it is a message."""
        self.line(points, 2.4 if data else 1.2, INK, not data, both, True)

    def show(self):
        print("\n".join([*self.lines, "</svg>"]))
