"""Demands what llama.cpp's server tests leave out because llama-server doesn't keep it: the same answer in every slot, with
and without the prompt's cache, and an answer where there is room for one.

usage: stricter.py TESTS
"""

import sys
from pathlib import Path

CHANGES = {
    "unit/test_completion.py": [
        ('@pytest.mark.skip(reason="This test fails on linux, need to be fixed")\n', ""),
        ("        # assert match_regex(re_content", "        assert match_regex(re_content"),
        ('@pytest.mark.parametrize("temperature", [0.0])\n', '@pytest.mark.parametrize("temperature", [0.0, 1.0])\n'),
        ("            assert res.status_code == 200 or (\n", "            assert res.status_code == 200 and not (\n"),
    ],
}

for name, changes in CHANGES.items():
    path = Path(sys.argv[1]) / name
    text = path.read_text()
    for old, new in changes:
        if text.count(old) != 1:
            sys.exit(f"{name} has {text.count(old)} times instead of once: {old!r}")
        text = text.replace(old, new)
    path.write_text(text)
