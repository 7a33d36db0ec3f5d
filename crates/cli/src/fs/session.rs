//! Finding the file system that a verb is about, and connecting to it.

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use causeway_command::failure::{Failure, Outcome};
use causeway_command::output::Output;
use causeway_command::remote::{base_name, load, unreadable};
use causeway_fs::client::{Client, ClientOptions};
use causeway_fs::config::{Configuration, PLACES, ServerEntry, VARIABLE, usual_file};
use clap::Args;
use clap::builder::TypedValueParser;

/// Options of every verb that talks to a file system.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// The file system's configuration [default: $CAUSEWAY_CONFIG, ./causeway.toml,
    /// ./causeway-dev/causeway.toml]
    #[arg(long, short = 'C', value_name = "FILE", help_heading = "File system")]
    pub(crate) config: Option<PathBuf>,
    /// Use only addresses of this scheme, such as `tcp`
    #[arg(long, value_name = "SCHEME", help_heading = "File system")]
    pub(crate) via: Option<String>,
    /// Print exactly one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// A verb's file system: its configuration, and how clients are made.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    /// The configuration.
    pub(crate) configuration: Arc<Configuration>,
    /// The configuration file's path.
    pub(crate) file: PathBuf,
    /// Use only addresses of this scheme.
    pub(crate) via: Option<String>,
    /// How to present results.
    pub(crate) output: Output,
}

impl Session {
    /// Finds and reads the configuration.
    pub(crate) fn open(target: &Target) -> Outcome<Self> {
        let file = find(target.config.as_deref())?;
        let configuration = load(&file)?;
        if let Some(scheme) = &target.via {
            check_scheme(&configuration, scheme, &file)?;
        }
        Ok(Self {
            configuration: Arc::new(configuration),
            file,
            via: target.via.clone(),
            output: Output::new(target.json),
        })
    }

    /// A new client, for one thread.
    pub(crate) fn client(&self) -> Outcome<Client> {
        let options = ClientOptions {
            only_scheme: self.via.clone(),
            ..ClientOptions::default()
        };
        Ok(Client::connect(&self.configuration, options)?)
    }

    /// The name of a server, by its index in the configuration.
    pub(crate) fn server_name(&self, index: usize) -> &str {
        let servers = &self.configuration.servers;
        servers.get(index).map_or("?", |server| &server.name)
    }

    /// The index of the server of this name, which is to be an I/O server if `only_io`.
    pub(crate) fn find_server(&self, name: &str, only_io: bool) -> Outcome<usize> {
        find_server(&self.configuration, &self.file, name, only_io)
    }
}

/// As [`Session::find_server`], in a configuration that was read from this file.
pub(crate) fn find_server(
    configuration: &Configuration,
    file: &Path,
    name: &str,
    only_io: bool,
) -> Outcome<usize> {
    let is_meant = |server: &&ServerEntry| server.io || !only_io;
    match configuration.server(name) {
        Some((index, server)) if is_meant(&server) => Ok(index),
        _ => {
            let kind = if only_io { "I/O server" } else { "server" };
            let known = configuration.servers.iter().filter(is_meant);
            Err(Failure::usage(
                format!("finding the server {name}"),
                format!("{} has no {kind} of this name", file.display()),
            )
            .hint(format!("it has {}", server_names(known))))
        }
    }
}

/// The names of servers, in a sentence.
pub(crate) fn server_names<'a>(servers: impl IntoIterator<Item = &'a ServerEntry>) -> String {
    let names = servers.into_iter().map(|server| server.name.as_str());
    names.collect::<Vec<_>>().join(", ")
}

/// Refuses a scheme with which some server cannot be reached.
fn check_scheme(configuration: &Configuration, scheme: &str, file: &Path) -> Outcome {
    let scheme_of = |address: &String| {
        let scheme = address.split_once("://").map(|(scheme, _)| scheme);
        scheme.unwrap_or_default().to_owned()
    };
    for server in &configuration.servers {
        let mut schemes: Vec<String> = server.addresses.iter().map(scheme_of).collect();
        if schemes.iter().any(|known| known == scheme) {
            continue;
        }
        schemes.dedup();
        return Err(Failure::usage(
            format!("reading --via {scheme}"),
            format!("the server {} has no address of this scheme", server.name),
        )
        .hint(format!(
            "its addresses in {} are {}: use the scheme of one of these, or add an address there and restart the server",
            file.display(),
            schemes.join(", ")
        )));
    }
    Ok(())
}

