//! Databases on mounts.

use std::path::PathBuf;

use super::{Mounted, can_mount, is_long, shell};
use crate::stand::Stand;

#[test]
fn databases_keep_their_data_in_both_modes() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mut mounted = Mounted::new(&stand);
    for mode in ["delete", "wal"] {
        let said = shell(
            mounted.path(),
            &format!(
                "sqlite3 {mode}.db 'pragma journal_mode={mode}; create table t(a, b);
                 insert into t select value, hex(randomblob(200)) from generate_series(1, 5000);
                 update t set b = upper(b) where a % 7 = 0; delete from t where a % 5 = 0;'"
            ),
        );
        assert_eq!(said.trim(), mode);
    }
    mounted.unmount();
    let again = Mounted::new(&stand);
    for mode in ["delete", "wal"] {
        let said = shell(
            again.path(),
            &format!("sqlite3 {mode}.db 'pragma integrity_check; select count(*), sum(a) from t'"),
        );
        assert_eq!(said.trim(), "ok\n4000|10000000");
    }
}

/// The directory of PostgreSQL's programs, which Debian keeps out of the path.
fn postgres() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<_> = versions
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|programs| programs.join("initdb").is_file())
        .collect();
    found.sort();
    found.pop()
}

/// A cluster of databases is made, used by several clients, stopped as a loss of power would stop it, and recovers; then all that was
/// committed is there and every table and index is sound. `make test-mount` installs PostgreSQL, and does more of it.
#[test]
fn postgresql_recovers_what_was_committed() {
    if !can_mount() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!(
            "POSTGRESQL IS NOT TESTED: that needs root, as PostgreSQL runs as another user than the mount"
        );
        return;
    }
    let Some(programs) = postgres() else {
        assert!(
            !is_long(),
            "tools/mount-needs databases installs PostgreSQL"
        );
        eprintln!("POSTGRESQL IS NOT TESTED: it is not installed (tools/mount-needs databases)");
        return;
    };
    let stand = Stand::new();
    let (one, other) = (
        Mounted::with(&stand, &stand.config, &["-o", "allow_other"]),
        Mounted::with(&stand, &stand.config, &["-o", "allow_other"]),
    );
    shell(
        one.path(),
        "chmod 755 .; mkdir -m 700 pg; chown 65534:65534 pg",
    );
    let (scale, transactions) = if is_long() { (10, 2000) } else { (1, 50) };
    let sockets = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(sockets.path(), Some(65_534), Some(65_534)).unwrap();
    let run = |mounted: &Mounted, script: &str| {
        let settings = format!(
            "PATH={}:$PATH; export LC_ALL=C HOME=/ PGHOST={} PGUSER=postgres PGDATABASE=postgres PGDATA=pg/data
             start() {{ pg_ctl -w -t 120 -l pg/log -o \"-k $PGHOST -c listen_addresses=''\" start >/dev/null; }}",
            programs.display(),
            sockets.path().display()
        );
        let script = format!("{settings}\n{script}");
        let quoted = script.replace('\'', "'\\''");
        shell(
            mounted.path(),
            &format!("exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -euc '{quoted}'"),
        )
    };
    run(&one, "initdb -A trust -U postgres >/dev/null");
    // Made on one mount, used on another, recovered on the first.
    run(
        &other,
        &format!(
            "start; pgbench -q -i -s {scale}; pgbench -n -c 4 -t {transactions} >/dev/null
             pg_ctl -m immediate stop >/dev/null"
        ),
    );
    let said = run(
        &one,
        "start
         psql -Atc 'select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)'
         psql -Atc 'select count(*) from pgbench_history'
         pg_amcheck --install-missing --all --heapallindexed
         pg_ctl -m fast stop >/dev/null",
    );
    assert_eq!(said, format!("t\n{}\n", 4 * transactions));
}
