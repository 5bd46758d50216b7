//! Runs a GGUF file in candle and writes what it computes as safetensors, for `candor diagnose`.
//!
//!     candle-dump MODEL.gguf --as llama --ids 1,403,407 [--decode 2] [--values all|steps|last] -o OUT.safetensors
//!
//! `--as` names candle's module (`quantized_llama`, ...), whatever the file's architecture: keys of the file are
//! renamed, so a file of another architecture that the module's tensors fit is run as people run it
//! (huggingface/candle#3410). `--values last` and `steps` call candle's own model: the prompt at once, or token by
//! token, with logits alone. `all` repeats the forward pass of llama, qwen2 and qwen3 with candle's public layers,
//! since the models keep their values to themselves, and stops unless its last logits are those of candle's own model
//! to the bit. Names are candle's fields.

use std::{collections::HashMap, env, fs::File, path::PathBuf};

use candle_core::{
    bail,
    quantized::gguf_file::{Content, Value},
    quantized::QMatMul,
    DType, Device, Module, Result, Tensor, D,
};
use candle_nn::{ops, rotary_emb, Embedding};
use candle_transformers::{models, quantized_nn::RmsNorm, utils::repeat_kv};

struct Args {
    model: PathBuf,
    module: String,
    ids: Vec<u32>,
    decode: usize,
    values: String,
    out: PathBuf,
}

fn main() -> Result<()> {
    let args = args()?;
    let prompt = args.ids.len() - args.decode;
    let mut own = own_model(&args)?;
    let mut values: HashMap<String, Tensor> = HashMap::new();
    let last = match args.values.as_str() {
        "last" => {
            let mut last = own(&args.ids[..prompt], 0)?;
            for at in prompt..args.ids.len() {
                last = own(&args.ids[at..=at], at)?;
            }
            values.insert("logits".to_owned(), last.clone());
            last
        }
        "steps" => {
            let rows = (0..args.ids.len()).map(|at| own(&args.ids[at..=at], at)).collect::<Result<Vec<_>>>()?;
            values.insert("logits".to_owned(), Tensor::cat(&rows, 0)?);
            rows[rows.len() - 1].clone()
        }
        "all" => {
            let mut traced = Traced::load(&args)?;
            let mut passes = vec![traced.forward(&args.ids[..prompt], 0)?];
            let mut last = own(&args.ids[..prompt], 0)?;
            for at in prompt..args.ids.len() {
                passes.push(traced.forward(&args.ids[at..=at], at)?);
                last = own(&args.ids[at..=at], at)?;
            }
            let names: Vec<String> = passes[0].keys().cloned().collect();
            for name in names {
                let parts: Vec<&Tensor> = passes.iter().map(|pass| &pass[&name]).collect();
                values.insert(name, Tensor::cat(&parts, 0)?);
            }
            let rebuilt = values["output"].get(args.ids.len() - 1)?.to_vec1::<f32>()?;
            if rebuilt != last.flatten_all()?.to_vec1::<f32>()? {
                bail!("the repeated forward pass has other logits than candle's own model");
            }
            last
        }
        other => bail!("--values {other}: all, steps or last"),
    };
    println!("next {}", last.flatten_all()?.argmax(D::Minus1)?.to_scalar::<u32>()?);
    candle_core::safetensors::save(&values, &args.out)
}

fn args() -> Result<Args> {
    let mut words: Vec<String> = env::args().skip(1).collect();
    let mut take = |flag: &str, default: Option<&str>| -> Result<String> {
        if let Some(at) = words.iter().position(|word| word == flag) {
            let value = words.get(at + 1).cloned();
            words.drain(at..words.len().min(at + 2));
            return value.ok_or_else(|| candle_core::Error::Msg(format!("{flag} needs a value")));
        }
        default.map(str::to_owned).ok_or_else(|| candle_core::Error::Msg(format!("{flag} is missing")))
    };
    let (module, ids, decode) = (take("--as", None)?, take("--ids", None)?, take("--decode", Some("0"))?);
    let (values, out) = (take("--values", Some("all"))?, take("-o", None)?);
    let number = |word: &str| word.trim().parse::<u32>().map_err(|e| candle_core::Error::Msg(format!("{word}: {e}")));
    let ids = ids.split(',').map(number).collect::<Result<Vec<u32>>>()?;
    let decode = number(&decode)? as usize;
    match &words[..] {
        [model] if decode < ids.len() => Ok(Args { model: model.into(), module, ids, decode, values, out: out.into() }),
        _ => {
            bail!("usage: candle-dump MODEL.gguf --as MODULE --ids 1,2,3 [--decode N] [--values all|steps|last] -o OUT")
        }
    }
}