/// The configuration file to use: the one named, the environment's, or one in a usual place.
pub(crate) fn find(named: Option<&Path>) -> Outcome<PathBuf> {
    let from_variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let (file, source) = match (named, from_variable) {
        (Some(file), _) => (file.to_owned(), "named by --config"),
        (None, Some(file)) => (PathBuf::from(file), "named by $CAUSEWAY_CONFIG"),
        (None, None) => {
            return usual_file().map_err(unreadable)?.ok_or_else(none_found);
        }
    };
    if file.is_file() {
        return Ok(file);
    }
    let why = match file.metadata() {
        Ok(_) => "it is not a file".to_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            "the file does not exist".to_owned()
        }
        Err(error) => error.to_string(),
    };
    Err(
        Failure::usage(format!("reading the configuration {}", file.display()), why).hint(format!(
            "it is {source}; start a file system on this machine with `causeway fs dev`, or write a \
             configuration with `causeway fs init`"
        )),
    )
}

fn none_found() -> Failure {
    Failure::usage(
        "finding the file system",
        format!(
            "no --config, no ${VARIABLE}, and neither ./{} nor ./{} exists",
            PLACES[0], PLACES[1]
        ),
    )
    .hint("start one on this machine with `causeway fs dev`, or write a configuration with `causeway fs init`")
}

/// An absolute path in the file system, as given on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemotePath(pub(crate) Vec<u8>);

impl RemotePath {
    /// Whether the user wrote a slash at the end, and so means a directory.
    pub(crate) fn names_directory(&self) -> bool {
        self.0.len() > 1 && self.0.last() == Some(&b'/')
    }

    /// The path without slashes at the end.
    pub(crate) fn trimmed(&self) -> Vec<u8> {
        let mut path = self.0.clone();
        while path.len() > 1 && path.last() == Some(&b'/') {
            path.pop();
        }
        path
    }
}

/// The names that these paths have in a directory that they are copied or moved into.
pub(crate) fn base_names(paths: &[RemotePath]) -> Vec<&[u8]> {
    paths.iter().map(|path| base_name(&path.0)).collect()
}

/// These paths, or the root if none is given.
pub(crate) fn or_root(paths: &[RemotePath]) -> Cow<'_, [RemotePath]> {
    match paths {
        [] => vec![RemotePath(b"/".to_vec())].into(),
        paths => paths.into(),
    }
}

/// A parser for [`RemotePath`] arguments of verbs that change nothing: any bytes, but absolute.
pub(crate) fn remote_path() -> impl clap::builder::TypedValueParser<Value = RemotePath> {
    clap::builder::OsStringValueParser::new().try_map(absolute)
}

/// The same for verbs that change something: when the verb is carried out, `.` and `..` at the end
/// could name something else, or more than was meant.
pub(crate) fn remote_name() -> impl clap::builder::TypedValueParser<Value = RemotePath> {
    clap::builder::OsStringValueParser::new().try_map(|text: OsString| {
        let path = absolute(text)?;
        match base_name(&path.0) {
            b"." | b".." => {
                Err("the path ends in . or ..; write the name of what is meant instead")
            }
            _ => Ok(path),
        }
    })
}

fn absolute(text: OsString) -> Result<RemotePath, &'static str> {
    let bytes = text.into_vec();
    match bytes.first() {
        Some(b'/') => Ok(RemotePath(bytes)),
        _ => Err("paths in the file system begin with a slash, like /data/file"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_at_the_end_mean_a_directory() {
        assert!(RemotePath(b"/a/".to_vec()).names_directory());
        assert!(!RemotePath(b"/".to_vec()).names_directory());
        assert_eq!(RemotePath(b"/a//".to_vec()).trimmed(), b"/a");
        assert_eq!(RemotePath(b"//".to_vec()).trimmed(), b"/");
    }
}
