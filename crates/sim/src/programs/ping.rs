//! Ping_Pong and Ping_Bulk (§2.4.1): process 0 sends a short message or a block, process 1 sends a reply, over and over.

use super::Program;
use crate::am::port::{Awaited, Rank, Work};
use crate::am::{ActiveMessages, AmError, Arrival, HandlerId, Handlers};

/// The number of iterations in the thesis (§2.4.1).
pub const ITERATIONS: u64 = 128;

/// The block of the thesis's Ping_Bulk.
pub const BULK_BYTES: u64 = 1024;

/// Ping_Pong or Ping_Bulk.
#[derive(Debug, Clone, Copy)]
pub struct Ping {
    /// The number of round trips.
    pub iterations: u64,
    /// The block's size; 0 for a request without a block.
    pub bytes: u64,
}

impl Ping {
    /// Ping_Pong.
    pub fn pong(iterations: u64) -> Self {
        Self {
            iterations,
            bytes: 0,
        }
    }

    /// Ping_Bulk.
    pub fn bulk(iterations: u64, bytes: u64) -> Self {
        Self { iterations, bytes }
    }
}

/// The state that handlers change.
#[derive(Debug, Default)]
pub struct PingState {
    pings: u64,
    pongs: u64,
}

const ON_PING: HandlerId = HandlerId(0);
const ON_PONG: HandlerId = HandlerId(1);

fn on_ping(arrival: &mut Arrival<'_, PingState>) -> Result<(), AmError> {
    let number = arrival.word(0)?;
    if number != arrival.state.pings {
        return Err(arrival.refuse("pings are out of order"));
    }
    if let Some(landed) = arrival.landed {
        let count = (landed.bytes / 4) as usize;
        let mut words = arrival.memory.numbers::<u32>(landed.place, count);
        if words.any(|word| u64::from(word) != number) {
            return Err(arrival.refuse("the block is not what was sent"));
        }
    }
    arrival.state.pings += 1;
    arrival.reply(ON_PONG, &[number])
}

fn on_pong(arrival: &mut Arrival<'_, PingState>) -> Result<(), AmError> {
    if arrival.word(0)? != arrival.state.pongs {
        return Err(arrival.refuse("pongs are out of order"));
    }
    arrival.state.pongs += 1;
    Ok(())
}

impl Program for Ping {
    type State = PingState;
    type Output = ();

    fn handlers() -> &'static Handlers<PingState> {
        &[on_ping, on_pong]
    }

    fn begin(&self, _rank: Rank, ranks: u32) -> Result<PingState, AmError> {
        match ranks {
            2 => Ok(PingState::default()),
            _ => Err(AmError::WrongResult(format!(
                "ping needs 2 processes, not {ranks}"
            ))),
        }
    }

    fn run<A: ActiveMessages<State = PingState>>(&self, am: &mut A) -> Result<(), AmError> {
        let region = am.make_region(self.bytes as usize)?;
        if am.rank() == 1 {
            return am.wait_until(Awaited::from(0, "pings"), |state| {
                state.pings >= self.iterations
            });
        }
        for number in 0..self.iterations {
            if self.bytes == 0 {
                am.request(1, ON_PING, &[number])?;
            } else {
                let words = (self.bytes / 4) as usize;
                let block = std::iter::repeat_n(number as u32, words);
                am.memory_mut().write_numbers(region.at(0), block);
                let span = region.at(0).span(self.bytes);
                am.store(1, span, region.at(0), ON_PING, number)?;
            }
            am.wait_until(Awaited::from(1, "a pong"), |state| state.pongs > number)?;
            am.work(Work {
                integer: 4,
                cached: 2,
                ..Work::default()
            });
        }
        Ok(())
    }
}
