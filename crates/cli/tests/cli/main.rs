//! The command as its users meet it: real processes, temporary directories, exit codes and texts.
#![forbid(unsafe_code)]

mod agent;
mod bench;
mod demo;
mod files;
mod full;
mod help;
mod holes;
mod liars;
mod lists;
mod many;
mod mount;
mod nodes;
mod replaced;
mod running;
mod safety;
mod scrub;
mod servers;
mod sim;
mod small;
mod stand;
mod stopped;
mod top;
mod users;
mod wrong_use;
