//! The users for which each node may speak. `uid_text` reads them from the configuration.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::units::quoted;

/// The name of the rule for all other nodes.
pub(super) const OTHERS: &str = "*";

/// The users for which each node may speak. A node without a rule may speak for all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UidRules {
    pub(super) by_node: BTreeMap<String, Vec<RangeInclusive<u32>>>,
}

impl UidRules {
    /// The rule for a node, if there is one.
    fn rule(&self, node: &str) -> Option<&[RangeInclusive<u32>]> {
        let rule = self.by_node.get(node).or_else(|| self.by_node.get(OTHERS));
        rule.map(Vec::as_slice)
    }

    /// Whether there is a rule for this node.
    pub fn has_rule(&self, node: &str) -> bool {
        self.rule(node).is_some()
    }

    /// Whether a rule names this user for this node. Without a rule, no user is named.
    pub fn names(&self, node: &str, uid: u32) -> bool {
        self.rule(node).is_some_and(|rule| has(rule, uid))
    }

    /// Refuses a user for whom a node may not speak; the error quotes the rule from the configuration.
    pub fn check(&self, node: &str, uid: u32) -> Result<(), String> {
        let Some(rule) = self.rule(node).filter(|rule| !has(rule, uid)) else {
            return Ok(());
        };
        let ranges: Vec<String> = rule.iter().map(range_text).collect();
        let of = match self.by_node.contains_key(node) {
            true => node,
            false => OTHERS,
        };
        Err(format!(
            "node {node} may not speak for user {uid}: the servers' rule, `uids` of {} in `[nodes]`, is [{}]",
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
            "# For which users each node may speak; \"*\" stands for all other nodes.\nuids = {{ {} }}\n",
            rules.join(", ")
        )
    }
}

fn has(rule: &[RangeInclusive<u32>], uid: u32) -> bool {
    rule.iter().any(|range| range.contains(&uid))
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
