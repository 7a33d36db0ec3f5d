//! Identities of servers: the checks of a server's greeting, and the errors if it is not the expected server.

use causeway_wire::fs::{Errno, Greeting, Incarnation, LayoutServer, ServerIdentity};

use super::call_error::CallError;

/// The I/O servers of a file system, as its metadata server reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The file system's identity.
    pub file_system: u128,
    /// The incarnation of its metadata.
    pub incarnation: Incarnation,
    /// Counts the changes of the layout.
    pub epoch: u64,
    /// The servers, by number.
    pub servers: Vec<LayoutServer>,
}

impl Layout {
    /// The server of this number.
    pub fn server(&self, index: u16) -> Option<&LayoutServer> {
        let place = usize::from(index);
        self.servers
            .get(place)
            .filter(|server| server.index == index)
    }

    /// The server of this name.
    pub fn named(&self, name: &str) -> Option<&LayoutServer> {
        self.servers.iter().find(|server| server.name == name)
    }
}

/// A server as the configuration describes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'a> {
    pub(super) file_system: u128,
    /// Its name, as its entry has it.
    pub(super) name: &'a str,
}

/// An error for a server that is not the expected one.
fn mismatch(message: String) -> CallError {
    CallError::local(Errno::WRONG_TARGET, message)
}

impl Expected<'_> {
    /// Whether this is the right server of the right file system, in either role.
    fn check_name(&self, found: &ServerIdentity) -> Result<(), CallError> {
        if found.file_system != self.file_system {
            return Err(mismatch(format!(
                "at its address is server {} of file system {:032x}, and the configuration is that of file \
                 system {:032x}: correct the `id` or the addresses in the configuration",
                found.name, found.file_system, self.file_system
            )));
        }
        if found.name != self.name {
            return Err(mismatch(format!(
                "at its address is server {}, and the configuration has server {} there: correct the names or \
                 the addresses in the configuration",
                found.name, self.name
            )));
        }
        Ok(())
    }

    /// Whether this is the metadata server.
    pub(super) fn check_metadata(&self, found: &Greeting) -> Result<(), CallError> {
        self.check_name(&found.identity)?;
        match found.identity.metadata {
            true => Ok(()),
            false => Err(mismatch(format!(
                "server {} keeps no metadata, and the configuration says that it does: correct its `roles` \
                 in the configuration",
                self.name
            ))),
        }
    }

    /// Whether this is the I/O server that the layout has under this name. `false` if everything fits, but the
    /// metadata server has not registered it yet.
    pub(super) fn check_io(
        &self,
        found: &ServerIdentity,
        layout: &Layout,
    ) -> Result<bool, CallError> {
        self.check_name(found)?;
        let Some(known) = layout.named(self.name) else {
            return Err(mismatch(format!(
                "the file system has no I/O server {}: its metadata server knows {}; add it with `causeway fs \
                 servers add {}`, or take its entry out of the configuration",
                self.name,
                names(layout),
                self.name
            )));
        };
        if !found.io {
            return Err(mismatch(format!(
                "server {} keeps no datafiles, and the configuration says that it does: correct its `roles` \
                 in the configuration",
                self.name
            )));
        }
        if !known.generation.is_none() && known.generation != found.generation {
            return Err(mismatch(format!(
                "the directory of server {name} is another one: it has generation {}, and the file system \
                 knows it with generation {}; mount the right disk there. If its data are lost for good, let \
                 it begin anew with `causeway fs servers accept {name}`",
                found.generation,
                known.generation,
                name = self.name
            )));
        }
        if !found.incarnation.is_none() && found.incarnation != layout.incarnation {
            return Err(mismatch(format!(
                "server {name} holds data of other metadata: it belongs to those of incarnation {}, and the \
                 metadata server has those of incarnation {}; mount or restore the right metadata directory. \
                 If those are lost for good, and the data with them, give the server an empty directory, or \
                 take it as it is with `causeway fs servers accept {name}`",
                found.incarnation,
                layout.incarnation,
                name = self.name
            )));
        }
        if found.incarnation.is_none() && known.generation == found.generation {
            return Err(mismatch(format!(
                "the directory of server {name} has been in use, and does not say any more to which metadata it \
                 belongs: its file `enrolled` is missing; restore that from a backup. If nothing else of the \
                 directory is missing, take it as it is with `causeway fs servers accept {name}`",
                name = self.name
            )));
        }
        if let Some(index) = found.index
            && index != known.index
        {
            return Err(mismatch(format!(
                "server {} is number {index} of its file system, and the metadata server has it as number {}",
                self.name, known.index
            )));
        }
        Ok(!known.generation.is_none() && found.incarnation == layout.incarnation)
    }
}

