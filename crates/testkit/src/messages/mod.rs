//! One suite for the message layer over every method: an operation is brought into a state, and
//! then something happens to it. The peer is another process, which is stopped and killed for real.
//!
//! A medium joins by implementing [`Medium`] and naming it in [`crate::messages!`]. Parts, in reading
//! order:
//!
//! - `node`: an instance of the layer that records posted and completed operations, and
//!   checks contents.
//! - `peer_process`: the other process, and the orders that it carries out.
//! - [`situations`]: the states, each of them ended in every way: the peer dies, restarts, hangs; the
//!   operation is cancelled; the connection is dropped.
//! - [`moments`]: traffic of every kind in both directions, and a death at a random moment.
//! - [`waits`]: every event ends a wait, for waits of every length.
//! - [`pairs`]: two instances of one process that connect to each other.

mod node;
mod peer_process;

pub mod moments;
pub mod pairs;
pub mod situations;
pub mod waits;

use causeway_bmi::{Bmi, Config};
use causeway_transport::registry::Registry;

/// How the suite makes instances of the layer over one method.
pub trait Medium {
    /// A registry with this method alone.
    fn registry(&self) -> Registry;

    /// An address to listen at, different at each call (or one that the method makes different
    /// itself, such as port 0).
    fn address(&self) -> String;

    /// Whether a peer's death is an event: where the kernel does not report it, the method finds out by probing.
    fn reports_deaths(&self) -> bool {
        true
    }

    /// A fresh instance; it listens at `listen`, if that is an address.
    ///
    /// # Panics
    /// If it cannot be made.
    fn layer(&self, listen: Option<&str>) -> Bmi {
        let config = Config {
            listen: listen.map(str::to_owned).into_iter().collect(),
            ..Config::default()
        };
        Bmi::with_methods(config, self.registry()).expect("the layer starts")
    }
}

/// Instantiates the suite for a medium, in a module of the given name. The medium's expression is
/// evaluated afresh for each test.
#[macro_export]
macro_rules! messages {
    ($name:ident, $medium:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $crate::process_tests! { messages, $medium;
                situations: a_send_that_waits_for_a_connection, sends_that_wait_for_credit,
                    announced_sends, a_send_half_done, a_receive_of_nothing,
                    a_receive_half_done, a_read_half_done, a_write_half_done, all_of_them_at_once;
                moments: of_a_death, of_a_restart;
                waits: a_message, a_large_message, an_unexpected_message, a_new_peer, a_transfer,
                    returned_credit, a_departure, a_death, a_call;
                pairs: a_caller_is_known_by_its_address, calls_that_cross_become_one,
                    releasing_and_calling_again_loses_nothing, one_that_returns_keeps_its_name;
            }
        }
    };
}
