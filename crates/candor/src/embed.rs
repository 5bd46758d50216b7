//! Vectors of texts, and scores of pairs of them: which texts are computed together, and what is made of their rows.
//!
//! What a text gives depends on it alone. An encoder's tokens see each other, so that a text is one step, however long;
//! texts of about the same length share a step. A text of a model that continues texts may take several.

use candor_models::Rank;
use candor_ops::{KvFormat, Step};
use candor_tokenizer::Encode;

use crate::{Error, Model, Pooling, Scaling, SessionOptions, runner::Run, session::Room};

/// How vectors are made.
#[derive(Clone, Copy, Debug)]
pub struct EmbedOptions {
    /// How tokens' vectors become the text's; `None` takes what the file says.
    pub pooling: Option<Pooling>,
    /// The length of vectors. Scores have none.
    pub scaling: Scaling,
    /// What becomes of texts that are longer than the model's context.
    pub overlong: Overlong,
    /// About how many tokens are computed at once. A longer text of an encoder is computed at once all the same.
    pub rows: usize,
}

impl Default for EmbedOptions {
    /// The file's pooling, vectors of length 1, no cutting, steps of 512.
    fn default() -> Self {
        EmbedOptions { pooling: None, scaling: Scaling::Norm(2), overlong: Overlong::Refuse, rows: 512 }
    }
}

/// What becomes of a text that is longer than the model's context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlong {
    /// It is an error.
    Refuse,
    /// Its end is cut off, but for the token that ends every text.
    Cut,
}

/// Makes vectors of texts.
pub struct Embedder {
    model: Model,
    options: EmbedOptions,
    pooling: Pooling,
    rank: Option<Ranking>,
    room: Option<Fitted>,
}

/// How scores are made.
struct Ranking {
    head: Rank,
    given: Pooling,
}

/// Room for so many sequences of so many positions.
struct Fitted {
    run: Run,
    context: usize,
    sequences: usize,
}

/// Room is made for multiples of so many positions, to serve texts of nearly the same length.
const GRAIN: usize = 32;

impl Embedder {
    pub(crate) fn new(model: Model, options: &EmbedOptions) -> Result<Embedder, Error> {
        let pooling = match options.pooling {
            Some(pooling) => pooling,
            None => Pooling::of(&model)?,
        };
        let rank = match pooling {
            Pooling::Rank => {
                let head = Rank::from_gguf(model.gguf())?.ok_or(Error::NoRank)?;
                Some(Ranking { head, given: Pooling::before_rank(&model)? })
            }
            _ => None,
        };
        Ok(Embedder { model, options: *options, pooling, rank, room: None })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// How tokens' vectors become a text's.
    pub fn pooling(&self) -> Pooling {
        self.pooling
    }

    /// Numbers of a text's vector, or of each of its tokens'; labels of a reranker.
    pub fn width(&self) -> usize {
        self.rank.as_ref().map_or(self.model.config().dim, |rank| rank.head.labels())
    }

    /// The ids of a text, with the tokens that the file puts around one.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.model.encode_prompt(text)
    }

    /// The ids of a query and a document for a reranker: by the file's template `rerank`, or as a pair.
    ///
    /// # Errors
    /// If the template is no text.
    pub fn encode_pair(&self, query: &str, document: &str) -> Result<Vec<u32>, Error> {
        let tokenizer = self.model.tokenizer();
        Ok(match self.model.gguf().metadata().str("tokenizer.chat_template.rerank")? {
            Some(template) => {
                // A query that speaks of {document} is a query.
                let parts = template.split("{document}").map(|part| part.replace("{query}", query));
                let text = parts.collect::<Vec<_>>().join(document);
                tokenizer.encode(&text, Encode { bos: false, specials: true })
            }
            None => tokenizer.encode_pair(query, document),
        })
    }

    /// The vector of each text, given by its ids: `[width]`, without pooling `[T, width]`. `progress` sees how many are done.
    ///
    /// # Errors
    /// If a text is empty or too long, an id is outside of the vocabulary, there is not enough memory, or the device fails.
    pub fn embed(&mut self, texts: &[Vec<u32>], mut progress: impl FnMut(usize)) -> Result<Vec<Vec<f32>>, Error> {
        let admitted = texts.iter().enumerate().map(|(index, ids)| self.admit(index + 1, ids));
        let admitted = admitted.collect::<Result<Vec<&[u32]>, Error>>()?;
        let cut = texts.iter().zip(admitted).map(|(ids, cut)| self.closed(ids, cut)).collect::<Vec<_>>();
        // Long texts come first: what does not fit fails at once, and neighbours are of about the same length.
        let mut order: Vec<usize> = (0..cut.len()).collect();
        order.sort_by_key(|&text| std::cmp::Reverse(cut[text].len()));
        let mut vectors = vec![Vec::new(); cut.len()];
        let (mut rest, mut done) = (order.as_slice(), 0);
        while let Some(&longest) = rest.first() {
            let count = self.together(rest.iter().map(|&text| cut[text].len()));
            let (group, after) = rest.split_at(count);
            let ids: Vec<&[u32]> = group.iter().map(|&text| cut[text].as_slice()).collect();
            let rows = self.rows(&ids, cut[longest].len())?;
            let mut left = rows.as_slice();
            for &text in group {
                let (own, others) = left.split_at(cut[text].len() * self.model.config().dim);
                vectors[text] = self.vector(text + 1, own)?;
                left = others;
            }
            done += count;
            progress(done);
            rest = after;
        }
        Ok(vectors)
    }

