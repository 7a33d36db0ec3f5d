//! A deterministic discrete-event simulator of clusters, which runs the firmware of the network
//! interface in virtual time.
#![forbid(unsafe_code)]
