//! The section `[access]`: rights to files and the audit log.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::source::{Source, check_key_file};
use super::types::{AccessRules, AuditLevel, CapabilityRule, ConfigError};
use super::unit_text::{UnitText, duration_within};
use super::units::{duration, quoted};

/// Shortest and longest sensible lifetime of capabilities: shorter ones are renewed all the time, and one of a day protects no
/// better than one without end.
const LIFETIMES: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(24 * 3600);

/// How long a change of permissions may wait for a server that does not reply.
const TELL_TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccessText {
    server_key_file: Option<Spanned<PathBuf>>,
    capabilities: Option<Spanned<String>>,
    capability_lifetime: Option<Spanned<UnitText>>,
    tell_timeout: Option<Spanned<UnitText>>,
    root_squash: Option<Spanned<bool>>,
    audit: Option<Spanned<String>>,
}

/// Reads the section; missing settings are those of [`AccessRules::default`].
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
            "off" => CapabilityRule::Off,
            other => {
                let message = format!("`{other}`: `required`, `optional` and `off` are allowed");
                return Err(source.error(&rule.span(), message));
            }
        };
    }
    let time = |given: Option<Spanned<UnitText>>, usual, range, what| {
        duration_within(source, given.as_ref(), usual, range, what)
    };
    let lifetime = rules.capability_lifetime;
    rules.capability_lifetime = time(text.capability_lifetime, lifetime, &LIFETIMES, "a lifetime")?;
    let timeout = rules.tell_timeout;
    rules.tell_timeout = time(text.tell_timeout, timeout, &TELL_TIMEOUTS, "a timeout")?;
    if let Some(squash) = text.root_squash {
        rules.root_squash = *squash.get_ref();
        if rules.root_squash && rules.capabilities == CapabilityRule::Off {
            let message = "`true` needs capabilities, by which I/O servers recognise the metadata server: \
                 `capabilities = \"off\"` goes with `root_squash = false` alone";
            return Err(source.error(&squash.span(), message.to_owned()));
        }
    }
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
        CapabilityRule::Off => "off",
    };
    let audit = match rules.audit {
        AuditLevel::Off => "off",
        AuditLevel::Changes => "changes",
        AuditLevel::All => "all",
    };
    let text = format!(
        "
# Rights to files and the audit log (docs/security.md).
[access]
{server_key_file}# required, optional or off. optional: I/O servers also serve clients of builds without capabilities, which may then read and
# write everything. off: there are none, and all clients may.
capabilities = \"{capabilities}\"
# How long I/O servers go by what the metadata server has said; changes of permissions are told them at once if they can be reached.
capability_lifetime = \"{lifetime}\"
# How long a change of permissions waits for I/O servers that do not reply; they are told later.
tell_timeout = \"{tell_timeout}\"
# true: root of other hosts is nobody.
root_squash = {root_squash}
# What servers log of requests: off, changes or all.
audit = \"{audit}\"
",
        server_key_file = server_key_file.unwrap_or_default(),
        lifetime = duration(rules.capability_lifetime),
        tell_timeout = duration(rules.tell_timeout),
        root_squash = rules.root_squash,
    );
    if *rules != AccessRules::default() {
        return text;
    }
    // Builds that do not have the section refuse it: as long as it only contains defaults, it is a comment.
    text.lines()
        .map(|line| match line {
            "" => "\n".to_owned(),
            line if line.starts_with('#') => format!("{line}\n"),
            line => format!("# {line}\n"),
        })
        .collect()
}
