//! Samples the bytes that each I/O server moves while the demonstration runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use causeway_command::failure::{Doing, Outcome};
use causeway_fs::client::{Client, ClientOptions};
use causeway_fs::config::Configuration;
use causeway_wire::fs::ReplyBody;

/// Time between two samples of a server.
const INTERVAL: Duration = Duration::from_millis(200);

/// The bytes that one I/O server moved.
#[derive(Debug, Clone)]
pub(crate) struct History {
    /// Its name.
    pub(crate) name: String,
    /// Bytes that the server wrote to and read from its storage, over all its runs.
    pub(crate) written: u64,
    pub(crate) read: u64,
}

/// A thread for each I/O server.
pub(crate) struct Sampler {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<History>>,
}

impl Sampler {
    /// Starts sampling.
    pub(crate) fn start(configuration: &Configuration) -> Outcome<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let brief = Configuration {
            timeout: Duration::from_millis(500),
            ..configuration.clone()
        };
        let mut threads = Vec::new();
        for server in configuration.io_servers() {
            let (brief, stop) = (brief.clone(), Arc::clone(&stop));
            let thread = std::thread::Builder::new()
                .name(format!("sampler {server}"))
                .spawn(move || watch(&brief, server, &stop))
                .doing(|| "watching the servers".to_owned())?;
            threads.push(thread);
        }
        Ok(Self { stop, threads })
    }

    /// Stops sampling.
    pub(crate) fn finish(self) -> Vec<History> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .collect()
    }
}

fn watch(configuration: &Configuration, server: usize, stop: &AtomicBool) -> History {
    let name = configuration
        .servers
        .get(server)
        .map_or_else(String::new, |one| one.name.clone());
    let mut history = History {
        name,
        written: 0,
        read: 0,
    };
    let Ok(mut client) = Client::connect(configuration, ClientOptions::default()) else {
        return history;
    };
    let (mut last_written, mut last_read) = (0, 0);
    loop {
        let last_look = stop.load(Ordering::Relaxed);
        // A server that does not reply is asked again: the drill takes one down for a while.
        if let Ok(ReplyBody::StorageStatus { written, read, .. }) = client.storage_status(server) {
            // A restarted process counts from zero.
            history.written += written.checked_sub(last_written).unwrap_or(written);
            history.read += read.checked_sub(last_read).unwrap_or(read);
            (last_written, last_read) = (written, read);
        }
        if last_look {
            return history;
        }
        std::thread::sleep(INTERVAL);
    }
}

/// The I/O server that has written the most, as of now.
pub(crate) fn busiest(configuration: &Configuration) -> Outcome<usize> {
    let mut client = Client::connect(configuration, ClientOptions::default())?;
    let mut best = (0, configuration.io_servers().first().copied().unwrap_or(0));
    for server in configuration.io_servers() {
        if let ReplyBody::StorageStatus { written, .. } = client.storage_status(server)?
            && written > best.0
        {
            best = (written, server);
        }
    }
    Ok(best.1)
}
