"""Put single exchanges together to whole documents."""
from . import facts, smalltalk, stories, talk, unknown, words

MODULES = [smalltalk, talk, stories, facts, words, unknown]
INTENTS = [(w, f) for m in MODULES for w, _, f in m.INTENTS]
WEIGHTS = [w for w, _ in INTENTS]
FUNCTIONS = [f for _, f in INTENTS]

SYSTEM = ["You are a {helpful|friendly|kind|polite} assistant.", "You are Candor's {small|tiny} built-in model.", "You are a {helpful|friendly} {|and honest |and polite }{assistant|chat program|AI assistant}.", "Answer {briefly|shortly|in simple words|politely|kindly}.", "You are Candor, a {small|helpful|friendly} assistant.",
          "Be {helpful|friendly|honest|brief}.", "You talk to {a child|children|beginners}. {Use simple words.|Be kind.}", "You are an assistant. {Answer the questions of the user.|Help the user.|Be helpful and honest.}", "You {like to tell stories|help people with simple questions}.", "You are a helpful assistant. Answer {in simple English|in one or two sentences|the question}."]


def exchange(g):
    return g.rng.choices(FUNCTIONS, WEIGHTS)[0](g)


def chat(g):
    """A list of (role, text): an optional system message and one to four or more exchanges."""
    r = g.rng.random()
    turns = []
    if r < 0.60:
        turns = exchange(g)
    else:
        if g.chance(0.35):
            turns += g.pick([smalltalk.greet, smalltalk.how_are_you, smalltalk.my_name])(g)
        for _ in range(g.rng.choice([1, 2, 2, 3])):
            turns += exchange(g)
        if g.chance(0.12):
            turns += smalltalk.thanks(g)
        if g.chance(0.12):
            turns += smalltalk.bye(g)
    messages = []
    if g.chance(0.2):
        messages.append(("system", g.say(SYSTEM)))
    for user, assistant in turns:
        messages.append(("user", g.casual(user)))
        messages.append(("assistant", assistant))
    return messages


def plain(g):
    """A text without the chat format."""
    r = g.rng.random()
    if r < 0.85:
        return stories.story(g)
    return stories.poem(g, g.pick(list(stories.POEM_TOPICS)))
