//! Peers that die.
