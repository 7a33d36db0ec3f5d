//! `uids` and `gids` in the section `[nodes]`: reading the rules about users and groups for which nodes may speak.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use causeway_bmi::nodes::is_name;
use serde::Deserialize;
use toml::Spanned;

use super::ids::{IdRules, Kind, OTHERS};
use super::source::Source;
use super::types::ConfigError;

/// Most nodes that have a rule, and most ranges in one.
const MAX_RULES: usize = 1 << 16;
const MAX_RANGES: usize = 1024;

/// One number, or a text with a range.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum IdText {
    One(u32),
    Range(String),
}

impl IdText {
    fn range(&self) -> Option<RangeInclusive<u32>> {
        let text = match self {
            Self::One(id) => return Some(*id..=*id),
            Self::Range(text) if text == "root" => return Some(0..=0),
            Self::Range(text) => text,
        };
        let number = |text: &str| -> Option<u32> {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| is_number)
        };
        let Some((first, last)) = text.split_once('-') else {
            return number(text).map(|id| id..=id);
        };
        let first = number(first)?;
        let last = match last {
            "" => u32::MAX,
            last => number(last)?,
        };
        (first <= last).then_some(first..=last)
    }
}

/// Reads the rules.
pub(super) fn rules(
    source: &Source<'_>,
    kind: Kind,
    text: &BTreeMap<String, Spanned<Vec<Spanned<IdText>>>>,
) -> Result<IdRules, ConfigError> {
    let mut by_node = BTreeMap::new();
    for (node, ranges) in text {
        if by_node.len() == MAX_RULES || ranges.get_ref().len() > MAX_RANGES {
            let message =
                format!("at most {MAX_RULES} nodes have a rule, of at most {MAX_RANGES} ranges");
            return Err(source.error(&ranges.span(), message));
        }
        if node != OTHERS && !is_name(node) {
            let message = format!(
                "`{node}` cannot be a node's name, nor is it \"{OTHERS}\", which stands for all other nodes"
            );
            return Err(source.error(&ranges.span(), message));
        }
        let range = |text: &Spanned<IdText>| {
            let message = format!(
                "a {}'s number, \"root\" or a range such as \"1000-1999\" or \"1000-\" is needed",
                kind.one()
            );
            text.get_ref()
                .range()
                .ok_or_else(|| source.error(&text.span(), message))
        };
        let ranges: Result<Vec<_>, _> = ranges.get_ref().iter().map(range).collect();
        by_node.insert(node.clone(), ranges?);
    }
    Ok(IdRules { kind, by_node })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules_of(text: &str) -> Result<IdRules, ConfigError> {
        #[derive(Deserialize)]
        struct Text {
            uids: BTreeMap<String, Spanned<Vec<Spanned<IdText>>>>,
        }
        let source = Source { text, file: "c" };
        let read: Text = toml::from_str(text).unwrap();
        rules(&source, Kind::Users, &read.uids)
    }

    #[test]
    fn a_node_speaks_for_the_users_of_its_rule() {
        let rules = rules_of(
            "uids = { login = [\"1000-1999\", \"root\", 7], \"*\" = [\"1000-\"], none = [] }",
        )
        .unwrap();
        let may = |node: &str, uid| rules.check(node, uid).is_ok();
        for (uid, login, other) in [
            (0, true, false),
            (7, true, false),
            (8, false, false),
            (999, false, false),
            (1000, true, true),
            (1999, true, true),
            (2000, false, true),
            (u32::MAX, false, true),
        ] {
            let allowed = (may("login", uid), may("other", uid), may("none", uid));
            assert_eq!(allowed, (login, other, false), "{uid}");
            assert_eq!(rules.names("login", uid), login);
        }
        let why = rules.check("login", 8).unwrap_err();
        for part in ["node login", "user 8", "\"1000-1999\"", "\"root\"", "7"] {
            assert!(why.contains(part), "{why}");
        }
        assert!(rules.check("other", 8).unwrap_err().contains("\"*\""));
        // The text that is printed can be read.
        assert_eq!(rules_of(&rules.print()), Ok(rules));
        // Without rules, or without one for a node, the node may speak for all users and none is named.
        let rules = rules_of("uids = { login = [5] }").unwrap();
        assert!(rules.check("other", 0).is_ok() && !rules.names("other", 0));
        assert_eq!(IdRules::none(Kind::Users).print(), "");
    }

    /// Rules about groups are read, printed and quoted like those about users, under their own name.
    #[test]
    fn a_node_speaks_for_the_groups_of_its_rule() {
        #[derive(Deserialize)]
        struct Text {
            gids: BTreeMap<String, Spanned<Vec<Spanned<IdText>>>>,
        }
        let read_rules = |text: &str| {
            let source = Source { text, file: "c" };
            let read: Text = toml::from_str(text).unwrap();
            rules(&source, Kind::Groups, &read.gids)
        };
        let groups = read_rules("gids = { login = [\"100-199\", \"root\"], \"*\" = [] }").unwrap();
        for (gid, may) in [
            (0, true),
            (99, false),
            (100, true),
            (199, true),
            (200, false),
        ] {
            assert_eq!(groups.check("login", gid).is_ok(), may, "{gid}");
            assert!(groups.check("other", gid).is_err(), "{gid}");
        }
        let why = groups.check("login", 99).unwrap_err();
        for part in [
            "node login",
            "group 99",
            "`gids` of \"login\"",
            "\"100-199\"",
        ] {
            assert!(why.contains(part), "{why}");
        }
        assert_eq!(read_rules(&groups.print()), Ok(groups));
        let error = read_rules("gids = { x = [\"5-4\"] }").unwrap_err();
        assert!(error.message.contains("group's number"), "{error}");
    }

    #[test]
    fn mistakes_in_rules_are_named() {
        for (text, what) in [
            ("uids = { x = [\"5-4\"] }", "range"),
            ("uids = { x = [\"+5\"] }", "range"),
            ("uids = { x = [\"\"] }", "range"),
            ("uids = { x = [\"4294967296\"] }", "range"),
            ("uids = { \"a b\" = [5] }", "node's name"),
        ] {
            let error = rules_of(text).unwrap_err();
            assert!(error.message.contains(what), "{text}: {error}");
            assert_eq!(error.line, 1);
        }
    }
}
