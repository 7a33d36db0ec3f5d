//! Common parts of the file system's measurements: their settings, and file systems of their own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_command::cluster::{Cluster, Spec, free_space};
use causeway_command::failure::Outcome;
use causeway_command::shutdown::ScratchDirectory;
use causeway_fs::client::{Client, ClientOptions};
use causeway_fs::config::Durability;

use crate::outcome::Benchmark;

/// I/O servers of the file systems that are measured.
const SERVERS: usize = 4;

/// Everything that measurements share.
pub(crate) struct Bench {
    /// Rows so far.
    pub(crate) benchmark: Benchmark,
    /// Where storage is made.
    pub(crate) storage: PathBuf,
    /// Where storage is made that survives a reboot.
    pub(crate) disk: PathBuf,
    /// The tree of files that is copied; one of this machine's if none is given.
    pub(crate) tree: Option<PathBuf>,
    /// Files of that tree, at most.
    pub(crate) tree_files: u64,
    /// What is measured next was asked for by name.
    pub(crate) asked_for: bool,
    /// Numbers of client processes.
    pub(crate) clients: Vec<usize>,
    /// Bytes of the large file.
    pub(crate) size: u64,
    /// Files made in one run.
    pub(crate) files: u64,
    /// Widths of a tile in elements.
    pub(crate) tile_widths: Vec<u64>,
    /// How often everything is measured.
    pub(crate) runs: u32,
    /// Clients connected to the idle server.
    pub(crate) idle_clients: usize,
    /// Clients connected to the metadata server at once.
    pub(crate) many_clients: usize,
}

impl Bench {
    /// Notes where the measurements run, and how.
    pub(crate) fn introduce(&mut self, quick: bool) -> Outcome {
        let (_, memory) = free_space(&self.storage)?;
        let kind = if memory { "memory (tmpfs)" } else { "a disk" };
        self.benchmark.note(format!(
            "storage: {}, which is {kind}; {SERVERS} I/O servers and a metadata server, each a \
             process; client processes begin together and the time ends with the last of them",
            self.storage.display()
        ));
        if quick {
            self.benchmark.note(
                "--quick: sizes are too small for measurements; take the figures as a sign of life"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// A file system of its own on the usual storage, in a directory that goes with it.
    pub(crate) fn start(&self) -> Outcome<Setup> {
        Self::start_with(&self.storage, Durability::Relaxed, true, Vec::new())
    }

    /// The same without checksums.
    pub(crate) fn start_unchecked(&self) -> Outcome<Setup> {
        Self::start_with(&self.storage, Durability::Relaxed, false, Vec::new())
    }

    /// A file system on the disk, whose metadata server syncs before it acknowledges: with a commit for each operation, or one
    /// for all that wait.
    pub(crate) fn start_synced(&self, each: bool) -> Outcome<Setup> {
        let environment = match each {
            true => vec![("CAUSEWAY_COMMIT_EACH".to_owned(), "1".to_owned())],
            false => Vec::new(),
        };
        Self::start_with(&self.disk, Durability::Synced, true, environment)
    }

    fn start_with(
        place: &Path,
        durability: Durability,
        checksums: bool,
        environment: Vec<(String, String)>,
    ) -> Outcome<Setup> {
        let scratch = ScratchDirectory::new(place, "bench")?;
        let cluster = Cluster::start(&Spec {
            directory: scratch.path().join("storage"),
            servers: SERVERS,
            durability,
            tcp: false,
            timeout: Some(Duration::from_secs(30)),
            checksums,
            environment,
        })?;
        let client = Client::connect(cluster.configuration(), ClientOptions::default())?;
        Ok(Setup {
            client,
            cluster,
            scratch,
        })
    }
}

/// A running file system and a client of it. Fields are dropped in this order.
pub(crate) struct Setup {
    /// The client, for steps that are not measured.
    pub(crate) client: Client,
    /// The servers.
    pub(crate) cluster: Cluster,
    /// The directory that holds everything.
    pub(crate) scratch: ScratchDirectory,
}
