//! Which tokens begin and end a text, and which ones end an answer: from the file's keys, and where those are silent from
//! the tokens' texts, as llama.cpp does it. Which texts count is the two tables here.

use candor_gguf::Metadata;

use crate::{Error, kind::Kind, vocab::Vocab};

/// Ids of tokens with a part of their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Specials {
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub eot: Option<u32>,
    pub eom: Option<u32>,
    pub unk: Option<u32>,
    pub pad: Option<u32>,
    pub sep: Option<u32>,
    pub mask: Option<u32>,
    /// What ends an answer: ascending, each once.
    pub stop: Vec<u32>,
    pub fill_in: FillInIds,
}

/// The tokens of the fill-in-the-middle format, in the order of `FILL_IN`.
pub(crate) type FillInIds = [Option<u32>; 6];

/// Texts of end-of-turn tokens, looked for in this order where `tokenizer.ggml.eot_token_id` is missing.
const END_OF_TURN: [&str; 11] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>",
    "<end_of_utterance>",
];

/// The end-of-message token, looked for where `tokenizer.ggml.eom_token_id` is missing.
const END_OF_MESSAGE: [&str; 1] = ["<|eom_id|>"];

/// Texts of further tokens after which an answer does not go on.
const STOP: [&str; 10] = [
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "</s>",
    "[EOS]",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
];

/// A token of the fill-in-the-middle format.
struct FillIn {
    /// Its key, and the one that it had once.
    keys: &'static [&'static str],
    /// Its texts, looked for in this order where the keys are missing.
    texts: &'static [&'static str],
    /// Whether it ends an answer: padding, the name of a next repository, a next file.
    stops: bool,
}

const FILL_IN: [FillIn; 6] = [
    FillIn {
        keys: &["tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id"],
        texts: &[
            "<|fim_prefix|>",
            "<fim-prefix>",
            "<fim_prefix>",
            "<\u{ff5c}fim\u{2581}begin\u{ff5c}>",
            "<PRE>",
            "\u{2581}<PRE>",
            "<|code_prefix|>",
            "<|prefix|>",
        ],
        stops: false,
    },
    FillIn {
        keys: &["tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id"],
        texts: &[
            "<|fim_suffix|>",
            "<fim-suffix>",
            "<fim_suffix>",
            "<\u{ff5c}fim\u{2581}hole\u{ff5c}>",
            "<SUF>",
            "\u{2581}<SUF>",
            "<|code_suffix|>",
            "<|suffix|>",
        ],
        stops: false,
    },
    FillIn {
        keys: &["tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id"],
        texts: &[
            "<|fim_middle|>",
            "<fim-middle>",
            "<fim_middle>",
            "<\u{ff5c}fim\u{2581}end\u{ff5c}>",
            "<MID>",
            "\u{2581}<MID>",
            "<|code_middle|>",
            "<|middle|>",
        ],
        stops: false,
    },
    FillIn {
        keys: &["tokenizer.ggml.fim_pad_token_id"],
        texts: &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"],
        stops: true,
    },
    FillIn {
        keys: &["tokenizer.ggml.fim_rep_token_id"],
        texts: &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"],
        stops: true,
    },
    FillIn { keys: &["tokenizer.ggml.fim_sep_token_id"], texts: &["<|file_sep|>"], stops: true },
];

/// Ids that a vocabulary of this kind has where the file does not give them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Defaults {
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub unk: Option<u32>,
    pub sep: Option<u32>,
    pub pad: Option<u32>,
    pub mask: Option<u32>,
}

/// Texts of tokens that gpt-oss shows, whatever the file calls them.
const SHOWN: [&str; 4] = ["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"];

