use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use super::*;

const GOOD: &str = r#"name = "lab"
id = "0123456789abcdef0123456789abcdef"
timeout = "5 s"
durability = "relaxed"

[distribution]
strip_size = "64 KiB"
servers = 1

[[server]]
name = "meta"
roles = ["metadata"]
addresses = ["shm:///run/meta.sock", "tcp://[::1]:7000"]
directory = "/srv/meta"

[[server]]
name = "io0"
roles = ["io"]
addresses = ["tcp://node-1.example:7001"]
directory = "/srv/io0"
"#;

#[test]
fn a_good_file_is_read_and_survives_printing() {
    let configuration = Configuration::parse(GOOD, "c.toml").unwrap();
    assert_eq!(configuration.name, "lab");
    assert_eq!(configuration.timeout, Duration::from_secs(5));
    assert_eq!(configuration.durability, Durability::Relaxed);
    assert_eq!(configuration.distribution.strip_size, 64 << 10);
    assert_eq!(configuration.metadata_server(), 0);
    assert_eq!(configuration.io_servers(), [1]);
    assert_eq!(configuration.tcp_connections, 0);
    let printed = configuration.to_toml();
    assert_eq!(Configuration::parse(&printed, "p").unwrap(), configuration);
    assert_eq!(configuration.open_files, DEFAULT_OPEN_FILES);
    let text = GOOD.replacen("id =", "tcp_connections = 3\nopen_files = 70\nid =", 1);
    let configuration = Configuration::parse(&text, "c.toml").unwrap();
    assert_eq!(configuration.tcp_connections, 3);
    assert_eq!(configuration.open_files, 70);
    let printed = configuration.to_toml();
    assert_eq!(Configuration::parse(&printed, "p").unwrap(), configuration);
}

#[test]
fn rules_of_access_are_read_and_survive_printing() {
    let access = r#"[access]
server_key_file = "/etc/causeway/servers.key"
capabilities = "optional"
capability_lifetime = "250 ms"
tell_timeout = "700 ms"
root_squash = true
audit = "changes"

[distribution]"#;
    let text = GOOD.replacen("[distribution]", access, 1);
    let configuration = Configuration::parse(&text, "c.toml").unwrap();
    let expected = AccessRules {
        server_key_file: Some("/etc/causeway/servers.key".into()),
        capabilities: CapabilityRule::Optional,
        capability_lifetime: Duration::from_millis(250),
        tell_timeout: Duration::from_millis(700),
        root_squash: true,
        audit: AuditLevel::Changes,
    };
    assert_eq!(configuration.access, expected);
    let printed = configuration.to_toml();
    assert_eq!(Configuration::parse(&printed, "p").unwrap(), configuration);
    let silent = Configuration::parse(GOOD, "c.toml").unwrap();
    assert_eq!(silent.access, AccessRules::default());
}

#[test]
fn made_configurations_survive_printing() {
    let hosts: Vec<Host> = ["a", "b:9000", "[fe80::1]:9000"]
        .iter()
        .map(|host| host.parse().unwrap())
        .collect();
    let key = Path::new("/etc/causeway/\"key\"");
    let made = Configuration::from_hosts("x", 7, &hosts, Path::new("/srv/c"), Some(key)).unwrap();
    assert_eq!(Configuration::parse(&made.to_toml(), "p").unwrap(), made);
    assert_eq!(made.servers.len(), 4);
    assert_eq!(made.servers[0].addresses[1], "tcp://a:7441");
    assert_eq!(made.servers[3].addresses[1], "tcp://[fe80::1]:9000");
    let made = Configuration::one_machine("d", 1, Path::new("/tmp/d"), 3, Durability::Synced);
    assert_eq!(Configuration::parse(&made.to_toml(), "p").unwrap(), made);
    assert_eq!(made.default_distribution().servers, 0);
    assert_eq!(made.io_names(), ["io0", "io1", "io2"]);
}

