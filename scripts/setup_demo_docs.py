"""Fetch real documentation for the demo and write it as plain text, one file a section.

The text is the Debian Reference (GPL-2+), taken from its Debian package without installing it.
"""
import os
import re
import shutil
from html.parser import HTMLParser

from setup_common import SetupError, fresh_folder, last_lines, replace_folder, run, say, shown

PACKAGE = "debian-reference-en"
PAGES = "usr/share/debian-reference"
COPYRIGHT = f"usr/share/doc/{PACKAGE}/copyright"
# Chapters that answer a reader's questions; the tables of programming tools and the Unix primer would
# only add bulk.
CHAPTERS = ("ch02", "ch03", "ch04", "ch05", "ch06", "ch09", "ch10")
# A section shorter than this is joined to its neighbour: it says too little to be found by itself.
SHORTEST = 350
BLOCKS = {"p", "div", "li", "ul", "ol", "dl", "dt", "dd", "tr", "table", "pre", "h1", "h2", "h3", "h4", "h5"}
SKIPPED_CLASSES = {"navheader", "navfooter", "toc", "footnote"}
VOID = {"img", "hr", "br", "link", "meta", "input", "col", "area"}


class SectionReader(HTMLParser):
    """Turns one chapter page into a list of (title, text)."""

    def __init__(self):
        """Start with no section open."""
        super().__init__(convert_charrefs=True)
        self.sections = []
        self.skipping = 0
        self.heading = self.preformatted = False

    def handle_starttag(self, tag, attributes):
        """Open a section at a heading, break lines at blocks, skip navigation."""
        classes = set((dict(attributes).get("class") or "").split())
        if self.skipping or tag in ("script", "style", "head") or classes & SKIPPED_CLASSES:
            self.skipping += tag not in VOID
            return
        if tag in ("h1", "h2", "h3"):
            self.heading = True
            self.sections.append(["", []])
        elif tag in BLOCKS:
            self.write("\n- " if tag == "li" else "\n")
            self.preformatted = self.preformatted or tag == "pre"
        elif tag in ("td", "th"):
            self.write(" | ")
        elif tag == "br":
            self.write("\n")

    def handle_startendtag(self, tag, attributes):
        """An XHTML empty element opens nothing; only a line break matters."""
        if tag == "br" and not self.skipping:
            self.write("\n")

    def handle_endtag(self, tag):
        """Close what handle_starttag opened."""
        if self.skipping:
            self.skipping -= tag not in VOID
        elif tag in ("h1", "h2", "h3"):
            self.heading = False
        elif tag in BLOCKS:
            # A table row already began on a line of its own.
            self.write({"tr": "", "div": "\n", "li": "\n"}.get(tag, "\n\n"))
            self.preformatted = self.preformatted and tag != "pre"

    def handle_data(self, data):
        """Add text to the open heading or section; white space counts only inside <pre>."""
        if not self.skipping:
            # A zero byte marks a preformatted line break, so that tidy() leaves the indentation after it alone.
            self.write(data.replace("\n", "\n\0") if self.preformatted else re.sub(r"\s+", " ", data))

    def write(self, text):
        """Append to the heading or the body of the newest section; text before the first one is dropped."""
        if self.sections and self.heading:
            self.sections[-1][0] += text
        elif self.sections:
            self.sections[-1][1].append(text)


def tidy(pieces):
    """Return body text with single blank lines and table rows in one line each."""
    lines = []
    for line in "".join(pieces).split("\n"):
        if line.startswith("\0"):
            lines.append(line[1:].rstrip())
            continue
        line = re.sub(r" +", " ", line).strip().removeprefix("| ").strip("| ") if "|" in line else line.strip()
        lines.append(re.sub(r" +", " ", line))
    text = "\n".join(line.replace("\0", "") for line in lines)
    text = re.sub(r"^-\s*\n+", "- ", text, flags=re.M)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def group_of(title):
    """Return a title's chapter and section number without the subsection, as in `9.2`."""
    return title.split(" ")[0].rstrip(".").split(".")[:2]


def sections_of(page):
    """Return a chapter's sections as (title, text), joined where one is too short to stand alone."""
    reader = SectionReader()
    reader.feed(page)
    result = []
    for raw_title, pieces in reader.sections:
        title, text = " ".join(raw_title.split()), tidy(pieces)
        same_group = bool(result) and group_of(result[-1][0]) == group_of(title)
        if same_group and (len(text) < SHORTEST or len(result[-1][1]) < SHORTEST):
            result[-1] = (result[-1][0], f"{result[-1][1]}\n\n{title}\n\n{text}".strip())
        elif len(text) >= SHORTEST or text and not title.startswith("Chapter"):
            # An introduction of one line only announces its chapter, so it is left out.
            result.append((title, text))
    return result


def file_name(chapter, title):
    """Return a sorted, readable file name: chapter, section number, words of the title."""
    number, _, words = title.partition(" ")
    if not re.fullmatch(r"[\d.]+", number):
        number, words = "", re.sub(r"^Chapter \d+\. ", "", title)
    digits = [part for part in number.split(".") if part][1:]
    numbers = "-".join(f"{int(part):02d}" for part in digits) or "00"
    slug = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    return f"{chapter}-{numbers}-{slug[:60].strip('-')}.txt"


def write_sections(pages, out):
    """Write every section of the chosen chapters; return (files, bytes)."""
    count = size = 0
    for chapter in CHAPTERS:
        found = sorted(pages.glob(f"{chapter}.en.html"))
        for title, text in sections_of(found[0].read_text(encoding="utf-8")) if found else []:
            body = f"{title}\n\n{text}\n".encode("utf-8")
            (out / file_name(chapter, title)).write_bytes(body)
            count, size = count + 1, size + len(body)
    return count, size


def fetch_package(folder):
    """Download the package into `folder` and return the path of the .deb."""
    # As root, apt hands the download to a user of its own, who may not write here; that costs a warning only.
    command = ["apt-get", "download", PACKAGE]
    code, output = run(command, cwd=folder)
    if code != 0 and os.geteuid() == 0:
        run(["apt-get", "update"])
        code, output = run(command, cwd=folder)
    packages = sorted(folder.glob("*.deb"))
    if code != 0 or not packages:
        raise SetupError(
            f"apt-get could not download {PACKAGE}:\n{last_lines(output)}\n"
            "Run `apt-get update` as root and try again, or put text files of your own into .ragbus/demo-docs."
        )
    return packages[0]


def setup_demo_docs(root):
    """Fill `demo-docs` once; a folder that exists is left alone, because its files may be the user's."""
    target = root / "demo-docs"
    if target.exists():
        say(f"found {shown(target)}")
        return
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise SetupError(
                f"demo documents come from a Debian package and {program} is not here."
                f" Put text, Markdown or HTML files of your own into {shown(target)} instead."
            )
    work = fresh_folder(root / ".making-demo-docs")
    package = fetch_package(work)
    code, output = run(["dpkg-deb", "-x", package, work / "tree"])
    if code != 0:
        raise SetupError(f"dpkg-deb could not unpack {package.name}:\n{last_lines(output)}\nRun again.")
    out = fresh_folder(work / "demo-docs" / "debian-reference")
    count, size = write_sections(work / "tree" / PAGES, out)
    if count == 0:
        raise SetupError(f"{package.name} has no pages under {PAGES}: this release lays the package out differently.")
    shutil.copyfile(work / "tree" / COPYRIGHT, out.parent / "debian-reference.copyright")
    replace_folder(out.parent, target)
    shutil.rmtree(work)
    say(f"wrote {shown(target)}: {count} files, {size // 1024} KiB from {package.name}")
