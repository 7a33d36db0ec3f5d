//! Processes that serve the mounts of `causeway bench fs`: Causeway's, and one of a plain directory.

use std::path::PathBuf;

use causeway_command::failure::{Doing, Outcome};
use causeway_command::workers::Channel;
use causeway_fs::client::ClientOptions;
use causeway_fs::config::Configuration;
use causeway_mount::options::Options;
use causeway_mount::session::{self, Spec, default_threads};
use serde::{Deserialize, Serialize};

use super::pass_through;
use super::work::Report;

/// The file system that is mounted, and the directory at which it is mounted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Assignment {
    pub(crate) source: Source,
    pub(crate) at: PathBuf,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Source {
    /// The file system with this configuration, as `causeway fs mount` mounts it.
    Causeway(PathBuf),
    /// A directory, passed through.
    Directory(PathBuf),
}

/// Serves a mount until the command closes the channel.
pub(crate) fn run(assignment: &Assignment, channel: &mut Channel) -> Outcome {
    let doing = || format!("mounting at {}", assignment.at.display());
    match &assignment.source {
        Source::Causeway(config) => {
            let configuration = Configuration::load(config).doing(doing)?;
            let at = session::mount_point(&assignment.at)?;
            let unmounter = at.unmounter();
            let mount = session::mount(&Spec {
                configuration: &configuration,
                client: ClientOptions::default(),
                name: &config.to_string_lossy(),
                at: &at,
                options: &Options::default(),
                threads: default_threads(),
            })?;
            wait(channel)?;
            unmounter.unmount();
            mount.serve();
        }
        Source::Directory(from) => {
            let session =
                pass_through::mount(from, &assignment.at, default_threads()).doing(doing)?;
            wait(channel)?;
            session.umount_and_join().doing(doing)?;
        }
    }
    Ok(())
}

/// Reports that it is mounted, and waits until the mount is no longer needed.
fn wait(channel: &mut Channel) -> Outcome {
    channel.send(&Report::Ready)?;
    while channel.receive::<()>()?.is_some() {}
    Ok(())
}
