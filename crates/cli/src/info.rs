//! `causeway info`: what works on this machine, and why the rest does not.

use std::path::{Path, PathBuf};

use causeway_bmi::Memory;
use causeway_command::failure::Outcome;
use causeway_command::output::{Output, escaped};
use causeway_command::remote::unreadable;
use causeway_report::machine::{COMMIT, Machine, VERSION};
use causeway_report::style::{Style, paint};
use causeway_report::table::Table;
use causeway_report::units::{bytes_text, count_text};
use causeway_sys::attach::{LocalSpans, RemoteSpans};
use causeway_watch::log;
use clap::Args;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use serde_json::json;

use crate::demo::worker::Assignment;
use crate::fs::ping::facts_json;
use crate::fs::session::{Session, Target, find};

/// Show what works on this machine, why the rest does not, and which method reaches each server
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway info
  causeway info --config /etc/causeway.toml
  causeway info --json | jq '.capabilities[] | select(.works | not)'")]
pub(crate) struct Arguments {
    /// A running file system to describe too [default: the one found as `causeway fs` finds it]
    #[arg(long, short = 'C', value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print exactly one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Something that Causeway uses where the machine has it.
#[derive(Serialize)]
struct Capability {
    name: &'static str,
    works: bool,
    /// Details, or why it is not available and what is used instead.
    detail: String,
}

impl Capability {
    /// A capability that exists if a probe has succeeded.
    fn probed<T>(
        name: &'static str,
        probe: std::io::Result<T>,
        works: &str,
        fails: impl Fn(std::io::Error) -> String,
    ) -> Self {
        Self {
            name,
            works: probe.is_ok(),
            detail: probe.map_or_else(fails, |_| works.to_owned()),
        }
    }
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let output = Output::new(arguments.json);
    let machine = Machine::here();
    let capabilities = probe();
    let limits = limits();
    output.line(&format!("causeway {VERSION}, commit {COMMIT}"));
    output.line(&machine.text());
    output.line("");
    let mut table = Table::new(&["capability", "works", "detail"]);
    for capability in &capabilities {
        table.row(vec![
            capability.name.to_owned(),
            if capability.works { "yes" } else { "no" }.to_owned(),
            capability.detail.clone(),
        ]);
    }
    output.line(&table.text());
    output.line("");
    let mut table = Table::new(&["limit", "now", "at most"]);
    table.align_right(&[1, 2]);
    for (name, now, most) in &limits {
        table.row(vec![(*name).to_owned(), now.clone(), most.clone()]);
    }
    output.line(&table.text());
    let masks = log::masks().map_or_else(String::new, |masks| masks.to_string());
    output.line("");
    output.line(&format!(
        "log: prints and records {masks} (${} changes it, `causeway log` for running processes)",
        log::MASKS_VARIABLE
    ));
    output.line("messages: `causeway top` shows what processes do with them");
    let servers = match (
        arguments.config.is_some(),
        find(arguments.config.as_deref()),
    ) {
        (_, Ok(file)) => describe_servers(&output, &file)?,
        (true, Err(failure)) => return Err(failure),
        (false, Err(failure)) => {
            output.line("");
            output.line(&format!(
                "no file system here: {}; see `causeway fs dev`",
                failure.why
            ));
            Vec::new()
        }
    };
    output.object(&json!({
        "version": VERSION, "commit": COMMIT, "machine": machine,
        "capabilities": capabilities,
        "limits": limits.iter().map(|(name, now, most)| json!({
            "name": name, "now": now, "most": most })).collect::<Vec<_>>(),
        "log": { "masks": masks, "variable": log::MASKS_VARIABLE },
        "servers": servers }));
    Ok(())
}

fn probe() -> Vec<Capability> {
    vec![
        probe_attach(),
        probe_memfd(),
        probe_sockets(),
        probe_tcp(),
        probe_uring(),
        probe_cores(),
    ]
}

/// Copies from a child's memory, as large transfers between processes do.
fn probe_attach() -> Capability {
    let capability = |works, detail| Capability {
        name: "cross-memory attach",
        works,
        detail,
    };
    let fails = |why: String| {
        let instead = "large transfers between processes are copied through shared memory";
        capability(false, format!("{why}; {instead}"))
    };
    // The probe's child process only waits: the kernel permits the same for it as for any peer of
    // this user. Address 0 is never mapped, so a permitted call fails with "bad address".
    let child =
        causeway_command::workers::command::<Assignment>().and_then(|mut command| command.spawn());
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return fails(format!("not probed: no process to try it with ({error})")),
    };
    let into = Memory::zeroed(8);
    let mut local = LocalSpans::new();
    local.push(&into, 0..8);
    let mut remote = RemoteSpans::new();
    remote.push(4096, 8);
    let probed = i32::try_from(child.id())
        .map_err(std::io::Error::other)
        .and_then(|pid| causeway_sys::attach::read(pid, &local, &remote));
    drop(child.stdin.take());
    let _ = child.wait();
    let scope = ptrace_scope();
    match probed.as_ref().map_err(std::io::Error::raw_os_error) {
        Ok(_) | Err(Some(14)) => capability(
            true,
            "large transfers between processes are copied once".to_owned(),
        ),
        Err(Some(1)) => fails(format!("refused by the kernel (EPERM{scope})")),
        Err(Some(38)) => {
            fails("not in this kernel (ENOSYS), or forbidden by a container".to_owned())
        }
        Err(_) => fails(
            probed
                .err()
                .map_or_else(String::new, |error| error.to_string()),
        ),
    }
}

