//! The text side of a diagnosis: every row planted by hand, and healthy runs that must raise no alarm.

use std::path::Path;

use candor::{
    Message,
    sampler::{Sampler, Sampling},
};
use candor_gguf::{Array, Gguf, Value, Writer};
use candor_inspect::{
    Said, check_text,
    text::{Penalised, Reading, TextOutcome, TextReport, Verdict, text_catalogue},
};
use candor_testing::{Random, Tiny, fixtures, vocabularies};

const TEMPLATE: &str = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}</s>{% endfor %}\
    {% if add_generation_prompt %}<|assistant|>{% endif %}";

fn open(metadata: Vec<(String, Value)>) -> Gguf {
    let mut writer = Writer::new();
    metadata.into_iter().for_each(|(key, value)| writer.insert(key, value));
    Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()
}

/// SPM: `<unk> <s> </s>`, bytes from 3, then these words from 259 with falling scores.
const WORDS: [&str; 16] = [
    "\u{2581}",
    "a",
    "b",
    "c",
    "ab",
    "bc",
    "abc",
    "\u{2581}a",
    "\u{2581}ab",
    "\u{2581}\u{2581}",
    "<",
    "/",
    "s",
    ">",
    "ca",
    "u",
];
const BYTES: u32 = 3;
const W: u32 = 259;