/// Opens a file and renames its keys to those of the module that is asked for.
fn open(args: &Args) -> Result<(Content, File)> {
    let mut file = File::open(&args.model)?;
    let mut content = Content::read(&mut file)?;
    let from = content.metadata["general.architecture"].to_string()?.clone();
    let renamed: Vec<_> = content
        .metadata
        .iter()
        .filter_map(|(key, value)| Some((format!("{}{}", args.module, key.strip_prefix(&from)?), value.clone())))
        .collect();
    content.metadata.extend(renamed);
    // Some converters leave it out where it is the whole head; quantized_llama insists on it.
    let number =
        |key: &str| content.metadata.get(&format!("{}.{key}", args.module)).and_then(|value| value.to_u32().ok());
    if let (None, Some(width), Some(heads)) =
        (number("rope.dimension_count"), number("embedding_length"), number("attention.head_count"))
    {
        let head = number("attention.key_length").unwrap_or(width / heads);
        content.metadata.insert(format!("{}.rope.dimension_count", args.module), Value::U32(head));
    }
    Ok((content, file))
}

type Forward = Box<dyn FnMut(&[u32], usize) -> Result<Tensor>>;

/// Loads candle's own model: a function from ids and their first position to the logits `[1, vocabulary]` of the last.
fn own_model(args: &Args) -> Result<Forward> {
    let (content, mut file) = open(args)?;
    let device = Device::Cpu;
    macro_rules! run {
        ($model:expr) => {{
            let mut model = $model;
            Box::new(move |ids: &[u32], at: usize| {
                let logits = model.forward(&Tensor::new(ids, &Device::Cpu)?.unsqueeze(0)?, at)?.to_dtype(DType::F32)?;
                let rows = logits.reshape(((), logits.dim(D::Minus1)?))?;
                rows.narrow(0, rows.dim(0)? - 1, 1)?.contiguous()
            })
        }};
    }
    Ok(match args.module.as_str() {
        "llama" => run!(models::quantized_llama::ModelWeights::from_gguf(content, &mut file, &device)?),
        "qwen2" => run!(models::quantized_qwen2::ModelWeights::from_gguf(content, &mut file, &device)?),
        "qwen3" => run!(models::quantized_qwen3::ModelWeights::from_gguf(content, &mut file, &device)?),
        "qwen3moe" => {
            run!(models::quantized_qwen3_moe::GGUFQWenMoE::from_gguf(content, &mut file, &device, DType::F32)?)
        }
        "phi2" => run!(models::quantized_phi::ModelWeights::from_gguf(content, &mut file, &device)?),
        "phi3" => run!(models::quantized_phi3::ModelWeights::from_gguf(false, content, &mut file, &device)?),
        "gemma3" => run!(models::quantized_gemma3::ModelWeights::from_gguf(content, &mut file, &device)?),
        "glm4" => run!(models::quantized_glm4::ModelWeights::from_gguf(content, &mut file, &device, DType::F32)?),
        "lfm2" => run!(models::quantized_lfm2::ModelWeights::from_gguf(content, &mut file, &device)?),
        other => bail!("--as {other}: no such module here"),
    })
}

struct Layer {
    matrices: HashMap<&'static str, QMatMul>,
    biases: HashMap<&'static str, Tensor>,
    norms: HashMap<&'static str, RmsNorm>,
    cache: Option<(Tensor, Tensor)>,
}

/// The forward pass of quantized_llama, quantized_qwen2 and quantized_qwen3, with every value kept.
struct Traced {
    module: String,
    embeddings: Embedding,
    layers: Vec<Layer>,
    norm: RmsNorm,
    output: QMatMul,
    cos: Tensor,
    sin: Tensor,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
}

/// candle's fields and the tensors of the file behind them.
const MATRICES: [(&str, &str); 7] = [
    ("attention_wq", "attn_q"),
    ("attention_wk", "attn_k"),
    ("attention_wv", "attn_v"),
    ("attention_wo", "attn_output"),
    ("feed_forward_w1", "ffn_gate"),
    ("feed_forward_w2", "ffn_down"),
    ("feed_forward_w3", "ffn_up"),
];
const NORMS: [(&str, &str); 4] =
    [("attention_norm", "attn_norm"), ("ffn_norm", "ffn_norm"), ("q_norm", "attn_q_norm"), ("k_norm", "attn_k_norm")];

