//! A model's tokens as a trie of their bytes, built once and shared by all that follows a grammar.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use candor::{Show, StreamDecoder, Tokenizer};
use llguidance::ParserFactory;
use toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};

use crate::Error;

/// The tokens of a model, as grammars need them. It takes a second for 150,000 tokens: make one for a model, and share it.
pub struct Vocabulary {
    tokenizer: Arc<Tokenizer>,
    all: Side,
    /// The same where an answer begins, if decoding drops a space there.
    first: Option<Side>,
    /// Then, the tokens that are nothing but that space.
    spaces: Vec<u32>,
}

/// The bytes of each token, and what makes parsers for them.
pub(crate) struct Side {
    env: TokEnv,
    pub factory: ParserFactory,
}

/// Longest token that a trie takes, in bytes; no text needs a longer one.
const LONGEST: usize = 1000;

impl Vocabulary {
    /// The tokens of a tokenizer: their texts, without control tokens.
    ///
    /// # Errors
    /// [`Error::NoEnd`] where no token ends a text, [`Error::Vocabulary`] where the tokens make no trie.
    pub fn new(tokenizer: &Arc<Tokenizer>) -> Result<Vocabulary, Error> {
        Vocabulary::showing(tokenizer, &[])
    }

    /// The same, and the control tokens `marks` are their texts: a grammar may name them.
    ///
    /// # Errors
    /// As [`Vocabulary::new`].
    pub fn showing(tokenizer: &Arc<Tokenizer>, marks: &[u32]) -> Result<Vocabulary, Error> {
        if tokenizer.stop_ids().is_empty() {
            return Err(Error::NoEnd);
        }
        let ids = 0..tokenizer.vocab_size() as u32;
        let show = |id: u32| if marks.contains(&id) { Show::Specials } else { Show::Text };
        let mut pieces: Vec<Vec<u8>> = ids.map(|id| tokenizer.piece(id, show(id)).into_owned()).collect();
        // The byte 0xff is in no text, and marks tokens of its own kind in the library.
        let is_out = |piece: &&mut Vec<u8>| piece.len() > LONGEST || piece.first() == Some(&0xff);
        pieces.iter_mut().filter(is_out).for_each(Vec::clear);
        tokenizer.stop_ids().iter().for_each(|&id| pieces[id as usize].clear());
        let first = dropped_space(tokenizer, &pieces).map(|space| {
            // Nor may there be a token behind which decoding drops a space again.
            let parts = |id: u32| {
                let mut decoder = StreamDecoder::continuing(tokenizer.as_ref());
                decoder.push(id);
                !decoder.push(space).starts_with(' ')
            };
            for (id, piece) in (0..).zip(&mut pieces) {
                if !piece.is_empty() && str::from_utf8(piece).is_ok() && parts(id) {
                    piece.clear();
                }
            }
            pieces.iter().map(|piece| piece.strip_prefix(b" ").unwrap_or(piece).to_vec()).collect::<Vec<_>>()
        });
        let end = tokenizer.stop_ids()[0];
        let first = first.map(|pieces| Side::new(&pieces, end)).transpose()?;
        let is_space = |(_, piece): &(u32, &Vec<u8>)| first.is_some() && *piece == b" ";
        let spaces = (0..).zip(&pieces).filter(is_space).map(|(id, _)| id).collect();
        Ok(Vocabulary { tokenizer: tokenizer.clone(), all: Side::new(&pieces, end)?, first, spaces })
    }

    /// The tokenizer that it was made of.
    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The tokens.
    pub(crate) fn all(&self) -> &Side {
        &self.all
    }

    /// The tokens as they begin an answer to `prompt`, where they differ there.
    pub(crate) fn first(&self, prompt: &[u32]) -> Option<&Side> {
        self.first.as_ref().filter(|_| prompt.last().is_some_and(|&token| self.tokenizer.is_control(token)))
    }

    /// The tokens that say nothing where an answer begins and [`Vocabulary::first`] has others.
    pub(crate) fn spaces(&self) -> &[u32] {
        &self.spaces
    }
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocabulary").field("tokens", &self.tokenizer.vocab_size()).finish_non_exhaustive()
    }
}

impl Side {
    fn new(pieces: &[Vec<u8>], end: u32) -> Result<Side, Error> {
        // What the libraries take for granted of a vocabulary they check by panics.
        let made = catch_unwind(AssertUnwindSafe(|| {
            let trie = TokTrie::from(&TokRxInfo::new(pieces.len() as u32, end), pieces);
            let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
            let mut factory = ParserFactory::new(
                &env,
                InferenceCapabilities::default(),
                &llguidance::earley::SlicedBiasComputer::general_slices(),
            )?;
            factory.quiet();
            factory.limits_mut().verbose_errors = false;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Side { env, factory })
        }));
        match made {
            Ok(made) => made.map_err(|error| Error::Vocabulary(error.to_string())),
            Err(_) => Err(Error::Vocabulary("its tokens make no trie".to_owned())),
        }
    }

    /// The trie.
    pub fn trie(&self) -> &TokTrie {
        self.env.tok_trie()
    }
}

/// A token that begins with a space which decoding drops at the beginning of an answer.
fn dropped_space(tokenizer: &Tokenizer, pieces: &[Vec<u8>]) -> Option<u32> {
    let is_spaced = |piece: &[u8]| piece.starts_with(b" ") && str::from_utf8(piece).is_ok();
    let id = (0..).zip(pieces).find(|(_, piece)| is_spaced(piece))?.0;
    (!StreamDecoder::new(tokenizer).push(id).starts_with(' ')).then_some(id)
}
