//! Handles as integers (MPI 5.0 §19.3): every handle fits into an `int`, and is converted as it is.

use std::ffi::c_int;

use crate::types::Handle;

macro_rules! conversions {
    ($($to:ident, $from:ident;)*) => {$(
        pub(crate) unsafe fn $to(handle: Handle) -> c_int {
            handle as c_int
        }

        pub(crate) unsafe fn $from(number: c_int) -> Handle {
            number as Handle
        }
    )*};
}

conversions! {
    comm_toint, comm_fromint;
    errhandler_toint, errhandler_fromint;
    file_toint, file_fromint;
    group_toint, group_fromint;
    info_toint, info_fromint;
    message_toint, message_fromint;
    op_toint, op_fromint;
    request_toint, request_fromint;
    session_toint, session_fromint;
    type_toint, type_fromint;
    win_toint, win_fromint;
}
