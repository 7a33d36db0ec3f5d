//! `causeway fs …`: running and using a file system.
//!
//! [`session`] finds the configuration and connects; [`engine`] drives every verb that works on
//! trees (walking, workers, progress, failures), and [`at_end`] carries out the steps that copies
//! defer to the end; [`tree`] walks directories of the file system and [`local`] those of this
//! machine, each by object number or descriptor and not by path; [`mod@source`] reads files that
//! other clients may replace meanwhile; [`partial`] handles files that are not complete yet,
//! [`store`] completes one, [`small`] many small ones at once; [`lists`] keeps access control lists; [`sparse`] finds holes; then one
//! module per verb.

mod agent;
mod at_end;
pub(crate) mod engine;
mod local;
mod partial;
pub(crate) mod session;
mod small;
mod source;
mod sparse;
mod store;
pub(crate) mod text;
pub(crate) mod tree;

mod cat;
mod change;
mod control;
mod cp;
mod detached;
mod dev;
mod df;
mod du;
mod fsck;
mod get;
pub(crate) mod init;
mod links;
mod lists;
mod ls;
pub(crate) mod mkdir;
mod mount;
mod mv;
mod new_file;
mod node;
pub(crate) mod ping;
pub(crate) mod put;
mod rm;
mod scrub;
mod serve;
mod servers;
mod stat;

use causeway_command::failure::Outcome;
use clap::{Args, Subcommand};

/// Run a parallel file system, or work with the files in one
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Dev(dev::Arguments),
    Init(init::Arguments),
    Serve(serve::Arguments),
    Put(put::Arguments),
    Get(get::Arguments),
    Ls(ls::Arguments),
    Stat(stat::Arguments),
    Cat(cat::Arguments),
    Cp(cp::Arguments),
    Mv(mv::Arguments),
    Rm(rm::Arguments),
    Mkdir(mkdir::Arguments),
    Ln(links::Arguments),
    Chmod(change::chmod::Arguments),
    Touch(change::touch::Arguments),
    Truncate(change::truncate::Arguments),
    Du(du::Arguments),
    Df(df::Arguments),
    Ping(ping::Arguments),
    Servers(servers::Arguments),
    Node(node::Arguments),
    Agent(agent::Arguments),
    Fsck(fsck::Arguments),
    Scrub(scrub::Arguments),
    Mount(mount::MountArguments),
    Umount(mount::UnmountArguments),
}

impl Arguments {
    /// Whether it is a server that runs, or an agent.
    pub(crate) fn serves(&self) -> bool {
        matches!(self.verb, Verb::Serve(_) | Verb::Agent(_))
    }
}

/// Runs a verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    match arguments.verb {
        Verb::Dev(arguments) => dev::run(arguments),
        Verb::Init(arguments) => init::run(arguments),
        Verb::Serve(arguments) => serve::run(arguments),
        Verb::Put(arguments) => put::run(arguments),
        Verb::Get(arguments) => get::run(arguments),
        Verb::Ls(arguments) => ls::run(arguments),
        Verb::Stat(arguments) => stat::run(arguments),
        Verb::Cat(arguments) => cat::run(arguments),
        Verb::Cp(arguments) => cp::run(arguments),
        Verb::Mv(arguments) => mv::run(arguments),
        Verb::Rm(arguments) => rm::run(arguments),
        Verb::Mkdir(arguments) => mkdir::run(arguments),
        Verb::Ln(arguments) => links::run(arguments),
        Verb::Chmod(arguments) => change::chmod::run(arguments),
        Verb::Touch(arguments) => change::touch::run(arguments),
        Verb::Truncate(arguments) => change::truncate::run(arguments),
        Verb::Du(arguments) => du::run(arguments),
        Verb::Df(arguments) => df::run(arguments),
        Verb::Ping(arguments) => ping::run(arguments),
        Verb::Servers(arguments) => servers::run(arguments),
        Verb::Node(arguments) => node::run(arguments),
        Verb::Agent(arguments) => agent::run(arguments),
        Verb::Fsck(arguments) => fsck::run(arguments),
        Verb::Scrub(arguments) => scrub::run(arguments),
        Verb::Mount(arguments) => mount::mount(arguments),
        Verb::Umount(arguments) => mount::unmount(arguments),
    }
}