impl Traced {
    fn load(args: &Args) -> Result<Traced> {
        let (content, mut file) = open(args)?;
        let device = Device::Cpu;
        let module = args.module.clone();
        if !matches!(module.as_str(), "llama" | "qwen2" | "qwen3") {
            bail!("--values all: only for llama, qwen2 and qwen3");
        }
        let key = |name: &str| {
            let key = format!("{module}.{name}");
            content.metadata.get(&key).ok_or_else(|| candle_core::Error::Msg(format!("no {key}")))
        };
        let count = |name: &str| Ok::<usize, candle_core::Error>(key(name)?.to_u32()? as usize);
        let eps = key("attention.layer_norm_rms_epsilon")?.to_f32()? as f64;
        let base = key("rope.freq_base").and_then(|value| value.to_f32()).unwrap_or(10000.0);
        let (width, heads) = (count("embedding_length")?, count("attention.head_count")?);
        let head_dim = if module == "qwen3" { count("attention.key_length")? } else { width / heads };
        let rotated = if module == "llama" { count("rope.dimension_count")? } else { head_dim };
        let mut tensor = |name: String| content.tensor(&mut file, &name, &device);
        let mut layers = Vec::new();
        for index in 0..count("block_count")? {
            let mut layer =
                Layer { matrices: HashMap::new(), biases: HashMap::new(), norms: HashMap::new(), cache: None };
            for (field, name) in MATRICES {
                layer.matrices.insert(field, QMatMul::from_qtensor(tensor(format!("blk.{index}.{name}.weight"))?)?);
                if module == "qwen2" && matches!(name, "attn_q" | "attn_k" | "attn_v") {
                    layer.biases.insert(field, tensor(format!("blk.{index}.{name}.bias"))?.dequantize(&device)?);
                }
            }
            for (field, name) in NORMS.iter().take(if module == "qwen3" { 4 } else { 2 }) {
                layer.norms.insert(field, RmsNorm::from_qtensor(tensor(format!("blk.{index}.{name}.weight"))?, eps)?);
            }
            layers.push(layer);
        }
        let norm = RmsNorm::from_qtensor(tensor("output_norm.weight".to_owned())?, eps)?;
        let embeddings = tensor("token_embd.weight".to_owned())?;
        let output = tensor("output.weight".to_owned()).or_else(|_| tensor("token_embd.weight".to_owned()))?;
        // quantized_qwen3 has its table in F16 unless a key says otherwise.
        let dtype = match content.metadata.get("general.dtype").map(|value| value.to_u32()) {
            _ if module != "qwen3" => DType::F32,
            Some(Ok(0)) => DType::F32,
            _ => DType::F16,
        };
        let power = |index: usize| match module.as_str() {
            "qwen3" => 1.0 / f64::from(base).powf(index as f64 / rotated as f64) as f32,
            _ => 1.0 / base.powf(index as f32 / rotated as f32),
        };
        let theta: Vec<f32> = (0..rotated).step_by(2).map(power).collect();
        let theta = Tensor::from_vec(theta, (1, rotated / 2), &device)?.to_dtype(dtype)?;
        let positions = Tensor::arange(0, args.ids.len() as u32, &device)?.to_dtype(dtype)?.unsqueeze(1)?;
        let angles = positions.matmul(&theta)?;
        Ok(Traced {
            embeddings: Embedding::new(embeddings.dequantize(&device)?, width),
            layers,
            norm,
            output: QMatMul::from_qtensor(output)?,
            cos: angles.cos()?,
            sin: angles.sin()?,
            heads,
            kv_heads: count("attention.head_count_kv")?,
            head_dim,
            module: module.clone(),
        })
    }

