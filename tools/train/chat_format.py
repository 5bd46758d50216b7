"""The chat format: control tokens, the template, and its rendering to tokens."""

BOS, END = "<s>", "<|end|>"
ROLES = {"system": "<|system|>", "user": "<|user|>", "assistant": "<|assistant|>"}
CONTROL = list(ROLES.values()) + [END]

TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'system' %}<|system|>{{ message['content'] | trim }}<|end|>"
    "{% elif message['role'] == 'user' %}<|user|>{{ message['content'] | trim }}<|end|>"
    "{% elif message['role'] == 'assistant' %}<|assistant|>{{ message['content'] | trim }}<|end|>"
    "{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def encode_chat(sp, messages, generate=False):
    """(ids, flags): the tokens the template gives, and 1 where the assistant speaks."""
    end = sp.piece_to_id(END)
    ids, flags = [sp.bos_id()], [0]
    for role, text in messages:
        part = sp.encode(text.strip())
        speaks = int(role == "assistant")
        ids += [sp.piece_to_id(ROLES[role])] + part + [end]
        flags += [0] + [speaks] * (len(part) + 1)
    if generate:
        ids.append(sp.piece_to_id(ROLES["assistant"]))
        flags.append(0)
    return ids, flags


def encode_text(sp, text):
    """A text without chat format, closed by <|end|>."""
    ids = [sp.bos_id()] + sp.encode(text) + [sp.piece_to_id(END)]
    return ids, [0] + [1] * (len(ids) - 1)
