//! Which format each tensor gets: the mixtures that llama-quantize makes, tensor by tensor.
//!
//! Facts from llama.cpp's src/llama-quant.cpp (build 11434).

use candor_gguf::{Error as GgufError, Format, Metadata, Value};
use regex::Regex;

use crate::{Error, FileType};

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Mix {
    /// The kind of file.
    pub kind: FileType,
    /// The format of most matrices: that of the kind.
    pub main: Format,
    /// All matrices get the main format.
    pub pure: bool,
    /// The format of the head, and of tied embeddings.
    pub head: Option<Format>,
    /// The head stays as it is.
    pub keep_head: bool,
    /// The format of the embeddings of tokens.
    pub embedding: Option<Format>,
    named: Vec<(Regex, Format)>,
    /// Whether there is an importance matrix.
    pub importance: bool,
}

/// What mixtures ask of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// `general.architecture`.
    pub architecture: String,
    /// Layers in all.
    pub layers: u32,
    /// Query heads per KV head of the first layer, rounded down; 0 where it has none.
    pub grouped: u32,
    /// Experts of a layer.
    pub experts: u32,
    /// Llama's 70B and its like, whose eight query heads share one value.
    pub shares_values: bool,
}

/// A tensor, as far as mixtures care.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Its name in the new file.
    pub name: &'a str,
    /// What it is now.
    pub format: Format,
    /// In ggml's order.
    pub shape: &'a [u64],
}

/// What a tensor becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its format.
    pub format: Format,
    /// The format that it would have, were its rows whole blocks of that.
    pub instead_of: Option<Format>,
}

/// What a matrix does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Head,
    Embedding,
    Query,
    Key,
    /// Values, alone or together with queries or keys.
    Value,
    AttentionOutput,
    Up,
    Gate,
    Down,
    Other,
}

/// Parts of names whose matrices stay as they are: small, or sensitive.
const KEPT: &[&str] = &[
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "attn_rel_b.weight",
    ".position_embd",
    "sam.pos_embd",
    "sam.neck.",
    "sam.net_",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
    "a.rvq.codebook",
    "mm.a.code_embd",
];

/// Names of matrices that stay as they are.
const KEPT_WHOLE: [&str; 2] = ["position_embd.weight", "token_types.weight"];

/// The same of one architecture.
const KEPT_GLM5_NEXT: &[&str] = &[
    "hc_",
    "indexer.attn_q_b",
    "indexer.attn_k",
    "indexer.proj",
    "indexer_compressor_gate",
    "indexer_compressor_ape",
    "ssm_f_a.weight",
    "ssm_f_b.weight",
    "ssm_g_a.weight",
    "ssm_g_b.weight",
    "ssm_beta.weight",
    "attn_kv_a_mqa.weight",
    "attn_k_b.weight",
    "attn_v_b.weight",
];

pub(crate) const EMBEDDINGS: [&str; 2] = ["token_embd.weight", "per_layer_token_embd.weight"];
const HEAD: &str = "output.weight";

impl Mix {
    /// What llama-quantize makes for a name of [`FileType`].
    pub fn new(kind: FileType) -> Mix {
        Mix {
            kind,
            main: kind.main(),
            pure: false,
            head: None,
            keep_head: false,
            embedding: None,
            named: Vec::new(),
            importance: false,
        }
    }

    /// Gives a format to the tensors in whose name a regular expression is found, and that no earlier one names.
    ///
    /// # Errors
    /// What is no regular expression.
    pub fn name(&mut self, pattern: &str, format: Format) -> Result<(), Error> {
        let pattern = Regex::new(pattern).map_err(|_| Error::Pattern { pattern: pattern.to_owned() })?;
        self.named.push((pattern, format));
        Ok(())
    }

