//! Templates that write each message as its role, its content and an end, in the order of the conversation.

/// Messages alike, and the beginning of the answer. `$content` is the content as it is written.
macro_rules! turns {
    ($open:literal, $close:literal, $content:literal, $end:literal, $answer:literal) => {
        concat!(
            "{% for m in messages %}{{ '",
            $open,
            "' ~ m.role ~ '",
            $close,
            "' ~ ",
            $content,
            " ~ '",
            $end,
            "' }}{% endfor %}{% if add_generation_prompt %}{{ '",
            $answer,
            "' }}{% endif %}"
        )
    };
}

/// The roles that have a beginning; others are left out.
macro_rules! openings {
    ($roles:literal, $content:literal, $answer:literal) => {
        concat!(
            "{% set opening = {",
            $roles,
            "} %}{% for m in messages if m.role in opening %}{{ opening[m.role][0] ~ ",
            $content,
            " ~ opening[m.role][1] }}{% endfor %}{% if add_generation_prompt %}{{ '",
            $answer,
            "' }}{% endif %}"
        )
    };
}

/// Names the marks of reasoning, which the model writes and no prompt holds.
macro_rules! thinking {
    ($template:expr) => {
        concat!("{# <think></think> #}", $template)
    };
}

/// Granite's, whose calls of tools are messages of their own.
macro_rules! granite {
    ($caller:literal) => {
        concat!(
            "{% for m in messages %}{% if m.role == 'assistant_tool_call' %}{{ '<|start_of_role|>",
            $caller,
            "<|end_of_role|><|tool_call|>' }}{% else %}{{ '<|start_of_role|>' ~ m.role ~ '<|end_of_role|>' }}{% endif %}\
             {{ m.content ~ '<|end_of_text|>\\n' }}{% endfor %}\
             {% if add_generation_prompt %}{{ '<|start_of_role|>assistant<|end_of_role|>' }}{% endif %}"
        )
    };
}

/// Ling's and Ring's: roles in capitals, the user's a word of its own.
macro_rules! bailing {
    ($end:literal, $answer:literal) => {
        concat!(
            "{# <think></think> #}{% for m in messages %}\
             {{ '<role>' ~ ('HUMAN' if m.role == 'user' else m.role|upper) ~ '</role>' ~ m.content ~ '",
            $end,
            "' }}{% endfor %}{% if add_generation_prompt %}{{ '",
            $answer,
            "' }}{% endif %}"
        )
    };
}

