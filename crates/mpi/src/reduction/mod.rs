//! Combining elements by the standard's operations (MPI 5.0 §6.9.2–§6.9.4, §12.3.4).
//!
//! [`Kernel::of`] finds what an operation does with elements of a type, once; [`Kernel::apply`] does it, for elements of any
//! alignment, of memory that others may write meanwhile. All these operations are commutative and associative as the
//! standard has it, which takes floating-point sums to be so.

mod floats;
mod half;
mod integers;
mod op;
mod pairs;
mod real;

use causeway_sys::blocks::{self, Blocks};
use causeway_sys::blocks::{Source, Steps, Target};

use crate::datatype::{Basic, Form, Scalar};

pub use op::Op;
use op::Run;

/// What an operation does with elements of a predefined type.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    run: Action,
    /// Bytes from one element to the next.
    unit: usize,
}

#[derive(Debug, Clone, Copy)]
enum Action {
    /// Runs on so many parts of each element.
    Parts(Run, usize),
    /// Copies.
    Replace,
    Nothing,
}

impl Kernel {
    /// What the operation does with elements of this type; `None` if the standard has no such combination
    /// (`MPI_ERR_OP`).
    ///
    /// Beyond the standard, `MPI_CHAR` counts as an integer, as elsewhere.
    pub fn of(op: Op, basic: Basic) -> Option<Self> {
        let run = match (op, basic.form()) {
            (Op::Replace, _) => Action::Replace,
            (Op::NoOp, _) => Action::Nothing,
            (_, Form::Pair(value, index)) => Action::Parts(pairs::kernel(op, value, index)?, 1),
            (_, Form::One(scalar)) => {
                let (run, parts) = of_scalars(op, basic, scalar)?;
                Action::Parts(run, parts)
            }
        };
        Some(Self {
            run,
            unit: basic.extent(),
        })
    }

    /// Bytes from one element to the next, in both operands: the type's extent.
    pub fn unit(&self) -> usize {
        self.unit
    }

    /// Computes `into = from op into` for the first `count` elements.
    ///
    /// # Panics
    /// If one of the two has fewer elements.
    pub fn apply(&self, from: Source<'_>, into: &mut Target<'_>, count: usize) {
        match self.run {
            Action::Parts(run, parts) => run(into, from, count * parts),
            Action::Replace => {
                let steps = Steps {
                    start: 0,
                    outer: 0,
                    inner: 0,
                };
                let blocks = Blocks {
                    len: count * self.unit,
                    rows: 1,
                    row: 1,
                };
                blocks::copy(into, steps, from, steps, blocks);
            }
            Action::Nothing => {}
        }
    }
}

/// The kernel for elements that are no pairs, and on how many parts of each it runs.
fn of_scalars(op: Op, basic: Basic, scalar: Scalar) -> Option<(Run, usize)> {
    use Scalar as S;
    let is_fortran = matches!(
        basic,
        Basic::Integer
            | Basic::Integer1
            | Basic::Integer2
            | Basic::Integer4
            | Basic::Integer8
            | Basic::Integer16
    );
    let is_logical = matches!(op, Op::Land | Op::Lor | Op::Lxor);
    let is_bitwise = matches!(op, Op::Band | Op::Bor | Op::Bxor);
    match scalar {
        S::Char | S::Wchar | S::Packed if basic != Basic::Char => None,
        S::L8 | S::L16 | S::L32 | S::L64 | S::L128 if !is_logical => None,
        S::Byte if !is_bitwise => None,
        S::F16 | S::F32 | S::F64 | S::FLong | S::F128 => Some((floats::kernel(op, scalar)?, 1)),
        S::C16 | S::C32 | S::C64 | S::CLong | S::C128 => floats::of_complex(op, scalar),
        _ if is_fortran && is_logical => None,
        _ if is_bitwise => Some((integers::bitwise(op)?, scalar.size())),
        _ => Some((integers::kernel(op, scalar)?, 1)),
    }
}

#[cfg(test)]
mod tests;
