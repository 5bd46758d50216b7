//! Which format each tensor has: the mixtures that `llama-quantize` makes of llama models without an importance matrix, and
//! plain ones of the formats that it asks one for.
//!
//! Facts from llama.cpp's src/llama-quant.cpp.

use candor_gguf::Format;

/// A kind of file.
pub struct Mix {
    /// What the command line calls it.
    pub name: &'static str,
    /// llama.cpp's `general.file_type`.
    pub file_type: u32,
    /// Most tensors.
    main: Format,
    /// The head, or a tied embedding.
    head: Format,
    /// The exceptions, the first that applies.
    raised: &'static [Raise],
}

/// What a matrix does, as far as mixtures care. Numbers are layers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Embedding,
    Head,
    Value(u32),
    Down(u32),
    AttentionOutput,
    Other,
}

/// What mixtures ask of a model.
#[derive(Clone, Copy)]
pub struct Model {
    pub layers: u32,
    /// Query heads per KV head.
    pub grouped: u64,
    pub tied: bool,
}

/// A format for some tensors in place of the main one.
struct Raise {
    matrix: Matrix,
    when: fn(layer: u32, model: Model) -> bool,
    to: Format,
}

#[derive(PartialEq)]
enum Matrix {
    Value,
    Down,
    AttentionOutput,
}

use Format::*;
use Matrix::{AttentionOutput, Down, Value};

const ALWAYS: fn(u32, Model) -> bool = |_, _| true;
/// The first and last eighth of the layers, and each third between.
const HALF: fn(u32, Model) -> bool = |layer, Model { layers, .. }| {
    let eighth = layers / 8;
    layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2
};
const FIRST_EIGHTH: fn(u32, Model) -> bool = |layer, model| layer < model.layers / 8;
const GROUPED: fn(u32, Model) -> bool = |_, model| model.grouped >= 4;

const fn raise(matrix: Matrix, when: fn(u32, Model) -> bool, to: Format) -> Raise {
    Raise { matrix, when, to }
}

const fn pure(name: &'static str, file_type: u32, main: Format, head: Format) -> Mix {
    Mix { name, file_type, main, head, raised: &[] }
}

/// Every mixture there is.
pub const MIXES: &[Mix] = &[
    pure("f32", 0, F32, F32),
    pure("f16", 1, F16, F16),
    pure("bf16", 32, Bf16, Bf16),
    pure("q8_0", 7, Q8_0, Q8_0),
    pure("q4_0", 2, Q4_0, Q6K),
    pure("q4_1", 3, Q4_1, Q6K),
    pure("q5_0", 8, Q5_0, Q6K),
    pure("q5_1", 9, Q5_1, Q6K),
    pure("mxfp4", 38, Mxfp4, Q8_0),
    pure("nvfp4", 39, Nvfp4, Q8_0),
    pure("iq1_s", 24, Iq1S, Q6K),
    pure("iq2_xxs", 19, Iq2Xxs, Q6K),
    pure("iq2_xs", 20, Iq2Xs, Q6K),
    pure("iq2_s", 28, Iq2S, Q6K),
    pure("iq3_xxs", 23, Iq3Xxs, Q6K),
    pure("iq3_s", 26, Iq3S, Q6K),
    pure("tq1_0", 36, Tq1_0, Q6K),
    pure("tq2_0", 37, Tq2_0, Q6K),
    Mix {
        name: "q2_k",
        file_type: 10,
        main: Q2K,
        head: Q6K,
        raised: &[
            raise(Value, GROUPED, Q4K),
            raise(Value, ALWAYS, Q3K),
            raise(Down, ALWAYS, Q3K),
            raise(AttentionOutput, ALWAYS, Q3K),
        ],
    },
    Mix {
        name: "q3_k_m",
        file_type: 12,
        main: Q3K,
        head: Q6K,
        raised: &[
            raise(Value, |layer, _| layer < 2, Q5K),
            raise(Value, ALWAYS, Q4K),
            raise(Down, |layer, model| layer < model.layers / 16, Q5K),
            raise(Down, ALWAYS, Q4K),
            raise(AttentionOutput, ALWAYS, Q4K),
        ],
    },
    Mix {
        name: "q4_k_s",
        file_type: 14,
        main: Q4K,
        head: Q6K,
        raised: &[raise(Value, |layer, _| layer < 4, Q5K), raise(Down, FIRST_EIGHTH, Q5K)],
    },
    Mix {
        name: "q4_k_m",
        file_type: 15,
        main: Q4K,
        head: Q6K,
        raised: &[raise(Value, HALF, Q6K), raise(Down, HALF, Q6K)],
    },
    Mix {
        name: "q5_k_m",
        file_type: 17,
        main: Q5K,
        head: Q6K,
        raised: &[raise(Value, HALF, Q6K), raise(Down, HALF, Q6K)],
    },
    pure("q6_k", 18, Q6K, Q6K),
    Mix {
        name: "iq4_nl",
        file_type: 25,
        main: Iq4Nl,
        head: Q6K,
        raised: &[raise(Value, GROUPED, Q5K), raise(Down, FIRST_EIGHTH, Q5K)],
    },
    Mix {
        name: "iq4_xs",
        file_type: 30,
        main: Iq4Xs,
        head: Q6K,
        raised: &[raise(Value, GROUPED, Q5K), raise(Down, FIRST_EIGHTH, Q5K)],
    },
];

