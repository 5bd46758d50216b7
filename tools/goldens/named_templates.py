"""Writes crates/tokenizer/tests/goldens/chat_named.json: conversations in the words of llama.cpp's built-in templates.

    python tools/goldens/named_templates.py LIBLLAMA VERSION crates/tokenizer/tests/goldens/chat_named.json

LIBLLAMA is llama.cpp's shared library (libllama.so) with its ggml libraries beside it; VERSION says of which build it is.
Only `llama_chat_builtin_templates` and `llama_chat_apply_template` are called: no model is needed.

The first conversation is that of llama.cpp's own tests/test-chat-template.cpp. Each is written twice: with the beginning of
an answer, and without.
"""

import ctypes
import json
import sys
from pathlib import Path

CONVERSATIONS = [
    [
        ["system", "You are a helpful assistant"], ["user", "Hello"], ["assistant", "Hi there"], ["user", "Who are you"],
        ["assistant", "   I am an assistant   "], ["user", "Another question"],
    ],
    [["user", "Hi"]],
    [["system", " Be kind.\n"], ["user", "\n two lines\nand ünïcode 😀 "]],
    [["user", "a"], ["assistant", "b"], ["user", " c\t"], ["assistant", "\nd\n"], ["user", "e"]],
    [["user", "a"], ["assistant", "b"]],
    [["system", "one"], ["system", "two"], ["user", "a"], ["system", "three"], ["assistant", "b"], ["user", "c"]],
    [["user", "Weather?"], ["assistant", "I look."], ["tool", " {\"sun\": 1} "], ["assistant", "Sunny"], ["user", "Thanks"]],
    [["user", "it's {{ braces }} {% and %} \"quotes\" \\n <b>"], ["assistant", ""], ["user", ""]],
    [["system", ""], ["user", "a"]],
    [["assistant", "I begin."], ["user", "a"]],
    # Granite's own roles.
    [["user", "Weather?"], ["assistant_tool_call", "[{\"name\": \"now\"}]"], ["tool_response", "{\"sun\": 1}"]],
]


class ChatMessage(ctypes.Structure):
    _fields_ = [("role", ctypes.c_char_p), ("content", ctypes.c_char_p)]


def load(path):
    """The library, with the ones that it needs."""
    for name in ["base.so*", "cpu.so*", "rpc.so*"]:
        for needed in sorted(path.parent.glob(f"libggml-{name}"))[:1]:
            ctypes.CDLL(str(needed), mode=ctypes.RTLD_GLOBAL)
    for needed in sorted(path.parent.glob("libggml.so*"))[:1]:
        ctypes.CDLL(str(needed), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(path))


def main():
    library, version, target = Path(sys.argv[1]).resolve(), sys.argv[2], Path(sys.argv[3])
    llama = load(library)
    names = (ctypes.c_char_p * 256)()
    count = llama.llama_chat_builtin_templates(names, ctypes.c_size_t(len(names)))

    def rendered(name, conversation, answer):
        messages = (ChatMessage * len(conversation))(*(ChatMessage(r.encode(), c.encode()) for r, c in conversation))
        room = ctypes.create_string_buffer(1 << 16)
        size = llama.llama_chat_apply_template(
            name, messages, ctypes.c_size_t(len(conversation)), ctypes.c_bool(answer), room, ctypes.c_int32(len(room))
        )
        assert 0 <= size < len(room), (name, size)
        return room.raw[:size].decode()

    prompts = {
        name.decode(): [[rendered(name, c, answer) for answer in (True, False)] for c in CONVERSATIONS]
        for name in sorted(names[:count])
    }
    line = lambda value: json.dumps(value, ensure_ascii=False)
    made_by = f"llama_chat_apply_template of {version}, by tools/goldens/named_templates.py"
    rows = ",\n".join(f"  {line(name)}: {line(prompts[name])}" for name in prompts)
    conversations = ",\n".join(f"  {line(conversation)}" for conversation in CONVERSATIONS)
    text = f'{{\n "made_by": {line(made_by)},\n "conversations": [\n{conversations}\n ],\n "prompts": {{\n{rows}\n }}\n}}\n'
    target.write_text(text, encoding="utf-8")


main()
