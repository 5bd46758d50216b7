//! The ways in which models mark reasoning and tool calls, as data. Which one a model has is found elsewhere, from its
//! template; nothing here acts.

/// How a family writes tool calls.
#[derive(Debug)]
pub(super) struct CallFormat {
    /// The family's name, for people.
    pub name: &'static str,
    /// What begins a block of calls.
    pub open: &'static str,
    /// What ends it; a block without one goes to the end of the answer.
    pub close: &'static str,
    /// What is between them.
    pub body: Body,
    /// Words by which a template tells the model of this way without ever writing a call itself.
    pub told: &'static [&'static str],
}

/// What a block holds.
#[derive(Debug)]
pub(super) enum Body {
    /// JSON objects, one after another or in a list.
    Json { name: &'static str, arguments: &'static str },
    /// A name and then its arguments as JSON.
    Named(Named),
    /// A name and an element for each argument.
    Tagged(Tagged),
    /// Gemma 4's `call:name{key:value}` with strings between `<|"|>`.
    Gemma,
    /// The answer is one JSON object and nothing else.
    Whole { name: &'static str, arguments: &'static str },
}

/// `OPEN header ARGUMENTS {json} CLOSE`, once or more.
#[derive(Debug)]
pub(super) struct Named {
    pub open: &'static str,
    pub header: Header,
    pub arguments: &'static str,
    pub close: &'static str,
}

