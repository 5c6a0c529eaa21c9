"""Converts a Markdown report to a self-contained HTML page with embedded plots."""

import base64
import re
from pathlib import Path

from markdown_it import MarkdownIt

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 90rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px; display: block; overflow-x: auto }
th, td { border: 1px solid #ccc; padding: 2px 8px; text-align: left } th { background: #eee }
td { font-variant-numeric: tabular-nums } tr:nth-child(even) td { background: #f7f7f7 }
figure { display: inline-block; vertical-align: top; width: calc(50% - 1.5rem); min-width: 26rem; margin: 0 1rem 1.5rem 0 }
figcaption { font-weight: 600; margin-bottom: .3rem } figure img { width: 100%; height: auto; max-height: 30rem; object-position: left }
summary { cursor: pointer; color: #555; margin: .5rem 0 }
nav a { margin-right: 1rem }
"""

PLOT = re.compile(r"<p><strong>([^<]*)</strong></p>\s*<p>(<img [^>]*>)</p>")


def page(markdown: str, directory: Path) -> str:
    """The HTML page of a report. Its plots are named relative to `directory`."""
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    headings = []

    def anchored(match: re.Match) -> str:
        number = len(headings)
        headings.append(f'<a href="#part{number}">{match[1]}</a>')
        return f'<h2 id="part{number}">{match[1]}</h2>'

    html = re.sub(r"<h2>(.*?)</h2>", anchored, html)
    html = PLOT.sub(r"<figure><figcaption>\1</figcaption>\2</figure>", html)
    html = re.sub(r'src="([^":]+\.svg)"', lambda match: f'src="{_embedded(directory / match[1])}"', html)
    title = re.search(r"<h1>(.*?)</h1>", html)
    head = f'<meta charset="utf-8"><title>{title[1] if title else "Report"}</title><style>{STYLE}</style>'
    return f"<!doctype html><html lang=\"en\"><head>{head}</head><body><nav>{''.join(headings)}</nav>{html}</body></html>\n"


def _embedded(picture: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(picture.read_bytes()).decode()
