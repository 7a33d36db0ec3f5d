//! Those who carry operations of several steps out.

use causeway_engine::Memory;

use crate::abi;
use crate::buffer::OwnedBuffer;
use crate::collective::Blocks;
use crate::error::{Error, Result};
use crate::process::{Active, Process};
use crate::status::Status;

/// Carries an operation of several steps out: lends the process for each step, and waits in between. While it waits, functions of the
/// program may be called, which may call MPI.
pub trait Caller {
    /// Lends the process for a step.
    fn with<R>(&mut self, step: impl FnOnce(&mut Process) -> Result<R>) -> Result<R>;

    /// Waits until an operation is done.
    fn wait(&mut self, active: Active) -> Result<Status>;
}

/// Exchanges some numbers: returns those of all processes of a communicator, by rank.
pub(crate) fn tell<const N: usize>(
    caller: &mut impl Caller,
    communicator: usize,
    numbers: [i64; N],
) -> Result<Vec<[i64; N]>> {
    let own = Memory::from_vec(numbers.iter().flat_map(|one| one.to_ne_bytes()).collect());
    let (active, memory) = caller.with(|process| {
        let size = process.communicator(communicator)?.size();
        let memory = crate::buffer::temporary(size as usize * N * 8)?;
        let into = Blocks::Even {
            memory: memory.clone(),
            blocks: size,
        };
        let from = Blocks::Each(vec![OwnedBuffer::bytes(own)]);
        let steps = process.allgather(Some(&from), &into, communicator)?;
        Ok((process.begin(steps)?, memory))
    })?;
    caller.wait(active)?;
    Ok(numbers_in(&memory.to_vec()))
}

/// Groups of numbers, as they lie in memory.
pub(crate) fn numbers_in<const N: usize>(bytes: &[u8]) -> Vec<[i64; N]> {
    let mut numbers = bytes
        .as_chunks()
        .0
        .iter()
        .map(|one| i64::from_ne_bytes(*one));
    let groups = bytes.len() / (N * 8);
    (0..groups)
        .map(|_| std::array::from_fn(|_| numbers.next().unwrap_or(0)))
        .collect()
}

/// Tells all processes how a step has ended here: it has failed if it has failed anywhere.
pub(crate) fn agree<T>(
    caller: &mut impl Caller,
    communicator: usize,
    result: Result<T>,
) -> Result<T> {
    agree_on(caller, communicator, result, "", [0; 2])
}

/// The same, for a step with arguments that have to be the same on all processes: `what` says which.
pub(crate) fn agree_on<T>(
    caller: &mut impl Caller,
    communicator: usize,
    result: Result<T>,
    what: &str,
    arguments: [i64; 2],
) -> Result<T> {
    let class = result.as_ref().err().map_or(abi::SUCCESS, Error::code);
    let [first, second] = arguments;
    let all = tell(caller, communicator, [class.into(), first, second])?;
    let value = result?;
    let failed = all
        .iter()
        .position(|[class, ..]| *class != abi::SUCCESS.into());
    if let Some(rank) = failed {
        let text = format!("it has failed on rank {rank}");
        return Err(Error::new(all[rank][0] as i32, text));
    }
    match all.iter().all(|[_, others @ ..]| *others == arguments) {
        true => Ok(value),
        false => {
            let text = format!("{what} is not the same on all processes");
            Err(Error::new(abi::ERR_NOT_SAME, text))
        }
    }
}
