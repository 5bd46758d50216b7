//! Recording a run: nothing of it changes, and what is recorded is what was computed.

use candor::{Device, Gguf, KvFormat, LoadOptions, Logits, Model, Observed, Observer, Role, Session, SessionOptions};
use candor_inspect::{
    Evidence, Graph, Key, Trace, Value, compare_where,
    file::TraceWriter,
    import::{ReadOptions, read},
    record::{Rows, Selection, SelectionError, Statistics, record, replay_into},
};
use candor_inspect::{Known, Origin};
use candor_testing::Tiny;

const PROMPT: [u32; 6] = [1, 270, 281, 262, 300, 35];
const STEPS: usize = 3;

fn model(device: Device) -> Model {
    let gguf = Gguf::from_bytes(Tiny::default().bytes().into()).unwrap();
    Model::from_gguf(gguf, &LoadOptions::default().device(device).threads(1)).unwrap()
}

/// A session whose prompt takes three passes.
fn session(model: &Model) -> Session {
    model.session(&SessionOptions::default().context(16).ubatch(2)).unwrap()
}

fn origin(session: &Session) -> Origin {
    Origin { tokens: Some(session.tokens().to_vec()), prompt_tokens: Some(PROMPT.len()), ..Origin::default() }
}

/// Records to a file and reads it back.
fn recorded(session: &mut Session, selection: &Selection) -> Trace {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    let mut writer = TraceWriter::create(&path).unwrap();
    record(session, &PROMPT, STEPS, selection, &mut [&mut writer]).unwrap();
    writer.finish(&origin(session)).unwrap();
    read(&path, &ReadOptions::default()).unwrap()
}

#[test]
fn recording_changes_no_bit() {
    for device in [Device::Cpu, Device::Reference] {
        let model = model(device);
        let mut plain = session(&model);
        let mut logits = Vec::new();
        plain.evaluate(&PROMPT).unwrap();
        for _ in 0..STEPS {
            let best = (1..plain.logits().len())
                .fold(0, |best, i| if plain.logits()[i] > plain.logits()[best] { i } else { best });
            logits.push(plain.logits().to_vec());
            plain.decode(best as u32).unwrap();
        }
        logits.push(plain.logits().to_vec());
        for rows in [Rows::All, Rows::Last] {
            let mut watched = session(&model);
            let trace = recorded(&mut watched, &Selection { rows, ..Selection::default() });
            assert_eq!(watched.tokens(), plain.tokens(), "{device:?} {rows:?}");
            let output = &trace.values[&Key::new("result_output", None)];
            let Known::All(values) = &output.known else { panic!("{output:?}") };
            let last = values.len() - logits.len() * output.width;
            assert!(values[last..].iter().map(|x| x.to_bits()).eq(logits.iter().flatten().map(|x| x.to_bits())));
        }
    }
}

/// Every value, row by row, as an observer sees it.
#[derive(Default)]
struct Seen(std::collections::BTreeMap<Key, Vec<f32>>);

impl Observer for Seen {
    fn value(&mut self, observed: &Observed<'_>) {
        self.0.entry(Key::new(observed.name, observed.layer)).or_default().extend_from_slice(observed.values);
    }
}

#[test]
fn the_file_holds_every_row_of_every_value() {
    let model = model(Device::Reference);
    let (mut ours, mut theirs) = (session(&model), session(&model));
    let trace = recorded(&mut ours, &Selection::default());
    let mut seen = Seen::default();
    theirs.observe(&PROMPT, Role::Prefill, Logits::All, &mut seen).unwrap();
    for &token in &ours.tokens()[PROMPT.len()..] {
        theirs.observe(&[token], Role::Decode, Logits::All, &mut seen).unwrap();
    }
    assert_eq!(trace.values.keys().collect::<Vec<_>>(), seen.0.keys().collect::<Vec<_>>());
    for (key, expected) in &seen.0 {
        let rows = PROMPT.len() + STEPS;
        let evidence = Evidence::all(expected.len() / rows, expected.clone());
        assert_eq!(trace.values[key], evidence, "{key}");
    }
}

#[test]
fn last_rows_begin_with_the_prompts_last() {
    let model = model(Device::Reference);
    let all = recorded(&mut session(&model), &Selection::default());
    let last = recorded(&mut session(&model), &Selection { rows: Rows::Last, ..Selection::default() });
    let rows: Vec<usize> = (PROMPT.len() - 1..PROMPT.len() + STEPS).collect();
    assert_eq!(last.values.len(), all.values.len());
    for (key, evidence) in &last.values {
        assert_eq!(evidence.rows.as_ref(), Some(&rows), "{key}");
        let (Known::All(some), Known::All(every)) = (&evidence.known, &all.values[key].known) else { panic!("{key}") };
        assert_eq!(some[..], every[every.len() - some.len()..], "{key}");
    }
    // The same of a trace in memory.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    let mut writer = TraceWriter::create(&path).unwrap();
    replay_into(&all, &Selection { rows: Rows::Last, ..Selection::default() }, &mut [&mut writer]).unwrap();
    writer.finish(&all.origin).unwrap();
    assert_eq!(read(&path, &ReadOptions::default()).unwrap(), last);
}

