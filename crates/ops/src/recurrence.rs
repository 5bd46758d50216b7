//! Linear recurrences: attention whose past is one matrix per head instead of a list of keys and values.

/// How the state `S` fades from row to row.
#[derive(Debug)]
pub enum Decay<'a, W, Buf> {
    /// By a factor per head and key, `[T, H*K]`.
    Keys(&'a Buf),
    /// By a factor per head, `[T, H]`.
    Heads(&'a Buf),
    /// By `exp(time[t][h] * rate[h][k])`; `time` is `[T, H]`, `rate` `[H, K]`.
    Rates {
        /// How much time a row takes.
        time: &'a Buf,
        /// How fast each element fades; below zero.
        rate: &'a W,
    },
}

/// One step of a head with state `S`, `[K, V]`, is
///
/// ```text
/// S = diag(decay) S + erase.1 (erase.0^T S) + k v^T
/// out = q^T S
/// ```
///
/// where both `S` on the right are the state before the step. This is the scan of Mamba (Gu and Dao 2023) with a head per
/// channel and `V` = 1, of Mamba-2 (Dao and Gu 2024), RWKV-6 and RWKV-7 (Peng et al. 2024, 2025) and the gated delta rule
/// (Yang et al. 2024).
#[derive(Debug)]
pub struct Recurrence<'a, W, Buf> {
    /// Heads `H`, each with a state.
    pub heads: usize,
    /// Heads of queries and keys, `G`; head `h` has those of `h / (H / G)`.
    pub key_heads: usize,
    /// Elements `K` of a query or key.
    pub key_dim: usize,
    /// Elements `V` of a value.
    pub value_dim: usize,
    /// Queries, `[T, G*K]`.
    pub q: &'a Buf,
    /// Keys, `[T, G*K]`.
    pub k: &'a Buf,
    /// Values, `[T, H*V]`.
    pub v: &'a Buf,
    /// How the state fades.
    pub decay: Decay<'a, W, Buf>,
    /// What is read from the state and what is added for it, `[T, H*K]` each.
    pub erase: Option<(&'a Buf, &'a Buf)>,
    /// RWKV-6: the output is `q^T (S_before + diag(bonus) k v^T)`, `[H*K]`.
    pub bonus: Option<&'a W>,
}

impl<W, Buf> Clone for Recurrence<'_, W, Buf> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<W, Buf> Copy for Recurrence<'_, W, Buf> {}
impl<W, Buf> Clone for Decay<'_, W, Buf> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<W, Buf> Copy for Decay<'_, W, Buf> {}

impl<'a, W, Buf> Recurrence<'a, W, Buf> {
    /// The same recurrence on weights and buffers of another kind.
    pub fn map<'b, V, C>(
        &self,
        weight: impl Fn(&'a W) -> &'b V,
        buf: impl Fn(&'a Buf) -> &'b C,
    ) -> Recurrence<'b, V, C> {
        let Recurrence { heads, key_heads, key_dim, value_dim, q, k, v, decay, erase, bonus } = *self;
        let decay = match decay {
            Decay::Keys(factors) => Decay::Keys(buf(factors)),
            Decay::Heads(factors) => Decay::Heads(buf(factors)),
            Decay::Rates { time, rate } => Decay::Rates { time: buf(time), rate: weight(rate) },
        };
        let erase = erase.map(|(a, b)| (buf(a), buf(b)));
        let bonus = bonus.map(weight);
        Recurrence { heads, key_heads, key_dim, value_dim, q: buf(q), k: buf(k), v: buf(v), decay, erase, bonus }
    }

    /// Elements of the state: `H * K * V`.
    pub fn state_len(&self) -> usize {
        self.heads * self.key_dim * self.value_dim
    }

    /// The buffers that are read, in the order of the fields.
    pub fn buffers(&self) -> Vec<&'a Buf> {
        let decay = match self.decay {
            Decay::Keys(x) | Decay::Heads(x) | Decay::Rates { time: x, .. } => x,
        };
        let mut all = vec![self.q, self.k, self.v, decay];
        all.extend(self.erase.into_iter().flat_map(|(a, b)| [a, b]));
        all
    }
}
