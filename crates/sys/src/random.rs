//! Unpredictable bytes from the kernel.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Unpredictable bytes. Waits only while the kernel has not gathered enough entropy since it was booted.
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match getrandom(&mut *rest, GetRandomFlags::empty()) {
            Ok(more) => done += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn bytes_differ() {
        let drawn = [(); 3].map(|()| super::bytes::<32>().unwrap());
        assert!(drawn[0] != drawn[1] && drawn[1] != drawn[2] && drawn[0] != drawn[2]);
        assert_eq!(super::bytes::<0>().unwrap(), []);
    }
}
