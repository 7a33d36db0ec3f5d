//! The processes that this one can reach, of its own program and of others, and the addresses of this one.

use std::collections::HashMap;
use std::path::PathBuf;

use causeway_sys::random;
use causeway_sys::secret::Secret;
use causeway_wire::contact::{Contact, FILES, FORMATS};
use causeway_wire::formats::Formats;

use crate::abi;
use crate::error::{Error, Result};
use crate::group::Group;

/// The directory for sockets that the launcher has made, and removes.
pub const DIRECTORY: &str = "CAUSEWAY_RUN_DIRECTORY";

/// The methods by which processes may reach each other, with commas between: `shm` (within a host) and `tcp`. Both if it is not
/// set; all processes must have the same value.
pub const METHODS: &str = "CAUSEWAY_MPI_METHODS";

/// A file with the key, as 64 hexadecimal digits, by which separately started programs authenticate each other that connect by
/// `tcp`. Without it, each program draws a key of its own.
pub const KEY_FILE: &str = "CAUSEWAY_MPI_KEY_FILE";

/// Limits the formats of MPI's messages that this process speaks to a range of those of its build: the lowest and the highest, such as `1-2`. Without it the
/// process speaks all of them. A limited process behaves towards others like one of an older build.
pub const SPOKEN: &str = "CAUSEWAY_MPI_FORMATS";

/// The formats of [`SPOKEN`].
pub(crate) fn own_formats() -> Result<Formats> {
    let text = match std::env::var(SPOKEN) {
        Ok(text) => text,
        Err(std::env::VarError::NotPresent) => return Ok(FORMATS),
        Err(std::env::VarError::NotUnicode(text)) => text.to_string_lossy().into_owned(),
    };
    chosen_formats(&text)
}

fn chosen_formats(text: &str) -> Result<Formats> {
    let chosen = Formats::of_text(text);
    let chosen =
        chosen.filter(|formats| FORMATS.has(formats.lowest) && FORMATS.has(formats.highest));
    chosen.ok_or_else(|| {
        let text = format!(
            "{SPOKEN}: {text:?} is no range of formats that this build speaks; give a part of {}",
            FORMATS.to_text()
        );
        Error::new(abi::ERR_OTHER, text)
    })
}

/// The methods that may be used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Methods {
    pub(crate) shm: bool,
    pub(crate) tcp: bool,
}

impl Methods {
    pub(crate) fn read() -> Result<Self> {
        let list = std::env::var(METHODS).unwrap_or_else(|_| "shm,tcp".into());
        let mut methods = Self {
            shm: false,
            tcp: false,
        };
        for name in list.split(',') {
            match name {
                "shm" => methods.shm = true,
                "tcp" => methods.tcp = true,
                other => {
                    let text =
                        format!("{METHODS}: no method is called {other:?}; there are shm and tcp");
                    return Err(Error::new(abi::ERR_OTHER, text));
                }
            }
        }
        Ok(methods)
    }
}

/// A process's identity, the same in all processes: the number of its world, and its rank there.
pub(crate) type Identity = (u64, u32);

/// See the module's page.
#[derive(Debug)]
pub(crate) struct ProcessTable {
    /// This process's contact, which it gives to others.
    pub(crate) own: Contact,
    /// The identities of processes, by this process's numbers of them.
    identities: Vec<Identity>,
    /// The formats of MPI's messages that each process speaks, by the same numbers.
    formats: Vec<Formats>,
    by_identity: HashMap<Identity, u32>,
    /// The first process of each host.
    hosts: HashMap<String, u32>,
    pub(crate) methods: Methods,
    /// The key of connections by `tcp`, once it is known.
    pub(crate) key: Option<Secret>,
    /// Processes of other programs can reach this one.
    pub(crate) is_open: bool,
}

impl ProcessTable {
    /// The table of a process that has not connected with any other yet.
    pub(crate) fn new(own: Contact, methods: Methods) -> Self {
        Self {
            own,
            identities: Vec::new(),
            formats: Vec::new(),
            by_identity: HashMap::new(),
            hosts: HashMap::new(),
            methods,
            key: None,
            is_open: false,
        }
    }

    /// Adds a process, which gets the next number. Returns the first process of its host.
    pub(crate) fn add(&mut self, identity: Identity, formats: Formats, host: &str) -> u32 {
        let number = self.identities.len() as u32;
        self.identities.push(identity);
        self.formats.push(formats);
        self.by_identity.insert(identity, number);
        *self.hosts.entry(host.to_owned()).or_insert(number)
    }

    /// This process's number of a process.
    pub(crate) fn find(&self, identity: Identity) -> Option<u32> {
        self.by_identity.get(&identity).copied()
    }

    /// The identity of the process with this number.
    pub(crate) fn identity(&self, process: u32) -> Option<Identity> {
        self.identities.get(process as usize).copied()
    }

