//! Which files of a crate import which others, and the circles among them.
//!
//! A file uses another one of its crate if it names something in it by a path: in a `use` line, an expression, a type, or
//! in a macro's arguments. Declaring a module does not count as using it. Uses in tests do not count.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use crate::rust;
use crate::tree::Tree;

/// A module's path from the root of its crate: empty for the root itself.
type Name = Vec<String>;

/// The files of a crate by the modules that they are.
pub(crate) fn modules(tree: &Tree, room: &str) -> BTreeMap<Name, String> {
    let mut found = BTreeMap::new();
    let mut todo: Vec<(Name, String)> = ["lib.rs", "main.rs"]
        .iter()
        .map(|root| (Vec::new(), format!("crates/{room}/src/{root}")))
        .collect();
    while let Some((name, path)) = todo.pop() {
        let Some(file) = tree.get(&path) else {
            continue;
        };
        for module in rust::modules(&file.text) {
            let below = [name.as_slice(), std::slice::from_ref(&module.name)].concat();
            todo.extend(
                module
                    .candidates(&path)
                    .into_iter()
                    .map(|path| (below.clone(), path)),
            );
        }
        found.insert(name, path);
    }
    found
}

/// The modules that the text of one uses, itself excluded.
pub(crate) fn used(text: &str, name: &Name, modules: &BTreeMap<Name, String>) -> BTreeSet<Name> {
    let syntax = syn::parse_file(text).expect("the compiler has accepted it");
    let mut uses = Uses {
        modules,
        inside: name.clone(),
        found: BTreeSet::new(),
    };
    uses.visit_file(&syntax);
    uses.found.remove(name);
    uses.found
}

struct Uses<'a> {
    modules: &'a BTreeMap<Name, String>,
    /// The module that is being read; one with a body belongs to the file of the one around it.
    inside: Name,
    found: BTreeSet<Name>,
}

impl Uses<'_> {
    /// Notes the module that a path leads into, if it is one of this crate.
    fn path(&mut self, path: &[String]) {
        let mut module = match path.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("self" | "super") => self.inside.clone(),
            Some(_) => {
                let first = [self.inside.as_slice(), &path[..1]].concat();
                if self.modules.contains_key(&first) {
                    self.deepest(self.inside.clone(), path);
                }
                return;
            }
            None => return,
        };
        let mut rest = path;
        while let Some((first, others)) = rest.split_first()
            && matches!(first.as_str(), "crate" | "self" | "super")
        {
            if first == "super" {
                module.pop();
            }
            rest = others;
        }
        self.deepest(module, rest);
    }

    fn deepest(&mut self, mut module: Name, rest: &[String]) {
        for part in rest {
            module.push(part.clone());
            if !self.modules.contains_key(&module) {
                module.pop();
                break;
            }
        }
        while !self.modules.contains_key(&module) && module.pop().is_some() {}
        self.found.insert(module);
    }

    fn use_tree(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.use_tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.path(&with(&name.ident)),
            syn::UseTree::Rename(name) => self.path(&with(&name.ident)),
            syn::UseTree::Glob(_) => self.path(before),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.use_tree(before, tree);
                }
            }
        }
    }
}

fn for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string() == "test")
    })
}

