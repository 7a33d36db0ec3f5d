//! The cost, for a server, of connected clients that send little or nothing.

use causeway_command::failure::{Failure, Outcome};

use super::processes::ClientProcesses;
use super::setup::{Bench, Setup};
use super::worker::Order;

/// Processes that the many clients of [`many_clients`] are in: each has descriptors for some thousand.
const CLIENT_PROCESSES: usize = 8;
/// One in this many clients makes more files.
const ACTIVE: usize = 10;
/// Files that each of them makes.
const FILES_EACH: u64 = 10;

/// Measures a server's memory with many connected, idle clients, and with more that have made files.
pub(super) fn run(bench: &mut Bench) -> Outcome {
    idle(bench)?;
    many_clients(bench)
}

/// Bytes of a process's memory that are resident, from `/proc`.
fn resident_bytes(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// A server's resident set.
fn resident_mib(setup: &Setup, server: usize) -> Result<f64, Failure> {
    let bytes = setup.cluster.pid(server).and_then(resident_bytes);
    let gone = || {
        Failure::new(
            "measuring a server's memory",
            "the server's process has ended",
        )
    };
    Ok(bytes.ok_or_else(gone)? as f64 / 1048576.0)
}

/// Clients that are connected to the metadata server and have sessions there.
fn many_clients(bench: &mut Bench) -> Outcome {
    let in_each = bench.many_clients.div_ceil(CLIENT_PROCESSES);
    let (clients, active) = (
        in_each * CLIENT_PROCESSES,
        in_each / ACTIVE * CLIENT_PROCESSES,
    );
    bench.benchmark.note(format!(
        "many clients: {CLIENT_PROCESSES} processes open {clients} clients, each of which makes a file; then {active} \
         of them make {FILES_EACH} more each; memory is the metadata server's resident set, shared pages \
         included"
    ));
    let mut setup = bench.start()?;
    let server = setup.cluster.configuration().metadata_server();
    let directory = "/many-clients".to_owned();
    setup
        .client
        .make_directory(directory.as_bytes(), 0o755, None)?;
    let mut processes = ClientProcesses::start(&setup.cluster, CLIENT_PROCESSES)?;
    processes.measure(|_| Order::Join {
        directory: directory.clone(),
        count: in_each,
    })?;
    let joined = resident_mib(&setup, server)?;
    let took = processes.measure(|_| Order::Change {
        directory: directory.clone(),
        clients: in_each / ACTIVE,
        each: FILES_EACH,
    })?;
    let active_mib = resident_mib(&setup, server)?;
    processes.measure(|_| Order::Disconnect)?;
    let mut add = |what: &str, metric: &str, value: f64| {
        let case = format!("many-clients/{clients}-clients/{what}");
        bench.benchmark.ours(&case, 0, metric, &[value]);
    };
    add("joined", "memory_mib", joined);
    add("active", "memory_mib", active_mib);
    add("active", "rate_per_s", took.rate());
    Ok(())
}

fn idle(bench: &mut Bench) -> Outcome {
    let clients = bench.idle_clients;
    bench.benchmark.note(format!(
        "idle: one process opens {clients} connections, each of a client of its own, to one I/O \
         server; memory is the server's resident set, shared pages included"
    ));
    let setup = bench.start()?;
    let server = setup
        .cluster
        .configuration()
        .io_servers()
        .first()
        .copied()
        .unwrap_or(0);
    let mut processes = ClientProcesses::start(&setup.cluster, 1)?;
    let (mut before, mut with) = (Vec::new(), Vec::new());
    for _ in 0..bench.runs {
        before.push(resident_mib(&setup, server)?);
        processes.measure(|_| Order::Connect {
            server,
            count: clients,
        })?;
        with.push(resident_mib(&setup, server)?);
        processes.measure(|_| Order::Disconnect)?;
    }
    bench
        .benchmark
        .ours("idle-server/no-clients", 0, "memory_mib", &before);
    let case = format!("idle-server/{clients}-clients");
    bench.benchmark.ours(&case, 0, "memory_mib", &with);
    Ok(())
}
