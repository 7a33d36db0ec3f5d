//! Values that processes exchange in the steps of operations on files.

use causeway_engine::Memory;

use crate::abi;
use crate::buffer::{OwnedBuffer, temporary};
use crate::caller::Caller;
use crate::collective::Blocks;
use crate::error::{Error, Result};
use crate::exchange::bytes_of;
use crate::node::{self, Started};
use crate::process::{Active, Process};

/// Does an operation in memory that all processes of the communicator have. Returns `false` if they have none: it is to be done by messages.
fn in_area(
    caller: &mut impl Caller,
    communicator: usize,
    start: impl Fn(&mut Process) -> Result<Started>,
) -> Result<bool> {
    loop {
        match caller.with(&start)? {
            Started::Done => return Ok(true),
            Started::Active(active) => return caller.wait(active).map(|_| true),
            Started::Partial(active) => {
                caller.wait(active)?;
                return caller.with(|process| Ok(!process.is_left_to_messages(communicator)));
            }
            Started::Agreeing(active) => return caller.wait(active).map(|_| false),
            Started::ByMessages => return Ok(false),
            Started::Make => node::make_area(caller, communicator)?,
        }
    }
}

/// Exchanges some numbers as [`exchange_numbers`] does, in memory that all processes have if there is some. All processes call this function in the
/// same step, and none of them [`exchange_numbers`]. The numbers of all arrive in `into`, which has room for them.
pub(crate) fn exchange_numbers_nearby<const N: usize>(
    caller: &mut impl Caller,
    communicator: usize,
    numbers: [i64; N],
    into: Memory,
) -> Result<Vec<[i64; N]>> {
    let from = OwnedBuffer::bytes(Memory::from_vec(bytes_of(&numbers)));
    let into = OwnedBuffer::bytes(into);
    let done = in_area(caller, communicator, |process| {
        process.allgather_in_area(Some(&from.as_buffer()), &into.as_buffer(), communicator)
    })?;
    match done {
        true => {}
        false => {
            let into = into.memory.clone();
            let name = caller.name();
            let active =
                caller.with(|process| begin_allgather(process, communicator, from, into, name))?;
            caller.wait(active)?;
        }
    }
    Ok(numbers_in(&into.memory.to_vec()))
}

/// Sends the first process's memory, as long as the others' is, to all: in memory that all processes have if there is some.
pub(crate) fn broadcast_nearby(
    caller: &mut impl Caller,
    communicator: usize,
    memory: &Memory,
) -> Result<()> {
    let buffer = OwnedBuffer::bytes(memory.clone());
    let done = in_area(caller, communicator, |process| {
        process.broadcast_in_area(&buffer.as_buffer(), 0, communicator)
    })?;
    match done {
        true => Ok(()),
        false => broadcast(caller, communicator, &buffer),
    }
}

fn broadcast(caller: &mut impl Caller, communicator: usize, buffer: &OwnedBuffer) -> Result<()> {
    let name = caller.name();
    let active = caller.with(|process| {
        let steps = process.broadcast(buffer.as_buffer(), 0, communicator)?;
        process.begin_part(steps, name)
    })?;
    caller.wait(active).map(drop)
}

/// Exchanges some numbers: returns those of all processes of a communicator, by rank.
pub(crate) fn exchange_numbers<const N: usize>(
    caller: &mut impl Caller,
    communicator: usize,
    numbers: [i64; N],
) -> Result<Vec<[i64; N]>> {
    let own = OwnedBuffer::bytes(Memory::from_vec(bytes_of(&numbers)));
    let name = caller.name();
    let (active, memory) = caller.with(|process| {
        let size = process.communicator(communicator)?.size();
        let memory = temporary(size as usize * N * WORD)?;
        let active = begin_allgather(process, communicator, own, memory.clone(), name)?;
        Ok((active, memory))
    })?;
    caller.wait(active)?;
    Ok(numbers_in(&memory.to_vec()))
}

