//! Testing for completion, unexpected messages, waiting.

use std::ffi::{c_int, c_void};

use causeway_bmi::{Completion, Context, OpId};

use crate::error::{BMI_ELIMIT, BMI_ESYSTEM, Failure};
use crate::handle::{Handle, call_waiting, guard};

/// The header's `struct bmi_completion`.
#[repr(C)]
pub struct BmiCompletion {
    /// Which operation.
    pub op: u64,
    /// The value that was passed to the post call.
    pub user_ptr: *mut c_void,
    /// Bytes moved.
    pub actual_size: i64,
    /// 0, or why it failed.
    pub error: c_int,
    /// 0.
    pub reserved: u32,
}

/// The header's `struct bmi_unexpected`.
#[repr(C)]
pub struct BmiUnexpected {
    /// The sender; the caller owns a reference.
    pub from: u64,
    /// Its tag.
    pub tag: u64,
    /// Its bytes, owned by the caller until `BMI_unexpected_free`; null if there are none.
    pub buffer: *mut c_void,
    /// How many.
    pub size: i64,
}

/// Converts a completion for C.
#[inline]
fn to_c(done: Completion) -> BmiCompletion {
    let (actual_size, error) = match done.result {
        Ok(size) => (size as i64, 0),
        Err(error) => (0, Failure::from(error).report()),
    };
    BmiCompletion {
        op: done.op.to_raw(),
        user_ptr: std::ptr::with_exposed_provenance_mut(done.user as usize),
        actual_size,
        error,
        reserved: 0,
    }
}

/// How many entries an array of the caller's has, but no more than a call can return.
fn room<T>(array: *mut T, entries: usize) -> Result<usize, Failure> {
    if array.is_null() && entries > 0 {
        return Err(Failure::invalid("the array for the results is NULL"));
    }
    Ok(entries.min(c_int::MAX as usize))
}

/// Refuses an array of operations that is longer than what a call can return, so that none of them
/// is skipped.
fn check_count(count: usize) -> Result<(), Failure> {
    const MOST: usize = c_int::MAX as usize;
    if count > MOST {
        let text = format!("{count} operations; at most {MOST} can be tested for at once");
        return Err(Failure::new(BMI_ELIMIT, text));
    }
    Ok(())
}

/// Moves the results into the caller's array.
///
/// # Safety
/// `array` has room for all of it.
unsafe fn hand_over<F, T>(found: &mut Vec<F>, array: *mut T, to_c: impl Fn(F) -> T) -> c_int {
    let count = found.len() as c_int;
    for (at, one) in found.drain(..).enumerate() {
        // SAFETY: the caller's promise.
        unsafe { array.add(at).write(to_c(one)) };
    }
    count
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_test(
    bmi: *mut Handle,
    op: u64,
    done: *mut BmiCompletion,
    idle_us: i64,
) -> c_int {
    call_waiting(bmi, idle_us, |instance, idle| {
        room(done, 1)?;
        match instance.bmi.test(OpId::from_raw(op), idle)? {
            None => Ok(0),
            Some(found) => {
                // SAFETY: not null, and the header requires a pointer that is valid for writes.
                unsafe { done.write(to_c(found)) };
                Ok(1)
            }
        }
    })
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_testsome(
    bmi: *mut Handle,
    ops: *const u64,
    count: usize,
    done: *mut BmiCompletion,
    idle_us: i64,
) -> c_int {
    call_waiting(bmi, idle_us, |instance, idle| {
        room(done, count)?;
        check_count(count)?;
        if ops.is_null() && count > 0 {
            return Err(Failure::invalid("the array of operations is NULL"));
        }
        instance.ops.clear();
        for at in 0..count {
            // SAFETY: the header requires an array of `count` entries.
            let op = unsafe { ops.add(at).read() };
            if op != 0 {
                (instance.ops.try_reserve(1))
                    .map_err(|_| Failure::new(BMI_ESYSTEM, "no memory for so many operations"))?;
                instance.ops.push(OpId::from_raw(op));
            }
        }
        let found = &mut instance.completions;
        instance.bmi.testsome(&instance.ops, idle, found)?;
        // SAFETY: the header requires as many entries as there are operations.
        Ok(unsafe { hand_over(found, done, to_c) })
    })
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_testcontext(
    bmi: *mut Handle,
    context: u64,
    done: *mut BmiCompletion,
    most: usize,
    idle_us: i64,
) -> c_int {
    call_waiting(bmi, idle_us, |instance, idle| {
        let most = room(done, most)?;
        let context = Context::from_raw(context);
        let found = &mut instance.completions;
        instance.bmi.testcontext(context, most, idle, found)?;
        // SAFETY: the header requires `most` entries, and no more were requested.
        Ok(unsafe { hand_over(found, done, to_c) })
    })
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_testunexpected(
    bmi: *mut Handle,
    messages: *mut BmiUnexpected,
    most: usize,
    idle_us: i64,
) -> c_int {
    call_waiting(bmi, idle_us, |instance, idle| {
        let most = room(messages, most)?;
        let found = &mut instance.unexpected;
        instance.bmi.testunexpected(most, idle, found)?;
        let to_c = |message: causeway_bmi::Unexpected| {
            let size = message.data.len() as i64;
            let buffer = match message.data.into_boxed_slice() {
                bytes if bytes.is_empty() => std::ptr::null_mut(),
                bytes => Box::into_raw(bytes).cast(),
            };
            BmiUnexpected {
                from: message.from.to_raw(),
                tag: message.tag,
                buffer,
                size,
            }
        };
        // SAFETY: the header requires `most` entries, and no more were requested.
        Ok(unsafe { hand_over(found, messages, to_c) })
    })
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_unexpected_free(message: *mut BmiUnexpected) -> c_int {
    guard(|| {
        Failure::if_null(message, "the message")?;
        // SAFETY: not null; the header requires a message that `BMI_testunexpected` filled in, unchanged
        // since, or was freed already.
        let message = unsafe { &mut *message };
        let size = usize::try_from(message.size).unwrap_or(0);
        let bytes = std::mem::replace(&mut message.buffer, std::ptr::null_mut());
        message.size = 0;
        if !bytes.is_null() {
            // SAFETY: the boxed slice whose parts `BMI_testunexpected` returned.
            drop(unsafe {
                Box::from_raw(std::ptr::slice_from_raw_parts_mut(bytes.cast::<u8>(), size))
            });
        }
        Ok(0)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_wait(bmi: *mut Handle, context: u64, idle_us: i64) -> c_int {
    call_waiting(bmi, idle_us, |instance, idle| {
        Ok(instance.bmi.wait(Context::from_raw(context), idle).into())
    })
}
