#!/usr/bin/env python3
"""Measures the prose of Markdown files and names the words that this project does not use.

    python3 tools/prose.py              # README, ARCHITECTURE, CHANGELOG and the pages of docs/
    python3 tools/prose.py FILE...      # these files

Prints a row per file: words per sentence, the share of sentences over 35 words, the longest paragraph in words with
its line, and the number of forbidden words. Below the table stands each forbidden word with its line. The exit code is
1 where a rule is broken: over 20 words per sentence, a paragraph over 80 words, or a forbidden word.

Code blocks, tables and headings do not count, nor do bold words with a full stop that begin a paragraph. A list item is
a paragraph of its own, and code within a line is a word.
Without FILE the pages that commands write are left out (WRITTEN). Needs Python 3.11 and nothing else.
"""

import re
import sys
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WRITTEN = {"architectures.md", "catalogue.md", "faults-by-wiring.md", "llama-cpp-flags.md"}
MOST_AVERAGE, LONG, MOST_PARAGRAPH = 20, 35, 80
FORBIDDEN = re.compile(r"\b(so many|so manieth|whoever|is none|but for|anew|told)\b", re.IGNORECASE)

CODE = re.compile(r"`[^`]+`")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
TITLE = re.compile(r"\*\*[^*]+\.\*\* ")
ITEM = re.compile(r"( *)([-*+]|\d+\.) +")
# The end of a sentence: a full stop and the like before white space, but not that of an abbreviation or an initial.
END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)(?<!\bcf)(?<!\b[A-Z])[.!?][)\"'*_]*(?=\s|$)")


def paragraphs(text):
    """The paragraphs of a file, each as a list of pairs: a line's number and its text without marks of lists."""
    current, fence, inside, blank = [], None, 0, True
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        indent = len(line) - len(line.lstrip())
        mark = re.match(r"```|~~~", bare)
        if fence or mark:
            fence = (None if mark and bare.startswith(fence) else fence) if fence else mark[0]
            ends, bare = True, ""
        else:
            code = blank and indent >= inside + 4
            ends = code or not bare or bare[0] in "#|"
        item = None if ends else ITEM.match(line)
        if current and (ends or item):
            yield current
            current = []
        if item:
            inside, bare = item.end(), line[item.end():]
        elif not ends and blank and indent < inside:
            inside = 0
        if not ends:
            current.append((number, bare.removeprefix("> ")))
        blank = ends
    if current:
        yield current


def sentences(paragraph):
    """The number of words of each sentence of a paragraph."""
    text = LINK.sub(r"\1", CODE.sub("code", " ".join(line for _, line in paragraph)))
    text = text.removeprefix(title[0]) if (title := TITLE.match(text)) else text
    counts = (sum(any(c.isalnum() for c in word) for word in part.split()) for part in END.split(text))
    return [count for count in counts if count]


def forbidden(paragraph):
    """Forbidden words of a paragraph with their lines; one may go on from a line to the next."""
    numbers = [number for number, line in paragraph for _ in line + " "]
    text = CODE.sub(lambda code: "`" * len(code[0]), " ".join(line for _, line in paragraph))
    return [(numbers[found.start()], found[0].lower()) for found in FORBIDDEN.finditer(text)]


def main(names):
    default = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")]
    default += [path for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in WRITTEN]
    broken, found = False, []
    print(f"{'file':<28} {'words/sentence':>14} {'over ' + str(LONG):>8} {'longest paragraph':>22} {'forbidden':>10}")
    for path in [Path(name) for name in names] or default:
        counted = [(sentences(p), p) for p in paragraphs(path.read_text(encoding="utf-8"))]
        lengths = [words for counts, _ in counted for words in counts] or [0]
        longest, line = max(((sum(counts), p[0][0]) for counts, p in counted), default=(0, 0))
        words = [hit for _, p in counted for hit in forbidden(p)]
        average = sum(lengths) / len(lengths)
        share = sum(length > LONG for length in lengths) / len(lengths)
        print(f"{path.name:<28} {average:>14.1f} {share:>8.1%} {f'{longest} (line {line})':>22} {len(words):>10}")
        broken |= average > MOST_AVERAGE or longest > MOST_PARAGRAPH or bool(words)
        found += [(path.name, word, number) for number, word in words]
    for (name, word), hits in groupby(sorted(found), key=lambda hit: hit[:2]):
        print(f"{name}: {word!r} in line {', '.join(str(hit[2]) for hit in hits)}")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
