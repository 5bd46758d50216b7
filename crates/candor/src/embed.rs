//! Vectors of texts, and scores of pairs of them: which texts are computed together, and what is made of their rows.
//!
//! What a text gives depends on it alone. An encoder's tokens see each other, so that a text is one step, however long;
//! texts of about the same length share a step. A text of a model that continues texts may take several.

use candor_models::Rank;
use candor_ops::KvFormat;

use crate::{
    Batch, BatchOptions, Error, Model, Outputs, Pooling, Role, Scaling, SequenceId, Value, Want, batch::Room, now::now,
};

/// How vectors are made.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
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

setters!(EmbedOptions {
    pooling: impl Into<Option<Pooling>>,
    scaling: Scaling,
    overlong: Overlong,
    rows: usize,
});

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
    /// Its end is cut off, except the token that ends every text.
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

/// Room for a number of sequences and of positions in each.
struct Fitted {
    batch: Batch,
    sequences: usize,
}

/// Room is made for multiples of this number of positions, to serve texts of nearly the same length.
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

    /// The length of vectors.
    pub fn scaling(&self) -> Scaling {
        self.options.scaling
    }

    /// What follows is scaled so; scores have no length.
    pub fn scale(&mut self, scaling: Scaling) {
        self.options.scaling = scaling;
    }

    /// Whether texts can be computed, given by their ids.
    ///
    /// # Errors
    /// If a text is empty or too long, or an id is outside of the vocabulary.
    pub fn fits(&self, texts: &[Vec<u32>]) -> Result<(), Error> {
        texts.iter().enumerate().try_for_each(|(index, ids)| self.admit(index + 1, ids).map(|_| ()))
    }

    /// The vector of each text, given by its ids: `[width]`, without pooling `[T, width]`. `progress` sees how many are done.
    ///
    /// # Errors
    /// If a text is empty or too long, an id is outside of the vocabulary, there is not enough memory, or the device fails.
    pub fn embed(&mut self, texts: &[Vec<u32>], progress: impl FnMut(usize)) -> Result<Vec<Vec<f32>>, Error> {
        now(self.embed_body(texts, progress))
    }

    /// What [`Self::embed`] does.
    pub(crate) async fn embed_body(
        &mut self,
        texts: &[Vec<u32>],
        mut progress: impl FnMut(usize),
    ) -> Result<Vec<Vec<f32>>, Error> {
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
            let rows = self.rows(&ids, cut[longest].len()).await?;
            for (&text, rows) in group.iter().zip(rows) {
                vectors[text] = self.vector(text + 1, &rows)?;
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

    /// The rows of each text, `[T, D]`; the longest one has `longest` tokens.
    async fn rows(&mut self, texts: &[&[u32]], longest: usize) -> Result<Vec<Vec<f32>>, Error> {
        let original = self.model.config().original_context();
        let limit = if longest > original { usize::MAX } else { original };
        let limit = limit.min(self.model.config().limit.unwrap_or(usize::MAX)).max(longest);
        let context = longest.next_multiple_of(GRAIN).min(limit);
        let kept = self.room.take().filter(|room| room.batch.context() == context && room.sequences >= texts.len());
        let mut fitted = match kept {
            Some(fitted) => fitted,
            None => self.fit(texts.len(), context)?,
        };
        let batch = &mut fitted.batch;
        let ids = texts.iter().map(|_| batch.add()).collect::<Result<Vec<SequenceId>, Error>>()?;
        let mut rows = vec![Vec::new(); texts.len()];
        let mut rest = texts.to_vec();
        while rest.iter().any(|text| !text.is_empty()) {
            let mut left = batch.rows();
            for (text, &id) in rest.iter_mut().zip(&ids) {
                let (now, later) = text.split_at(text.len().min(left));
                batch.push(id, now, Role::Prefill, Outputs::Each(Want::Embedding))?;
                (*text, left) = (later, left - now.len());
            }
            batch.step_observed_body(None, None).await?;
            for answer in batch.answers() {
                if let (Value::Embedding(row), Some(text)) =
                    (answer.value, ids.iter().position(|&id| id == answer.sequence))
                {
                    rows[text].extend_from_slice(row);
                }
            }
        }
        ids.into_iter().try_for_each(|id| batch.remove(id))?;
        self.room = Some(fitted);
        Ok(rows)
    }

    /// Room for texts of up to `context` tokens.
    fn fit(&self, sequences: usize, context: usize) -> Result<Fitted, Error> {
        let all = context * sequences;
        // What tokens see of each other must be in one step.
        let rows = if self.model.encodes() { all } else { all.min(self.options.rows.max(1)) };
        let (keys, values) = (KvFormat::F32, KvFormat::F32);
        let options = BatchOptions { sequences, context, fit: false, rows, keys, values, ..BatchOptions::default() };
        let mut room = Room::new(&self.model, &options)?;
        (room.rows, room.plan.step, room.outputs) = (rows, rows, 0);
        Ok(Fitted { batch: Batch::new(self.model.clone(), room, sequences, 0)?, sequences })
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