    /// All values of some tokens, `[tokens, width]` each; scores are not among them.
    fn forward(&mut self, ids: &[u32], at: usize) -> Result<HashMap<String, Tensor>> {
        let tokens = ids.len();
        let mut kept = HashMap::new();
        let mut keep = |name: String, value: &Tensor| -> Result<()> {
            kept.insert(name, value.reshape((tokens, ()))?.contiguous()?);
            Ok(())
        };
        let (cos, sin) = (self.cos.narrow(0, at, tokens)?, self.sin.narrow(0, at, tokens)?);
        let (cos, sin) = (cos.to_dtype(DType::F32)?, sin.to_dtype(DType::F32)?);
        let forbidden: Vec<u8> = (0..tokens).flat_map(|i| (0..tokens).map(move |j| u8::from(j > i))).collect();
        let forbidden = Tensor::from_vec(forbidden, (tokens, tokens), &Device::Cpu)?;
        let never = Tensor::new(f32::NEG_INFINITY, &Device::Cpu)?;
        let mut x = self.embeddings.forward(&Tensor::new(ids, &Device::Cpu)?.unsqueeze(0)?)?;
        keep("tok_embeddings".to_owned(), &x)?;
        for (index, layer) in self.layers.iter_mut().enumerate() {
            let name = |field: &str| format!("layers.{index}.{field}");
            let normed = layer.norms["attention_norm"].forward(&x)?;
            keep(name("attention_norm"), &normed)?;
            let mut heads = Vec::new();
            for (field, short, count) in [
                ("attention_wq", "q", self.heads),
                ("attention_wk", "k", self.kv_heads),
                ("attention_wv", "v", self.kv_heads),
            ] {
                let mut value = layer.matrices[field].forward(&normed)?;
                keep(name(field), &value)?;
                if let Some(bias) = layer.biases.get(field) {
                    value = value.broadcast_add(bias)?;
                    keep(name(&format!("{short}_after_bias")), &value)?;
                }
                let mut value = value.reshape((1, tokens, count, self.head_dim))?.transpose(1, 2)?.contiguous()?;
                if let Some(norm) = layer.norms.get(format!("{short}_norm").as_str()) {
                    value = norm.forward(&value.flatten(0, 2)?)?.reshape((1, count, tokens, self.head_dim))?;
                    keep(name(&format!("{short}_norm")), &value.transpose(1, 2)?)?;
                }
                if short != "v" {
                    value = match self.module.as_str() {
                        "llama" => rotary_emb::rope_i(&value, &cos, &sin)?,
                        _ => rotary_emb::rope(&value, &cos, &sin)?,
                    };
                    keep(name(&format!("{short}_rope")), &value.transpose(1, 2)?)?;
                }
                heads.push(value);
            }
            let [q, mut k, mut v] = <[Tensor; 3]>::try_from(heads).expect("three of them");
            if let Some((before_k, before_v)) = &layer.cache {
                k = Tensor::cat(&[before_k, &k], 2)?;
                v = Tensor::cat(&[before_v, &v], 2)?;
            }
            layer.cache = Some((k.clone(), v.clone()));
            let k = repeat_kv(k, self.heads / self.kv_heads)?.contiguous()?;
            let v = repeat_kv(v, self.heads / self.kv_heads)?.contiguous()?;
            let root = (self.head_dim as f64).sqrt();
            let scores = q.matmul(&k.t()?)?;
            // quantized_qwen3 multiplies by the inverse, the others divide.
            let mut scores = if self.module == "qwen3" { (scores * (1.0 / root))? } else { (scores / root)? };
            if tokens > 1 {
                let mask = forbidden.broadcast_as(scores.shape())?;
                scores = mask.where_cond(&never.broadcast_as(scores.shape())?, &scores)?;
            }
            let y = ops::softmax_last_dim(&scores)?.matmul(&v)?.transpose(1, 2)?;
            let y = y.reshape((1, tokens, self.heads * self.head_dim))?;
            keep(name("attn_pre_o"), &y)?;
            let y = layer.matrices["attention_wo"].forward(&y)?;
            keep(name("attention_wo"), &y)?;
            x = (y + x)?;
            keep(name("ffn_inp"), &x)?;
            let normed = layer.norms["ffn_norm"].forward(&x)?;
            keep(name("ffn_norm"), &normed)?;
            let gate = layer.matrices["feed_forward_w1"].forward(&normed)?;
            let up = layer.matrices["feed_forward_w3"].forward(&normed)?;
            let product = (ops::silu(&gate)? * &up)?;
            let down = layer.matrices["feed_forward_w2"].forward(&product)?;
            for (field, value) in [
                ("feed_forward_w1", &gate),
                ("feed_forward_w3", &up),
                ("silu_mul", &product),
                ("feed_forward_w2", &down),
            ] {
                keep(name(field), value)?;
            }
            x = (down + x)?;
            keep(format!("layers.{index}"), &x)?;
        }
        let normed = self.norm.forward(&x)?;
        keep("norm".to_owned(), &normed)?;
        keep("output".to_owned(), &self.output.forward(&normed)?)?;
        Ok(kept)
    }
}
