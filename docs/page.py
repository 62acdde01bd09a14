"""Parts of a page that a command writes. They stand between two comments, the first of which names the command; the text around them is
the page's own."""

import pathlib

DOCS = pathlib.Path(__file__).resolve().parent
END = "<!-- to here -->\n"


def _bounds(text, writer, name):
    begin = f"<!-- {writer} writes from here -->\n"
    start = text.find(begin) + len(begin)
    end = text.find(END, start)
    if start < len(begin) or end < 0:
        raise SystemExit(f"{name} has no part of {writer}: put '{begin.strip()}' and '{END.strip()}' where it belongs")
    return start, end


def read(page, writer):
    """What stands there now. `page` is a path, `writer` the command with the name of its part where it has several."""
    text = page.read_text()
    start, end = _bounds(text, writer, page.name)
    return text[start:end]


def write(page, writer, written):
    """Replaces it, and ends it with a line's end."""
    text = page.read_text()
    start, end = _bounds(text, writer, page.name)
    page.write_text(text[:start] + written.rstrip("\n") + "\n" + text[end:])
