//! A model that says one text, whatever it is asked: each token has one successor, which its weights say.

use candor_gguf::{Array, Format, Value, Writer};

const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
/// The unknown token, BOS, EOS, and the bytes.
const FIRST: usize = 3 + 256;

/// The text, token by token, and the vocabulary besides.
#[derive(Clone, Debug)]
pub struct Parrot {
    /// Further tokens, and what kind they are.
    tokens: Vec<(String, i32)>,
    /// How many of them are said, from the first on.
    said: usize,
    /// Tokens of a prompt, and the piece that follows them instead of the first.
    after: Vec<(String, usize)>,
    eos: Option<String>,
}

impl Parrot {
    /// Says these pieces, each a token of its own, and ends.
    ///
    /// # Panics
    /// If a piece comes twice: a token has one successor.
    pub fn says(pieces: &[&str]) -> Parrot {
        let tokens: Vec<(String, i32)> = pieces.iter().map(|piece| ((*piece).to_owned(), NORMAL)).collect();
        for (n, (piece, _)) in tokens.iter().enumerate() {
            assert!(tokens[..n].iter().all(|(other, _)| other != piece), "{piece:?} comes twice");
        }
        Parrot { said: tokens.len(), tokens, after: Vec::new(), eos: None }
    }

    /// Has these control tokens, whether it says them or not.
    pub fn control(mut self, tokens: &[&str]) -> Parrot {
        tokens.iter().for_each(|token| self.set(token, CONTROL));
        self
    }

    /// Begins with the piece of this number where a prompt ends with `token`, which is user-defined.
    pub fn after(mut self, token: &str, piece: usize) -> Parrot {
        self.set(token, USER_DEFINED);
        self.after.push((token.to_owned(), piece));
        self
    }

    /// Ends with this control token instead of `</s>`.
    pub fn eos(mut self, token: &str) -> Parrot {
        self.set(token, CONTROL);
        self.eos = Some(token.to_owned());
        self
    }

    fn set(&mut self, token: &str, kind: i32) {
        match self.tokens.iter_mut().find(|(text, _)| text == token) {
            Some((_, old)) => *old = kind,
            None => self.tokens.push((token.to_owned(), kind)),
        }
    }

    fn id(&self, token: &str) -> usize {
        FIRST + self.tokens.iter().position(|(text, _)| text == token).expect("a token of its own")
    }

    /// What follows each token.
    fn successors(&self) -> Vec<usize> {
        let eos = self.eos.as_ref().map_or(2, |eos| self.id(eos));
        let mut next = vec![FIRST; FIRST + self.tokens.len()];
        for n in 0..self.said {
            next[FIRST + n] = if n + 1 < self.said { FIRST + n + 1 } else { eos };
        }
        for (token, piece) in &self.after {
            next[self.id(token)] = FIRST + piece;
        }
        next
    }

    /// The model, without a chat template.
    ///
    /// # Panics
    /// Never: the shapes fit.
    pub fn writer(&self) -> Writer {
        let mut tokens: Vec<(String, i32)> =
            vec![("<unk>".into(), 2), ("<s>".into(), CONTROL), ("</s>".into(), CONTROL)];
        tokens.extend((0..256).map(|byte| (format!("<0x{byte:02X}>"), 6)));
        tokens.extend(self.tokens.iter().map(|(text, kind)| match *kind {
            NORMAL => (text.replace(' ', "\u{2581}"), NORMAL),
            kind => (text.clone(), kind),
        }));
        let (texts, types): (Vec<String>, Vec<i32>) = tokens.into_iter().unzip();
        let (vocab, width, ffn) = (texts.len(), 8, 8);
        let mut writer = Writer::new();
        for (key, value) in [
            ("llama.block_count", 1),
            ("llama.context_length", 4096),
            ("llama.embedding_length", vocab),
            ("llama.feed_forward_length", ffn),
            ("llama.attention.head_count", 1),
            ("llama.attention.head_count_kv", 1),
            ("llama.attention.key_length", width),
            ("llama.attention.value_length", width),
            ("llama.rope.dimension_count", width),
            ("tokenizer.ggml.unknown_token_id", 0),
            ("tokenizer.ggml.bos_token_id", 1),
            ("tokenizer.ggml.eos_token_id", self.eos.as_ref().map_or(2, |eos| self.id(eos))),
        ] {
            writer.insert(key, value as u32);
        }
        writer.insert("general.architecture", "llama");
        writer.insert("general.name", "parrot");
        writer.insert("llama.attention.layer_norm_rms_epsilon", 1e-5f32);
        writer.insert("tokenizer.ggml.model", "llama");
        writer.insert("tokenizer.ggml.add_space_prefix", false);
        writer.insert("tokenizer.ggml.scores", Value::Array(Array::F32((0..vocab).map(|id| -(id as f32)).collect())));
        writer.insert("tokenizer.ggml.tokens", Value::Array(Array::String(texts)));
        writer.insert("tokenizer.ggml.token_type", Value::Array(Array::I32(types)));

        // A token is one number of the stream, which the layer leaves as it is, and the head has it for the successor.
        let next = self.successors();
        let one = |at: &dyn Fn(usize, usize) -> bool| -> Vec<f32> {
            (0..vocab * vocab).map(|n| f32::from(u8::from(at(n / vocab, n % vocab)))).collect()
        };
        let mut add = |name: &str, shape: &[usize], values: Vec<f32>| {
            let shape: Vec<u64> = shape.iter().map(|len| *len as u64).collect();
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            writer.tensor(name, Format::F32, &shape, bytes).expect("a fresh name and a fitting length");
        };
        add("token_embd.weight", &[vocab, vocab], one(&|token, at| token == at));
        add("output.weight", &[vocab, vocab], one(&|token, at| next[at] == token));
        add("output_norm.weight", &[vocab], vec![1.0; vocab]);
        for (name, inner, outer) in [
            ("attn_q", vocab, width),
            ("attn_k", vocab, width),
            ("attn_v", vocab, width),
            ("attn_output", width, vocab),
            ("ffn_gate", vocab, ffn),
            ("ffn_up", vocab, ffn),
            ("ffn_down", ffn, vocab),
        ] {
            add(&format!("blk.0.{name}.weight"), &[inner, outer], vec![0.0; inner * outer]);
        }
        for name in ["attn_norm", "ffn_norm"] {
            add(&format!("blk.0.{name}.weight"), &[vocab], vec![1.0; vocab]);
        }
        writer
    }
}
