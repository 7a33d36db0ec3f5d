//! The methods of one process, found by the scheme of an address.
//!
//! A process may be reachable at several addresses, joined with commas. [`Registry::candidates`]
//! sorts those that can be used here into the order in which to try them, cheapest first, and
//! states why the others are skipped.

use std::path::Path;
use std::time::Duration;

use causeway_sys::secret::Secret;

use crate::address::{Address, MAX_ADDRESS_BYTES};
use crate::agent::Agent;
use crate::error::Error;
use crate::method::Method;
use crate::nodes::Nodes;
use crate::shm::{Shm, ShmConfig};
use crate::tcp::{Liveness, Tcp, TcpConfig};
use crate::udp::{Udp, UdpConfig};

/// The most addresses that one process may have in a list.
const MAX_ADDRESSES: usize = 16;

/// Settings of the built-in methods.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The cluster's key: proven by both sides of all connections, and required beyond loopback.
    pub key: Option<Secret>,
    /// With a key: both sides of each connection prove which node they belong to. Methods that
    /// cannot do that are left out.
    pub nodes: Option<Nodes>,
    /// Without a key: an agent of this node that makes this process's handshakes. Methods that cannot use an agent are
    /// left out.
    pub agent: Option<Agent>,
    /// Encrypt keyed connections. Those of `udp` are always encrypted; those of `tcp` are only
    /// authenticated if this is not set.
    pub encrypt: bool,
    /// How long connecting may take, and how long a silent connection is kept before it is probed.
    pub connect_timeout: Duration,
    /// Whether peers of `tcp` are given up for their process's silence or for their host's.
    pub liveness: Liveness,
    /// Most connections of `tcp` with one peer, see [`TcpConfig::connections`]; 0 lets the method
    /// choose.
    pub tcp_connections: u8,
}

/// Makes a method of one scheme.
pub type Constructor = Box<dyn Fn(&Settings) -> Result<Box<dyn Method>, Error> + Send + Sync>;

/// The constructors of methods, by scheme: the built-in ones, and those that other crates add.
pub struct Constructors {
    by_scheme: Vec<(&'static str, Constructor)>,
}

impl Constructors {
    /// An empty table.
    pub fn new() -> Self {
        Self {
            by_scheme: Vec::new(),
        }
    }

    /// The constructors of the built-in methods: `shm`, `tcp` and `udp`.
    pub fn builtin() -> Self {
        let mut all = Self::new();
        all.add("shm", Box::new(shm));
        all.add("tcp", Box::new(tcp));
        all.add("udp", Box::new(udp));
        all
    }

    /// Adds a constructor. A later one of the same scheme replaces an earlier one.
    ///
    /// # Panics
    /// If `scheme` is invalid: it has to be one or more lower-case letters and digits.
    pub fn add(&mut self, scheme: &'static str, constructor: Constructor) {
        assert!(is_scheme(scheme), "`{scheme}` is no scheme");
        self.by_scheme.retain(|(known, _)| *known != scheme);
        self.by_scheme.push((scheme, constructor));
    }

