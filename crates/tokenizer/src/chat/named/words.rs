//! Templates with forms of their own: plain words before messages, or a system prompt that is part of another message.

/// Words before and after the messages of the three roles.
macro_rules! words {
    ([$system_before:literal, $system_after:literal], [$user_before:literal, $user_after:literal],
        [$assistant_before:literal, $assistant_after:literal], $answer:literal) => {
        concat!(
            "{% for m in messages %}{% if m.role == 'system' %}{{ '",
            $system_before,
            "' ~ m.content ~ '",
            $system_after,
            "' }}{% elif m.role == 'user' %}{{ '",
            $user_before,
            "' ~ m.content ~ '",
            $user_after,
            "' }}{% elif m.role == 'assistant' %}{{ '",
            $assistant_before,
            "' ~ m.content ~ '",
            $assistant_after,
            "' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '",
            $answer,
            "' }}{% endif %}"
        )
    };
}

pub(super) const TEMPLATES: &[(&str, &str)] = &[
    ("vicuna", words!(["", "\\n\\n"], ["USER: ", "\\n"], ["ASSISTANT: ", "</s>\\n"], "ASSISTANT:")),
    ("vicuna-orca", words!(["SYSTEM: ", "\\n"], ["USER: ", "\\n"], ["ASSISTANT: ", "</s>\\n"], "ASSISTANT:")),
    (
        "deepseek",
        words!(["", ""], ["### Instruction:\\n", "\\n"], ["### Response:\\n", "\\n<|EOT|>\\n"], "### Response:\\n"),
    ),
    ("deepseek-ocr", "{% for m in messages %}{{ m.content }}{% endfor %}"),
    (
        "gemma",
        "{% set held = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}\
         {% set held.system = held.system ~ m.content|trim %}{% else %}\
         {{ '<start_of_turn>' ~ ('model' if m.role == 'assistant' else m.role) ~ '\\n' }}\
         {% if held.system and m.role != 'assistant' %}{{ held.system ~ '\\n\\n' }}{% set held.system = '' %}{% endif %}\
         {{ m.content|trim ~ '<end_of_turn>\\n' }}{% endif %}{% endfor %}\
         {% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}",
    ),
    (
        "orion",
        "{% set held = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}\
         {% set held.system = held.system ~ m.content %}{% elif m.role == 'user' %}{{ 'Human: ' }}\
         {% if held.system %}{{ held.system ~ '\\n\\n' }}{% set held.system = '' %}{% endif %}\
         {{ m.content ~ '\\n\\nAssistant: </s>' }}{% else %}{{ m.content ~ '</s>' }}{% endif %}{% endfor %}",
    ),
    (
        "openchat",
        "{% for m in messages %}{{ ('' if m.role == 'system' else 'GPT4 Correct ' ~ m.role|capitalize ~ ': ') ~ m.content ~ \
         '<|end_of_turn|>' }}{% endfor %}{% if add_generation_prompt %}{{ 'GPT4 Correct Assistant:' }}{% endif %}",
    ),
    (
        "minicpm",
        "{% for m in messages %}{{ '<用户>' ~ m.content|trim ~ '<AI>' if m.role == 'user' else m.content|trim }}{% endfor %}",
    ),
    // A question that ends the conversation is what opens the answer.
    (
        "rwkv-world",
        "{% set name = {'system': 'System: ', 'user': 'User: ', 'assistant': 'Assistant: '} %}\
         {% for m in messages if m.role in name %}{{ name[m.role] ~ m.content|trim ~ '\\n\\n' }}{% endfor %}\
         {% if messages and messages[-1].role == 'user' %}{{ 'Assistant:' }}{% endif %}",
    ),
    (
        "grok-2",
        "{% for m in messages %}{% if m.role == 'system' %}{{ 'System: ' ~ m.content|trim ~ '<|separator|>\\n\\n' }}\
         {% elif m.role == 'user' %}{{ 'Human: ' ~ m.content|trim ~ '<|separator|>\\n\\n' }}\
         {% elif m.role == 'assistant' %}{{ 'Assistant: ' ~ m.content ~ '<|separator|>\\n\\n' }}{% endif %}{% endfor %}\
         {% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}",
    ),
    (
        "gigachat",
        "{{ '<s>' }}{% for m in messages %}{% if loop.first and m.role == 'system' %}{{ m.content ~ '<|message_sep|>' }}\
         {% elif m.role == 'user' %}{{ 'user<|role_sep|>' ~ m.content ~ \
         '<|message_sep|>available functions<|role_sep|>[]<|message_sep|>' }}\
         {% elif m.role == 'assistant' %}{{ 'assistant<|role_sep|>' ~ m.content ~ '<|message_sep|>' }}{% endif %}{% endfor %}\
         {% if add_generation_prompt %}{{ 'assistant<|role_sep|>' }}{% endif %}",
    ),
    (
        "yandex",
        "{% set name = {'user': ' Пользователь: ', 'assistant': ' Ассистент: '} %}\
         {% for m in messages if m.role in name %}{{ name[m.role] ~ m.content ~ '\\n\\n' }}{% endfor %}\
         {% if add_generation_prompt %}{{ ' Ассистент:[SEP]' }}{% endif %}",
    ),
    (
        "smolvlm",
        "{{ '<|im_start|>' }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content ~ '\\n\\n' }}\
         {% else %}{{ ('User: ' if m.role == 'user' else 'Assistant: ') ~ m.content ~ '<end_of_utterance>\\n' }}{% endif %}\
         {% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}",
    ),
    (
        "hunyuan-moe",
        "{# <think></think> #}{% for m in messages %}{% if m.role == 'assistant' %}{{ m.content ~ '<|eos|>' }}{% else %}\
         {{ '<|startoftext|>' ~ m.content ~ ('<|extra_4|>' if m.role == 'system' else '<|extra_0|>') }}{% endif %}{% endfor %}",
    ),
    (
        "hunyuan-dense",
        "{# <think></think> #}{% for m in messages %}{% if m.role == 'user' %}\
         {{ '<｜hy_User｜>' ~ m.content ~ '<｜hy_Assistant｜>' }}{% elif m.role == 'assistant' %}\
         {{ '<｜hy_Assistant｜>' ~ m.content ~ '<｜hy_place▁holder▁no▁2｜>' }}{% elif loop.first and m.role == 'system' %}\
         {{ m.content ~ '<｜hy_place▁holder▁no▁3｜>' }}{% endif %}{% endfor %}",
    ),
    (
        "hunyuan-vl",
        "{{ '<｜hy_begin▁of▁sentence｜>' }}{% for m in messages %}{% if m.role == 'user' %}{{ m.content ~ '<｜hy_User｜>' }}\
         {% elif m.role == 'assistant' %}{{ m.content ~ '<｜hy_Assistant｜>' }}{% elif loop.first and m.role == 'system' %}\
         {{ m.content ~ '<｜hy_place▁holder▁no▁3｜>' }}{% endif %}{% endfor %}",
    ),
];
