"""Random expansion of short templates.

    {a|b|c}   one of the alternatives (may nest, may be empty)
    <name>    a slot: looked up in the slots given to say(), then in LEXICON

Sentences get a capital letter and "a" becomes "an" before a vowel, so that
templates can ignore both.
"""
import random
import re

from .lexicon import LEXICON

_TREES = {}
_TOKEN = re.compile(r"([{}|]|<\w+>)")
_AN = re.compile(r"\b([Aa]) (?=[aeiouAEIOU])")
_NOT_AN = re.compile(r"\b([Aa])n (?=(?:uni|use|one|eu|u-|U-))")
_CAP = re.compile(r"(^|[.!?]\s+|\n|\.\"\s+|[!?]\"\s+(?!(?:he|she|they|said|asked|cried|shouted|whispered|laughed)\b)"
                  r"|: (?=\")|said, (?=\"))([\"(]?)([a-z])")


def _parse(tokens, at, inside):
    """Parse a sequence of alternatives up to `}`; returns (alternatives, next position)."""
    alternatives, current = [], []
    while at < len(tokens):
        t = tokens[at]
        if t == "{":
            node, at = _parse(tokens, at + 1, True)
            current.append(node)
            continue
        at += 1
        if t == "}" and inside:
            return alternatives + [current], at
        if t == "|" and inside:
            alternatives.append(current)
            current = []
        elif t[0] == "<":
            current.append((t[1:-1],))
        else:
            current.append(t)
    if inside:
        raise ValueError("unclosed { in template: " + "".join(tokens))
    return [current], at


def _tree(template):
    tree = _TREES.get(template)
    if tree is None:
        tokens = [t for t in _TOKEN.split(template) if t]
        tree = _TREES[template] = _parse(tokens, 0, False)[0]
    return tree


def polish(text):
    """Spaces, articles and capitals."""
    text = re.sub(r"[ ]+", " ", text)
    text = re.sub(r" ([,.!?;:])(?!\S)", r"\1", text).strip()
    text = _NOT_AN.sub(r"\1 ", _AN.sub(r"\1n ", text))
    return _CAP.sub(lambda m: m[1] + m[2] + m[3].upper(), text)


class Grammar:
    """A seeded source of text."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def pick(self, items):
        return items[int(self.rng.random() * len(items))]

    def some(self, items, n):
        return self.rng.sample(items, n)

    def chance(self, p):
        return self.rng.random() < p

    def _walk(self, alternatives, slots, out):
        for node in self.pick(alternatives):
            if isinstance(node, str):
                out.append(node)
            elif isinstance(node, tuple):
                value = slots.get(node[0])
                if value is None:
                    value = self.pick(LEXICON[node[0]])
                self._walk(_tree(str(value)), slots, out)
            else:
                self._walk(node, slots, out)

    def raw(self, template, **slots):
        """Expand without touching capitals (for parts of sentences)."""
        out = []
        self._walk(_tree(template), slots, out)
        return "".join(out)

    def say(self, template, **slots):
        """Expand to finished text; a list or tuple stands for its alternatives."""
        if not isinstance(template, str):
            template = self.pick(template)
        return polish(self.raw(template, **slots))

    def casual(self, text):
        """What people do to a sentence when they type it."""
        r = self.rng.random()
        if r < 0.50:
            return text
        if r < 0.62:
            text = text.rstrip("?.!")
        elif r < 0.76:
            text = text.lower()
        elif r < 0.90:
            text = re.sub(r"[?.!,]", "", text).lower()
        elif r < 0.93:
            text = text.rstrip("?.!") + self.pick(["??", "!", " ?", "...", "!!", "."])
        elif r < 0.96:
            text = text.replace("'", "")
        else:
            text = self._typo(text)
        return text

    def _typo(self, text):
        """Swap, drop or double one letter inside a longer word."""
        words = text.split(" ")
        long = [i for i, w in enumerate(words) if len(w) > 4 and w.isalpha() and w.islower()]
        if not long:
            return text
        i = self.pick(long)
        w = words[i]
        j = self.rng.randrange(1, len(w) - 2)
        words[i] = self.pick([
            w[:j] + w[j + 1] + w[j] + w[j + 2:],
            w[:j] + w[j + 1:],
            w[:j] + w[j] + w[j:],
        ])
        return " ".join(words)

    def join(self, items, word="and"):
        """a, b and c"""
        items = list(items)
        if len(items) == 1:
            return items[0]
        return ", ".join(items[:-1]) + " " + word + " " + items[-1]