    /// Makes all methods. One that the system refuses is left out, with the reason in
    /// [`Registry::unavailable`], as long as another one works; otherwise the first error is
    /// returned.
    ///
    /// # Panics
    /// If a constructor makes a method of another scheme than it was added for.
    pub fn build(&self, settings: &Settings) -> Result<Registry, Error> {
        let mut registry = Registry::new();
        let mut first = None;
        for (scheme, constructor) in &self.by_scheme {
            match constructor(settings) {
                Ok(method) => {
                    assert_eq!(method.scheme(), *scheme, "the constructor's scheme");
                    registry.register(method);
                }
                Err(error) => {
                    registry.unavailable.push((scheme, error.to_string()));
                    first.get_or_insert(error);
                }
            }
        }
        match first {
            Some(error) if registry.methods.is_empty() => Err(error),
            _ => Ok(registry),
        }
    }
}

impl Default for Constructors {
    fn default() -> Self {
        Self::builtin()
    }
}

fn shm(settings: &Settings) -> Result<Box<dyn Method>, Error> {
    if settings.agent.is_some() {
        return Err(Error::Unsupported(OF_AGENTS));
    }
    Ok(Box::new(Shm::new(ShmConfig {
        key: settings.key.clone(),
        nodes: settings.nodes.clone(),
        connect_timeout: settings.connect_timeout,
        ..ShmConfig::default()
    })?))
}

fn tcp(settings: &Settings) -> Result<Box<dyn Method>, Error> {
    Ok(Box::new(Tcp::new(TcpConfig {
        key: settings.key.clone(),
        nodes: settings.nodes.clone(),
        agent: settings.agent.clone(),
        encrypt: settings.encrypt,
        connect_timeout: settings.connect_timeout,
        liveness: settings.liveness,
        connections: match settings.tcp_connections {
            0 => TcpConfig::default().connections,
            most => most,
        },
        ..TcpConfig::default()
    })?))
}

/// Why methods other than tcp are left out for a process whose handshakes are made by an agent.
const OF_AGENTS: &str =
    "this process may not read the key, and the node's agent speaks for it over tcp alone";

fn udp(settings: &Settings) -> Result<Box<dyn Method>, Error> {
    if settings.agent.is_some() {
        return Err(Error::Unsupported(OF_AGENTS));
    }
    if settings.nodes.is_some() {
        return Err(Error::Unsupported(
            "connections over udp do not prove which node is at their other end, and that is demanded here: use tcp",
        ));
    }
    Ok(Box::new(Udp::new(UdpConfig {
        key: settings.key.clone(),
        connect_timeout: settings.connect_timeout,
        ..UdpConfig::default()
    })?))
}

/// The methods of a process, each with its scheme.
#[derive(Default)]
pub struct Registry {
    methods: Vec<Box<dyn Method>>,
    unavailable: Vec<(&'static str, String)>,
}

/// An address that can be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The index in [`Registry::methods`] of the method that serves it.
    pub method: usize,
    /// The address.
    pub address: Address,
}

/// The addresses of one process, sorted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Candidates {
    /// The addresses to try, in this order. Not empty.
    pub usable: Vec<Candidate>,
    /// Addresses that are skipped, and why.
    pub passed_over: Vec<(Address, String)>,
}

impl Registry {
    /// A registry without methods.
    pub fn new() -> Self {
        Self::default()
    }

    /// The built-in methods. One that the system refuses is left out, with the reason in
    /// [`Registry::unavailable`], as long as another one works.
    pub fn builtin(settings: &Settings) -> Result<Self, Error> {
        Constructors::builtin().build(settings)
    }

