//! What accesses do to elements, wherever they are done.

use causeway_engine::Memory;
use causeway_sys::blocks::{Source, Target, copy_one};
use causeway_wire::window::{COMPARE_AND_SWAP, Run};

use crate::abi;
use crate::buffer::{Buffer, OwnedBuffer, temporary};
use crate::datatype::{Basic, Datatype, Elements, Form, Scalar};
use crate::error::{Error, Result};
use crate::reduction::{Kernel, Op};

/// The largest predefined type, `MPI_C_LONG_DOUBLE_COMPLEX`, has so many bytes.
const LARGEST: usize = 32;

/// The change of elements of a predefined type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Update {
    op: UpdateOp,
    pub(super) basic: Basic,
    /// Bytes from one element to the next, in operands too.
    unit: usize,
    /// No element has a gap.
    is_dense: bool,
}

#[derive(Debug, Clone, Copy)]
enum UpdateOp {
    Combine(Kernel, Op),
    CompareAndSwap,
}

impl Update {
    /// One of the standard's operations.
    pub(super) fn combine(op: Op, basic: Basic) -> Result<Self> {
        let kernel = Kernel::of(op, basic).ok_or_else(|| {
            let text = format!("{} is not defined for the datatype", op.name());
            Error::new(abi::ERR_OP, text)
        })?;
        Ok(Self::new(UpdateOp::Combine(kernel, op), basic))
    }

    /// Comparing one element, and swapping it if it is equal (MPI 5.0 §12.3.4): of a predefined type that is no floating-point, complex
    /// or pair type, whose equal values may have different bytes.
    pub(super) fn compare_and_swap(datatype: &Datatype) -> Result<Self> {
        use Scalar::{C16, C32, C64, C128, CLong, F16, F32, F64, F128, FLong};
        let is_exact = |basic: &Basic| match basic.form() {
            Form::One(F16 | F32 | F64 | FLong | F128 | C16 | C32 | C64 | CLong | C128) => false,
            Form::One(_) => true,
            Form::Pair(..) => false,
        };
        let basic = datatype.basic().filter(is_exact).ok_or_else(|| {
            let text = "only integers, logical values, bytes and characters of predefined types are compared and swapped";
            Error::new(abi::ERR_TYPE, text)
        })?;
        Ok(Self::swapping(basic))
    }

    fn swapping(basic: Basic) -> Self {
        Self::new(UpdateOp::CompareAndSwap, basic)
    }

    fn new(op: UpdateOp, basic: Basic) -> Self {
        let unit = basic.extent();
        let is_dense = basic.size() == unit;
        Self {
            op,
            basic,
            unit,
            is_dense,
        }
    }

    /// Whether it is this operation on this type.
    #[inline]
    pub(super) fn is(&self, op: Op, basic: Basic) -> bool {
        self.basic == basic && matches!(self.op, UpdateOp::Combine(_, own) if own == op)
    }

    /// Whether no element has a gap.
    #[inline]
    pub(super) fn is_dense(&self) -> bool {
        self.is_dense
    }

    /// What [`Update::number`] has numbered.
    pub(super) fn from_numbers(operation: u16, datatype: u16) -> Option<Self> {
        let basic = Basic::from_handle(datatype.into())?;
        match operation {
            COMPARE_AND_SWAP => Some(Self::swapping(basic)),
            op => Self::combine(Op::from_handle(op.into())?, basic).ok(),
        }
    }

    /// Its number in notices.
    pub(super) fn number(&self) -> u16 {
        match self.op {
            UpdateOp::Combine(_, op) => op as u16,
            UpdateOp::CompareAndSwap => COMPARE_AND_SWAP,
        }
    }

    /// Bytes from one element to the next, in operands too.
    #[inline]
    pub(super) fn unit(&self) -> usize {
        self.unit
    }

    /// How many operands there are for each element.
    #[inline]
    pub(super) fn operands(&self) -> usize {
        match self.op {
            UpdateOp::Combine(_, Op::NoOp) => 0,
            UpdateOp::Combine(..) => 1,
            UpdateOp::CompareAndSwap => 2,
        }
    }