/// Begins to send all processes of a communicator as many bytes as each of them sends, by messages.
fn begin_allgather(
    process: &mut Process,
    communicator: usize,
    own: OwnedBuffer,
    into: Memory,
    name: &'static str,
) -> Result<Active> {
    let into = Blocks::Even {
        memory: into,
        blocks: process.communicator(communicator)?.size(),
        datatype: None,
    };
    let steps = process.allgather(Some(&Blocks::Each(vec![own])), &into, communicator)?;
    process.begin_part(steps, name)
}

/// Bytes of a number.
pub(crate) const WORD: usize = size_of::<i64>();

/// Groups of numbers, as they lie in memory.
pub(crate) fn numbers_in<const N: usize>(bytes: &[u8]) -> Vec<[i64; N]> {
    let mut numbers = bytes
        .as_chunks()
        .0
        .iter()
        .map(|one| i64::from_ne_bytes(*one));
    let groups = bytes.len() / (N * WORD);
    (0..groups)
        .map(|_| std::array::from_fn(|_| numbers.next().unwrap_or(0)))
        .collect()
}

/// Sends all processes the outcome of a step here: it has failed if it has failed anywhere.
pub(crate) fn agree<T>(
    caller: &mut impl Caller,
    communicator: usize,
    result: Result<T>,
) -> Result<T> {
    agree_on(caller, communicator, result, "", [0; 2])
}

/// The same, for a step with arguments that must be the same on all processes: `what` names them.
pub(crate) fn agree_on<T>(
    caller: &mut impl Caller,
    communicator: usize,
    result: Result<T>,
    what: &str,
    arguments: [i64; 2],
) -> Result<T> {
    let class = class_of(&result);
    let all = exchange_numbers(caller, communicator, [class, arguments[0], arguments[1]])?;
    check_results(&all, result, what, arguments)
}

/// Numbers that the first process finds out for all.
pub(crate) type FirstNumbers = [i64; 5];

pub(crate) fn class_of<T>(result: &Result<T>) -> i64 {
    result
        .as_ref()
        .err()
        .map_or(abi::SUCCESS, Error::code)
        .into()
}

/// This process's result, if those of all processes are good, with the same arguments. Each has sent the class of its error,
/// its arguments, and its other numbers.
pub(crate) fn check_results<T, const N: usize>(
    all: &[[i64; N]],
    result: Result<T>,
    what: &str,
    arguments: [i64; 2],
) -> Result<T> {
    let value = result?;
    let failed = all
        .iter()
        .position(|numbers| numbers[0] != abi::SUCCESS.into());
    if let Some(rank) = failed {
        let text = format!("it has failed on rank {rank}");
        return Err(Error::new(all[rank][0] as i32, text));
    }
    if !all.iter().all(|numbers| numbers[1..3] == arguments) {
        let text = format!("{what} is not the same on all processes");
        return Err(Error::new(abi::ERR_NOT_SAME, text));
    }
    Ok(value)
}

/// The same, for a step in which the first process finds numbers out for all, which are returned to all.
pub(crate) fn agree_on_first<T>(
    caller: &mut impl Caller,
    communicator: usize,
    result: Result<T>,
    (what, arguments): (&str, [i64; 2]),
    found: FirstNumbers,
) -> Result<(T, FirstNumbers)> {
    let ([first, second], [one, two, three, four, five]) = (arguments, found);
    let own = [
        class_of(&result),
        first,
        second,
        one,
        two,
        three,
        four,
        five,
    ];
    let all = exchange_numbers(caller, communicator, own)?;
    let value = check_results(&all, result, what, arguments)?;
    let [_, _, _, found @ ..] = all[0];
    Ok((value, found))
}

/// Sends the first process's bytes, of which there are `len`, to all. The inner result is that of this process alone. A process that has no
/// memory for so many bytes returns an error at once, while the others are still waiting in this step.
pub(crate) fn broadcast_first(
    caller: &mut impl Caller,
    communicator: usize,
    own: Option<&[u8]>,
    len: i64,
) -> Result<Result<Vec<u8>>> {
    if len == 0 {
        return Ok(Ok(Vec::new()));
    }
    let memory = match own {
        Some(own) => Memory::from_vec(own.to_vec()),
        None => temporary(len as usize)?,
    };
    let buffer = OwnedBuffer::bytes(memory.clone());
    Ok(broadcast(caller, communicator, &buffer).map(|()| memory.to_vec()))
}