impl Specials {
    /// Reads the keys and finds the rest by text. What it finds by text is marked as control in `vocab`, with a line in
    /// `warnings` for each token that was not.
    pub fn find(
        metadata: &Metadata,
        vocab: &mut Vocab,
        defaults: Defaults,
        warnings: &mut Vec<String>,
    ) -> Result<Specials, Error> {
        let tokens = vocab.len();
        let key = |key| token_id(metadata, key, tokens);
        let exists = |id: Option<u32>| id.filter(|&id| (id as usize) < tokens);
        let mut specials = Specials {
            bos: key("tokenizer.ggml.bos_token_id")?.or(key("tokenizer.ggml.cls_token_id")?).or(exists(defaults.bos)),
            eos: key("tokenizer.ggml.eos_token_id")?.or(exists(defaults.eos)),
            eot: key("tokenizer.ggml.eot_token_id")?,
            eom: key("tokenizer.ggml.eom_token_id")?,
            unk: key("tokenizer.ggml.unknown_token_id")?.or(exists(defaults.unk)),
            pad: key("tokenizer.ggml.padding_token_id")?.or(exists(defaults.pad)),
            sep: key("tokenizer.ggml.seperator_token_id")?.or(exists(defaults.sep)),
            mask: key("tokenizer.ggml.mask_token_id")?.or(exists(defaults.mask)),
            stop: Vec::new(),
            fill_in: FillInIds::default(),
        };
        let mut control = |text: &&str| {
            let id = vocab.id(text)?;
            let kind = vocab.kind(id);
            if !kind.any(Kind::CONTROL) {
                warnings.push(format!("token {id} {text:?} looks like a control token and is taken for one"));
                vocab.set_kind(id, kind.with(Kind::CONTROL));
            }
            Some(id)
        };
        let mut stop: Vec<u32> = END_OF_TURN.iter().filter_map(&mut control).collect();
        specials.eot = specials.eot.or(stop.first().copied());
        let eom = END_OF_MESSAGE.iter().find_map(&mut control);
        specials.eom = specials.eom.or(eom);
        stop.extend(eom);
        stop.extend(STOP.iter().filter_map(&mut control));
        let mut fill_in = FillInIds::default();
        for (FillIn { keys, texts, stops }, found) in FILL_IN.into_iter().zip(&mut fill_in) {
            let mut id = None;
            for &name in keys {
                id = id.or(key(name)?);
            }
            let id = id.or_else(|| texts.iter().find_map(&mut control));
            stop.extend(id.filter(|_| stops));
            *found = id;
        }
        specials.fill_in = fill_in;
        stop.extend([specials.eos, specials.eot, specials.eom].into_iter().flatten());
        stop.sort_unstable();
        stop.dedup();
        specials.stop = stop;
        for id in SHOWN.iter().filter_map(|text| vocab.id(text)).collect::<Vec<_>>() {
            vocab.set_kind(id, Kind::USER_DEFINED);
        }
        specials.unstop(vocab);
        Ok(specials)
    }

    /// Takes back what looks like the end of an answer by its text, and is not one in the company of certain others:
    /// `<|end|>` only ends a message of gpt-oss and Solar Open, `</s>` is a word like others for Gemma 4.
    fn unstop(&mut self, vocab: &mut Vocab) {
        let stops = |text: &str| vocab.id(text).filter(|id| self.stop.contains(id));
        let has = |text| stops(text).is_some();
        let harmony = has("<|return|>") && (has("<|call|>") || has("<|calls|>"));
        let solar = has("<|flush|>") && (has("<|call|>") || has("<|calls|>"));
        let end = stops("<|end|>").filter(|_| harmony || solar).map(|id| (id, Kind::USER_DEFINED));
        let s = stops("</s>").filter(|_| has("<|tool_response>")).map(|id| (id, Kind::NORMAL));
        for (id, kind) in end.into_iter().chain(s) {
            self.stop.retain(|&stop| stop != id);
            vocab.set_kind(id, kind);
            if self.eot == Some(id) {
                self.eot = END_OF_TURN.iter().filter_map(|text| vocab.id(text)).find(|id| self.stop.contains(id));
            }
        }
    }
}

/// The token id in `key`. Converters write -1, signed or not, where there is no such token.
fn token_id(metadata: &Metadata, key: &'static str, tokens: usize) -> Result<Option<u32>, Error> {
    if let Ok(Some(-1)) = metadata.i32(key) {
        return Ok(None);
    }
    match metadata.u32(key)? {
        None | Some(u32::MAX) => Ok(None),
        Some(id) if (id as usize) < tokens => Ok(Some(id)),
        Some(id) => Err(Error::TokenId { key, id, tokens }),
    }
}