fn spm(extra: &[(&str, Value)]) -> Gguf {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(String::from).into();
    tokens.extend((0..256).map(|byte| format!("<0x{byte:02X}>")));
    tokens.extend(WORDS.map(String::from));
    tokens.extend(["<|user|>", "<|assistant|>", "<|system|>"].map(String::from));
    let mut types = vec![2i32, 3, 3];
    types.extend([6; 256]);
    types.extend([1; 16]);
    types.extend([3; 3]);
    let scores: Vec<f32> = (0..tokens.len()).map(|id| -(id as f32)).collect();
    let mut metadata: Vec<(String, Value)> = vec![
        ("general.architecture".into(), "llama".into()),
        ("llama.context_length".into(), 64u32.into()),
        ("tokenizer.ggml.model".into(), "llama".into()),
        ("tokenizer.ggml.tokens".into(), Value::Array(Array::String(tokens))),
        ("tokenizer.ggml.scores".into(), Value::Array(Array::F32(scores))),
        ("tokenizer.ggml.token_type".into(), Value::Array(Array::I32(types))),
        ("tokenizer.chat_template".into(), TEMPLATE.into()),
    ];
    metadata.extend(extra.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    open(metadata)
}

const USER: u32 = W + 16;
const ASSISTANT: u32 = W + 17;

fn prompt(text: &str, ids: &[u32]) -> Said {
    Said { prompt: Some(text.into()), prompt_ids: Some(ids.into()), ..Said::default() }
}

fn chat(rendered: &str) -> Said {
    let messages = vec![Message::system("c"), Message::user("ab"), Message::assistant("b"), Message::user("a c")];
    Said { messages, rendered: Some(rendered.into()), ..Said::default() }
}

fn names(report: &TextReport, check: &str) -> Vec<String> {
    report.check(check).unwrap().explanations.iter().map(|found| found.name()).collect()
}

/// The row is among those named by the check, and no stage before it is wrong.
fn named(gguf: &Gguf, said: &Said, check: &str, row: &str) {
    let report = check_text(gguf, said).unwrap();
    let found = report.check(check).unwrap();
    assert_eq!(found.verdict, Verdict::Wrong, "{row}: {found:#?}");
    assert!(
        found.explanations.iter().any(|found| found.name() == row),
        "{row}: {:?} {found:#?}",
        names(&report, check)
    );
    assert_eq!(report.outcome, TextOutcome::Faulty, "{row}: {report:#?}");
    serde_json::to_string(&report).unwrap();
}

#[test]
fn prompts_of_a_small_spm_vocabulary() {
    let gguf = spm(&[]);
    let byte = |byte: u8| BYTES + u32::from(byte);
    let eos: Value = true.into();
    let with_eos = spm(&[("tokenizer.ggml.add_eos_token", eos)]);
    let no_bos = spm(&[("tokenizer.ggml.add_bos_token", false.into())]);
    let bare = spm(&[("tokenizer.ggml.add_space_prefix", false.into())]);
    // Ids of "ab": BOS, then U+2581 ab; by hand from the word list: a b -> ab before U+2581 a.
    let cases: &[(&str, &Gguf, &str, &[u32])] = &[
        ("no-space-prefix", &gguf, "ab", &[1, W + 4]),
        ("extra-space-prefix", &gguf, "ab", &[1, W, W + 8]),
        ("extra-space-prefix", &bare, "ab", &[1, W + 8]),
        ("space-prefix-not-after-specials", &gguf, "a</s>a", &[1, W + 7, 2, W + 1]),
        ("all-white-space-as-space", &gguf, "c\nc", &[1, W, W + 3, W, W + 3]),
        ("white-space-collapsed", &gguf, "c  c", &[1, W, W + 3, W, W + 3]),
        ("white-space-collapsed", &gguf, "c\n", &[1, W, W + 3]),
        ("space-not-replaced", &gguf, "c c", &[1, W + 3, byte(b' '), W + 3]),
        ("specials-as-text", &gguf, "<s>c", &[1, W, W + 10, W + 12, W + 13, W + 3]),
        ("end-token-as-text", &gguf, "c</s>", &[1, W, W + 3, W + 10, W + 11, W + 12, W + 13]),
        ("byte-fallback-missing", &gguf, "c\u{e9}", &[1, W, W + 3, 0]),
        ("merges-in-wrong-order", &gguf, "abc", &[1, W + 8, W + 3]),
        ("greedy-longest-match", &gguf, "abc", &[1, W + 8, W + 3]),
        ("unigram", &gguf, "abca", &[1, W + 8, W + 14]),
        ("characters-one-by-one", &gguf, "abc", &[1, W, W + 1, W + 2, W + 3]),
        ("characters-one-by-one", &gguf, "ab", &[1, byte(b'a'), byte(b'b')]),
        ("double-bos", &gguf, "ab", &[1, 1, W + 8]),
        ("no-bos", &gguf, "ab", &[W + 8]),
        ("bos-added", &no_bos, "ab", &[1, W + 8]),
        ("wrong-bos", &gguf, "ab", &[2, W + 8]),
        ("eos-appended", &gguf, "ab", &[1, W + 8, 2]),
        ("eos-missing", &with_eos, "ab", &[1, W + 8]),
        ("no-bos", &gguf, "c\n c", &[W, W + 3, byte(b'\n'), W, W + 3]),
        ("ids-shifted", &gguf, "ab c b", &[2, W + 9, W + 1, W + 4, W + 1, W + 3]),
        ("other-vocabulary", &gguf, "ab ab ab", &[1, 9000, 77]),
        ("other-vocabulary", &gguf, "ab ab ab ab", &[1, USER, W + 15, W + 15]),
    ];
    for (row, gguf, text, ids) in cases {
        named(gguf, &prompt(text, ids), "prompt ids", row);
    }
}

#[test]
fn two_faults_of_different_stages() {
    let gguf = spm(&[]);
    named(&gguf, &prompt("ab", &[W + 4]), "prompt ids", "no-space-prefix + no-bos");
    named(&gguf, &prompt("ab\nc", &[1, 1, W + 8, W, W + 3]), "prompt ids", "all-white-space-as-space + double-bos");
}

#[test]
fn plain_text_must_not_be_parsed() {
    let said = Said { reading: Reading::Plain, ..prompt("c</s>", &[1, W, W + 3, 2]) };
    named(&spm(&[]), &said, "prompt ids", "special-text-parsed");
    let right = Said { reading: Reading::Plain, ..prompt("c</s>", &[1, W, W + 3, W + 10, W + 11, W + 12, W + 13]) };
    assert_eq!(check_text(&spm(&[]), &right).unwrap().outcome, TextOutcome::Healthy);
}

#[test]
fn ids_alone_show_faults_of_bos() {
    let gguf = spm(&[]);
    for (row, ids) in [("double-bos", vec![1, 1, W + 8]), ("no-bos", vec![W + 8]), ("eos-appended", vec![1, W + 8, 2])]
    {
        let report = check_text(&gguf, &Said { prompt_ids: Some(ids), ..Said::default() }).unwrap();
        let healthy_reading = row == "eos-appended";
        // A text may end in </s>; of the others none can.
        assert_eq!(report.check("prompt ids").unwrap().names(row), !healthy_reading, "{row}: {report:#?}");
    }
}

#[test]
fn templates() {
    let gguf = spm(&[]);
    let cases = [
        ("template-missing", "a c"),
        ("template-missing", "c\nab\nb\na c"),
        ("generation-prompt-missing", "<s><|system|>c</s><|user|>ab</s><|assistant|>b</s><|user|>a c</s>"),
        ("system-prompt-dropped", "<s><|user|>ab</s><|assistant|>b</s><|user|>a c</s><|assistant|>"),
        ("history-dropped", "<s><|user|>a c</s><|assistant|>"),
        (
            "template-chatml",
            "<|im_start|>system\nc<|im_end|>\n<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n\
             <|im_start|>user\na c<|im_end|>\n<|im_start|>assistant\n",
        ),
        ("template-llama2", "<s>[INST] <<SYS>>\nc\n<</SYS>>\n\nab [/INST] b </s><s>[INST] a c [/INST]"),
        (
            "template-llama3",
            "<|start_header_id|>system<|end_header_id|>\n\nc<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nab<|eot_id|>\
             <|start_header_id|>assistant<|end_header_id|>\n\nb<|eot_id|><|start_header_id|>user<|end_header_id|>\n\na c\
             <|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        (
            "template-alpaca",
            "c\n\n### Instruction:\nab\n\n### Response:\nb\n\n### Instruction:\na c\n\n### Response:\n",
        ),
        ("template-vicuna", "c USER: ab ASSISTANT: b</s>USER: a c ASSISTANT:"),
        (
            "template-zephyr",
            "<|system|>\nc</s>\n<|user|>\nab</s>\n<|assistant|>\nb</s>\n<|user|>\na c</s>\n<|assistant|>\n",
        ),
        (
            "template-gemma",
            "<start_of_turn>system\nc<end_of_turn>\n<start_of_turn>user\nab<end_of_turn>\n<start_of_turn>model\nb<end_of_turn>\n\
             <start_of_turn>user\na c<end_of_turn>\n<start_of_turn>model\n",
        ),
        ("template-role-text", "system: c\nuser: ab\nassistant: b\nuser: a c\nassistant:"),
    ];
    for (row, rendered) in cases {
        named(&gguf, &chat(rendered), "chat template", row);
    }
    let eos = "{% for m in messages %}\n{{ m.role }} {{ m.content }}{{ eos_token }}\n{% endfor %}\n{% if true %}\n    {% set x = 1 %}\n{% endif %}end";
    let gguf = spm(&[("tokenizer.chat_template", eos.into())]);
    named(&gguf, &chat("system c\nuser ab\nassistant b\nuser a c\nend"), "chat template", "template-tokens-undefined");
    let loose = "\nsystem c</s>\n\nuser ab</s>\n\nassistant b</s>\n\nuser a c</s>\n\n\n    \nend";
    named(&gguf, &chat(loose), "chat template", "template-white-space");

    // The template's fault is found from ids alone, and so is a template around a typed prompt.
    let gguf = spm(&[]);
    let messages = vec![Message::user("ab")];
    let ids = Some(vec![1, USER, W + 8, 2]);
    let said = Said { messages, prompt_ids: ids, ..Said::default() };
    named(&gguf, &said, "prompt ids", "generation-prompt-missing");
    named(&gguf, &prompt("ab", &[1, USER, W + 8, 2, ASSISTANT]), "prompt ids", "template-applied");
}

#[test]
fn contexts() {
    let gguf = spm(&[]);
    let words: Vec<u32> = (0..30).flat_map(|n| [W, W + if n % 3 == 0 { 2 } else { 3 }]).collect();
    let text: Vec<&str> = (0..30).map(|n| if n % 3 == 0 { "b" } else { "c" }).collect();
    let text = text.join(" ");
    let whole = [&[1], &words[..]].concat();
    let cases = [
        ("cut-at-front", whole[21..].to_vec()),
        ("cut-at-end", whole[..40].to_vec()),
        ("cut-in-the-middle", [&whole[..5], &whole[26..]].concat()),
    ];
    for (row, ids) in cases {
        for context in [None, Some(ids.len())] {
            named(&gguf, &Said { context, ..prompt(&text, &ids) }, "prompt ids", row);
        }
    }
    let long = Said { generated_ids: Some(vec![W; 9]), ..prompt(&text, &whole) };
    named(&gguf, &long, "context", "context-overflow");
    named(&gguf, &Said { context: Some(40), ..prompt(&text, &whole) }, "context", "context-overflow");
}

/// Logits of every place, of both signs; the first ids are mostly the best, so that they come again and again.
fn logits(places: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut random = Random(seed);
    (0..places).map(|_| (0..40).map(|id| 4.0 * random.signed() - if id < 6 { -1.0 } else { 1.5 }).collect()).collect()
}

/// A run of which everything but the choices is known.
fn run(sampling: Sampling, chosen: impl Fn(usize, &[u32], &[Vec<f32>]) -> u32) -> Said {
    const PROMPT: [u32; 4] = [1, 5, 9, 13];
    let logits = logits(24, 9);
    let mut ids = PROMPT.to_vec();
    while ids.len() < 24 {
        ids.push(chosen(ids.len() - 1, &ids, &logits));
    }
    Said {
        prompt_ids: Some(PROMPT.into()),
        generated_ids: Some(ids[4..].to_vec()),
        sampling: Some(sampling),
        logits: logits.into_iter().enumerate().collect(),
        ..Said::default()
    }
}

fn top(values: impl IntoIterator<Item = f32>) -> u32 {
    candor_testing::argmax(&values.into_iter().collect::<Vec<_>>())
}

fn chosen_as(said: &Said, row: &str) {
    let report = check_text(&spm(&[]), said).unwrap();
    let found = report.check("choice of tokens").unwrap();
    assert_eq!(found.verdict, Verdict::Wrong, "{row}: {found:#?}");
    assert!(found.names(row), "{row}: {found:#?}");
}

#[test]
fn choices() {
    let greedy = Sampling::greedy;
    let penalty = || greedy().repeat_penalty(1.6).repeat_last_n(-1);
    chosen_as(&run(greedy(), |_, _, _| 0), "always-token-0");
    chosen_as(&run(greedy(), |_, _, _| 39), "last-of-vocabulary");
    chosen_as(&run(penalty(), |at, _, rows| top(rows[at].clone())), "best-token-regardless");
    chosen_as(&run(greedy(), |at, _, rows| top(rows[at].iter().map(|x| -x))), "sorted-ascending");
    // The last of the ids, counted from 0, that have 0.3 of the probability together.
    let in_order = |at: usize, _: &[u32], rows: &[Vec<f32>]| {
        let powers = rows[at].iter().map(|x| (x / 0.8).exp());
        let sum: f32 = powers.clone().sum();
        let reached = powers.scan(0.0, |reached, p| Some(std::mem::replace(reached, *reached + p)));
        reached.take_while(|&reached| reached < 0.3 * sum).count() as u32 - 1
    };
    chosen_as(&run(Sampling::default().top_p(0.3), in_order), "top-p-unsorted");
    chosen_as(
        &run(greedy(), |at, _, rows| {
            top(rows[at].iter().enumerate().map(|(id, &x)| if id == top(rows[at].clone()) as usize { -9.0 } else { x }))
        }),
        "temperature-0-ignored",
    );
    let divided = |at: usize, ids: &[u32], rows: &[Vec<f32>]| {
        top((0u32..).zip(&rows[at]).map(|(id, &x)| if ids.contains(&id) { (x - 3.0) / 1.6 } else { x - 3.0 }))
    };
    let mut said = run(penalty(), divided);
    said.logits.values_mut().flatten().for_each(|x| *x -= 3.0);
    chosen_as(&said, "penalty-divides-negatives");
    let scaled = |x: f32, by: f32| if x <= 0.0 { x * by } else { x / by };
    chosen_as(
        &run(penalty(), |at, ids, rows| {
            top((0u32..)
                .zip(&rows[at])
                .map(|(id, &x)| scaled(x, 1.6f32.powi(ids.iter().filter(|&&seen| seen == id).count() as i32))))
        }),
        "penalty-per-occurrence",
    );
    let over = |from: usize| {
        move |at: usize, ids: &[u32], rows: &[Vec<f32>]| {
            let prompt_first = rows[at].clone();
            // Tokens of the prompt are the best ones, so that it matters whether they are seen.
            top((0u32..).zip(prompt_first).map(|(id, x)| if ids[from..].contains(&id) { scaled(x, 1.6) } else { x }))
        }
    };
    chosen_as(&run(penalty(), over(4)), "penalty-without-prompt");
    chosen_as(&Said { penalised: Penalised::Continuation, ..run(penalty(), over(0)) }, "penalty-over-prompt");
    chosen_as(&run(greedy(), |at, _, rows| top(rows[at - 1].clone())), "logits-of-row-before");
    chosen_as(&run(greedy(), |_, _, rows| top(rows[0].clone())), "logits-of-first-row");
    chosen_as(&run(greedy(), |at, _, rows| top(rows[..=at].concat()) % 40), "best-of-all-rows");
    let mut echo = run(greedy(), |at, _, rows| top(rows[at].clone()));
    echo.logits.clear();
    echo.generated_ids = Some(vec![1, 5, 9, 13]);
    chosen_as(&echo, "prompt-echoed");
    echo.generated_ids = Some(vec![0; 5]);
    chosen_as(&echo, "always-token-0");
}

#[test]
fn settings_told_by_likelihood() {
    let asked = |temperature| Sampling::default().temperature(temperature).seed(3).top_k(0).top_p(1.0).min_p(0.0);
    let drawn = |given: Sampling, used: Sampling| {
        let mut all = run(given, |_, _, _| 0);
        let rows = logits(200, 4);
        let mut sampler = Sampler::new(&used, 512, None).unwrap();
        let ids: Vec<u32> = rows.iter().skip(3).map(|row| sampler.sample(row).unwrap()).collect();
        all.logits = rows.into_iter().enumerate().collect();
        all.generated_ids = Some(ids);
        all
    };
    chosen_as(&drawn(asked(0.5), asked(0.25)), "temperature-twice");
    chosen_as(&drawn(asked(0.5), asked(1.0)), "temperature-ignored");
    chosen_as(&drawn(asked(0.8), Sampling::greedy()), "greedy-though-sampling");
    for seed in 0..20 {
        let used = asked(0.8).seed(seed);
        let report = check_text(&spm(&[]), &drawn(asked(0.8), used)).unwrap();
        assert_eq!(report.check("choice of tokens").unwrap().verdict, Verdict::Right, "seed {seed}: {report:#?}");
    }
}

fn answer(ids: &[u32], text: Option<&str>) -> Said {
    let prompt_ids = Some(vec![1, USER, W + 8, 2, ASSISTANT]);
    Said { prompt_ids, generated_ids: Some(ids.into()), generated_text: text.map(str::to_owned), ..Said::default() }
}

#[test]
fn stopping() {
    let gguf = spm(&[]);
    named(&gguf, &answer(&[W + 8, 2, W + 8], None), "stopping", "eos-not-stopping");
    let other = spm(&[("tokenizer.ggml.eot_token_id", W.into())]);
    named(&other, &answer(&[W + 8, W, W + 8], None), "stopping", "eot-not-stopping");
    named(&other, &answer(&[W + 8, W, W + 8, 2, W + 8], None), "stopping", "no-stop-ids");
    let ends = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|system|>{% endfor %}<|assistant|>";
    let template = spm(&[("tokenizer.chat_template", ends.into())]);
    named(&template, &answer(&[W + 8, W + 18, W + 8], None), "stopping", "stop-id-missing-from-file");
    let said = Said { generated_text: Some("ab</s><|user|>b".into()), ..Said::default() };
    named(&gguf, &said, "stopping", "role-text-leaks");
    named(&gguf, &said, "stopping", "stop-text-shown");
}

#[test]
fn printed_texts() {
    let gguf = spm(&[]);
    let byte = |byte: u8| BYTES + u32::from(byte);
    let accents = [W + 8, byte(0xc3), byte(0xa9), W + 7];
    let cases: &[(&str, &[u32], &str)] = &[
        ("character-split-by-tokens", &accents, "ab\u{fffd}\u{fffd} a"),
        ("character-split-by-tokens", &accents, "ab a"),
        ("bytes-as-latin1", &accents, "ab\u{c3}\u{a9} a"),
        ("space-letter-shown", &[W + 8, W + 7], "\u{2581}ab\u{2581}a"),
        ("byte-tokens-spelled", &[W + 8, byte(b'\n'), W + 1], "ab<0x0A>a"),
        ("leading-space-kept", &[W + 8, W + 7], " ab a"),
        ("decoded-one-by-one", &[W + 8, W + 7], "aba"),
        ("tokens-joined-by-spaces", &[W + 4, W + 1], "ab a"),
        ("control-tokens-shown", &[W + 8, 2], "ab</s>"),
    ];
    for (row, ids, text) in cases {
        let report = check_text(&gguf, &answer(ids, Some(text))).unwrap();
        let found = report.check("printed text").unwrap();
        assert!(found.verdict == Verdict::Wrong && found.names(row), "{row}: {found:#?}");
    }
    let whole =
        Said { generated_ids: Some(vec![W + 8]), generated_text: Some("ab".into()), ..prompt("ab", &[1, W + 8]) };
    named(&gguf, &whole, "printed text", "leading-space-lost");
    named(&gguf, &Said { generated_text: Some("ab ab".into()), ..whole }, "printed text", "prompt-printed");
}

#[test]
fn logits_without_a_reference() {
    let gguf = Gguf::from_bytes(Tiny::default().writer().to_bytes().unwrap()).unwrap();
    let ids: Vec<u32> = (260..270).collect();
    let mut random = Random(2);
    let rows: Vec<Vec<f32>> = ids.iter().map(|_| (0..Tiny::VOCAB).map(|_| random.signed()).collect()).collect();
    let said = |change: &dyn Fn(&mut Vec<f32>)| {
        let mut rows = rows.clone();
        rows.iter_mut().for_each(change);
        Said { prompt_ids: Some(ids.clone()), logits: rows.into_iter().enumerate().collect(), ..Said::default() }
    };
    let verdict = |said: &Said| check_text(&gguf, said).unwrap().check("logits").unwrap().clone();
    assert_eq!(verdict(&said(&|_| ())).verdict, Verdict::Right);
    let softmax = |row: &mut Vec<f32>| {
        let sum: f32 = row.iter().map(|x| x.exp()).sum();
        row.iter_mut().for_each(|x| *x = x.exp() / sum);
    };
    let first = rows[0].clone();
    let cases: [(&str, Said); 7] = [
        ("logits-not-finite", said(&|row| row[7] = f32::NAN)),
        ("head-cut-short", said(&|row| row[270..].fill(0.0))),
        ("head-cut-short", said(&|row| row[100..150].fill(0.25))),
        ("context-not-reaching-head", said(&|row| row[5] = 9.0)),
        ("context-not-reaching-head", said(&|row| row.clone_from(&first))),
        ("probabilities-for-logits", said(&softmax)),
        ("wrong-width", said(&|row| row.truncate(300))),
    ];
    for (row, said) in cases {
        let found = verdict(&said);
        assert!(found.verdict == Verdict::Wrong && found.names(row), "{row}: {found:#?}");
    }
}

#[test]
fn healthy_runs_raise_no_alarm() {
    let builtin = Gguf::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../candor/assets/candor-tiny.gguf")).unwrap();
    for gguf in [builtin, spm(&[])] {
        let tokenizer = candor::Tokenizer::from_metadata(gguf.metadata()).unwrap();
        for text in ["ab", "Hello, how are you?", "", "two  spaces\nand a line \u{e9}\u{4e2d}", " a", "<s>ab</s>"] {
            let ids = tokenizer.encode(text, candor::Encode::prompt());
            let generated = tokenizer.encode(" ab c\u{e9}", candor::Encode::text());
            let mut stream = candor::StreamDecoder::continuing(&tokenizer);
            let control = ids.last().is_some_and(|&id| tokenizer.is_control(id));
            let printed: String = generated.iter().map(|&id| stream.push(id)).collect();
            let text_of_own = tokenizer.decode(&generated);
            let said = Said {
                generated_text: Some(if control { text_of_own } else { printed }),
                generated_ids: Some(generated),
                ..prompt(text, &ids)
            };
            let report = check_text(&gguf, &said).unwrap();
            assert_eq!(report.outcome, TextOutcome::Healthy, "{text:?}: {report:#?}");
            let ids_only = Said { prompt_ids: Some(ids), ..Said::default() };
            let report = check_text(&gguf, &ids_only).unwrap();
            assert_eq!(report.outcome, TextOutcome::Healthy, "{text:?}: {report:#?}");
        }
    }
    assert!(check_text(&spm(&[]), &Said::default()).is_err());
    let open = check_text(&spm(&[]), &Said { prompt: Some("ab".into()), ..Said::default() }).unwrap();
    assert_eq!(open.outcome, TextOutcome::Undecided);
    assert_eq!(open.decided_by.as_deref(), Some("the token ids of the prompt"));
}

/// A vocabulary of the fixtures.
fn vocabulary(name: &str) -> Option<Gguf> {
    let folder = vocabularies(&fixtures()?, Path::new(env!("CARGO_TARGET_TMPDIR")));
    Some(Gguf::open(folder.join(format!("ggml-vocab-{name}.gguf"))).unwrap())
}

/// Ids as the reports of these faults have them, and as other programs print them.
#[test]
fn real_vocabularies() {
    let cases: &[(&str, &str, &[u32], Option<&str>)] = &[
        ("llama-spm", "Hello", &[1, 15043], None),
        ("llama-spm", "Hello", &[1, 10994], Some("no-space-prefix")),
        ("llama-spm", "Hello</s>", &[1, 15043, 829, 29879, 29958], Some("end-token-as-text")),
        ("llama-spm", "Hello", &[1, 1, 15043], Some("double-bos")),
        ("llama-bpe", "Hello world", &[128000, 9906, 1917], None),
        ("llama-bpe", "Hello world", &[9906, 1917], Some("no-bos")),
        ("qwen2", "Hello world", &[9707, 1879], None),
        ("gpt-2", "Hello world", &[15496, 995], None),
        // Every id of "Hello world" in the vocabulary of Llama 3, read as GPT-2's.
        ("gpt-2", "Hello world", &[128000, 9906, 1917], Some("other-vocabulary")),
        ("llama-bpe", "123456", &[128000, 4513, 10961], None),
        // One digit at a time, as the rules of qwen2 split them.
        ("llama-bpe", "123", &[128000, 16, 17, 18], Some("another-pre-tokenizer")),
        ("qwen2", "12", &[16, 17], None),
    ];
    for &(name, text, ids, row) in cases {
        let Some(gguf) = vocabulary(name) else { return };
        match row {
            Some(row) => named(&gguf, &prompt(text, ids), "prompt ids", row),
            None => {
                let report = check_text(&gguf, &prompt(text, ids)).unwrap();
                assert_eq!(report.outcome, TextOutcome::Healthy, "{name} {text:?}: {report:#?}");
            }
        }
    }
}

/// BPE: a byte's token is its number, merges from 256 on; a space is U+0120.
#[test]
fn prompts_of_a_small_bpe_vocabulary() {
    let prints = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let character = |byte: u8| match prints(byte) {
        true => char::from(byte),
        false => char::from_u32(256 + (0..byte).filter(|&byte| !prints(byte)).count() as u32).unwrap(),
    };
    let merges = ["a \u{120}", "\u{120} b", "b c", "a b", "1 2", "! \u{120}"].map(String::from);
    let mut tokens: Vec<String> = (0..=255).map(|byte| character(byte).to_string()).collect();
    tokens.extend(merges.iter().map(|merge| merge.replacen(' ', "", 1)));
    tokens.push("<|end|>".into());
    let mut types = vec![1i32; tokens.len()];
    types[262] = 3;
    let gguf = open(vec![
        ("tokenizer.ggml.model".into(), "gpt2".into()),
        ("tokenizer.ggml.pre".into(), "qwen2".into()),
        ("tokenizer.ggml.tokens".into(), Value::Array(Array::String(tokens))),
        ("tokenizer.ggml.merges".into(), Value::Array(Array::String(merges.into()))),
        ("tokenizer.ggml.token_type".into(), Value::Array(Array::I32(types))),
        ("tokenizer.ggml.eos_token_id".into(), 262u32.into()),
    ]);
    let (a, b, c, space) = (97, 98, 99, 32);
    let cases: &[(&str, &str, &[u32])] = &[
        ("", "a b<|end|>", &[a, 257, 262]),
        ("pre-tokenizer-missing", "a b", &[256, b]),
        ("pre-tokenizer-missing", "abc c12", &[a, 258, space, c, 260]),
        ("another-pre-tokenizer", "c12", &[c, 260]),
        ("merges-in-wrong-order", "abc", &[259, c]),
        ("greedy-longest-match", "abc", &[259, c]),
        ("characters-one-by-one", "abc", &[a, b, c]),
        ("space-not-replaced", "a b", &[a, b]),
        ("specials-as-text", "a<|end|>b", &[a, 60, 124, 101, 110, 100, 124, 62, b]),
        ("end-token-as-text", "a<|end|>b", &[a, 60, 124, 101, 110, 100, 124, 62, b]),
        ("eos-appended", "abc", &[a, 258, 262]),
        ("extra-space-prefix", "bc", &[257, c]),
    ];
    for &(row, text, ids) in cases {
        match row {
            "" => assert_eq!(check_text(&gguf, &prompt(text, ids)).unwrap().outcome, TextOutcome::Healthy),
            row => named(&gguf, &prompt(text, ids), "prompt ids", row),
        }
    }
}

#[test]
fn the_catalogue_is_complete() {
    let mut names: Vec<&str> = text_catalogue().map(|fault| fault.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "names are unique");
    let entries: Vec<u32> = text_catalogue().map(|fault| fault.entry.parse().unwrap()).collect();
    for entry in 80..=95 {
        assert!(entries.contains(&entry), "entry {entry} has no row");
    }
    for fault in text_catalogue() {
        for sentence in [fault.cause, fault.remedy] {
            assert!(sentence.ends_with(['.', ')']), "{}: {sentence}", fault.name);
        }
    }
}
