//! At which addresses processes of other hosts look for this one.
//!
//! A host has several networks as a rule, and others reach it by some of them only. All are given to them, those of
//! network cards first, and [`NETWORKS`] limits them to some.

use std::net::IpAddr;

use causeway_sys::interfaces::{self, InterfaceAddress};

use crate::abi;
use crate::error::{Error, Result};

/// The networks through which processes of different hosts reach each other, with commas between: names of interfaces (`eth0`),
/// addresses, or networks (`10.1.0.0/16`). All of them if it is not set; processes on different hosts may have different values.
pub(crate) const NETWORKS: &str = "CAUSEWAY_MPI_NETWORKS";

/// The TCP ports at which processes listen for those of other hosts, the lowest and the highest, where a firewall lets only these
/// through: `40000-40999`. One for each process of a host is enough. Any port if it is not set.
pub(crate) const PORTS: &str = "CAUSEWAY_MPI_PORTS";

/// Whether connections between hosts are encrypted: `yes`, also if it is not set, or `no`. They are if either side has not said `no`. Others on the network can read messages
/// that are not encrypted, but can neither forge nor alter any (`docs/security.md`); those of 16 KiB and more mostly take a tenth to a fifth less time.
pub(crate) const ENCRYPT: &str = "CAUSEWAY_MPI_ENCRYPT";

/// The most addresses of one process. Hosts may have a bridge and an address for each of many containers.
const MAX_ADDRESSES: usize = 8;

/// The addresses of this host at which others may reach it, the likeliest first. All are of one IP version.
pub(crate) fn own_addresses() -> Result<Vec<IpAddr>> {
    let all = interfaces::own_addresses().map_err(|error| {
        let text = format!("looking for this host's addresses: {error}");
        Error::new(abi::ERR_OTHER, text)
    })?;
    let wanted = std::env::var_os(NETWORKS);
    let wanted = wanted.map(|wanted| wanted.to_string_lossy().into_owned());
    chosen(all, wanted.as_deref())
}

/// Whether this process requests encryption.
pub(crate) fn encrypts() -> Result<bool> {
    match std::env::var_os(ENCRYPT) {
        Some(choice) => encrypts_by(&choice.to_string_lossy()),
        None => Ok(true),
    }
}

fn encrypts_by(choice: &str) -> Result<bool> {
    match choice {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => {
            let text = format!("{ENCRYPT}={choice} is neither yes nor no");
            Err(Error::new(abi::ERR_OTHER, text))
        }
    }
}

/// The ports to listen at, to be tried in this order; 0 lets the kernel choose.
pub(crate) fn ports() -> Result<Vec<u16>> {
    match std::env::var_os(PORTS) {
        Some(range) => ports_of(&range.to_string_lossy(), std::process::id()),
        None => Ok(vec![0]),
    }
}

/// The ports of a range. Processes that start at the same time begin with different ones.
fn ports_of(range: &str, process: u32) -> Result<Vec<u16>> {
    let bounds = range.split_once('-').unwrap_or((range, range));
    let (Ok(lowest), Ok(highest)) = (bounds.0.trim().parse(), bounds.1.trim().parse()) else {
        return Err(no_ports(range));
    };
    if lowest == 0 || highest < lowest {
        return Err(no_ports(range));
    }
    let mut ports = Vec::from_iter(lowest..=highest);
    let begin = process as usize % ports.len();
    ports.rotate_left(begin);
    Ok(ports)
}

fn no_ports(range: &str) -> Error {
    let text = format!("{PORTS}={range} is no range of ports; give one such as 40000-40999");
    Error::new(abi::ERR_OTHER, text)
}

fn chosen(mut all: Vec<InterfaceAddress>, wanted: Option<&str>) -> Result<Vec<IpAddr>> {
    let described = all
        .iter()
        .map(|one| format!("{} ({})", one.address, one.interface));
    let described = Vec::from_iter(described).join(", ");
    if let Some(wanted) = wanted {
        let wanted = Vec::from_iter(wanted.split(',').map(str::trim));
        all.retain(|one| wanted.iter().any(|wanted| is_in(one, wanted)));
    }
    if all.is_empty() {
        let text = match (wanted, described.as_str()) {
            (_, "") => "this host has no address at which other hosts could reach it".to_owned(),
            (wanted, all) => format!(
                "{NETWORKS}={}: none of this host's addresses is in these networks: {all}; give names of interfaces, or networks such as 10.1.0.0/16",
                wanted.unwrap_or_default()
            ),
        };
        return Err(Error::new(abi::ERR_OTHER, text));
    }
    all.sort_by_key(|one| one.kind);
    // A process listens at one port of one IP version.
    let has_v4 = all.iter().any(|one| one.address.is_ipv4());
    let addresses = all.into_iter().map(|one| one.address);
    let of_version = addresses.filter(|address| address.is_ipv4() == has_v4);
    Ok(of_version.take(MAX_ADDRESSES).collect())
}