impl Mix {
    /// The format of a matrix whose rows have `cols` elements: where these are no whole blocks, a legacy format.
    pub fn format(&self, role: Role, model: Model, cols: u64) -> Format {
        let format = self.wanted(role, model);
        if cols.is_multiple_of(format.block_len() as u64) {
            return format;
        }
        match format {
            Q2K | Q3K | Iq4Xs => Iq4Nl,
            Q4K => Q5_0,
            Q5K => Q5_1,
            Q6K => Q8_0,
            _ => F16,
        }
    }

    fn wanted(&self, role: Role, model: Model) -> Format {
        let (matrix, layer) = match role {
            Role::Head => return self.head,
            Role::Embedding if model.tied => return self.head,
            Role::Embedding | Role::Other => return self.main,
            Role::Value(layer) => (Value, layer),
            Role::Down(layer) => (Down, layer),
            Role::AttentionOutput => (AttentionOutput, 0),
        };
        let raise = self.raised.iter().find(|raise| raise.matrix == matrix && (raise.when)(layer, model));
        raise.map_or(self.main, |raise| raise.to)
    }
}

#[cfg(test)]
mod tests {
    use candor_gguf::Gguf;

    use super::*;

    impl Mix {
        /// Every format that this mixture may use.
        pub fn formats(&self) -> impl Iterator<Item = Format> {
            [self.main, self.head].into_iter().chain(self.raised.iter().map(|raise| raise.to))
        }
    }

    fn role(tensor: &str) -> Option<Role> {
        let mut parts = tensor.split('.');
        let (first, second, third) = (parts.next()?, parts.next()?, parts.next());
        match (first, third) {
            ("token_embd", None) => Some(Role::Embedding),
            ("output", None) => Some(Role::Head),
            ("blk", Some(part)) => {
                let layer = second.parse().expect("the number of a layer");
                match part {
                    "attn_v" => Some(Role::Value(layer)),
                    "ffn_down" => Some(Role::Down(layer)),
                    "attn_output" => Some(Role::AttentionOutput),
                    _ if part.ends_with("_norm") => None,
                    _ => Some(Role::Other),
                }
            }
            _ => None,
        }
    }

    /// The fixtures were quantized by llama.cpp.
    #[test]
    fn mixtures_are_llama_cpps() {
        let Some(fixtures) = candor_testing::fixtures() else { return };
        for name in ["F16", "Q8_0", "Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K", "IQ4_XS"] {
            let path = fixtures.join(format!("models/stories260K-wide256-{name}.gguf"));
            let file = Gguf::open(&path).expect("a fixture");
            let mix = MIXES.iter().find(|mix| mix.name == name.to_lowercase()).expect("a mixture");
            let number = |key: &str| file.metadata().u32(key).expect("a number").expect("the key");
            let grouped = number("llama.attention.head_count") / number("llama.attention.head_count_kv");
            let tied = file.tensor("output.weight").is_none();
            let model = Model { layers: number("llama.block_count"), grouped: u64::from(grouped), tied };
            assert_eq!(mix.file_type, number("general.file_type"), "{name}");
            for tensor in file.tensors() {
                let format = role(&tensor.name).map_or(Format::F32, |role| mix.format(role, model, tensor.shape[0]));
                assert_eq!(tensor.format, format, "{name}: {}", tensor.name);
            }
        }
    }
}