impl<'s> Visit<'s> for Uses<'_> {
    fn visit_item_mod(&mut self, item: &'s syn::ItemMod) {
        if item.content.is_none() || for_tests(&item.attrs) {
            return;
        }
        self.inside.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.inside.pop();
    }

    fn visit_item_use(&mut self, item: &'s syn::ItemUse) {
        if !for_tests(&item.attrs) {
            self.use_tree(&[], &item.tree);
        }
    }

    fn visit_item_fn(&mut self, item: &'s syn::ItemFn) {
        if !for_tests(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'s syn::ItemImpl) {
        if !for_tests(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'s syn::ImplItemFn) {
        if !for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    /// A visibility such as `pub(in path)` is no use.
    fn visit_visibility(&mut self, _: &'s syn::Visibility) {}

    fn visit_path(&mut self, path: &'s syn::Path) {
        let names: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        if names.len() > 1 {
            self.path(&names);
        }
        visit::visit_path(self, path);
    }

    /// A macro's arguments are tokens: their paths are found in their text, without documentation, whose links are no uses.
    fn visit_macro(&mut self, item: &'s syn::Macro) {
        let text = item.tokens.to_string().replace(" :: ", "::");
        let mut parts = text.split("[doc = ");
        let first = parts.next().unwrap_or_default();
        let behind = parts.filter_map(|part| Some(part.split_once("\"]")?.1));
        let text: String = [first].into_iter().chain(behind).collect();
        for word in text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
            let names: Vec<String> = word.split("::").map(str::to_owned).collect();
            if names.len() > 1 {
                self.path(&names);
            }
        }
        self.visit_path(&item.path);
    }
}

/// The circles: groups of files of which each uses, over others, each other one.
pub(crate) fn circles(uses: &BTreeMap<Name, BTreeSet<Name>>) -> Vec<BTreeSet<Name>> {
    let reach = |from: &Name| {
        let mut reached = BTreeSet::new();
        let mut todo: Vec<&Name> = uses[from].iter().collect();
        while let Some(next) = todo.pop() {
            if reached.insert(next.clone()) {
                todo.extend(&uses[next]);
            }
        }
        reached
    };
    let reached: BTreeMap<&Name, BTreeSet<Name>> =
        uses.keys().map(|name| (name, reach(name))).collect();
    let mut found: Vec<BTreeSet<Name>> = Vec::new();
    for (name, ahead) in &reached {
        if !ahead.contains(*name) || found.iter().any(|circle| circle.contains(*name)) {
            continue;
        }
        let back = ahead
            .iter()
            .filter(|other| reached[other].contains(*name))
            .cloned();
        found.push(back.collect());
    }
    found
}

/// The circles of one crate's files.
pub(crate) fn of_room(tree: &Tree, room: &str, is_test: impl Fn(&str) -> bool) -> Vec<Vec<String>> {
    let mut modules = modules(tree, room);
    modules.retain(|_, path| !is_test(path));
    let uses: BTreeMap<Name, BTreeSet<Name>> = modules
        .iter()
        .map(|(name, path)| {
            let text = &tree.get(path).expect("a file of the tree").text;
            (name.clone(), used(text, name, &modules))
        })
        .collect();
    circles(&uses)
        .into_iter()
        .map(|circle| circle.iter().map(|name| modules[name].clone()).collect())
        .collect()
}

#[test]
fn circles_are_found_in_every_notation() {
    let name = |text: &str| -> Name {
        let parts = text.split("::").filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    };
    let texts = [
        ("", "mod a; mod b; mod c; fn f() { a::g() }"),
        ("a", "mod x; use super::b::{self, h}; fn g() {}"),
        (
            "a::x",
            "fn i() { println!(\"{}\", crate::a::g()) } list! { /// [`T`](crate::c::T)\n One }",
        ),
        ("b", "pub(crate) fn h() -> super::c::T { T }"),
        (
            "c",
            "struct T; mod inner { fn k() { super::super::a::g() } } #[cfg(test)] mod tests { use crate::f; }",
        ),
    ];
    let modules: BTreeMap<Name, String> = texts
        .iter()
        .map(|(module, _)| (name(module), (*module).to_owned()))
        .collect();
    let uses: BTreeMap<Name, BTreeSet<Name>> = texts
        .iter()
        .map(|(module, text)| (name(module), used(text, &name(module), &modules)))
        .collect();
    let found = circles(&uses);
    let expected: BTreeSet<Name> = ["a", "b", "c"].map(name).into();
    assert_eq!(found, [expected]);
    assert_eq!(uses[&name("a::x")], [name("a")].into());
}
