//! What the wirings in `models` may not do: name an architecture outside its row, or hold a mechanism that only some models
//! have in a place of its own instead of in the list of `extra.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::root;

/// The crates that a forward pass runs through.
const CRATES: &[&str] = &["candor", "cpu", "gpu", "kernels", "models", "ops", "verify"];

/// The table.
const TABLE: &str = "models/src/arch/registry.rs";

/// What may be there or not, in the structs that all models share: the ends of a part, an encoder, which is a stack of layers,
/// and numbers.
const OPTIONS: &[(&str, &str, &[&str])] = &[
    ("scratch.rs", "Scratch", &["encoder"]),
    ("config.rs", "Config", &["start", "encoder"]),
    ("decoder.rs", "Decoder", &["token_embd", "embedding", "encoder", "head"]),
    (
        "common.rs",
        "Common",
        &["window", "limit", "final_cap", "score_cap", "alibi", "temperature", "clamp", "halved_every", "rounds_yarn"],
    ),
];

/// The names of the table.
struct Table(Vec<String>);

impl<'ast> Visit<'ast> for Table {
    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        let name = matches!(&field.member, syn::Member::Named(member) if member == "name");
        if let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &field.expr
            && name
        {
            self.0.push(text.value());
        }
    }
}

/// Finds these names among strings, of documentation apart.
struct Names<'a> {
    table: &'a Table,
    found: Vec<String>,
}

impl Names<'_> {
    fn look(&mut self, text: &str) {
        let named =
            |name: &String| text.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        // A program, not a key.
        if !text.starts_with("llama.cpp") && self.table.0.iter().any(named) {
            self.found.push(text.into());
        }
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => self.look(literal.to_string().trim_matches('"')),
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_item(&mut self, item: &'ast syn::Item) {
        let tests = matches!(item, syn::Item::Mod(module) if module.ident == "tests");
        if !tests {
            visit::visit_item(self, item);
        }
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.look(&text.value());
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
    }
}

fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
}

fn parsed(path: &Path) -> syn::File {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn architectures_are_named_in_their_rows_alone() {
    let crates = root().join("crates");
    let mut table = Table(Vec::new());
    table.visit_file(&parsed(&crates.join(TABLE)));
    assert!(table.0.len() > 80, "names of the table: {:?}", table.0);
    let mut found = Vec::new();
    for name in CRATES {
        let mut files = Vec::new();
        sources(&crates.join(name).join("src"), &mut files);
        for path in files.into_iter().filter(|path| !path.ends_with(TABLE)) {
            let mut names = Names { table: &table, found: Vec::new() };
            names.visit_file(&parsed(&path));
            found.extend(names.found.into_iter().map(|name| format!("{}: {name}", path.display())));
        }
    }
    assert!(found.is_empty(), "architectures outside their rows:\n{}", found.join("\n"));
}

#[test]
fn what_few_models_have_is_in_the_list_of_extras() {
    for (file, name, expected) in OPTIONS {
        let file = parsed(&root().join("crates/models/src").join(file));
        let structs = file.items.iter().filter_map(|item| match item {
            syn::Item::Struct(item) if item.ident == name => Some(item),
            _ => None,
        });
        let fields = structs.flat_map(|item| &item.fields).filter(|field| match &field.ty {
            syn::Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == "Option"),
            _ => false,
        });
        let options: Vec<String> = fields.filter_map(|field| Some(field.ident.as_ref()?.to_string())).collect();
        assert_eq!(options, *expected, "optional fields of {name}");
    }
}
