//! One suite for everything that implements [`Method`](causeway_transport::Method): it checks the contract in
//! [`causeway_transport::method`].
//!
//! A method joins by implementing [`Factory`] and naming it in [`crate::conformance!`]; one that
//! works between processes also in [`crate::conformance_between_processes!`]. Parts, in reading
//! order:
//!
//! - `node`: a method with a sink that checks the contract's general rules on every event: a peer
//!   is up before its first packet, each transfer completes once and before its peer is down, …
//! - [`packets`]: order, sizes, back-pressure, fairness, many peers, sending to oneself.
//! - [`transfers`]: remote memory: lists of fragments, notify packets, mapping.
//! - [`atomics`]: fetch-and-add and compare-and-swap on exported words.
//! - [`protection`]: memory that must not be reachable, or not any more.
//! - [`registration`]: memory that is registered before it is moved or granted.
//! - [`pausing`]: packets that are held back, and readiness.
//! - [`replies`]: handlers that send from within a poll.
//! - [`lifecycle`]: absent peers, restarts, departures, disconnecting, stale handles.
//! - [`sleep`]: arming, waking, and that no wake-up is lost.
//! - `peer_process` and [`death`]: a peer in another process, killed in every state.

mod factory;
mod node;
mod peer_process;

pub mod atomics;
pub mod death;
pub mod lifecycle;
pub mod packets;
pub mod pausing;
pub mod protection;
pub mod registration;
pub mod replies;
pub mod sleep;
pub mod transfers;

pub use factory::Factory;
pub use node::{Event, Node, Pair};

/// Instantiates the suite for a method, one test per rule, in a module of the given name. The
/// factory's expression is evaluated afresh for each test.
#[macro_export]
macro_rules! conformance {
    ($name:ident, $factory:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $crate::conformance_tests! { $factory;
                packets: keep_their_order, of_every_size_arrive, too_large_are_refused,
                    are_held_back_by_a_receiver_that_does_not_poll, flow_both_ways_at_once,
                    of_a_quiet_peer_are_not_starved, of_many_peers, to_oneself,
                    of_a_poll_are_bounded, to_several_peers_at_once, that_are_not_held_need_no_poll, are_not_missed_by_looks;
                transfers: move_every_byte_both_ways, with_mismatched_fragments,
                    of_thousands_of_fragments, of_many_megabytes, of_nothing_complete,
                    of_unequal_lengths_fail, started_by_the_accepting_side,
                    notify_after_the_bytes_and_in_order, many_at_once_complete_each_once,
                    to_oneself, of_allocated_memory_and_mapping,
                    of_allocated_memory_on_either_side, with_a_notify_too_large,
                    both_ways_between_two_peers_at_once, too_long_are_refused, written_at_once,
                    reach_an_owner_that_does_not_poll, need_the_exact_time_where_stated;
                atomics: return_what_was_there, of_what_is_not_exported_fail,
                    of_misaligned_words_fail, in_great_number_complete_each_once,
                    of_several_clients_and_the_owner_add_up, of_a_lost_peer_complete;
                protection: of_unknown_keys, of_ended_exports, of_ranges, of_access,
                    of_other_peers_exports, of_objects, failed_transfers_do_not_notify,
                    holds_the_moment_an_export_ends;
                registration: covers_every_part, ends_behind_what_was_begun,
                    is_needed_where_stated, outlives_peers;
                pausing: holds_up_the_sender, keeps_the_order, leaves_others_alone,
                    stops_at_packets_only, ends_with_the_peer, lets_the_receiver_sleep,
                    readiness_is_what_it_says, holds_for_a_connection_to_come;
                replies: keep_a_packet_going, are_held_up_as_all_packets, read_what_their_peers_export, end_exports;
                lifecycle: an_absent_peer_is_reported, a_listener_ends_before_it_polls, a_transfer_with_an_absent_peer_fails, a_later_listener_is_reached,
                    same_address_same_handle, a_restarted_peer_is_a_new_incarnation,
                    a_departed_caller_is_gone, a_departure_ends_transfers, disconnecting_is_silent_here_and_noticed_there,
                    disconnecting_ends_transfers_and_exports, stale_handles_are_refused,
                    foreign_addresses_are_refused, a_taken_address_is_refused,
                    a_peer_is_identified, nodes_are_known_where_stated, the_address_of_a_caller_is_confirmed,
                    nothing_to_do_is_nothing_done, capabilities_do_not_change;
                sleep: a_packet_wakes, a_notify_wakes, a_completion_wakes, a_departure_wakes,
                    an_arrival_wakes, arming_with_work_pending_does_not_sleep,
                    disarming_is_harmless, idle_methods_sleep,
                    no_wake_up_is_lost_between_threads, room_wakes_the_sender;
            }
        }
    };
}

/// Instantiates the part of the suite that needs real processes, in a module of the given name.
#[macro_export]
macro_rules! conformance_between_processes {
    ($name:ident, $factory:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $crate::process_tests! { conformance, $factory;
                death: of_an_idle_peer, of_a_peer_that_streams, of_a_peer_that_does_not_read,
                    of_a_paused_peer,
                    in_the_middle_of_transfers_to_it, in_the_middle_of_transfers_from_it,
                    in_the_middle_of_its_own_transfers, of_the_listener_then_restart,
                    of_the_caller, while_asleep, of_a_sleeper, before_anything_was_sent,
                    of_one_leaves_the_others_alone, of_many_in_a_row, by_exit_is_an_orderly_end,
                    packets_and_transfers_between_processes, mapping_between_processes,
                    no_wake_up_is_lost_between_processes, a_stopped_peer_blocks_no_other;
            }
        }
    };
}

/// The inner half of [`conformance!`].
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($factory:expr; $($part:ident: $($test:ident),+;)+) => {
        $(mod $part {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $test() {
                    $crate::conformance::$part::$test(&$factory);
                }
            )+
        })+
    };
}

/// The inner half of suites whose tests get their own names as arguments, to run themselves in other processes.
#[doc(hidden)]
#[macro_export]
macro_rules! process_tests {
    ($suite:ident, $factory:expr; $($part:ident: $($test:ident),+;)+) => {
        $(mod $part {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $test() {
                    let path = concat!(module_path!(), "::", stringify!($test));
                    let name = $crate::process::test_name(path);
                    $crate::$suite::$part::$test(&$factory, name);
                }
            )+
        })+
    };
}
