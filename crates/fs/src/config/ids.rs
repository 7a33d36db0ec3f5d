//! The users and groups for which each node may speak. `id_text` reads them from the configuration.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::units::quoted;

/// The name of the rule for all other nodes.
pub(super) const OTHERS: &str = "*";

/// The numbers that a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Users,
    Groups,
}

impl Kind {
    /// The name of the setting in `[nodes]`.
    pub(super) fn setting(self) -> &'static str {
        match self {
            Self::Users => "uids",
            Self::Groups => "gids",
        }
    }

    /// The word for what a number stands for.
    pub(super) fn one(self) -> &'static str {
        match self {
            Self::Users => "user",
            Self::Groups => "group",
        }
    }
}

/// The users, or the groups, for which each node may speak. A node without a rule may speak for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdRules {
    pub(super) kind: Kind,
    pub(super) by_node: BTreeMap<String, Vec<RangeInclusive<u32>>>,
}

/// Both kinds of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLimits {
    /// The users for whom each node may speak.
    pub uids: IdRules,
    /// The groups for which each node may speak.
    pub gids: IdRules,
}

impl Default for NodeLimits {
    fn default() -> Self {
        Self {
            uids: IdRules::none(Kind::Users),
            gids: IdRules::none(Kind::Groups),
        }
    }
}

impl IdRules {
    /// No rule for any node.
    pub(super) fn none(kind: Kind) -> Self {
        Self {
            kind,
            by_node: BTreeMap::new(),
        }
    }

    /// The rule for a node, if there is one.
    fn rule(&self, node: &str) -> Option<&[RangeInclusive<u32>]> {
        let rule = self.by_node.get(node).or_else(|| self.by_node.get(OTHERS));
        rule.map(Vec::as_slice)
    }

    /// Whether there is a rule for this node.
    pub fn has_rule(&self, node: &str) -> bool {
        self.rule(node).is_some()
    }

    /// Whether a rule names this user or group for this node. Without a rule, none is named.
    pub fn names(&self, node: &str, id: u32) -> bool {
        self.rule(node).is_some_and(|rule| has(rule, id))
    }

    /// Refuses a user or group for which a node may not speak; the error quotes the rule from the configuration.
    pub fn check(&self, node: &str, id: u32) -> Result<(), String> {
        let Some(rule) = self.rule(node).filter(|rule| !has(rule, id)) else {
            return Ok(());
        };
        let ranges: Vec<String> = rule.iter().map(range_text).collect();
        let of = match self.by_node.contains_key(node) {
            true => node,
            false => OTHERS,
        };
        Err(format!(
            "node {node} may not speak for {} {id}: the servers' rule, `{}` of {} in `[nodes]`, is [{}]",
            self.kind.one(),
            self.kind.setting(),
            quoted(of),
            ranges.join(", ")
        ))
    }

    /// The setting's line, or nothing if there are no rules.
    pub(super) fn print(&self) -> String {
        if self.by_node.is_empty() {
            return String::new();
        }
        let rule = |(node, ranges): (&String, &Vec<RangeInclusive<u32>>)| {
            let ranges: Vec<String> = ranges.iter().map(range_text).collect();
            format!("{} = [{}]", quoted(node), ranges.join(", "))
        };
        let rules: Vec<String> = self.by_node.iter().map(rule).collect();
        format!(
            "# For which {}s each node may speak; \"*\" stands for all other nodes.\n{} = {{ {} }}\n",
            self.kind.one(),
            self.kind.setting(),
            rules.join(", ")
        )
    }
}

fn has(rule: &[RangeInclusive<u32>], id: u32) -> bool {
    rule.iter().any(|range| range.contains(&id))
}

/// A range as the configuration writes it.
fn range_text(range: &RangeInclusive<u32>) -> String {
    let (first, last) = (range.start(), range.end());
    match (*first, *last) {
        (0, 0) => quoted("root"),
        (first, last) if first == last => first.to_string(),
        (first, u32::MAX) => quoted(&format!("{first}-")),
        (first, last) => quoted(&format!("{first}-{last}")),
    }
}
