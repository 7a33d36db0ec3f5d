//! Addresses and completion contexts.

use std::ffi::{c_char, c_int};
use std::fmt::Write;

use causeway_bmi::{Addr, Bmi, Context, Identity};

use crate::error::{BMI_EHANDLE, Failure};
use crate::handle::{Handle, call};
use crate::instance::Instance;
use crate::text;

/// The identity of the peer is not known for certain.
pub const BMI_IDENTITY_UNKNOWN: c_int = 0;
/// A process of this host, vouched for by the kernel.
pub const BMI_IDENTITY_LOCAL: c_int = 1;
/// A holder of the cluster's key.
pub const BMI_IDENTITY_KEYED: c_int = 2;
/// A process whose handshake was made by the agent of its node: it acts for one user alone.
pub const BMI_IDENTITY_USER: c_int = 3;

/// The header's `struct bmi_identity`.
#[repr(C)]
pub struct BmiIdentity {
    /// One of `BMI_IDENTITY_…`.
    pub kind: c_int,
    /// Process, or 0.
    pub pid: i32,
    /// User, or 0.
    pub uid: u32,
    /// Group, or 0.
    pub gid: u32,
}

#[cold]
fn stale() -> Failure {
    Failure::new(BMI_EHANDLE, "stale address")
}

/// The address, if it belongs to the instance.
pub(crate) fn known(instance: &Instance, addr: u64) -> Result<Addr, Failure> {
    let addr = Addr::from_raw(addr);
    let text = instance.bmi.reverse_lookup(addr);
    text.map(|_| addr).ok_or_else(stale)
}

fn with_known(bmi: *mut Handle, addr: u64, act: impl Fn(&mut Bmi, Addr)) -> c_int {
    call(bmi, |instance| {
        let known = known(instance, addr)?;
        act(&mut instance.bmi, known);
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_addr_lookup(
    bmi: *mut Handle,
    addr: *mut u64,
    id_string: *const c_char,
) -> c_int {
    call(bmi, |instance| {
        Failure::if_null(addr, "the pointer for the address")?;
        // SAFETY: the header requires a string, and a pointer that is valid for writes.
        unsafe {
            addr.write(0);
            let text = text::read(id_string, "the address")?;
            addr.write(instance.bmi.lookup(text)?.to_raw());
        }
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_addr_rev_lookup(
    bmi: *mut Handle,
    addr: u64,
    into: *mut c_char,
    room: usize,
) -> c_int {
    call(bmi, |instance| {
        let text = instance.bmi.reverse_lookup(Addr::from_raw(addr));
        // SAFETY: the header requires a buffer of `room` bytes.
        unsafe { text::write(&text.ok_or_else(stale)?, into, room) }
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_addr_retain(bmi: *mut Handle, addr: u64) -> c_int {
    with_known(bmi, addr, |layer, addr| layer.retain(addr))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_addr_release(bmi: *mut Handle, addr: u64) -> c_int {
    with_known(bmi, addr, |layer, addr| layer.release(addr))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_addr_disconnect(bmi: *mut Handle, addr: u64) -> c_int {
    with_known(bmi, addr, |layer, addr| layer.disconnect(addr))
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_addr_identity(
    bmi: *mut Handle,
    addr: u64,
    identity: *mut BmiIdentity,
) -> c_int {
    call(bmi, |instance| {
        Failure::if_null(identity, "the pointer for the identity")?;
        let (kind, pid, uid, gid) = match instance.bmi.identity(known(instance, addr)?) {
            None => (BMI_IDENTITY_UNKNOWN, 0, 0, 0),
            Some(Identity::Local { pid, uid, gid } | Identity::SocketOf { pid, uid, gid }) => {
                (BMI_IDENTITY_LOCAL, pid, uid, gid)
            }
            Some(Identity::Keyed) => (BMI_IDENTITY_KEYED, 0, 0, 0),
            Some(Identity::OneUser { uid, gid }) => (BMI_IDENTITY_USER, 0, uid, gid),
        };
        let found = BmiIdentity {
            kind,
            pid,
            uid,
            gid,
        };
        // SAFETY: not null, and the header requires a pointer that is valid for writes.
        unsafe { identity.write(found) };
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_addr_report(
    bmi: *mut Handle,
    addr: u64,
    into: *mut c_char,
    room: usize,
) -> c_int {
    call(bmi, |instance| {
        let report = instance.bmi.report(Addr::from_raw(addr));
        let mut text = String::new();
        for (fact, value) in report.ok_or_else(stale)?.facts {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{fact}: {value}");
        }
        // SAFETY: the header requires a buffer of `room` bytes.
        unsafe { text::write(&text, into, room) }
    })
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_open_context(bmi: *mut Handle, context: *mut u64) -> c_int {
    call(bmi, |instance| {
        Failure::if_null(context, "the pointer for the context")?;
        let opened = instance.bmi.open_context()?;
        // SAFETY: not null, and the header requires a pointer that is valid for writes.
        unsafe { context.write(opened.to_raw()) };
        Ok(0)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_close_context(bmi: *mut Handle, context: u64) -> c_int {
    call(bmi, |instance| {
        instance.bmi.close_context(Context::from_raw(context));
        Ok(0)
    })
}
