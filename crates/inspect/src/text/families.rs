//! The templates that engines fall back to, whatever the file says: one row for each family, with the habits of white
//! space and system prompts that differ between engines.

use candor::{ChatTemplate, Message};

use super::{
    row::{Mutation, Row, TextFault, Variant},
    scene::Scene,
};

const fn row(
    name: &'static str,
    cause: &'static str,
    mutation: fn(&Scene<'_>, &[Message]) -> Vec<Variant<String>>,
) -> Row {
    let remedy = "Render tokenizer.chat_template of the file, with a Jinja engine or a rule made for this model.";
    let source = "ollama/ollama#4750";
    Row { fault: TextFault { name, entry: "85", cause, remedy, source }, mutation: Mutation::Render(mutation) }
}

pub(super) const ROWS: &[Row] = &[
    row(
        "template-chatml",
        "The conversation was written as ChatML{}, which is not this file's template.",
        |scene, said| rendered(scene, said, CHATML),
    ),
    row(
        "template-llama2",
        "The conversation was written as Llama 2's [INST] blocks{}, which is not this file's template.",
        |scene, said| rendered(scene, said, LLAMA2),
    ),
    row(
        "template-llama3",
        "The conversation was written with Llama 3's headers{}, which is not this file's template.",
        |scene, said| rendered(scene, said, LLAMA3),
    ),
    row(
        "template-alpaca",
        "The conversation was written as Alpaca's instructions{}, which is not this file's template.",
        |scene, said| rendered(scene, said, ALPACA),
    ),
    row(
        "template-vicuna",
        "The conversation was written as Vicuna's USER: and ASSISTANT:{}, which is not this file's template.",
        |scene, said| rendered(scene, said, VICUNA),
    ),
    row(
        "template-zephyr",
        "The conversation was written as Zephyr's <|user|> lines{}, which is not this file's template.",
        |scene, said| rendered(scene, said, ZEPHYR),
    ),
    row(
        "template-gemma",
        "The conversation was written as Gemma's turns{}, which is not this file's template.",
        |scene, said| rendered(scene, said, GEMMA),
    ),
    row(
        "template-role-text",
        "The conversation was written as plain lines of role and text{}, which is not this file's template.",
        |scene, said| rendered(scene, said, ROLES),
    ),
];

/// A habit's name, and its template.
type Habit = (&'static str, &'static str);

const CHATML: &[Habit] = &[
    (
        "",
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}",
    ),
    (
        " with a system prompt of its own",
        "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}",
    ),
    (
        " without line ends behind the turns",
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' }}{% endfor %}{{ '<|im_start|>assistant\n' }}",
    ),
    (
        " without the opening of an answer",
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}",
    ),
];

const LLAMA2: &[Habit] = &[
    (
        "",
        "{% if messages[0].role == 'system' %}{% set s = '<<SYS>>\n' + messages[0].content + '\n<</SYS>>\n\n' %}{% set rest = messages[1:] %}{% else %}{% set s = '' %}{% set rest = messages %}{% endif %}{% for m in rest %}{% if m.role == 'assistant' %}{{ ' ' + m.content + ' ' + eos_token }}{% else %}{{ bos_token + '[INST] ' + (s if loop.first else '') + m.content + ' [/INST]' }}{% endif %}{% endfor %}",
    ),
    (
        " without BOS",
        "{% if messages[0].role == 'system' %}{% set s = '<<SYS>>\n' + messages[0].content + '\n<</SYS>>\n\n' %}{% set rest = messages[1:] %}{% else %}{% set s = '' %}{% set rest = messages %}{% endif %}{% for m in rest %}{% if m.role == 'assistant' %}{{ ' ' + m.content + ' ' + eos_token }}{% else %}{{ '[INST] ' + (s if loop.first else '') + m.content + ' [/INST]' }}{% endif %}{% endfor %}",
    ),
    (
        " without spaces",
        "{% for m in messages %}{% if m.role == 'assistant' %}{{ m.content + eos_token }}{% else %}{{ '[INST]' + m.content + '[/INST]' }}{% endif %}{% endfor %}",
    ),
];

const LLAMA3: &[Habit] = &[
    (
        "",
        "{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content + '<|eot_id|>' }}{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}",
    ),
    (
        " behind its BOS",
        "{{ '<|begin_of_text|>' }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content + '<|eot_id|>' }}{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}",
    ),
];

