"""A picture as PNG, where no browser is at hand: for mail, chat and tickets.

Responsible for drawing SVG with the resvg library and a font of its own, so that a server without
fonts shows the same. Refuses to know what is drawn.
"""

from __future__ import annotations

from importlib.resources import files

ZOOM = 2.0
"""Pixels of the file for one of the picture: screens have as many."""
FONT = "Source Sans Pro"
FONT_PACKAGE = "font_source_sans_pro"
FACES = ("Regular", "Semibold", "Bold")


def png_of(svg: str) -> bytes:
    """The picture, drawn. Raises `ValueError` for what is no SVG."""
    import resvg_py

    folder = files(FONT_PACKAGE) / "files"
    drawn = resvg_py.svg_to_bytes(
        svg_string=svg,
        zoom=ZOOM,
        skip_system_fonts=True,
        font_files=[str(folder / f"SourceSansPro-{face}.ttf") for face in FACES],
        font_family=FONT,
        sans_serif_family=FONT,
    )
    return bytes(drawn)
