//! Calls of tools by the parts that chat templates write them in.

use candor::{CallPart, ChatTemplate};
use candor_grammar::{Error, Grammar, Part};
use serde_json::{Value, json};

use crate::reader::{allows, folder};

fn parts(parts: &[CallPart], name: &str, schema: &Value) -> Vec<Part> {
    let part = |part: &CallPart| match part {
        CallPart::Text(text) => Part::Text(text.clone()),
        CallPart::Name => Part::Text(name.to_owned()),
        CallPart::Arguments => Part::Json(schema.clone()),
        CallPart::Id(length) => Part::Pattern(format!("[a-zA-Z0-9]{{{length}}}")),
    };
    parts.iter().map(part).collect()
}

fn text(parts: &[CallPart], name: &str, arguments: &str) -> String {
    let part = |part: &CallPart| match part {
        CallPart::Text(text) => text.clone(),
        CallPart::Name => name.to_owned(),
        CallPart::Arguments => arguments.to_owned(),
        CallPart::Id(length) => "aZ9".chars().cycle().take(*length).collect(),
    };
    parts.iter().map(part).collect()
}

#[test]
fn calls_of_every_template_are_bound() {
    let Some(templates) = folder("templates") else { return };
    let city = json!({ "type": "object", "properties": { "city": { "enum": ["Bern", "}"] } }, "required": ["city"], "additionalProperties": false });
    let any = json!({ "type": "object" });
    let mut known = 0;
    for entry in std::fs::read_dir(templates).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "jinja") {
            continue;
        }
        let format = ChatTemplate::new(&std::fs::read_to_string(&path).unwrap()).unwrap().answer_format();
        let Some(call) = format.call_parts() else { continue };
        let grammar = Grammar::one_of(&[parts(call, "get", &city), parts(call, "get_more", &any)]).unwrap();
        for (name, arguments, may) in [
            ("get", "{\"city\": \"Bern\"}", true),
            ("get", "{\"city\":\"}\"}", true),
            ("get", "{\"city\": \"Rome\"}", false),
            ("get", "{}", false),
            ("get_more", "{\"city\": [\"Rome\", {}]}", true),
            ("get_most", "{}", false),
        ] {
            let text = text(call, name, arguments);
            assert_eq!(allows(&grammar, &text), may, "{}: {text}", path.display());
            assert!(!allows(&grammar, &format!("{text}x")), "{}: {text}", path.display());
        }
        known += 1;
    }
    assert!(known >= 25, "{known} templates");
}

#[test]
fn parts_follow_each_other() {
    let text = |text: &str| Part::Text(text.to_owned());
    let pattern = |pattern: &str| Part::Pattern(pattern.to_owned());
    let grammar = Grammar::one_of(&[
        vec![text("a \"\\\n/é"), pattern("[0-9]/x{2}")],
        vec![text("b"), Part::Json(json!({ "type": "integer" })), text(";")],
    ]);
    let grammar = grammar.unwrap();
    for (said, may) in
        [("a \"\\\n/é7/xx", true), ("a \"\\\n/é7/x", false), ("b12;", true), ("b;", false), ("b1", false)]
    {
        assert_eq!(allows(&grammar, said), may, "{said:?}");
    }
    let wrong = Grammar::one_of(&[vec![Part::Json(json!({ "not": {} }))]]);
    assert!(matches!(wrong, Err(Error::Schema(_))), "{wrong:?}");
    let wrong = Grammar::one_of(&[vec![pattern("(")]]);
    assert!(matches!(wrong, Err(Error::Lark(_))), "{wrong:?}");
}