const ALPACA: &[Habit] = &[
    (
        "",
        "{% for m in messages %}{% if m.role == 'user' %}{{ '### Instruction:\n' + m.content + '\n\n' }}{% elif m.role == 'assistant' %}{{ '### Response:\n' + m.content + '\n\n' }}{% else %}{{ m.content + '\n\n' }}{% endif %}{% endfor %}{{ '### Response:\n' }}",
    ),
    (
        " behind its usual first sentence",
        "{% if messages[0].role != 'system' %}{{ 'Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n' }}{% endif %}{% for m in messages %}{% if m.role == 'user' %}{{ '### Instruction:\n' + m.content + '\n\n' }}{% elif m.role == 'assistant' %}{{ '### Response:\n' + m.content + '\n\n' }}{% else %}{{ m.content + '\n\n' }}{% endif %}{% endfor %}{{ '### Response:\n' }}",
    ),
    (
        " without a line end at the end",
        "{% for m in messages %}{% if m.role == 'user' %}{{ '### Instruction:\n' + m.content + '\n\n' }}{% elif m.role == 'assistant' %}{{ '### Response:\n' + m.content + '\n\n' }}{% else %}{{ m.content + '\n\n' }}{% endif %}{% endfor %}{{ '### Response:' }}",
    ),
];

const VICUNA: &[Habit] = &[
    (
        "",
        "{% for m in messages %}{% if m.role == 'user' %}{{ 'USER: ' + m.content + ' ' }}{% elif m.role == 'assistant' %}{{ 'ASSISTANT: ' + m.content + eos_token }}{% else %}{{ m.content + ' ' }}{% endif %}{% endfor %}{{ 'ASSISTANT:' }}",
    ),
    (
        " in lines",
        "{% for m in messages %}{% if m.role == 'user' %}{{ 'USER: ' + m.content + '\n' }}{% elif m.role == 'assistant' %}{{ 'ASSISTANT: ' + m.content + eos_token + '\n' }}{% else %}{{ m.content + '\n\n' }}{% endif %}{% endfor %}{{ 'ASSISTANT:' }}",
    ),
    (
        " behind its usual system prompt",
        "{% if messages[0].role != 'system' %}{{ \"A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the user's questions. \" }}{% endif %}{% for m in messages %}{% if m.role == 'user' %}{{ 'USER: ' + m.content + ' ' }}{% elif m.role == 'assistant' %}{{ 'ASSISTANT: ' + m.content + eos_token }}{% else %}{{ m.content + ' ' }}{% endif %}{% endfor %}{{ 'ASSISTANT:' }}",
    ),
];

const ZEPHYR: &[Habit] = &[
    (
        "",
        "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}{% endfor %}{{ '<|assistant|>\n' }}",
    ),
    (
        " without a line end at the end",
        "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}{% endfor %}{{ '<|assistant|>' }}",
    ),
    (
        " that end in <|end|>",
        "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}{% endfor %}{{ '<|assistant|>\n' }}",
    ),
];

const GEMMA: &[Habit] = &[
    (
        "",
        "{% for m in messages %}{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + m.content + '<end_of_turn>\n' }}{% endfor %}{{ '<start_of_turn>model\n' }}",
    ),
    (
        " behind BOS",
        "{{ bos_token }}{% for m in messages %}{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + m.content + '<end_of_turn>\n' }}{% endfor %}{{ '<start_of_turn>model\n' }}",
    ),
];

const ROLES: &[Habit] = &[
    (" (\"user: \")", "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}{{ 'assistant:' }}"),
    (
        " (\"user: \", \"assistant: \" at the end)",
        "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}{{ 'assistant: ' }}",
    ),
    (
        " (\"User: \")",
        "{% for m in messages %}{{ (m.role | capitalize) + ': ' + m.content + '\n' }}{% endfor %}{{ 'Assistant:' }}",
    ),
    (
        " (\"User: \", with empty lines)",
        "{% for m in messages %}{{ (m.role | capitalize) + ': ' + m.content + '\n\n' }}{% endfor %}{{ 'Assistant:' }}",
    ),
    (
        " (\"### User:\")",
        "{% for m in messages %}{{ '### ' + (m.role | capitalize) + ':\n' + m.content + '\n\n' }}{% endfor %}{{ '### Assistant:\n' }}",
    ),
    (
        " (\"Human:\")",
        "{% for m in messages %}{{ ('Human' if m.role == 'user' else (m.role | capitalize)) + ': ' + m.content + '\n' }}{% endfor %}{{ 'Assistant:' }}",
    ),
];

fn rendered(scene: &Scene<'_>, messages: &[Message], habits: &[Habit]) -> Vec<Variant<String>> {
    let context = scene.chat_context();
    let render = |&(label, source): &Habit| {
        let text = ChatTemplate::new(source).ok()?.render(messages, &context).ok()?;
        Some(Variant::new(label, text))
    };
    habits.iter().filter_map(render).collect()
}
