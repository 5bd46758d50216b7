//! What every check needs: the file's vocabulary and template, what was said, and vocabularies changed through their
//! metadata, which is how a mutation reaches the tokenizer.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    rc::Rc,
};

use candor::{ChatContext, ChatTemplate, Encode, Message, Tokenizer};
use candor_gguf::{Array, Gguf, Metadata, Value};

use super::{Reading, Said, error::TextError};

pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
pub(super) const SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";

/// `tokenizer.ggml.token_type` of tokens that are cut out of a text before the rest is split: unknown, control,
/// user-defined.
const SPECIAL: [i32; 3] = [2, 3, 4];
const BYTE: i32 = 6;

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fragment<'t> {
    Text(&'t str),
    Token(u32),
}

pub(super) struct Scene<'a> {
    pub gguf: &'a Gguf,
    pub said: &'a Said,
    pub tokenizer: Tokenizer,
    pub template: Option<Result<ChatTemplate, String>>,
    kinds: Vec<i32>,
    changed: RefCell<HashMap<String, Option<Rc<Tokenizer>>>>,
    ranks: OnceCell<HashMap<String, usize>>,
}

impl<'a> Scene<'a> {
    pub fn new(gguf: &'a Gguf, said: &'a Said) -> Result<Scene<'a>, TextError> {
        let metadata = gguf.metadata();
        let tokenizer = Tokenizer::from_metadata(metadata)?;
        let template = metadata.str("tokenizer.chat_template")?;
        let template = template.map(|source| ChatTemplate::new(source).map_err(|error| error.to_string()));
        let kinds = metadata.i32s("tokenizer.ggml.token_type")?.map(|kinds| kinds.to_vec()).unwrap_or_default();
        let (changed, ranks) = (RefCell::default(), OnceCell::new());
        Ok(Scene { gguf, said, tokenizer, template, kinds, changed, ranks })
    }

    pub fn metadata(&self) -> &'a Metadata {
        self.gguf.metadata()
    }

    pub fn is_spm(&self) -> bool {
        self.tokenizer.model_name() == "llama"
    }

    /// Whether a space goes before text.
    pub fn space_prefix(&self) -> bool {
        self.is_spm() && self.metadata().bool(SPACE_PREFIX).ok().flatten().unwrap_or(true)
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.tokenizer.is_control(id) || self.kinds.get(id as usize).is_some_and(|kind| SPECIAL.contains(kind))
    }

    pub fn is_byte(&self, id: u32) -> bool {
        self.kinds.get(id as usize) == Some(&BYTE)
    }

    /// The token that plain text spelled so can become.
    pub fn plain_id(&self, text: &str) -> Option<u32> {
        self.tokenizer.id(text).filter(|&id| !self.is_special(id) && !self.is_byte(id))
    }

    /// The place of a merge `a b` in the list, lowest first.
    pub fn ranks(&self) -> &HashMap<String, usize> {
        self.ranks.get_or_init(|| {
            let merges = self.metadata().strings("tokenizer.ggml.merges").ok().flatten().unwrap_or_default();
            merges.iter().enumerate().map(|(rank, merge)| (merge.clone(), rank)).collect()
        })
    }

    /// The vocabulary after a change of its metadata; `None` where that makes none. `key` names the change: it is made
    /// once.
    pub fn changed(&self, key: &str, change: impl FnOnce(&mut Metadata)) -> Option<Rc<Tokenizer>> {
        if let Some(known) = self.changed.borrow().get(key) {
            return known.clone();
        }
        let mut metadata = self.metadata().clone();
        change(&mut metadata);
        let tokenizer = Tokenizer::from_metadata(&metadata).ok().map(Rc::new);
        self.changed.borrow_mut().insert(key.to_owned(), tokenizer.clone());
        tokenizer
    }

    /// The vocabulary with other spellings of some tokens, which hides these from a text.
    pub fn respelled(&self, key: &str, change: impl Fn(u32, &str) -> Option<String>) -> Option<Rc<Tokenizer>> {
        self.changed(key, |metadata| {
            let Ok(Some(tokens)) = metadata.strings(TOKENS) else { return };
            let spelled = |(id, token): (u32, &String)| change(id, token).unwrap_or_else(|| token.clone());
            let tokens: Vec<String> = (0u32..).zip(tokens).map(spelled).collect();
            metadata.insert(TOKENS, Value::Array(Array::String(tokens)));
        })
    }

    /// How text is read, BOS and EOS left aside.
    pub fn inner(&self) -> Encode {
        Encode { bos: false, specials: self.said.reading == Reading::Prompt }
    }

    /// Ids of a text without BOS and EOS.
    pub fn tokenize(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode(text, self.inner())
    }

    /// Ids of a whole prompt.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode(text, Encode { bos: true, ..self.inner() })
    }

    /// BOS and EOS as the file asks for them, none a second time.
    pub fn frame(&self, ids: &[u32]) -> Vec<u32> {
        let bos = self.tokenizer.bos().filter(|bos| self.tokenizer.add_bos() && ids.first() != Some(bos));
        let eos = self.tokenizer.eos().filter(|eos| self.tokenizer.add_eos() && ids.last() != Some(eos));
        bos.into_iter().chain(ids.iter().copied()).chain(eos).collect()
    }

    /// Special tokens and the text between them; `None` where cutting a text there does not give its ids.
    pub fn fragments<'t>(&self, text: &'t str) -> Option<Vec<Fragment<'t>>> {
        let whole = self.tokenize(text);
        let mut fragments = Vec::new();
        let mut rest = text;
        for &id in whole.iter().filter(|&&id| self.is_special(id) && Some(id) != self.tokenizer.unk()) {
            let spelling = self.tokenizer.token(id)?;
            let (before, after) = rest.split_once(spelling)?;
            if !before.is_empty() {
                fragments.push(Fragment::Text(before));
            }
            fragments.push(Fragment::Token(id));
            rest = after;
        }
        if !rest.is_empty() {
            fragments.push(Fragment::Text(rest));
        }
        let again = join(&fragments, |text, _| Some(self.tokenizer.encode(text, Encode::text())))?;
        (again == whole).then_some(fragments)
    }

    /// What templates see besides the messages.
    pub fn chat_context(&self) -> ChatContext {
        let text = |id: Option<u32>| id.and_then(|id| self.tokenizer.token(id)).unwrap_or_default().to_owned();
        ChatContext {
            add_generation_prompt: true,
            bos_token: text(self.tokenizer.bos()),
            eos_token: text(self.tokenizer.eos()),
            extra: self.said.variables.clone(),
            ..ChatContext::default()
        }
    }

    /// The file's template, where it has one that can be read.
    pub fn template(&self) -> Option<&ChatTemplate> {
        self.template.as_ref()?.as_ref().ok()
    }

    /// A conversation in the words of the file's template.
    pub fn render(&self, messages: &[Message]) -> Option<String> {
        self.template()?.render(messages, &self.chat_context()).ok()
    }
}

/// Ids of fragments, the texts among them by `encode`, which also gets the place of the fragment.
pub(super) fn join(
    fragments: &[Fragment<'_>],
    mut encode: impl FnMut(&str, usize) -> Option<Vec<u32>>,
) -> Option<Vec<u32>> {
    let mut ids = Vec::new();
    for (place, fragment) in fragments.iter().enumerate() {
        match fragment {
            Fragment::Token(id) => ids.push(*id),
            Fragment::Text(text) => ids.extend(encode(text, place)?),
        }
    }
    Some(ids)
}
