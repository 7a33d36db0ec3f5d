//! Chapter 6: parallel jobs that share the processors of a cluster.
//!
//! Eight hosts with one processor each run several jobs, with one process of each job on each host.
//! Their messages bypass the hosts' kernels, so that a host's dispatcher cannot see which process
//! waits for which; strategies ([`causeway_cosched`]) give it hints.
//!
//! | part | contents |
//! |---|---|
//! | [`dispatch`] | the host's dispatcher: Solaris's time-sharing class |
//! | [`programs`] | the programs of the jobs: LIFE, MG, LU, EP |
//! | [`workloads`] | which jobs run together |
//! | [`costs`] | the costs of everything, from a profile |
//! | [`world`] | nodes and messages at work |

pub mod costs;
pub mod dispatch;
mod node;
pub mod programs;
mod thread;
pub mod workloads;
pub mod world;

pub use node::Counts;
pub use world::{DidNotEnd, Experiment, JobOutcome, Outcome, run};
