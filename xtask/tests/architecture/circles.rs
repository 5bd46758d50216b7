//! Files of a crate that import each other, directly or through others. `use` declarations and paths count, what is
//! compiled for tests alone does not. A name that a module only hands on is looked for where it is defined.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

use crate::root;

/// The crates without circles.
const CRATES: &[&str] = &["cli", "cpu", "gpu", "inspect", "models", "tokenizer"];

/// A path of modules, from the crate's root on.
type Place = Vec<String>;

/// A file's module, and the inline modules in it.
#[derive(Default)]
struct Module {
    children: BTreeSet<String>,
    /// What it defines.
    items: BTreeSet<String>,
    /// Names that stand for something else, and what that is.
    names: BTreeMap<String, Place>,
    /// Modules whose names it hands on all together.
    globs: Vec<Place>,
    /// What it mentions.
    mentions: Vec<Place>,
}

/// The modules of a crate.
struct Modules(BTreeMap<Place, Module>);

/// Reads one file.
struct Reader<'a> {
    place: Place,
    module: &'a mut Module,
    files: Vec<(String, PathBuf)>,
    folder: &'a Path,
}

fn for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        list.path.is_ident("cfg") && list.tokens.to_string() == "test"
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn defined(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref()?.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}

impl Reader<'_> {
    /// The place that a path begins at, by its first name.
    fn begin(&self, first: &str) -> Option<Place> {
        match first {
            "crate" | "$crate" => Some(Vec::new()),
            "self" => Some(self.place.clone()),
            "super" => Some(self.place[..self.place.len().saturating_sub(1)].to_vec()),
            name if self.module.children.contains(name) => Some([self.place.as_slice(), &[name.into()]].concat()),
            name => self.module.names.get(name).cloned(),
        }
    }

    fn mention(&mut self, names: &[String]) {
        // The `crate` of `pub(crate)` is no path.
        let Some(mut place) = names.first().filter(|_| names != ["crate"]).and_then(|first| self.begin(first)) else {
            return;
        };
        for name in &names[1..] {
            if name == "super" {
                place.pop();
            } else {
                place.push(name.clone());
            }
        }
        self.module.mentions.push(place);
    }

    fn imports(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            UseTree::Path(path) => self.imports(&with(path.ident.to_string()), &path.tree),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.imports(before, tree)),
            UseTree::Name(name) => self.import(name.ident.to_string(), with(name.ident.to_string())),
            UseTree::Rename(rename) => self.import(rename.rename.to_string(), with(rename.ident.to_string())),
            UseTree::Glob(_) => {
                if let Some(place) = self.absolute(before) {
                    self.module.mentions.push(place.clone());
                    self.module.globs.push(place);
                }
            }
        }
    }

    fn import(&mut self, name: String, path: Vec<String>) {
        // `use a::{self}` names `a`.
        let ended = path.len() > 1 && path.last().is_some_and(|last| last == "self");
        let path = if ended { path[..path.len() - 1].to_vec() } else { path };
        let name = if ended { path[path.len() - 1].clone() } else { name };
        if let Some(place) = self.absolute(&path) {
            self.module.mentions.push(place.clone());
            self.module.names.insert(name, place);
        }
    }

    fn absolute(&self, path: &[String]) -> Option<Place> {
        let mut place = self.begin(path.first()?)?;
        for name in &path[1..] {
            if name == "super" {
                place.pop();
            } else {
                place.push(name.clone());
            }
        }
        Some(place)
    }

    /// Paths within a macro, of which only the tokens are known.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons): (Vec<String>, usize) = (Vec::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.mention(&std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                other => {
                    self.mention(&std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.mention(&path);
    }
}

