//! What fsync on a mount reports of files that were written, closed, and opened again after their servers had lost power or were killed.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use causeway_fs::config::{Configuration, Durability};
use causeway_fs::sabotage;
use causeway_testkit::power::{self, Disk};
use rustix::fs::{Timespec, Timestamps};
use rustix::io::Errno;
use rustix::process::{getgid, getuid};

use super::can_mount;
use crate::nodes::Server;
use crate::stand::{Run, write_as};

/// Bytes of the servers' disk.
const CAPACITY: u64 = 1 << 30;
/// A file of this size lies with the metadata.
const SMALL: usize = 7;
/// A file of this size lies on all I/O servers.
const LARGE: usize = 300_000;

/// Servers of a synced file system on a disk that records syncs, and a mount.
struct Cluster {
    mounted: super::Mounted,
    configuration: Configuration,
    directory: tempfile::TempDir,
    servers: Vec<Server>,
    disk: Option<power::Mounted>,
    boot: u32,
}

impl Cluster {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut configuration =
            Configuration::one_machine("losses", 0x1055, directory.path(), 2, Durability::Synced);
        configuration.distribution.strip_size = 16 << 10;
        let config = directory.path().join("causeway.toml");
        write_as(&config, &configuration.to_toml(), 0o644, None);
        let owner = (getuid().as_raw(), getgid().as_raw());
        let disk = power::Mounted::new(Disk::new(CAPACITY, owner)).unwrap();
        let servers = serve(&directory, &mut configuration, &disk, 1, &["--format"]);
        let mounted = mount(&directory, &config);
        Self {
            mounted,
            configuration,
            directory,
            servers,
            disk: Some(disk),
            boot: 1,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.mounted.at(name)
    }

    /// Kills the servers and starts them again.
    fn kill(&mut self) {
        self.servers.clear();
        let disk = self.disk.as_ref().unwrap();
        self.servers = serve(
            &self.directory,
            &mut self.configuration,
            disk,
            self.boot,
            &[],
        );
    }

    /// Kills the servers, and starts them again after a boot of their host on what they have synced.
    fn lose_power(&mut self) {
        self.servers.clear();
        let left = self.disk.take().unwrap().disk().crash_before_write_back();
        self.disk = Some(power::Mounted::new(left).unwrap());
        self.boot += 1;
        self.kill();
    }
}

fn mount(directory: &tempfile::TempDir, config: &std::path::Path) -> super::Mounted {
    let point = tempfile::tempdir().unwrap();
    let path = point.path().to_str().unwrap();
    Run::new(directory.path(), &["fs", "mount", path])
        .config(config)
        .ok();
    super::Mounted {
        directory: point,
        unmounted: false,
    }
}

/// Starts all servers; they are killed when the values are dropped.
fn serve(
    directory: &tempfile::TempDir,
    configuration: &mut Configuration,
    disk: &power::Mounted,
    boot: u32,
    more: &[&str],
) -> Vec<Server> {
    for server in &mut configuration.servers {
        server.directory = disk.path().join(&server.name);
    }
    let config = directory.path().join("servers.toml");
    write_as(&config, &configuration.to_toml(), 0o644, None);
    let start = |name: &str| {
        let arguments = [&["fs", "serve", "--server", name], more].concat();
        let run = Run::new(directory.path(), &arguments)
            .config(&config)
            .variable(sabotage::BOOT, &boot.to_string());
        let server = Server::start(name, &run);
        let line = server.out.next();
        assert!(line.contains("ready"), "{line}{}", server.err.rest());
        server
    };
    let names = configuration.servers.iter();
    names.map(|server| start(&server.name)).collect()
}

fn is_lost(outcome: std::io::Result<()>) -> bool {
    match outcome {
        Ok(()) => false,
        Err(error) => {
            assert_eq!(Errno::from_io_error(&error), Some(Errno::IO), "{error}");
            true
        }
    }
}

fn content(len: usize) -> Vec<u8> {
    vec![7; len]
}

#[test]
fn fsync_of_a_file_that_was_closed_before_a_loss_of_power_fails() {
    if !can_mount() {
        return;
    }
    let mut cluster = Cluster::new();
    // The small one last: each sync of metadata also makes those durable that were changed before.
    for (name, len) in [("untouched", LARGE), ("large", LARGE), ("small", SMALL)] {
        let mut file = File::create(cluster.at(name)).unwrap();
        file.sync_all().unwrap();
        file.write_all(&content(len)).unwrap();
        if name == "untouched" {
            file.sync_all().unwrap();
        }
    }
    cluster.lose_power();
    for (name, len) in [("small", SMALL), ("large", LARGE)] {
        let path = cluster.at(name);
        // The bytes are lost indeed.
        assert!(std::fs::read(&path).map_or(true, |found| found != content(len)));
        let file = File::options().write(true).open(&path).unwrap();
        assert!(is_lost(file.sync_all()), "{name}");
        drop(file);
        // A datafile that is absent now is not filled up with zeros by a write.
        let mut again = File::create(&path).unwrap();
        again.write_all(&content(len)).unwrap();
        again.sync_all().unwrap();
    }
    let untouched = File::open(cluster.at("untouched")).unwrap();
    untouched.sync_all().unwrap();
    drop(untouched);
    cluster.lose_power();
    for (name, len) in [("small", SMALL), ("large", LARGE), ("untouched", LARGE)] {
        assert!(
            std::fs::read(cluster.at(name)).unwrap() == content(len),
            "{name}"
        );
    }
}

