//! Posting and cancelling messages.

use std::ffi::{c_int, c_void};

use causeway_bmi::{Addr, Bmi, Context, Error, Memory, OpId, Posted};
use libc::iovec;

use crate::error::Failure;
use crate::handle::{Handle, call};
use crate::memory::Named;

/// Where a post call writes its results.
pub(crate) struct Outputs {
    /// For the operation, or null.
    pub(crate) op: *mut u64,
    /// For the size, if the operation completes at once, or null.
    pub(crate) size: *mut i64,
}

impl Outputs {
    pub(crate) fn without_size(op: *mut u64) -> Self {
        let size = std::ptr::null_mut();
        Self { op, size }
    }

    /// # Safety
    /// The pointers are null or valid for writes.
    #[inline(always)]
    pub(crate) unsafe fn write_op(&self, op: u64) {
        if !self.op.is_null() {
            // SAFETY: not null, and otherwise the caller's promise.
            unsafe { self.op.write(op) };
        }
    }

    /// Writes the result of posting an operation, and returns the call's code.
    ///
    /// # Safety
    /// The pointers are null or valid for writes.
    #[inline(always)]
    unsafe fn conclude(&self, posted: Result<Posted, Error>) -> Result<c_int, Failure> {
        match posted? {
            Posted::Pending(op) => {
                // SAFETY: the caller's promise.
                unsafe { self.write_op(op.to_raw()) };
                Ok(0)
            }
            Posted::Complete(done) => {
                let size = done.result?;
                if !self.size.is_null() {
                    // SAFETY: not null, and otherwise the caller's promise.
                    unsafe { self.size.write(size as i64) };
                }
                Ok(1)
            }
        }
    }
}

/// Posts an operation.
///
/// # Safety
/// The memory is as [`Describer::with`] requires, and the pointers in `outputs` are null or valid for writes.
///
/// [`Describer::with`]: crate::memory::Describer::with
#[inline(always)]
pub(crate) unsafe fn post(
    bmi: *mut Handle,
    outputs: Outputs,
    named: Named,
    writable: bool,
    mut start: impl FnMut(&mut Bmi, &[Memory]) -> Result<Posted, Error>,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { outputs.write_op(0) };
    call(bmi, |instance| {
        let layer = &mut instance.bmi;
        // SAFETY: the caller's promise.
        unsafe {
            instance.memory.with(named, writable, |memory| {
                outputs.conclude(start(layer, memory))
            })
        }
    })
}

/// The number that a completion carries back.
#[inline(always)]
pub(crate) fn number(user_ptr: *mut c_void) -> u64 {
    user_ptr.expose_provenance() as u64
}

/// The calls that post a send of one kind: of one buffer, and of a list of buffers.
macro_rules! sends {
    ($post:ident: $of_buffer:ident, $of_list:ident) => {
        /// See the header.
        ///
        /// # Safety
        /// As the header requires.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $of_buffer(
            bmi: *mut Handle,
            op: *mut u64,
            dest: u64,
            buffer: *const c_void,
            size: i64,
            tag: u64,
            context: u64,
            user_ptr: *mut c_void,
        ) -> c_int {
            let start = |layer: &mut Bmi, data: &[Memory]| {
                let (to, context) = (Addr::from_raw(dest), Context::from_raw(context));
                layer.$post(to, data, tag, context, number(user_ptr))
            };
            let (outputs, named) = (Outputs::without_size(op), Named::Buffer(buffer, size));
            // SAFETY: the header requires it.
            unsafe { post(bmi, outputs, named, false, start) }
        }

        /// See the header.
        ///
        /// # Safety
        /// As the header requires.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $of_list(
            bmi: *mut Handle,
            op: *mut u64,
            dest: u64,
            list: *const iovec,
            count: usize,
            tag: u64,
            context: u64,
            user_ptr: *mut c_void,
        ) -> c_int {
            let start = |layer: &mut Bmi, data: &[Memory]| {
                let (to, context) = (Addr::from_raw(dest), Context::from_raw(context));
                layer.$post(to, data, tag, context, number(user_ptr))
            };
            let (outputs, named) = (Outputs::without_size(op), Named::List(list, count));
            // SAFETY: the header requires it.
            unsafe { post(bmi, outputs, named, false, start) }
        }
    };
}

sends!(post_send: BMI_post_send, BMI_post_send_list);
sends!(post_sendunexpected: BMI_post_sendunexpected, BMI_post_sendunexpected_list);

/// # Safety
/// As the header requires for the calls below.
#[inline(always)]
unsafe fn receive(
    bmi: *mut Handle,
    outputs: Outputs,
    source: u64,
    named: Named,
    tag: u64,
    context: u64,
    user_ptr: *mut c_void,
) -> c_int {
    let (from, context) = (Addr::from_raw(source), Context::from_raw(context));
    // SAFETY: the caller's promise.
    unsafe {
        post(bmi, outputs, named, true, move |layer, into| {
            layer.post_recv(from, into, tag, context, number(user_ptr))
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_post_recv(
    bmi: *mut Handle,
    op: *mut u64,
    source: u64,
    buffer: *mut c_void,
    size: i64,
    actual_size: *mut i64,
    tag: u64,
    context: u64,
    user_ptr: *mut c_void,
) -> c_int {
    let named = Named::Buffer(buffer, size);
    let outputs = Outputs {
        op,
        size: actual_size,
    };
    // SAFETY: the header requires it.
    unsafe { receive(bmi, outputs, source, named, tag, context, user_ptr) }
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_post_recv_list(
    bmi: *mut Handle,
    op: *mut u64,
    source: u64,
    list: *const iovec,
    count: usize,
    actual_size: *mut i64,
    tag: u64,
    context: u64,
    user_ptr: *mut c_void,
) -> c_int {
    let named = Named::List(list, count);
    let outputs = Outputs {
        op,
        size: actual_size,
    };
    // SAFETY: the header requires it.
    unsafe { receive(bmi, outputs, source, named, tag, context, user_ptr) }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_cancel(bmi: *mut Handle, op: u64) -> c_int {
    call(bmi, |instance| {
        instance.bmi.cancel(OpId::from_raw(op));
        Ok(0)
    })
}