    /// The formats of MPI's messages that the process with this number speaks.
    pub(crate) fn formats(&self, process: u32) -> Option<Formats> {
        self.formats.get(process as usize).copied()
    }

    /// Whether all processes of a group speak this format or a later one.
    pub(crate) fn all_speak(&self, group: &Group, format: u8) -> bool {
        let speaks = |process: &u32| {
            let formats = self.formats(*process);
            formats.is_some_and(|formats| formats.highest >= format)
        };
        group.members().iter().all(speaks)
    }

    /// Whether a process belongs to another world than this one.
    pub(crate) fn is_of_other_world(&self, process: u32) -> bool {
        self.identity(process)
            .is_some_and(|(world, _)| world != self.own.world)
    }
}

/// An error if a process speaks no format of MPI's messages that this one speaks, too.
pub(crate) fn check_formats(whose: &str, own: Formats, theirs: Formats) -> Result<()> {
    match own.common(theirs) {
        Some(_) => Ok(()),
        None => {
            let why = own.mismatch(theirs, "MPI's messages");
            Err(Error::new(abi::ERR_OTHER, format!("{whose}: {why}")))
        }
    }
}

/// The format in which this process and another one open files together; an error if that one speaks none of those.
pub(crate) fn file_format(whose: &str, own: Formats, theirs: Formats) -> Result<u8> {
    match own.common(theirs) {
        Some(format) if format >= FILES => Ok(format),
        _ => {
            let text = format!(
                "{whose}: it speaks {theirs} of MPI's messages, this process {own}, and files are opened together from format {FILES} on; \
                 run a build on all sides that speaks it"
            );
            Err(Error::new(abi::ERR_OTHER, text))
        }
    }
}

/// A value that is the same exactly for processes that can share memory. It is made of the machine's boot, and the network and
/// files that the process sees. Without shared memory every process is on a host of its own.
pub(crate) fn host(methods: Methods) -> Result<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = |name: &str| {
        let link = std::fs::read_link(format!("/proc/self/ns/{name}"));
        link.map_or(String::new(), |link| link.display().to_string())
    };
    let own = match methods.shm {
        true => String::new(),
        false => format!("/{:016x}", number()?),
    };
    Ok(format!(
        "{}/{}/{}{own}",
        boot.trim(),
        space("net"),
        space("mnt")
    ))
}

/// The network, by the same value of its processes, that a process on this [`host`] sees.
pub(crate) fn network(host: &str) -> &str {
    let end = host.match_indices('/').nth(1);
    end.map_or(host, |(at, _)| &host[..at])
}

/// Of a process's addresses for other hosts, those at which this one may reach it. Hosts have networks with the same
/// addresses, such as the bridges of containers: at an address that this host has, too, nobody replies, or another process.
pub(crate) fn addresses_elsewhere(own: &Contact, host: &str, far: &str) -> String {
    if network(host) == network(&own.host) {
        return far.to_owned();
    }
    let without_port = |address: &str| address.rsplit_once(':').map(|(host, _)| host.to_owned());
    let ours = Vec::from_iter(own.far.split(',').map(without_port));
    let elsewhere = far
        .split(',')
        .filter(|address| !ours.contains(&without_port(address)));
    match Vec::from_iter(elsewhere).join(",") {
        none if none.is_empty() => far.to_owned(),
        elsewhere => elsewhere,
    }
}

/// The socket at which to listen for processes of the same host.
pub(crate) fn socket(rank: u32) -> Result<PathBuf> {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return Ok(PathBuf::from(directory).join(rank.to_string()));
    }
    let name = format!("causeway-{:016x}-{rank}", number()?);
    Ok(std::env::temp_dir().join(name))
}

/// A random number, which no other process draws.
pub(crate) fn number() -> Result<u64> {
    random::bytes().map(u64::from_le_bytes).map_err(|error| {
        let text = format!("drawing a number at random: {error}");
        Error::new(abi::ERR_OTHER, text)
    })
}

/// A new key.
pub(crate) fn draw_key() -> Result<Secret> {
    Secret::draw().map_err(|error| {
        let text = format!("drawing the program's key: {error}");
        Error::new(abi::ERR_OTHER, text)
    })
}