/// Whether an address is in a network, or of an interface, of this name.
fn is_in(one: &InterfaceAddress, wanted: &str) -> bool {
    let (network, bits) = match wanted.split_once('/') {
        Some((network, bits)) => (network, bits.parse().ok()),
        None => (wanted, Some(u32::MAX)),
    };
    let prefix = |address: IpAddr, bits: u32| match address {
        IpAddr::V4(v4) => u128::from(
            u32::from(v4)
                .checked_shr(32_u32.saturating_sub(bits))
                .unwrap_or(0),
        ),
        IpAddr::V6(v6) => u128::from(v6)
            .checked_shr(128_u32.saturating_sub(bits))
            .unwrap_or(0),
    };
    match (network.parse::<IpAddr>(), bits) {
        (Ok(network), Some(bits)) => {
            network.is_ipv4() == one.address.is_ipv4()
                && prefix(network, bits) == prefix(one.address, bits)
        }
        (Err(_), _) => wanted == one.interface,
        (Ok(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use causeway_sys::interfaces::InterfaceKind::{self, Bridge, Card, Other};

    use super::*;

    fn all(of: &[(&str, InterfaceKind, &str)]) -> Vec<InterfaceAddress> {
        let one = |&(interface, kind, address): &(&str, _, &str)| InterfaceAddress {
            interface: interface.into(),
            kind,
            address: address.parse().unwrap(),
        };
        of.iter().map(one).collect()
    }

    fn host() -> Vec<InterfaceAddress> {
        all(&[
            ("docker0", Bridge, "172.17.0.1"),
            ("tun0", Other, "10.8.0.1"),
            ("eth0", Card, "10.1.2.3"),
            ("eth0", Card, "fd00::3"),
            ("ib0", Card, "10.2.2.3"),
        ])
    }

    fn texts(wanted: Option<&str>) -> Vec<String> {
        let chosen = chosen(host(), wanted).unwrap();
        chosen.iter().map(IpAddr::to_string).collect()
    }

    #[test]
    fn cards_come_before_tunnels_and_these_before_bridges() {
        assert_eq!(
            texts(None),
            ["10.1.2.3", "10.2.2.3", "10.8.0.1", "172.17.0.1"]
        );
    }

    #[test]
    fn networks_are_chosen_by_interface_address_or_prefix() {
        for (wanted, found) in [
            ("ib0", &["10.2.2.3"][..]),
            ("ib0, tun0", &["10.2.2.3", "10.8.0.1"]),
            ("10.0.0.0/8", &["10.1.2.3", "10.2.2.3", "10.8.0.1"]),
            ("10.1.2.0/24", &["10.1.2.3"]),
            ("10.1.2.3", &["10.1.2.3"]),
            ("fd00::/16", &["fd00::3"]),
            (
                "0.0.0.0/0",
                &["10.1.2.3", "10.2.2.3", "10.8.0.1", "172.17.0.1"],
            ),
            ("10.1.2.0/99", &[]),
        ] {
            match chosen(host(), Some(wanted)) {
                Ok(_) => assert_eq!(texts(Some(wanted)), found, "{wanted}"),
                Err(_) => assert!(found.is_empty(), "{wanted}"),
            }
        }
    }

    #[test]
    fn a_choice_of_none_names_the_addresses() {
        let error = chosen(host(), Some("eth7")).expect_err("there is none");
        let text = error.text();
        assert!(text.contains("CAUSEWAY_MPI_NETWORKS=eth7"), "{text}");
        assert!(text.contains("10.1.2.3 (eth0)"), "{text}");
        let error = chosen(Vec::new(), None).expect_err("a host without a network");
        assert_eq!(
            error.text(),
            "this host has no address at which other hosts could reach it"
        );
    }

    #[test]
    fn a_host_with_very_many_addresses_gives_the_likeliest() {
        let mut many = Vec::new();
        for host in 0..100 {
            many.extend(all(&[("br", Bridge, &format!("172.18.{host}.1"))]));
        }
        many.extend(all(&[("eth0", Card, "10.0.0.9")]));
        let chosen = chosen(many, None).unwrap();
        assert_eq!(
            (chosen.len(), chosen[0].to_string().as_str()),
            (MAX_ADDRESSES, "10.0.0.9")
        );
    }

    #[test]
    fn connections_are_encrypted_unless_the_user_says_no() {
        assert!(encrypts_by("yes").expect("a choice"));
        assert!(!encrypts_by("no").expect("a choice"));
        for wrong in ["", "No", "false", "0"] {
            let error = encrypts_by(wrong).expect_err("no choice");
            assert!(error.text().contains("neither yes nor no"), "{error}");
        }
    }

    #[test]
    fn ports_are_those_of_the_range_in_an_order_of_the_process() {
        assert_eq!(
            ports_of("40000-40003", 41).unwrap(),
            [40001, 40002, 40003, 40000]
        );
        assert_eq!(ports_of("7", 5).unwrap(), [7]);
        assert_eq!(ports_of("1-65535", 0).unwrap().len(), 65535);
        for wrong in ["", "0-5", "9-8", "a-b", "1-65536", "-", "5-"] {
            let error = ports_of(wrong, 0).expect_err(wrong);
            assert!(error.text().contains("CAUSEWAY_MPI_PORTS="), "{wrong}");
        }
    }

    #[test]
    fn a_host_without_ip_4_gives_addresses_of_ip_6() {
        let found = chosen(all(&[("eth0", Card, "fd00::3")]), None).unwrap();
        assert_eq!(found[0].to_string(), "fd00::3");
    }
}