pub(super) const TEMPLATES: &[(&str, &str)] = &[
    ("chatml", thinking!(turns!("<|im_start|>", "\\n", "m.content", "<|im_end|>\\n", "<|im_start|>assistant\\n"))),
    ("phi3", turns!("<|", "|>\\n", "m.content", "<|end|>\\n", "<|assistant|>\\n")),
    (
        "phi4",
        thinking!(turns!("<|im_start|>", "<|im_sep|>", "m.content", "<|im_end|>", "<|im_start|>assistant<|im_sep|>")),
    ),
    ("falcon3", turns!("<|", "|>\\n", "m.content", "\\n", "<|assistant|>\\n")),
    ("zephyr", turns!("<|", "|>\\n", "m.content", "<|endoftext|>\\n", "<|assistant|>\\n")),
    (
        "llama3",
        thinking!(turns!(
            "<|start_header_id|>",
            "<|end_header_id|>\\n\\n",
            "m.content|trim",
            "<|eot_id|>",
            "<|start_header_id|>assistant<|end_header_id|>\\n\\n"
        )),
    ),
    (
        "llama4",
        turns!(
            "<|header_start|>",
            "<|header_end|>\\n\\n",
            "m.content|trim",
            "<|eot|>",
            "<|header_start|>assistant<|header_end|>\\n\\n"
        ),
    ),
    ("chatglm3", concat!("{{ '[gMASK]sop' }}", turns!("<|", "|>\\n ", "m.content", "", "<|assistant|>"))),
    (
        "chatglm4",
        thinking!(concat!("{{ '[gMASK]<sop>' }}", turns!("<|", "|>\\n", "m.content", "", "<|assistant|>\\n"))),
    ),
    ("glmedge", turns!("<|", "|>\\n", "m.content", "", "<|assistant|>")),
    (
        "megrez",
        turns!("<|role_start|>", "<|role_end|>", "m.content", "<|turn_end|>", "<|role_start|>assistant<|role_end|>"),
    ),
    (
        "seed_oss",
        concat!(
            "{# <seed:think></seed:think> #}",
            turns!(
                "<seed:bos>",
                "\\n",
                "(m.content|trim if m.role == 'assistant' else m.content)",
                "<seed:eos>",
                "<seed:bos>assistant\\n"
            )
        ),
    ),
    ("solar-open", turns!("<|begin|>", "<|content|>", "m.content", "<|end|>", "<|begin|>assistant")),
    // The answer comes in channels, and calls go to functions.NAME: both are the model's alone.
    (
        "gpt-oss",
        concat!(
            "{# <|channel|> functions. #}{% for m in messages %}{{ '<|start|>' ~ m.role ~ '<|message|>' ~ m.content ~ \
             ('<|return|>' if m.role == 'assistant' else '<|end|>') }}{% endfor %}",
            "{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"
        ),
    ),
    ("granite", granite!("assistant_tool_call")),
    ("granite-4.0", granite!("assistant")),
    ("granite-4.1", granite!("assistant")),
    ("bailing", bailing!("", "<role>ASSISTANT</role>")),
    ("bailing-think", bailing!("", "<role>ASSISTANT</role><think>")),
    (
        "bailing2",
        concat!(
            "{% if not messages or messages[0].role != 'system' %}\
             {{ '<role>SYSTEM</role>detailed thinking off<|role_end|>' }}{% endif %}",
            bailing!("<|role_end|>", "<role>ASSISTANT</role>")
        ),
    ),
    (
        "monarch",
        "{% for m in messages %}{{ ('' if loop.first else '<s>') ~ m.role ~ '\\n' ~ m.content ~ '</s>\\n' }}{% endfor %}\
         {% if add_generation_prompt %}{{ '<s>assistant\\n' }}{% endif %}",
    ),
    (
        "command-r",
        openings!(
            "'system': ['<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>', '<|END_OF_TURN_TOKEN|>'], \
             'user': ['<|START_OF_TURN_TOKEN|><|USER_TOKEN|>', '<|END_OF_TURN_TOKEN|>'], \
             'assistant': ['<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>', '<|END_OF_TURN_TOKEN|>']",
            "m.content|trim",
            "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"
        ),
    ),
    (
        "deepseek2",
        openings!(
            "'system': ['', '\\n\\n'], 'user': ['User: ', '\\n\\n'], \
             'assistant': ['Assistant: ', '<｜end▁of▁sentence｜>']",
            "m.content",
            "Assistant:"
        ),
    ),
    (
        "deepseek3",
        thinking!(openings!(
            "'system': ['', '\\n\\n'], 'user': ['<｜User｜>', ''], \
             'assistant': ['<｜Assistant｜>', '<｜end▁of▁sentence｜>']",
            "m.content",
            "<｜Assistant｜>"
        )),
    ),
    (
        "exaone3",
        openings!(
            "'system': ['[|system|]', '[|endofturn|]\\n'], 'user': ['[|user|]', '\\n'], \
             'assistant': ['[|assistant|]', '[|endofturn|]\\n']",
            "m.content|trim",
            "[|assistant|]"
        ),
    ),
    (
        "exaone4",
        thinking!(openings!(
            "'system': ['[|system|]', '[|endofturn|]\\n'], 'user': ['[|user|]', '\\n'], \
             'assistant': ['[|assistant|]', '[|endofturn|]\\n'], 'tool': ['[|tool|]', '[|endofturn|]\\n']",
            "m.content|trim",
            "[|assistant|]"
        )),
    ),
    (
        "exaone-moe",
        thinking!(openings!(
            "'system': ['<|system|>\\n', '<|endofturn|>\\n'], 'user': ['<|user|>\\n', '<|endofturn|>\\n'], \
             'assistant': ['<|assistant|>\\n', '<|endofturn|>\\n'], 'tool': ['<|tool|>\\n', '<|endofturn|>\\n']",
            "m.content|trim",
            "<|assistant|>\\n"
        )),
    ),
    (
        "kimi-k2",
        thinking!(
            "{% set opening = {'system': '<|im_system|>system<|im_middle|>', 'user': '<|im_user|>user<|im_middle|>', \
             'assistant': '<|im_assistant|>assistant<|im_middle|>', 'tool': '<|im_system|>tool<|im_middle|>'} %}\
             {% for m in messages %}{{ opening.get(m.role, '') ~ m.content ~ '<|im_end|>' }}{% endfor %}\
             {% if add_generation_prompt %}{{ '<|im_assistant|>assistant<|im_middle|>' }}{% endif %}"
        ),
    ),
    (
        "pangu-embedded",
        concat!(
            "{% if messages and messages[0].role != 'system' %}{{ '[unused9]系统：[unused10]' }}{% endif %}",
            openings!(
                "'system': ['[unused9]系统：', '[unused10]'], 'user': ['[unused9]用户：', '[unused10]'], \
                 'assistant': ['[unused9]助手：', '[unused10]'], 'tool': ['[unused9]工具：', '[unused10]'], \
                 'function': ['[unused9]方法：', '[unused10]']",
                "m.content",
                "[unused9]助手："
            )
        ),
    ),
];