/// The key of [`KEY_FILE`], if it is set.
pub(crate) fn given_key() -> Result<Option<Secret>> {
    let Some(path) = std::env::var_os(KEY_FILE) else {
        return Ok(None);
    };
    let key = Secret::of_file(path.as_ref()).map_err(|refused| {
        let text = format!("{KEY_FILE}={path:?} is not used: {refused}");
        Error::new(abi::ERR_OTHER, text)
    });
    key.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_without_shared_memory_are_on_hosts_of_their_own() {
        let shared = Methods {
            shm: true,
            tcp: true,
        };
        let apart = Methods {
            shm: false,
            tcp: true,
        };
        assert_eq!(host(shared).unwrap(), host(shared).unwrap());
        assert_ne!(host(apart).unwrap(), host(apart).unwrap());
    }

    #[test]
    fn addresses_that_this_host_has_too_are_not_those_of_another() {
        let own = Contact {
            host: "b/net:[1]/mnt:[1]".into(),
            far: "tcp://10.0.0.1:7,tcp://172.17.0.1:7".into(),
            ..Contact::default()
        };
        let of = |host: &str, far: &str| addresses_elsewhere(&own, host, far);
        let theirs = "tcp://172.17.0.1:9,tcp://10.0.0.2:9";
        assert_eq!(of("c/net:[1]/mnt:[1]", theirs), "tcp://10.0.0.2:9");
        assert_eq!(of("b/net:[2]/mnt:[1]", theirs), "tcp://10.0.0.2:9");
        assert_eq!(of("b/net:[1]/mnt:[2]", theirs), theirs, "one network");
        // If that leaves none, they are tried nevertheless.
        assert_eq!(of("c", "tcp://10.0.0.1:9"), "tcp://10.0.0.1:9");
    }

    #[test]
    fn processes_without_a_common_format_are_refused_with_both_ranges() {
        let above = FORMATS.highest + 1;
        let theirs = |lowest, highest| Formats { lowest, highest };
        for good in [FORMATS, theirs(FORMATS.lowest, above), theirs(1, u8::MAX)] {
            check_formats("rank 1", FORMATS, good).expect("they have one in common");
        }
        let error = check_formats("rank 1", FORMATS, theirs(above, above + 1));
        let error = error.expect_err("they have none");
        assert_eq!(
            error.text(),
            format!(
                "rank 1: it speaks formats {above} to {} of MPI's messages, this process formats 1 to {}; run builds on both sides that share one",
                above + 1,
                FORMATS.highest
            )
        );
    }

    #[test]
    fn files_are_not_opened_with_processes_of_the_first_format() {
        for (format, good) in [(FORMATS.highest, FORMATS), (2, Formats::only(2))] {
            assert_eq!(file_format("rank 1", FORMATS, good).ok(), Some(format));
        }
        let first = Formats::only(1);
        let error = file_format("rank 1", FORMATS, first).expect_err("it is too old");
        assert_eq!(
            error.text(),
            format!(
                "rank 1: it speaks format 1 of MPI's messages, this process formats 1 to {}, and files are opened together from format 2 on; \
                 run a build on all sides that speaks it",
                FORMATS.highest
            )
        );
        // This process is, to others that are not.
        file_format("rank 1", first, FORMATS).expect_err("this process is too old");
        let second = Formats::only(2);
        assert_eq!(file_format("rank 1", second, FORMATS).ok(), Some(2));
    }

    #[test]
    fn a_group_speaks_a_format_if_all_its_processes_do() {
        let methods = Methods {
            shm: true,
            tcp: true,
        };
        let mut table = ProcessTable::new(Contact::default(), methods);
        for (rank, highest) in [6, 5, 7].into_iter().enumerate() {
            let formats = Formats { lowest: 1, highest };
            table.add((1, rank as u32), formats, "host");
        }
        let speak =
            |members: &[u32], format| table.all_speak(&Group::new(members.to_vec()), format);
        assert!(speak(&[0, 2], 6) && speak(&[0, 1, 2], 5));
        assert!(!speak(&[0, 1, 2], 6) && !speak(&[0, 3], 1));
    }

    #[test]
    fn formats_are_chosen_among_those_of_this_build() {
        let all = FORMATS.to_text();
        assert_eq!(chosen_formats(&all).expect("all of them"), FORMATS);
        let second = chosen_formats("2-2").expect("one of them");
        assert_eq!(second, Formats::only(2));
        let above = format!("1-{}", FORMATS.highest + 1);
        for wrong in ["", "2", "0-2", "2-1", "a-b", &above] {
            let error = chosen_formats(wrong).expect_err("they are none of this build's");
            let text = error.text();
            assert!(text.contains(SPOKEN) && text.contains(&all), "{text}");
        }
    }

    #[test]
    fn processes_are_found_by_their_identity() {
        let methods = Methods {
            shm: true,
            tcp: true,
        };
        let own = Contact {
            world: 5,
            ..Contact::default()
        };
        let mut process_table = ProcessTable::new(own, methods);
        assert_eq!(process_table.add((5, 0), FORMATS, "a"), 0);
        assert_eq!(process_table.add((5, 1), FORMATS, "b"), 1);
        assert_eq!(process_table.add((9, 0), Formats::only(1), "a"), 0);
        assert_eq!(process_table.find((9, 0)), Some(2));
        assert_eq!(process_table.find((9, 1)), None);
        assert_eq!(process_table.formats(2), Some(Formats::only(1)));
        assert!(process_table.is_of_other_world(2) && !process_table.is_of_other_world(1));
    }
}
