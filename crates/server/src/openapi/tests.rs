//! The description is of what is served: the router's paths, and the fields that the handlers ask for.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Method, Request, StatusCode, header},
};
use candor::{ChatTemplate, Gguf, LoadOptions, Model, Pooling, Scaling};
use candor_testing::Tiny;
use serde_json::Value;
use tower::ServiceExt;

use super::{POSTS, Post, description};
use crate::{
    app::{App, Does, Served, runtime},
    config::Config,
    fields::ASKED,
    routes::routes,
    template::Template,
};

/// The router of a model that understands requests and answers none.
fn router(does: Does, several: bool) -> Router {
    let load = LoadOptions::default().threads(1);
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../candor/tests/goldens/cross-encoder.gguf");
    let model = match does {
        Does::Answers => {
            let mut writer = Tiny::default().writer();
            // For `/infill`.
            for (name, id) in [("pre", 290_u32), ("suf", 291), ("mid", 292)] {
                writer.insert(format!("tokenizer.ggml.fim_{name}_token_id"), id);
            }
            Model::from_gguf(Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap(), &load)
        }
        Does::Vectors { .. } => Model::open(golden, &load),
    };
    let model = model.unwrap();
    let app = App::new(Config::default(), vec![("model".to_owned(), None)], several, Box::new(|_| Ok(())));
    let template = Template::of(&model, ChatTemplate::named("chatml").map(Arc::new)).unwrap();
    let (mut served, _) = Served::new(model, &app.models.names()[0], does, &app.config, several);
    (served.context, served.template) = (512, template);
    app.models.loaded(0, Ok(served));
    routes(Arc::new(app))
}

fn vectors(pooling: Pooling) -> Router {
    router(Does::Vectors { pooling, width: 24, scaling: Scaling::None }, false)
}

/// The status, and what is said.
fn ask(router: &Router, method: Method, path: &str, body: &str) -> (StatusCode, String) {
    runtime().unwrap().block_on(async {
        let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        let response = router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    })
}

#[test]
fn the_paths_are_the_routers() {
    let router = router(Does::Answers, false);
    // A router shows them to nobody but a person.
    let shown = format!("{router:?}");
    let is_path = |text: &&str| text.starts_with("/") && !["/", "/{*__private__axum_fallback}"].contains(text);
    let served: BTreeSet<&str> = shown.split('"').filter(is_path).collect();
    let description = description();
    let described = description["paths"].as_object().unwrap();
    assert!(served.len() > 30);
    assert_eq!(served, described.keys().map(String::as_str).collect());
    for (path, operations) in described {
        for (method, name) in [(Method::GET, "get"), (Method::POST, "post"), (Method::DELETE, "delete")] {
            let (status, _) = ask(&router, method, path, "");
            let is_served = status != StatusCode::METHOD_NOT_ALLOWED;
            assert_eq!(is_served, operations.get(name).is_some(), "{name} {path}");
        }
    }
}

/// The names of a body's fields, and of those of its field `options`.
fn names(schema: &Value, all: &mut BTreeSet<String>) {
    for one in schema["anyOf"].as_array().into_iter().flatten() {
        names(one, all);
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        all.insert(name.clone());
        if name == "options" {
            names(schema, all);
        }
    }
}

#[test]
fn the_fields_are_those_that_are_asked_for() {
    let several = router(Does::Answers, true);
    let (answers, vectors, scores) = (router(Does::Answers, false), vectors(Pooling::Mean), vectors(Pooling::Rank));
    let description = description();
    for Post { paths, body, examples, .. } in POSTS {
        let router = match *body {
            "Embeddings" | "Rows" | "OllamaEmbed" | "OllamaEmbeddings" => &vectors,
            "Rerank" => &scores,
            "ModelName" => &several,
            _ => &answers,
        };
        let mut described = BTreeSet::new();
        names(&description["components"]["schemas"][body], &mut described);
        for path in *paths {
            ASKED.lock().unwrap().clear();
            for example in *examples {
                let (status, said) = ask(router, Method::POST, path, example);
                assert!(status == StatusCode::OK || said.contains("the model has failed"), "{path}: {said}");
            }
            assert_eq!(*ASKED.lock().unwrap(), described, "{path}");
        }
    }
}

/// Every schema that is named is there, and every one that is there is named.
#[test]
fn the_names_are_whole() {
    let description = description();
    let schemas = description["components"]["schemas"].as_object().unwrap();
    let text = description.to_string();
    let named: BTreeSet<&str> =
        text.split("\"#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(named, schemas.keys().map(String::as_str).collect());
    let ids = description["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values());
    let ids: Vec<&str> = ids.map(|operation| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
}