#[test]
fn bad_host_lists_are_refused() {
    for bad in ["", "a b", "a:0", "a:70000", "[::1", "[x]:1", "a/b"] {
        assert!(bad.parse::<Host>().is_err(), "{bad}");
    }
    let host: Host = "a".parse().unwrap();
    let twice = [host.clone(), host];
    let error = Configuration::from_hosts("x", 7, &twice, Path::new("/srv"), None).unwrap_err();
    assert!(error.contains("twice"), "{error}");
    assert!(Configuration::from_hosts("x", 7, &[], Path::new("/srv"), None).is_err());
    assert!(Configuration::from_hosts("x", 7, &twice[..1], Path::new("srv"), None).is_err());
}

/// Replaces `old` in the good file and expects a complaint at `line` that mentions `word`.
fn complains(old: &str, new: &str, line: usize, word: &str) {
    assert!(GOOD.contains(old), "{old}");
    let text = GOOD.replacen(old, new, 1);
    let error = Configuration::parse(&text, "c.toml").unwrap_err();
    assert_eq!(error.line, line, "{error}");
    assert!(error.message.contains(word), "{error}");
    assert!(error.to_string().starts_with(&format!("c.toml:{line}: ")));
}

#[test]
fn every_mistake_is_pointed_at() {
    complains("timeout =", "timeuot =", 3, "timeuot");
    complains("\"5 s\"", "\"5\"", 3, "such as \"10 s\"");
    complains("\"5 s\"", "\"-1 s\"", 3, "timeout");
    complains("\"5 s\"", "\"1 ms\"", 3, "timeout");
    complains("\"relaxed\"", "\"fast\"", 4, "`synced` and `relaxed`");
    complains("\"64 KiB\"", "\"65 KB\"", 7, "multiple of 4 KiB");
    complains("\"64 KiB\"", "\"4 KiB\"", 7, "16 KiB");
    complains("\"64 KiB\"", "5000", 7, "multiple of 4 KiB");
    complains("\"64 KiB\"", "\"99999999999999 GiB\"", 7, "strip size");
    for other in ["1.5", "-4096", "true", "[]"] {
        complains("\"64 KiB\"", other, 7, "such as \"1 MiB\"");
        complains("\"5 s\"", other, 3, "such as \"10 s\"");
    }
    complains("\"5 s\"", "61", 3, "`61` is not a timeout");
    complains("servers = 1", "servers = 2", 8, "1 I/O servers");
    complains("\"lab\"", "\"l/b\"", 1, "letters");
    complains(
        "\"0123456789abcdef",
        "\"+123456789abcdef",
        2,
        "32 hexadecimal",
    );
    complains("\"0123456789abcdef", "\"0123", 2, "32 hexadecimal");
    complains("name = \"io0\"", "name = \"meta\"", 17, "second server");
    complains("[\"io\"]", "[\"metadata\"]", 18, "second metadata");
    complains("[\"io\"]", "[]", 18, "no role");
    complains("[\"io\"]", "[\"storage\"]", 18, "unknown role");
    complains("[\"metadata\"]", "[\"io\"]", 1, "\"metadata\"");
    complains("/srv/io0", "srv/io0", 20, "absolute");
    complains("tcp://node-1.example:7001", "tcp://node-1", 19, "port");
    complains("tcp://node-1.example:7001", "tcp://node-1:0", 19, "port");
    complains("tcp://node-1.example:7001", "vi://x/0", 19, "no method");
    complains("tcp://node-1.example:7001", "node", 19, "scheme");
    complains("tcp://node-1.example:7001", "shm://x", 19, "absolute");
    complains(
        "tcp://node-1.example:7001",
        "tcp://[::1]:7000",
        19,
        "also that of",
    );
    let long = format!("shm:///{}", "x".repeat(200));
    complains("tcp://node-1.example:7001", &long, 19, "shorter");
    complains("[\"tcp://node-1.example:7001\"]", "[]", 19, "no address");
    complains("name = \"lab\"\n", "", 1, "name");
    complains("id =", "tcp_connections = 17\nid =", 2, "1 to 16");
    complains("id =", "open_files = 0\nid =", 2, "1 to 4194304");
    complains("id =", "key_file = \"key\"\nid =", 2, "absolute");
    let access = |line: &str, word: &str| {
        let section = format!("[access]\n{line}\n\n[distribution]");
        complains("[distribution]", &section, 7, word);
    };
    access("server_key_file = \"key\"", "absolute");
    access(
        "capabilities = \"none\"",
        "`required`, `optional` and `off`",
    );
    access("capability_lifetime = \"1 ms\"", "lifetime");
    access("capability_lifetime = 60", "such as \"60 s\"");
    access("tell_timeout = 0.5", "such as \"500 ms\"");
    access("audit = \"some\"", "`off`, `changes` and `all`");
    access("root_squash = 1", "boolean");
    let leases = |time: &str, word: &str| {
        let section = format!("[leases]\ntime = {time}\n\n[distribution]");
        complains("[distribution]", &section, 7, word);
    };
    leases("61", "`61` is not the time of a lease");
    leases("\"61 s\"", "from \"1 s\" to \"60 s\", such as \"5 s\"");
    let off = "[access]\nroot_squash = true\ncapabilities = \"off\"\n\n[distribution]";
    complains("[distribution]", off, 7, "needs capabilities");
}

