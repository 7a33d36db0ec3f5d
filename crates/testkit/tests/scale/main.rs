//! Many peers, in real processes: the cost of idle ones, and fairness among senders under floods.

mod floods;
mod idle;

use std::time::Duration;

use causeway_bmi::{Bmi, Config, Context};

const NOW: Duration = Duration::ZERO;

/// An instance with a context.
struct Node {
    bmi: Bmi,
    context: Context,
}

impl Node {
    fn new(config: Config) -> Self {
        let mut bmi = Bmi::new(config).expect("an instance");
        let context = bmi.open_context().expect("a context");
        Self { bmi, context }
    }

    /// An instance that can be reached at `addresses`.
    fn listening(addresses: &[String]) -> Self {
        Self::new(Config {
            listen: addresses.to_vec(),
            ..Config::default()
        })
    }
}
