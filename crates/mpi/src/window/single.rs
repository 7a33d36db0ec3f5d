//! Short accesses in an area: one integer of 8 bytes, as in counters and locks of programs, and puts and gets of a few bytes. Such an
//! access is done without the descriptions of buffers that other accesses have ([`super::access`]); they would cost more than
//! everything else in it. One that changes an integer holds its stripe like any other.

use std::sync::atomic::Ordering::Relaxed;

use causeway_sys::blocks::{Source, Target, copy_one};

use super::area::Area;
use super::state::{Window, WindowMemory};
use crate::datatype::{Basic, Form, Scalar};
use crate::process::Process;
use crate::reduction::Op;

/// The change of the integer.
#[derive(Debug, Clone, Copy)]
pub enum Change {
    /// It is combined with an operand.
    Combine(Op),
    /// It is replaced by an operand if it equals this one.
    IfEqual(u64),
}

impl Change {
    /// Whether the access is one that this path does.
    #[inline]
    pub fn is_simple(self, basic: Option<Basic>) -> bool {
        let is_integer = |basic: Basic| {
            let form = basic.form();
            matches!(form, Form::One(Scalar::I64 | Scalar::U64))
        };
        let is_simple = match self {
            Self::Combine(op) => matches!(op, Op::Sum | Op::Replace | Op::NoOp),
            Self::IfEqual(_) => true,
        };
        is_simple && basic.is_some_and(is_integer)
    }

    /// The new value of an integer.
    #[inline]
    fn of(self, old: u64, operand: u64) -> u64 {
        match self {
            Self::Combine(Op::Sum) => old.wrapping_add(operand),
            Self::Combine(Op::Replace) => operand,
            Self::IfEqual(compare) if compare == old => operand,
            _ => old,
        }
    }
}

impl Process {
    /// Changes an integer of a rank's memory, and returns its old value. `None`, and nothing is changed, where that cannot be done
    /// here: then it is an access like any other, which also reports errors.
    #[inline(always)]
    pub fn change_integer(
        &mut self,
        handle: usize,
        (rank, displacement): (i32, i64),
        operand: u64,
        change: Change,
    ) -> Option<u64> {
        self.windows.order_held_loads();
        let window = self.windows.table.find(handle)?;
        let (area, rank, at) = reached(window, (rank, displacement), 8)?;
        // At a multiple of 8 it lies in one block.
        let word = area.memory().word(at)?;
        let (stripe, _) = area.stripe(rank, at);
        if !stripe.try_hold(window.rank) {
            return None;
        }
        let old = word.load(Relaxed);
        word.store(change.of(old, operand), Relaxed);
        stripe.release();
        self.windows.has_changed = true;
        Some(old)
    }

    /// Puts bytes into a rank's memory. As with an integer, nothing is done where it cannot be done here: `false`.
    #[inline(always)]
    pub fn put_bytes(&mut self, handle: usize, to: (i32, i64), from: Source<'_>) -> bool {
        let window = self.windows.table.find(handle);
        let Some((area, _, at)) = window.and_then(|window| reached(window, to, from.len())) else {
            return false;
        };
        copy_one(&mut Target::from(area.memory()), at, from, 0, from.len());
        self.windows.has_changed = true;
        true
    }

    /// Gets bytes of a rank's memory, likewise.
    #[inline(always)]
    pub fn get_bytes(&mut self, handle: usize, of: (i32, i64), into: &mut Target<'_>) -> bool {
        self.windows.order_loads();
        let (window, len) = (self.windows.table.find(handle), into.len());
        let Some((area, _, at)) = window.and_then(|window| reached(window, of, len)) else {
            return false;
        };
        copy_one(into, 0, Source::from(area.memory()), at, len);
        true
    }
}

/// The area, the rank, and where in the area `len` bytes of the rank's memory lie, if they can be accessed now.
#[inline(always)]
fn reached(
    window: &Window,
    (rank, displacement): (i32, i64),
    len: usize,
) -> Option<(&Area, u32, usize)> {
    let WindowMemory::Area(area) = &window.place else {
        return None;
    };
    let at = usize::try_from(rank).ok()?;
    let (unit, size) = (window.units.get(at)?, window.sizes.get(at)?);
    let rank = at as u32;
    if !window.epoch.is_open(rank) {
        return None;
    }
    let offset = u64::try_from(displacement).ok()?.checked_mul(*unit)?;
    if offset.checked_add(len as u64)? > *size {
        return None;
    }
    Some((area, rank, area.start(rank) + offset as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_changed_as_the_operations_have_it() {
        let sum = Change::Combine(Op::Sum);
        assert!(sum.is_simple(Some(Basic::Int64)) && sum.is_simple(Some(Basic::Aint)));
        assert!(!sum.is_simple(Some(Basic::Double)) && !sum.is_simple(Some(Basic::Int32)));
        assert!(!sum.is_simple(None) && !Change::Combine(Op::Max).is_simple(Some(Basic::Int64)));
        assert_eq!(sum.of(u64::MAX, 3), 2);
        assert_eq!(Change::Combine(Op::Replace).of(1, 3), 3);
        assert_eq!(Change::Combine(Op::NoOp).of(1, 3), 1);
        assert_eq!(Change::IfEqual(1).of(1, 3), 3);
        assert_eq!(Change::IfEqual(2).of(1, 3), 1);
    }
}
