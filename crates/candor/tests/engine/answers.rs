//! Models whose encoder reads a text, which they answer: sessions, sequences, embeddings, and what makes no sense for them.

use candor::{
    ContextShift, EmbedOptions, Error, GenerateOptions, Gguf, KvFormat, Model, Pooling, Sampling, Scaling, Session,
    SessionOptions, StopReason,
    speculate::{PromptLookup, Speculation},
};
use candor_testing::{Tiny, TinyT5, argmax, encoder_of, fixtures, ids, json, nmse, npy};

fn model(gguf: Gguf) -> Model {
    Model::from_gguf(gguf, &Default::default()).unwrap()
}

fn tiny() -> Model {
    model(Gguf::from_bytes(TinyT5::default().bytes().into()).unwrap())
}

fn exact() -> SessionOptions {
    SessionOptions::default().keys(KvFormat::F32).values(KvFormat::F32)
}

fn greedy(max_tokens: usize) -> GenerateOptions {
    let sampling = Sampling::default().temperature(0.0);
    GenerateOptions::default().sampling(sampling).max_tokens(max_tokens).ignore_eos(true)
}

/// The likeliest tokens of an answer, without what ends it.
fn likeliest(session: &mut Session, count: usize) -> Vec<u32> {
    let mut token = TinyT5::START;
    let mut tokens = Vec::new();
    for _ in 0..count {
        session.evaluate(&[token]).unwrap();
        let mut logits = session.logits().to_vec();
        logits[2] = f32::NEG_INFINITY;
        token = argmax(&logits);
        tokens.push(token);
    }
    tokens
}

#[test]
fn a_session_gives_the_logits_of_transformers() {
    let Some(fixtures) = fixtures() else { return };
    for name in ["t5-gated", "t5-relu", "umt5"] {
        let folder = fixtures.join("arch").join(name);
        let record = json(&folder.join("tokens.json"));
        let mut session = model(Gguf::open(folder.join("model.gguf")).unwrap()).session(&exact()).unwrap();
        session.read_text(&ids(&record["encoder_tokens"])).unwrap();
        let tokens = ids(&record["tokens"]);
        let expected = npy(&folder.join("logits_hf.npy"));
        let vocab = session.model().config().vocab;
        session
            .evaluate_each(&tokens, |row, logits| {
                let error = nmse(logits, &expected[row * vocab..][..vocab]);
                assert!(error < 1e-6, "{name}, row {row}: {error:e}");
            })
            .unwrap();
        let margins: Vec<f64> = serde_json::from_value(record["greedy_margin_hf"].clone()).unwrap();
        for (next, margin) in ids(&record["greedy_hf"]).into_iter().zip(margins) {
            if margin < 1e-3 {
                break;
            }
            assert_eq!(argmax(session.logits()), next, "{name}");
            session.evaluate(&[next]).unwrap();
        }
    }
}

#[test]
fn an_answer_begins_with_the_files_token_and_ends_where_the_model_says() {
    let model = tiny();
    let text = model.encode_prompt("a b c");
    assert_eq!(text.last(), Some(&2), "EOS ends a text");
    assert_eq!(model.encode_prompt("a</s>").iter().filter(|&&id| id == 2).count(), 1);
    let mut session = model.session(&exact()).unwrap();
    session.read_text(&text).unwrap();
    let expected = likeliest(&mut session, 8);

    let mut generation = session.generate(&text, greedy(8)).unwrap();
    let tokens: Vec<u32> = generation.by_ref().filter_map(|piece| piece.unwrap().token).collect();
    assert_eq!((tokens, generation.stop_reason()), (expected.clone(), Some(StopReason::MaxTokens)));
    assert_eq!(generation.timings().prompt_tokens, 1, "the text was read before");
    assert_eq!(session.tokens()[0], TinyT5::START);
    assert_eq!(session.text(), text);

    // Another text has another answer, and costs its tokens.
    let other = model.encode_prompt("z y x w v");
    let generation = session.generate(&other, greedy(8)).unwrap();
    assert_eq!(generation.timings().prompt_tokens, other.len() + 1);
    let tokens: Vec<u32> = generation.filter_map(|piece| piece.unwrap().token).collect();
    assert_ne!(tokens, expected);

    // The model ends its answer where EOS is the likeliest token.
    let bias = vec![(2, 1e4)];
    let sampling = Sampling::default().temperature(0.0).logit_bias(bias);
    let mut generation = session.generate(&text, GenerateOptions::default().sampling(sampling)).unwrap();
    assert_eq!(generation.by_ref().count(), 0);
    assert_eq!(generation.stop_reason(), Some(StopReason::EndOfText));
}

#[test]
fn penalties_are_of_the_answer_alone() {
    let model = tiny();
    let text = model.encode_prompt("a b c");
    let mut session = model.session(&exact()).unwrap();
    let first = |session: &mut Session, bias: Vec<(u32, f32)>| {
        let sampling = Sampling::default().repeat_penalty(1e6).temperature(0.0).logit_bias(bias);
        let options = GenerateOptions::default().sampling(sampling).max_tokens(1);
        session.generate(&text, options).unwrap().next().unwrap().unwrap().token
    };
    // A token of the text, pushed to the front, is not seen as repeated.
    assert_eq!(first(&mut session, vec![(text[0], 100.0)]), Some(text[0]));
}