/// What is in front of the arguments.
#[derive(Debug)]
pub(super) enum Header {
    /// The name, or the name, a separator and an id.
    NameThenId(&'static str),
    /// The id, a separator and the name.
    IdThenName(&'static str),
    /// The kind of tool, a separator and the name.
    KindThenName(&'static str),
    /// An id that holds the name: `functions.NAME:0`.
    Kimi,
}

/// `OPEN name NAME_END (KEY key KEY_END VALUE value VALUE_END)* CLOSE`, once or more.
#[derive(Debug)]
pub(super) struct Tagged {
    pub open: &'static str,
    /// `None`: the name ends where its line or an element does.
    pub name_end: Option<&'static str>,
    pub key: &'static str,
    pub key_end: &'static str,
    pub value: &'static str,
    pub value_end: &'static str,
    pub close: &'static str,
    pub typing: Typing,
}

/// Which values are JSON and which are text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Typing {
    /// The tool's schema says it.
    Schema,
    /// The same, and each value has lines of its own.
    SchemaLines,
    /// The same, and text may be in `<![CDATA[...]]>`.
    SchemaCdata,
    /// The value begins with `true">` if it is text, or `false">`.
    Stated,
}

/// How a family marks reasoning.
#[derive(Debug)]
pub(super) struct ReasoningFormat {
    pub open: &'static str,
    pub close: &'static str,
    /// Marks around the content that are left out.
    pub around: &'static [&'static str],
}

impl ReasoningFormat {
    /// Whether a prompt ends with open reasoning.
    pub fn is_open(&self, prompt: &str) -> bool {
        prompt.trim_end().ends_with(self.open.trim_end())
    }
}

const JSON: Body = Body::Json { name: "name", arguments: "arguments" };
const COHERE: Body = Body::Json { name: "tool_name", arguments: "parameters" };

/// Every way, in the order in which they are tried.
pub(super) const CALLS: &[CallFormat] = &[
    CallFormat {
        name: "hermes",
        open: "<tool_call>",
        close: "</tool_call>",
        body: JSON,
        told: &["<tool_call>\n{\"name\": "],
    },
    CallFormat {
        name: "qwen3-coder",
        open: "<tool_call>",
        close: "</tool_call>",
        body: Body::Tagged(FUNCTION),
        told: &[],
    },
    CallFormat {
        name: "glm",
        open: "<tool_call>",
        close: "</tool_call>",
        body: Body::Tagged(Tagged {
            open: "<tool_call>",
            name_end: None,
            key: "<arg_key>",
            key_end: "</arg_key>",
            value: "<arg_value>",
            value_end: "</arg_value>",
            close: "",
            typing: Typing::Schema,
        }),
        told: &[],
    },
    CallFormat {
        name: "seed-oss",
        open: "<seed:tool_call>",
        close: "</seed:tool_call>",
        body: Body::Tagged(Tagged { typing: Typing::Schema, ..FUNCTION }),
        told: &[],
    },
    CallFormat {
        name: "minimax-m2",
        open: "<minimax:tool_call>",
        close: "</minimax:tool_call>",
        body: Body::Tagged(Tagged {
            open: "<invoke name=\"",
            name_end: Some("\">"),
            key: "<parameter name=\"",
            key_end: "\">",
            value: "",
            value_end: "</parameter>",
            close: "</invoke>",
            typing: Typing::Schema,
        }),
        told: &[],
    },
    CallFormat {
        name: "deepseek-v4",
        open: "<｜DSML｜tool_calls>",
        close: "</｜DSML｜tool_calls>",
        body: Body::Tagged(Tagged {
            open: "<｜DSML｜invoke name=\"",
            name_end: Some("\">"),
            key: "<｜DSML｜parameter name=\"",
            key_end: "\" string=\"",
            value: "",
            value_end: "</｜DSML｜parameter>",
            close: "</｜DSML｜invoke>",
            typing: Typing::Stated,
        }),
        told: &[],
    },
    CallFormat {
        name: "minicpm",
        open: "<function name=\"",
        close: "</function>",
        body: Body::Tagged(Tagged {
            open: "<function name=\"",
            name_end: Some("\">"),
            key: "<param name=\"",
            key_end: "\">",
            value: "",
            value_end: "</param>",
            close: "",
            typing: Typing::SchemaCdata,
        }),
        told: &[],
    },
    CallFormat {
        name: "deepseek-r1",
        open: "<｜tool▁calls▁begin｜>",
        close: "<｜tool▁calls▁end｜>",
        body: Body::Named(Named {
            open: "<｜tool▁call▁begin｜>",
            header: Header::KindThenName("<｜tool▁sep｜>"),
            arguments: "\n```json\n",
            close: "```<｜tool▁call▁end｜>",
        }),
        told: &[],
    },
    CallFormat {
        name: "deepseek-v3.1",
        open: "<｜tool▁calls▁begin｜>",
        close: "<｜tool▁calls▁end｜>",
        body: Body::Named(Named {
            open: "<｜tool▁call▁begin｜>",
            header: Header::NameThenId("\n"),
            arguments: "<｜tool▁sep｜>",
            close: "<｜tool▁call▁end｜>",
        }),
        told: &[],
    },
    CallFormat {
        name: "kimi-k2",
        open: "<|tool_calls_section_begin|>",
        close: "<|tool_calls_section_end|>",
        body: Body::Named(Named {
            open: "<|tool_call_begin|>",
            header: Header::Kimi,
            arguments: "<|tool_call_argument_begin|>",
            close: "<|tool_call_end|>",
        }),
        told: &["<|tool_call_argument_begin|>"],
    },
    CallFormat {
        name: "solar-open",
        open: "<|tool_calls|>",
        close: "",
        body: Body::Named(Named {
            open: "<|tool_call:begin|>",
            header: Header::IdThenName("<|tool_call:name|>"),
            arguments: "<|tool_call:args|>",
            close: "<|tool_call:end|>",
        }),
        told: &[],
    },
    CallFormat { name: "mistral", open: "[TOOL_CALLS]", close: "", body: JSON, told: &[] },
    CallFormat {
        name: "mistral-v11",
        open: "[TOOL_CALLS]",
        close: "",
        body: Body::Named(Named {
            open: "[TOOL_CALLS]",
            header: Header::NameThenId("[CALL_ID]"),
            arguments: "[ARGS]",
            close: "",
        }),
        told: &[],
    },
    CallFormat {
        name: "functionary-v3.1",
        open: "<function=",
        close: "</function>",
        body: Body::Named(Named { open: "<function=", header: Header::NameThenId("\n"), arguments: ">", close: "" }),
        told: &[],
    },
    CallFormat { name: "command-r7b", open: "<|START_ACTION|>", close: "<|END_ACTION|>", body: COHERE, told: &[] },
    CallFormat { name: "command-r", open: "Action:\n```json\n", close: "```", body: COHERE, told: &[] },
    // Apriel's and MiniMax-M1's.
    CallFormat { name: "tool-calls", open: "<tool_calls>", close: "</tool_calls>", body: JSON, told: &[] },
    CallFormat { name: "nemotron", open: "<TOOLCALL>", close: "</TOOLCALL>", body: JSON, told: &[] },
    CallFormat { name: "gigachat-3.1", open: "<|function_call|>", close: "", body: JSON, told: &[] },
    CallFormat { name: "gemma4", open: "<|tool_call>", close: "<tool_call|>", body: Body::Gemma, told: &[] },
    // Phi-4 mini's template has a place for tools, Granite 3's names the mark; neither writes a call.
    CallFormat { name: "phi-4", open: "<|tool_call|>", close: "<|/tool_call|>", body: JSON, told: &["<|/tool|>"] },
    CallFormat { name: "granite-3", open: "<|tool_call|>", close: "", body: JSON, told: &["<|tool_call|>"] },
    CallFormat {
        name: "llama3",
        open: "{",
        close: "",
        body: Body::Whole { name: "name", arguments: "parameters" },
        told: &[],
    },
];

/// Qwen3-Coder's element.
const FUNCTION: Tagged = Tagged {
    open: "<function=",
    name_end: Some(">"),
    key: "<parameter=",
    key_end: ">",
    value: "",
    value_end: "</parameter>",
    close: "</function>",
    typing: Typing::SchemaLines,
};

/// Every way to mark reasoning; a template has the first whose end it mentions.
pub(super) const REASONING: &[ReasoningFormat] = &[
    ReasoningFormat { open: "<think>", close: "</think>", around: &["<response>", "</response>"] },
    ReasoningFormat { open: "<seed:think>", close: "</seed:think>", around: &[] },
    ReasoningFormat { open: "[THINK]", close: "[/THINK]", around: &[] },
    ReasoningFormat { open: "<|channel>thought\n", close: "<channel|>", around: &[] },
    ReasoningFormat {
        open: "<|START_THINKING|>",
        close: "<|END_THINKING|>",
        around: &["<|START_RESPONSE|>", "<|END_RESPONSE|>"],
    },
    ReasoningFormat { open: "Here are my reasoning steps:\n", close: "[BEGIN FINAL RESPONSE]", around: &["<|end|>"] },
];

/// Solar's, whose end is also that of everything else.
pub(super) const SOLAR: ReasoningFormat =
    ReasoningFormat { open: "<|think|>", close: "<|end|>", around: &["<|begin|>assistant", "<|content|>", "<|end|>"] };