#[test]
fn only_what_is_selected_is_recorded() {
    let model = model(Device::Cpu);
    let selection = Selection { layers: vec![1..=1], names: vec!["?cur".into(), "inp_embd".into()], rows: Rows::All };
    let mut statistics = Statistics::default();
    let mut session = session(&model);
    record(&mut session, &PROMPT, STEPS, &selection, &mut [&mut statistics]).unwrap();
    let names: Vec<String> = statistics.summaries().map(|summary| summary.key.to_string()).collect();
    assert_eq!(names, ["inp_embd", "Qcur-1", "Kcur-1", "Vcur-1"]);
    let first = statistics.summaries().next().unwrap();
    assert_eq!((first.rows, first.width, first.nan), (PROMPT.len() + STEPS, 32, 0));
    assert!(first.rms > 0.0 && first.min < first.max);
}

#[test]
fn what_the_model_has_not_is_refused() {
    let graph = Graph::new(&Gguf::from_bytes(Tiny::default().bytes().into()).unwrap()).unwrap();
    let check = |layers: Vec<std::ops::RangeInclusive<usize>>, names: &[&str]| {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Selection { layers, names, rows: Rows::All }.check(&graph)
    };
    assert_eq!(check(vec![0..=1], &["Qcur-1", "*norm"]), Ok(()));
    assert_eq!(check(vec![0..=0, 1..=2], &[]), Err(SelectionError::Layer { got: 2, last: 1 }));
    let Err(SelectionError::Name { pattern, known }) = check(Vec::new(), &["Qcur", "qcur"]) else { panic!() };
    assert_eq!(pattern, "qcur");
    assert!(known.starts_with(&["inp_embd".to_owned(), "attn_norm".to_owned()]), "{known:?}");
}

/// What other programs have, of values that no backend of ours has by itself: llama.cpp without flash attention, and
/// Transformers in f64.
#[test]
fn attention_and_what_is_within_fusions_are_as_others_have_them() {
    /// Measured: up to 7e-7.
    const BOUND: f64 = 2e-6;
    let names = ["kq", "kq_soft_max", "attn_out", "ffn_out"];
    let goldens = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goldens"));
    for (model, engine, device) in [
        ("llama-f32", "llamacpp", Device::Reference),
        ("llama-f32", "llamacpp", Device::Cpu),
        ("llama-f32", "transformers", Device::Reference),
        ("qwen3-f32", "llamacpp", Device::Reference),
        ("qwen3-f32", "transformers", Device::Cpu),
    ] {
        let golden = read(&goldens.join(format!("{model}.{engine}.safetensors")), &ReadOptions::default()).unwrap();
        let tokens = golden.origin.tokens.as_ref().unwrap();
        let prompt = golden.origin.prompt_tokens.unwrap();
        let gguf = Gguf::open(goldens.join(format!("{model}.gguf"))).unwrap();
        let graph = Graph::new(&gguf).unwrap();
        let loaded = Model::from_gguf(gguf, &LoadOptions::default().device(device).threads(1)).unwrap();
        let options = SessionOptions::default().context(tokens.len()).keys(KvFormat::F32).values(KvFormat::F32);
        let mut session = loaded.session(&options).unwrap();
        let selection = Selection { names: names.map(str::to_owned).to_vec(), ..Selection::default() };
        selection.check(&graph).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.safetensors");
        let mut writer = TraceWriter::create(&path).unwrap();
        record(&mut session, &tokens[..prompt], tokens.len() - prompt, &selection, &mut [&mut writer]).unwrap();
        assert_eq!(session.tokens(), tokens, "{model} {engine}");
        writer.finish(&Origin { tokens: Some(tokens.clone()), ..Origin::default() }).unwrap();
        let trace = read(&path, &ReadOptions::default()).unwrap();
        assert_eq!(trace.values.len(), 2 * names.len(), "{:?}", trace.values.keys());
        for (key, ours) in &trace.values {
            let (Known::All(values), theirs) = (&ours.known, &golden.values[key]) else { panic!("{key}") };
            let expected = Value { rows: tokens.len(), width: ours.width, data: values.clone() };
            let positions = tokens.len();
            // Scores of what a token does not see are whatever they are.
            let seen = |row: usize, col: usize| key.name != "kq" || col % positions <= row;
            let residual = compare_where(&expected, theirs, seen).unwrap_or_else(|| panic!("{model} {engine} {key}"));
            assert!(residual.relative < BOUND, "{model} {engine} {device:?} {key}: {residual:?}");
            if key.name == "kq" {
                let unseen = |(i, _): &(usize, &f32)| i % ours.width % positions > i / ours.width;
                assert!(values.iter().enumerate().filter(unseen).all(|(_, score)| *score == 0.0), "{key}");
            }
        }
    }
}
