//! The libraries that Causeway is compared with: which are installed, and how each runs a pattern.
//!
//! [`peer`] is their common interface, [`child`] runs their programs with bounds, [`mpi`] is every
//! MPI, by one small program of this crate that its compiler builds (`mpi.c`), [`ucx`] and
//! [`libfabric`] run those libraries' own benchmarks. A peer that fails is a note in the report,
//! and never ends a run.

pub(crate) mod child;
mod leftovers;
pub(crate) mod libfabric;
pub(crate) mod mpi;
mod pair;
pub(crate) mod peer;
pub(crate) mod ucx;

use peer::{Peer, Places};

/// The command that installs them.
pub(crate) const INSTALL: &str = "make peers";

/// The libraries that were found, and the missing ones, each with the remedy.
pub(crate) fn find(places: &Places) -> (Vec<Box<dyn Peer>>, Vec<String>) {
    let (mut found, mut missing): (Vec<Box<dyn Peer>>, Vec<String>) = (Vec::new(), Vec::new());
    let mut keep = |name: &str, peers: Vec<Result<Box<dyn Peer>, String>>| {
        if peers.is_empty() {
            missing.push(format!("{name} is not installed; `{INSTALL}` installs it"));
        }
        for peer in peers {
            match peer {
                Ok(peer) if found.iter().any(|known| known.name() == peer.name()) => {}
                Ok(peer) => found.push(peer),
                Err(why) => missing.push(format!("{name}: {why}")),
            }
        }
    };
    keep("Open MPI", mpi::find(places, mpi::Family::OpenMpi));
    keep("MPICH", mpi::find(places, mpi::Family::Mpich));
    keep("UCX", ucx::find(places));
    keep("libfabric", libfabric::find(places));
    (found, missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_library_is_reported_with_the_command_that_installs_it() {
        let directory = tempfile::tempdir().unwrap();
        let places = Places {
            peers: directory.path().join("peers"),
            path: vec![directory.path().to_owned()],
            scratch: directory.path().to_owned(),
        };
        let (found, missing) = find(&places);
        assert!(found.is_empty());
        assert_eq!(missing.len(), 4, "{missing:?}");
        assert!(missing.iter().all(|line| line.contains("`make peers`")));
    }
}
