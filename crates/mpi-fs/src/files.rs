//! Opening files, and removing them.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use causeway_fs::Error;
use causeway_fs::client::{Client, CreateOptions, File};
use causeway_fs::config::{ConfigError, Configuration};
use causeway_mpi::info::Info;
use causeway_mpi::io::storage::{FileSystem, Opening, Storage};
use causeway_wire::fs::{Body, Errno, Place};

use crate::connection::{Connection, InOrder, as_io, lock};
use crate::file::{FsFile, node_of};
use crate::hints;

/// Prefix of the names of files that are on the parallel file system.
const PREFIX: &str = "causeway:";

/// Most texts of a configuration that are remembered for one connection.
const MOST_SOURCES: usize = 4;

/// All files on parallel file systems that this process opens.
#[derive(Debug, Default)]
pub struct CausewayFiles {
    /// The connections in use, and the one that was used last.
    connections: Mutex<Vec<Known>>,
}

/// The file of a configuration, with its absolute path, and its text.
type Source = (PathBuf, String);

#[derive(Debug)]
struct Known {
    connection: Arc<Connection>,
    /// The files from which its configuration was read: their texts may differ in comments, and several files may have the
    /// same text.
    sources: Vec<Source>,
}

impl Known {
    /// Remembers another text of the same configuration.
    fn add(&mut self, source: Source) {
        self.sources.retain(|(file, _)| *file != source.0);
        if self.sources.len() == MOST_SOURCES {
            self.sources.remove(0);
        }
        self.sources.push(source);
    }
}

/// The path of a name.
fn path(name: &Path) -> io::Result<&[u8]> {
    let name = name.as_os_str().as_encoded_bytes();
    let path = name.strip_prefix(PREFIX.as_bytes()).unwrap_or(name);
    match path.first() {
        Some(b'/') => Ok(path),
        _ => Err(io::Error::new(
            ErrorKind::InvalidFilename,
            "behind `causeway:` has to be a path in the file system that begins with `/`",
        )),
    }
}

impl CausewayFiles {
    /// The connection with the file system of the configuration that the hints name, or of the one that programs use by default. A configuration
    /// file with the same text as that of an existing connection is not parsed again, nor are its key files read: when 8 processes on 2 processors
    /// opened a file, they spent a third of the time on parsing.
    fn connection(&self, info: &Info) -> io::Result<Arc<Connection>> {
        let source = || {
            let file = match hints::configuration(info) {
                Some(file) => file.to_owned(),
                None => Configuration::usual()?,
            };
            let text = Configuration::read(&file)?;
            // Relative names in the text belong to the file's directory.
            Ok((std::path::absolute(&file).unwrap_or(file), text))
        };
        let source = source().map_err(unusable)?;
        let mut connections = lock(&self.connections);
        let mut known = connections.iter();
        if let Some(known) = known.find(|known| known.sources.contains(&source)) {
            return Ok(Arc::clone(&known.connection));
        }
        let configuration = Configuration::load_text(&source.0, &source.1).map_err(unusable)?;
        let mut known = connections.iter_mut();
        if let Some(known) = known.find(|known| known.connection.configuration == configuration) {
            known.add(source);
            return Ok(Arc::clone(&known.connection));
        }
        connections.retain(|known| Arc::strong_count(&known.connection) > 1);
        let connection = Arc::new(Connection {
            configuration,
            client: InOrder::new(None),
            atomic_access: Mutex::default(),
        });
        connections.push(Known {
            connection: Arc::clone(&connection),
            sources: vec![source],
        });
        Ok(connection)
    }
}

/// An error of another kind than the one for a file that was not found.
fn unusable(error: ConfigError) -> io::Error {
    io::Error::other(format!("the file system's configuration: {error}"))
}

/// Fails if the node is no file, or the process has no permission to access it in this way.
fn check(client: &Client, file: &File, how: Opening, path: &[u8]) -> Result<(), Error> {
    let refused = |errno: Errno| Error {
        operation: "open",
        subject: String::from_utf8_lossy(path).escape_debug().to_string(),
        errno,
        message: errno.to_string(),
        server: None,
    };
    match file.node.body {
        Body::Directory(_) => return Err(refused(Errno::EISDIR)),
        Body::Link(_) => return Err(refused(Errno::ELOOP)),
        Body::Special { .. } => return Err(refused(Errno::ENXIO)),
        Body::Stuffed { .. } | Body::Striped { .. } => {}
    }
    if how.read {
        client.check_readable(file)?;
    }
    if how.write {
        client.check_writable(file)?;
    }
    Ok(())
}

/// Opens or makes a file, with hints, in a file system with this number of I/O servers.
fn open(
    client: &mut Client,
    path: &[u8],
    how: Opening,
    (info, servers): (&Info, usize),
) -> Result<File, Error> {
    let find = |client: &mut Client| client.open_held(path, true);
    let file = match how.create {
        false => find(client)?,
        true => {
            let usual = CreateOptions::default();
            let options = CreateOptions {
                exclusive: how.exclusive,
                // At most nine bits.
                mode: how
                    .permissions
                    .map_or(usual.mode, |bits| bits as u16 & 0o777),
                distribution: hints::distribution(info, servers),
                ..usual
            };
            match client.create_held(Place::from(path), &options) {
                // The name is that of a directory, or of a link to the file.
                Err(error) if error.errno == Errno::EEXIST && !how.exclusive => find(client)?,
                made => made?,
            }
        }
    };
    check(client, &file, how, path)?;
    Ok(file)
}