fn ptrace_scope() -> String {
    std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope")
        .map(|scope| format!(", kernel.yama.ptrace_scope is {}", scope.trim()))
        .unwrap_or_default()
}

fn probe_memfd() -> Capability {
    let made = causeway_sys::memfd::create_fixed("causeway-probe", 4096)
        .and_then(causeway_sys::memfd::checked_len);
    Capability::probed(
        "memfd with seals",
        made,
        "shared memory leaves nothing behind; the size of /dev/shm does not matter",
        |error| format!("{error}; the shm method is not available, tcp is used"),
    )
}

fn probe_sockets() -> Capability {
    Capability::probed(
        "shm between processes",
        causeway_sys::socket::RecordSocket::pair().and_then(|(one, _two)| one.peer()),
        "Unix sockets identify the peer",
        |error| format!("{error}; tcp is used"),
    )
}

fn probe_tcp() -> Capability {
    Capability::probed(
        "tcp",
        std::net::TcpListener::bind(("127.0.0.1", 0)),
        "the loopback interface can be listened at",
        |error| format!("the loopback interface cannot be listened at: {error}"),
    )
}

fn probe_uring() -> Capability {
    let switched_off = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled")
        .ok()
        .and_then(|text| text.trim().parse::<u32>().ok());
    // The kernel has the set-up call from Linux 5.1 on; the switch exists from 6.6 on.
    let (works, detail) = match (switched_off, kernel_at_least(5, 1)) {
        (Some(2), _) => (false, "switched off (kernel.io_uring_disabled is 2)"),
        (Some(1), _) => (
            false,
            "for privileged processes only (kernel.io_uring_disabled is 1)",
        ),
        (_, false) => (false, "this kernel is older than 5.1"),
        (_, true) => (true, "there, but not needed"),
    };
    Capability {
        name: "io_uring",
        works,
        detail: format!("{detail}; servers use threads with positioned reads and writes"),
    }
}

fn kernel_at_least(major: u32, minor: u32) -> bool {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || {
        numbers
            .next()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0_u32)
    };
    (next(), next()) >= (major, minor)
}

fn probe_cores() -> Capability {
    let cores = causeway_sys::pin::allowed_cpus().map(|cpus| cpus.len());
    Capability {
        name: "processors",
        works: cores.as_ref().is_ok_and(|count| *count > 1),
        detail: match cores {
            Ok(1) => "one: waiting processes sleep at once instead of spinning".to_owned(),
            Ok(count) => format!("{count}: waiting processes spin a little before they sleep"),
            Err(error) => format!("not known: {error}"),
        },
    }
}

fn limits() -> Vec<(&'static str, String, String)> {
    let number = |value: Option<u64>| value.map_or_else(|| "no limit".to_owned(), count_text);
    let size = |value: Option<u64>| value.map_or_else(|| "no limit".to_owned(), bytes_text);
    let files = getrlimit(Resource::Nofile);
    let locked = getrlimit(Resource::Memlock);
    let memory = getrlimit(Resource::As);
    vec![
        ("open files", number(files.current), number(files.maximum)),
        ("locked memory", size(locked.current), size(locked.maximum)),
        ("address space", size(memory.current), size(memory.maximum)),
    ]
}

/// Prints over which method every server of a running file system is reached.
fn describe_servers(output: &Output, file: &Path) -> Outcome<Vec<serde_json::Value>> {
    let session = Session::open(&Target {
        config: Some(file.to_owned()),
        via: None,
        json: output.json,
    })?;
    output.line("");
    output.line(&format!(
        "file system {} ({})",
        session.configuration.name,
        std::path::absolute(file)
            .unwrap_or_else(|_| file.to_owned())
            .display()
    ));
    output.line(&match &session.configuration.key_file {
        Some(key) => format!("  key: {}", key.display()),
        None => "  key: none; only processes of one user on this host".to_owned(),
    });
    if let Some(agent) = session.configuration.agent() {
        let socket = agent.socket.display();
        output.line(&format!(
            "  this node's agent speaks for this user, who may not read the key: {socket}"
        ));
    } else if let Some(nodes) = session.configuration.nodes().map_err(unreadable)? {
        let known = nodes.current();
        let own = known.member().certificate();
        output.line(&format!(
            "  this node: {} ({}), certificate {:016x}",
            own.name,
            own.roles.join(", "),
            own.serial
        ));
    }
    let mut objects = Vec::new();
    for (index, server) in session.configuration.servers.iter().enumerate() {
        let mut client = session.client()?;
        let reply = client.ping(index);
        let facts = client
            .report(index)
            .map(|report| report.facts)
            .unwrap_or_default();
        let error = reply.err().map(|error| escaped(&error.to_string()));
        let verdict = match &error {
            None => paint("reached", Style::Green),
            Some(error) => paint(&format!("not reached: {error}"), Style::Red),
        };
        output.line(&format!("  {}: {verdict}", server.name));
        for (name, value) in &facts {
            output.line(&format!("    {name}: {}", escaped(value)));
        }
        objects.push(json!({
            "server": server.name, "addresses": server.addresses, "reached": error.is_none(),
            "error": error, "facts": facts_json(&facts) }));
    }
    Ok(objects)
}
