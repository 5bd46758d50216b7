"""The grammar that writes the training text of the built-in model.

Every sentence in this package was written for this project; nothing is taken
from another text. Each topic module has a list INTENTS of (weight, name,
function); a function takes a Grammar and returns a dialogue: a list of
(user, assistant) pairs.
"""