/// The names of a layout's servers.
pub(super) fn names(layout: &Layout) -> String {
    let names: Vec<&str> = layout
        .servers
        .iter()
        .map(|server| server.name.as_str())
        .collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_wire::fs::Generation;

    fn layout() -> Layout {
        let server = |index: u16, generation| LayoutServer {
            index,
            name: format!("io{index}"),
            generation: Generation(generation),
            active: true,
        };
        Layout {
            file_system: 1,
            incarnation: Incarnation(3),
            epoch: 1,
            servers: vec![server(0, 10), server(1, 0)],
        }
    }

    fn found() -> ServerIdentity {
        ServerIdentity {
            file_system: 1,
            name: "io0".to_owned(),
            metadata: false,
            io: true,
            generation: Generation(10),
            index: Some(0),
            incarnation: Incarnation(3),
        }
    }

    #[track_caller]
    fn refused(found: &ServerIdentity, words: &[&str]) {
        let expected = Expected {
            file_system: 1,
            name: "io0",
        };
        let error = expected.check_io(found, &layout()).unwrap_err();
        assert_eq!(error.errno, Errno::WRONG_TARGET);
        for word in words {
            assert!(error.message.contains(word), "{word}: {}", error.message);
        }
    }

    #[test]
    fn each_part_of_an_identity_counts_and_both_sides_are_named() {
        let expected = |name| Expected {
            file_system: 1,
            name,
        };
        assert!(expected("io0").check_io(&found(), &layout()).unwrap());
        refused(
            &ServerIdentity {
                file_system: 2,
                ..found()
            },
            &["00000001", "00000002", "`id`"],
        );
        refused(
            &ServerIdentity {
                name: "io1".to_owned(),
                ..found()
            },
            &["io0", "io1", "addresses"],
        );
        refused(
            &ServerIdentity {
                generation: Generation(11),
                ..found()
            },
            &["000000000000000a", "000000000000000b", "servers accept io0"],
        );
        refused(
            &ServerIdentity {
                incarnation: Incarnation(4),
                ..found()
            },
            &["0000000000000003", "0000000000000004", "metadata directory"],
        );
        refused(
            &ServerIdentity {
                index: Some(1),
                ..found()
            },
            &["number 0", "number 1"],
        );
        refused(
            &ServerIdentity {
                io: false,
                ..found()
            },
            &["roles"],
        );
        let stranger = ServerIdentity {
            name: "io7".to_owned(),
            ..found()
        };
        let error = expected("io7").check_io(&stranger, &layout()).unwrap_err();
        assert!(error.message.contains("io0, io1"), "{}", error.message);
    }

    #[test]
    fn a_server_that_was_not_met_yet_is_no_mismatch() {
        let fresh = ServerIdentity {
            name: "io1".to_owned(),
            generation: Generation(5),
            index: None,
            incarnation: Incarnation::NONE,
            ..found()
        };
        let expected = Expected {
            file_system: 1,
            name: "io1",
        };
        assert!(!expected.check_io(&fresh, &layout()).unwrap());
    }
}