    /// Methods that the system refused, with its reasons.
    pub fn unavailable(&self) -> &[(&'static str, String)] {
        &self.unavailable
    }

    /// Adds a method. A later one of the same scheme replaces an earlier one.
    pub fn register(&mut self, method: Box<dyn Method>) {
        self.methods
            .retain(|known| known.scheme() != method.scheme());
        self.methods.push(method);
        self.methods.sort_by_key(|method| method.rank());
    }

    /// The methods, cheapest first.
    pub fn methods(&self) -> &[Box<dyn Method>] {
        &self.methods
    }

    /// Returns the methods, in the order of [`Registry::methods`].
    pub fn into_methods(self) -> Vec<Box<dyn Method>> {
        self.methods
    }

    /// Sorts the addresses of one process into the order in which to try them.
    pub fn candidates(&self, list: &str) -> Result<Candidates, Error> {
        let schemes: Vec<_> = self.methods.iter().map(|method| method.scheme()).collect();
        candidates(&schemes, list)
    }
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// The addresses of a list. A comma belongs to an address unless `scheme://` follows it, so that
/// paths may contain commas.
pub fn split(list: &str) -> Result<Vec<Address>, Error> {
    let bad = |reason| Error::BadAddress {
        address: list.chars().take(MAX_ADDRESS_BYTES).collect(),
        reason,
    };
    if list.len() > MAX_ADDRESSES * (MAX_ADDRESS_BYTES + 1) {
        return Err(bad("the list is longer than 16 addresses"));
    }
    let mut texts: Vec<String> = Vec::new();
    for piece in list.split(',') {
        let starts_one = piece
            .trim_start()
            .split_once("://")
            .is_some_and(|(s, _)| is_scheme(s));
        match texts.last_mut() {
            Some(last) if !starts_one => {
                last.push(',');
                last.push_str(piece);
            }
            _ => texts.push(piece.trim_start().to_owned()),
        }
    }
    if texts.len() > MAX_ADDRESSES {
        return Err(bad("the list is longer than 16 addresses"));
    }
    texts.iter().map(|text| text.trim_end().parse()).collect()
}

/// See [`Registry::candidates`]; `schemes` are those of the methods, by index, cheapest first.
pub fn candidates(schemes: &[&str], list: &str) -> Result<Candidates, Error> {
    let mut found = Candidates::default();
    let mut absent = Vec::new();
    let mut unknown = None;
    for address in split(list)? {
        let Some(method) = schemes.iter().position(|s| *s == address.scheme()) else {
            let known = schemes.join(", ");
            unknown.get_or_insert(Error::NoMethod {
                scheme: address.scheme().to_owned(),
                known: known.clone(),
            });
            let reason = format!("no such method here (there are: {known})");
            found.passed_over.push((address, reason));
            continue;
        };
        let candidate = Candidate { method, address };
        if is_here(&candidate.address) {
            found.usable.push(candidate);
        } else {
            absent.push(candidate);
        }
    }
    if found.usable.is_empty() {
        // The peer may be about to start; if not, the attempt itself gives the clearest error.
        found.usable = absent;
    } else {
        let reason = "its socket does not exist on this host";
        let passed = absent.into_iter().map(|c| (c.address, reason.to_owned()));
        found.passed_over.extend(passed);
    }
    found.usable.sort_by_key(|candidate| candidate.method);
    match unknown {
        Some(error) if found.usable.is_empty() => Err(error),
        _ => Ok(found),
    }
}

/// Whether a process at this address could be reachable from this host at all.
fn is_here(address: &Address) -> bool {
    address.scheme() != "shm" || Path::new(address.rest()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMES: [&str; 2] = ["shm", "tcp"];

    fn texts(found: &Candidates) -> Vec<String> {
        let usable = found.usable.iter();
        usable.map(|c| c.address.to_string()).collect()
    }

    #[test]
    fn cheapest_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a,b.sock");
        std::fs::write(&path, "").unwrap();
        let shm = format!("shm://{}", path.display());
        let found = candidates(&SCHEMES, &format!("tcp://h:1, {shm}")).unwrap();
        assert_eq!(texts(&found), [shm, "tcp://h:1".to_owned()]);
        assert!(found.passed_over.is_empty());
    }

    #[test]
    fn an_absent_socket_is_skipped_unless_it_is_the_only_address() {
        let found = candidates(&SCHEMES, "shm:///no/such,tcp://h:1").unwrap();
        assert_eq!(texts(&found), ["tcp://h:1"]);
        assert_eq!(found.passed_over.len(), 1);
        let found = candidates(&SCHEMES, "shm:///no/such").unwrap();
        assert_eq!(texts(&found), ["shm:///no/such"]);
    }

    #[test]
    fn unknown_schemes_are_named() {
        let found = candidates(&SCHEMES, "vi://h/1,tcp://h:1").unwrap();
        assert_eq!(texts(&found), ["tcp://h:1"]);
        assert!(found.passed_over[0].1.contains("no such method"));
        let error = candidates(&SCHEMES, "vi://h/1").unwrap_err();
        assert!(error.to_string().contains("`vi`"), "{error}");
        assert!(candidates(&SCHEMES, "").is_err());
        assert!(candidates(&SCHEMES, &"tcp://h:1,".repeat(40)).is_err());
    }

    #[test]
    fn a_later_method_takes_the_place() {
        let mut registry = Registry::new();
        for _ in 0..2 {
            let mem = crate::mem::Mem::new(Default::default()).unwrap();
            registry.register(Box::new(mem));
        }
        assert_eq!(registry.methods().len(), 1);
        assert_eq!(registry.candidates("mem://x").unwrap().usable[0].method, 0);
    }
}