    /// Works on `count` elements of `memory` from the byte `at` on, with operands from `data`. For compare-and-swap `count` is 1,
    /// `compare` the expected value and `data` the new one; otherwise `compare` is not used. Their old values are first copied to `fetched`, if there is one.
    ///
    /// # Panics
    /// If a buffer has fewer elements.
    #[inline]
    pub(super) fn apply(
        &self,
        memory: &Memory,
        at: usize,
        count: usize,
        (data, compare): (Source<'_>, Source<'_>),
        fetched: Option<Target<'_>>,
    ) {
        let (unit, len) = (self.unit(), count * self.unit());
        if let Some(mut fetched) = fetched {
            copy_one(&mut fetched, 0, Source::from(memory), at, len);
        }
        match &self.op {
            UpdateOp::Combine(_, Op::NoOp) => {}
            UpdateOp::Combine(_, Op::Replace) => {
                copy_one(&mut Target::from(memory), at, data, 0, len);
            }
            UpdateOp::Combine(kernel, _) => {
                kernel.apply(data, &mut Target::from(memory).part(at, len), count);
            }
            UpdateOp::CompareAndSwap => {
                let (mut old, mut expected) = ([0; LARGEST], [0; LARGEST]);
                let (old, expected) = (&mut old[..unit], &mut expected[..unit]);
                copy_one(
                    &mut Target::from(&mut *old),
                    0,
                    Source::from(memory),
                    at,
                    unit,
                );
                copy_one(&mut Target::from(&mut *expected), 0, compare, 0, unit);
                if old == expected {
                    copy_one(&mut Target::from(memory), at, data, 0, unit);
                }
            }
        }
    }
}

/// The predefined type that all elements of a datatype have.
#[inline]
pub(super) fn basic_of(datatype: &Datatype) -> Result<Basic> {
    match datatype.basic() {
        Some(basic) => Ok(basic),
        None => basic_of_derived(datatype),
    }
}

#[cold]
fn basic_of_derived(datatype: &Datatype) -> Result<Basic> {
    fn find(datatype: &Datatype) -> Option<Basic> {
        // Pairs do not show in a signature: one of two integers has that of two integers.
        let common = || {
            let (first, others) = datatype.contents().datatypes.split_first()?;
            let basic = find(first)?;
            let same = others.iter().all(|other| find(other) == Some(basic));
            same.then_some(basic)
        };
        let known = datatype.basic().or_else(common);
        known.or_else(|| datatype.scalar())
    }
    find(datatype).ok_or_else(|| {
        let text = "the datatype has elements of more than one predefined type";
        Error::new(abi::ERR_TYPE, text)
    })
}

/// Elements of a window, run by run.
#[derive(Debug)]
pub(super) struct Runs {
    elements: Elements,
    /// Bytes from the window's beginning to where the datatype is put.
    offset: i64,
    /// Bytes of data of an element, and from one to the next.
    size: u64,
    unit: u64,
    /// The next element.
    pub(super) next: u64,
    pub(super) total: u64,
}

impl Runs {
    /// The elements that `count` of a datatype have at this offset.
    pub(super) fn new(datatype: &Datatype, count: u64, offset: i64, basic: Basic) -> Result<Self> {
        let elements = Elements::new(datatype.clone(), count)?;
        let size = basic.size() as u64;
        Ok(Self {
            total: elements.bytes() / size,
            elements,
            offset,
            size,
            unit: basic.extent() as u64,
            next: 0,
        })
    }

    /// Adds the next elements to `runs`, so many of either at most. Returns how many elements were
    /// added.
    pub(super) fn take(
        &mut self,
        most_runs: usize,
        most_elements: u64,
        runs: &mut Vec<Run>,
    ) -> Result<u64> {
        let begin = self.next;
        let end = self.total.min(begin.saturating_add(most_elements));
        let mut cursor = self.elements.cursor(begin * self.size);
        while self.next < end {
            let limit = match self.size == self.unit {
                true => (end - self.next) * self.size,
                // The gap between the parts of a pair is no data, but is copied with it.
                false => {
                    cursor.seek(self.next * self.size);
                    self.size
                }
            };
            let Some(piece) = cursor.next_piece(limit) else {
                break;
            };
            let count = match self.size == self.unit {
                true if piece.len.is_multiple_of(self.size) => piece.len / self.size,
                true => {
                    let text = "the datatype has parts of elements";
                    return Err(Error::new(abi::ERR_TYPE, text));
                }
                false => 1,
            };
            let offset = self.offset + piece.offset;
            let is_full = runs.len() == most_runs;
            match runs.last_mut() {
                Some(last) if last.offset + (last.count * self.unit) as i64 == offset => {
                    last.count += count;
                }
                _ if is_full => break,
                _ => runs.push(Run { offset, count }),
            }
            self.next += count;
        }
        Ok(self.next - begin)
    }
}

/// The elements of a buffer, as operands: one behind the other, each as far from the next as its extent says.
pub(super) fn operands(buffer: &Buffer<'_>, basic: Basic) -> Result<Memory> {
    let packed = buffer.packed()?;
    if basic.size() == basic.extent() {
        return Ok(packed);
    }
    let (elements, spread) = spread(packed.len() as u64, basic)?;
    elements.unpack(0, Source::from(&packed), &mut Target::from(&spread))?;
    Ok(spread)
}