#[test]
fn broken_syntax_and_missing_files_are_reported() {
    let error = Configuration::parse("name = \"x\"\nid = ", "c.toml").unwrap_err();
    assert_eq!(error.line, 2, "{error}");
    let error = Configuration::load(Path::new("/nonexistent/c.toml")).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/c.toml"));
    assert!(Configuration::parse("", "c.toml").is_err());
}

#[test]
fn key_files_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    let file = directory.path().join("c.toml");
    let text = GOOD.replacen("id =", &format!("key_file = {key:?}\nid ="), 1);
    std::fs::write(&file, text).unwrap();
    let complaint = || Configuration::load(&file).unwrap_err();

    assert!(complaint().message.contains("cannot be read"));
    assert_eq!(complaint().line, 2);
    std::fs::write(&key, "ab".repeat(32)).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(complaint().message.contains("chmod 600"));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let good = Configuration::load(&file).unwrap();
    assert_eq!(good.key().unwrap(), Some([0xab; 32].into()));
    std::fs::write(&key, "ab".repeat(31)).unwrap();
    assert!(complaint().message.contains("64 hexadecimal"));
    std::fs::write(&key, "zz".repeat(32)).unwrap();
    assert!(complaint().message.contains("64 hexadecimal"));
}

/// `GOOD` with a key and these lines of `[nodes]`.
fn with_nodes(lines: &str) -> String {
    let keyed = GOOD.replacen("id =", "key_file = \"/etc/key\"\nid =", 1);
    keyed.replacen(
        "[distribution]",
        &format!("[nodes]\n{lines}\n[distribution]"),
        1,
    )
}

#[test]
fn nodes_are_read_and_survive_printing_and_mistakes_have_their_lines() {
    let digits = "ab".repeat(32);
    let files = "node_file = \"/etc/n\"\nrevoked_file = \"/etc/r\"";
    let good = with_nodes(&format!("authorities = [\"{digits}\"]\n{files}"));
    let configuration = Configuration::parse(&good, "c.toml").unwrap();
    let nodes = configuration.nodes.clone().unwrap();
    assert_eq!(nodes.authorities, [[0xab; 32]]);
    assert_eq!(nodes.node_file, Path::new("/etc/n"));
    assert_eq!(nodes.revoked_file, Path::new("/etc/r"));
    let printed = configuration.to_toml();
    assert_eq!(Configuration::parse(&printed, "p").unwrap(), configuration);
    for (text, line, part) in [
        (good.replace("key_file = \"/etc/key\"\n", ""), 6, "key_file"),
        (good.replace(&digits, "abc"), 8, "64 hexadecimal digits"),
        (good.replace(&format!("[\"{digits}\"]"), "[]"), 8, "1 to 4"),
        (good.replace("\"/etc/n\"", "\"n\""), 9, "absolute"),
        (good.replace("\"/etc/r\"", "\"r\""), 10, "absolute"),
        (
            good.replace("name = \"io0\"", "name = \"client\""),
            7,
            "`client`",
        ),
        (good.replace("node_file", "note_file"), 9, "note_file"),
    ] {
        let error = Configuration::parse(&text, "c.toml").unwrap_err();
        assert!(error.message.contains(part), "{error}");
        assert_eq!(error.line, line, "{error}");
    }
}