    /// What each tensor becomes, in the order of `tensors`.
    ///
    /// # Errors
    /// A tensor whose rows are no whole blocks of a format that nothing stands in for; one without a layer in its name where the
    /// layer decides.
    pub fn choices(&self, model: &Model, tensors: &[Tensor<'_>]) -> Result<Vec<Choice>, Error> {
        let mut order: Vec<usize> = (0..tensors.len()).collect();
        order.sort_by_key(|&i| (layer(tensors[i].name), tensors[i].name));
        let values = tensors.iter().filter(|tensor| role(tensor.name) == Role::Value).count();
        let tied = tensors.iter().all(|tensor| tensor.name != HEAD);
        let mut pass = Pass { mix: self, model, tied, values: values as u32, seen: Seen::default() };
        let mut choices = vec![Choice { format: self.main, instead_of: None }; tensors.len()];
        for i in order {
            choices[i] = pass.choice(&tensors[i])?;
        }
        Ok(choices)
    }

    /// Which of `tensors` have a format that the mixture decides, and neither a name nor a flag.
    pub fn decides(&self, model: &Model, tensors: &[Tensor<'_>]) -> Vec<bool> {
        let tied = tensors.iter().all(|tensor| tensor.name != HEAD);
        let pass = Pass { mix: self, model, tied, values: 0, seen: Seen::default() };
        let decided = |tensor: &Tensor<'_>| {
            let given = match role(tensor.name) {
                Role::Head => self.head,
                Role::Embedding => self.embedding.or(self.head.filter(|_| tied)),
                _ => None,
            };
            let named = self.named.iter().any(|(pattern, _)| pattern.is_match(tensor.name));
            pass.is_quantized(tensor) && given.is_none() && !named
        };
        tensors.iter().map(decided).collect()
    }

    /// Whether a tensor of that name and format is worthless without an importance matrix.
    pub fn needs_importance(&self, name: &str, format: Format) -> bool {
        if EMBEDDINGS.contains(&name) || name == HEAD {
            return false;
        }
        match format {
            Format::Iq3Xxs | Format::Iq2Xxs | Format::Iq2Xs | Format::Iq2S | Format::Iq1M | Format::Iq1S => true,
            Format::Q2K => self.kind == FileType::Q2KS,
            _ => false,
        }
    }
}

impl Model {
    /// What the metadata of a model says.
    ///
    /// # Errors
    /// A key of another type.
    pub fn of(metadata: &Metadata) -> Result<Model, GgufError> {
        let architecture = metadata.str("general.architecture")?.unwrap_or_default().to_owned();
        let number = |key: &str| {
            let key = format!("{architecture}.{key}");
            match metadata.get(&key) {
                // One for each layer.
                Some(Value::Array(_)) => {
                    let first = metadata.i32s(&key)?.and_then(|all| all.first().copied());
                    Ok(first.map(|first| u32::try_from(first).unwrap_or(0)))
                }
                _ => metadata.u32(&key),
            }
        };
        let layers = number("block_count")?.unwrap_or(0);
        let heads = number("attention.head_count")?.unwrap_or(0);
        let kv_heads = number("attention.head_count_kv")?.unwrap_or(heads);
        let experts = number("expert_count")?.unwrap_or(0);
        let shares_values = match architecture.as_str() {
            "llama" => layers == 80 && heads != kv_heads,
            "qwen2" | "deci" | "olmo" => layers == 80,
            "jais2" => layers == 68,
            _ => false,
        };
        Ok(Model { layers, grouped: heads.checked_div(kv_heads).unwrap_or(0), experts, shares_values, architecture })
    }

    fn is(&self, architecture: &str) -> bool {
        self.architecture == architecture
    }
}

/// The layer that a name begins with; -1 for others.
fn layer(name: &str) -> i64 {
    let number = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(-1)
}

fn role(name: &str) -> Role {
    const PARTS: &[(&str, Role)] = &[
        ("attn_qkv.weight", Role::Value),
        ("attn_kv_b.weight", Role::Value),
        ("attn_v.weight", Role::Value),
        ("attn_k.weight", Role::Key),
        ("attn_q.weight", Role::Query),
        ("attn_output.weight", Role::AttentionOutput),
        ("ffn_up", Role::Up),
        ("ffn_gate", Role::Gate),
        ("ffn_down", Role::Down),
    ];
    match name {
        HEAD => Role::Head,
        name if EMBEDDINGS.contains(&name) => Role::Embedding,
        name => PARTS.iter().find(|(part, _)| name.contains(part)).map_or(Role::Other, |&(_, role)| role),
    }
}

/// How many of a kind came before.
#[derive(Default)]
struct Seen {
    values: u32,
    up: u32,
    gate: u32,
    down: u32,
}

/// One pass over the tensors, by layer and name.
struct Pass<'a> {
    mix: &'a Mix,
    model: &'a Model,
    tied: bool,
    values: u32,
    seen: Seen,
}

/// The first and last eighth of the layers, and each third between.
fn more_bits(layer: u32, layers: u32) -> bool {
    layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2
}