/// So many bytes of data of a predefined type, and memory for them as operands.
fn spread(bytes: u64, basic: Basic) -> Result<(Elements, Memory)> {
    let count = bytes / basic.size() as u64;
    let elements = Elements::new(basic.into(), count)?;
    let spread = temporary(count as usize * basic.extent())?;
    Ok((elements, spread))
}

/// Where elements of a window are received, as they lie there.
#[derive(Debug)]
pub(super) struct Staging {
    pub(super) memory: Memory,
    /// Where they belong, if that is elsewhere.
    into: Option<OwnedBuffer>,
    basic: Basic,
}

impl Staging {
    /// For a buffer.
    pub(super) fn new(buffer: &Buffer<'_>, basic: Basic) -> Result<Self> {
        let has_gaps = basic.size() != basic.extent();
        if buffer.is_plain() && !has_gaps {
            let (memory, into) = (buffer.memory.clone(), None);
            return Ok(Self {
                memory,
                into,
                basic,
            });
        }
        let into = OwnedBuffer {
            memory: buffer.memory.clone(),
            count: buffer.count,
            datatype: buffer.datatype.clone(),
        };
        let (_, memory) = spread(into.bytes_of_data()?, basic)?;
        Ok(Self {
            memory,
            into: Some(into),
            basic,
        })
    }

    /// Called when all elements have arrived: puts them where they belong, if that is elsewhere.
    pub(super) fn finish(&self) -> Result<()> {
        let Some(into) = &self.into else {
            return Ok(());
        };
        if self.basic.size() == self.basic.extent() {
            return into.unpack(&self.memory.to_vec());
        }
        let elements = Elements::new(
            self.basic.into(),
            (self.memory.len() / self.basic.extent()) as u64,
        )?;
        let packed = temporary(elements.bytes() as usize)?;
        elements.pack(0, Source::from(&self.memory), &mut Target::from(&packed))?;
        into.unpack(&packed.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Width;

    #[test]
    fn runs_are_joined_and_cut() {
        let int = Datatype::from(Basic::Int);
        let mut runs = Vec::new();
        let mut all = Runs::new(&int, 10, 8, Basic::Int).expect("it fits");
        assert_eq!(all.take(4, 3, &mut runs).expect("whole elements"), 3);
        assert_eq!(all.take(4, 9, &mut runs).expect("whole elements"), 7);
        assert_eq!(
            runs,
            [Run {
                offset: 8,
                count: 10
            }]
        );
        let pair = Datatype::from(Basic::DoubleInt);
        runs.clear();
        let mut all = Runs::new(&pair, 3, 0, Basic::DoubleInt).expect("it fits");
        assert_eq!(all.take(4, 9, &mut runs).expect("whole elements"), 3);
        assert_eq!(
            runs,
            [Run {
                offset: 0,
                count: 3
            }]
        );
        assert_eq!(basic_of(&pair).expect("a pair"), Basic::DoubleInt);
    }

    #[test]
    fn pairs_of_equal_types_are_found_in_derived_datatypes() {
        let list = |of: &Datatype| {
            let inner = Datatype::indexed_block(1, &[3, 1], of, Width::Int).expect("a list");
            Datatype::contiguous(2, &inner, Width::Int).expect("an array")
        };
        for basic in [Basic::TwoInt, Basic::Int, Basic::DoubleInt, Basic::Double] {
            assert_eq!(basic_of(&list(&basic.into())).expect("one type"), basic);
        }
        let (int, pair) = (Basic::Int.into(), Basic::TwoInt.into());
        let mixed = Datatype::structure(&[1, 1], &[0, 4], &[int, pair], Width::Int);
        let mixed = mixed.expect("a structure");
        assert_eq!(basic_of(&mixed).expect("integers"), Basic::Int);
    }

    #[test]
    fn elements_are_compared_and_swapped() {
        let memory = Memory::from_vec(vec![1, 2, 3, 4]);
        let act = Update::swapping(Basic::Int8);
        let mut old = [0];
        act.apply(
            &memory,
            2,
            1,
            (Source::from(&[9][..]), Source::from(&[3][..])),
            Some(Target::from(&mut old[..])),
        );
        assert_eq!((old, memory.to_vec()), ([3], vec![1, 2, 9, 4]));
        act.apply(
            &memory,
            2,
            1,
            (Source::from(&[7][..]), Source::from(&[3][..])),
            None,
        );
        assert_eq!(memory.to_vec(), [1, 2, 9, 4]);
    }
}
