//! Peers that send nonsense.