    /// A text's ids, or as many as fit.
    fn admit<'a>(&self, number: usize, ids: &'a [u32]) -> Result<&'a [u32], Error> {
        let (vocab, context) = (self.model.config().vocab, self.model.config().context);
        if let Some(&token) = ids.iter().find(|&&token| token as usize >= vocab) {
            return Err(Error::Token { token, vocab });
        }
        match (ids.len(), self.options.overlong) {
            (0, _) => Err(Error::NoTokens { number }),
            (tokens, Overlong::Refuse) if tokens > context => Err(Error::TextTooLong { number, tokens, context }),
            (tokens, _) => Ok(&ids[..tokens.min(context)]),
        }
    }

    /// What was cut off a text, less the token that ends it.
    fn closed(&self, ids: &[u32], cut: &[u32]) -> Vec<u32> {
        let tokenizer = self.model.tokenizer();
        let mut closed = cut.to_vec();
        let end = ids.last().copied().filter(|_| cut.len() < ids.len());
        let end = end.filter(|&end| Some(end) == tokenizer.eos() || Some(end) == tokenizer.sep());
        if let (Some(end), Some(last)) = (end, closed.last_mut()) {
            *last = end;
        }
        closed
    }

    /// How many texts go into one step, of descending lengths.
    fn together(&self, lengths: impl Iterator<Item = usize>) -> usize {
        let original = self.model.config().original_context();
        let mut lengths = lengths.peekable();
        let longest = lengths.peek().copied().unwrap_or(1);
        let most = (self.options.rows / longest.next_multiple_of(GRAIN)).max(1);
        // Positions of a text are rotated by its own length's rule.
        lengths.take(most).take_while(|&length| (length > original) == (longest > original)).count()
    }

    /// The rows of texts, `[T, D]`, one after the other; the longest one has so many tokens.
    fn rows(&mut self, texts: &[&[u32]], longest: usize) -> Result<Vec<f32>, Error> {
        let encodes = self.model.encodes();
        let most = self.options.rows.max(1);
        let original = self.model.config().original_context();
        let limit = if longest > original { usize::MAX } else { original };
        let limit = limit.min(self.model.config().limit.unwrap_or(usize::MAX)).max(longest);
        let context = longest.next_multiple_of(GRAIN).min(limit);
        let sequences = texts.len();
        let kept = self.room.take().filter(|room| room.context == context && room.sequences >= sequences);
        let mut fitted = match kept {
            Some(fitted) => fitted,
            None => {
                let (keys, values) = (KvFormat::F32, KvFormat::F32);
                let options = SessionOptions { context, keys, values, ..SessionOptions::default() };
                let mut plan = Room::new(self.model.config(), sequences, &options)?.plan;
                let rows = if encodes { context * sequences } else { (context * sequences).min(most) };
                plan.step = rows;
                Fitted { run: self.model.loaded().begin(&plan, rows, 0)?, context, sequences }
            }
        };
        let tokens = texts.concat();
        let positions: Vec<u32> = texts.iter().flat_map(|ids| 0..ids.len() as u32).collect();
        let numbers = texts.iter().enumerate();
        let owners: Vec<u32> = numbers.flat_map(|(number, ids)| vec![number as u32; ids.len()]).collect();
        let chunk = if encodes { tokens.len() } else { most };
        let (mut rows, mut values) = (Vec::new(), Vec::new());
        for start in (0..tokens.len()).step_by(chunk) {
            let range = start..tokens.len().min(start + chunk);
            let step = Step {
                tokens: &tokens[range.clone()],
                positions: &positions[range.clone()],
                sequences: &owners[range],
                ..Step::default()
            };
            fitted.run.step_embeddings(step, &mut values)?;
            rows.extend_from_slice(&values);
        }
        self.room = Some(fitted);
        Ok(rows)
    }

    /// What a text's rows become.
    fn vector(&self, number: usize, rows: &[f32]) -> Result<Vec<f32>, Error> {
        let dim = self.model.config().dim;
        let vector = match &self.rank {
            Some(rank) => rank.head.scores(&rank.given.pool(rows, dim)),
            None => {
                let mut vector = self.pooling.pool(rows, dim);
                vector.chunks_exact_mut(dim).for_each(|vector| self.options.scaling.scale(vector));
                vector
            }
        };
        match vector.iter().all(|x| x.is_finite()) {
            true => Ok(vector),
            false => Err(Error::VectorNotFinite { number }),
        }
    }
}
