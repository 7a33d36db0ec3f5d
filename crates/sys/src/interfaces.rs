//! This host's network interfaces and their addresses.

use std::ffi::CStr;
use std::io;
use std::net::IpAddr;
use std::path::Path;

/// What is behind an interface; what other hosts are likelier to be reached by comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InterfaceKind {
    /// A network card, also of a virtual machine.
    Card,
    /// Something else, such as a tunnel, or the only interface of a container.
    Other,
    /// A bridge, mostly between containers of this host, or further addresses of the loopback interface.
    Bridge,
}

impl InterfaceKind {
    fn of(interface: &str, is_loopback: bool) -> Self {
        let directory = Path::new("/sys/class/net").join(interface);
        if is_loopback || directory.join("bridge").exists() {
            Self::Bridge
        } else if directory.join("device").exists() {
            Self::Card
        } else {
            Self::Other
        }
    }
}

/// An address of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The interface's name.
    pub interface: String,
    /// What the interface is.
    pub kind: InterfaceKind,
    /// The address.
    pub address: IpAddr,
}

/// The addresses of this host's interfaces that are up, without those of the loopback and of single links.
pub fn own_addresses() -> io::Result<Vec<InterfaceAddress>> {
    let mut list = std::ptr::null_mut();
    // SAFETY: the pointer is valid for writes.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut at = list;
    // SAFETY: each entry is valid, and so is what it points to, until the list is freed; an address of a family has that
    // family's form, and a name ends with a zero.
    while let Some(entry) = unsafe { at.as_ref() } {
        at = entry.ifa_next;
        let has = |flag: libc::c_int| entry.ifa_flags & flag as libc::c_uint != 0;
        if !has(libc::IFF_UP) || entry.ifa_addr.is_null() {
            continue;
        }
        // SAFETY: as above.
        let (address, name) =
            unsafe { (address_of(entry.ifa_addr), CStr::from_ptr(entry.ifa_name)) };
        let Some(address) = address.filter(|address| !is_local(address)) else {
            continue;
        };
        let interface = name.to_string_lossy().into_owned();
        found.push(InterfaceAddress {
            kind: InterfaceKind::of(&interface, has(libc::IFF_LOOPBACK)),
            interface,
            address,
        });
    }
    // SAFETY: it is what `getifaddrs` returned, and nothing of it is used any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// Whether an address means something on this host, or on one link, alone.
fn is_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unicast_link_local(),
    }
}

/// The address in a socket address of any family.
///
/// # Safety
/// It is valid for reads of what its family's form has.
unsafe fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller's promise.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the caller's promise.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::from(v4.sin_addr.s_addr.to_ne_bytes()))
        }
        libc::AF_INET6 => {
            // SAFETY: the caller's promise.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::from(v6.sin6_addr.s6_addr))
        }
        _ => None,
    }
}
