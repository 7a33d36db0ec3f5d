//! The C interface as a C programmer meets it: installed into a prefix, found by pkg-config.
//!
//! [`prefix`] installs it the way `make install` does; [`contract`] compares header, version script and
//! library; [`programs`] runs what lies in `tests/c/`, and the example, against servers that are this test program.

#[path = "installed/contract.rs"]
mod contract;
#[path = "installed/prefix.rs"]
mod prefix;
#[path = "installed/programs.rs"]
mod programs;

/// Not a test of its own: the servers of the other tests are this program, run with this test and two
/// more arguments.
#[test]
fn server_process() {
    if std::env::var_os("CAUSEWAY_TEST_SERVER").is_none() {
        return;
    }
    let arguments: Vec<String> = std::env::args().collect();
    let [.., configuration, server] = &arguments[..] else {
        panic!("the configuration and the server's name must come last");
    };
    causeway_fs::server::serve(configuration.as_ref(), server, |_| Ok(())).unwrap();
    std::process::exit(0);
}
