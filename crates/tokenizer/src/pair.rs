//! Two texts in one sequence, as rerankers read a query and a document.

use crate::tokenizer::{Encode, Tokenizer};

impl Tokenizer {
    /// The ids of two texts, as llama.cpp puts them together for a reranker without a template of its own: BOS, the first
    /// text, EOS, SEP, the second text, EOS, each special token only where the file asks for it (`add_bos_token`,
    /// `add_eos_token`, `add_sep_token`, or what they are for such a vocabulary). Where there is no EOS, SEP stands for it.
    /// Both texts are plain: they cannot contain control tokens.
    pub fn encode_pair(&self, first: &str, second: &str) -> Vec<u32> {
        let asked = |asked: bool, id: Option<u32>| id.filter(|_| asked);
        let end = asked(self.add_eos, self.specials.eos.or(self.specials.sep));
        let mut ids: Vec<u32> = asked(self.add_bos, self.specials.bos).into_iter().collect();
        ids.extend(self.encode(first, Encode::text()));
        ids.extend(end);
        ids.extend(asked(self.add_sep, self.specials.sep));
        ids.extend(self.encode(second, Encode::text()));
        ids.extend(end);
        ids
    }
}