/// Collects the modules and the names of a file before its paths are read.
fn declare(reader: &mut Reader<'_>, items: &[Item]) {
    for item in items.iter().filter(|item| !for_tests(attributes(item))) {
        reader.module.items.extend(defined(item));
        let Item::Mod(module) = item else { continue };
        let name = module.ident.to_string();
        match &module.content {
            // What is inline belongs to the file.
            Some((_, items)) => declare(reader, items),
            None => {
                reader.module.children.insert(name.clone());
                let beside = [format!("{name}.rs"), format!("{name}/mod.rs")].map(|path| reader.folder.join(path));
                let file = beside.into_iter().find(|path| path.exists());
                reader.files.extend(file.map(|path| (name, path)));
            }
        }
    }
    for item in items {
        if let Item::Use(item) = item
            && !for_tests(&item.attrs)
        {
            reader.imports(&[], &item.tree);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !for_tests(attributes(item)) && !matches!(item, Item::Use(_)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.imports(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if names.len() > 1 {
            self.mention(&names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }
}

impl Modules {
    fn of(src: &Path) -> Modules {
        let root = ["lib.rs", "main.rs"].map(|name| src.join(name)).into_iter().find(|path| path.exists());
        let mut modules = BTreeMap::new();
        let mut files = vec![(Place::new(), root.expect("a crate has a root"))];
        while let Some((place, path)) = files.pop() {
            let text = fs::read_to_string(&path).expect("text");
            let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let owns_folder = place.is_empty() || path.ends_with("mod.rs");
            let folder = path.parent().expect("a folder");
            let folder = if owns_folder { folder.to_owned() } else { path.with_extension("") };
            let mut module = Module::default();
            let mut reader = Reader { place: place.clone(), module: &mut module, files: Vec::new(), folder: &folder };
            declare(&mut reader, &file.items);
            reader.visit_file(&file);
            let below = std::mem::take(&mut reader.files);
            files.extend(below.into_iter().map(|(name, path)| ([place.as_slice(), &[name]].concat(), path)));
            modules.insert(place, module);
        }
        Modules(modules)
    }

    /// The module that defines what a path names.
    fn owner(&self, path: &[String], depth: usize) -> Option<Place> {
        let mut place = Place::new();
        for (n, name) in path.iter().enumerate() {
            let module = self.0.get(&place)?;
            if module.children.contains(name) {
                place.push(name.clone());
                continue;
            }
            if module.items.contains(name) || depth == 0 {
                return Some(place);
            }
            if let Some(other) = module.names.get(name) {
                return self.owner(&[other.as_slice(), &path[n + 1..]].concat(), depth - 1);
            }
            let found = module.globs.iter().find_map(|glob| {
                let owner = self.owner(&[glob.as_slice(), &path[n..]].concat(), depth - 1)?;
                self.0.get(&owner)?.items.contains(name).then_some(owner)
            });
            return Some(found.unwrap_or(place));
        }
        Some(place)
    }

    /// Whom each file imports.
    fn arrows(&self) -> BTreeMap<Place, BTreeSet<Place>> {
        let arrows = |(place, module): (&Place, &Module)| {
            let owners = module.mentions.iter().filter_map(|path| self.owner(path, 8));
            (place.clone(), owners.filter(|owner| owner != place).collect())
        };
        self.0.iter().map(arrows).collect()
    }

    /// The groups of files that all reach each other.
    fn circles(&self) -> Vec<String> {
        let arrows = self.arrows();
        let mut reach: BTreeMap<&Place, BTreeSet<&Place>> = BTreeMap::new();
        for from in arrows.keys() {
            let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
            while let Some(place) = left.pop() {
                left.extend(arrows[place].iter().filter(|to| seen.insert(*to)));
            }
            reach.insert(from, seen);
        }
        let mut circles = BTreeSet::new();
        for (place, seen) in reach.iter().filter(|(place, seen)| seen.contains(*place)) {
            let group: Vec<&Place> = seen.iter().copied().filter(|other| reach[*other].contains(*place)).collect();
            let name = |place: &Place| if place.is_empty() { "the root".into() } else { place.join("::") };
            let line = |from: &&Place| {
                let to: Vec<String> = arrows[*from].iter().filter(|to| group.contains(to)).map(name).collect();
                format!("{} -> {}", name(from), to.join(", "))
            };
            circles.insert(group.iter().map(line).collect::<Vec<_>>().join("\n  "));
        }
        circles.into_iter().collect()
    }
}

#[test]
fn no_files_import_each_other() {
    let mut found = String::new();
    for name in CRATES {
        for circle in Modules::of(&root().join("crates").join(name).join("src")).circles() {
            found += &format!("{name}:\n  {circle}\n");
        }
    }
    assert!(found.is_empty(), "files that import each other:\n{found}");
}

/// The test itself finds circles: of a parent and its child, through a name handed on, and within macros.
#[test]
fn circles_are_found() {
    let folder = std::env::temp_dir().join(format!("candor-circles-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let file = |name: &str, text: &str| fs::write(folder.join(name), text).expect("a file");
    file("lib.rs", "mod a; mod b; mod c; mod d; pub use a::A;");
    file("a.rs", "use crate::b::B; pub struct A(B);");
    file("b.rs", "use crate::A; pub struct B(Option<Box<A>>);");
    file("c.rs", "macro_rules! m { () => { crate::d::D } } pub struct C;");
    file("d.rs", "pub struct D; #[cfg(test)] mod tests { use crate::c::C; }");
    assert_eq!(Modules::of(&folder).circles(), ["a -> b\n  b -> a"]);
    file("d.rs", "pub struct D(pub crate::c::C);");
    assert_eq!(Modules::of(&folder).circles(), ["a -> b\n  b -> a", "c -> d\n  d -> c"]);
    fs::remove_dir_all(&folder).expect("removed");
}
