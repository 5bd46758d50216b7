"""Writes crates/tokenizer/tests/goldens/chat.json: digests of odd conversations, rendered by Jinja2 as Hugging Face does.

    python tools/goldens/chat.py crates/tokenizer/tests/goldens/chat.json

Needs Jinja2 3.1.6. The conversations are those of tests/goldens/chat_cases.json beside the output; the templates are all
of fixtures/templates, where CANDOR_FIXTURES says, by default ../shared/fixtures beside the repository. The date is fixed at
2024-07-26 12:34:56, as in fixtures/expected/chat.

For each template there is one line: for each case, in order, 12 hexadecimal digits of the SHA-256 of the text, or `-` where
the template raises. `--texts FOLDER` writes the texts themselves besides, as TEMPLATE/CASE.txt, so that a difference can be
looked at: the test prints where a text first differs if CANDOR_CHAT_TEXTS names that folder.

Beside the output there is chat_expressions.json, too: small templates in what Jinja2 has to offer, whose results (null where
it raises) the script fills in anew.

In the cases, {"$repeat": [TEXT, N]} stands for a text that is repeated, and a list item {"$times": [N, ITEMS]} for items
that are.
"""

import argparse
import datetime
import hashlib
import json
import os
from pathlib import Path

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

COMMAND = "python tools/goldens/chat.py crates/tokenizer/tests/goldens/chat.json"
VERSIONS = f"Jinja2 {jinja2.__version__}"
BASE = {"bos_token": "<|BOS|>", "eos_token": "<|EOS|>", "add_generation_prompt": True}


class Generation(Extension):
    """{% generation %} ... {% endgeneration %}: the contents."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_contents"), [], [], body).set_lineno(line)

    def _contents(self, caller):
        return caller()


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def strftime_now(format):
        return datetime.datetime(2024, 7, 26, 12, 34, 56).strftime(format)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def expanded(value):
    if isinstance(value, dict):
        if list(value) == ["$repeat"]:
            return value["$repeat"][0] * value["$repeat"][1]
        return {key: expanded(item) for key, item in value.items()}
    if isinstance(value, list):
        out = []
        for item in value:
            if isinstance(item, dict) and list(item) == ["$times"]:
                out.extend(expanded(item["$times"][1] * item["$times"][0]))
            else:
                out.append(expanded(item))
        return out
    return value


def source(path):
    text = path.read_text(encoding="utf-8") if path.suffix == ".json" else path.open(encoding="utf-8", newline="").read()
    if path.suffix == ".json":
        text = json.loads(text)["chat_template"]
        if not isinstance(text, str):
            text = next(item["template"] for item in text if item["name"] == "default")
    return text


def expressions(path):
    """Fills in what the small templates of a file give."""
    given = json.loads(path.read_text(encoding="utf-8"))
    results = []
    for template, _ in given["templates"]:
        try:
            result = environment().from_string(template).render(**json.loads(json.dumps(given["variables"])))
        except Exception:
            result = None
        results.append([template, result])
    rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in results)
    head = json.dumps({"made_by": COMMAND, "with": VERSIONS, "variables": given["variables"]}, ensure_ascii=False)
    path.write_text(f'{head[:-1]}, "templates": [\n{rows}\n]}}\n', encoding="utf-8")
    print(f"{len(results)} small templates, {sum(result is None for _, result in results)} raise")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("output", type=Path)
    arguments.add_argument("--texts", type=Path)
    options = arguments.parse_args()
    fixtures = Path(os.environ.get("CANDOR_FIXTURES") or Path(__file__).parents[2].parent / "shared/fixtures")
    folder = fixtures / "templates"
    given = json.loads((options.output.parent / "chat_cases.json").read_text(encoding="utf-8"))
    cases = {name: BASE | expanded({"messages": case["messages"]} | case) for name, case in given.items()}
    templates = {}
    for path in sorted(path for path in folder.rglob("*") if path.suffix in (".jinja", ".jinja2", ".json")):
        name = str(path.relative_to(folder))
        template = environment().from_string(source(path))
        digests = []
        for case, variables in cases.items():
            try:
                text = template.render(**json.loads(json.dumps(variables)))
            except Exception as error:
                digests.append("-")
                text = f"raises {type(error).__name__}: {error}"
            else:
                digests.append(hashlib.sha256(text.encode("utf-8")).hexdigest()[:12])
            if options.texts:
                place = options.texts / name / f"{case}.txt"
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text, encoding="utf-8", newline="")
        templates[name] = " ".join(digests)
    expressions(options.output.parent / "chat_expressions.json")
    golden = {"made_by": COMMAND, "with": VERSIONS, "cases": list(cases), "templates": templates}
    options.output.write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    total = len(templates) * len(cases)
    raised = sum(line.split().count("-") for line in templates.values())
    print(f"{len(templates)} templates, {len(cases)} cases: {total} renderings, {raised} raise")


if __name__ == "__main__":
    main()
