//! The section `[access]`: who may do what, and what is noted of it.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::source::{Source, check_key_file};
use super::types::{AccessRules, AuditLevel, CapabilityRule, ConfigError};
use super::units::{duration, parse_duration, quoted};

/// Shortest and longest lifetime of capabilities that make sense: shorter ones are renewed all the time, and what was granted
/// for a day is as good as granted for ever.
const LIFETIMES: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(24 * 3600);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccessText {
    server_key_file: Option<Spanned<PathBuf>>,
    capabilities: Option<Spanned<String>>,
    capability_lifetime: Option<Spanned<String>>,
    root_squash: Option<bool>,
    audit: Option<Spanned<String>>,
}

/// Reads the section; what it leaves out is as [`AccessRules::default`] says.
pub(super) fn rules(
    source: &Source<'_>,
    text: Option<AccessText>,
) -> Result<AccessRules, ConfigError> {
    let mut rules = AccessRules::default();
    let Some(text) = text else { return Ok(rules) };
    if let Some(key_file) = text.server_key_file {
        check_key_file(source, &key_file)?;
        rules.server_key_file = Some(key_file.into_inner());
    }
    if let Some(rule) = text.capabilities {
        rules.capabilities = match rule.get_ref().as_str() {
            "required" => CapabilityRule::Required,
            "optional" => CapabilityRule::Optional,
            other => {
                let message = format!("`{other}`: `required` and `optional` are allowed");
                return Err(source.error(&rule.span(), message));
            }
        };
    }
    if let Some(lifetime) = text.capability_lifetime {
        rules.capability_lifetime = parse_duration(lifetime.get_ref())
            .filter(|lifetime| LIFETIMES.contains(lifetime))
            .ok_or_else(|| {
                let message = format!(
                    "`{}` is not a lifetime: a whole number and `ms`, `s` or `min`, from \"100 ms\" to \"1440 min\"",
                    lifetime.get_ref()
                );
                source.error(&lifetime.span(), message)
            })?;
    }
    rules.root_squash = text.root_squash.unwrap_or(rules.root_squash);
    if let Some(audit) = text.audit {
        rules.audit = match audit.get_ref().as_str() {
            "off" => AuditLevel::Off,
            "changes" => AuditLevel::Changes,
            "all" => AuditLevel::All,
            other => {
                let message = format!("`{other}`: `off`, `changes` and `all` are allowed");
                return Err(source.error(&audit.span(), message));
            }
        };
    }
    Ok(rules)
}

/// The section's text, with comments that explain it.
pub(super) fn print(rules: &AccessRules) -> String {
    let server_key_file = rules.server_key_file.as_ref().map(|path| {
        let path = quoted(&path.to_string_lossy());
        format!("# 64 hexadecimal digits, mode 600, on the servers' nodes alone.\nserver_key_file = {path}\n")
    });
    let capabilities = match rules.capabilities {
        CapabilityRule::Required => "required",
        CapabilityRule::Optional => "optional",
    };
    let audit = match rules.audit {
        AuditLevel::Off => "off",
        AuditLevel::Changes => "changes",
        AuditLevel::All => "all",
    };
    let text = format!(
        "
# Who may do what (docs/security.md).
[access]
{server_key_file}# optional: I/O servers also serve clients of builds without capabilities, which may then read and write everything.
capabilities = \"{capabilities}\"
# How long I/O servers go by what the metadata server has said; changes of permissions are told them at once if they can be reached.
capability_lifetime = \"{lifetime}\"
# true: root of other hosts is nobody.
root_squash = {root_squash}
# What servers log of requests: off, changes or all.
audit = \"{audit}\"
",
        server_key_file = server_key_file.unwrap_or_default(),
        lifetime = duration(rules.capability_lifetime),
        root_squash = rules.root_squash,
    );
    if *rules != AccessRules::default() {
        return text;
    }
    // Builds that do not know the section refuse it: as long as it says nothing new, it is a comment.
    text.lines()
        .map(|line| match line {
            "" => "\n".to_owned(),
            line if line.starts_with('#') => format!("{line}\n"),
            line => format!("# {line}\n"),
        })
        .collect()
}