#[test]
fn sequences_answer_texts_of_their_own() {
    let model = tiny();
    let texts = ["a b c d e f", "q"].map(|text| model.encode_prompt(text));
    let mut sequences = model.sequences(2, &exact()).unwrap();
    let mut alone = texts.clone().map(|text| {
        let mut session = model.session(&exact()).unwrap();
        session.read_text(&text).unwrap();
        session
    });
    for (sequence, text) in texts.iter().enumerate().rev() {
        assert!(matches!(sequences.advance(&[0, 0]), Err(Error::Answers { .. })));
        sequences.read_text(sequence, text).unwrap();
    }
    let vocab = model.config().vocab;
    for token in [[0, 0], [270, 280], [281, 262]] {
        sequences.advance(&token).unwrap();
        for (sequence, session) in alone.iter_mut().enumerate() {
            session.evaluate(&[token[sequence]]).unwrap();
            let error = nmse(&sequences.logits()[sequence * vocab..][..vocab], session.logits());
            assert!(error < 1e-10, "{error:e}");
        }
    }
    assert!(nmse(alone[0].logits(), alone[1].logits()) > 1e-3);
}

#[test]
fn what_goes_without_a_text_is_refused_by_name() {
    let model = tiny();
    let message = |result: Result<(), Error>| result.unwrap_err().to_string();
    let mut session = model.session(&exact()).unwrap();
    let unread = "the model (t5) answers a text that it has read: it continues none";
    assert_eq!(message(session.evaluate(&[0])), unread);
    assert_eq!(message(session.evaluate_each(&[0], |_, _| ())), unread);
    let goes = |what: &str| format!("{what}: the model (t5) answers a text that it has read, which goes without");
    let speculation = Speculation::new(PromptLookup::default());
    assert_eq!(message(session.speculate(Some(speculation))), goes("speculative decoding"));
    assert_eq!(message(session.save(&mut Vec::new())), goes("a saved session"));
    assert_eq!(message(session.load(&[]).map(drop)), goes("a saved session"));
    let options = GenerateOptions::default().context_shift(ContextShift::default());
    assert_eq!(message(session.generate(&[5, 2], options).map(drop)), goes("sliding over a full context"));
    assert_eq!(message(session.read_text(&[])), Error::EmptyPrompt.to_string());
    assert_eq!(message(session.read_text(&[5; 65])), "the prompt has 65 tokens, the context holds 64");
    assert_eq!(message(session.read_text(&[9999])), "token 9999 is outside of the vocabulary of 312");

    let llama = self::model(Gguf::from_bytes(Tiny::default().bytes().into()).unwrap());
    let mut session = llama.session(&exact()).unwrap();
    let none = "the model (llama) has no encoder that reads a text before it is answered";
    assert_eq!(message(session.read_text(&[5, 2])), none);
    assert_eq!(message(llama.sequences(1, &exact()).unwrap().read_text(0, &[5, 2])), none);
}

#[test]
fn an_encoder_gives_vectors_alone_or_with_its_decoder() {
    let Some(fixtures) = fixtures() else { return };
    for name in ["t5-gated", "t5-relu", "umt5"] {
        let folder = fixtures.join("arch").join(name);
        let gguf = Gguf::open(folder.join("model.gguf")).unwrap();
        let text = ids(&json(&folder.join("tokens.json"))["encoder_tokens"]);
        let expected = npy(&folder.join("encoder_hf.npy"));
        for model in [model(gguf.clone()), model(encoder_of(&gguf))] {
            let error = model.embedder(&EmbedOptions::default()).err().expect("the file says nothing").to_string();
            assert!(error.contains("pooling_type is missing"), "{error}");
            let whole = EmbedOptions::default().pooling(Pooling::None).scaling(Scaling::None);
            let mut embedder = model.embedder(&whole).unwrap();
            // Shorter texts beside it change nothing.
            let texts = [text[..7].to_vec(), text.clone(), text[3..].to_vec()];
            let vectors = embedder.embed(&texts, |_| ()).unwrap();
            let error = nmse(&vectors[1], &expected);
            assert!(error < 1e-6, "{name}: {error:e}");
            let alone = model.embedder(&whole).unwrap().embed(&texts[..1], |_| ()).unwrap();
            assert!(nmse(&vectors[0], &alone[0]) < 1e-10, "{name}");
        }
    }
    let encoder = model(encoder_of(&Gguf::from_bytes(TinyT5::default().bytes().into()).unwrap()));
    let error = encoder.session(&exact()).err().expect("it answers nothing").to_string();
    assert_eq!(error, "the model (t5encoder) is an encoder: it makes vectors of texts and continues none");
}

/// A text is seen whole, and by every row: its last token as well as its first.
#[test]
fn every_token_of_a_text_counts() {
    let model = tiny();
    let mut session = model.session(&exact()).unwrap();
    let mut logits = |text: &[u32]| {
        session.read_text(text).unwrap();
        session.evaluate(&[0, 270, 280]).unwrap();
        session.logits().to_vec()
    };
    let text: Vec<u32> = (260..300).chain([2]).collect();
    let whole = logits(&text);
    for at in [0, 20, text.len() - 1] {
        let mut other = text.clone();
        other[at] = 305;
        assert!(nmse(&logits(&other), &whole) > 1e-6, "token {at}");
    }
    assert_eq!(logits(&text), whole);
}