#[test]
fn fsync_of_a_file_that_was_closed_before_its_servers_were_killed_makes_it_durable() {
    if !can_mount() {
        return;
    }
    let mut cluster = Cluster::new();
    let files = [("small", SMALL), ("large", LARGE)];
    for (name, len) in files {
        std::fs::write(cluster.at(name), content(len)).unwrap();
    }
    cluster.kill();
    for (name, _) in files {
        File::open(cluster.at(name)).unwrap().sync_all().unwrap();
    }
    cluster.lose_power();
    for (name, len) in files {
        assert!(
            std::fs::read(cluster.at(name)).unwrap() == content(len),
            "{name}"
        );
    }
}

/// What a mount that has cached nothing sees of a file's time and mode.
fn attributes(cluster: &Cluster, name: &str) -> (SystemTime, u32) {
    let config = cluster.directory.path().join("causeway.toml");
    let other = mount(&cluster.directory, &config);
    let found = std::fs::metadata(other.at(name)).unwrap();
    (found.modified().unwrap(), found.mode() & 0o777)
}

#[test]
fn fsync_reports_once_that_attributes_were_lost() {
    if !can_mount() {
        return;
    }
    let mut cluster = Cluster::new();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let set_time = |path: &Path| {
        let to = Timespec {
            tv_sec: 1_000_000_000,
            tv_nsec: 0,
        };
        let times = Timestamps {
            last_access: to,
            last_modification: to,
        };
        let flags = rustix::fs::AtFlags::empty();
        rustix::fs::utimensat(rustix::fs::CWD, path, &times, flags).unwrap();
    };
    let set_mode = |path: &Path| {
        std::fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    };
    let names = ["closed", "mode", "open", "directory"];
    std::fs::create_dir(cluster.at("directory")).unwrap();
    let mut open = None;
    for name in ["untouched", "closed", "mode", "open"] {
        let mut file = File::create(cluster.at(name)).unwrap();
        file.write_all(&content(SMALL)).unwrap();
        file.sync_all().unwrap();
        open = Some(file);
    }
    let set_all = |cluster: &Cluster| {
        for name in names {
            match name {
                "mode" => set_mode(&cluster.at(name)),
                _ => set_time(&cluster.at(name)),
            }
        }
    };
    let is_set = |cluster: &Cluster, name| {
        let (modified, mode) = attributes(cluster, name);
        match name {
            "mode" => mode == 0o777,
            _ => modified == time,
        }
    };
    set_all(&cluster);
    cluster.lose_power();
    for name in names {
        assert!(!is_set(&cluster, name), "{name}");
        let file = match name {
            "open" => open.take().unwrap(),
            _ => File::open(cluster.at(name)).unwrap(),
        };
        assert!(is_lost(file.sync_all()), "{name}");
        file.sync_all().unwrap();
    }
    File::open(cluster.at("untouched"))
        .unwrap()
        .sync_all()
        .unwrap();
    set_all(&cluster);
    for name in names {
        File::open(cluster.at(name)).unwrap().sync_all().unwrap();
    }
    cluster.lose_power();
    for name in names {
        assert!(is_set(&cluster, name), "{name}");
        File::open(cluster.at(name)).unwrap().sync_all().unwrap();
    }
}

/// Also if the file got another name before it is synced, has several, or none any more.
#[test]
fn fsync_reports_a_loss_once_by_whatever_name_the_file_is_synced() {
    if !can_mount() {
        return;
    }
    let mut cluster = Cluster::new();
    let mut unlinked = None;
    for name in ["renamed", "linked", "unlinked"] {
        let mut file = File::create(cluster.at(name)).unwrap();
        file.sync_all().unwrap();
        file.write_all(&content(LARGE)).unwrap();
        unlinked = Some(file);
    }
    std::fs::rename(cluster.at("renamed"), cluster.at("now")).unwrap();
    std::fs::hard_link(cluster.at("linked"), cluster.at("second")).unwrap();
    std::fs::remove_file(cluster.at("unlinked")).unwrap();
    cluster.lose_power();
    for name in ["now", "second", "unlinked"] {
        let file = match name {
            "unlinked" => unlinked.take().unwrap(),
            _ => File::options().write(true).open(cluster.at(name)).unwrap(),
        };
        assert!(is_lost(file.sync_all()), "{name}");
        file.set_len(0).unwrap();
        (&file).write_all(&content(LARGE)).unwrap();
        file.sync_all().unwrap();
    }
}

/// Bytes that were written after a loss, which nobody has noticed before, are not lost.
#[test]
fn fsync_does_not_report_a_loss_from_before_the_file_was_written() {
    if !can_mount() {
        return;
    }
    let mut cluster = Cluster::new();
    let files = [("small", SMALL), ("large", LARGE)];
    for (name, len) in files {
        let mut file = File::create(cluster.at(name)).unwrap();
        file.write_all(&content(len)).unwrap();
        file.sync_all().unwrap();
    }
    cluster.lose_power();
    for (name, len) in files {
        let path = cluster.at(name);
        let mut file = File::options().write(true).open(path).unwrap();
        file.write_all(&vec![8; len]).unwrap();
        file.sync_all().unwrap();
    }
    cluster.lose_power();
    for (name, len) in files {
        assert!(
            std::fs::read(cluster.at(name)).unwrap() == vec![8; len],
            "{name}"
        );
    }
}