impl FileSystem for CausewayFiles {
    fn prefix(&self) -> &'static str {
        PREFIX
    }

    fn open(&self, name: &Path, how: Opening, info: &Info) -> io::Result<Arc<dyn Storage>> {
        let path = path(name)?;
        let connection = self.connection(info)?;
        let servers = connection.configuration.io_servers().len();
        let opened = connection.call(|client| open(client, path, how, (info, servers)));
        let file = opened.map_err(|error| as_io(&error))?;
        Ok(Arc::new(FsFile::new(connection, path, file, how.write)))
    }

    fn join(
        &self,
        name: &Path,
        how: Opening,
        info: &Info,
        description: &[u8],
    ) -> io::Result<Arc<dyn Storage>> {
        let path = path(name)?;
        let node = node_of(description)?;
        let connection = self.connection(info)?;
        let file = File::new(node);
        Ok(Arc::new(FsFile::new(connection, path, file, how.write)))
    }

    fn remove(&self, name: &Path, info: &Info) -> io::Result<()> {
        let path = path(name)?;
        let connection = self.connection(info)?;
        let removed = connection.call(|client| client.unlink(path));
        removed.map_err(|error| as_io(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_prefix_and_a_path_from_the_root() {
        let of = |name: &'static str| path(Path::new(name)).ok();
        assert_eq!(of("causeway:/a/b"), Some(&b"/a/b"[..]));
        assert_eq!(of("causeway:a"), None);
        assert_eq!(of("causeway:"), None);
    }

    #[test]
    fn a_configuration_is_the_known_one_until_its_text_changes() {
        let place = tempfile::tempdir().expect("a directory");
        let file = place.path().join("causeway.toml");
        let write = |timeout: &str| {
            let text = format!(
                "name = \"lab\"\nid = \"0123456789abcdef0123456789abcdef\"\ntimeout = \"{timeout}\"\n\
                 [[server]]\nname = \"meta\"\nroles = [\"metadata\", \"io\"]\n\
                 addresses = [\"shm:///run/meta\"]\ndirectory = \"/srv/meta\"\n"
            );
            std::fs::write(&file, text).expect("it is written");
        };
        let mut info = Info::default();
        let name = file.as_os_str().as_encoded_bytes();
        info.set(b"causeway_config", name).expect("a hint");
        let files = CausewayFiles::default();
        let find = || files.connection(&info);
        let parsed = || -> Vec<usize> {
            let known = lock(&files.connections);
            known.iter().map(|known| known.sources.len()).collect()
        };
        write("5 s");
        let first = find().expect("a connection");
        assert!(Arc::ptr_eq(&first, &find().expect("a connection")));
        write("6 s");
        let changed = find().expect("a connection");
        assert!(!Arc::ptr_eq(&first, &changed));
        assert_eq!(changed.configuration.timeout.as_secs(), 6);
        // Another text of the same configuration is remembered, replacing the earlier text of that file.
        write("6000 ms");
        for _ in 0..2 {
            assert!(Arc::ptr_eq(&changed, &find().expect("a connection")));
            assert_eq!(parsed(), [1, 1]);
            let known = lock(&files.connections);
            assert!(known[1].sources[0].1.contains("6000 ms"));
        }
        // So are the texts of a few files.
        for number in 0..2 * MOST_SOURCES {
            let other = place.path().join(format!("{number}.toml"));
            std::fs::copy(&file, &other).expect("it is copied");
            let mut info = Info::default();
            let name = other.as_os_str().as_encoded_bytes();
            info.set(b"causeway_config", name).expect("a hint");
            let found = files.connection(&info).expect("a connection");
            assert!(Arc::ptr_eq(&changed, &found));
        }
        assert_eq!(parsed(), [1, MOST_SOURCES]);
        std::fs::write(&file, "name = 1").expect("it is written");
        let error = find().expect_err("it is none").to_string();
        assert!(error.contains("causeway.toml"), "{error}");
        write("5 s");
        assert!(Arc::ptr_eq(&first, &find().expect("a connection")));
    }

    #[test]
    fn errors_keep_their_kind_and_say_what_to_do() {
        let error = |errno| Error {
            operation: "write",
            subject: "/a".to_owned(),
            errno,
            message: "no room".to_owned(),
            server: Some("io0".to_owned()),
        };
        let full = as_io(&error(Errno::ENOSPC));
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        let text = full.to_string();
        assert!(
            text.contains("/a") && text.contains("io0") && text.contains("causeway fs df"),
            "{text}"
        );
        assert_eq!(as_io(&error(Errno::ENOENT)).kind(), ErrorKind::NotFound);
        let damaged = as_io(&error(Errno::CORRUPT));
        assert!(damaged.to_string().contains("fsck"));
    }

    #[test]
    fn text_from_the_opening_process_is_checked() {
        let files = CausewayFiles::default();
        let how = Opening {
            read: true,
            write: false,
            create: false,
            exclusive: false,
            permissions: None,
        };
        let joined = files.join(Path::new("causeway:/a"), how, &Info::default(), b"nonsense");
        assert_eq!(joined.expect_err("nonsense").kind(), ErrorKind::InvalidData);
    }
}
