//! How to wait: decisions about polling, yielding and sleeping, from measured times.

pub(crate) mod crowd;
pub(crate) mod spin;
pub(crate) mod turn;
