//! Options and load.

use std::ffi::c_int;

use causeway_bmi::{Addr, Info, InfoOption, RendezvousPolicy};

use crate::address::known;
use crate::error::Failure;
use crate::handle::{Handle, call};
use crate::instance::duration_us;

macro_rules! options {
    ($($name:ident = $value:literal $text:literal)*) => {
        $(#[doc = $text] pub const $name: c_int = $value;)*

        /// Every option's name in the header and its number.
        pub const OPTIONS: &[(&str, c_int)] = &[$((stringify!($name), $value)),*];
    };
}

options! {
    BMI_EAGER_LIMIT = 1 "Set: largest message that travels eagerly."
    BMI_SPIN_US = 2 "Set: longest spin before a sleep."
    BMI_RENDEZVOUS = 3 "Set: which side copies large messages."
    BMI_SERVER = 4 "Set: whether this process is a server."
    BMI_CONNECTED = 101 "Get: open connections."
    BMI_OPERATIONS = 102 "Get: operations in progress."
    BMI_TRANSFERS = 103 "Get: transfers of remote memory in progress."
    BMI_EARLY_BYTES = 104 "Get: bytes held for messages without a receive so far."
    BMI_UNEXPECTED_WAITING = 105 "Get: unexpected messages that wait to be taken."
    BMI_UNEXPECTED_LIMIT = 106 "Get: largest unexpected message."
    BMI_ADAPTIVE = 0 "Of `BMI_RENDEZVOUS`: by both sides' load."
    BMI_PULL = 1 "Of `BMI_RENDEZVOUS`: the receiver reads."
    BMI_PUSH = 2 "Of `BMI_RENDEZVOUS`: the sender writes."
}

#[cold]
fn unknown(option: c_int, value: i64) -> Failure {
    Failure::invalid(format!("option {option} cannot be {value}"))
}

fn option(option: c_int, value: i64) -> Result<InfoOption, Failure> {
    let policy = |policy| Ok(InfoOption::Rendezvous(policy));
    match (option, value) {
        (BMI_EAGER_LIMIT, _) => match usize::try_from(value) {
            Ok(limit) => Ok(InfoOption::EagerLimit(limit)),
            Err(_) => Err(unknown(option, value)),
        },
        (BMI_SPIN_US, _) => Ok(InfoOption::Spin(duration_us(value, "BMI_SPIN_US")?)),
        (BMI_RENDEZVOUS, 0) => policy(RendezvousPolicy::Adaptive),
        (BMI_RENDEZVOUS, 1) => policy(RendezvousPolicy::Pull),
        (BMI_RENDEZVOUS, 2) => policy(RendezvousPolicy::Push),
        (BMI_SERVER, 0 | 1) => Ok(InfoOption::Server(value == 1)),
        _ => Err(unknown(option, value)),
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn BMI_set_info(bmi: *mut Handle, addr: u64, which: c_int, value: i64) -> c_int {
    call(bmi, |instance| {
        let option = option(which, value)?;
        // 0 means all addresses.
        let addr = (addr != 0).then_some(Addr::from_raw(addr));
        instance.bmi.set_info(addr, option)?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// As the header requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn BMI_get_info(
    bmi: *mut Handle,
    addr: u64,
    which: c_int,
    value: *mut i64,
) -> c_int {
    call(bmi, |instance| {
        Failure::if_null(value, "the pointer for the value")?;
        let addr = match addr {
            0 => None,
            addr => Some(known(instance, addr)?),
        };
        let info = |which: fn(&Info) -> usize| which(&instance.bmi.get_info(addr));
        let found = match which {
            BMI_CONNECTED => info(|info| info.connected),
            BMI_OPERATIONS => info(|info| info.operations),
            BMI_TRANSFERS => info(|info| info.transfers),
            BMI_EARLY_BYTES => info(|info| info.early_bytes),
            BMI_UNEXPECTED_WAITING => info(|info| info.unexpected_waiting),
            BMI_UNEXPECTED_LIMIT if addr.is_none() => instance.unexpected_limit,
            BMI_UNEXPECTED_LIMIT => {
                let text = "BMI_UNEXPECTED_LIMIT is of the whole instance: pass address 0";
                return Err(Failure::invalid(text));
            }
            _ => {
                let text = format!("option {which} does not exist for BMI_get_info()");
                return Err(Failure::invalid(text));
            }
        };
        // SAFETY: not null, and the header requires a pointer that is valid for writes.
        unsafe { value.write(found as i64) };
        Ok(0)
    })
}
