//! Templates that put a turn between `[INST]` and `[/INST]`: Llama 2's and Mistral's.

/// Llama 2's: the first turn is open from the start, the system prompt is in it.
macro_rules! llama2 {
    ($again:literal, $before_system:literal, $after_system:literal, $content:literal) => {
        concat!(
            "{% set turn = namespace(open=true) %}{{ '[INST] ' }}{% for m in messages %}\
             {% if not turn.open %}{{ '",
            $again,
            "' }}{% set turn.open = true %}{% endif %}{% if m.role == 'system' %}{{ '",
            $before_system,
            "' ~ ",
            $content,
            " ~ '",
            $after_system,
            "' }}{% elif m.role == 'user' %}{{ ",
            $content,
            " ~ ' [/INST]' }}{% else %}{{ ",
            $content,
            " ~ '</s>' }}{% set turn.open = false %}{% endif %}{% endfor %}"
        )
    };
}

/// Mistral's until version 3: the system prompt begins the first turn.
macro_rules! mistral {
    ($before:literal, $after:literal, $answer:literal) => {
        concat!(
            "{% set turn = namespace(open=false) %}{% for m in messages %}{% if not turn.open %}{{ '",
            $before,
            "[INST]",
            $after,
            "' }}{% set turn.open = true %}{% endif %}{% if m.role == 'system' %}{{ m.content ~ '\\n\\n' }}\
             {% elif m.role == 'user' %}{{ m.content ~ '",
            $before,
            "[/INST]' }}{% else %}{{ '",
            $after,
            "' ~ ",
            $answer,
            " ~ '</s>' }}{% set turn.open = false %}{% endif %}{% endfor %}"
        )
    };
}

/// Mistral's from version 7: the system prompt has marks of its own. `$space` follows each mark.
macro_rules! mistral7 {
    ($space:literal) => {
        concat!(
            "{# [THINK][/THINK] #}{% for m in messages %}{% if m.role == 'system' %}{{ '[SYSTEM_PROMPT]",
            $space,
            "' ~ m.content ~ '[/SYSTEM_PROMPT]' }}{% elif m.role == 'user' %}{{ '[INST]",
            $space,
            "' ~ m.content ~ '[/INST]' }}{% else %}{{ '",
            $space,
            "' ~ m.content ~ '</s>' }}{% endif %}{% endfor %}"
        )
    };
}

pub(super) const TEMPLATES: &[(&str, &str)] = &[
    ("llama2", llama2!("[INST] ", "", "\\n", "m.content")),
    ("llama2-sys", llama2!("[INST] ", "<<SYS>>\\n", "\\n<</SYS>>\\n\\n", "m.content")),
    ("llama2-sys-bos", llama2!("<s>[INST] ", "<<SYS>>\\n", "\\n<</SYS>>\\n\\n", "m.content")),
    ("llama2-sys-strip", llama2!("[INST] ", "<<SYS>>\\n", "\\n<</SYS>>\\n\\n", "m.content|trim")),
    ("mistral-v1", mistral!(" ", " ", "m.content")),
    ("mistral-v3", mistral!("", " ", "m.content|trim")),
    ("mistral-v3-tekken", mistral!("", "", "m.content")),
    ("mistral-v7", mistral7!(" ")),
    ("mistral-v7-tekken", mistral7!("")),
];
