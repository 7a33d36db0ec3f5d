//! What connected clients cost a server that has nothing to do for them.

use causeway_fs::config::Durability;

use super::Bench;
use super::crew::Crew;
use super::worker::Order;
use crate::failure::{Failure, Outcome};
use crate::machine::resident_bytes;

/// Measures a server's memory with many connected, idle clients.
pub(super) fn run(bench: &mut Bench) -> Outcome {
    let clients = bench.idle_clients;
    bench.benchmark.note(format!(
        "idle: one process opens {clients} connections, each of a client of its own, to one I/O \
         server; memory is the server's resident set, shared pages included"
    ));
    let stage = bench.start(&bench.storage.clone(), Durability::Relaxed, false)?;
    let server = stage
        .cluster
        .configuration()
        .io_servers()
        .first()
        .copied()
        .unwrap_or(0);
    let resident = || {
        let pid = stage.cluster.pid(server);
        pid.and_then(resident_bytes).ok_or_else(|| {
            Failure::new(
                "measuring a server's memory",
                "its process is not there any more",
            )
        })
    };
    let mebibytes = |bytes: u64| bytes as f64 / 1048576.0;
    let mut crew = Crew::start(&stage.cluster, 1)?;
    let (mut before, mut with) = (Vec::new(), Vec::new());
    for _ in 0..bench.runs {
        before.push(mebibytes(resident()?));
        crew.measure(|_| Order::Connect {
            server,
            count: clients,
        })?;
        with.push(mebibytes(resident()?));
        crew.measure(|_| Order::Disconnect)?;
    }
    bench.benchmark.add(
        "idle-server/no-clients",
        "causeway",
        0,
        "memory_mib",
        &before,
    );
    let case = format!("idle-server/{clients}-clients");
    bench
        .benchmark
        .add(&case, "causeway", 0, "memory_mib", &with);
    Ok(())
}
