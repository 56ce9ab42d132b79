# SPDX-License-Identifier: MIT
"""Renders the manual pages and the Markdown files as one directory of HTML, with an index.

    python3 tests/docs/render.py --out DIR

`make docs` runs it. mandoc renders the manual pages; the Markdown is that of this repository and no
more: headings, paragraphs, lists, tables, code, links. A link that leads nowhere is an error.
"""

from __future__ import annotations

import argparse
import html
import os
import re
import subprocess
import sys

SRC = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
STYLE = """body { max-width: 62em; margin: 2em auto; padding: 0 1em; font: 16px/1.5 sans-serif; }
pre, code { font-family: monospace; background: #f4f4f4; } pre { padding: .6em; overflow-x: auto; }
table { border-collapse: collapse; }
td, th { border: 1px solid #bbb; padding: .2em .6em; vertical-align: top; }
table.head, table.foot { width: 100%; } .head td, .foot td { border: 0; } dd { margin-left: 2em; }
td.head-vol { text-align: center; } td.head-rtitle, td.foot-os { text-align: right; }
dl.Bl-compact dt { float: left; clear: left; min-width: 18em; }
dl.Bl-compact dd { margin-left: 18em; min-height: 1.5em; }
"""
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<link rel="stylesheet" href="style.css"></head>
<body><p><a href="index.html">ckptfs documents</a></p>
{body}
</body></html>
"""
SECTIONS = {
    "1": "Commands",
    "3": "C API",
    "5": "Formats",
    "7": "Concepts and guides",
    "8": "Administration",
}


class Dead(Exception):
    """A link that leads nowhere."""


def tracked(*patterns):
    listed = subprocess.run(
        ["git", "-C", SRC, "ls-files", "-co", "--exclude-standard", "--", *patterns],
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        return sorted(
            path for path in set(listed.stdout.split()) if os.path.isfile(os.path.join(SRC, path))
        )
    endings = tuple(pattern[1:] for pattern in patterns)
    return sorted(
        os.path.relpath(os.path.join(top, name), SRC)
        for top, dirs, names in os.walk(SRC)
        for name in names
        if name.endswith(endings) and not set(top[len(SRC) :].split("/")) & {"build", ".git"}
    )


def html_name(path):
    """The name of the page that the source @path becomes; None for what is no document."""
    base = os.path.basename(path)
    if re.search(r"\.[1-8]$", base):
        return base + ".html"
    if base.endswith(".md"):
        return "-".join(path[: -len(".md")].split("/")) + ".html"
    return None


def title_of(path):
    with open(os.path.join(SRC, path), encoding="utf-8") as file:
        text = file.read()
    if path.endswith(".md"):
        found = re.search(r"^# (.*)$", text, re.M)
    else:
        found = re.search(r"^\.Nd (.*)$", text, re.M)
    return found.group(1).strip() if found else path


# --- manual pages ---


def render_man(path, pages):
    made = subprocess.run(
        ["mandoc", "-Thtml", "-Oman=%N.%S.html,fragment", os.path.join(SRC, path)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    ours = set(pages.values())

    def keep(match):
        if match.group(1) in ours:
            return match.group(0)
        if "ckptfs" in match.group(1):
            raise Dead(f"{path}: there is no page {match.group(2)}")
        return match.group(2)  # a page of the system

    return re.sub(r'<a class="Xr" href="([^"]*)">(.*?)</a>', keep, made, flags=re.S)


# --- Markdown ---


def anchor(text):
    return re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", text).lower()).replace(" ", "-")


class Markdown:
    def __init__(self, path, pages):
        self.path, self.pages = path, pages
        self.out = []

    def target(self, link):
        if re.match(r"[a-z]+:", link):
            return link
        file, _, part = link.partition("#")
        if not file:
            return link
        path = os.path.normpath(os.path.join(os.path.dirname(self.path), file))
        if path in self.pages:
            return self.pages[path] + ("#" + part if part else "")
        if not os.path.exists(os.path.join(SRC, path)):
            raise Dead(f"{self.path}: the link '{link}' leads nowhere")
        return None  # a file of the tree that is no document: named, not linked

    def link(self, match):
        to = self.target(html.unescape(match.group(2)))
        return f'<a href="{html.escape(to)}">{match.group(1)}</a>' if to else match.group(1)

    def page(self, match):
        name = f"{match.group(1)}.{match.group(2)}.html"
        return (
            f'<a href="{name}">{match.group(0)}</a>'
            if name in self.pages.values()
            else match.group(0)
        )

    def inline(self, text):
        parts = re.split(r"(`[^`]+`)", text)
        codes = [part[1:-1] for part in parts[1::2]]
        # Code is put back last, so that nothing in it is taken for Markdown.
        text = html.escape("\0".join(parts[0::2]), quote=False)
        text = re.sub(r"\[([^\]]*)\]\(([^)\s]*)\)", self.link, text)
        text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
        text = re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])", r"<em>\1</em>", text)
        text = re.sub(r"\b((?:mount\.)?ckptfs(?:-[a-z]+)?)\(([1-8])\)", self.page, text)
        for code in codes:
            text = text.replace("\0", "<code>" + html.escape(code, quote=False) + "</code>", 1)
        return text

    def row(self, line, tag):
        cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
        return (
            "<tr>"
            + "".join(f"<{tag}>{self.inline(cell.strip())}</{tag}>" for cell in cells)
            + "</tr>"
        )

    def render(self, text):
        lines = re.sub(r"<!--.*?-->\n?", "", text, flags=re.S).split("\n")
        at = 0
        while at < len(lines):
            at = self.block(lines, at)
        return "\n".join(self.out)

    def block(self, lines, at):
        """Takes the block that begins at @at; the line behind it."""
        line = lines[at]
        if not line.strip():
            return at + 1
        if line.startswith("```"):
            end = next(
                (i for i in range(at + 1, len(lines)) if lines[i].startswith("```")), len(lines)
            )
            return self.code(lines[at + 1 : end], end + 1)
        if line.startswith("    "):
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            return self.code([each[4:] for each in lines[at:end]], end)
        heading = re.match(r"(#+) (.*)", line)
        if heading:
            level, words = len(heading.group(1)), heading.group(2)
            self.out.append(f'<h{level} id="{anchor(words)}">{self.inline(words)}</h{level}>')
            return at + 1
        if line.startswith("|"):
            return self.table(lines, at)
        if re.match(r"([-*]|\d+\.) ", line):
            return self.items(lines, at, 0)
        end = at
        while (
            end < len(lines)
            and lines[end].strip()
            and not re.match(r"#+ |```|\||([-*]|\d+\.) ", lines[end])
        ):
            end += 1
        end = max(end, at + 1)
        self.out.append("<p>" + self.inline(" ".join(lines[at:end])) + "</p>")
        return end

    def code(self, lines, end):
        self.out.append("<pre>" + html.escape("\n".join(lines).rstrip(), quote=False) + "</pre>")
        return end

    def table(self, lines, at):
        end = at
        while end < len(lines) and lines[end].startswith("|"):
            end += 1
        head, body = lines[at], lines[at + 1 : end]
        if body and re.fullmatch(r"[|\s:-]+", body[0]):
            body = body[1:]
        self.out += [
            "<table>",
            self.row(head, "th"),
            *(self.row(each, "td") for each in body),
            "</table>",
        ]
        return end

    def items(self, lines, at, depth):
        """A list whose items are indented by @depth; what is indented further belongs to its
        item."""
        tag = "ol" if lines[at].strip()[0].isdigit() else "ul"
        self.out.append(f"<{tag}>")
        while at < len(lines):
            item = re.match(rf" {{{depth}}}([-*]|\d+\.) +(.*)", lines[at])
            if not item:
                break
            text, at = [item.group(2)], at + 1
            while (
                at < len(lines)
                and lines[at].startswith(" " * (depth + 2))
                and not re.match(r" *([-*]|\d+\.) ", lines[at])
            ):
                text.append(lines[at].strip())
                at += 1
            self.out.append("<li>" + self.inline(" ".join(text)))
            deeper = re.match(r"( +)([-*]|\d+\.) ", lines[at]) if at < len(lines) else None
            if deeper and len(deeper.group(1)) > depth:
                at = self.items(lines, at, len(deeper.group(1)))
            self.out.append("</li>")
        self.out.append(f"</{tag}>")
        return at


def render_markdown(path, pages):
    with open(os.path.join(SRC, path), encoding="utf-8") as file:
        return Markdown(path, pages).render(file.read())


# --- all of it ---


def check_links(out, names):
    """Every link leads to a page that is there, and to a part that it has."""
    bodies = {name: open(os.path.join(out, name), encoding="utf-8").read() for name in names}
    ids = {name: set(re.findall(r'\bid="([^"]*)"', body)) for name, body in bodies.items()}
    dead = []
    for name, body in bodies.items():
        for link in map(html.unescape, re.findall(r'href="([^"]*)"', body)):
            if re.match(r"[a-z]+:", link) or link == "style.css":
                continue
            page, _, part = link.partition("#")
            if (page or name) not in ids or part and part not in ids[page or name]:
                dead.append(f"{name}: the link '{link}' leads nowhere")
    if dead:
        raise Dead("\n".join(dead))


def index(pages):
    lines = ["<h1>ckptfs</h1>", "<ul>"]
    texts = [path for path in pages if path.endswith(".md")]
    for path in sorted(texts, key=lambda path: (path != "README.md", path)):
        lines.append(f'<li><a href="{pages[path]}">{path}</a>: {html.escape(title_of(path))}</li>')
    lines.append("</ul>")
    for section, what in SECTIONS.items():
        lines += [f"<h2>{what}</h2>", "<ul>"]
        for path in sorted(
            (path for path in pages if path.endswith("." + section)), key=os.path.basename
        ):
            name = os.path.basename(path)[:-2]
            lines.append(
                f'<li><a href="{pages[path]}">{name}({section})</a>: '
                f"{html.escape(title_of(path))}</li>"
            )
        lines.append("</ul>")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="the directory, made if it is missing"
    )
    out = parser.parse_args().out
    pages = {path: html_name(path) for path in tracked("*.1", "*.3", "*.5", "*.7", "*.8", "*.md")}
    os.makedirs(out, exist_ok=True)
    try:
        for path, name in pages.items():
            body = (render_markdown if path.endswith(".md") else render_man)(path, pages)
            with open(os.path.join(out, name), "w", encoding="utf-8") as file:
                file.write(PAGE.format(title=html.escape(title_of(path)), body=body))
        with open(os.path.join(out, "index.html"), "w", encoding="utf-8") as file:
            file.write(PAGE.format(title="ckptfs", body=index(pages)))
        with open(os.path.join(out, "style.css"), "w", encoding="utf-8") as file:
            file.write(STYLE)
        check_links(out, [*pages.values(), "index.html"])
    except Dead as dead:
        sys.exit(str(dead))
    print(os.path.join(out, "index.html"))


main()