impl Pass<'_> {
    fn choice(&mut self, tensor: &Tensor<'_>) -> Result<Choice, Error> {
        let mix = self.mix;
        let chosen = |format| Ok(Choice { format, instead_of: None });
        if !self.is_quantized(tensor) {
            return chosen(tensor.format);
        }
        let role = role(tensor.name);
        let named = mix.named.iter().find(|(pattern, _)| pattern.is_match(tensor.name)).map(|&(_, format)| format);
        // The large table beside the embeddings goes with them, unless it is named itself.
        let own = tensor.name != EMBEDDINGS[0] && named.is_some();
        match (role, mix.embedding, mix.head) {
            (Role::Embedding, Some(format), _) if !own => return chosen(format),
            (Role::Head, _, Some(format)) => return chosen(format),
            _ if mix.main.block_len() == 1 => return chosen(mix.main),
            _ => {}
        }
        let format = match named {
            Some(format) => format,
            None if mix.pure => mix.main,
            None => self.by_mixture(tensor, role)?,
        };
        let cols = tensor.shape[0];
        if is_whole(cols, format) {
            return chosen(format);
        }
        let other = stand_in(format).ok_or_else(|| Error::Rows { tensor: tensor.name.to_owned(), format, cols })?;
        let other = if is_whole(cols, other) { other } else { Format::F16 };
        Ok(Choice { format: other, instead_of: Some(format) })
    }

    fn is_quantized(&self, tensor: &Tensor<'_>) -> bool {
        let name = tensor.name;
        // Matrices, and stacks of them.
        let dimensions = tensor.shape.iter().rposition(|&n| n != 1).map_or(1, |last| last + 1);
        dimensions >= 2
            && name.ends_with("weight")
            && !KEPT.iter().any(|part| name.contains(part))
            && !KEPT_WHOLE.contains(&name)
            && !(self.mix.keep_head && name == HEAD)
            && !(self.model.is("glm5-next") && KEPT_GLM5_NEXT.iter().any(|part| name.contains(part)))
    }

    /// The layer of a matrix of a feed-forward network: with experts as its name says, else the number of those before it.
    fn ffn_layer(&self, name: &str, seen: u32) -> Result<u32, Error> {
        if self.model.experts <= 1 {
            return Ok(seen);
        }
        let number = u32::try_from(layer(name)).ok().filter(|&number| number < self.model.layers);
        number.ok_or_else(|| Error::Layer { tensor: name.to_owned(), layers: self.model.layers })
    }

    fn by_mixture(&mut self, tensor: &Tensor<'_>, role: Role) -> Result<Format, Error> {
        use FileType as T;
        use Format::*;
        let (kind, main, model, importance) = (self.mix.kind, self.mix.main, self.model, self.mix.importance);
        let Model { layers, grouped, experts, .. } = *model;
        let falcon = model.is("falcon");
        let name = tensor.name;
        if model.is("glm5-next") && ["attn_q_a", "attn_q_b", "nextn.eh_proj"].iter().any(|part| name.contains(part)) {
            return Ok(Q8_0);
        }
        let low = matches!(kind, T::Iq2Xxs | T::Iq2Xs | T::Iq1S | T::Iq2S | T::Iq2M | T::Iq1M);
        if role == Role::Head || (self.tied && role == Role::Embedding) {
            return Ok(match self.mix.head {
                Some(format) => format,
                None if kind == T::Mxfp4Moe || falcon || !is_whole(tensor.shape[0], main) => Q8_0,
                None if low || kind == T::Iq3Xxs => Q5K,
                None if main == Q8_0 => Q8_0,
                None => Q6K,
            });
        }
        if kind == T::Mxfp4Moe {
            let stack = tensor.shape.get(2).is_some_and(|&count| count > 1);
            let expert = !model.is("bailingmoe3") || matches!(role, Role::Up | Role::Gate | Role::Down);
            return Ok(if stack && expert { Mxfp4 } else { Q8_0 });
        }
        if role == Role::Embedding {
            return Ok(match kind {
                T::Iq2Xxs | T::Iq2Xs | T::Iq1S | T::Iq1M => Q2K,
                T::Iq2S | T::Iq2M | T::Iq3Xxs => Iq3S,
                T::Tq1_0 | T::Tq2_0 | T::Q2_0 => Q4K,
                _ => main,
            });
        }
        let values = self.seen.values;
        self.seen.values += u32::from(role == Role::Value);
        if low {
            let down = self.seen.down;
            self.seen.down += u32::from(role == Role::Down);
            let wide = matches!(kind, T::Iq2S | T::Iq2M);
            let raised = if wide { Iq3S } else { Q2K };
            return Ok(match role {
                Role::Value if grouped >= 4 || experts >= 4 => Q4K,
                Role::Value => raised,
                Role::Key if experts == 8 => Q4K,
                Role::Down if down < layers / 8 => raised,
                Role::AttentionOutput if experts == 8 => Q5K,
                Role::AttentionOutput if matches!(kind, T::Iq1S | T::Iq1M) => Iq2Xxs,
                Role::AttentionOutput if wide => Iq3S,
                _ => main,
            });
        }
        Ok(match role {
            Role::Value if experts == 8 => Q8_0,
            Role::Value => {
                let format = match kind {
                    T::Q2K if grouped >= 4 => Q4K,
                    T::Q2K => Q3K,
                    T::Q2KS | T::Iq3Xs | T::Iq3S | T::Iq3Xxs if grouped >= 4 => Q4K,
                    T::Iq3Xxs => {
                        if importance {
                            Iq3Xxs
                        } else {
                            Iq3S
                        }
                    }
                    T::Iq3M => Q4K,
                    T::Q3KM => {
                        if values < 2 {
                            Q5K
                        } else {
                            Q4K
                        }
                    }
                    T::Q3KL => Q5K,
                    T::Iq4Nl | T::Iq4Xs if grouped >= 4 => Q5K,
                    T::Q4KM | T::Q5KM if more_bits(values, self.values) => Q6K,
                    T::Q4KS if values < 4 => Q5K,
                    _ => main,
                };
                if model.shares_values && matches!(format, Q3K | Q4K) { Q5K } else { format }
            }
            Role::Key if experts == 8 => Q8_0,
            Role::Key | Role::Query => match kind {
                T::Iq3Xs => Iq3Xxs,
                T::Iq3Xxs => Iq2S,
                _ => main,
            },
            Role::Down => {
                let layer = self.ffn_layer(name, self.seen.down)?;
                self.seen.down += 1;
                let (eighth, sixteenth, more) = (layer < layers / 8, layer < layers / 16, more_bits(layer, layers));
                match kind {
                    T::Q2K => Q3K,
                    T::Q2KS if eighth => Q4K,
                    T::Iq3Xxs if !importance => {
                        if eighth {
                            Q4K
                        } else {
                            Q3K
                        }
                    }
                    T::Q3KM if sixteenth => Q5K,
                    T::Q3KM if !falcon || more => Q4K,
                    T::Iq3M if eighth || (experts == 8 && more) => Q4K,
                    T::Q3KL => {
                        if falcon {
                            Q4K
                        } else {
                            Q5K
                        }
                    }
                    T::Q4KM if falcon => {
                        if sixteenth {
                            Q6K
                        } else if more {
                            Q5K
                        } else {
                            Q4K
                        }
                    }
                    T::Q4KM | T::Q5KM if more => Q6K,
                    T::Iq4Nl | T::Iq4Xs if eighth && !importance => Q5K,
                    T::Q4KS if eighth && !falcon => Q5K,
                    T::Q4_0 if eighth && importance => Q4_1,
                    T::Q5_0 if eighth && importance => Q5_1,
                    _ => main,
                }
            }
            Role::AttentionOutput if falcon => {
                if kind == T::Q3KL {
                    Q4K
                } else {
                    main
                }
            }
            Role::AttentionOutput if experts == 8 => match kind {
                T::Q2K
                | T::Iq3Xs
                | T::Iq3Xxs
                | T::Q3KS
                | T::Q3KM
                | T::Iq4Nl
                | T::Q4KS
                | T::Q4KM
                | T::Iq3S
                | T::Iq3M
                | T::Iq4Xs => Q5K,
                _ => main,
            },
            Role::AttentionOutput => match kind {
                T::Q2K => Q3K,
                T::Iq3Xxs => Iq3S,
                T::Q3KM | T::Iq3M => Q4K,
                T::Q3KL => Q5K,
                _ => main,
            },
            Role::Up | Role::Gate => {
                let seen = if role == Role::Up { &mut self.seen.up } else { &mut self.seen.gate };
                let before = *seen;
                *seen += 1;
                let layer = self.ffn_layer(name, before)?;
                let middle = layer >= layers / 8 && layer < 7 * layers / 8;
                if kind == T::Iq3Xs && middle { Iq3Xxs } else { main }
            }
            Role::Head | Role::Embedding | Role::Other => main,
        })
    }
}

fn is_whole(cols: u64, format: Format) -> bool {
    cols.is_multiple_of(format.block_len() as u64)
}

/// What stands in for a format of larger blocks; F16 where that has no whole blocks either.
fn stand_in(format: Format) -> Option<Format> {
    use Format::*;
    Some(match format {
        Iq1S | Iq1M | Iq2Xxs | Iq2Xs | Iq2S | Iq3Xxs | Iq3S | Iq4Xs => Iq4Nl,
        Q2_0 | Q2K | Q3K | Tq1_0 | Tq2_0 => Q4_0,
        Q4K => Q5_0,
        Q5K => Q5_1,
        Q6K => Q8_0,
        small if small.block_len() <= 32 => F16,
        _ => return None,
    })
}
