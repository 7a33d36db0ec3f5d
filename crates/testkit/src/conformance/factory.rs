//! The interface between a method and the suite.

use causeway_transport::{Address, Method};

/// How the suite makes instances of a method.
pub trait Factory {
    /// The method under test.
    type Method: Method + 'static;

    /// A fresh instance that has nothing open yet.
    fn method(&self) -> Self::Method;

    /// An address to listen at, different at each call (or one that the method makes different
    /// itself, such as port 0).
    fn address(&self) -> Address;

    /// An address at which certainly no process listens now, and at which one may
    /// listen later.
    fn vacant(&self) -> Address {
        self.address()
    }

    /// A well-formed address that this method must refuse at once.
    fn foreign(&self) -> Address {
        "nosuchmethod://somewhere"
            .parse()
            .expect("a well-formed address")
    }
}
