//! Resolving `host:port` to socket addresses, and which of them may be used without a key.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use crate::address::Address;
use crate::error::Error;

/// The scheme of tcp addresses.
pub(crate) const TCP: &str = "tcp";

/// Splits `host:port`. The host may be a name, an IPv4 address, or an IPv6 address in brackets.
fn split<'a>(address: &'a Address, scheme: &str) -> Result<(&'a str, u16), Error> {
    let bad = |reason| Error::BadAddress {
        address: address.to_string(),
        reason,
    };
    if address.scheme() != scheme {
        return Err(bad("its scheme is another method's"));
    }
    let (host, port) = address
        .rest()
        .rsplit_once(':')
        .ok_or_else(|| bad("a port is missing: write `host:port`"))?;
    let port = port
        .parse()
        .map_err(|_| bad("its port is not a number from 0 to 65535"))?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner
            .strip_suffix(']')
            .ok_or_else(|| bad("its IPv6 address lacks the closing `]`"))?,
        None if host.contains(':') => {
            return Err(bad("an IPv6 address goes in brackets: `[::1]:port`"));
        }
        None => host,
    };
    if host.is_empty() {
        return Err(bad("its host is empty"));
    }
    Ok((host, port))
}

/// All socket addresses of an address of this scheme, in the resolver's order. Blocks as long as
/// the system's resolver does.
pub(crate) fn resolve(scheme: &str, address: &Address) -> Result<Vec<SocketAddr>, Error> {
    let (host, port) = split(address, scheme)?;
    let found = (host, port)
        .to_socket_addrs()
        .map_err(|source| Error::System {
            what: format!("looking up the host of `{address}`"),
            source,
        })?;
    let mut targets: Vec<SocketAddr> = Vec::new();
    for target in found {
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    if targets.is_empty() {
        return Err(Error::BadAddress {
            address: address.to_string(),
            reason: "its host has no address",
        });
    }
    Ok(targets)
}

/// Confirms, for the method of `scheme`, an address at which a peer at `source` claims to listen:
/// it has to be on the same host. A peer that listens on all interfaces is reached at the address
/// from which it has connected.
pub(crate) fn confirm(scheme: &str, claimed: &Address, source: &Address) -> Option<Address> {
    let socket = |address: &Address| -> Option<SocketAddr> {
        let ours = address.scheme() == scheme;
        ours.then(|| address.rest().parse().ok()).flatten()
    };
    let (mut claimed, source) = (socket(claimed)?, socket(source)?.ip().to_canonical());
    if claimed.ip().is_unspecified() && claimed.is_ipv4() == source.is_ipv4() {
        claimed.set_ip(source);
    }
    let confirmed = claimed.ip() == source && claimed.port() != 0;
    confirmed.then(|| format!("{scheme}://{claimed}").parse().ok())?
}

/// A canonical form of the address, the same for all spellings of the host and the port. No name is
/// looked up.
pub(crate) fn canonical(address: &Address) -> Result<Address, Error> {
    let (host, port) = split(address, address.scheme())?;
    let host = match host.parse::<IpAddr>() {
        Ok(number) => match number.to_canonical() {
            IpAddr::V4(v4) => v4.to_string(),
            IpAddr::V6(v6) => format!("[{v6}]"),
        },
        Err(_) if host.contains(':') => format!("[{host}]"),
        Err(_) => host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase(),
    };
    format!("{}://{host}:{port}", address.scheme()).parse()
}

/// The address by which `target` is reached.
pub(crate) fn describe(scheme: &str, target: SocketAddr) -> Option<Address> {
    format!("{scheme}://{target}").parse().ok()
}

/// Whether only processes of this host can be at the other end.
pub(crate) fn is_loopback(address: SocketAddr) -> bool {
    match address.ip() {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<SocketAddr>, Error> {
        resolve("tcp", &text.parse()?)
    }

    #[test]
    fn hosts_of_every_notation_are_found() {
        assert_eq!(
            all("tcp://127.0.0.1:7").unwrap()[0].to_string(),
            "127.0.0.1:7"
        );
        assert_eq!(all("tcp://[::1]:7").unwrap()[0].to_string(), "[::1]:7");
        assert!(
            all("tcp://localhost:7")
                .unwrap()
                .iter()
                .all(|&a| is_loopback(a))
        );
        let described = describe("tcp", all("tcp://[::1]:7").unwrap()[0]).unwrap();
        assert_eq!(described.to_string(), "tcp://[::1]:7");
    }

    #[test]
    fn only_addresses_of_the_same_host_are_confirmed() {
        let source = "tcp://10.0.0.1:50000".parse().unwrap();
        let confirmed = |claimed: &str| {
            let address = confirm("tcp", &claimed.parse().unwrap(), &source);
            address.map(|address| address.to_string())
        };
        let own = Some("tcp://10.0.0.1:7".to_owned());
        assert_eq!(confirmed("tcp://10.0.0.1:7"), own);
        assert_eq!(confirmed("tcp://0.0.0.0:7"), own);
        for other in [
            "tcp://10.0.0.2:7",
            "tcp://127.0.0.1:7",
            "tcp://[::]:7",
            "tcp://10.0.0.1:0",
            "tcp://host:7",
            "udp://10.0.0.1:7",
        ] {
            assert_eq!(confirmed(other), None, "{other}");
        }
    }

    #[test]
    fn an_address_has_one_spelling() {
        let spelling = |text: &str| canonical(&text.parse().unwrap()).map(|a| a.to_string());
        for (text, expected) in [
            ("tcp://10.0.0.1:07440", "tcp://10.0.0.1:7440"),
            ("tcp://[::ffff:10.0.0.1]:7440", "tcp://10.0.0.1:7440"),
            ("tcp://[2001:DB8:0::1]:+7", "tcp://[2001:db8::1]:7"),
            ("tcp://[fe80::1%eth0]:7", "tcp://[fe80::1%eth0]:7"),
            ("tcp://Node3.Cluster.:7", "tcp://node3.cluster:7"),
        ] {
            let once = spelling(text).unwrap();
            assert_eq!(once, expected);
            assert_eq!(spelling(&once).unwrap(), once);
        }
        assert!(spelling("tcp://10.0.0.1").is_err());
    }

    #[test]
    fn errors_name_the_wrong_part() {
        for (text, expected) in [
            ("shm://x:1", "scheme"),
            ("tcp://host", "port is missing"),
            ("tcp://host:99999", "port is not a number"),
            ("tcp://host:", "port is not a number"),
            ("tcp://::1:5", "brackets"),
            ("tcp://[::1:5", "closing"),
            ("tcp://:5", "empty"),
        ] {
            let error = all(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
