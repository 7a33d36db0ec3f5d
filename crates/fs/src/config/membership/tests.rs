use std::os::unix::fs::PermissionsExt as _;

use causeway_bmi::nodes::{Authority, Certificate};
use causeway_sys::secret::Secret;

use super::*;
use crate::config::Host;

/// A configuration for the servers `meta`, `io0` and `io1` with the files that it names, on the host of `io0`.
struct Place {
    directory: tempfile::TempDir,
    authority: Authority,
    configuration: Configuration,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let hosts: [Host; 2] = ["a:7000", "b:7000"].map(|host| host.parse().unwrap());
        let servers = path("servers");
        let mut configuration =
            Configuration::from_hosts("x", 1, &hosts, &servers, Some(&path("key"))).unwrap();
        let authority = Authority::draw().unwrap();
        let entry = NodesEntry::new(vec![authority.public_key()], path("node"), path("revoked"));
        configuration.nodes = Some(entry);
        let this = Self {
            directory,
            authority,
            configuration,
        };
        this.write_configuration(&this.configuration);
        this.revoke(&[]);
        this.write_node("io0");
        this
    }

    fn file(&self) -> std::path::PathBuf {
        self.directory.path().join("causeway.toml")
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn write_configuration(&self, configuration: &Configuration) {
        self.write("causeway.toml", &configuration.to_toml(), 0o644);
    }

    fn write_node(&self, role: &str) -> Certificate {
        let key = Secret::draw().unwrap();
        let public = member::public_key(&key).unwrap();
        let roles = [role.to_owned()];
        let signed = self.authority.sign(public, "a", &roles, u64::MAX).unwrap();
        let member = Member::new(signed.clone(), key).unwrap();
        self.write("node", &member.to_text(), 0o600);
        signed
    }

    fn revoke(&self, serials: &[u64]) {
        let entries = serials.iter().map(|serial| (*serial, "b".to_owned()));
        let list = Revoked {
            entries: entries.collect(),
        };
        self.write("revoked", &list.to_text(), 0o644);
    }

    /// What is known, as a text.
    fn known(&self) -> String {
        format!("{:?}", self.configuration.nodes().unwrap().unwrap())
    }

    fn own_serial(&self) -> u64 {
        let nodes = self.configuration.nodes().unwrap().unwrap();
        nodes.current().member().certificate().serial
    }

    fn reload(&self) -> Result<(), ConfigError> {
        self.configuration.reload_nodes(&self.file(), |_| Ok(()))
    }
}

#[test]
fn servers_keep_the_addresses_that_they_started_with() {
    let place = Place::new();
    let nodes = place.configuration.nodes().unwrap().unwrap();
    let addresses: Vec<(String, String)> = place
        .configuration
        .servers
        .iter()
        .flat_map(|server| {
            server
                .addresses
                .iter()
                .map(|a| (a.clone(), server.name.clone()))
        })
        .collect();
    let check = || {
        let current = nodes.current();
        for (address, role) in &addresses {
            let known = current.role_at(&address.parse().unwrap());
            assert_eq!(known, Ok(Some(role.as_str())), "{address}");
        }
    };
    check();
    let mut moved = place.configuration.clone();
    for server in &mut moved.servers {
        server.addresses = vec![format!("tcp://{}:7999", server.name)];
    }
    place.write_configuration(&moved);
    place.reload().unwrap();
    check();
    let new = "tcp://io1:7999".parse().unwrap();
    assert!(nodes.current().role_at(&new).is_err());
}

#[test]
fn what_is_read_again_and_refused_changes_nothing() {
    let place = Place::new();
    let before = place.known();
    place.write_node("io1");
    let refuse = |_: &Membership| Err("it is that of another server".to_owned());
    let error = place.configuration.reload_nodes(&place.file(), refuse);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("/node") && error.contains("another server"),
        "{error}"
    );
    assert_eq!(place.known(), before);
    place.reload().unwrap();
    assert_ne!(place.known(), before);
}

#[test]
fn a_list_that_has_become_shorter_lets_nobody_in_again() {
    let place = Place::new();
    place.known();
    let revoked = |serial: u64| place.known().contains(&serial.to_string());
    place.revoke(&[7_777_777, 8_888_888]);
    place.reload().unwrap();
    place.revoke(&[9_999_999]);
    place.reload().unwrap();
    assert!([7_777_777, 8_888_888, 9_999_999].map(revoked) == [true; 3]);
    // Not even if this node itself was revoked: processes with the former list would accept it no
    // more.
    let own = place.write_node("io0");
    place.reload().unwrap();
    let renewed = place.write_node("io0");
    place.revoke(&[own.serial]);
    place.reload().unwrap();
    assert!(revoked(own.serial));
    assert_eq!(place.own_serial(), renewed.serial);
    let former = std::fs::read_to_string(place.directory.path().join("node")).unwrap();
    let newest = place.write_node("io0");
    place.revoke(&[renewed.serial]);
    place.reload().unwrap();
    place.revoke(&[]);
    place.write("node", &former, 0o600);
    let error = place.reload().unwrap_err().to_string();
    assert!(error.contains("was revoked"), "{error}");
    assert_eq!(place.own_serial(), newest.serial);
}

/// A program with the client library, which gets no signal.
#[test]
fn a_loaded_configuration_takes_what_has_changed_and_nothing_that_is_wrong() {
    let place = Place::new();
    place.write("key", &"5a".repeat(32), 0o600);
    let loaded = Configuration::load(&place.file()).unwrap();
    let copy = loaded.clone();
    let knows = |serial: u64| {
        let nodes = copy.nodes().unwrap().unwrap();
        format!("{nodes:?}").contains(&serial.to_string())
    };
    place.revoke(&[7_777_777]);
    assert!(!knows(7_777_777));
    loaded.read_changed_nodes();
    assert!(knows(7_777_777));
    // A list that belongs to another user, or that others may write, is not used; what was known
    // stays.
    place.revoke(&[7_777_777, 8_888_888]);
    let list = place.directory.path().join("revoked");
    let mode = |mode| {
        std::fs::set_permissions(&list, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(0o666);
    loaded.read_changed_nodes();
    assert!(knows(7_777_777) && !knows(8_888_888));
    mode(0o644);
    if causeway_sys::process::user() == 0 {
        std::os::unix::fs::chown(place.file(), Some(61_234), None).unwrap();
        loaded.read_changed_nodes();
        assert!(!knows(8_888_888));
        std::os::unix::fs::chown(place.file(), Some(0), None).unwrap();
    } else {
        eprintln!("less is tested: only root can have files of other users");
    }
    std::fs::rename(&list, place.directory.path().join("away")).unwrap();
    loaded.read_changed_nodes();
    assert!(knows(7_777_777) && !knows(8_888_888));
    std::fs::rename(place.directory.path().join("away"), &list).unwrap();
    loaded.read_changed_nodes();
    assert!(knows(8_888_888));
    // The new certificate of the node, also for all copies.
    let renewed = place.write_node("io0");
    loaded.read_changed_nodes();
    let known = copy.nodes().unwrap().unwrap().current();
    assert_eq!(known.member().certificate().serial, renewed.serial);
    // A configuration that was made in memory watches no file.
    place.known();
    place.revoke(&[9_999_999]);
    place.configuration.read_changed_nodes();
    assert!(!place.known().contains("9999999"));
}
